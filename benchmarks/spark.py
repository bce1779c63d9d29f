"""Views on Spark: against re-evaluation, by batch size, by number of partitions, with optimizations off.

    python benchmarks/spark.py --quick    # a minute: everything works; all figures: RUNS below

The TPC-H tables arrive in turn, each in proportion to its size; Viewlet takes them as streams, nation and
region as static tables. The part of the stream before ``--after`` is applied as one batch, and one batch more
for warming up.

again      after every batch Viewlet gives the query's rows on the driver; Spark SQL runs the query as often,
           over everything that was applied in the end, held as cached DataFrames, and is run before until
           it no longer becomes faster (``warm_up``). Rows of both sides are compared.
all        the same for all 22 queries, with the first of the batch sizes.
growth     the ratio of both early, half-way and late in the stream, with the first of the batch sizes;
           before all of it, Spark SQL is warmed up over the tables as they are in the end.
breakeven  one batch of each size: Spark SQL again, a database in this process, one on Spark by lines to
           processes and by jobs, and what ``explain`` predicts.
scaling    1, 2 and 4 partitions with a batch that stays the same, and with one that grows with them; bytes
           and work per worker, counted and predicted from one partition.
fusion     Q3 with fusion of blocks and sharing of relations turned off.

Times are milliseconds. Results go to ``benchmarks/results/spark``, or where ``--results`` says.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import reports
import viewlet
from spark_report import PARTS, plot, plot_ratios, save
from viewlet.backends.spark import engine as spark_engine
from viewlet.backends.spark.advice import predict
from viewlet.backends.spark.distribute import ALL, Passes
from viewlet.workers import cluster as workers_cluster
from viewlet.workers.jobs import Jobs
from viewlet.workers.lines import Lines
from viewlet.workloads import queries, schema, tpch
from viewlet.workloads.stream import Batch, Stream

RESULTS = reports.results("spark")
QUERIES = ("q01", "q03", "q06", "q12", "q17", "q18")
FEW = 20
RUNS = (
    "--scale 1 --parts again --batches 3",
    "--scale 1 --parts all --batches 2",
    "--scale 1 --parts growth --batches 7",
    "--scale 0.3 --parts breakeven scaling fusion --batches 3",
)
DDL = re.sub(
    r"CREATE TABLE (\w+)",
    lambda found: f"CREATE {'STATIC TABLE' if found[1] in tpch.STATIC else 'STREAM'} {found[1]}",
    schema("tpch"),
)

PARTS_OF_FIRST = 8
"""So many batches bring the first part of the stream: what one changes of Q9 takes gigabytes at scale 1."""

Rows = list[tuple[Any, ...]]


def session() -> Any:
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.python.unix.domain.socket.enabled", "true")
        .config("spark.driver.memory", "6g")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    return spark


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    began = time.perf_counter()
    result = work()
    return (time.perf_counter() - began) * 1000, result


ROUND, GAIN, ROUNDS = 6, 0.97, 10
WARM = (
    f"Spark SQL is run before until the best of {ROUND} runs is less than {1 - GAIN:.0%} below the best of "
    f"those before them, {ROUND * ROUNDS} times at most"
)


def warm_up(measure: Callable[[], float]) -> None:
    """Measure something until it gets no faster, round by round.

    Java compiles what runs often: a query in a session that has just begun takes several times what it
    takes later, over more rows. It gets faster by so little from run to run that only rounds show it.
    """
    best = min(measure() for _ in range(ROUND))
    for _ in range(ROUNDS - 1):
        latest = min(measure() for _ in range(ROUND))
        if latest > GAIN * best:
            return
        best = latest


def floor(spark: Any, rounds: int = 10) -> float:
    """An empty job of one Python stage."""
    anchor = spark.sparkContext.parallelize(range(2), 2).persist()
    job = anchor.mapPartitions(lambda rows: iter([sum(rows)]))
    return median(timed(job.collect)[0] for _ in range(rounds + 3))


@dataclass(frozen=True)
class Workload:
    """The first part of the stream, and the batches after it."""

    first: Batch
    batches: list[Batch]

    @classmethod
    def of(cls, stream: Stream, sizes: list[int], after: float) -> Workload:
        at = int(len(stream) * after)
        if at + sum(sizes) > len(stream):
            raise SystemExit(
                f"{len(stream):,} rows are too few: raise --scale, or lower --batches, --sizes or --after"
            )
        found = cls(stream.first(at).whole(), [])
        for size in sizes:
            found.batches.append(next(islice(stream.after(at).batches(size), 1)))
            at += size
        return found


@contextmanager
def maintained(target: Any, name: str, first: Batch) -> Iterator[Any]:
    """A database with one view over the first part of the stream."""
    with viewlet.connect(target) as db:
        db.execute(DDL)
        db.apply({table: first[table] for table in tpch.STATIC})
        db.execute(f"CREATE MATERIALIZED VIEW {name} AS {queries('tpch')[name]}")
        for part in range(PARTS_OF_FIRST):
            db.apply({t: _part(rows, part) for t, rows in first.items() if t not in tpch.STATIC})
        db.view(name).rows()
        yield db


def _part(rows: pa.Table, number: int) -> pa.Table:
    start, stop = (rows.num_rows * n // PARTS_OF_FIRST for n in (number, number + 1))
    return rows.slice(start, stop - start)


def refreshed(db: Any, name: str, batch: Batch) -> Rows:
    db.apply(batch)
    rows: Rows = db.view(name).rows()
    return rows


# Against re-evaluation.


def evaluated_again(
    spark: Any, workload: Workload, names: Iterable[str], runs: int
) -> dict[str, tuple[list[float], Rows]]:
    """What queries take over everything, each table a DataFrame in memory, when warm; and their rows."""
    tables: dict[str, Any] = {}
    found: dict[str, tuple[list[float], Rows]] = {}
    with tempfile.TemporaryDirectory(prefix="viewlet-benchmark-") as folder:
        for step, batch in enumerate([workload.first, *workload.batches]):
            for table, rows in batch.items():
                pq.write_table(rows.drop_columns(["_weight"]), Path(folder, f"{table}-{step:04}.parquet"))
                tables[table] = None
        for table in tables:
            tables[table] = spark.read.parquet(f"{folder}/{table}-*.parquet").repartition(2).cache()
            tables[table].count()
            tables[table].createOrReplaceTempView(table)
        for name in names:
            again = partial(_evaluated, spark, queries("tpch")[name])
            warm_up(lambda again=again: again()[0])
            times = [again() for _ in range(runs)]
            found[name] = [spent for spent, _ in times], [tuple(row) for row in times[-1][1]]
    for frame in tables.values():
        frame.unpersist()
    spark.catalog.clearCache()
    return found


def _evaluated(spark: Any, sql: str) -> tuple[float, Any]:
    """What a query takes, without parsing and analysis, and its rows."""
    return timed(spark.sql(sql).collect)


def against_again(spark: Any, stream: Stream, options: argparse.Namespace) -> None:
    compared(spark, stream, options, options.queries or list(QUERIES), options.sizes, "again")


def against_all(spark: Any, stream: Stream, options: argparse.Namespace) -> None:
    compared(spark, stream, options, options.queries or sorted(queries("tpch")), options.sizes[:1], "all")


@dataclass(frozen=True)
class Compared:
    """A query with batches of one size: what each took, and what the query took again."""

    name: str
    size: int
    stages: float
    ours: list[float]
    theirs: list[float]
    same: bool

    @property
    def ratio(self) -> float:
        return median(self.theirs) / median(self.ours)


def measured(
    spark: Any,
    stream: Stream,
    options: argparse.Namespace,
    names: list[str],
    sizes: list[int],
    after: float,
) -> Iterator[Compared]:
    """Every query with every batch size, after a part of the stream."""
    each = [size for size in sizes for _ in range(options.batches)]
    workload = Workload.of(stream, [sizes[0], *each], after)
    again = evaluated_again(spark, workload, names, options.batches)
    for name in names:
        with maintained(spark, name, workload.first) as db:
            refreshed(db, name, workload.batches[0])
            before = sum(t.rounds for t in db.traffic())
            fresh = [timed(partial(refreshed, db, name, batch)) for batch in workload.batches[1:]]
            stages = (sum(t.rounds for t in db.traffic()) - before) / len(fresh)
        theirs, expected = again[name]
        same = sorted(map(str, fresh[-1][1])) == sorted(map(str, expected))
        for i, size in enumerate(sizes):
            ours = [spent for spent, _ in fresh[i * options.batches : (i + 1) * options.batches]]
            yield Compared(name, size, stages, ours, theirs, same)


def compared(
    spark: Any, stream: Stream, options: argparse.Namespace, names: list[str], sizes: list[int], page: str
) -> None:
    base = floor(spark)
    lines = [
        f"# Views on Spark against re-evaluation{': all queries' if page == 'all' else ''}",
        "",
        f"TPC-H at scale {options.scale:g}, {len(stream):,} rows, after {options.after:.0%} of them, "
        f"local[2]; an empty job of one Python stage takes {base:.0f}. Milliseconds per batch with its "
        f"result on the driver: median (worst) of {options.batches} batches of each size. {WARM}.",
        "",
        "| query | rows per batch | stages | floor | viewlet | Spark SQL again | ratio | same rows |",
        "|---|---|---|---|---|---|---|---|",
    ]
    ratios: dict[str, list[float]] = {f"batches of {size:,}": [] for size in sizes}
    for found in measured(spark, stream, options, names, sizes, options.after):
        ratios[f"batches of {found.size:,}"].append(found.ratio)
        lines.append(
            f"| {found.name} | {found.size:,} | {found.stages:.1f} | {found.stages * base:.0f} "
            f"| {shown(found.ours)} | {shown(found.theirs)} "
            f"| {found.ratio:.1f} | {'yes' if found.same else 'NO'} |"
        )
        print(lines[-1], flush=True)
        save(f"{page}.md", lines, options)
    save(f"{page}.md", [*lines, "", f"![ratio by query]({page}.png)"], options)
    plot_ratios(f"{page}.png", names, ratios, options)


def growth(spark: Any, stream: Stream, options: argparse.Namespace) -> None:
    """The same query and batch size early, half-way and late in the stream.

    What Java has compiled stays from one to the next: without a start over all rows, later ratios would
    have the faster Spark SQL.
    """
    names, shares = options.queries or list(QUERIES), (0.1, 0.5, 0.9)
    evaluated_again(spark, Workload(stream.whole(), []), names, 1)
    cells: dict[str, list[str]] = {name: [] for name in names}
    for share in shares:
        for found in measured(spark, stream, options, names, options.sizes[:1], share):
            cells[found.name].append(
                f"{found.ratio:.1f} ({median(found.theirs):.0f} / {median(found.ours):.1f})"
            )
            print(f"| {found.name} | {share:.0%} | {cells[found.name][-1]} |", flush=True)
    lines = [
        "# Growing with the stream",
        "",
        f"TPC-H at scale {options.scale:g}, {len(stream):,} rows, batches of {options.sizes[0]:,}, local[2]: "
        "how many times longer Spark SQL takes again than a batch does here (and milliseconds of both), "
        f"medians of {options.batches}. {WARM}; that also over all rows, before the first of these figures.",
        "",
        f"| query | {' | '.join(f'after {share:.0%}' for share in shares)} |",
        "|---" * (len(shares) + 1) + "|",
        *(f"| {name} | {' | '.join(found)} |" for name, found in cells.items()),
    ]
    save("growth.md", lines, options)


def shown(times: list[float]) -> str:
    return f"{median(times):.0f} ({max(times):.0f})"


# By batch size.


@contextmanager
def reached_by(way: Any) -> Iterator[None]:
    before, workers_cluster.Lines = workers_cluster.Lines, way
    try:
        yield
    finally:
        workers_cluster.Lines = before  # type: ignore[misc]


def breakeven(spark: Any, stream: Stream, options: argparse.Namespace) -> None:
    name, room = "q03", len(stream) // 3 // options.batches
    sizes = [size for size in (1, 10, 100, 1_000, 10_000, 100_000) if 1.2 * size < room]
    steps = [1_000, *[s for size in sizes for s in [size] * options.batches]]
    workload = Workload.of(stream, steps, options.after)
    again = median(evaluated_again(spark, workload, [name], options.batches)[name][0])
    columns: dict[str, list[float]] = {"Spark SQL again": [again] * len(sizes)}
    for label, target, way in (
        ("this process", None, Lines),
        ("Spark, lines", spark, Lines),
        ("Spark, jobs", spark, Jobs),
    ):
        with reached_by(way), maintained(target, name, workload.first) as db:
            refreshed(db, name, workload.batches[0])
            times = [timed(partial(refreshed, db, name, batch))[0] for batch in workload.batches[1:]]
        count = options.batches
        columns[label] = [median(times[i * count : (i + 1) * count]) for i in range(len(sizes))]
    held = int(len(stream) * options.after) + sum(steps)
    lines = [
        "# Break-even by batch size",
        "",
        f"Q3 of TPC-H at scale {options.scale:g} over {held:,} rows: milliseconds per batch with its "
        f"result, medians of {options.batches}; the least in each row is bold. In brackets what the model "
        f"behind `explain` says (`advice.py`). {WARM}.",
        "",
        f"| rows per batch | {' | '.join(columns)} |",
        "|---" * (len(columns) + 1) + "|",
    ]
    for i, size in enumerate(sizes):
        expected = predict(size, rounds=2, held=held)
        said = (expected.again, expected.here, expected.spread, None)
        row = [times[i] for times in columns.values()]
        cells = [
            (f"**{spent:.1f}**" if spent == min(row) else f"{spent:.1f}")
            + ("" if model is None else f" ({model:.1f})")
            for spent, model in zip(row, said, strict=True)
        ]
        lines.append(f"| {size:,} | {' | '.join(cells)} |")
        print(lines[-1], flush=True)
    lines += ["", "![milliseconds by rows per batch](breakeven.png)"]
    save("breakeven.md", lines, options)
    if not options.quick:
        found = {"held": held, "rounds": 2, "sizes": sizes, "ms": columns}
        (options.results / "breakeven.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    plot("breakeven.png", sizes, columns, options)


# By number of partitions.


def scaling(spark: Any, stream: Stream, options: argparse.Namespace) -> None:
    lines = [
        "# Partitions",
        "",
        f"TPC-H at scale {options.scale:g} after half the stream, local[2]: two cores for partitions and "
        "driver, so time cannot fall beyond that; bytes and work per worker show how it would. Predicted: "
        "what a single partition is told divides by the number of partitions, but for what a batch of "
        f"{FEW} rows takes, and so does its work; the "
        "counted figure is that of the worker with most. Milliseconds and kilobytes "
        f"per batch, medians of {options.batches}.",
        "",
        "| query | batch | partitions | ms | KB per worker | predicted | work per worker, ms | predicted |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name in ("q03", "q17", "q18"):
        for growing in (False, True):
            one: Scaled | None = None
            for partitions in (1, 2, 4):
                rows = options.sizes[0] * (partitions if growing else 4)
                now = scaled(spark, stream, name, partitions, rows, options)
                one = one or now
                share = 1.0 if growing else 1 / partitions
                lines.append(
                    f"| {name} | {rows:,} | {partitions} | {now.ms:.0f} "
                    f"| {now.told:.0f} | {one.least_told + (one.told - one.least_told) * share:.0f} "
                    f"| {now.work:.1f} | {one.least_work + (one.work - one.least_work) * share:.1f} |"
                )
                print(lines[-1], flush=True)
        save("scaling.md", lines, options)


@dataclass(frozen=True)
class Scaled:
    """Time per batch; kilobytes told to, and work of, the worker with most; and both at least."""

    ms: float
    told: float
    work: float
    least_told: float
    least_work: float


def scaled(
    spark: Any, stream: Stream, name: str, partitions: int, rows: int, options: argparse.Namespace
) -> Scaled:
    """Batches of so many rows with so many partitions; what a batch of few rows takes is the least."""
    count = options.batches
    workload = Workload.of(stream, [rows, FEW] + [rows] * count, options.after)
    spark.conf.set("spark.viewlet.partitions", str(partitions))
    try:
        with maintained(spark, name, workload.first) as db:
            warm, few, *rest = workload.batches
            refreshed(db, name, warm)
            (traffic,) = db.traffic()
            before = list(traffic.said), list(traffic.seconds)
            refreshed(db, name, few)
            least = _most(before[0], traffic.said, 1000), _most(before[1], traffic.seconds, 0.001)
            before = list(traffic.said), list(traffic.seconds)
            times = [timed(partial(refreshed, db, name, batch))[0] for batch in rest]
            told, work = (
                _most(before[0], traffic.said, 1000 * count),
                _most(before[1], traffic.seconds, 0.001 * count),
            )
    finally:
        spark.conf.unset("spark.viewlet.partitions")
    return Scaled(median(times), told, work, *least)


def _most(before: list[Any], after: list[Any], unit: float) -> float:
    return float(max(b - a for a, b in zip(before, after, strict=True)) / unit)


# What optimizations bring.


def fusion(spark: Any, stream: Stream, options: argparse.Namespace) -> None:
    levels = {
        "neither": Passes(shared=False, fused=False),
        "blocks are fused": Passes(shared=False, fused=True),
        "and relations are shared": ALL,
    }
    workload = Workload.of(stream, [options.sizes[0]] * (options.batches + 1), options.after)
    lines = [
        "# What the optimizations of distributed programs bring",
        "",
        f"Q3 of TPC-H at scale {options.scale:g} after half the stream, batches of {options.sizes[0]:,}, by "
        "lines and by jobs (as Figure 5.8 of the thesis). Milliseconds per batch, medians.",
        "",
        "| optimizations | rounds per batch | KB told per batch | lines | jobs |",
        "|---|---|---|---|---|",
    ]
    for label, passes in levels.items():
        found = []
        for way in (Lines, Jobs):
            with with_passes(passes), reached_by(way), maintained(spark, "q03", workload.first) as db:
                refreshed(db, "q03", workload.batches[0])
                (traffic,) = db.traffic()
                rounds, said = traffic.rounds, sum(traffic.said)
                times = [timed(partial(refreshed, db, "q03", batch))[0] for batch in workload.batches[1:]]
                rounds, said = traffic.rounds - rounds, sum(traffic.said) - said
            found.append(median(times))
        count = options.batches
        lines.append(
            f"| {label} | {rounds / count:.1f} | {said / count / 1000:.0f} "
            f"| {found[0]:.0f} | {found[1]:.0f} |"
        )
        print(lines[-1], flush=True)
    save("fusion.md", lines, options)


@contextmanager
def with_passes(passes: Passes) -> Iterator[None]:
    before, spark_engine.PASSES = spark_engine.PASSES, passes
    try:
        yield
    finally:
        spark_engine.PASSES = before


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a tiny run that shows that everything works")
    parser.add_argument("--scale", type=float, default=0.1)
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 100_000], help="rows per batch")
    parser.add_argument("--batches", type=int, default=5, help="how many batches of each size are measured")
    parser.add_argument("--queries", nargs="+", help="the six of the goals, or all, unless given")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--after", type=float, default=0.5, help="which part of the stream is there at first")
    parser.add_argument("--results", type=Path, default=RESULTS, help="the folder for tables and plots")
    options = parser.parse_args()
    if options.quick:
        options.scale, options.sizes, options.batches, options.queries = 0.01, [500], 2, ["q06", "q03"]
    stream = tpch.round_robin(tpch.tables(options.scale))
    spark = session()
    parts = {
        "again": against_again,
        "all": against_all,
        "growth": growth,
        "breakeven": breakeven,
        "scaling": scaling,
        "fusion": fusion,
    }
    for part in options.parts:
        parts[part](spark, stream, options)
    spark.stop()


if __name__ == "__main__":
    main()
