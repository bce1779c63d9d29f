"""The 22 queries of TPC-H as the specification prints them."""

from __future__ import annotations

import pytest

from oracle.harness import (
    Engine,
    connect,
    engines,
    engines_on_large_data,
    incremental_engines,
    nullable,
    replay,
    replay_everyhow,
    replay_late,
    slow,
)
from viewlet.workloads import miniature, queries, schema, tpch
from viewlet.workloads.stream import Stream, churn, with_nulls

QUERIES = queries("tpch")
QUICK = ("q01", "q03", "q04", "q11", "q13", "q16", "q18", "q22")


@pytest.fixture(scope="module")
def stream() -> Stream:
    """Some hundred changes, with NULLs in every column: parents, then orders, then some of every table."""
    tables = with_nulls(miniature.tables(orders=64, seed=0), 0.01, seed=5)
    orders = {name: tables[name] for name in ("orders", "lineitem")}
    parents = {name: rows for name, rows in tables.items() if name not in orders}
    some = {name: rows.slice(0, 3) for name, rows in tables.items()}
    return churn(parents, 5, deletions=0.1).then(churn(orders, 2, deletions=0.3)).then(churn(some, 3))


@incremental_engines
@pytest.mark.parametrize("query", QUERIES)
def test_small_stream(engine: Engine, query: str, stream: Stream) -> None:
    views = {query: QUERIES[query]}
    replay_everyhow(engine, nullable(schema("tpch")), views, stream, size=60, singles=24, late=False)


@incremental_engines
@pytest.mark.parametrize("query", [query if query in QUICK else slow(query) for query in QUERIES])
def test_views_created_late(engine: Engine, query: str, stream: Stream) -> None:
    replay_late(engine, nullable(schema("tpch")), {query: QUERIES[query]}, stream, singles=24)


@engines
@pytest.mark.slow
@pytest.mark.parametrize("query", QUERIES)
def test_small_stream_row_by_row(engine: Engine, query: str) -> None:
    """From empty tables to empty tables, one row at a time."""
    stream = churn(with_nulls(miniature.tables(orders=30), 0.02), seed=2, deletions=1.0)
    replay(connect(engine), nullable(schema("tpch")), {query: QUERIES[query]}, stream.batches(1))


@engines_on_large_data
def test_benchmark_data(engine: Engine) -> None:
    """Scale factor 0.01 with the schema as it is; orders come and go, foreign keys hold."""
    stream = tpch.bounded(tpch.tables(0.01), orders=6_000, seed=3)
    found = replay(connect(engine), schema("tpch"), QUERIES, stream.batches(len(stream) // 5))
    # Q17 wants one brand in one container: six thousand orders hold no line of it that is small enough.
    assert {query for query in QUERIES if not found[query]} == {"q17"}
