"""The queries of the workloads on small streams with deletions: native and reference agree on every map."""

from __future__ import annotations

import pytest

from agree.agreement import agree
from oracle.harness import nullable
from viewlet import workloads
from viewlet.workloads import miniature, nested, nexmark, order_book
from viewlet.workloads.stream import Stream, churn, with_nulls

pytestmark = pytest.mark.native

# Their programs are large: compiling C takes longer than the rest of this file together.
LARGE = {"q02", "q05", "q07", "q08", "q09", "q16", "q20", "q21"}


def small_stream(orders: int) -> Stream:
    return churn(with_nulls(miniature.tables(orders), 0.02), seed=1)


@pytest.mark.parametrize(
    "name",
    [pytest.param(q, marks=[pytest.mark.slow] if q in LARGE else []) for q in workloads.queries("tpch")],
)
def test_tpch(name):
    views = {name: workloads.queries("tpch")[name]}
    agree(
        nullable(workloads.schema("tpch")),
        views,
        small_stream(12).batches(25),
        "auto",
        every=4,
        batches="useful",
    )


@pytest.mark.parametrize("name", ["q01", "q03", "q06", "q17", "q18"])
def test_tpch_as_tuples_and_as_batches(name):
    views = {name: workloads.queries("tpch")[name]}
    for granularity in ("tuple", "batch"):
        agree(nullable(workloads.schema("tpch")), views, small_stream(8).batches(40), granularity, every=5)


def book() -> Stream:
    return order_book.stream(
        60,
        order_book.drawn(6),
        tick=300,
        brokers=3,
        negatives=0.1,
        nulls=0.05,
        deletions=0.4,
        lifetime=30,
        seed=2,
    )


@pytest.mark.parametrize("name", workloads.queries("finance"))
def test_finance(name):
    views = {name: workloads.queries("finance")[name]}
    agree(workloads.schema("finance"), views, book().batches(7), "auto", every=3)


@pytest.mark.parametrize("name", workloads.queries("nested"))
def test_nested(name):
    bids = book().changes["bids"].drop_columns(["_weight"])
    stream = churn({"bids": bids} | nested.tables(30), seed=3, deletions=0.5)
    views = {name: workloads.queries("nested")[name]}
    agree(workloads.schema("nested"), views, stream.batches(7), "auto", every=3)


@pytest.mark.parametrize("name", workloads.queries("nexmark"))
def test_nexmark(name):
    market = nexmark.Market(rate=10, in_flight=5, active=5, first_id=984)
    tables = market.tables(150) | {"side_input": nexmark.side_input(1_010).slice(984)}
    stream = churn(with_nulls(tables, 0.02), seed=4, deletions=0.5)
    views = {name: workloads.queries("nexmark")[name]}
    agree(nullable(workloads.schema("nexmark")), views, stream.batches(15), "auto", every=3, batches="useful")
