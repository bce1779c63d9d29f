"""Nexmark: events per second of one core and peak memory, against DuckDB that runs the query again.

    python benchmarks/nexmark.py [--quick] [--events 300000] [--queries q00 ..] [--seconds 1]

People, auctions and bids over streams: nothing is kept but what a view needs. Every cell is a process of its
own with one thread, and CPU time is what counts; events are made beforehand. *The whole stream* comes in
batches of 1,000, all effects of one event before the next; ``first_order`` is the same view kept by its first
delta only, over stored tables. *At the end of the stream* the result is read, as Arrow, after every so many
further events: by then DuckDB has inserted them and asked again. Both must hold the same rows. Tables that a
query does not read are brought to nobody. Memory is by how much the peak of what the process held grew.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import duckdb  # before the forks: what it takes to load is not what a query takes
import pyarrow as pa

import native
import plots
import reports
import viewlet
from cells import Cell, measured
from rates import COMPILING, batches_for, engine_for, from_python, question
from rivals import DuckDB, Question, Start
from viewlet.workloads import nexmark, queries, schema
from viewlet.workloads.stream import Stream, weighted

RESULTS = reports.results("nexmark")
BATCH = 1_000
EVERY = (1_000, 30_000)
SIDE = nexmark.side_input()


class Answering(Protocol):
    """Holds tables and answers one query in Arrow."""

    def apply(self, batch: Start) -> None:
        """Changes of several tables, with ``_weight``."""

    def answer(self) -> pa.Table:
        """The result, fresh."""


class Viewlet:
    """Streams, and one view."""

    def __init__(self, asked: Question, start: Start) -> None:
        self._db = viewlet.connect()
        static = schema("nexmark").replace("TABLE side_input", "STATIC TABLE side_input")
        self._db.execute(static.replace("CREATE TABLE", "CREATE STREAM"))
        self._db.insert("side_input", SIDE)
        self._db.execute(f"CREATE MATERIALIZED VIEW result AS {asked.text}")
        self._view = self._db.view("result")
        self.apply({table: rows for table, rows in start.items() if table != "side_input"})

    def apply(self, batch: Start) -> None:
        self._db.apply(dict(batch))

    def answer(self) -> pa.Table:
        return self._view.to_arrow()


class Again(DuckDB):
    """The query once more."""

    def answer(self) -> pa.Table:
        return self._connection.sql(self._text).to_arrow_table()


SYSTEMS: Mapping[str, Callable[[Question, Start], Answering]] = {"viewlet": Viewlet, "DuckDB": Again}


def whole_stream(asked: Question, batches: native.Batches, seconds: float, strategy: str) -> Cell:
    """Events per second from Python, and the growth of memory."""
    before = resident("VmRSS")
    cell = from_python(asked, batches, seconds, strategy=strategy)
    return replace(cell, bytes=resident("VmHWM") - before)


def at_the_end(system: str, asked: Question, stream: Stream, every: int, seconds: float) -> Cell:
    """The last events in batches, the result after each; the answer tells the rows after the first."""
    before, last = resident("VmRSS"), _intervals(len(stream), every) * every
    start = stream.first(len(stream) - last).changes | {"side_input": weighted(SIDE)}
    start = {table: start[table] for table in asked.tables}
    holder = SYSTEMS[system](asked, start)
    digests, done, spent = [], 0, 0.0
    for batch in stream.after(len(stream) - last).batches(every):
        own = {table: rows for table, rows in batch.items() if table in asked.tables}
        began = time.process_time()
        holder.apply(own)
        rows = holder.answer()
        spent, done = spent + time.process_time() - began, done + sum(r.num_rows for r in own.values())
        digests = digests or [(digest(rows),)]
        if spent > seconds:
            break
    return Cell(done / spent, done, answer=digests, bytes=resident("VmHWM") - before)


def _intervals(events: int, every: int) -> int:
    return max(min(events // every // 2, 20), 1)


def resident(which: str) -> int:
    """Bytes of this process that are in memory now (``VmRSS``), or were at the most (``VmHWM``)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(which))


def digest(rows: pa.Table) -> int:
    """A number for a bag of rows; doubles count to nine digits."""
    columns = (column.to_pylist() for column in rows.columns)
    return sum(hash(tuple(_rounded(value) for value in row)) for row in zip(*columns, strict=True))


def _rounded(value: Any) -> Any:
    return f"{value:.9g}" if isinstance(value, float) else value


