"""Every plan pass keeps the meaning of every query."""

from __future__ import annotations

import pytest

from sql.evaluation import catalog_of, contents_of, outcome
from strategies import seeded_case
from viewlet.core.rewrite import name_of
from viewlet.plan.from_sql import resolve
from viewlet.plan.nodes import Query
from viewlet.plan.pipeline import PASSES, optimize
from viewlet.plan.text import show
from viewlet.sql.parse import parse_query
from viewlet.workloads import SUITES, queries, schema

QUICK = 100
SLOW = 4_000


@pytest.mark.parametrize("start", range(0, QUICK, 10))
def test_passes_keep_the_meaning(start: int) -> None:
    for seed in range(start, start + 10):
        _check(seed)


@pytest.mark.slow
@pytest.mark.parametrize("start", range(QUICK, SLOW, 10))
def test_passes_keep_the_meaning_of_more_queries(start: int) -> None:
    for seed in range(start, start + 10):
        _check(seed)


def _check(seed: int) -> None:
    case = seeded_case(seed)
    catalog = catalog_of(case.ddl)
    contents = contents_of(case, catalog)
    query = resolve(parse_query(case.sql), catalog)
    expected = outcome(query, contents, catalog)
    for change in PASSES:
        before, query = query, change(query)
        actual = outcome(query, contents, catalog)
        assert actual == expected, (
            f"{name_of(change)} changed the meaning of seed {seed}\n{case.sql}\n{show(before)}\n{show(query)}"
        )
    optimized = optimize(query)
    assert outcome(optimized, contents, catalog) == expected, f"seed {seed}: {case.sql}"
    for place, (name, var) in enumerate(optimized.columns):
        if isinstance(expected, dict) and not var.nullable:
            assert all(row[place] is not None for row in expected), f"seed {seed}: {name} is NULL\n{case.sql}"


@pytest.mark.parametrize("suite", SUITES)
def test_passes_converge_and_keep_the_columns(suite: str) -> None:
    catalog = catalog_of(schema(suite))
    for name, sql in queries(suite).items():
        query = resolve(parse_query(sql), catalog)
        optimized = optimize(query)
        assert optimize(optimized) == optimized, f"{suite}/{name} is not finished"
        assert _typed(optimized) == _typed(query), f"{suite}/{name}"
        sharper = {column: var.nullable for column, var in optimized.columns}
        assert all(var.nullable or not sharper[column] for column, var in query.columns), f"{suite}/{name}"


def _typed(query: Query) -> list[tuple[str, str, str]]:
    return [(name, var.name, str(var.type)) for name, var in query.columns]
