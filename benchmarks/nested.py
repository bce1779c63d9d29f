"""Nested aggregates and inequality joins: time per change as the data grows, against rivals and limits.

    python benchmarks/nested.py [--quick] [--queries vwap mst ..] [--limit-seconds 1]

Each measurement is a process of its own. It fills the tables with n rows, then times single changes (half
insertions, half deletions, all effects of one before the next) in CPU nanoseconds. What is not through within
the time limit is told by what it did until then; nothing is extrapolated. What is compared with a limit is
measured three times, in turn with it, and the best of each counts. The limits in ``benchmarks/limits``
are C programs for one query each, over dense prices (Fenwick array) or any prices (wide-node tree); their
answers are compared with the view's. The rival ``scans`` is our own higher-order program without ordered
indexes; the other strategies recompute by ordered indexes where they can. The figures are those of the RPAI
paper: 7 rivals, 8 growth, 9 memory and rate over a stream. Tables, plots and ``results.json`` go to
``results/nested``.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

import reports
import viewlet.backends.native
from nested_data import CASES, Task, ddl_of, empty, fill_and_changes, text_of, typed
from nested_report import RIVALS, Report, shown, write
from viewlet.backends.native.build import find_compiler
from viewlet.backends.native.engine import NativeEngine
from viewlet.sql import compile_query
from viewlet.sql.catalog import Catalog
from viewlet.sql.parse import parse

LIMITS = Path(__file__).parent / "limits"
RUNTIME = Path(viewlet.backends.native.__file__).parent / "runtime"
RESULTS = reports.results("nested")
RUNS = ("--limit-seconds 0.7",)
SIZES = (10_000, 100_000, 1_000_000)
ROUNDS = 3
"""How often what is compared with a limit is measured: 100,000 events are through in milliseconds."""
LEVELS = (1_000, 3_000, 10_000)
SPARSE = 17
TRACED = ("vwap", "mst", "sq1")
"""The queries that are followed over a stream."""
LARGER = ("q17", "q17_skewed", "q17_fine")
"""The queries for which scans are measured at a larger size too: the paper has six million lines there."""
POINTS = 40
"""So many times on the way."""

REWRITTEN = {
    "vwap": """SELECT SUM(price * v) FROM (SELECT price, SUM(volume) AS v,
        (SELECT SUM(volume) FROM bids) AS total,
        SUM(SUM(volume)) OVER (ORDER BY price DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS above
        FROM bids GROUP BY price) WHERE 0.25 * total > above""",
    "vwap75": """SELECT SUM(price * v) FROM (SELECT price, SUM(volume) AS v,
        (SELECT SUM(volume) FROM bids) AS total, SUM(SUM(volume)) OVER (ORDER BY price) AS upto
        FROM bids GROUP BY price) WHERE 0.75 * total < upto""",
    "max_ineq": """SELECT SUM(price * v) FROM (SELECT price, SUM(volume) AS v,
        (SELECT SUM(volume) FROM bids) AS total, MAX(MAX(volume)) OVER (ORDER BY price) AS upto
        FROM bids GROUP BY price) WHERE 0.75 * total < upto""",
}
"""The same results by window functions, as one would write them for DuckDB."""


# Systems


def opened(task: Task) -> tuple[NativeEngine, Catalog, float]:
    """An engine with the query as its view, and the seconds that its code took to build."""
    catalog = Catalog(s.table for s in parse(ddl_of(task.query)))
    engine = NativeEngine(ordered=task.system != "scans")
    strategy = "higher_order" if task.system in ("viewlet", "scans") else task.system
    began = _compile_seconds()
    engine.create(
        "v", compile_query(text_of(task.query), catalog), catalog, {t: {} for t in catalog}, strategy
    )
    engine.tables()
    return engine, catalog, _compile_seconds() - began


def _compile_seconds() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def view(task: Task) -> dict[str, Any]:
    """One of the strategies on compiled triggers."""
    engine, catalog, building = opened(task)
    tables = set(engine.tables())
    fill, changes = fill_and_changes(task)
    for table, rows in fill.items():
        if table in tables:
            engine.apply_arrow(table, typed(rows, catalog, table), None, "batch")
    blocks = [(t, typed(rows, catalog, t), weights) for t, rows, weights in changes if t in tables]
    done, spent, size = 0, 0.0, 1
    longest = max(batch.num_rows for _, batch, _ in blocks)
    most = 1 if (sought := CASES[task.query].selects and not engine.tells("v")) else 1 << 15
    while done < longest and spent < task.seconds:
        start = time.process_time()
        for table, batch, weights in blocks:
            engine.apply_arrow(table, batch.slice(done, size), weights[done : done + size], "tuple")
            if sought:
                engine.count("v")
        taken = time.process_time() - start
        done, spent = done + size, spent + taken
        size = min(size * 8 if taken < task.seconds / 16 else 1, most, longest - done) or 1
    events = done * len(blocks)
    stats = {"ns": spent / events * 1e9, "events": events, "building": building}
    if done == longest and CASES[task.query].limits:
        answers = (row[-1] for row in engine.output("v"))
        stats["answer"] = int(sum(value for value in answers if value is not None))
    return stats | {"bytes": sum(m.bytes for m in engine.stats())}


def traced(task: Task) -> dict[str, Any]:
    """A stream of insertions from nothing: seconds and bytes after every part of it."""
    engine, catalog, _ = opened(task)
    tables = set(engine.tables())
    fill, _ = fill_and_changes(task)
    blocks = [(t, typed(rows, catalog, t)) for t, rows in fill.items() if t in tables]
    points, spent, done = [], 0.0, 0
    for end in np.unique(np.geomspace(100, task.n, POINTS).astype(int)).tolist():
        start = time.process_time()
        for table, batch in blocks:
            engine.apply_arrow(table, batch.slice(done, end - done), None, "tuple")
        spent += time.process_time() - start
        done = end
        points.append((done * len(blocks), spent, sum(m.bytes for m in engine.stats())))
        if spent > task.seconds:
            break
    return {"points": points}


def duckdb_again(task: Task) -> dict[str, Any]:
    """The query asked again after every change."""
    import duckdb

    connection = duckdb.connect()
    connection.execute("SET threads = 1")
    catalog = Catalog(s.table for s in parse(ddl_of(task.query)))
    fill, changes = fill_and_changes(task)
    text = REWRITTEN[task.query] if task.system == "duckdb rewritten" else text_of(task.query)
    for table in catalog:
        rows = typed(fill[table], catalog, table) if table in fill else empty(catalog, table)
        connection.execute(f"CREATE TABLE {table} AS SELECT * FROM rows")
    done, start = 0, time.process_time()
    while time.process_time() - start < task.seconds and done < len(changes[0][2]):
        for table, rows, weights in changes:
            row = typed(rows.slice(done, 1), catalog, table)
            same = " AND ".join(f"t.{name} = row.{name}" for name in row.schema.names)
            one = f"SELECT min(t.rowid) FROM {table} t, row WHERE {same}"
            insert, delete = (
                f"INSERT INTO {table} SELECT * FROM row",
                f"DELETE FROM {table} WHERE rowid = ({one})",
            )
            connection.execute(insert if weights[done] > 0 else delete)
            connection.execute(text).fetchall()
        done += 1
    events = done * len(changes)
    return {"ns": (time.process_time() - start) / events * 1e9, "events": events}


def limit(task: Task) -> dict[str, Any]:
    """The hand-written program for the query."""
    compiler = find_compiler()
    assert compiler is not None, "the limit programs need a C compiler"
    fill, changes = fill_and_changes(task)
    columns = CASES[task.query].limits
    parts, skipped = [], 0
    longest = max(len(weights) for _, _, weights in changes)
    sides = [side for side, _, _ in changes]
    for side, rows in fill.items():
        parts.append((sides.index(side), rows, np.ones(rows.num_rows, np.int64)))
        skipped += rows.num_rows
    parts += [
        (sides.index(side), rows.slice(at, 4096), weights[at : at + 4096])
        for at in range(0, longest, 4096)
        for side, rows, weights in changes
    ]
    data = []
    for side, rows, weights in parts:
        first = [np.full(rows.num_rows, side)] if len(sides) > 1 else []
        data.append(np.column_stack([*first, weights, *(rows[c].to_numpy() for c in columns)]))
    table = np.ascontiguousarray(np.concatenate(data), dtype=np.int64)
    tree = ["-std=gnu11", "-DTREE", f"-I{RUNTIME}"] if task.system == "tree" else []
    with tempfile.TemporaryDirectory() as folder:
        program, source = Path(folder) / "limit", LIMITS / f"{task.query}.c"
        subprocess.run([*compiler.command, "-O2", "-march=native", *tree, "-o", program, source], check=True)
        given = np.int64(len(table)).tobytes() + table.tobytes()
        answer = subprocess.run([program, str(skipped)], input=given, capture_output=True, check=True)
    ns, checksum = answer.stdout.split()
    return {"ns": float(ns), "events": len(table) - skipped, "answer": int(checksum)}


SYSTEMS = {
    "viewlet": view,
    "scans": view,
    "first_order": view,
    "reevaluate": view,
    "duckdb": duckdb_again,
    "duckdb rewritten": duckdb_again,
    "fenwick": limit,
    "tree": limit,
}


def measured(task: Task, *, trace: bool = False) -> dict[str, Any]:
    """A measurement in a process of its own; without figures if it was not through in time."""
    command = [sys.executable, __file__, "--child", json.dumps(asdict(task)), *["--trace"] * trace]
    patience = 15 + 10 * task.seconds + task.n / 20_000
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=patience, check=False)
    except subprocess.TimeoutExpired:
        return asdict(task) | {"failed": f"did not finish in {patience:.0f} s"}
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        return asdict(task) | {"failed": last[:200]}
    return asdict(task) | json.loads(done.stdout)


class Run:
    """The measurements of a run, in their order."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.sizes = tuple(options.sizes or (SIZES[:2] if options.quick else SIZES))
        self.seconds = 0.5 if options.quick else options.limit_seconds
        self.events = 20_000 if options.quick else 100_000
        self.systems = options.systems
        self.report = Report(self.sizes, [name for name in options.queries if not CASES[name].real])

    def cell(self, system: str, query: str, n: int) -> None:
        """Measure, unless the system was not asked for."""
        self.in_turn([Task(system, query, n, self.events, self.seconds)], 1)

    def in_turn(self, tasks: Sequence[Task], rounds: int) -> None:
        """Measure several things in turn, and again; the best of the rounds counts, for each of them."""
        asked = [task for task in tasks if task.system in self.systems]
        found = [[measured(task) for task in asked] for _ in range(rounds)]
        for results in zip(*found, strict=True):
            best = min(results, key=lambda result: result.get("ns", float("inf")))
            self.report.results.append(best)
            what = [
                f"{name}={best[name]}" for name in ("tick", "adversarial") if best[name] not in (1, False)
            ]
            print(f"{best['system']:17} {best['query']:11} {best['n']:9,} {shown(best)}", *what, flush=True)

    def query(self, name: str) -> None:
        """All cells of a query."""
        case = CASES[name]
        if case.real:
            for system in ("viewlet", "first_order"):
                self.cell(system, name, 0)
            return
        sizes = LEVELS if case.grows else self.sizes
        for n in sizes:
            own = Task("viewlet", name, n, self.events, self.seconds)
            tasks = [own]
            if case.limits:
                sparse = replace(own, tick=SPARSE)
                tasks += [replace(own, system="fenwick"), sparse, replace(sparse, system="tree")]
            if name in ("vwap", "mst"):
                tasks.append(replace(own, adversarial=True))
            self.in_turn(tasks, ROUNDS if case.limits else 1)
        for system in RIVALS:
            if system != "duckdb rewritten" or name in REWRITTEN:
                self.cell(system, name, self.sizes[0])
        if name in LARGER and len(self.sizes) > 1:
            self.cell("scans", name, self.sizes[1])

    def traces(self, names: list[str]) -> None:
        """Memory and rate over a stream."""
        for name in names:
            for system in ("viewlet", "scans", "reevaluate"):
                if system in self.systems:
                    n = LEVELS[-1] if CASES[name].grows else self.sizes[-1] // 10
                    task = Task(system, name, n, 0, 2 * self.seconds)
                    self.report.traces.append(measured(task, trace=True))
                    print(f"{system:17} {name:11} over a stream of {n:,}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--trace", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--quick", action="store_true", help="smaller sizes, less time for each")
    parser.add_argument("--queries", nargs="*", default=list(CASES), choices=CASES)
    parser.add_argument("--sizes", nargs="*", type=int, help="rows per table that changes")
    parser.add_argument("--systems", nargs="*", default=list(SYSTEMS), choices=SYSTEMS)
    parser.add_argument("--limit-seconds", type=float, default=1.0, help="CPU seconds per measurement")
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args()
    if options.child:
        task = Task(**json.loads(options.child))
        print(json.dumps((traced if options.trace else SYSTEMS[task.system])(task)))
        return
    run = Run(options)
    for name in options.queries:
        run.query(name)
    run.traces([name for name in TRACED if name in options.queries])
    write(run.report, options.results)


if __name__ == "__main__":
    main()
