"""Signal queries on Spark against what one would write by hand; run through ``signals.py --spark``.

Batch: interpolation of irregular readings, million events per CPU second of the whole process tree, since the
JVM and its Python workers do the work; the rival is ``groupBy("k").applyInPandas``. About 3 ms of CPU per
group keep it from more than 20,000 groups here. The two take turns, the first turns not counted; the smaller
time of two counts. The session looks at the size of Arrow batches after each of their 10,000 rows no more
(``spark.sql.execution.arrow.maxBytesPerBatch``), which costs ``mapInArrow`` a quarter of its time, and
``applyInPandas`` nothing.

Stream: the same query over files of 100,000 readings, one a micro-batch. The figure is events per second of
the median micro-batch after the first two (which start workers). The rival keeps a state per key with
``applyInPandasWithState``; ours keeps one per bucket of keys.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq

from signals import KEYED, interpolate_each, irregular

MOST_GROUPS_FOR_PANDAS = 20_000
MOST_STATES = 1_000
STREAM_BATCH, STREAM_BATCHES = 100_000, 5


@contextmanager
def session() -> Iterator[Any]:
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = str(Path(__file__).parent)  # workers import these modules by name
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.ui.showConsoleProgress", "false")
    builder = builder.config("spark.sql.execution.arrow.maxBytesPerBatch", str(2**31 - 1))
    spark = builder.config("spark.sql.shuffle.partitions", "4").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    try:
        yield spark
    finally:
        spark.stop()


# -- batch -------------------------------------------------------------------------------------------------


def figure_batch(events: int, groups: list[int]) -> list[dict]:
    rows = []
    with session() as spark, tempfile.TemporaryDirectory() as folder:
        for count in groups:
            path = f"{folder}/{count}.parquet"
            pq.write_table(irregular(events, count), path)
            frame = spark.read.parquet(path)
            contenders = {"viewlet": KEYED.sample(count, interpolate="linear").spark}
            if count <= MOST_GROUPS_FOR_PANDAS:
                contenders["applyInPandas"] = by_hand(count)
            taken: dict[str, list[float]] = {who: [] for who in contenders}
            for turn in range(2 if rows else 4):
                for who, query in contenders.items():
                    seconds = cpu_seconds(query, frame)
                    if rows or turn > 1:  # before that, the JVM compiles what all contenders use
                        taken[who].append(seconds)
            rows.append({"groups": count} | {who: events / min(seconds) for who, seconds in taken.items()})
            print(f"  spark, {rows[-1]}", flush=True)
    return rows


def cpu_seconds(query: Callable[[Any], Any], frame: Any) -> float:
    start = tree_cpu()
    discard(query(frame))
    return tree_cpu() - start


def discard(result: Any) -> None:
    result.write.format("noop").mode("overwrite").save()


def by_hand(period: int) -> Callable[[Any], Any]:
    def interpolated(part: pd.DataFrame) -> pd.DataFrame:
        part = part.sort_values("t")
        beats, values = interpolate_each(period)(part["t"].to_numpy(), part["v"].to_numpy())
        return pd.DataFrame({"k": part["k"].iloc[0], "t": beats, "v": values})

    return lambda frame: frame.groupBy("k").applyInPandas(interpolated, "k long, t long, v double")


def tree_cpu() -> float:
    """CPU seconds of this process and all its descendants, living and waited for."""
    ticks = os.sysconf("SC_CLK_TCK")
    parents, times = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents[int(entry.name)] = int(fields[1])
            times[int(entry.name)] = sum(map(int, fields[11:15])) / ticks
    mine = {os.getpid()}
    while True:
        more = {pid for pid, parent in parents.items() if parent in mine} - mine
        if not more:
            return sum(times.get(pid, 0.0) for pid in mine)
        mine |= more


# -- stream ------------------------------------------------------------------------------------------------


def figure_stream(groups: list[int]) -> list[dict]:
    rows = []
    with session() as spark, tempfile.TemporaryDirectory() as folder:
        for count in groups:
            source = Path(folder) / f"in{count}"
            source.mkdir()
            readings = irregular(STREAM_BATCH * STREAM_BATCHES, count)
            for number in range(STREAM_BATCHES):
                part = readings.slice(number * STREAM_BATCH, STREAM_BATCH)
                pq.write_table(part, source / f"{number}.parquet")
                os.utime(source / f"{number}.parquet", (number + 1, number + 1))  # files are read by age
            row: dict = {"groups": count}
            contenders = {"viewlet": KEYED.sample(count, interpolate="linear").spark}
            if count <= MOST_STATES:
                contenders["state per key"] = with_state_per_key(count)
            for who, query in contenders.items():
                row[who] = STREAM_BATCH / steady_seconds(spark, source, query, f"{folder}/{who}{count}")
                print(f"  stream, {count:,} groups, {who}: {row[who] / 1e6:.3f} M/s", flush=True)
            rows.append(row)
    return rows


def steady_seconds(spark: Any, source: Path, query: Callable[[Any], Any], checkpoint: str) -> float:
    """The median duration of a micro-batch, the first two left out."""
    schema = "k long, t long, v double"
    stream = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(source))
    writer = query(stream).writeStream.format("noop").outputMode("append")
    running = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    running.awaitTermination()
    batches = [p for p in running.recentProgress if p["numInputRows"]]
    return statistics.median(p["durationMs"]["triggerExecution"] for p in batches[2:]) / 1000


def with_state_per_key(period: int) -> Callable[[Any], Any]:
    """What one would write by hand: the last reading of each key is its state."""
    from pyspark.sql.streaming.state import GroupStateTimeout

    def interpolated(key: Any, parts: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
        part = pd.concat(parts).sort_values("t")
        t, v = part["t"].to_numpy(), part["v"].to_numpy()
        if state.exists:
            last_t, last_v = state.get
            t, v = np.append(last_t, t), np.append(last_v, v)
        beats, values = interpolate_each(period)(t, v)
        new = beats > t[0] if state.exists else beats >= t[0]
        state.update((int(t[-1]), float(v[-1])))
        yield pd.DataFrame({"k": key[0], "t": beats[new], "v": values[new]})

    def query(stream: Any) -> Any:
        return stream.groupBy("k").applyInPandasWithState(
            interpolated,
            "k long, t long, v double",
            "t long, v double",
            "append",
            GroupStateTimeout.NoTimeout,
        )

    return query
