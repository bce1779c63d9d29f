"""One stream, several engines: what it takes to have a fresh result after every batch.

    python benchmarks/peers.py [--quick] [--rows 20000] [--batch 100] [--postgres "host=... user=..."]

Viewlet maintains the views; DuckDB and SQLite apply the batch and run the query again; PostgreSQL applies it
and runs REFRESH MATERIALIZED VIEW. The time for applying is counted everywhere. After the last batch all
engines must give the same rows. Writes results/peers/figures.json and README.md.
"""

from __future__ import annotations

import argparse
import json
import platform
import sqlite3
import statistics
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol

import duckdb
import pyarrow as pa

import viewlet
from viewlet.demo.reevaluation import same_rows
from viewlet.demo.scenes import BALANCE, TOP
from viewlet.workloads import order_book, queries, schema
from viewlet.workloads.stream import Stream

RESULTS = Path(__file__).parent / "results" / "peers"
QUERIES = {
    "balance: two aggregates, joined": BALANCE.strip(),
    "top: MAX and MIN under deletions": TOP.strip(),
    "vwap: nested, correlated by >": queries("finance")["vwap"].strip().rstrip(";"),
}
COLUMNS = ("t", "id", "broker_id", "volume", "price")
CREATE = "CREATE TABLE {} (t BIGINT, id BIGINT, broker_id BIGINT, volume BIGINT, price BIGINT)"
LIMIT_SECONDS = 20.0


class Engine(Protocol):
    """Applies batches and then has the rows of one query."""

    name: str

    def refresh(self, batch: dict[str, pa.Table]) -> None:
        """Apply a batch, and make the result fresh."""

    def rows(self) -> list[tuple[Any, ...]]:
        """The fresh result."""


class Viewlet:
    name = f"Viewlet {version('viewlet')}"

    def __init__(self, query: str) -> None:
        self._db = viewlet.connect()
        self._db.execute(schema("finance"))
        self._db.execute(f"CREATE MATERIALIZED VIEW result AS {query}")

    def refresh(self, batch: dict[str, pa.Table]) -> None:
        self._db.apply(batch)
        self.rows()

    def rows(self) -> list[tuple[Any, ...]]:
        return self._db.view("result").rows()


def _parts(batch: dict[str, pa.Table]) -> Iterator[tuple[str, list[tuple[Any, ...]], list[tuple[Any, ...]]]]:
    """Per table the rows to insert and the keys to delete."""
    for table, changes in batch.items():
        weights = changes["_weight"].to_pylist()
        rows = list(zip(*(changes[name].to_pylist() for name in COLUMNS), strict=True))
        inserted = [row for row, weight in zip(rows, weights, strict=True) if weight > 0]
        deleted = [(row[1],) for row, weight in zip(rows, weights, strict=True) if weight < 0]
        yield table, inserted, deleted


class DuckDB:
    name = f"DuckDB {duckdb.__version__}, query again"

    def __init__(self, query: str) -> None:
        self._query, self._connection = query, duckdb.connect()
        for table in "bids", "asks":
            self._connection.execute(CREATE.format(table))

    def refresh(self, batch: dict[str, pa.Table]) -> None:
        for table, changes in batch.items():
            self._connection.register("changes", changes)
            columns = ", ".join(COLUMNS)
            self._connection.execute(f"INSERT INTO {table} SELECT {columns} FROM changes WHERE _weight > 0")
            self._connection.execute(
                f"DELETE FROM {table} WHERE id IN (SELECT id FROM changes WHERE _weight < 0)"
            )
        self.rows()

    def rows(self) -> list[tuple[Any, ...]]:
        return self._connection.execute(self._query).fetchall()


class SQLite:
    name = f"SQLite {sqlite3.sqlite_version}, query again"

    def __init__(self, query: str) -> None:
        self._query, self._connection = query, sqlite3.connect(":memory:")
        for table in "bids", "asks":
            self._connection.execute(CREATE.format(table) + "")
            self._connection.execute(f"CREATE INDEX {table}_id ON {table} (id)")

    def refresh(self, batch: dict[str, pa.Table]) -> None:
        for table, inserted, deleted in _parts(batch):
            self._connection.executemany(f"INSERT INTO {table} VALUES (?, ?, ?, ?, ?)", inserted)
            self._connection.executemany(f"DELETE FROM {table} WHERE id = ?", deleted)
        self.rows()

    def rows(self) -> list[tuple[Any, ...]]:
        return self._connection.execute(self._query).fetchall()


