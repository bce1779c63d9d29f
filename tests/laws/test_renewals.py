"""Entries that are found anew after an event, by searches, where their increments would scan a group.

VWAP by broker and its kin: maps equal their definitions after every event, on one engine and on partitions.
"""

from __future__ import annotations

from random import Random

import pytest

import viewlet
from laws.test_maintenance import check
from viewlet import workloads
from viewlet.backends.base import Bag, Change, Granularity
from viewlet.backends.reference.engine import ReferenceEngine
from viewlet.backends.spark.cluster import SimulatedCluster
from viewlet.backends.spark.coordinate import Coordinator
from viewlet.backends.spark.distribute import distribute
from viewlet.backends.spark.native import site_codes
from viewlet.backends.spark.nodes import Random as Anywhere
from viewlet.backends.spark.place import place
from viewlet.backends.spark.site import Changes
from viewlet.errors import ProgramSizeError
from viewlet.plan.evaluate import consolidate
from viewlet.sql import compile_query
from viewlet.sql.catalog import Catalog
from viewlet.sql.parse import CreateTable, parse
from viewlet.triggers.compile import Compiler, compile_views
from viewlet.triggers.order import reads
from viewlet.triggers.program import Statement
from viewlet.triggers.reach import part_of
from viewlet.triggers.work import is_at_most_logarithmic

DDL = "CREATE TABLE b (k BIGINT, p BIGINT, v BIGINT, g BIGINT NOT NULL)"
CATALOG = Catalog(statement.table for statement in parse(DDL) if isinstance(statement, CreateTable))

TOTAL = "(SELECT SUM(t.v) FROM b t WHERE t.k = x.k)"
ABOVE = "(SELECT SUM(a.v) FROM b a WHERE a.k = x.k AND a.p > x.p)"
QUERIES = {
    "vwap": f"SELECT x.k, SUM(x.p * x.v) AS s FROM b x WHERE 0.25 * {TOTAL} > {ABOVE} GROUP BY x.k",
    "from the other end": "SELECT x.k, COUNT(*) AS n, SUM(x.v) AS s FROM b x "
    f"WHERE 0.5 * {TOTAL} >= (SELECT SUM(a.v) FROM b a WHERE a.k = x.k AND a.p <= x.p) GROUP BY x.k",
    "by two keys": "SELECT x.k, x.g, SUM(x.p) AS s FROM b x "
    "WHERE 0.5 * (SELECT SUM(t.v) FROM b t WHERE t.k = x.k AND t.g = x.g) "
    "> (SELECT SUM(a.v) FROM b a WHERE a.k = x.k AND a.g = x.g AND a.p > x.p) GROUP BY x.k, x.g",
    "of another column": "SELECT x.k, SUM(x.p) AS s FROM b x "
    "WHERE 0.5 * (SELECT SUM(t.v) FROM b t WHERE t.g = x.k) "
    "> (SELECT SUM(a.v) FROM b a WHERE a.g = x.k AND a.p > x.p) GROUP BY x.k",
}
BY_ROW = "SELECT x.k FROM b x WHERE EXISTS (SELECT 1 FROM b y WHERE y.p + y.v = x.p)"
"""Only single rows restrict what changes, so there is no trigger for batches of the table."""

SEEDS = [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 12))]


def some_changes(random: Random, bag: Bag) -> list[Change]:
    """A few rows come and go, now and then all of a group; volumes change their sign, values are NULL."""
    present = [row for row, n in bag.items() for _ in range(n)]
    if present and random.random() < 0.1:
        group = random.choice(present)[0]
        return [Change(row, -1) for row in present if row[0] == group]
    gone = random.sample(present, min(len(present), random.randrange(3)))
    come = [
        (
            random.choice([None, 1, 1, 2]),
            random.choice([None, 1, 2, 3, 4, 5]),
            random.choice([None, -2, 0, 1, 2, 3]),
            random.choice([1, 2]),
        )
        for _ in range(random.randrange(1, 4))
    ]
    return [*(Change(row, -1) for row in gone), *(Change(row, random.choice([1, 1, 2])) for row in come)]


