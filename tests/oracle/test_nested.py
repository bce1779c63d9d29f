"""Nested aggregates correlated by equality and by inequality, at one and two levels."""

from __future__ import annotations

import pytest

from oracle.harness import Engine, connect, engines, replay, replay_everyhow
from viewlet.workloads import nested, order_book, queries, schema
from viewlet.workloads.stream import Stream, churn, with_nulls

QUERIES = queries("nested")
OVER_R = {query: sql for query, sql in QUERIES.items() if "FROM r" in sql}


def book(seed: int, negatives: float) -> Stream:
    """Bids at few price levels, low enough that SQ2's condition cuts among them, until none is left."""
    orders = order_book.stream(
        50,
        order_book.drawn(9),
        tick=12,
        brokers=2,
        volumes=9,
        negatives=negatives,
        nulls=0.05,
        deletions=0.0,
        seed=seed,
    )
    bids = orders.changes["bids"].drop_columns(["_weight"])
    return churn({"bids": bids}, seed, deletions=1.0, duplicates=0.3)


@engines
@pytest.mark.parametrize("query", [query for query in QUERIES if query not in OVER_R])
@pytest.mark.parametrize("negatives", [0.0, 0.2])
def test_book(engine: Engine, query: str, negatives: float) -> None:
    stream = book(1, negatives)
    replay_everyhow(engine, schema("nested"), {query: QUERIES[query]}, stream, size=9, singles=30)


@engines
@pytest.mark.parametrize("query", OVER_R)
def test_equality_with_a_share_of_the_total(engine: Engine, query: str) -> None:
    """So few rows that a group's sum or maximum now and then is exactly half or three quarters of all."""
    found = 0
    for seed in range(3):
        stream = churn(
            with_nulls(nested.tables(14, groups=3, values=3, seed=seed), 0.05), seed, deletions=1.0
        )
        view = {query: QUERIES[query]}
        found += replay(connect(engine), schema("nested"), view, stream.batches(1))[query]
        replay(connect(engine), schema("nested"), view, stream.batches(6))
    assert found


@engines
@pytest.mark.slow
@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("seed", range(10, 30))
def test_row_by_row(engine: Engine, query: str, seed: int) -> None:
    rows = churn(with_nulls(nested.tables(40, groups=3, seed=seed), 0.05), seed, deletions=1.0)
    stream = rows if query in OVER_R else book(seed, negatives=seed % 3 / 10)
    replay(connect(engine), schema("nested"), {query: QUERIES[query]}, stream.batches(1))
