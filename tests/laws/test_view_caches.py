"""View caches hold what they say, are read where they are said to be, and are kept without scans."""

from __future__ import annotations

from random import Random

import pytest

from laws.cached_sql import CONDITIONS, DDL, FORMS, cached_query
from laws.nested_sql import changes
from laws.test_maintenance import check
from viewlet.backends.base import Bag, Granularity
from viewlet.backends.reference.engine import ReferenceEngine
from viewlet.plan.bags import consolidate
from viewlet.plan.evaluate import evaluate_query
from viewlet.sql import compile_query
from viewlet.sql.catalog import Catalog
from viewlet.sql.parse import CreateTable, parse
from viewlet.triggers.caches import cached_domain
from viewlet.triggers.compile import Compiler, alternatives
from viewlet.triggers.cost import Statistics
from viewlet.triggers.program import Program
from viewlet.triggers.work import order_of

CATALOG = Catalog(statement.table for statement in parse(DDL) if isinstance(statement, CreateTable))
PAIRS = [(form, condition) for form in FORMS for condition in CONDITIONS]
# Each form meets two conditions here, and all of them in the long run.
QUICK = {pair for i, pair in enumerate(PAIRS) if i % len(CONDITIONS) in (i // 6 % 6, (i // 6 + 3) % 6)}
CASES = [p if p in QUICK else pytest.param(*p, marks=pytest.mark.slow) for p in PAIRS]
EVENTS = 24


def compiled(sql: str, statistics: Statistics | None = None) -> Compiler:
    compiler = Compiler(CATALOG, searches=True, statistics=statistics or Statistics())
    compiler.add("v", compile_query(sql, CATALOG), "view_caches")
    return compiler


def caches(program: Program) -> set[str]:
    return {name for name, definition in program.maps.items() if cached_domain(definition) is not None}


@pytest.mark.parametrize("granularity", ["tuple", "batch"])
@pytest.mark.parametrize(("form", "condition"), CASES)
def test_maps_and_views_stay_right(form: str, condition: str, granularity: Granularity) -> None:
    query = compile_query(cached_query(form, condition), CATALOG)
    contents: dict[str, Bag] = {name: {} for name in CATALOG}
    engine = ReferenceEngine()
    engine.create("v", query, CATALOG, contents, "view_caches")
    assert caches(engine.program)
    steps = list(changes(Random(PAIRS.index((form, condition))), CATALOG, EVENTS, negatives=0.3))
    size = 1 if granularity == "tuple" else 5
    for start in range(0, len(steps), size):
        for table in CATALOG:
            own = [change for name, change in steps[start : start + size] if name == table]
            rows = [*contents[table].items(), *((change.row, change.weight) for change in own)]
            contents[table] = consolidate(rows)
            if own:
                engine.apply(table, own, granularity, frozenset())
        check(engine, query, CATALOG, contents)


def test_a_change_of_what_is_summed_scans_what_asks_and_nothing_else() -> None:
    program = compiled(cached_query("threshold", "product")).program()
    for statement in program.triggers["b"].statements:
        assert " x " not in order_of(statement.query)
        assert "b" not in order_of(statement.query).strip("O()").split(" + ")


def test_caches_are_shared_by_views_and_dropped_with_the_last() -> None:
    compiler = compiled(cached_query("threshold", "product"))
    compiler.add("w", compile_query(cached_query("rows", "unequal"), CATALOG), "view_caches")
    held = caches(compiler.program())
    more = compiler.add(
        "u",
        compile_query("SELECT a.z FROM a WHERE a.v > (SELECT sum(w) FROM b t WHERE a.x * t.y > 5)", CATALOG),
        "view_caches",
    )
    assert caches(compiler.program()) == held
    assert more
    for name in ("v", "w", "u"):
        compiler.drop(name)
    assert not compiler.program().maps
    compiler.add("v", compile_query(cached_query("threshold", "product"), CATALOG), "view_caches")
    assert caches(compiler.program())


def test_who_asks_elsewhere_has_a_cache_of_its_own() -> None:
    """The values that rows of c ask for are not those that rows of a ask for."""
    views = {
        "v": cached_query("threshold", "product"),
        "w": "SELECT sum(c.u) AS s FROM c WHERE c.u > (SELECT sum(t.w) FROM b t WHERE c.z * t.y > 5)",
    }
    contents: dict[str, Bag] = {name: {} for name in CATALOG}
    engine = ReferenceEngine()
    for name, sql in views.items():
        engine.create(name, compile_query(sql, CATALOG), CATALOG, contents, "view_caches")
    assert len(caches(engine.program)) == 4
    for table, change in changes(Random(3), CATALOG, 60, negatives=0.3):
        contents[table] = consolidate([*contents[table].items(), (change.row, change.weight)])
        engine.apply(table, [change], "tuple", frozenset())
        for name, sql in views.items():
            assert engine.output(name) == evaluate_query(compile_query(sql, CATALOG), contents, CATALOG)


def test_no_cache_where_the_asking_rows_change_far_more_often() -> None:
    sql = cached_query("threshold", "product")
    rarely = Statistics({"a": 1000, "b": 1000}, rates={"a": 10_000.0, "b": 0.01})
    assert not caches(compiled(sql, rarely).program())
    assert caches(compiled(sql, Statistics({"a": 1000, "b": 1000})).program())


def test_no_cache_where_an_ordered_index_answers() -> None:
    sql = "SELECT sum(a.v) AS s FROM a WHERE a.v > (SELECT sum(t.w) FROM b t WHERE t.y < a.x)"
    assert not caches(compiled(sql).program())


def test_the_cost_model_prefers_caches_where_they_save_a_scan_per_row() -> None:
    ranked = alternatives("q", compile_query(cached_query("threshold", "product"), CATALOG), CATALOG)
    assert ranked[0].strategy == "view_caches"
    costs = {item.strategy: item.average for item in ranked}
    assert costs["view_caches"] * 10 < costs["higher_order"]


def test_explain_names_the_cache_and_what_the_strategies_cost() -> None:
    text = compiled(cached_query("threshold", "product")).explain("v")
    assert "a view cache for E<" in text
    assert "hold it for the values asked for" in text
    assert "view_caches: " in text
    assert "higher_order: " in text
