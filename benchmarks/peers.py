"""One stream, several engines: what it takes to have a fresh result after every batch.

    python benchmarks/peers.py [--quick] [--rows 20000] [--batch 100]

Viewlet maintains the views; DuckDB and SQLite apply the batch and run the query again; PostgreSQL applies it
and runs REFRESH MATERIALIZED VIEW. The time for applying is counted everywhere. After the last batch all
engines must give the same rows. Writes results/peers/figures.json and README.md.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sqlite3
import statistics
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from typing import Any

import reports
from cells import postgres
from rivals import DuckDB, Kept, Make, Question, Refreshed, Rival, SQLite
from viewlet.demo.reevaluation import same_rows
from viewlet.demo.scenes import BALANCE, TOP
from viewlet.sql.catalog import Catalog
from viewlet.sql.parse import parse
from viewlet.workloads import order_book, queries, schema
from viewlet.workloads.stream import Stream

RESULTS = reports.results("peers")
QUERIES = {
    "balance: two aggregates, joined": BALANCE.strip(),
    "top: MAX and MIN under deletions": TOP.strip(),
    "vwap: nested, correlated by >": queries("finance")["vwap"].strip().rstrip(";"),
}
LIMIT_SECONDS = 20.0
QUIET_LOAD = 0.7


def systems(address: str | None) -> dict[str, Make]:
    """Who is asked, by the name in the table."""
    import duckdb

    asked: dict[str, Make] = {
        f"Viewlet {version('viewlet')}": Kept,
        f"DuckDB {duckdb.__version__}, query again": DuckDB,
        f"SQLite {sqlite3.sqlite_version}, query again": SQLite,
    }
    if address is not None:
        import psycopg

        with psycopg.connect(address) as connection:
            (shown,) = connection.execute("SHOW server_version").fetchone() or ("",)
        name = f"PostgreSQL {shown.split()[0]}, REFRESH MATERIALIZED VIEW"
        asked[name] = partial(Refreshed, address=address)
    return asked


def measure(system: Rival, later: Stream, batch: int, batches: int) -> tuple[float, int]:
    """The median milliseconds per batch, and how many batches there was time for."""
    times: list[float] = []
    for part, _ in zip(later.batches(batch), range(batches), strict=False):
        began = time.perf_counter()
        system.apply(part)
        system.rows()
        times.append(time.perf_counter() - began)
        if sum(times) > LIMIT_SECONDS:
            break
    return statistics.median(times) * 1e3, len(times)


def figures(rows: int, batch: int, batches: int, address: str | None) -> Iterator[dict[str, Any]]:
    """Every query on every engine."""
    stream = order_book.stream(
        2 * rows + batch * batches, order_book.walk(300, spread=20), deletions=0.5, lifetime=rows, seed=1
    )
    start, later = stream.first(2 * rows), stream.after(2 * rows)
    catalog = Catalog(statement.table for statement in parse(schema("finance")))
    for title, query in QUERIES.items():
        asked = Question("finance", title, query, ("bids", "asks"), catalog)
        ended = {}
        for name, make in systems(address).items():
            system = make(asked, start.whole())
            milliseconds, done = measure(system, later, batch, batches)
            ended[name] = (done, system.rows())
            yield {"query": title, "engine": name, "ms per batch": milliseconds, "batches": done}
        _refuse_difference(title, ended)


def _refuse_difference(title: str, ended: dict[str, tuple[int, list[tuple[Any, ...]]]]) -> None:
    """Engines that have seen the same batches hold the same rows."""
    most = max(done for done, _ in ended.values())
    whole = {name: rows for name, (done, rows) in ended.items() if done == most}
    first, *others = whole.items()
    for name, rows in others:
        if not same_rows(first[1], rows):
            raise SystemExit(f"{title}: {first[0]} and {name} differ")


def table(found: Sequence[dict[str, Any]]) -> str:
    """The figures as Markdown, each with its ratio to Viewlet's."""
    lines = ["| query | engine | ms per batch | times Viewlet's |", "|---|---|---|---|"]
    ours = {row["query"]: row["ms per batch"] for row in found if row["engine"].startswith("Viewlet")}
    for row in found:
        ratio = row["ms per batch"] / ours[row["query"]]
        lines.append(f"| {row['query']} | {row['engine']} | {row['ms per batch']:.2f} | {ratio:.1f} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few rows and batches, to see that it works")
    parser.add_argument("--rows", type=int, default=20_000, help="orders in the book, about")
    parser.add_argument("--batch", type=int, default=100)
    parser.add_argument("--batches", type=int, default=30)
    options = parser.parse_args()
    rows, batches = (1_000, 5) if options.quick else (options.rows, options.batches)
    before = os.getloadavg()[0]
    with postgres() as address:
        found = list(figures(rows, options.batch, batches, address))
    print(table(found))
    if not options.quick:
        RESULTS.mkdir(parents=True, exist_ok=True)
        machine = f"{platform.machine()}, {platform.system()}, Python {platform.python_version()}"
        busy = before > QUIET_LOAD
        machine += f", load {before:.1f} before the run" + (": preliminary" if busy else "")
        command = f"python benchmarks/peers.py --rows {rows} --batch {options.batch} --batches {batches}"
        document = {"date": f"{datetime.now(UTC):%Y-%m-%d}", "machine": machine, "command": command}
        (RESULTS / "figures.json").write_text(json.dumps({**document, "figures": found}, indent=1) + "\n")
        text = f"# Peers\n\n`{command}`, {document['date']}, {machine}.\n\n{table(found)}\n"
        (RESULTS / "README.md").write_text(text)


if __name__ == "__main__":
    main()
