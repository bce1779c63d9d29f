"""The order-book queries: VWAP, MST, PSP, AXF, BSP, BSV."""

from __future__ import annotations

import pytest

from oracle.harness import Engine, connect, engines, replay, replay_everyhow
from viewlet.workloads import order_book, queries, schema
from viewlet.workloads.stream import Stream, churn

QUERIES = queries("finance")
# Prices are so far apart that AXF's condition (more than 1000) holds for some pairs and not for others.
BOOKS = {
    "uniform": order_book.stream(60, order_book.drawn(8), tick=300, brokers=3, deletions=0.4, lifetime=30),
    "skewed": order_book.stream(
        90, order_book.drawn(20, skew=1.0), tick=100, brokers=3, deletions=0.4, seed=1
    ),
    "walk": order_book.stream(60, order_book.walk(12, spread=2), tick=200, brokers=3, deletions=0.3, seed=2),
    "nulls": order_book.stream(100, order_book.drawn(8), tick=300, brokers=3, nulls=0.1, lifetime=30, seed=3),
    "negative": order_book.stream(
        100,
        order_book.drawn(8),
        tick=300,
        brokers=3,
        negatives=0.3,
        nulls=0.05,
        deletions=0.4,
        lifetime=30,
        seed=4,
    ),
    "adversarial": order_book.adversarial(60, prices=20, tick=100, brokers=3),
}


@engines
@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("book", BOOKS)
def test_book(engine: Engine, query: str, book: str) -> None:
    replay_everyhow(engine, schema("finance"), {query: QUERIES[query]}, BOOKS[book], size=9, singles=12)


@engines
@pytest.mark.parametrize("query", QUERIES)
def test_repeated_orders(engine: Engine, query: str) -> None:
    """The same order several times, some with negative volume, until the book is empty again."""
    replay(connect(engine), schema("finance"), {query: QUERIES[query]}, repeated(seed=5).batches(3))


@engines
@pytest.mark.slow
@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("seed", range(20))
def test_repeated_orders_row_by_row(engine: Engine, query: str, seed: int) -> None:
    replay(connect(engine), schema("finance"), {query: QUERIES[query]}, repeated(seed).batches(1))


def repeated(seed: int) -> Stream:
    orders = order_book.stream(
        60,
        order_book.drawn(6),
        tick=400,
        brokers=2,
        volumes=5,
        negatives=0.2,
        nulls=0.1,
        deletions=0.0,
        seed=seed,
    )
    once = {side: changes.drop_columns(["_weight"]) for side, changes in orders.changes.items()}
    return churn(once, seed, deletions=1.0, duplicates=0.4)
