"""Random queries over random streams on partitions in this process, against DuckDB after every batch.

Nested and correlated queries, outer joins, set operations, windows, grouping sets, views on views and tables
with keys; views that come late, feeds of changes, and everything taken away and brought again.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from random import Random

import pytest

from oracle.harness import opposite, replay
from strategies import Case, seeded_cascade, seeded_case, seeded_keyed_case, seeded_windows
from viewlet.backends.base import Strategy
from viewlet.backends.spark.cluster import SimulatedCluster
from viewlet.backends.spark.engine import SparkEngine
from viewlet.database import Database
from viewlet.errors import ProgramSizeError

KINDS: dict[str, Callable[[int], Case]] = {
    "queries": seeded_case,
    "keys": seeded_keyed_case,
    "views on views": seeded_cascade,
    "windows": seeded_windows,
}


def check(case: Case, seed: int, *, native: bool = False) -> None:
    """Partitions, the columns to partition by and the size of batches are drawn."""
    rng = Random(seed)
    partitions, size = 1 + seed % 3, rng.choice([1, 3, 8])
    tables = {table.name: [column.name for column in table.columns] for table in case.tables}
    by = {name: rng.choice(columns) for name, columns in tables.items() if rng.random() < 0.8}

    def engine(strategy: Strategy) -> SparkEngine:
        return SparkEngine(lambda code: SimulatedCluster(code, partitions), by, native=native)

    batches = list(case.batches(size))
    if size == 1:
        for whole in case.batches(len(case.changes) or 1):
            batches += [opposite(whole), whole]
    views, asked = {"fuzzed": case.sql}, {}
    if case.lower:
        views = {"lower_view": case.lower, **views}
        asked = {"fuzzed": f"WITH lower_view AS ({case.lower}) {case.sql}"}
    late = seed % 2
    database = Database(backend=engine, strategy="auto", dialect="spark")
    with suppress(ProgramSizeError):  # some are refused for their length, whatever the engine
        replay(database, case.ddl, views, batches[late:], before=batches[:late], asked=asked)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("kind", KINDS)
def test_random_queries(kind: str, seed: int) -> None:
    check(KINDS[kind](seed), seed)


@pytest.mark.native
@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_random_queries_in_native_code(kind: str) -> None:
    check(KINDS[kind](40), 40, native=True)


@pytest.mark.slow
@pytest.mark.parametrize("hundred", range(1, 6))
@pytest.mark.parametrize("kind", KINDS)
def test_hundreds_of_random_queries(kind: str, hundred: int) -> None:
    for seed in range(100 * hundred, 100 * hundred + 100):
        check(KINDS[kind](seed), seed)
