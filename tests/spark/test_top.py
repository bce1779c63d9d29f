"""The first rows of views with LIMIT, found in partitions: the plan's own meaning is the oracle."""

from __future__ import annotations

import random

import pytest

from viewlet.backends.base import Change, Row
from viewlet.backends.spark.cluster import SimulatedCluster
from viewlet.backends.spark.engine import SparkEngine
from viewlet.backends.spark.native import SiteCode
from viewlet.backends.spark.nodes import DistProgram
from viewlet.backends.spark.site import Held, Wanted
from viewlet.backends.spark.top import first_rows
from viewlet.errors import ValueRangeError
from viewlet.plan.bags import Bag
from viewlet.plan.evaluate import evaluate_query
from viewlet.sql import compile_query
from viewlet.sql.catalog import Catalog
from viewlet.sql.parse import parse

CATALOG = Catalog(
    statement.table  # type: ignore[union-attr]
    for statement in parse(
        "CREATE TABLE r (k BIGINT, x BIGINT, t VARCHAR); CREATE TABLE s (k BIGINT, y BIGINT)"
    )
)
BY_KEY = {"r": "k", "s": "k"}
SPREAD = (
    "SELECT k, x FROM r ORDER BY x LIMIT 3",
    "SELECT k, x FROM r ORDER BY x DESC NULLS LAST, t LIMIT 2 OFFSET 2",
    "SELECT t, x, k FROM r ORDER BY x NULLS FIRST LIMIT 4",
    "SELECT k, sum(x) AS total FROM r GROUP BY k ORDER BY total DESC LIMIT 2",
    "SELECT k, count(*) AS n, min(x) AS least FROM r GROUP BY k ORDER BY n, least DESC LIMIT 3 OFFSET 1",
    "SELECT r.k, x, y FROM r JOIN s ON r.k = s.k ORDER BY x + y DESC LIMIT 3",
    "SELECT k, x FROM r UNION ALL SELECT k, y FROM s ORDER BY x LIMIT 3",
    "SELECT r.k, x, y FROM r JOIN s ON r.x = s.y ORDER BY x LIMIT 3",
    "SELECT k, x FROM r LIMIT 2",
    "SELECT k, x FROM r ORDER BY x LIMIT 0",
    "SELECT x FROM r ORDER BY k, t LIMIT 3",  # the key is no column of the result, but the order keeps it
)
GATHERED = (
    "SELECT k, x FROM r ORDER BY x",
    "SELECT k, x FROM r ORDER BY x OFFSET 1",
    "SELECT k, x FROM r ORDER BY x LIMIT 10001",
    "SELECT t, x FROM r ORDER BY x LIMIT 3",  # equal rows may be in several partitions
    "SELECT k + 1 AS next, x FROM r ORDER BY x LIMIT 3",
)


class Watched(SimulatedCluster):
    """Remembers what was read apart from batches."""

    def read(self, wanted: Wanted) -> list[Held]:
        reads.append(wanted)
        return super().read(wanted)


reads: list[Wanted] = []


def engine(sql: str, partitions: int, native: bool) -> SparkEngine:
    def cluster(code: SiteCode) -> SimulatedCluster:
        return Watched(code, partitions)

    found = SparkEngine(cluster, BY_KEY, native=native)
    found.create("v", compile_query(sql, CATALOG), CATALOG, {name: {} for name in CATALOG}, "higher_order")
    return found


@pytest.mark.parametrize("sql", SPREAD)
def test_partitions_find_the_first_rows(sql: str) -> None:
    assert "view v: first " in engine(sql, 2, native=False).explain("v")


@pytest.mark.parametrize("sql", GATHERED)
def test_what_they_cannot_tell_alone_is_gathered(sql: str) -> None:
    assert "view v: first " not in engine(sql, 2, native=False).explain("v")


def follow(sql: str, seed: int, native: bool) -> int:
    """Random insertions and deletions with ties, duplicates and NULLs; how often something was to be cut."""
    rng = random.Random(seed)
    query, found = compile_query(sql, CATALOG), engine(sql, rng.choice([1, 2, 3]), native)
    held: dict[str, Bag] = {"r": {}, "s": {}}
    full = 0
    for _ in range(8):
        for table, bag in held.items():
            changes = []
            for _ in range(rng.randrange(6)):
                key, number = rng.choice([None, 1, 2, 3, 4, 5]), rng.choice([None, 0, 1, 2, -1])
                row = (key, number, rng.choice(["a", "b"])) if table == "r" else (key, number)
                if bag and rng.random() < 0.4:
                    row = rng.choice(list(bag))
                    changes.append(Change(row, -bag.pop(row)))
                else:
                    bag[row] = bag.get(row, 0) + 1
                    changes.append(Change(row, 1))
            found.apply(table, changes, "batch", frozenset())
        found.check(["v"])
        assert found.output("v") == evaluate_query(query, held, CATALOG)
        full += len(held["r"]) > 4
    return full


@pytest.mark.parametrize("sql", SPREAD)
def test_random_changes(sql: str) -> None:
    assert sum(follow(sql, seed, native=False) for seed in range(8)) > 8


@pytest.mark.native
@pytest.mark.parametrize("sql", [SPREAD[4], *(pytest.param(q, marks=pytest.mark.slow) for q in SPREAD)])
def test_random_changes_in_native_code(sql: str) -> None:
    assert sum(follow(sql, seed, native=True) for seed in range(8)) > 8


def test_rows_that_were_read_come_with_the_next_batch() -> None:
    found = engine(SPREAD[0], 2, native=False)
    reads.clear()
    for number in range(3):
        found.apply("r", [Change((number, number, "a"), 1)], "batch", frozenset())
        found.check(["v"])
        assert len(found.output("v")) == number + 1
    assert reads == [Wanted(checks=("v",)), Wanted(rows=("v",))], "only after the first batch"


@pytest.mark.native
def test_native_code_makes_no_row_that_is_not_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither when rows are read nor when they come with a batch, however many there are."""
    made = []

    def counted(program: DistProgram, view: str, pairs: list[tuple[Row, int]]) -> Bag:
        made.append(len(pairs))
        return first_rows(program, view, pairs)

    monkeypatch.setattr("viewlet.backends.spark.site.first_rows", counted)
    found = engine(SPREAD[4], 2, native=True)
    for number in range(2):
        found.apply("r", [Change((10 * k + number, k, "a"), 1) for k in range(40)], "batch", frozenset())
        found.check(["v"])
        assert len(found.output("v")) == 3
    assert made == [4] * 4, "of two partitions, LIMIT 3 OFFSET 1, twice"


@pytest.mark.parametrize("native", [False, pytest.param(True, marks=pytest.mark.native)])
def test_a_batch_after_which_a_row_cannot_be_read_is_refused(native: bool) -> None:
    found = engine("SELECT k, 10 / sum(x) AS part FROM r GROUP BY k ORDER BY part LIMIT 2", 2, native)
    assert "view v: first " in found.explain("v")
    found.apply("r", [Change((1, 5, "a"), 1), Change((2, 2, "a"), 1)], "batch", frozenset())
    found.check(["v"])
    before = found.output("v")
    for row in ((1, -5, "a"), (9, 0, "b")):
        found.apply("r", [Change(row, 1)], "batch", frozenset())
        with pytest.raises(ValueRangeError):
            found.check(["v"])
        assert found.output("v") == before