class PostgreSQL:
    def __init__(self, query: str, address: str) -> None:
        import psycopg

        self._connection = psycopg.connect(address, autocommit=True)
        run = self._connection.execute
        (shown,) = run("SHOW server_version").fetchone() or ("",)
        self.name = f"PostgreSQL {shown.split()[0]}, REFRESH MATERIALIZED VIEW"
        run("DROP MATERIALIZED VIEW IF EXISTS result")
        for table in "bids", "asks":
            run(f"DROP TABLE IF EXISTS {table}")
            run(CREATE.format(table))
            run(f"CREATE INDEX ON {table} (id)")
        run(f"CREATE MATERIALIZED VIEW result AS {query}")

    def refresh(self, batch: dict[str, pa.Table]) -> None:
        with self._connection.transaction(), self._connection.cursor() as cursor:
            for table, inserted, deleted in _parts(batch):
                with cursor.copy(f"COPY {table} FROM STDIN") as copy:
                    for row in inserted:
                        copy.write_row(row)
                cursor.execute(f"DELETE FROM {table} WHERE id = ANY (%s)", ([key for (key,) in deleted],))
            cursor.execute("REFRESH MATERIALIZED VIEW result")
        self.rows()

    def rows(self) -> list[tuple[Any, ...]]:
        return list(self._connection.execute("SELECT * FROM result").fetchall())


def measure(engine: Engine, start: Stream, later: Stream, batch: int, batches: int) -> tuple[float, int]:
    """The median milliseconds per batch, and how many batches there was time for."""
    engine.refresh(start.whole())
    times: list[float] = []
    for part, _ in zip(later.batches(batch), range(batches), strict=False):
        began = time.perf_counter()
        engine.refresh(part)
        times.append(time.perf_counter() - began)
        if sum(times) > LIMIT_SECONDS:
            break
    return statistics.median(times) * 1e3, len(times)


def figures(rows: int, batch: int, batches: int, postgres: str | None) -> Iterator[dict[str, Any]]:
    """Every query on every engine."""
    stream = order_book.stream(
        2 * rows + batch * batches, order_book.walk(300, spread=20), deletions=0.5, lifetime=rows, seed=1
    )
    start, later = stream.first(2 * rows), stream.after(2 * rows)
    for title, query in QUERIES.items():
        engines: list[Engine] = [Viewlet(query), DuckDB(query), SQLite(query)]
        if postgres:
            engines.append(PostgreSQL(query, postgres))
        ended = {}
        for engine in engines:
            milliseconds, done = measure(engine, start, later, batch, batches)
            ended[engine.name] = (done, engine.rows())
            yield {"query": title, "engine": engine.name, "ms per batch": milliseconds, "batches": done}
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
    parser.add_argument("--postgres", help="the address of a PostgreSQL server, to compare with it too")
    options = parser.parse_args()
    rows, batches = (1_000, 5) if options.quick else (options.rows, options.batches)
    found = list(figures(rows, options.batch, batches, options.postgres))
    print(table(found))
    if not options.quick:
        RESULTS.mkdir(parents=True, exist_ok=True)
        machine = f"{platform.machine()}, {platform.system()}, Python {platform.python_version()}"
        asked = f"python benchmarks/peers.py --rows {rows} --batch {options.batch} --batches {batches}"
        command = asked + (" --postgres ADDRESS" if options.postgres else "")
        document = {"date": f"{datetime.now(UTC):%Y-%m-%d}", "machine": machine, "command": command}
        (RESULTS / "figures.json").write_text(json.dumps({**document, "figures": found}, indent=1) + "\n")
        text = f"# Peers\n\n`{command}`, {document['date']}, {machine}.\n\n{table(found)}\n"
        (RESULTS / "README.md").write_text(text)


if __name__ == "__main__":
    main()
