"""Where the demo's rows are made: by Spark in local mode, or in this process where Spark cannot run.

Both give the same order book: it is a pure function of a seed and an event's number, whoever evaluates it.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from viewlet.workloads import miniature, order_book, schema, tpch
from viewlet.workloads.ddl import arrow_schemas
from viewlet.workloads.stream import Stream, Tables

SCALE = 0.01
LEVELS = 150
LOWEST = {"bids": 10_000, "asks": 10_000 + LEVELS}
BOOK: dict[str, Any] = {"deletions": 0.5, "lifetime": 20_000, "seed": 1}


def spark_session() -> tuple[Any, None] | tuple[None, str]:
    """A Spark session on this machine, or why there is none."""
    home = os.environ.get("JAVA_HOME")
    if not (home and (Path(home) / "bin" / "java").exists()) and shutil.which("java") is None:
        return None, "there is no Java"
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        return None, "PySpark is not installed: pip install 'viewlet[spark]'"
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master("local[*]").appName("viewlet demo")
    quiet = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}
    try:
        with _silent():
            spark = builder.config(map=quiet).getOrCreate()
    except Exception as reason:
        return None, f"Spark does not start: {reason}"
    spark.sparkContext.setLogLevel("ERROR")
    return spark, None


@contextmanager
def _silent() -> Iterator[None]:
    """Processes that start meanwhile complain to nobody: Java says much that is no news to the reader."""
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def orders_and_cancellations(events: int, spark: Any) -> Stream:
    """An order book around a price that wanders; made by Spark if a session is given."""
    made = _orders(events, spark)
    return Stream({side: _priced(rows, LOWEST[side]) for side, rows in made.changes.items()}, made.places)


def _priced(rows: pa.Table, lowest: int) -> pa.Table:
    """Levels as prices: those of asks begin where those of bids end, so that the book never crosses."""
    place = rows.schema.get_field_index("price")
    return rows.set_column(place, "price", pc.add(rows["price"], lowest))


def _orders(events: int, spark: Any) -> Stream:
    levels = order_book.walk(LEVELS, spread=20)
    if spark is None:
        return order_book.stream(events, levels, **BOOK)
    from viewlet.workloads.on_spark import PLACE, order_book_stream

    changes, places = {}, {}
    for side, frame in order_book_stream(spark, events, levels, **BOOK).items():
        rows = frame.orderBy(PLACE).toArrow().combine_chunks()
        places[side] = rows[PLACE].to_numpy()
        changes[side] = rows.drop_columns([PLACE])
    return Stream(changes, places)


def order_tables(orders: int, spark: Any) -> Tables:
    """TPC-H's tables: about ``orders`` of them made here, or by TPC-H's own generator on Spark."""
    if spark is None:
        return miniature.tables(orders)
    from viewlet.workloads.on_spark import tpch_tables

    kinds = arrow_schemas(schema("tpch"))
    made = {name: frame.toArrow().cast(kinds[name]) for name, frame in tpch_tables(spark, SCALE).items()}
    made["orders"] = made["orders"].sort_by("o_orderkey")
    made["lineitem"] = made["lineitem"].sort_by([("l_orderkey", "ascending"), ("l_linenumber", "ascending")])
    return {name: made[name] for name in tpch.TABLES}
