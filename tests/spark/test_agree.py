"""The Spark engine on partitions in this process against the reference: every query of the workloads."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from agree.agreement import catalog_of, steps_of
from viewlet.backends.reference.engine import ReferenceEngine
from viewlet.backends.spark.cluster import SimulatedCluster
from viewlet.backends.spark.engine import SparkEngine
from viewlet.sql import compile_query
from viewlet.sql.catalog import Catalog, Table, TableKind
from viewlet.workloads import miniature, nested, order_book, queries, schema
from viewlet.workloads.stream import Stream, churn


def agree(
    catalog: Catalog,
    sql: str,
    stream: Stream,
    sizes: tuple[int, ...],
    partition_by: Mapping[str, str],
    *,
    native: bool = False,
) -> None:
    """Replay a stream through both, in batches: the view is the same throughout, every map in the end."""
    query = compile_query(sql, catalog)
    for size in sizes:
        reference = ReferenceEngine()
        spread = SparkEngine(lambda code: SimulatedCluster(code, 3), partition_by, native=native)
        static = {t: stream.whole().get(t) for t in catalog if catalog[t].kind is TableKind.STATIC}
        contents = {table: {} for table in catalog} | {
            table: {
                change.row: change.weight for _, own in steps_of(catalog, [{table: rows}]) for change in own
            }
            for table, rows in static.items()
            if rows is not None
        }
        for engine in (reference, spread):
            engine.create("v", query, catalog, contents, "auto")
        steps = [(t, own) for t, own in steps_of(catalog, stream.batches(size)) if t not in static]
        for table, own in steps:
            reference.apply(table, own, "batch", frozenset())
            spread.apply(table, own, "batch", frozenset())
            assert spread.output("v") == reference.output("v")
        assert spread.program.maps == reference.program.maps
        for name in reference.program.maps:
            assert spread.contents(name) == dict(reference.contents(name)), name


@pytest.mark.parametrize("name", queries("tpch"))
def test_tpch(name: str) -> None:
    agree_on_tpch(name, native=False)


@pytest.mark.native
@pytest.mark.parametrize(
    "name", ["q18", *(pytest.param(n, marks=pytest.mark.slow) for n in queries("tpch") if n != "q18")]
)
def test_tpch_in_native_code(name: str) -> None:
    agree_on_tpch(name, native=True)


def agree_on_tpch(name: str, *, native: bool) -> None:
    known = catalog_of(schema("tpch"))
    catalog = Catalog(
        Table(t.name, t.columns, TableKind.STATIC, t.key) if t.name in ("nation", "region") else t
        for t in known.values()
    )
    tables = miniature.tables(orders=16)
    fixed = {table: tables.pop(table) for table in ("nation", "region")}
    stream = churn(tables, seed=7, deletions=0.4)
    whole = Stream(
        {**stream.changes, **churn(fixed, deletions=0, duplicates=0, cancelling=0).changes}, stream.places
    )
    agree(catalog, queries("tpch")[name], whole, (len(stream) // 3,), {}, native=native)


# Programs are compiled for each column to partition by: one of them is enough for a short run.


@pytest.mark.parametrize(
    "columns",
    [
        {"bids": "price", "asks": "price"},
        pytest.param({}, marks=pytest.mark.slow),
        pytest.param({"bids": "broker_id", "asks": "broker_id"}, marks=pytest.mark.slow),
    ],
    ids=str,
)
@pytest.mark.parametrize("name", queries("finance"))
def test_finance(name: str, columns: dict[str, str]) -> None:
    catalog = catalog_of(schema("finance"))
    stream = order_book.stream(24, order_book.drawn(8), nulls=0.05, seed=3)
    agree(catalog, queries("finance")[name], stream, (12,), columns)


@pytest.mark.parametrize(
    "columns",
    [{"r": "a", "bids": "price"}, pytest.param({"r": "b", "bids": "broker_id"}, marks=pytest.mark.slow)],
    ids=str,
)
@pytest.mark.parametrize("name", queries("nested"))
def test_nested(name: str, columns: dict[str, str]) -> None:
    catalog = catalog_of(schema("nested"))
    book = order_book.stream(40, order_book.drawn(12), seed=4)
    stream = churn(nested.tables(30), seed=5).then(
        Stream({"bids": book.changes["bids"]}, {"bids": book.places["bids"]})
    )
    agree(catalog, queries("nested")[name], stream, (12,), columns)


@pytest.mark.native
@pytest.mark.parametrize("columns", [{"bids": "price"}, pytest.param({}, marks=pytest.mark.slow)], ids=str)
def test_ordered_indexes_in_native_code(columns: dict[str, str]) -> None:
    """Thresholds on sums of copies in a partition: a walk to an edge that another walk asks for."""
    book = order_book.stream(40, order_book.drawn(12), nulls=0.05, seed=4)
    stream = Stream({"bids": book.changes["bids"]}, {"bids": book.places["bids"]})
    agree(catalog_of(schema("nested")), queries("nested")["nq1"], stream, (12,), columns, native=True)
