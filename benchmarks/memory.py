"""What views take in memory: bytes per entry against their payload, and whether it grows with the stream.

    python benchmarks/memory.py [--quick] [--scale 0.05] [--queries q01 ..]

``payload`` is what the keys and sums of all entries of all maps take by their types. The goal is twice that
and 16 bytes per entry for each way to find it. The whole state, with strings and room to grow, is compared
with what it was at half of the stream: once with all rows staying, once with a window of orders and lines
that moves on, in which what a view holds stays the same, so its memory should. ``first_order`` is the same
query kept by its first delta only, over stored tables.
"""

from __future__ import annotations

import argparse
from dataclasses import asdict, dataclass
from pathlib import Path

import reports
from cells import Cell, measured
from rates import batches_for, engine_for, question, tpch_stream
from rivals import Question
from scale import WINDOW, windowed
from viewlet.backends.native.engine import NativeEngine
from viewlet.backends.native.forms import Form, field_form, stored_form
from viewlet.loops.nodes import Record
from viewlet.workloads import order_book, queries
from viewlet.workloads.stream import Stream

RESULTS = reports.results("memory")
PER_INDEX = 16
COUNTED = 1_000
"""Maps with fewer entries are left out of bytes per entry: they are a page or two."""


@dataclass(frozen=True, slots=True)
class Size:
    """The state of a program: entries and bytes of its larger maps, what they may take, and all bytes."""

    entries: int
    payload: int
    goal: int
    bytes: int
    state: int


def payload(record: Record) -> int:
    """Bytes of keys and sums of one entry."""
    keys = sum(stored_form(key.type)[1] for key in record.keys)
    return keys + sum(8 if field_form(field.type) is Form.I64 else 16 for field in record.fields)


def size_of(engine: NativeEngine) -> Size:
    """What an engine holds now."""
    running = engine._run()  # sizes are asked below the public statistics, which add fields up
    totals = [0, 0, 0, 0]
    for name, (entries, taken) in zip(running.source.records, running.opened.sizes(), strict=True):
        record = running.loops.records[name]
        if record.role != "map" or entries < COUNTED:
            continue
        own, ways = payload(record), 1 + len(record.slices) + len(record.orders)
        parts = (entries, entries * own, entries * (2 * own + PER_INDEX * ways), taken)
        totals = [total + part for total, part in zip(totals, parts, strict=True)]
    return Size(*totals, running.opened.bytes())


def filled(asked: Question, stream: Stream, strategy: str) -> tuple[Size, Size]:
    """The state at half of a stream, and at its end."""
    engine = engine_for(asked, strategy)
    sizes = []
    for part in (stream.first(len(stream) // 2), stream.after(len(stream) // 2)):
        for table, batch, weights in batches_for(asked, part):
            if table in engine.tables():
                engine.apply_arrow(table, batch, weights, "batch")
        sizes.append(size_of(engine))
    return sizes[0], sizes[1]


def measure(asked: Question, stream: Stream, strategy: str, patience: float) -> tuple[Size, Size] | None:
    """Both sizes, measured in a process of its own; nothing if there was not time enough."""
    cell = measured(lambda: Cell(answer=list(filled(asked, stream, strategy))), patience)
    return None if cell.answer is None else (cell.answer[0], cell.answer[1])


def megabytes(size: int) -> str:
    return f"{size / 1e6:.2f} MB"


def row_of(name: str, found: dict[str, tuple[Size, Size] | None]) -> list[str]:
    """A line of the table."""
    growing = found["all rows"]
    if growing is None:
        return [name.upper(), "did not finish", *[""] * 7]
    half, end = growing
    per = "" if not end.entries else f"{end.payload / end.entries:.0f}"
    taken = "" if not end.entries else f"{end.bytes / end.entries:.0f}"
    goal = "" if not end.entries else f"{end.goal / end.entries:.0f}"
    ratio = "" if not end.entries else f"{end.bytes / end.goal:.2f}"
    window, other = found.get("window"), found.get("first_order")
    return [
        name.upper(),
        f"{end.entries:,}",
        per,
        taken,
        goal,
        ratio,
        f"{megabytes(half.state)} → {megabytes(end.state)}",
        f"{megabytes(window[0].state)} → {megabytes(window[1].state)}" if window else "",
        f"{megabytes(other[1].state)} ({reports.times(other[1].state, end.state)})" if other else "",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a small scale: shows that it works")
    parser.add_argument("--scale", type=float, default=0.05)
    parser.add_argument("--events", type=int, default=200_000, help="events of the order book")
    parser.add_argument("--queries", nargs="*", default=[*queries("finance"), *queries("tpch")])
    parser.add_argument("--patience", type=float, default=3.0, help="seconds per measurement")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    if options.quick:
        options.scale, options.events, options.patience = 0.01, 20_000, 5.0
    rows_stay, static = tpch_stream(options.scale)
    book = order_book.stream(options.events, order_book.drawn(1_000))
    rows, figures = [], {}
    for name in options.queries:
        suite = "finance" if name in queries("finance") else "tpch"
        asked = question(suite, name, static if suite == "tpch" else None)
        stream = book if suite == "finance" else rows_stay
        for strategy in ("auto", "first_order"):
            engine_for(asked, strategy)  # compiled once for the processes that come
        found = {
            "all rows": measure(asked, stream, "auto", options.patience),
            "first_order": measure(asked, stream, "first_order", options.patience),
        }
        if suite == "tpch":
            found["window"] = measure(asked, windowed(stream, WINDOW), "auto", options.patience)
        figures[name] = {
            kind: sizes and {"half": asdict(sizes[0]), "end": asdict(sizes[1])}
            for kind, sizes in found.items()
        }
        rows.append(row_of(name, found))
        print(" ".join(rows[-1]), flush=True)
    columns = [
        "query",
        "entries",
        "payload, bytes per entry",
        "taken",
        "goal",
        "taken / goal",
        "state, half → end",
        f"state in a window of {WINDOW:,}",
        "first_order (times ours)",
    ]
    words = (
        f"TPC-H at scale factor {options.scale:g} ({len(rows_stay):,} rows), {options.events:,} events of an "
        f"order book. Bytes per entry over maps of {COUNTED:,} entries or more. Not a TPC result."
    )
    lines = ["# Memory", "", reports.header(), "", words, "", *reports.table(columns, rows)]
    reports.write(options.out, lines, {"queries": figures})


if __name__ == "__main__":
    main()
