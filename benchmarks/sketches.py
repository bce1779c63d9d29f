"""Provenance sketches: following changes against capturing again, and both against doing without.

    python benchmarks/sketches.py --rows 200000 --parts groups mixes      # a minute

All figures are made by the runs in ``RUNS``, of a few minutes each; the first one begins the report anew, and
each says how long its parts took.

The experiments are those of section 10 of the paper on in-memory incremental maintenance of sketches: TPC-H,
crimes, number of groups, of aggregates and of fragments, joins, join selectivity, break-even, optimizations
on and off, memory of bounded buffers, end-to-end mixes; TPC-H on PostgreSQL also without the indexes of its
keys. Times are wall seconds, the smallest of a few repetitions; what takes more than two seconds is not
repeated, as on Spark at scale 1 a batch with its writing. Ratios are within one run. *Capture again* is
the quicker of an instrumented and a two-pass capture, whatever the sketch itself uses; *fragments alone* is
the quickest way to answer once, which leaves nothing to follow changes with: often free capture, from the
result. *Paper's* is the factor that the paper gives for the experiment, NULL where it gives none, and
*reached* compares the least of our ratios with it: its factors are of PostgreSQL with 10 M rows, where a
capture takes longer than in DuckDB. *Follow* is the refresh of a sketch that a batch has left behind, without
the batch itself. What keeping it fresh *adds to a write* is all of it: how much longer a batch takes with a
sketch that follows at once than the same rows inserted into DuckDB without any store. CPU seconds stand
beside wall seconds where the database is in this process: a capture uses all cores. PostgreSQL is a server of
our own, started from the machine's binaries; Spark queries Parquet files. Tables have 1 M rows unless a
command says so. Results go to ``benchmarks/results/sketches``.
"""

from __future__ import annotations

import argparse
import gc
import time
import tracemalloc
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import reports
from sketches_harness import Database, Report, databases
from sketches_measure import DELTAS, RANGES, Measured, Mix, measure, sweep, synthetic
from viewlet.sketches.state import Keep
from viewlet.workloads import tpch
from viewlet.workloads.crimes import crimes

RESULTS = reports.results("sketches")
RUNS = (
    "--fresh --rows 10000000 --repeats 2 --parts triggers groups aggregates crimes",
    "--repeats 2 --parts fragments joins selectivity optimizations memory break_even",
    "--rows 5000000 --operations 36 --parts mixes",
    "--scale 1 --repeats 2 --parts tpch",
    "--backends postgres --rows 10000000 --repeats 1 --parts triggers",
    "--backends postgres --repeats 1 --parts fragments joins optimizations break_even",
    "--backends postgres --repeats 1 --parts groups aggregates crimes",
    "--backends postgres --operations 24 --parts mixes",
    "--backends postgres --scale 1 --repeats 1 --parts tpch",
    "--backends postgres --repeats 1 --parts tpch tpch_bare",
    "--backends spark --repeats 1 --parts tpch",
    "--backends spark --scale 1 --repeats 1 --parts tpch",
    "--backends spark --operations 24 --updates 1 200 2000 --parts mixes",
)


@dataclass(frozen=True)
class Size:
    """How much is measured."""

    rows: int
    scale: float
    repeats: int
    operations: int
    updates: tuple[int, ...]


# Experiments.

HAVING = "SELECT a, avg(b) AS ab FROM r GROUP BY a HAVING avg(c) < 640"