@pytest.mark.parametrize("name", QUERIES)
def test_one_row_takes_searches_alone(name: str) -> None:
    program = compile_views({"v": compile_query(QUERIES[name], CATALOG)}, CATALOG, searches=True)
    trigger = program.triggers["b"]
    assert trigger.recomputations
    assert all(statement.is_of_one_entry for statement in trigger.recomputations)
    assert all(is_at_most_logarithmic(statement.query) for statement in trigger.statements)


@pytest.mark.parametrize("granularity", ["tuple", "auto"])
@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.parametrize("seed", SEEDS)
def test_maps_and_views_stay_right(seed: int, name: str, granularity: Granularity) -> None:
    random = Random(f"{seed}/{name}/{granularity}")
    query = compile_query(QUERIES[name], CATALOG)
    contents: dict[str, Bag] = {"b": {}}
    engine = ReferenceEngine()
    engine.create("v", query, CATALOG, contents, "higher_order")
    for _ in range(30):
        changes = some_changes(random, contents["b"])
        pairs = [*contents["b"].items(), *((change.row, change.weight) for change in changes)]
        contents["b"] = consolidate(pairs)
        engine.apply("b", changes, granularity, frozenset())
        check(engine, query, CATALOG, contents)


@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("native", [False, pytest.param(True, marks=pytest.mark.native)])
def test_partitions_agree(native: bool, partitions: int) -> None:
    """Rows are applied one by one there, so that entries are found anew in partitions too."""
    random = Random(f"{native}/{partitions}")
    engine, bag = ReferenceEngine(), Bag()
    engine.create("vwap", compile_query(QUERIES["vwap"], CATALOG), CATALOG, {"b": {}}, "higher_order")
    engine.create("by row", compile_query(BY_ROW, CATALOG), CATALOG, {"b": {}}, "higher_order")
    program = engine.program
    assert not program.batch_triggers
    distributed = distribute(program, place(program, {}, {"b": "k"}), Anywhere())
    driver, partition = site_codes(distributed, native)
    coordinator = Coordinator(driver, partition, SimulatedCluster(partition, partitions))
    coordinator.load({name: dict(engine.contents(name)) for name in program.maps})
    for _ in range(12):
        changes = some_changes(random, bag)
        bag = consolidate([*bag.items(), *((change.row, change.weight) for change in changes)])
        engine.apply("b", changes, "tuple", frozenset())
        for change in changes:
            coordinator.apply([("b", Changes([change.row], [change.weight]))])
        held = coordinator.contents(list(program.maps))
        for name in part_of(program, "vwap").maps:
            assert held[name] == dict(engine.contents(name)), name


@pytest.mark.parametrize("name", ["q19", "q20"])
def test_an_entry_is_not_found_in_itself(name: str) -> None:
    """A definition that is one map as a whole is the target: there is nothing else to find it in."""
    program = viewlet.compile(workloads.queries("tpch")[name], workloads.schema("tpch"))
    for trigger in program.triggers.values():
        assert all(s.target not in reads(s.query) for s in trigger.recomputations)


def test_an_attempt_that_is_too_long_leaves_no_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Increments stay where the entry anew would be refused for its length, and names are as before."""

    def too_long(compiler: Compiler, *_: object) -> Statement:
        compiler.names.fresh("burnt")
        raise ProgramSizeError("too long")

    monkeypatch.setattr(Compiler, "_renewed", too_long)
    compiler = Compiler(CATALOG, searches=True)
    compiler.add("v", compile_query(QUERIES["vwap"], CATALOG))
    assert compiler.names.fresh("burnt") == "burnt"
    assert not any(trigger.recomputations for trigger in compiler.program().triggers.values())
