"""What subscribers are told adds up to the view, whichever way the engine finds it."""

from __future__ import annotations

import random
from collections import Counter
from itertools import cycle
from typing import Any

import pyarrow as pa
import pytest

import viewlet
from oracle.harness import nullable
from viewlet.backends.native.engine import NativeEngine
from viewlet.errors import ViewletError
from viewlet.workloads import miniature, order_book, queries, schema
from viewlet.workloads.stream import Stream, churn, with_nulls

pytestmark = pytest.mark.native

TABLES = "CREATE TABLE r (a BIGINT, b BIGINT); CREATE TABLE s (a BIGINT, c DOUBLE, n VARCHAR)"
TELLING = {
    "grouped": "SELECT a, SUM(b) AS t, COUNT(*) AS n, AVG(b) AS m FROM r GROUP BY a",
    "extremes": "SELECT a, MIN(b) AS low, MAX(b) AS high FROM r GROUP BY a",
    "distinct_b": "SELECT a, COUNT(DISTINCT b) AS n FROM r GROUP BY a",
    "named": "SELECT n, COUNT(*) AS k, SUM(c) AS t FROM s GROUP BY n",
    "joined": "SELECT r.a, b, c, n FROM r LEFT JOIN s ON r.a = s.a",
    "sorted": "SELECT a, b FROM r ORDER BY b",
    "above": "SELECT a, SUM(b) AS t FROM r GROUP BY a HAVING SUM(b) > (SELECT AVG(b) FROM r)",
}
COMPARING = {
    "cut": "SELECT a, SUM(b) AS t FROM r GROUP BY a ORDER BY t DESC, a LIMIT 2",
    "above_a_view": "SELECT COUNT(*) AS n, SUM(t) AS t FROM grouped",
}


class Mirror:
    """Adds up what a view's subscribers are told."""

    def __init__(self, db: viewlet.Database, view: str) -> None:
        self._db, self._view, self.news = db, view, 0
        self._rows: Counter[tuple[Any, ...]] = Counter()
        db.view(view).subscribe(self._take, snapshot=True, weights=True)

    def _take(self, change: pa.Table) -> None:
        self.news += 1
        for row in change.to_pylist():
            weight = row.pop("_weight")
            assert weight
            self._rows[tuple(row.values())] += weight

    def check(self) -> None:
        told = Counter({row: n for row, n in self._rows.items() if n})
        assert told == Counter(self._db.view(self._view).rows()), self._view


