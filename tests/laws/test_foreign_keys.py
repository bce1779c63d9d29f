"""Programs that rely on enforced foreign keys: every map equals its definition while the keys hold."""

from __future__ import annotations

from random import Random

import pytest

import viewlet
from laws.test_maintenance import check
from oracle.test_foreign_keys import ENFORCED, HINTS, VIEWS, Rows, applied, is_allowed, random_changes
from viewlet.backends.base import Bag, Change, Granularity
from viewlet.backends.reference.engine import ReferenceEngine
from viewlet.changes import read_row
from viewlet.plan.bags import consolidate
from viewlet.references import References
from viewlet.sql import compile_query
from viewlet.sql.catalog import Catalog
from viewlet.sql.parse import CreateTable, parse

CATALOG = Catalog(statement.table for statement in parse(ENFORCED) if isinstance(statement, CreateTable))


@pytest.mark.parametrize("granularity", ["tuple", "batch"])
@pytest.mark.parametrize("name", VIEWS)
def test_maps_and_views_stay_right(name: str, granularity: Granularity) -> None:
    random = Random(len(name))
    query = compile_query(VIEWS[name], CATALOG)
    references, engine = References(), ReferenceEngine()
    for table in CATALOG.values():
        references.add(table, CATALOG, {parent: [] for parent in CATALOG})
    contents: dict[str, Bag] = {table: {} for table in CATALOG}
    engine.create("v", query, CATALOG, contents, "higher_order")
    rows: Rows = {table: {} for table in CATALOG}
    for _ in range(60):
        batch = random_changes(random, rows)
        after = applied(rows, batch)
        if not is_allowed(rows, after):
            continue
        rows = after
        changes = {t: [Change(read_row(CATALOG[t], row), n) for row, n in own] for t, own in batch.items()}
        for table, own in references.steps(changes, CATALOG):
            pairs = [*contents[table].items(), *((change.row, change.weight) for change in own)]
            contents[table] = consolidate(pairs)
            engine.apply(table, own, granularity, frozenset())
        check(engine, query, CATALOG, contents)


def test_a_parent_joins_nothing() -> None:
    program = viewlet.compile(VIEWS["joined"], ENFORCED)
    assert [s.target for s in program.triggers["g"].statements] == ["g"]
    assert len(program.maps) < len(viewlet.compile(VIEWS["joined"], HINTS).maps)


def test_explain_says_what_need_not_be_done() -> None:
    assert (
        "nothing for p: (pg) REFERENCES g (gk) ON DELETE RESTRICT"
        in viewlet.compile(VIEWS["joined"], ENFORCED).explain()
    )
    assert "RESTRICT" not in viewlet.compile(VIEWS["joined"], HINTS).explain()
