"""A server in a thread of its own, as an application would have it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import viewlet
from viewlet import Database
from viewlet.pgwire import PgServer, in_background


@dataclass
class Served:
    """A database and the server that serves it."""

    db: Database
    server: PgServer

    @property
    def dsn(self) -> str:
        return f"host=127.0.0.1 port={self.server.port} user=ann dbname=market"

    @property
    def url(self) -> str:
        return f"ann@127.0.0.1:{self.server.port}/market"


@contextmanager
def serving(db: Database, **options: Any) -> Iterator[Served]:
    with in_background(db, port=0, **options) as server:
        yield Served(db, server)


def market() -> Database:
    db = viewlet.connect(backend="reference")
    db.execute(
        "CREATE TABLE bids "
        "(id BIGINT PRIMARY KEY, broker VARCHAR, price DECIMAL(10,2) NOT NULL, at TIMESTAMP)"
    )
    db.execute(
        "CREATE MATERIALIZED VIEW brokers AS SELECT broker, SUM(price) AS total, COUNT(*) AS n "
        "FROM bids GROUP BY broker"
    )
    db.insert("bids", [(1, "Ann", Decimal("2.50"), None), (2, None, Decimal("-1.25"), None)])
    return db
