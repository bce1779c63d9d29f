"""A PostgreSQL server for the tests that need one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sketches import server as postgres_server


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    pytest.importorskip("psycopg", reason="psycopg is not installed")
    folder, user = postgres_server.binaries(), postgres_server.account()
    if folder is None:
        pytest.skip("this machine has no PostgreSQL binaries")
    if user is None:
        pytest.skip("there is no user but root to run PostgreSQL as")
    with postgres_server.server(folder, user) as text:
        yield text


@pytest.fixture
def postgres(server: str) -> Iterator[object]:
    import psycopg

    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute("DROP SCHEMA IF EXISTS viewlet_sketches CASCADE")
        connection.execute("DROP SCHEMA public CASCADE")
        connection.execute("CREATE SCHEMA public")
        yield connection
