"""After every change each map equals its definition, and the view equals its query run from scratch.

A wrong map behind a right result is the usual bug, so both are checked, under every strategy, row by row and
in batches.
"""

from __future__ import annotations

import pytest

from laws.maintenance import compiled, steps
from viewlet.backends.base import Bag, Change, Granularity, Strategy
from viewlet.backends.reference.engine import ReferenceEngine
from viewlet.calculus.evaluate import Tables
from viewlet.calculus.evaluate import evaluate_query as evaluate_calculus
from viewlet.errors import ProgramSizeError
from viewlet.plan.bags import consolidate
from viewlet.plan.evaluate import evaluate_query
from viewlet.plan.nodes import Query
from viewlet.sql.catalog import Catalog

SEEDS = [*range(14), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(14, 600))]
WAYS: list[tuple[Strategy, Granularity]] = [
    ("higher_order", "tuple"),
    ("higher_order", "batch"),
    ("first_order", "tuple"),
    ("first_order", "batch"),
    ("reevaluate", "batch"),
]
BATCH = 6


@pytest.mark.parametrize(("strategy", "granularity"), WAYS)
@pytest.mark.parametrize("seed", SEEDS)
def test_maps_and_views_stay_right(seed: int, strategy: Strategy, granularity: Granularity) -> None:
    found = compiled(seed)
    if found is None:
        pytest.skip("the front end refuses this query")
    case, catalog, query = found
    contents: dict[str, Bag] = {name: {} for name in catalog}
    engine = ReferenceEngine()
    try:
        engine.create("v", query, catalog, contents, strategy)
    except ProgramSizeError as refused:
        pytest.skip(f"the query must be recomputed: {refused}")
    check(engine, query, catalog, contents)
    changes = list(steps(case, catalog))
    size = 1 if granularity == "tuple" else BATCH
    for start in range(0, len(changes), size):
        by_table: dict[str, list[Change]] = {}
        for table, change in changes[start : start + size]:
            by_table.setdefault(table, []).append(change)
        for table, own in by_table.items():
            new = [*contents[table].items(), *((change.row, change.weight) for change in own)]
            contents[table] = consolidate(new)
            engine.apply(table, own, granularity, frozenset())
        check(engine, query, catalog, contents)


def check(engine: ReferenceEngine, query: Query, catalog: Catalog, contents: dict[str, Bag]) -> None:
    store = Tables({name: catalog[name].column_names for name in catalog}, contents)
    for definition in engine.program.maps.values():
        expected = evaluate_calculus(definition.definition, definition.keys, store)
        assert engine.contents(definition.name) == expected, f"map {definition.name}"
    assert engine.output("v") == evaluate_query(query, contents, catalog)
