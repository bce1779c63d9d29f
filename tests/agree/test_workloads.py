"""The queries of the workloads on small streams with deletions: native and reference agree on every map."""

from __future__ import annotations

import pytest

from agree.agreement import agree
from viewlet import workloads
from viewlet.workloads import miniature, order_book
from viewlet.workloads.stream import Stream, churn

pytestmark = pytest.mark.native

# Their programs are large: compiling C takes longer than the rest of this file together.
LARGE = {"q02", "q05", "q07", "q08", "q09", "q16", "q20", "q21"}


def small_stream(orders: int) -> Stream:
    return churn(miniature.tables(orders), seed=1)


@pytest.mark.parametrize(
    "name",
    [pytest.param(q, marks=[pytest.mark.slow] if q in LARGE else []) for q in workloads.queries("tpch")],
)
def test_tpch(name):
    views = {name: workloads.queries("tpch")[name]}
    agree(workloads.schema("tpch"), views, small_stream(12).batches(25), "auto", every=4)


@pytest.mark.parametrize("name", ["q01", "q03", "q06", "q17", "q18"])
def test_tpch_as_tuples_and_as_batches(name):
    views = {name: workloads.queries("tpch")[name]}
    for granularity in ("tuple", "batch"):
        agree(workloads.schema("tpch"), views, small_stream(8).batches(40), granularity, every=5)


@pytest.mark.parametrize("suite", ["finance", "nested"])
def test_order_book(suite):
    stream = order_book.stream(60, levels=order_book.drawn(6), seed=2)
    for name, sql in workloads.queries(suite).items():
        agree(workloads.schema(suite), {name: sql}, stream.batches(7), "auto", every=3)