def groups(report: Report, database: Database, size: Size) -> None:
    """From few groups to many."""
    numbers = (50, 1000, 5000, size.rows // 20)
    measured = {}
    for number in sorted(numbers, key=lambda n: n != 5000):  # first those that other experiments have
        change = synthetic(database, size.rows, number)
        measured[number] = measure(database, HAVING, "r.a", change, DELTAS, size.repeats)
    cases = {f"{number} groups": measured[number] for number in numbers}
    # "2 (500k groups) to 3 (50 groups) orders of magnitude", of 10 M rows in PostgreSQL.
    paper = {case: 1000.0 if case == "50 groups" else 100.0 for case in cases}
    sweep(report, f"Number of groups, {size.rows} rows, {database.name}", cases, paper=paper)


def triggers(report: Report, database: Database, size: Size) -> None:
    """Operators beside the database against triggers compiled for the sketch."""
    change = synthetic(database, size.rows, 5000)
    keeps: tuple[Keep, ...] = ("native", "operators")
    cases: dict[str, Measured] = {}
    for keep in keeps:
        earlier = cases.get("native")
        cases[keep] = measure(
            database, HAVING, "r.a", change, DELTAS, size.repeats, keep=keep, earlier=earlier
        )
        paper = dict.fromkeys(cases, 100.0)
        sweep(report, f"Operators and triggers, {size.rows} rows, {database.name}", cases, paper=paper)


def aggregates(report: Report, database: Database, size: Size) -> None:
    """From one aggregate in HAVING to nine."""
    change = synthetic(database, size.rows, 5000, measures=9)
    cases = {}
    for number in (1, 2, 4, 9):
        conditions = ["avg(c) < 640", *(f"avg({column}) > -100" for column in "defghijk"[: number - 1])]
        text = f"SELECT a, avg(b) AS ab FROM r GROUP BY a HAVING {' AND '.join(conditions)}"
        cases[f"{number} aggregates"] = measure(database, text, "r.a", change, DELTAS, size.repeats)
    paper = dict.fromkeys(cases, 100.0)
    sweep(report, f"Number of aggregates, {size.rows} rows, {database.name}", cases, paper=paper)


JOIN = (
    "SELECT a, avg(b) AS ab FROM (SELECT a, b, c FROM r WHERE b < 1000) tt JOIN h ON a = ttid "
    "GROUP BY a HAVING avg(c) < 1000"
)


def _joined(
    database: Database, size: Size, number: int, copies: int, share: float, **options: Any
) -> Measured:
    change = synthetic(database, size.rows, number)
    database.load("h", pa.table({"ttid": np.repeat(np.arange(0, int(number * share) or 1), copies)}))
    return measure(database, JOIN, "r.a", change, DELTAS, size.repeats, **options)


def joins(report: Report, database: Database, size: Size) -> None:
    """1-n and m-n."""
    cases = {
        "1-n, 50 groups": _joined(database, size, 50, 1, 1.0),
        "1-n, 5000 groups": _joined(database, size, 5000, 1, 1.0),
        "20-n, 5000 groups": _joined(database, size, 5000, 20, 1.0),
    }
    sweep(report, f"Joins, {size.rows} rows, {database.name}", cases)


def selectivity(report: Report, database: Database, size: Size) -> None:
    """What share of the rows finds a partner."""
    cases = {
        f"{share:.0%} joins": _joined(database, size, 5000, 1, share) for share in (0.01, 0.05, 0.1, 0.5)
    }
    sweep(report, f"Join selectivity, {size.rows} rows, {database.name}", cases)


def fragments(report: Report, database: Database, size: Size) -> None:
    """From 10 ranges to 5,000."""
    change = synthetic(database, size.rows, 5000)
    cases = {
        f"{number} ranges": measure(database, HAVING, "r.a", change, DELTAS, size.repeats, ranges=number)
        for number in (10, 100, 1000, 5000)
    }
    sweep(report, f"Number of fragments, {size.rows} rows, {database.name}", cases)


def break_even(report: Report, database: Database, size: Size) -> None:
    """Up to a change of a fifth of the table; the paper's own lies between 2.5 and 5.5 % of it."""
    sizes = tuple(int(size.rows * share) for share in (0.001, 0.01, 0.05, 0.1, 0.15, 0.2))
    cases = {}
    for number in (5000, 50):
        change = synthetic(database, size.rows, number)
        cases[f"{number} groups"] = measure(database, HAVING, "r.a", change, sizes, size.repeats)
        database.holds = None  # so much was inserted and deleted that the next one starts anew
    sweep(report, f"Break-even, {size.rows} rows, {database.name}", cases, sizes)


def city(report: Report, database: Database, size: Size) -> None:
    """The two queries over crimes."""
    database.load("crimes", crimes(size.rows))
    queries = {
        "crimes 1": ("SELECT beat, year, count(id) AS n FROM crimes GROUP BY beat, year", "crimes.beat"),
        "crimes 2": (
            "SELECT district, community_area, ward, beat, count(beat) AS n FROM crimes "
            "GROUP BY district, community_area, ward, beat HAVING count(id) > 1000",
            "crimes.beat",
        ),
    }
    change = lambda n: crimes(n, first=size.rows)  # noqa: E731
    cases = {
        name: measure(database, text, on, change, DELTAS, size.repeats, table="crimes")
        for name, (text, on) in queries.items()
    }
    sweep(report, f"Crimes, {size.rows} rows, {database.name}", cases)


REVENUE = "sum(l_extendedprice * (1 - l_discount))"
# Orders are total: ties are broken by a key, without which rule S9 refuses a LIMIT.
TPCH = {
    "Q1, by part": (
        "SELECT l_partkey, sum(l_quantity) AS q, count(*) AS n FROM lineitem "
        "WHERE l_shipdate <= DATE '1998-09-02' GROUP BY l_partkey HAVING sum(l_quantity) > 1200",
        "lineitem.l_partkey",
    ),
    "Q3": (
        f"SELECT l_orderkey, o_orderdate, o_shippriority, {REVENUE} AS revenue "
        "FROM customer, orders, lineitem WHERE c_mktsegment = 'BUILDING' AND c_custkey = o_custkey "
        "AND l_orderkey = o_orderkey AND o_orderdate < DATE '1995-03-15' AND l_shipdate > DATE '1995-03-15' "
        "GROUP BY l_orderkey, o_orderdate, o_shippriority "
        "ORDER BY revenue DESC NULLS LAST, o_orderdate, l_orderkey, o_shippriority LIMIT 10",
        "lineitem.l_orderkey",
    ),
    "Q10": (
        f"SELECT c_custkey, {REVENUE} AS revenue FROM customer, orders, lineitem "
        "WHERE c_custkey = o_custkey AND l_orderkey = o_orderkey AND o_orderdate >= DATE '1993-10-01' "
        "AND o_orderdate < DATE '1994-01-01' AND l_returnflag = 'R' "
        "GROUP BY c_custkey ORDER BY revenue DESC NULLS LAST, c_custkey LIMIT 20",
        "customer.c_custkey",
    ),
    "Q18": (
        "SELECT c_custkey, o_orderkey, sum(l_quantity) AS q FROM customer, orders, lineitem "
        "WHERE c_custkey = o_custkey AND o_orderkey = l_orderkey "
        "GROUP BY c_custkey, o_orderkey HAVING sum(l_quantity) > 300",
        "lineitem.l_orderkey",
    ),
}


KEYS = {"customer": "c_custkey", "orders": "o_orderkey", "lineitem": "l_orderkey"}


def benchmark_tables(report: Report, database: Database, size: Size, indexed: bool = True) -> None:
    """TPC-H queries with HAVING and top-k, with the indexes of its keys; changes are of lineitem."""
    tables = tpch.tables(size.scale, list(KEYS))
    lines = tables["lineitem"]
    for name, key in KEYS.items():
        database.load(name, tables[name], order=key if indexed else None)

    def change(n: int) -> pa.Table:
        # Copies of rows that are there, so that every one finds its order and customer.
        return lines.take(np.random.default_rng(n).integers(0, lines.num_rows, n)).combine_chunks()

    cases = {}
    for name, (text, on) in TPCH.items():  # reported one by one: the larger scales take minutes
        cases[name] = measure(database, text, on, change, DELTAS, size.repeats, table="lineitem")
        paper = dict.fromkeys(cases, 3.9)  # the least of all its queries; the most is 2,497
        without = "" if indexed else " without indexes"
        sweep(report, f"TPC-H{without}, scale {size.scale:g}, {database.name}", cases, paper=paper)


def bare_tables(report: Report, database: Database, size: Size) -> None:
    """The same without the indexes, which joins with a change otherwise use."""
    benchmark_tables(report, database, size, indexed=False)


def optimizations(report: Report, database: Database, size: Size) -> None:
    """Bloom filters for a join that few rows pass, and selection in the fetch of changes: on and off."""
    cases = {}
    change = synthetic(database, size.rows, 5000)
    text = "SELECT a, avg(b) AS ab FROM r WHERE b < 40 GROUP BY a HAVING avg(c) < 640"
    for optimize in (True, False):
        word = "with" if optimize else "without"
        cases[f"{word} selection in the fetch"] = measure(
            database, text, "r.a", change, DELTAS, size.repeats, keep="native", optimize=optimize
        )
    for optimize in (True, False):
        word = "with" if optimize else "without"
        large = {"number": size.rows // 20, "copies": 1, "share": 0.2}
        cases[f"{word} Bloom filters"] = _joined(
            database,
            size,
            **large,
            keep="operators",
            optimize=optimize,  # type: ignore[arg-type]
        )
    sweep(report, f"Optimizations, {size.rows} rows, {database.name}", cases)


def memory(report: Report, database: Database, size: Size) -> None:
    """Bounded buffers of top-k."""
    groups = size.rows // 20
    change = synthetic(database, size.rows, groups)
    text = "SELECT a, sum(b) AS s FROM r GROUP BY a ORDER BY s DESC NULLS LAST, a LIMIT 20"
    table = []
    m = None
    for bound in (100, 1000, 10_000, None):
        m = measure(database, text, "r.a", change, (100,), size.repeats, bound=bound, earlier=m)
        table.append([bound or "all", m.entries, _megabytes(database, text, bound), m.follow[100]])
    columns = ["reserve", "entries", "MB, groups included", "follow 100, s"]
    points = [(groups if bound == "all" else bound, megabytes) for bound, _, megabytes, _ in table]
    plot = {"x": "rows in reserve", "y": "MB, groups included", "series": {"top-20": points}}
    report.table(f"Bounded buffers of top-20, {size.rows} rows, {database.name}", columns, table, plot)


def _megabytes(database: Database, text: str, bound: int | None) -> float:
    """What the state of a sketch takes."""
    store = database.fresh_store()
    gc.collect()
    tracemalloc.start()
    sketch = store.capture(text, on="r.a", ranges=RANGES, eager=False, bound=bound)
    gc.collect()
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert sketch.incremental
    return taken / 1e6


def mixes(report: Report, database: Database, size: Size) -> None:
    """One operation after the other; sketches are used with the store's own choice."""
    columns = ["mix", "rows per update", "without sketch, s", "captured anew, s", "by itself, s"]
    columns += ["by itself / best other", "the cost model said", "so", "what it did"]
    title = f"End to end, {size.operations} operations, {size.rows} rows, {database.name}"
    table = []
    series: dict[str, list[tuple[int, float]]] = {}
    plot = {"x": "rows per update", "y": "by itself / best other", "series": series}
    synthetic(database, size.rows, 5000, order="a")
    mix = Mix(database)
    for updates, queries in ((1, 1), (1, 5), (5, 1)):
        for rows in size.updates:
            mix.begin()
            mix.run(updates, queries, rows, size.operations)
            times = mix.seconds
            ratio = times["by itself"] / min(times["without"], times["captured anew"])
            said = mix.said()
            close = "no gain, as it said" if said == "do without" else "loses less than 10 %"
            verdict = "wins" if ratio < 1 else close if ratio <= 1.1 else "loses"
            table.append([f"{updates}U{queries}Q", rows, *times.values(), ratio, said, verdict, mix.told()])
            series.setdefault(f"{updates}U{queries}Q", []).append((rows, ratio))
        report.table(title, columns, table, plot)


PARTS = {
    "tpch": benchmark_tables,
    "tpch_bare": bare_tables,
    "crimes": city,
    "groups": groups,
    "triggers": triggers,
    "aggregates": aggregates,
    "joins": joins,
    "selectivity": selectivity,
    "fragments": fragments,
    "break_even": break_even,
    "optimizations": optimizations,
    "memory": memory,
    "mixes": mixes,
}


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--scale", type=float, default=0.1, help="of TPC-H")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--operations", type=int, default=60, help="of each mix")
    parser.add_argument("--updates", type=int, nargs="+", default=[1, 20, 200, 2000], help="rows, of a mix")
    parser.add_argument("--backends", nargs="+", default=["duckdb"], choices=["duckdb", "postgres", "spark"])
    parser.add_argument("--parts", nargs="+", default=list(PARTS), choices=list(PARTS))
    parser.add_argument("--folder", type=Path, default=RESULTS)
    parser.add_argument("--fresh", action="store_true", help="begin the report anew: no table remains")
    parser.add_argument("--preliminary", action="store_true", help="say so beside every table")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    report = Report(options.folder, "Preliminary: measured beside other work" if options.preliminary else "")
    if options.fresh:
        report.clear()
    size = Size(options.rows, options.scale, options.repeats, options.operations, tuple(options.updates))
    with databases(options.backends) as opened:
        for database in opened:
            for part in options.parts:
                began = time.perf_counter()
                PARTS[part](report, database, size)
                print(f"{part}, {database.name}: {time.perf_counter() - began:.0f} s\n", flush=True)


if __name__ == "__main__":
    main()
