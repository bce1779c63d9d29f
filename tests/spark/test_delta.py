"""A table of Delta Lake in and out, by Spark's reader and writer; another program changes it meanwhile."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from spark.packages import made_for, needed

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.xdist_group("spark")]

LAKE = """
from pyspark.sql import SparkSession
from viewlet.pipelines import create_sink, materialized_view, table


@table(schema="id BIGINT NOT NULL, shop VARCHAR")
def visits():
    source = SparkSession.active().readStream.format("delta")
    return source.option("readChangeFeed", "true").option("startingVersion", 0).load("FOLDER/visits")


@materialized_view
def by_shop():
    return "SELECT shop, count(*) AS n, sum(id) AS ids FROM visits GROUP BY shop"


create_sink("by_shop", view="by_shop", format="delta", options={"path": "FOLDER/by_shop"})
create_sink("feed", view="by_shop", format="delta", options={"path": "FOLDER/feed"}, emits="changes")
"""


def run_once(folder: Path) -> None:
    settings = {
        "spark.jars": ",".join(needed("delta")),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.sql.shuffle.partitions": "1",
    }
    command = [sys.executable, "-m", "viewlet.cli", "run", str(folder / "lake.py"), "--master", "local[1]"]
    command += ["--database", str(folder / "lake.viewlet"), "--checkpoint", str(folder / "streams")]
    for name, value in settings.items():
        command += ["--conf", f"{name}={value}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]


def test_a_change_feed_is_followed(tmp_path: Path) -> None:
    """Inserted, updated, deleted between runs: the sinks hold what the table's rows come to."""
    pyspark = pytest.importorskip("pyspark")
    delta = pytest.importorskip("deltalake")
    made, here = made_for(needed("delta")), ".".join(pyspark.__version__.split(".")[:2])
    if made != here:
        pytest.skip(f"the jars of Delta are made for Spark {made}, and this is {here}")
    (tmp_path / "lake.py").write_text(LAKE.replace("FOLDER", str(tmp_path)))
    visits = str(tmp_path / "visits")

    def agree() -> None:
        rows = delta.DeltaTable(visits).to_pyarrow_table()
        groups = rows.group_by("shop").aggregate([([], "count_all"), ("id", "sum")])
        expected = sorted(zip(*(groups[c].to_pylist() for c in ("shop", "count_all", "id_sum")), strict=True))
        kept = delta.DeltaTable(str(tmp_path / "by_shop")).to_pyarrow_table()
        assert sorted(zip(*(kept[c].to_pylist() for c in ("shop", "n", "ids")), strict=True)) == expected
        feed = delta.DeltaTable(str(tmp_path / "feed")).to_pyarrow_table().to_pylist()
        net: dict[tuple[str, int, int], int] = {}
        for change in feed:
            row = change["shop"], change["n"], change["ids"]
            net[row] = net.get(row, 0) + (1 if change["_change_type"] == "insert" else -1)
        assert sorted(row for row, n in net.items() if n) == expected
        assert set(net.values()) <= {0, 1}

    first = pa.table({"id": list(range(1, 9)), "shop": ["north", "south"] * 4})
    delta.write_deltalake(visits, first, configuration={"delta.enableChangeDataFeed": "true"})
    run_once(tmp_path)
    agree()
    delta.DeltaTable(visits).update(predicate="id = 3", updates={"shop": "'west'"})
    delta.DeltaTable(visits).delete("id % 2 = 0 AND id > 3")
    delta.write_deltalake(visits, pa.table({"id": [9, 9], "shop": ["south", "south"]}), mode="append")
    run_once(tmp_path)
    agree()
    run_once(tmp_path)
    agree()
