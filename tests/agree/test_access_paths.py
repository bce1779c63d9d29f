"""Random nested queries: native code and the reference agree, whatever access paths serve them."""

from __future__ import annotations

from random import Random

import pytest

from agree.agreement import Pair
from laws.nested_sql import DDL, Generator, changes
from viewlet.backends.base import Change
from viewlet.sql.catalog import Catalog
from viewlet.sql.parse import CreateTable, parse

pytestmark = pytest.mark.native
SEEDS = [*range(5), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(5, 150))]
EVENTS = 40


@pytest.mark.parametrize("seed", SEEDS)
def test_random_nested_queries(seed: int) -> None:
    random = Random(10_000 + seed)
    maintain(random, Generator(random).query(), (0.0, 0.4)[seed % 3 == 0])


@pytest.mark.parametrize("negatives", [0.0, 0.4])
@pytest.mark.parametrize("more", ["", " AND (SELECT COUNT(*) FROM r) > 6"])
@pytest.mark.parametrize(("outer", "inner"), [("<=", "<"), ("<", "<="), (">", ">="), (">=", ">"), ("<", ">")])
def test_running_sums_of_a_part(outer: str, inner: str, more: str, negatives: float) -> None:
    """A sum up to each key of what a nested sum lets through: from some key on, up to one, or not at all."""
    nested = f"SELECT SUM(t.b) FROM s t WHERE t.a {inner} s.a"
    part = f"SELECT SUM(s.b) FROM s WHERE s.a {outer} r.a AND 2 < ({nested}){more}"
    maintain(Random(7), f"SELECT SUM(b), COUNT(*) FROM r WHERE 5 < ({part})", negatives)


@pytest.mark.parametrize("negatives", [0.0, 0.4])
@pytest.mark.parametrize("extent", ["2 * s.a <= r.a + 3", "s.a - 1 < r.a", "3 * s.a < r.d", "s.a <= 2 * r.a"])
@pytest.mark.parametrize("comparison", ["4 <", "4 >=", "0 <=", "9 >"])
def test_sums_of_another_extent(extent: str, comparison: str, negatives: float) -> None:
    """The entry at which a sum passes a threshold tells the keys that reach so far."""
    sql = f"SELECT SUM(b), COUNT(*) FROM r WHERE {comparison} (SELECT SUM(s.b) FROM s WHERE {extent})"
    maintain(Random(5), sql, negatives)


@pytest.mark.parametrize("comparison", ["0 <", "1 >", "0 >="])
@pytest.mark.parametrize("op", ["<=", ">"])
def test_an_edge_along_an_index_that_empties(op: str, comparison: str) -> None:
    """The keys of ``r`` lie on a side of an edge that is sought along ``s``, also when nothing is there."""
    catalog = Catalog(statement.table for statement in parse(DDL) if isinstance(statement, CreateTable))
    sql = f"SELECT SUM(b), COUNT(*) FROM r WHERE {comparison} (SELECT COUNT(s.b) FROM s WHERE s.a {op} r.a)"
    pair = Pair(catalog, {"v": sql})
    row = (2, 5, None, None)
    for table, weight in (("r", 1), ("s", 1), ("s", -1), ("r", 1), ("s", 1), ("r", -2), ("s", -1)):
        pair.apply(table, [Change(row, weight)], "tuple")
        pair.check()


@pytest.mark.parametrize("negatives", [0.0, 0.4])
def test_an_edge_that_rounding_keeps_from_being_sought(negatives: float) -> None:
    """A DOUBLE sum against the best of another order: what a search would note is dropped with the search."""
    nested = "SELECT SUM(s.f) FROM s WHERE s.a <= r.a"
    best = "SELECT MAX(t.f) FROM r t WHERE t.a > r.a"
    maintain(Random(3), f"SELECT SUM(b) FROM r WHERE ({nested}) >= ({best})", negatives)


def maintain(random: Random, sql: str, negatives: float) -> None:
    """Native code and the reference agree on the way."""
    catalog = Catalog(statement.table for statement in parse(DDL) if isinstance(statement, CreateTable))
    pair = Pair(catalog, {"v": sql})
    pair.check()
    steps = list(changes(random, catalog, EVENTS, negatives=negatives))
    for i, (table, change) in enumerate(steps):
        pair.apply(table, [change], "tuple")
        if i % 4 == 0:
            pair.check()
    pair.check()