@dataclass
class Run:
    """All cells, and the queries of which the systems hold different rows."""

    seconds: float
    cells: dict[tuple[str, str], Cell] = field(default_factory=dict)
    differing: list[str] = field(default_factory=list)

    def measure(self, name: str, what: str, task: Callable[[], Cell], patience: float) -> None:
        cell = self.cells[name, what] = measured(task, patience)
        print(f"{name} {what:24} {reports.shown(cell)} {size(cell)}", flush=True)

    def query(self, name: str, stream: Stream) -> None:
        """All cells of a query."""
        asked = question("nexmark", name, {"side_input": SIDE})
        batches = batches_for(asked, stream, BATCH)
        for what, strategy in (("whole stream", "auto"), ("first_order", "first_order")):
            engine_for(asked, strategy)  # compiled once for the processes that come
            task = partial(whole_stream, asked, batches, self.seconds, strategy)
            self.measure(name, what, task, COMPILING + 4 * self.seconds)
        for every in EVERY:
            for system in SYSTEMS:
                task = partial(at_the_end, system, asked, stream, every, self.seconds)
                self.measure(name, f"{system}, every {every:,}", task, COMPILING + 10 * self.seconds)
        self.compare(name)

    def compare(self, name: str) -> None:
        for every in EVERY:
            found = [self.cells[name, f"{system}, every {every:,}"].answer for system in SYSTEMS]
            if all(found) and any(answer != found[0] for answer in found):
                self.differing.append(f"{name}, every {every:,}")


def size(cell: Cell) -> str:
    return "" if cell.bytes is None else f"{cell.bytes / 1e6:.1f} MB"


def tables(run: Run, names: Sequence[str]) -> Iterator[str]:
    """The two tables of the report."""
    yield from ["## The whole stream", ""]
    rows = []
    for name in names:
        own, other = run.cells[name, "whole stream"], run.cells[name, "first_order"]
        lead = reports.times(own.rate, other.rate)
        rows.append([name, reports.shown(own), size(own), reports.shown(other), size(other), lead])
    columns = ["query", "viewlet, events per second", "memory", "first_order", "memory"]
    yield from reports.table([*columns, "viewlet / first_order"], rows)
    for every in EVERY:
        yield from [f"## A fresh result after every {every:,} events", ""]
        rows = []
        for name in names:
            own, other = (run.cells[name, f"{system}, every {every:,}"] for system in SYSTEMS)
            lead = reports.times(own.rate, other.rate)
            rows.append([name, reports.shown(own), reports.shown(other), size(other), lead])
        yield from reports.table(["query", "viewlet", "DuckDB", "memory of DuckDB", "viewlet / DuckDB"], rows)


def leads(run: Run, names: Sequence[str]) -> dict[str, list[float | None]]:
    """How many times our rate is DuckDB's, by query."""
    found: dict[str, list[float | None]] = {}
    for every in EVERY:
        pairs = [[run.cells[name, f"{system}, every {every:,}"].rate for system in SYSTEMS] for name in names]
        found[f"DuckDB, every {every:,} events"] = [a / b if a and b else None for a, b in pairs]
    return found


def write(run: Run, names: Sequence[str], folder: Path, words: str) -> None:
    """Tables, figures and a plot; refuses a run in which systems disagree."""
    lines = ["# Nexmark", "", reports.header(), "", words, "", *tables(run, names)]
    lines += ["![Times as many events per second as DuckDB, by query](leads.png)", ""]
    lines += [f"**{text}: not the same rows**" for text in run.differing]
    cells = [
        {"query": name, "what": what, **reports.plain(cell), "bytes": cell.bytes}
        for (name, what), cell in run.cells.items()
    ]
    reports.write(folder, lines, {"cells": cells})
    plots.leads(folder / "leads.png", names, leads(run, names), "times more events per second than")
    if run.differing:
        raise SystemExit(f"not the same rows: {'; '.join(run.differing)}")


def main() -> None:
    parser = reports.arguments(__doc__, "a short stream", queries("nexmark"), 1.0, RESULTS)
    parser.add_argument("--events", type=int, default=300_000)
    options = parser.parse_args()
    if options.quick:
        options.events, options.seconds = 20_000, 0.1
    stream = nexmark.Market().stream(options.events)
    run = Run(options.seconds)
    for name in options.queries:
        run.query(name, stream)
    words = (
        f"{options.events:,} events, 10,000 per second of their own time; DuckDB {duckdb.__version__}. "
        "\\* marks a run that was stopped for its time before the end; its memory is of that part."
    )
    write(run, options.queries, options.out, words)


if __name__ == "__main__":
    main()