@pytest.fixture(scope="module")
def db() -> viewlet.Database:
    db = viewlet.connect(backend="native")
    db.execute(TABLES)
    for name, query in {**TELLING, **COMPARING}.items():
        db.execute(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    return db


def engine_of(db: viewlet.Database, view: str) -> NativeEngine:
    engine = db._views[view].engine
    assert isinstance(engine, NativeEngine)
    return engine


def test_which_views_tell(db: viewlet.Database) -> None:
    assert [name for name in TELLING if not engine_of(db, name).tells(name)] == []
    assert [name for name in COMPARING if engine_of(db, name).tells(name)] == []


@pytest.mark.parametrize("seed", range(3))
def test_changes_add_up_to_the_view(db: viewlet.Database, seed: int) -> None:
    draw = random.Random(seed)
    mirrors = [Mirror(db, name) for name in (*TELLING, *COMPARING)]
    rows: dict[str, list[dict[str, Any]]] = {"r": [], "s": []}

    def drawn(table: str) -> dict[str, Any]:
        number = lambda n: None if draw.random() < 0.1 else draw.randrange(n)  # noqa: E731
        if table == "r":
            return {"a": number(4), "b": number(6)}
        text = draw.choice([None, "x", "", "longer than a word", f"n{draw.randrange(9)}"])
        return {"a": number(4), "c": draw.choice([None, 0.5, -2.0]), "n": text}

    for _ in range(40):
        batch: dict[str, list[dict[str, Any]]] = {}
        for table, present in rows.items():
            for _ in range(draw.randrange(5)):
                goes = bool(present) and draw.random() < 0.45
                row = present.pop(draw.randrange(len(present))) if goes else drawn(table)
                if not goes:
                    present.append(row)
                batch.setdefault(table, []).append({**row, "_weight": -1 if goes else 1})
        if batch:
            db.apply(batch, trigger=draw.choice(["auto", "tuple", "batch"]))
        for mirror in mirrors:
            mirror.check()
    db.apply({t: [{**row, "_weight": -1} for row in present] for t, present in rows.items() if present})
    for mirror in mirrors:
        mirror.check()


def test_a_refused_batch_is_no_news(db: viewlet.Database) -> None:
    mirrors = [Mirror(db, name) for name in TELLING]
    db.insert("r", [(1, 2**62)])
    before = [mirror.news for mirror in mirrors]
    with pytest.raises(ViewletError, match="out of range"):
        db.insert("r", [(7, 1), (1, 2**62), (1, 2**62)])
    assert [mirror.news for mirror in mirrors] == before
    db.insert("r", [(7, 1)])
    db.delete("r", [(1, 2**62), (7, 1)])
    for mirror in mirrors:
        mirror.check()


def test_strings_that_come_and_go_are_told_as_they_were() -> None:
    """Ids of strings are reused when many are gone: not while changes are noted that name them."""
    db = viewlet.connect(backend="native")
    db.execute("CREATE STREAM s (n VARCHAR, k BIGINT); CREATE STREAM t (n VARCHAR)")
    db.execute("CREATE MATERIALIZED VIEW v AS SELECT n, SUM(k) AS k FROM s GROUP BY n")
    db.execute(
        "CREATE MATERIALIZED VIEW w AS SELECT s.n, COUNT(*) AS k FROM s JOIN t ON s.n = t.n GROUP BY s.n"
    )
    mirrors = [Mirror(db, "v"), Mirror(db, "w")]
    for batch in range(3):
        names = pa.array([f"string number {batch * 3_000 + i}" for i in range(3_000)])
        came = {"s": pa.table({"n": names, "k": pa.array([1] * 3_000)}), "t": pa.table({"n": names})}
        db.apply(came)
        gone = pa.array([-1] * 3_000)
        db.apply({table: rows.append_column("_weight", gone) for table, rows in came.items()})
        for mirror in mirrors:
            mirror.check()


@pytest.mark.parametrize("weights", [True, False])
def test_a_burst_is_told_as_columns_and_reads_the_same(
    weights: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same changes with few and with many keys at which Arrow begins."""
    draw = random.Random(4)
    texts = [None, "", "x", "yy", "longer than eight"]
    rows = [
        (draw.choice([None, 1, 2, 3]), draw.choice(texts), draw.choice([None, 0.0, 1.5])) for _ in range(80)
    ]
    signs = [draw.choice([1, 2]) for _ in rows]
    heard: list[list[dict[str, Any]]] = []
    for many in (0, 10**6):
        monkeypatch.setattr("viewlet.refresh.MANY", many)
        db = viewlet.connect(backend="native")
        db.execute("CREATE STREAM s (a BIGINT, n VARCHAR, c DOUBLE)")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT a, n, c, COUNT(*) AS k FROM s GROUP BY a, n, c")
        db.execute("CREATE MATERIALIZED VIEW u AS SELECT a, n FROM v")
        db.execute("CREATE MATERIALIZED VIEW w AS SELECT n, SUM(k) AS k FROM v GROUP BY n")
        told: list[dict[str, Any]] = []
        for view in "vuw":
            db.view(view).subscribe(
                lambda change, told=told: told.extend(change.to_pylist()), weights=weights
            )
        columns = dict(zip("anc", map(list, zip(*rows, strict=True)), strict=True))
        for sign in (1, 1, -1):
            db.apply({"s": pa.table({**columns, "_weight": [sign * n for n in signs]})})
        heard.append(told)
        assert db.stats().views == {name: len(db.view(name)) for name in "vuw"}
    assert heard[0] == heard[1]
    assert heard[0]


def _streams() -> dict[str, Stream]:
    book = order_book.stream(600, order_book.drawn(30), tick=400, nulls=0.02, deletions=0.4, lifetime=60)
    tables = with_nulls(miniature.tables(orders=40), 0.02)
    return {"finance": book, "nested": book, "tpch": churn(tables, seed=2, deletions=0.7)}


@pytest.mark.slow
@pytest.mark.parametrize("suite", ["finance", "nested", "tpch"])
def test_changes_of_every_query_of_the_workloads_add_up(suite: str) -> None:
    db = viewlet.connect(backend="native")
    db.execute(nullable(schema(suite)))
    reading = set(db.catalog)
    for name, query in queries(suite).items():
        db.execute(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    mirrors = [Mirror(db, name) for name in queries(suite)]
    for trigger, batch in zip(cycle(("auto", "tuple", "batch")), _streams()[suite].batches(20), strict=False):
        db.apply({table: rows for table, rows in batch.items() if table in reading}, trigger=trigger)
        for mirror in mirrors:
            mirror.check()
