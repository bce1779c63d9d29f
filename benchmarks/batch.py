"""Batches of 1 to 100,000 changes: throughput against one change at a time, and against DuckDB.

    python benchmarks/batch.py [--quick] [--scale 0.05] [--queries q01 ..] [--seconds 1]

For every query the stream of all TPC-H rows runs through compiled triggers once per row (``single``, in
Arrow batches of 10,000, so that Python is paid for in the same way), then in batches that are summed and
refreshed as one (``trigger="batch"``). DuckDB inserts the same batches and runs the query again after each.
Rates are events per CPU second from Python, everything counted.
"""

from __future__ import annotations

import time
from pathlib import Path

import plots
import reports
from cells import Cell
from rates import Run, batches_for, engine_for, from_python, question, tpch_stream
from rivals import DuckDB, Question
from viewlet.workloads import queries
from viewlet.workloads.stream import Stream

RESULTS = reports.results("batch")
SIZES = (1, 10, 100, 1_000, 10_000, 100_000)
RIVAL_SIZES = (1, 100, 10_000)
MOST_BATCHES = 4_000


def refreshed(asked: Question, stream: Stream, size: int, seconds: float) -> Cell:
    """Batches of one size, each refreshed as one, for as long as there is time."""
    engine = engine_for(asked, batches="all")
    cut = stream.first(min(len(stream), MOST_BATCHES * size))
    moving = [part for part in batches_for(asked, cut, size) if part[0] in engine.tables()]
    done, began = 0, time.process_time()
    for table, batch, weights in moving:
        engine.apply_arrow(table, batch, weights, "batch")
        done += batch.num_rows
        if time.process_time() - began > seconds:
            break
    spent = time.process_time() - began
    return Cell(done / spent, done, partial=done < sum(batch.num_rows for _, batch, _ in moving))


def asked_again(asked: Question, stream: Stream, size: int, seconds: float) -> Cell:
    """DuckDB, which has half of the stream already."""
    half = stream.first(len(stream) // 2)
    system = DuckDB(asked, {table: half.changes[table] for table in asked.tables})
    done, began = 0, time.process_time()
    for batch in stream.after(len(stream) // 2).batches(size):
        read = {table: rows for table, rows in batch.items() if table in asked.tables}
        system.apply(read)
        system.rows()
        done += sum(rows.num_rows for rows in read.values())
        if time.process_time() - began > seconds:
            break
    return Cell(done / (time.process_time() - began), done)


def single(run: Run, name: str, asked: Question, stream: Stream) -> None:
    """One row at a time; also compiles what the other processes need."""
    batches = batches_for(asked, stream)
    engine_for(asked)
    engine_for(asked, batches="all")
    run.measure(name, "single", lambda: from_python(asked, batches, run.seconds))


def write(run: Run, names: list[str], sizes: tuple[int, ...], folder: Path, words: str) -> None:
    """Tables, figures, and a plot like the one this repeats."""
    systems = ["single", *(f"{size:,}" for size in sizes)]
    again = [f"DuckDB, {size:,}" for size in RIVAL_SIZES if size in sizes]
    rows, curves = [], {}
    for name in names:
        base = run.cells[name, "single"]
        own = [run.cells[name, system] for system in systems]
        leads = [reports.times(cell.rate, base.rate) for cell in own[1:]]
        shown = [
            f"{reports.shown(cell)} ({lead})" if lead else reports.shown(cell)
            for cell, lead in zip(own[1:], leads, strict=True)
        ]
        rows.append([name.upper(), reports.shown(base), *shown])
        curves[name] = [
            (size, cell.rate / base.rate)
            for size, cell in zip(sizes, own[1:], strict=True)
            if cell.rate and base.rate
        ]
    rivals = []
    for name in names:
        row = [name.upper()]
        for system in again:
            cell = run.cells[name, system]
            own_rate = run.cells[name, system.removeprefix("DuckDB, ")].rate
            row.append(f"{reports.shown(cell)} ({reports.times(own_rate, cell.rate)})")
        rivals.append(row)
    lines = [
        "# Batches",
        "",
        reports.header(),
        "",
        words,
        "",
        "Events per CPU second; in brackets, as a multiple of the rate of one row at a time. Every table "
        "has batch triggers here; by default only those where something is recomputed. \\* marks a run that "
        "was stopped for its time before the end of the stream.",
        "",
        *reports.table(["query", "single", *(f"batch of {size:,}" for size in sizes)], rows),
        "DuckDB runs the query again after each batch, in the second half of the stream. In brackets: how "
        "many times as many events per second Viewlet takes in the same batches.",
        "",
        *reports.table(["query", *again], rivals),
    ]
    cells = [
        {"query": name, "system": system, **reports.plain(cell)} for (name, system), cell in run.cells.items()
    ]
    lines += ["![Throughput by batch size](figure4_6.png)", ""]
    reports.write(folder, lines, {"cells": cells})
    plots.curves(folder / "figure4_6.png", curves, "batch size", "throughput against single rows")


def main() -> None:
    parser = reports.arguments(__doc__, "a small scale", queries("tpch"), 0.2, RESULTS)
    parser.add_argument("--scale", type=float, default=0.05)
    options = parser.parse_args()
    sizes = SIZES
    if options.quick:
        options.scale, options.seconds, sizes = 0.01, 0.1, SIZES[:-1]
    stream, static = tpch_stream(options.scale)
    run = Run("tpch", options.seconds, patience=3 + 3 * options.seconds)
    for name in options.queries:
        asked = question("tpch", name, static)
        single(run, name, asked, stream)
        for size in sizes:
            run.measure(name, f"{size:,}", lambda a=asked, s=size: refreshed(a, stream, s, options.seconds))
        for size in (size for size in RIVAL_SIZES if size in sizes):
            run.measure(
                name,
                f"DuckDB, {size:,}",
                lambda a=asked, s=size: asked_again(a, stream, s, options.seconds / 2),
            )
    words = (
        f"TPC-H, scale factor {options.scale:g}, {len(stream):,} insertions. Nothing here is a TPC result."
    )
    write(run, options.queries, sizes, options.out, words)


if __name__ == "__main__":
    main()
