"""Random queries over random tables under random changes: the fuzz test of the whole system.

A failure reports the fewest changes that still show it. ``seeded_case(seed)`` gives a case again;
the slow test with hypothesis also shrinks the query.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings

from oracle.harness import ENGINES, MORE_ENGINES, Engine, connect, engines, opposite, replay
from strategies import (
    Case,
    Column,
    Table,
    cases,
    random_keyed_changes,
    seeded_cascade,
    seeded_case,
    seeded_keyed_case,
    seeded_windows,
)

QUICK = 20
QUICK_CASCADES = 6
QUICK_KEYED = 8
QUICK_WINDOWS = 12
GROUPS_OF_ONE_ROW = [
    "SELECT a, COUNT(*) AS n FROM r GROUP BY a",
    "SELECT a, COUNT(b) AS n, MAX(b) AS m, AVG(b) AS v FROM r GROUP BY a",
    "SELECT DISTINCT a FROM r",
    "SELECT a, b, SUM(b) AS n FROM r GROUP BY a, b HAVING COUNT(*) > 0",
    "SELECT r.a, COUNT(*) AS n FROM r JOIN s ON r.a = s.a GROUP BY r.a",
    "SELECT a FROM r INTERSECT SELECT a FROM s",
    "SELECT a, COUNT(*) AS n FROM r GROUP BY a HAVING COUNT(*) > (SELECT COUNT(*) FROM s)",
]
SIZES = (1, 8)


@engines
@pytest.mark.parametrize("seed", range(QUICK))
def test_random_query(engine: Engine, seed: int) -> None:
    _check(engine, seeded_case(seed))


@pytest.mark.slow
@pytest.mark.parametrize("hundred", range(1, 31))
def test_a_hundred_random_queries(hundred: int) -> None:
    """Each hundred on one engine, in turn: other queries find more than other engines do."""
    every = [*ENGINES, *MORE_ENGINES]
    engine = every[hundred % len(every)]
    for seed in range(100 * hundred, 100 * hundred + 100):
        _check(engine, seeded_case(seed))


@pytest.mark.parametrize("seed", range(2, 2 + QUICK_KEYED))
def test_tables_with_keys(seed: int) -> None:
    """Rows are replaced by others with the same key; programs rely on there being one."""
    _check(ENGINES[seed % len(ENGINES)], seeded_keyed_case(seed))


@pytest.mark.native
@pytest.mark.parametrize("seed", [40])
def test_tables_with_keys_in_native_code(seed: int) -> None:
    """40: terms of a nested query that match other parameters were one map, whose keys none of them had."""
    _check(("native", "higher_order"), seeded_keyed_case(seed))


@engines
@pytest.mark.parametrize("sql", GROUPS_OF_ONE_ROW)
def test_groups_of_one_row(engine: Engine, sql: str) -> None:
    """Whether there is such a group is whether there is such a row: no ``E`` is needed, and none is lost."""
    pick = Random(3).choice
    key, value = (Column(name, "int", "BIGINT", nullable=name == "b") for name in "ab")
    tables = tuple(Table(name, (key, value), keys=1) for name in "rs")
    _check(engine, Case(tables, sql, random_keyed_changes(pick, tables)))


@pytest.mark.slow
@pytest.mark.parametrize("hundred", range(1, 11))
def test_a_hundred_queries_of_tables_with_keys(hundred: int) -> None:
    every = [*ENGINES, *MORE_ENGINES]
    for seed in range(100 * hundred, 100 * hundred + 100):
        _check(every[hundred % len(every)], seeded_keyed_case(seed))


@pytest.mark.parametrize("seed", range(QUICK_CASCADES))
def test_view_on_a_view(seed: int) -> None:
    """Outer joins of three sources and set operations inside, on every engine in turn."""
    _check(ENGINES[seed % len(ENGINES)], seeded_cascade(seed))


@pytest.mark.slow
@pytest.mark.parametrize("hundred", range(1, 11))
def test_a_hundred_views_on_views(hundred: int) -> None:
    every = [*ENGINES, *MORE_ENGINES]
    for seed in range(100 * hundred, 100 * hundred + 100):
        _check(every[hundred % len(every)], seeded_cascade(seed))


@pytest.mark.parametrize("seed", [*range(QUICK_WINDOWS), 287])  # two columns made equal, searched along both
def test_windows_and_grouping_sets(seed: int) -> None:
    _check(ENGINES[seed % len(ENGINES)], seeded_windows(seed))


@pytest.mark.slow
@pytest.mark.parametrize("hundred", range(1, 11))
def test_a_hundred_windows_and_grouping_sets(hundred: int) -> None:
    every = [*ENGINES, *MORE_ENGINES]
    for seed in range(100 * hundred, 100 * hundred + 100):
        _check(every[hundred % len(every)], seeded_windows(seed))


@engines
@pytest.mark.slow
@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(case=cases())
def test_random_query_shrinking(engine: Engine, case: Case) -> None:
    for size in _sizes(engine):
        _replay(engine, case, size)


def _sizes(engine: Engine) -> tuple[int, ...]:
    """A recomputation does not know how changes came: few states show as much of it as many."""
    return SIZES[1:] if engine[1] == "reevaluate" else SIZES


def _check(engine: Engine, case: Case) -> None:
    for size in _sizes(engine):
        try:
            _replay(engine, case, size)
        except AssertionError:
            _replay(engine, _smallest(engine, case, size), size)
            raise


def _replay(engine: Engine, case: Case, size: int) -> None:
    """Batches of ``size``; if it is 1, everything is then taken away at once, and brought again at once.

    With an even size, the view is created after the first batch.
    """
    batches = list(case.batches(size))
    if size == 1:
        for whole in case.batches(len(case.changes) or 1):
            batches += [opposite(whole), whole]
    late = size % 2 == 0
    views, asked = {"fuzzed": case.sql}, {}
    if case.lower:
        views = {"lower_view": case.lower, **views}
        asked = {"fuzzed": f"WITH lower_view AS ({case.lower}) {case.sql}"}
    replay(connect(engine), case.ddl, views, batches[late:], before=batches[:late], asked=asked)


def _smallest(engine: Engine, case: Case, size: int) -> Case:
    """Leave out changes, in halves, quarters, .. as long as the case still fails."""
    width = len(case.changes) // 2
    while width:
        for start in range(0, len(case.changes), width):
            fewer = replace(case, changes=case.changes[:start] + case.changes[start + width :])
            if _is_possible(fewer) and _fails(engine, fewer, size):
                case = fewer
                break
        else:
            width //= 2
    return case


def _is_possible(case: Case) -> bool:
    """Is every row that is deleted there, and no other with the key of one that is inserted?"""
    keys = {table.name: table.keys for table in case.tables}
    present: Counter[tuple[str, object]] = Counter()
    for change in case.changes:
        place = (change.table, change.row)
        key = (change.table, ("key", *change.row[: keys[change.table]]))
        present[place] += change.weight
        present[key] += change.weight
        if present[place] < 0 or (keys[change.table] and present[key] > 1):
            return False
    return True


def _fails(engine: Engine, case: Case, size: int) -> bool:
    try:
        _replay(engine, case, size)
    except AssertionError:
        return True
    return False
