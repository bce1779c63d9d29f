"""The harness accepts a right database and finds each kind of wrong one."""

from __future__ import annotations

import doctest
from collections import Counter
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from sqlglot import transpile

from oracle import compare, harness, mirror
from oracle.compare import difference
from oracle.harness import nullable, replay
from oracle.mirror import Mirror, question
from viewlet.workloads.stream import Batch, Stream, churn, with_nulls

DDL = "CREATE TABLE r (a BIGINT, b VARCHAR); CREATE TABLE s (a BIGINT, c DECIMAL(6,2));"
VIEWS = {
    "joined": "SELECT r.a, b, c FROM r LEFT JOIN s ON r.a = s.a",
    "grouped": "SELECT b, SUM(c) AS total, AVG(c) AS mean, COUNT(*) n FROM r, s WHERE r.a = s.a GROUP BY b",
    "top": "SELECT a, c FROM s ORDER BY c DESC, a LIMIT 3",
}
Fault = Callable[[Batch], Batch]


class Recomputing:
    """A database that answers every read by running the query in DuckDB, on batches seen through a fault."""

    def __init__(self, fault: Fault = lambda batch: batch) -> None:
        self.mirror, self.fault = Mirror(""), fault
        self.views: dict[str, Recomputed] = {}

    def execute(self, sql: str) -> None:
        words = sql.split(" AS ", 1)
        if "CREATE TABLE" in sql:
            self.mirror.create(sql)
        elif sql.startswith("CREATE MATERIALIZED VIEW"):
            name = words[0].split()[-1]
            self.views[name] = Recomputed(self.mirror, transpile(words[1], read="spark", write="duckdb")[0])

    def apply(self, batch: Batch, trigger: str) -> None:
        before = {name: Counter(view.rows()) for name, view in self.views.items()}
        self.mirror.apply(self.fault(batch))
        for name, view in self.views.items():
            view.publish(before[name])

    def view(self, name: str) -> Recomputed:
        return self.views[name]

    def table(self, name: str) -> Recomputed:
        return Recomputed(self.mirror, f"SELECT * FROM {name}")

    def close(self) -> None:
        self.mirror.connection.close()


class Recomputed:
    """A query that is run whenever it is read."""

    def __init__(self, mirror: Mirror, sql: str) -> None:
        self.mirror, self.sql = mirror, sql
        self.listeners: list[Callable[[pa.Table], None]] = []

    def to_arrow(self) -> pa.Table:
        return self.mirror.connection.sql(self.sql).to_arrow_table()

    def rows(self) -> list[tuple[Any, ...]]:
        return list(zip(*(column.to_pylist() for column in self.to_arrow().columns), strict=True))

    def subscribe(self, listener: Callable[[pa.Table], None]) -> None:
        self.listeners.append(listener)

    def publish(self, before: Counter[tuple[Any, ...]]) -> None:
        content = self.to_arrow()
        after = Counter(self.rows())
        kinds = {"insert": after - before, "delete": before - after}
        changes = [(*row, kind) for kind, rows in kinds.items() for row in rows.elements()]
        fields = [*content.schema, pa.field("_change_type", pa.string())]
        columns = list(zip(*changes, strict=True)) or [()] * len(fields)
        arrays = [pa.array(values, field.type) for values, field in zip(columns, fields, strict=True)]
        for listener in self.listeners:
            listener(pa.table(arrays, schema=pa.schema(fields)))


def kept(keep: Callable[[pa.Table], Any]) -> Fault:
    """A fault that loses the changes for which ``keep`` is false."""
    return lambda batch: {table: changes.filter(keep(changes)) for table, changes in batch.items()}


def no_nulls(changes: pa.Table) -> Any:
    known = np.ones(changes.num_rows, dtype=bool)
    for column in changes.columns:
        known &= column.is_valid().to_numpy()
    return pa.array(known)


FAULTS = {
    "loses deletions": kept(lambda changes: pc.greater(changes["_weight"], 0)),
    "loses weights": lambda batch: {
        table: changes.set_column(
            changes.column_names.index("_weight"), "_weight", pc.sign(changes["_weight"])
        )
        for table, changes in batch.items()
    },
    "loses NULLs": kept(no_nulls),
    "loses a table": lambda batch: {table: changes for table, changes in batch.items() if table != "s"},
}


def stream() -> Stream:
    rows = {
        "r": pa.table({"a": [1, 2, 2, 3, 4] * 4, "b": ["x", "y", "x", "z", "x"] * 4}),
        "s": pa.table(
            {"a": [1, 2, 3, 3] * 4, "c": pa.array([1.5, 2.25, 3, 4] * 4).cast(pa.decimal128(6, 2))}
        ),
    }
    return churn(with_nulls(rows, 0.15), seed=3)


@pytest.mark.parametrize("size", [1, 5, 1000])
def test_accepts_recomputation(size: int) -> None:
    found = replay(Recomputing(), DDL, VIEWS, stream().batches(size))
    assert set(found) == set(VIEWS)


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_finds_fault(fault: Fault) -> None:
    with pytest.raises(AssertionError, match=r"wrong after batch|not there"):
        replay(Recomputing(fault), DDL, VIEWS, stream().batches(5))


def test_finds_a_lossy_feed(monkeypatch: pytest.MonkeyPatch) -> None:
    publish = Recomputed.publish
    monkeypatch.setattr(Recomputed, "publish", lambda self, before: publish(self, Counter()))
    with pytest.raises(AssertionError, match="change feed"):
        replay(Recomputing(), DDL, VIEWS, stream().batches(5))


@pytest.mark.parametrize(("seed", "limit"), [(seed, limit) for seed in range(5) for limit in (1, 3, 10)])
def test_ties_at_the_limit_leave_a_choice(seed: int, limit: int) -> None:
    """Any rows that some total order would pick are right; rows beyond the tie, or too few, are not."""
    rng = np.random.default_rng(seed)
    rows = [(int(rng.integers(0, 4)), i) for i in range(12)]
    mirror = Mirror("CREATE TABLE r (k BIGINT, v BIGINT)")
    batch = pa.table({"k": [k for k, _ in rows], "v": [v for _, v in rows], "_weight": [1] * len(rows)})
    mirror.apply({"r": batch})
    answer = mirror.answer(question(f"SELECT v FROM r ORDER BY k LIMIT {limit}"))
    rng.shuffle(rows)
    order = sorted(rows, key=lambda row: row[0])
    chosen = [v for _, v in order[:limit]]
    assert not difference(pa.table({"v": chosen}), answer)
    assert difference(pa.table({"v": chosen[:-1] or [99]}), answer)
    beyond = next((v for k, v in order if k > order[limit - 1][0]), 99)
    assert difference(pa.table({"v": [*chosen[:-1], beyond]}), answer).unexpected == [(beyond,)]


def test_nullable_keeps_columns() -> None:
    ddl = (
        "CREATE TABLE r (a BIGINT NOT NULL PRIMARY KEY, b DECIMAL(15,2) NOT NULL REFERENCES s (b));"
        "CREATE TABLE s (b INT)"
    )
    assert nullable(ddl) == "CREATE TABLE r (a BIGINT, b DECIMAL(15, 2));\nCREATE TABLE s (b INT);"


@pytest.mark.parametrize("module", [compare, harness, mirror], ids=lambda module: module.__name__)
def test_examples(module: ModuleType) -> None:
    failed, tried = doctest.testmod(module)
    assert tried
    assert not failed
