"""Reading views with PostgreSQL's protocol: time per query, rows per second, and how late changes arrive.

    python benchmarks/pgwire.py [--quick]

Server and clients share this machine and interpreter, so the figures include psycopg's own work. Writes
results/pgwire/figures.json and README.md.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import numpy as np
import psycopg
import pyarrow as pa

import reports
import viewlet
from viewlet import pgwire

RESULTS = reports.results("pgwire")


def figures(rows: int, queries: int, commits: int) -> Iterator[dict[str, Any]]:
    """Every figure with its unit."""
    with viewlet.connect() as db:
        db.execute("CREATE TABLE r (a BIGINT, b BIGINT)")
        db.execute("CREATE MATERIALIZED VIEW sums AS SELECT a, SUM(b) AS s, COUNT(*) AS n FROM r GROUP BY a")
        db.execute("CREATE MATERIALIZED VIEW total AS SELECT SUM(b) AS s FROM r")
        db.apply({"r": pa.table({"a": np.arange(rows), "b": np.arange(rows) % 7})})
        with pgwire.in_background(db, port=0) as server:
            address = f"host=127.0.0.1 port={server.port} user=bench dbname=bench"
            with psycopg.connect(address, autocommit=True) as client:
                yield from _queries(client, queries)
                yield from _transfer(client, rows)
            yield from _clients(address, 8, queries // 4)
            yield from _subscription(address, db, commits)


def _timed(call: Callable[[], object], times: int) -> list[float]:
    taken = []
    for _ in range(times):
        began = time.perf_counter()
        call()
        taken.append(time.perf_counter() - began)
    return taken


def _queries(client: Any, times: int) -> Iterator[dict[str, Any]]:
    for what, query in (
        ("a view of one value", "SELECT * FROM total"),
        ("the catalog", "SELECT * FROM pg_class"),
    ):
        taken = _timed(lambda query=query: client.execute(query).fetchall(), times)
        yield {"what": f"{what}, one client", "unit": "ms, median", "figure": statistics.median(taken) * 1e3}


def _transfer(client: Any, rows: int) -> Iterator[dict[str, Any]]:
    for form, binary in ("text", False), ("binary", True):
        best = min(
            _timed(lambda b=binary: client.cursor(binary=b).execute("SELECT * FROM sums").fetchall(), 3)
        )
        yield {
            "what": f"{rows:,} rows of three columns, {form}",
            "unit": "rows per second",
            "figure": rows / best,
        }


def _clients(address: str, clients: int, times: int) -> Iterator[dict[str, Any]]:
    def work() -> None:
        with psycopg.connect(address, autocommit=True) as client:
            for _ in range(times):
                client.execute("SELECT * FROM total").fetchall()

    threads = [threading.Thread(target=work) for _ in range(clients)]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    rate = clients * times / (time.perf_counter() - began)
    yield {"what": f"a view of one value, {clients} clients", "unit": "queries per second", "figure": rate}


def _subscription(address: str, db: viewlet.Database, commits: int) -> Iterator[dict[str, Any]]:
    arrived: dict[int, float] = {}
    ready = threading.Event()

    def read() -> None:
        with psycopg.connect(address, autocommit=True) as client, client.cursor() as cursor:
            changes = cursor.stream("SUBSCRIBE total WITH (SNAPSHOT)")
            for row in changes:
                arrived.setdefault(row[-1], time.perf_counter())
                ready.set()
                if len(arrived) > commits:
                    break
            changes.close()

    reader = threading.Thread(target=read)
    reader.start()
    ready.wait()
    late = []
    for number in range(commits):
        began = time.perf_counter()
        version = db.insert("r", [(number, 1)])
        while version not in arrived:
            time.sleep(0.0001)
        late.append(arrived[version] - began)
    reader.join()
    for what, share in ("median", 0.5), ("99 %", 0.99):
        figure = sorted(late)[int(share * (len(late) - 1))] * 1e3
        yield {"what": "from insert to the subscriber", "unit": f"ms, {what}", "figure": figure}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small, to see that it works; writes nothing")
    options = parser.parse_args()
    rows, queries, commits = (2_000, 20, 20) if options.quick else (100_000, 200, 200)
    found = list(figures(rows, queries, commits))
    lines = ["| what | unit | figure |", "|---|---|---|"]
    lines += [f"| {row['what']} | {row['unit']} | {row['figure']:,.2f} |" for row in found]
    print("\n".join(lines))
    if not options.quick:
        RESULTS.mkdir(parents=True, exist_ok=True)
        machine = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
        head = {"date": f"{datetime.now(UTC):%Y-%m-%d}", "machine": machine, "load": os.getloadavg()[0]}
        (RESULTS / "figures.json").write_text(json.dumps({**head, "figures": found}, indent=1) + "\n")
        where = f"`python benchmarks/pgwire.py`, {head['date']}, {machine}, load {head['load']:.0f}."
        (RESULTS / "README.md").write_text(
            "\n".join(["# PostgreSQL's protocol", "", where, "", *lines]) + "\n"
        )


if __name__ == "__main__":
    main()
