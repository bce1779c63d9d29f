"""Ordered access paths: right for any data, and really without a loop where they are said to have none."""

from __future__ import annotations

from random import Random

import pytest

from laws.nested_sql import DDL, Generator, changes
from laws.test_maintenance import check
from viewlet.backends.base import Bag, Granularity, Strategy
from viewlet.backends.reference.engine import ReferenceEngine
from viewlet.backends.reference.maps import ReferenceMap
from viewlet.plan.bags import consolidate
from viewlet.plan.evaluate import evaluate_query
from viewlet.sql import compile_query
from viewlet.sql.catalog import Catalog
from viewlet.sql.parse import CreateTable, parse
from viewlet.triggers.compile import Compiler
from viewlet.triggers.work import ordered_paths
from viewlet.workloads import queries, schema

WAYS: list[tuple[Strategy, Granularity]] = [
    ("higher_order", "tuple"),
    ("higher_order", "batch"),
    ("auto", "tuple"),
    ("first_order", "tuple"),
]
SEEDS = [*range(80), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(80, 1200))]
EVENTS = 16


def catalog_of(ddl: str) -> Catalog:
    return Catalog(statement.table for statement in parse(ddl) if isinstance(statement, CreateTable))


@pytest.mark.parametrize("seed", SEEDS)
def test_random_nested_queries(seed: int) -> None:
    maintain(Generator(Random(seed)).query(), seed)


# Queries that random generation once found to be wrong.
FOUND = [
    # the distinct values have to be gone through: a search for each of them needs a value first
    """SELECT r.a FROM r
    WHERE r.d NOT IN (SELECT SUM(DISTINCT s.d) FROM s WHERE s.a >= r.a HAVING SUM(s.b) <> 0)""",
]


@pytest.mark.parametrize("seed", range(len(WAYS)))
@pytest.mark.parametrize("sql", FOUND)
def test_found_queries(sql: str, seed: int) -> None:
    maintain(sql, seed)


def maintain(sql: str, seed: int) -> None:
    """After every change the view equals its query run from scratch, and every map its definition."""
    random = Random(seed)
    catalog = catalog_of(DDL)
    query = compile_query(sql, catalog)
    strategy, granularity = WAYS[seed % len(WAYS)]
    contents: dict[str, Bag] = {name: {} for name in catalog}
    engine = ReferenceEngine()
    engine.create("v", query, catalog, contents, strategy)
    size = 1 if granularity == "tuple" else 3
    steps = list(changes(random, catalog, EVENTS * size, negatives=(0.0, 0.4)[seed % 3 == 0]))
    for start in range(0, len(steps), size):
        for table in catalog:
            own = [change for name, change in steps[start : start + size] if name == table]
            rows = [*contents[table].items(), *((change.row, change.weight) for change in own)]
            contents[table] = consolidate(rows)
            if own:
                engine.apply(table, own, granularity, frozenset())
        if start % (4 * size):
            assert engine.output("v") == evaluate_query(query, contents, catalog)
        else:
            check(engine, query, catalog, contents)


SEARCHED = {
    "finance": ["axf", "bsp", "psp", "vwap"],
    "nested": ["eq", "max_eq", "max_ineq", "nq1", "sq2", "vwap75"],
    "tpch": ["q11", "q15", "q17"],
}


@pytest.mark.parametrize(
    ("suite", "name"), [(suite, name) for suite, names in SEARCHED.items() for name in names]
)
def test_no_map_is_scanned(suite: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No statement of these goes through all entries of a map, once values have one sign."""
    catalog = catalog_of(schema(suite))
    query = compile_query(queries(suite)[name], catalog)
    engine = ReferenceEngine()
    lookup = ReferenceMap.lookup

    def refuse_scans(self: ReferenceMap, bound: tuple[int, ...], width: int) -> object:
        return scan if width and not bound else lookup(self, bound, width)

    def scan(values: object) -> object:
        raise AssertionError("a map is scanned")

    engine.create("v", query, catalog, {table: {} for table in catalog}, "higher_order")
    monkeypatch.setattr(ReferenceMap, "lookup", refuse_scans)
    engine._link()
    random = Random(1)
    tables = sorted(engine.program.triggers)
    for _ in range(40):
        table = random.choice(tables)
        ((_, change),) = changes(random, Catalog([catalog[table]]), 1, negatives=0.0)
        engine.apply(table, [change], "tuple", frozenset())


@pytest.mark.parametrize(
    ("sql", "paths"),
    [
        ("SELECT COUNT(*) FROM r JOIN s ON r.b < s.b", {"range aggregate"}),
        ("SELECT SUM(b) FROM r WHERE 9 < (SELECT SUM(b) FROM s WHERE s.a < r.a)", {"threshold search"}),
        ("SELECT SUM(b) FROM r WHERE EXISTS (SELECT 1 FROM s WHERE s.a < r.a)", {"threshold search"}),
        ("SELECT a, b FROM r WHERE b > (SELECT AVG(b) FROM r)", {"crossing"}),
        ("SELECT a, SUM(b) FROM r GROUP BY a HAVING SUM(b) > (SELECT AVG(b) FROM r)", {"crossing"}),
        (
            "SELECT COUNT(*) FROM (SELECT SUM(b) AS t FROM r GROUP BY a) WHERE t > (SELECT AVG(b) FROM r)",
            {"range aggregate"},
        ),
        ("SELECT SUM(b) FROM r WHERE 9 < (SELECT MAX(b) FROM s WHERE s.a < r.a)", {"ordered multiset"}),
        ("SELECT SUM(b) FROM r WHERE a = (SELECT MAX(b) FROM s)", {"ordered multiset"}),
    ],
)
def test_the_path_is_named(sql: str, paths: set[str]) -> None:
    catalog = catalog_of(DDL)
    compiler = Compiler(catalog, searches=True)
    compiler.add("v", compile_query(sql, catalog))
    statements = [s for trigger in compiler.program().triggers.values() for s in trigger.statements]
    named = {path.split(" along ")[0] for s in statements for path in ordered_paths(s.query)}
    assert paths <= named
    assert all(path in compiler.explain("v") for path in paths)
    assert not compiler.obstacles("v")
