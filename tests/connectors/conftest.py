"""A PostgreSQL server with logical replication, for the tests that need one."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from postgres_server import server_or_skip

SETTINGS = "-c wal_level=logical -c max_replication_slots=8 -c max_wal_senders=8 -c wal_sender_timeout=20s"


@pytest.fixture(scope="session")
def replicating_server() -> Iterator[str]:
    with server_or_skip(SETTINGS) as text:
        yield text


@pytest.fixture
def postgres(replicating_server: str) -> Iterator[Any]:
    """An open connection to an empty database of that server."""
    import psycopg

    with psycopg.connect(replicating_server, autocommit=True) as connection:
        yield connection
        connection.execute(
            "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE active_pid IS NOT NULL"
        )
        for (slot,) in connection.execute("SELECT slot_name FROM pg_replication_slots").fetchall():
            released = f"SELECT NOT active FROM pg_replication_slots WHERE slot_name = '{slot}'"
            while not connection.execute(released).fetchone()[0]:
                time.sleep(0.05)
            connection.execute(f"SELECT pg_drop_replication_slot('{slot}')")
        for (publication,) in connection.execute("SELECT pubname FROM pg_publication").fetchall():
            connection.execute(f'DROP PUBLICATION "{publication}"')
        connection.execute("DROP SCHEMA public CASCADE")
        connection.execute("CREATE SCHEMA public")
