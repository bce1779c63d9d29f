"""What the way from Python into a view costs: the public API against the bare engine and hand-written C.

    python benchmarks/boundary.py [--quick] [--scale 0.05] [--events 300000] [--repetitions 3] [--out FOLDER]

Events come as Arrow batches of 10,000 rows with a full refresh after every row (``trigger="tuple"``), once
through ``db.apply`` into streams, into tables that keep their rows, and into tables of a durable database
(``durability="batch"``), once straight into the engine, once as integers into the programs of
``benchmarks/limits``. One row at a time: ``table.add(..)`` and ``view.value`` of a scalar view. Figures are
CPU time of the whole process, the smallest of the repetitions; limit programs do not count reading input.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import reports
import viewlet
from viewlet.sql.catalog import Catalog
from viewlet.sql.parse import parse
from viewlet.workloads import order_book, queries, schema, tpch
from viewlet.workloads.stream import Stream, round_robin

sys.path.insert(0, str(Path(__file__).parent))

import native  # the cases and their limit programs

RESULTS = reports.results("boundary")
GOALS = {"q06": 10.0, "bsv": 10.0, "q01": 5.0, "q03": 2.0}
GOAL_OF_ONE_ROW = 500.0


def least(repetitions: int, prepare: Callable[[], Any], run: Callable[[Any], None]) -> float:
    """CPU seconds of a run, the smallest of several."""
    seconds = []
    for _ in range(repetitions):
        prepared = prepare()
        began = time.process_time()
        run(prepared)
        seconds.append(time.process_time() - began)
    return min(seconds)


def database(name: str, suite: str, kind: str, folder: str | None) -> viewlet.Database:
    """A database with one view; its program is loaded by an empty batch."""
    target = None if folder is None else Path(tempfile.mkdtemp(dir=folder)) / "b.viewlet"
    db = viewlet.connect(target, durability="batch" if target else None)
    db.execute(schema(suite).replace("CREATE TABLE", f"CREATE {kind}"))
    db.execute(f"CREATE MATERIALIZED VIEW {name} AS {queries(suite)[name]}")
    db.stats()
    return db


def throughput(name: str, stream: Stream, repetitions: int) -> dict[str, object]:
    """Million events per second of one query, by the way that they take."""
    case = native.CASES[name]
    catalog = Catalog(statement.table for statement in parse(schema(case.suite)))
    tables = set(native.engine_for(name, case.suite, catalog).tables())
    batches = [
        {table: rows for table, rows in batch.items() if table in tables}
        for batch in stream.batches(native.BATCH)
    ]
    batches = [
        {
            table: pa.Table.from_batches([native.canonical(rows, catalog[table])]).append_column(
                "_weight", rows["_weight"]
            )
            for table, rows in batch.items()
        }
        for batch in batches
        if batch
    ]
    single = [
        (table, native.canonical(rows, catalog[table]), np.ascontiguousarray(rows["_weight"].to_numpy()))
        for batch in batches
        for table, rows in batch.items()
    ]
    events = sum(rows.num_rows for _, rows, _ in single)

    def feed(db: viewlet.Database) -> None:
        for batch in batches:
            db.apply(batch, trigger="tuple")

    def drive(engine: Any) -> None:
        for table, rows, weights in single:
            engine.apply_arrow(table, rows, weights, "tuple")

    def loaded() -> Any:
        engine = native.engine_for(name, case.suite, catalog)
        engine.tables()
        return engine

    assert case.rows is not None
    nanoseconds, _ = native.limit(name, case.rows(single), repetitions)
    with tempfile.TemporaryDirectory() as folder:
        seconds = {
            "engine": least(repetitions, loaded, drive),
            "streams": least(repetitions, lambda: database(name, case.suite, "STREAM", None), feed),
            "tables": least(repetitions, lambda: database(name, case.suite, "TABLE", None), feed),
            "durable tables": least(repetitions, lambda: database(name, case.suite, "TABLE", folder), feed),
        }
    rates = {"limit": round(1e3 / nanoseconds, 2)}
    rates |= {way: round(events / taken / 1e6, 2) for way, taken in seconds.items()}
    return {"query": name, "events": events, "goal": GOALS[name], **rates}


def one_row(kind: str, repetitions: int, rows: int) -> dict[str, object]:
    """Nanoseconds of one row in and one value out, by a stream or by a table, which keeps the rows."""

    def prepare() -> tuple[Any, Any]:
        db = viewlet.connect()
        db.execute(schema("finance").replace("CREATE TABLE", f"CREATE {kind}"))
        db.execute("CREATE MATERIALIZED VIEW total AS SELECT sum(price * volume) AS total FROM bids")
        bids, total = db.table("bids"), db.view("total")
        for number in range(3):
            bids.add(1, number, 3, 200, 9_950)
            _ = total.value
        return bids, total

    def both(handles: tuple[Any, Any]) -> None:
        bids, total = handles
        for number in range(rows):
            bids.add(2, number, 3, 200, 9_950)
            _ = total.value

    def nothing(handles: tuple[Any, Any]) -> None:
        for _ in range(rows):
            pass

    taken = least(repetitions, prepare, both) - least(repetitions, prepare, nothing)
    goal = GOAL_OF_ONE_ROW if kind == "STREAM" else ""
    return {"into a": kind.lower(), "add and value, ns": round(taken / rows * 1e9), "goal, ns": goal}


def table_of(rows: list[dict[str, object]]) -> str:
    """Rows as a Markdown table."""
    names = list(rows[0])
    lines = [names, ["---"] * len(names), *([str(row[name]) for name in names] for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def remark() -> str:
    """How far the figures are to be trusted."""
    load = os.getloadavg()[0]
    busy = load > (os.cpu_count() or 1)
    return f"Load {load:.1f}: preliminary, others were using the machine." if busy else f"Load {load:.1f}."


def main() -> None:
    """Measure, print, and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a few seconds: figures mean little")
    parser.add_argument("--scale", type=float, default=0.05, help="TPC-H scale factor")
    parser.add_argument("--events", type=int, default=300_000, help="events of the order book")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--queries", nargs="*", default=list(GOALS), choices=GOALS)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    if options.quick:
        options.scale, options.events, options.repetitions = 0.01, 50_000, 1
    streams: dict[str, Stream] = {}
    results = []
    for name in options.queries:
        suite = native.CASES[name].suite
        if suite not in streams:
            book = suite == "finance"
            streams[suite] = (
                order_book.stream(options.events, order_book.drawn(1_000))
                if book
                else round_robin(tpch.tables(options.scale))
            )
        results.append(throughput(name, streams[suite], options.repetitions))
        print(results[-1], flush=True)
    rows = 20_000 if options.quick else 300_000
    single = [one_row(kind, options.repetitions, rows) for kind in ("STREAM", "TABLE")]
    text = f"""# The boundary: million events per second by the way they take

`{" ".join(["python benchmarks/boundary.py", *sys.argv[1:]])}`, {platform.machine()},
Python {platform.python_version()}; CPU time. {remark()}

{table_of(results)}

One row at a time:

{table_of(single)}
"""
    print(text)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "boundary.md").write_text(text)
    (options.out / "boundary.json").write_text(
        json.dumps({"throughput": results, "one row": single}, indent=1)
    )


if __name__ == "__main__":
    main()
