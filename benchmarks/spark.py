"""Views on Spark against Spark SQL that evaluates the same query again, batch by batch, in one session.

    python benchmarks/spark.py [--quick] [--scale 0.05] [--batch 10000] [--queries q01 q03 ...]

The TPC-H tables arrive in turn, row by row of each in proportion, cut into batches. After every batch
both sides give the query's rows on the driver: Viewlet applies the batch and reads the view; Spark SQL runs
the query over everything so far, held as cached DataFrames (adding a batch to them is not timed). Times are
milliseconds per batch over the second half of the stream. The floor is an empty job of one Python stage.
Rows of both sides are compared at the end. Results go to ``benchmarks/results/spark``.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import viewlet
from viewlet.backends.spark.distribute import distribute
from viewlet.backends.spark.nodes import Local
from viewlet.backends.spark.place import place
from viewlet.workloads import queries, schema, tpch
from viewlet.workloads.stream import Batch, Stream

RESULTS = Path(__file__).parent / "results" / "spark"
QUERIES = ("q01", "q03", "q06", "q12", "q17", "q18")


@dataclass(frozen=True)
class Measured:
    """Milliseconds per batch of one query."""

    query: str
    stages: str
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


def maintained(spark: Any, name: str, batches: list[Batch]) -> tuple[list[float], list[tuple[Any, ...]], str]:
    """Apply each batch and read the view."""
    with viewlet.connect(spark) as db:
        db.execute(schema("tpch"))
        db.execute(f"CREATE MATERIALIZED VIEW {name} AS {queries('tpch')[name]}")
        times = []
        for batch in batches:
            spent, rows = timed(lambda batch=batch: (db.apply(batch), db.view(name).rows())[1])
            times.append(spent)
        return times, rows, stages(db, name)


def stages(db: viewlet.Database, name: str) -> str:
    from viewlet.sql import compile_query
    from viewlet.triggers.compile import compile_views

    program = compile_views({name: compile_query(queries("tpch")[name], db.catalog)}, db.catalog)
    spread = distribute(program, place(program), Local())
    return ", ".join(f"{table} {trigger.stages}" for table, trigger in spread.batch.items())


def reevaluated(spark: Any, name: str, batches: list[Batch]) -> tuple[list[float], list[tuple[Any, ...]]]:
    """Run the query again over all rows so far."""
    tables = dict.fromkeys(tpch.TABLES)
    times = []
    for batch in batches:
        for table, rows in batch.items():
            part = spark.createDataFrame(rows.drop_columns(["_weight"]))
            whole = part if tables[table] is None else tables[table].union(part)
            tables[table] = whole.coalesce(2).cache()
            tables[table].count()
            tables[table].createOrReplaceTempView(table)
        for table in (t for t, rows in tables.items() if rows is None):
            db_schema = spark.createDataFrame(batches_schema(batches, table))
            db_schema.createOrReplaceTempView(table)
        spent, rows = timed(lambda: spark.sql(queries("tpch")[name]).collect())
        times.append(spent)
    spark.catalog.clearCache()
    return times, [tuple(row) for row in rows]


def batches_schema(batches: list[Batch], table: str) -> Any:
    """No rows of a table that comes later."""
    rows = next(batch[table] for batch in batches if table in batch)
    return rows.drop_columns(["_weight"]).slice(0, 0)


def measure(spark: Any, name: str, stream: Stream, size: int) -> Measured:
    batches = list(stream.batches(size))
    fresh, rows, counted = maintained(spark, name, batches)
    again, expected = reevaluated(spark, name, batches)
    half = len(batches) // 2
    equal = sorted(map(str, rows)) == sorted(map(str, expected))
    return Measured(name, counted, fresh[half:], again[half:], equal)


def report(found: list[Measured], base: float, options: argparse.Namespace, rows: int) -> str:
    lines = [
        "# Views on Spark against re-evaluation",
        "",
        f"TPC-H at scale {options.scale}, {rows:,} rows in batches of {options.batch:,}; "
        f"empty job of one Python stage: {base:.0f} ms (median). Milliseconds per batch, median and worst of "
        "the second half of the stream. PRELIMINARY: measured on two cores with other work running.",
        "",
        "| query | stages per table | viewlet | worst | again | worst | again / viewlet | same rows |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for m in found:
        fresh, again = median(m.viewlet), median(m.again)
        lines.append(
            f"| {m.query} | {m.stages} | {fresh:.0f} | {max(m.viewlet):.0f} | {again:.0f} "
            f"| {max(m.again):.0f} | {again / fresh:.2f} | {'yes' if m.equal else 'NO'} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tiny run that shows that everything works")
    parser.add_argument("--scale", type=float, default=0.05)
    parser.add_argument("--batch", type=int, default=10_000)
    parser.add_argument("--queries", nargs="+", default=list(QUERIES))
    options = parser.parse_args()
    if options.quick:
        options.scale, options.batch, options.queries = 0.01, 20_000, ["q03", "q06"]
    stream = tpch.round_robin(tpch.tables(options.scale))
    spark = session()
    base = floor(spark)
    found = []
    for name in options.queries:
        found.append(measure(spark, name, stream, options.batch))
        print(report(found[-1:], base, options, len(stream)).splitlines()[-1], flush=True)
    text = report(found, base, options, len(stream))
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / ("quick.md" if options.quick else "README.md")).write_text(text, encoding="utf-8")
    print(text)
    spark.stop()


if __name__ == "__main__":
    main()
