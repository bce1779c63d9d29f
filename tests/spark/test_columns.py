"""Many rows stay in columns on their way into partitions and out of views, and none becomes a tuple."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import viewlet.kept
from viewlet.backends.spark.cluster import SimulatedCluster
from viewlet.backends.spark.coordinate import Coordinator
from viewlet.backends.spark.engine import SparkEngine
from viewlet.connecting import connect
from viewlet.database import Database

pytestmark = pytest.mark.native

DDL = """CREATE TABLE r (k BIGINT NOT NULL, g VARCHAR, PRIMARY KEY (k));
         CREATE TABLE s (k BIGINT REFERENCES r (k), w BIGINT)"""
VIEWS = {
    "joined": "SELECT r.k, g, sum(w) AS w FROM r JOIN s ON r.k = s.k GROUP BY r.k, g",
    "by_g": "SELECT g, sum(w) AS w FROM r JOIN s ON r.k = s.k GROUP BY g",
    "late": "SELECT max(w) AS w FROM joined",
}
ROWS = 3_000


def filled(db: Database) -> Database:
    db.execute(DDL)
    numbers = np.arange(ROWS)
    db.insert("r", pa.table({"k": numbers, "g": [f"g{k % 7}" for k in numbers]}))
    db.insert("s", pa.table({"k": numbers.repeat(2), "w": np.arange(2 * ROWS) % 100}))
    return db


def test_views_over_many_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    here = filled(connect(backend="reference"))
    made: list[SparkEngine] = []

    def engine(_: object) -> SparkEngine:
        made.append(SparkEngine(lambda code: SimulatedCluster(code, 2)))
        return made[-1]

    there = filled(Database(backend=engine, strategy="auto", dialect="spark"))
    for name, sql in VIEWS.items():
        here.execute(f"CREATE MATERIALIZED VIEW {name} AS {sql}")

    def refuse(*_: object) -> None:
        raise AssertionError("rows became tuples")

    with monkeypatch.context() as patch:
        patch.setattr(viewlet.kept.Image, "rows", refuse)
        patch.setattr(Coordinator, "rows", refuse)
        for name in ("joined", "by_g"):
            there.execute(f"CREATE MATERIALIZED VIEW {name} AS {VIEWS[name]}")
        there.insert("s", pa.table({"k": [1, 2], "w": [1_000, 2_000]}))
        there.delete("s", pa.table({"k": np.arange(100), "w": 2 * np.arange(100) % 100}))
        found = {name: there.view(name).to_arrow() for name in ("joined", "by_g")}
        assert there.stats().views["joined"] == ROWS
    there.execute(f"CREATE MATERIALIZED VIEW late AS {VIEWS['late']}")
    here.insert("s", [(1, 1_000), (2, 2_000)])
    here.delete("s", [(k, 2 * k % 100) for k in range(100)])
    for name, shown in found.items():
        assert shown.equals(here.view(name).to_arrow()), name
    assert there.view("late").rows() == here.view("late").rows() != []
    for name in reversed(VIEWS):
        there.execute(f"DROP MATERIALIZED VIEW {name}")
    assert [engine._running for engine in made] == [None] * 3, "partitions are given up"
    there.close()
