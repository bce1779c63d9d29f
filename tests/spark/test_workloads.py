"""Workloads made by Spark are those that one process makes."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from viewlet.workloads import nexmark, order_book, tpch
from viewlet.workloads.on_spark import PLACE, nexmark_stream, order_book_stream, tpch_tables

pytestmark = [
    pytest.mark.spark,
    pytest.mark.xdist_group("spark"),
    pytest.mark.filterwarnings("ignore"),  # PySpark warns about its own dependencies
]


def test_order_book(spark: Any) -> None:
    options = {"nulls": 0.1, "deletions": 0.3, "lifetime": 50, "seed": 5}
    here = order_book.stream(701, order_book.walk(40), **options)
    there = order_book_stream(spark, 701, order_book.walk(40), **options)
    for side in order_book.SIDES:
        made = there[side].orderBy(PLACE).toArrow()
        assert made[PLACE].to_pylist() == here.places[side].tolist()
        assert made.drop_columns([PLACE]).to_pylist() == here.changes[side].to_pylist()


@pytest.mark.skipif(
    not (Path(sys.executable).with_name("tpchgen-cli").exists() or shutil.which("tpchgen-cli")),
    reason="needs tpchgen-cli",
)
def test_tpch(spark: Any) -> None:
    names = ("nation", "supplier", "orders")
    here = tpch.tables(0.001, names)
    for name, frame in tpch_tables(spark, 0.001, names).items():
        made = pa.table(frame.toArrow())
        assert made.num_rows == here[name].num_rows
        assert sorted(made.to_pylist(), key=str) == sorted(here[name].to_pylist(), key=str)


def test_nexmark(spark: Any) -> None:
    market = nexmark.Market(rate=30, seed=3)
    here = market.stream(405)
    for table, frame in nexmark_stream(spark, 405, market).items():
        made = frame.orderBy(PLACE).toArrow()
        assert made[PLACE].to_pylist() == here.places[table].tolist()
        assert made.drop_columns([PLACE]).to_pylist() == here.changes[table].to_pylist()
