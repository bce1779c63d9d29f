"""Workloads made by Spark: the data of the generators of this package, each task making its part.

Order books and Nexmark's markets are pure functions of a seed and an event's number, and TPC-H's generator
makes any part of a table alone. So what a task makes does not depend on the others, and all of it is what one
process would make.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from viewlet.workloads import nexmark, order_book, schema, tpch
from viewlet.workloads.ddl import arrow_schemas
from viewlet.workloads.stream import WEIGHT, weighted

PLACE = "_place"
"""The place of an event in the whole stream."""

BOOK = ("t", "id", "broker_id", "volume", "price")


def order_book_stream(spark: Any, events: int, levels: order_book.Levels, **options: Any) -> dict[str, Any]:
    """Bids and asks of :func:`viewlet.workloads.order_book.stream`, with ``_weight`` and ``_place``.

    A task makes the stream up to the end of its range and keeps the range: an order that is cancelled there
    may have come long before.
    """
    parts = spark.sparkContext.defaultParallelism
    fields = ", ".join(f"{name} bigint" for name in (*BOOK, WEIGHT, PLACE))
    make = partial(_book, events=events, parts=parts, levels=levels, options=options)
    both = spark.range(0, parts, numPartitions=parts).mapInArrow(make, f"side string, {fields}")
    return {side: both.where(f"side = '{side}'").drop("side") for side in order_book.SIDES}


def _book(
    numbers: Iterator[pa.RecordBatch],
    events: int,
    parts: int,
    levels: order_book.Levels,
    options: Mapping[str, Any],
) -> Iterator[pa.RecordBatch]:
    for number in (n for batch in numbers for n in batch.column(0).to_pylist()):
        start, stop = events * number // parts, events * (number + 1) // parts
        made = order_book.stream(stop, levels, **options)
        for side, places in made.places.items():
            rows = made.changes[side].append_column(PLACE, pa.array(places, pa.int64()))
            rows = rows.filter(pa.array(places >= start))
            rows = rows.add_column(0, "side", pa.array([side] * rows.num_rows, pa.string()))
            yield from rows.combine_chunks().to_batches()


def nexmark_stream(spark: Any, events: int, market: nexmark.Market) -> dict[str, Any]:
    """People, auctions and bids of ``market.stream(events)``, with ``_weight`` and ``_place``."""
    return {table: _nexmark_table(spark, events, market, table) for table in nexmark.SPANS}


def _nexmark_table(spark: Any, events: int, market: nexmark.Market, table: str) -> Any:
    from pyspark.sql.pandas.types import from_arrow_schema

    parts = spark.sparkContext.defaultParallelism
    make = partial(_nexmark_part, events=events, parts=parts, market=market, table=table)
    fields = [*arrow_schemas(schema("nexmark"))[table], *(pa.field(n, pa.int64()) for n in (WEIGHT, PLACE))]
    kinds = from_arrow_schema(pa.schema(fields))
    return spark.range(0, parts, numPartitions=parts).mapInArrow(make, kinds)


def _nexmark_part(
    ranges: Iterator[pa.RecordBatch], events: int, parts: int, market: nexmark.Market, table: str
) -> Iterator[pa.RecordBatch]:
    for part in (n for batch in ranges for n in batch.column(0).to_pylist()):
        start, stop = events * part // parts, events * (part + 1) // parts
        own = nexmark.numbers(start, stop - start)[table]
        rows = weighted(market.rows(table, own)).append_column(PLACE, pa.array(own))
        yield from rows.combine_chunks().to_batches()


def tpch_tables(spark: Any, scale: float, names: Sequence[str] = tpch.TABLES) -> dict[str, Any]:
    """The tables of :func:`viewlet.workloads.tpch.tables`; executors need ``tpchgen-cli`` too.

    A machine keeps the parts that its executors made, as this one keeps what ``tables`` made.
    """
    return {name: _tpch_table(spark, scale, name) for name in tpch.TABLES if name in names}


def _tpch_table(spark: Any, scale: float, name: str) -> Any:
    from pyspark.sql.pandas.types import from_arrow_schema

    parts = spark.sparkContext.defaultParallelism
    tasks = 1 if name in tpch.STATIC else parts
    make = partial(_tpch_part, scale=scale, name=name, parts=parts)
    kinds = from_arrow_schema(arrow_schemas(schema("tpch"))[name])
    return spark.range(0, tasks, numPartitions=tasks).mapInArrow(make, kinds)


def _tpch_part(
    numbers: Iterator[pa.RecordBatch], scale: float, name: str, parts: int
) -> Iterator[pa.RecordBatch]:
    kinds = arrow_schemas(schema("tpch"))[name]
    for number in (n for batch in numbers for n in batch.column(0).to_pylist()):
        folder = tpch.generate(scale, number + 1, parts)
        for file in [*folder.glob(f"{name}.parquet"), *sorted(folder.glob(f"{name}/*.parquet"))]:
            yield from pq.read_table(file).cast(kinds).to_batches()
