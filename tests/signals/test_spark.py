"""Spark gives what a local run gives: batch by partitions of whole keys, streams by buckets of keys."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import viewlet.signals as vs
from signals.laws import assert_same

pytestmark = [
    pytest.mark.spark,
    pytest.mark.xdist_group("spark"),
    pytest.mark.filterwarnings("ignore"),  # PySpark warns about its own dependencies
]
SOURCE = vs.source(key="k", time="t", value="v")
QUERIES = {
    "linear": SOURCE.sample(10, interpolate="linear", max_gap=100),
    "overlap add": SOURCE.sample(10, interpolate="linear").window(8, 4).rfft().irfft().overlap_add(),
    "where": SOURCE.where("v > 0").sample(5, interpolate="step").fir([0.5, 0.5]),
}


@pytest.fixture(scope="module")
def spark(spark_with):
    return spark_with({"spark.sql.execution.arrow.maxRecordsPerBatch": "37"})


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(3)
    return pa.table({"k": rng.integers(0, 5, 300), "t": np.arange(300) * 7, "v": rng.normal(size=300)})


@pytest.mark.parametrize("name", QUERIES)
def test_batch(spark, table, name):
    frame = spark.createDataFrame(table.to_pandas())
    assert_same(pa.Table.from_pandas(QUERIES[name].spark(frame).toPandas()), QUERIES[name].run(table))


def test_batch_of_several_sources(spark, table):
    """Signals of different rates meet in the partition of their key; one key has only the slow signal."""
    slow = vs.source(key="k", time="t", value="v", name="slow").sample(20, interpolate="linear")
    fast = vs.source(key="sensor", time="at", value="x", name="fast").sample(
        5, interpolate="last", max_gap=40
    )
    query = slow.resample(5) * fast
    rng = np.random.default_rng(8)
    other = pa.table({"sensor": rng.integers(1, 7, 400), "at": np.arange(400) * 5, "x": rng.normal(size=400)})
    frames = {name: spark.createDataFrame(t.to_pandas()) for name, t in (("slow", table), ("fast", other))}
    expected = query.run({"slow": table, "fast": other})
    assert expected.num_rows > 300
    assert_same(pa.Table.from_pandas(query.spark(frames).toPandas()), expected)


def test_batch_without_a_key(spark, table):
    query = vs.source(time="t", value="v").sample(10, interpolate="linear").fir([0.5, 0.5])
    frame = spark.createDataFrame(table.to_pandas())
    assert_same(pa.Table.from_pandas(query.spark(frame).toPandas()), query.run(table), key=None)


def test_stream(spark, table, tmp_path):
    """Files arrive one by one, rows up to 70 late, also across files; states live in the stream."""
    query = QUERIES["linear"]
    moved = np.argsort(np.arange(300) + np.random.default_rng(4).uniform(0, 10, 300), kind="stable")
    shuffled = table.take(pa.array(moved))
    assert (np.diff(np.array(shuffled["t"])) < 0).any()
    for number, low in enumerate(range(0, 300, 100)):
        part = spark.createDataFrame(shuffled.slice(low, 100).to_pandas())
        part.coalesce(1).write.parquet(str(tmp_path / "in" / f"{number}"))
    reader = spark.readStream.schema(part.schema).option("maxFilesPerTrigger", 1)
    stream = query.spark(reader.parquet(str(tmp_path / "in" / "*")), buckets=2, lateness=70)
    running = (
        stream.writeStream.format("memory")
        .queryName("out")
        .outputMode("append")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    running.awaitTermination()
    assert len(running.recentProgress) >= 3
    got = pa.Table.from_pandas(spark.table("out").orderBy("t").toPandas())
    whole = query.run(table)
    final = np.array(got["t"]).max()
    assert final > 1800, "all but the last rows came out of the stream"
    expected = {(r["k"], r["t"]): r["v"] for r in whole.to_pylist()}
    rows = {(r["k"], r["t"]): r["v"] for r in got.to_pylist()}
    assert rows.items() <= expected.items()
    reached = {k: max(t for key, t in rows if key == k) for k, _ in rows}
    assert set(rows) == {(k, t) for k, t in expected if t <= reached[k]}, (
        "no gaps before the last row of a key"
    )


def test_what_spark_cannot_do_is_refused(spark, table):
    frame = spark.createDataFrame(table.to_pandas())
    other = vs.source(key="k", time="t", value="v", name="other").sample(10)
    with pytest.raises(vs.SignalTypeError, match="no DataFrame for source 'other'"):
        (SOURCE.sample(10) + other).spark(frame)
    with pytest.raises(vs.SignalTypeError, match="lateness is for streams"):
        SOURCE.sample(10).spark(frame, lateness=5)
    with pytest.raises(vs.SignalTypeError, match="exchange"):
        vs.events(key="k", time="t").group("v").spark(frame)
