"""Views on Spark against Spark SQL that evaluates the same query again, batch by batch, in one session.

    python benchmarks/spark.py [--quick] [--scale 0.1] [--batch 10000] [--queries q01 q03 ...] [--batches 20]

The TPC-H tables arrive in turn, row by row of each in proportion, cut into batches; Viewlet takes them as
streams. The first half of the stream is applied as one batch. Then, after every batch, both sides give the
query's rows on the driver: Viewlet applies the batch and reads the view; Spark SQL runs the query over
everything so far, held as cached DataFrames (adding a batch to them is not timed). Times are milliseconds per
batch. The floor is an empty job of one Python stage, times the jobs that a batch took. Rows of both sides are
compared at the end. Results go to ``benchmarks/results/spark``.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import islice
from os import getloadavg
from pathlib import Path
from statistics import median
from typing import Any

import viewlet
from viewlet.workloads import queries, schema, tpch
from viewlet.workloads.stream import Batch, Stream

RESULTS = Path(__file__).parent / "results" / "spark"
QUERIES = ("q01", "q03", "q06", "q12", "q17", "q18")


@dataclass(frozen=True)
class Measured:
    """Milliseconds per batch of one query."""

    query: str
    jobs: float
    viewlet: list[float]
    again: list[float]
    equal: bool


def session() -> Any:
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.python.unix.domain.socket.enabled", "true")
        .config("spark.driver.memory", "4g")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    return spark


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    began = time.perf_counter()
    result = work()
    return (time.perf_counter() - began) * 1000, result


def floor(spark: Any, rounds: int = 10) -> float:
    anchor = spark.sparkContext.parallelize(range(2), 2).persist()
    job = anchor.mapPartitions(lambda rows: iter([sum(rows)]))
    return median(timed(job.collect)[0] for _ in range(rounds + 3))


def maintained(
    spark: Any, name: str, first: Batch, batches: list[Batch]
) -> tuple[list[float], list[tuple[Any, ...]], float]:
    """Apply each batch and read the view; the times, the rows in the end, and the jobs per batch."""
    with viewlet.connect(spark) as db:
        db.execute(schema("tpch").replace("CREATE TABLE", "CREATE STREAM"))
        db.execute(f"CREATE MATERIALIZED VIEW {name} AS {queries('tpch')[name]}")
        db.apply(first)
        rows = db.view(name).rows()
        times = []
        before = jobs_so_far(spark)

        def refreshed(batch: Batch) -> list[tuple[Any, ...]]:
            db.apply(batch)
            return db.view(name).rows()

        for batch in batches:
            spent, rows = timed(partial(refreshed, batch))
            times.append(spent)
        return times, rows, (jobs_so_far(spark) - before) / len(batches)


def jobs_so_far(spark: Any) -> int:
    """How many jobs the session has started: a new one tells by its number."""
    tracker = spark.sparkContext.statusTracker()
    return max(tracker.getJobIdsForGroup(None), default=-1) + 1


def reevaluated(
    spark: Any, name: str, first: Batch, batches: list[Batch]
) -> tuple[list[float], list[tuple[Any, ...]]]:
    """Run the query again over all rows so far."""
    tables: dict[str, Any] = {}
    times = []
    for batch in [first, *batches]:
        for table, rows in batch.items():
            part = spark.createDataFrame(rows.drop_columns(["_weight"])).coalesce(2)
            tables[table] = (tables[table].union(part).coalesce(2) if table in tables else part).cache()
            tables[table].count()
            tables[table].createOrReplaceTempView(table)
        spent, found = timed(lambda: spark.sql(queries("tpch")[name]).collect())
        times.append(spent)
    spark.catalog.clearCache()
    return times[1:], [tuple(row) for row in found]


def measure(spark: Any, name: str, stream: Stream, options: argparse.Namespace) -> Measured:
    half = len(stream) // 2
    first = stream.first(half).whole()
    batches = list(islice(stream.after(half).batches(options.batch), options.batches))
    fresh, rows, jobs = maintained(spark, name, first, batches)
    again, expected = reevaluated(spark, name, first, batches)
    return Measured(name, jobs, fresh, again, sorted(map(str, rows)) == sorted(map(str, expected)))


def report(found: list[Measured], base: float, options: argparse.Namespace, rows: int) -> str:
    lines = [
        "# Views on Spark against re-evaluation",
        "",
        f"TPC-H at scale {options.scale}, {rows:,} rows, batches of {options.batch:,} after half of them on "
        f"local[2]; empty job of one Python stage: {base:.0f} ms (median). Milliseconds per batch, median "
        f"and worst of {options.batches} batches. Load at the end: {getloadavg()[0]:.1f}.",
        "",
        "| query | jobs per batch | floor | viewlet | worst | again | worst | again / viewlet | same rows |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for m in found:
        fresh, again = median(m.viewlet), median(m.again)
        lines.append(
            f"| {m.query} | {m.jobs:.1f} | {m.jobs * base:.0f} | {fresh:.0f} | {max(m.viewlet):.0f} "
            f"| {again:.0f} | {max(m.again):.0f} | {again / fresh:.2f} | {'yes' if m.equal else 'NO'} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tiny run that shows that everything works")
    parser.add_argument("--scale", type=float, default=0.1)
    parser.add_argument("--batch", type=int, default=10_000)
    parser.add_argument("--batches", type=int, default=20, help="how many batches are measured")
    parser.add_argument("--queries", nargs="+", default=list(QUERIES))
    options = parser.parse_args()
    if options.quick:
        options.scale, options.batches, options.queries = 0.01, 3, ["q03", "q06"]
    stream = tpch.round_robin(tpch.tables(options.scale))
    spark = session()
    base = floor(spark)
    found = []
    for name in options.queries:
        found.append(measure(spark, name, stream, options))
        text = report(found, base, options, len(stream))
        print(text.splitlines()[-1], flush=True)
        RESULTS.mkdir(parents=True, exist_ok=True)
        (RESULTS / ("quick.md" if options.quick else "README.md")).write_text(text, encoding="utf-8")
    spark.stop()


if __name__ == "__main__":
    main()
