"""Longer streams: does the rate hold as more and more rows have been seen?

    python benchmarks/scale.py [--quick] [--scales 0.01 0.02 0.05 0.1] [--queries q01 ..] [--seconds 2]

Each TPC-H query over streams of growing length, through compiled triggers, all effects of one event before
the next (events per CPU second, ingest excluded). Twice: ``all rows`` are inserted and stay, as the tables
grow; with a ``window`` the orders and their lines go again when 30,000 others have come, so that what is held
stays the same while the stream grows. DuckDB runs the query again over the rows of each length.
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pyarrow as pa

import plots
import reports
from cells import Cell
from rates import Run, batches_for, engine_for, question, through_triggers, tpch_stream
from rivals import DuckDB, Question
from viewlet.workloads.stream import Stream, interleave

RESULTS = reports.results("scale")
SCALES = (0.01, 0.02, 0.05, 0.1)
WINDOW = 30_000
CHOSEN = ("q01", "q02", "q03", "q06", "q09", "q11", "q12", "q13", "q16", "q17", "q18", "q21", "q22")


def windowed(stream: Stream, window: int) -> Stream:
    """The same stream, in which rows of orders and lineitem go again after a number of later events."""
    timed = {}
    for table, rows in stream.changes.items():
        places = stream.places[table].astype(np.float64)
        if table in ("orders", "lineitem"):
            gone = np.flatnonzero(places + window < len(stream))
            weights = np.full(len(gone), -1, np.int64)
            going = rows.take(pa.array(gone))
            going = going.set_column(going.schema.get_field_index("_weight"), "_weight", pa.array(weights))
            rows = pa.concat_tables([rows, going])
            places = np.concatenate([places, places[gone] + window + 0.5])
        timed[table] = (rows, places)
    return interleave(timed)


def asked_again(asked: Question, stream: Stream) -> Cell:
    """How often DuckDB can run the query over all rows."""
    system = DuckDB(asked, {table: stream.changes[table] for table in asked.tables})
    done, began = 0, time.process_time()
    while time.process_time() - began < 0.1 and done < 20:
        system.rows()
        done += 1
    return Cell(done / (time.process_time() - began), done)


def write(run: Run, names: list[str], scales: list[float], folder: Path, words: str) -> None:
    """Tables, figures and a plot of the rates over the length."""
    lines = ["# Longer streams", "", reports.header(), "", words, ""]
    for kind in ("all rows", "window"):
        rows, curves = [], {}
        for name in names:
            cells = [run.cells[name, f"{kind}, {scale:g}"] for scale in scales]
            rows.append(
                [
                    name.upper(),
                    *map(reports.shown, cells),
                    reports.times(cells[-1].rate, cells[0].rate),
                ]
            )
            curves[name] = [(s, cell.rate) for s, cell in zip(scales, cells, strict=True) if cell.rate]
        title = "All rows stay" if kind == "all rows" else "A window of orders and lines"
        heads = ["query", *(f"scale {scale:g}" for scale in scales), "last against first"]
        plot = folder / f"figure4_5_{kind.replace(' ', '_')}.png"
        lines += [f"## {title}", "", *reports.table(heads, rows), f"![Rate by length]({plot.name})", ""]
        folder.mkdir(parents=True, exist_ok=True)
        plots.panels(plot, curves, "scale factor of the stream", "events per second")
    rows = []
    for name in names:
        cells = [run.cells[name, f"DuckDB, {scale:g}"] for scale in scales]
        own = run.cells[name, f"all rows, {scales[-1]:g}"].rate
        lead = reports.times(own, cells[-1].rate)
        rows.append([name.upper(), *map(reports.shown, cells), lead])
    heads = ["query", *(f"scale {scale:g}" for scale in scales), "our refreshes per one of its, last"]
    lines += ["## DuckDB: queries per second over all rows", "", *reports.table(heads, rows)]
    cells = [
        {"query": name, "system": system, **reports.plain(cell)} for (name, system), cell in run.cells.items()
    ]
    reports.write(folder, lines, {"cells": cells})


def main() -> None:
    parser = reports.arguments(__doc__, "two small scales", CHOSEN, 0.4, RESULTS)
    parser.add_argument("--scales", nargs="*", type=float, default=list(SCALES))
    options = parser.parse_args()
    if options.quick:
        options.scales, options.seconds = [0.001, 0.01], 0.2
    run = Run("tpch", options.seconds, patience=5 + 2 * options.seconds)
    for scale in options.scales:
        stream, static = tpch_stream(scale)
        moving = windowed(stream, WINDOW)
        for name in options.queries:
            asked = question("tpch", name, static)
            engine_for(asked)  # compiled once for the processes that come
            for kind, events in (("all rows", stream), ("window", moving)):
                batches = batches_for(asked, events)
                run.measure(
                    name,
                    f"{kind}, {scale:g}",
                    lambda a=asked, b=batches: through_triggers(a, b, options.seconds),
                )
            run.measure(name, f"DuckDB, {scale:g}", lambda a=asked, s=stream: asked_again(a, s))
    words = (
        "Events per CPU second through compiled triggers; \\*: time was up before the stream. "
        f"A window holds what came within {WINDOW:,} events. Nothing here is a TPC result."
    )
    write(run, options.queries, options.scales, options.out, words)


if __name__ == "__main__":
    main()
