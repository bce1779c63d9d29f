"""The 22 queries of TPC-H as the specification prints them."""

from __future__ import annotations

import pytest

from oracle.harness import (
    Engine,
    connect,
    engines,
    engines_on_large_data,
    nullable,
    replay,
    replay_everyhow,
)
from viewlet.workloads import miniature, queries, schema, tpch
from viewlet.workloads.stream import Stream, churn, with_nulls

QUERIES = queries("tpch")


@pytest.fixture(scope="module")
def stream() -> Stream:
    """About 900 changes of all eight tables, with NULLs in every column."""
    return churn(with_nulls(miniature.tables(orders=80), 0.02), seed=1)


@engines
@pytest.mark.parametrize("query", QUERIES)
def test_small_stream(engine: Engine, query: str, stream: Stream) -> None:
    replay_everyhow(engine, nullable(schema("tpch")), {query: QUERIES[query]}, stream, size=45, singles=30)


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
    # Neither Q2, Q18 nor Q20 is sure to find anything in data of this size.
    assert {query for query in QUERIES if not found[query]} <= {"q02", "q18", "q20"}
