"""A PostgreSQL server for the tests that need one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from postgres_server import server_or_skip


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    with server_or_skip() as text:
        yield text


@pytest.fixture
def postgres(server: str) -> Iterator[object]:
    import psycopg

    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute("DROP SCHEMA IF EXISTS viewlet_sketches CASCADE")
        connection.execute("DROP SCHEMA public CASCADE")
        connection.execute("CREATE SCHEMA public")
        yield connection
