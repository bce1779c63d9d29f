"""Provenance sketches: following changes against capturing again, and both against doing without.

    python benchmarks/sketches.py --rows 200000 --parts groups mixes      # a minute
    python benchmarks/sketches.py --rows 10000000 --backends duckdb postgres

The experiments are those of section 10 of the paper on in-memory incremental maintenance of sketches: number
of groups, of aggregates and of fragments, joins, join selectivity, break-even, crimes, bounded buffers,
end-to-end mixes. Times are wall seconds, the smallest of a few repetitions; ratios are within one run.
PostgreSQL is a server of our own, started from the machine's binaries.
"""

from __future__ import annotations

import argparse
import importlib.util
import platform
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import matplotlib
import numpy as np
import pyarrow as pa

from viewlet import sketches
from viewlet.workloads.crimes import crimes

matplotlib.use("Agg")
import matplotlib.pyplot as plt

RESULTS = Path(__file__).parent / "results" / "sketches"
DELTAS = (10, 100, 1000)
REPEATS = 3
RANGES = 400


@dataclass
class Report:
    """Tables in the order in which they were measured; every plot is drawn from a table."""

    folder: Path
    lines: list[str] = field(default_factory=list)

    def table(self, title: str, columns: list[str], rows: list[list[Any]]) -> None:
        text = [f"## {title}", "", "| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
        text += ["| " + " | ".join(_cell(value) for value in row) + " |" for row in rows]
        self.lines += [*text, ""]
        print("\n".join(text), "\n", flush=True)

    def plot(
        self, name: str, title: str, x: str, y: str, series: dict[str, list[tuple[float, float]]]
    ) -> None:
        figure, axes = plt.subplots(figsize=(6, 4))
        for label, points in series.items():
            axes.plot(*zip(*points, strict=True), marker="o", label=label)
        axes.set(title=title, xlabel=x, ylabel=y, xscale="log", yscale="log")
        axes.legend()
        figure.tight_layout()
        figure.savefig(self.folder / f"{name}.png", dpi=110)
        plt.close(figure)
        self.lines += [f"![{title}]({name}.png)", ""]


def _cell(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


# Databases.


def tests_server() -> Any:
    """The module with which the tests start PostgreSQL, by its path: this file has its folder's name."""
    path = Path(__file__).parents[1] / "tests" / "sketches" / "server.py"
    spec = importlib.util.spec_from_file_location("postgres_server", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Database:
    """A connection to be measured: how tables get into it, and queries out."""

    def __init__(self, name: str, connection: Any) -> None:
        self.name, self.connection = name, connection

    def load(self, name: str, content: pa.Table, order: str | None = None) -> None:
        if self.name == "duckdb":
            self.connection.register("content", content)
            by = f" ORDER BY {order}" if order else ""
            self.connection.execute(f"CREATE OR REPLACE TABLE {name} AS SELECT * FROM content{by}")
            self.connection.unregister("content")
            return
        self.connection.execute(f"DROP TABLE IF EXISTS {name}")
        columns = ", ".join(f"{column} BIGINT" for column in content.column_names)
        self.connection.execute(f"CREATE UNLOGGED TABLE {name} ({columns})")
        if order:
            content = content.sort_by(order)
        with self.connection.cursor().copy(f"COPY {name} FROM STDIN") as copy:
            for row in zip(*(column.to_pylist() for column in content.columns), strict=True):
                copy.write_row(row)
        if order:
            self.connection.execute(f"CREATE INDEX ON {name} ({order})")
        self.connection.execute(f"ANALYZE {name}")

    def fresh_store(self) -> sketches.Store:
        self.connection.execute("DROP SCHEMA IF EXISTS viewlet_sketches CASCADE")
        return sketches.open(self.connection)

    def run(self, text: str) -> None:
        if self.name == "duckdb":
            self.connection.sql(text).to_arrow_table()
        else:
            self.connection.execute(text).fetchall()


@contextmanager
def databases(names: list[str]) -> Iterator[list[Database]]:
    with ExitStack() as stack:
        opened = []
        for name in names:
            if name == "duckdb":
                opened.append(Database(name, stack.enter_context(duckdb.connect())))
                continue
            import psycopg

            postgres_server = tests_server()
            folder, user = postgres_server.binaries(), postgres_server.account()
            if folder is None or user is None:
                print("PostgreSQL is left out: there are no binaries, or no user to run it as")
                continue
            text = stack.enter_context(postgres_server.server(folder, user))
            opened.append(Database(name, stack.enter_context(psycopg.connect(text, autocommit=True))))
        yield opened


# Data: a is the group, the others are measures whose mean grows with it.


def grouped(rows: int, groups: int, seed: int = 0, measures: int = 3) -> pa.Table:
    random = np.random.default_rng(seed)
    a = random.integers(0, groups, rows)
    columns = {"a": a, "b": random.integers(0, 2000, rows)}
    for place in range(measures):
        columns["cdefghijkl"[place]] = a * 2000 // groups + random.integers(-50, 51, rows)
    return pa.table(columns)


def best(work: Callable[[], object], repeats: int = REPEATS) -> float:
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return min(times)


@dataclass
class Measured:
    """How long capturing again takes, and following changes of each size."""

    capture: float
    follow: dict[int, float]
    entries: int

    @property
    def ratios(self) -> dict[int, float]:
        return {size: self.capture / seconds for size, seconds in self.follow.items()}


def measure(
    database: Database,
    text: str,
    on: str,
    changes: Callable[[int], pa.Table],
    sizes: tuple[int, ...],
    ranges: int = RANGES,
    bound: int | None = None,
) -> Measured:
    """Insert and delete batches of each size, and time the sketch's part of it."""
    store = database.fresh_store()
    sketch = store.capture(text, on=on, ranges=ranges, eager=False, maintain="incremental", bound=bound)
    capture = best(sketch.recapture)
    table = on.split(".")[0] if changes(1).column_names == _columns(store, on) else "r"
    follow = {}
    for size in sizes:
        times = []
        for _ in range(REPEATS):
            batch = changes(size)
            for weight in (1, -1):
                store.apply({table: batch.append_column("_weight", pa.array([weight] * size))})
                began = time.perf_counter()
                sketch.refresh()
                times.append(time.perf_counter() - began)
        follow[size] = min(times)
    assert sketch.incremental, sketch.explain()
    return Measured(capture, follow, sketch.entries())


def _columns(store: sketches.Store, on: str) -> list[str]:
    return list(store._backend.catalog()[on.split(".")[0]].column_names)


def sweep(
    report: Report, title: str, name: str, cases: dict[str, Measured], sizes: tuple[int, ...] = DELTAS
) -> None:
    columns = ["case", "capture again, s", *(f"follow {size}, s" for size in sizes)]
    columns += [f"ratio at {size}" for size in sizes]
    rows = [
        [case, m.capture, *(m.follow[s] for s in sizes), *(m.ratios[s] for s in sizes)]
        for case, m in cases.items()
    ]
    report.table(title, columns, rows)
    series = {case: [(size, m.ratios[size]) for size in sizes] for case, m in cases.items()}
    report.plot(name, title, "changed rows", "capture again / follow", series)


# Experiments.


def groups(report: Report, database: Database, rows: int) -> None:
    cases = {}
    for number in (50, 1000, 5000, rows // 20):
        database.load("r", grouped(rows, number))
        text = "SELECT a, avg(b) AS ab FROM r GROUP BY a HAVING avg(c) < 640"
        cases[f"{number} groups"] = measure(
            database, text, "r.a", lambda n, g=number: grouped(n, g, n), DELTAS
        )
    sweep(report, f"Number of groups, {database.name}", f"groups_{database.name}", cases)


def aggregates(report: Report, database: Database, rows: int) -> None:
    database.load("r", grouped(rows, 5000, measures=9))
    cases = {}
    for number in (1, 2, 4, 9):
        conditions = ["avg(c) < 640", *(f"avg({column}) > -100" for column in "defghijk"[: number - 1])]
        text = f"SELECT a, avg(b) AS ab FROM r GROUP BY a HAVING {' AND '.join(conditions)}"
        change = lambda n: grouped(n, 5000, n, measures=9)  # noqa: E731
        cases[f"{number} aggregates"] = measure(database, text, "r.a", change, DELTAS)
    sweep(report, f"Number of aggregates, {database.name}", f"aggregates_{database.name}", cases)


JOIN = (
    "SELECT a, avg(b) AS ab FROM (SELECT a, b, c FROM r WHERE b < 1000) tt JOIN h ON a = ttid "
    "GROUP BY a HAVING avg(c) < 1000"
)


def joins(report: Report, database: Database, rows: int) -> None:
    cases = {}
    for label, number, copies, share in (
        ("1-n, 50 groups", 50, 1, 1.0),
        ("1-n, 5000 groups", 5000, 1, 1.0),
        ("20-n, 5000 groups", 5000, 20, 1.0),
        ("selectivity 1 %", 5000, 1, 0.01),
        ("selectivity 10 %", 5000, 1, 0.1),
    ):
        database.load("r", grouped(rows, number))
        keys = np.repeat(np.arange(0, int(number * share) or 1), copies)
        database.load("h", pa.table({"ttid": keys}))
        cases[label] = measure(database, JOIN, "r.a", lambda n, g=number: grouped(n, g, n), DELTAS)
    sweep(report, f"Joins, {database.name}", f"joins_{database.name}", cases)


def fragments(report: Report, database: Database, rows: int) -> None:
    database.load("r", grouped(rows, 5000))
    text = "SELECT a, avg(b) AS ab FROM r GROUP BY a HAVING avg(c) < 640"
    cases = {
        f"{number} ranges": measure(
            database, text, "r.a", lambda n: grouped(n, 5000, n), DELTAS, ranges=number
        )
        for number in (10, 100, 1000, 5000)
    }
    sweep(report, f"Number of fragments, {database.name}", f"fragments_{database.name}", cases)


def break_even(report: Report, database: Database, rows: int) -> None:
    sizes = tuple(int(rows * share) for share in (0.001, 0.005, 0.01, 0.05, 0.1))
    database.load("r", grouped(rows, 500))
    text = "SELECT a, avg(b) AS ab FROM r GROUP BY a HAVING avg(c) < 640"
    cases = {"500 groups": measure(database, text, "r.a", lambda n: grouped(n, 500, n), sizes)}
    sweep(report, f"Break-even, {database.name}", f"break_even_{database.name}", cases, sizes)


def city(report: Report, database: Database, rows: int) -> None:
    database.load("crimes", crimes(rows))
    queries = {
        "crimes 1": ("SELECT beat, year, count(id) AS n FROM crimes GROUP BY beat, year", "crimes.beat"),
        "crimes 2": (
            "SELECT district, community_area, ward, beat, count(beat) AS n FROM crimes "
            "GROUP BY district, community_area, ward, beat HAVING count(id) > 1000",
            "crimes.beat",
        ),
    }
    cases = {
        name: measure(database, text, on, lambda n: crimes(n, first=rows), DELTAS)
        for name, (text, on) in queries.items()
    }
    sweep(report, f"Crimes, {database.name}", f"crimes_{database.name}", cases)


def buffers(report: Report, database: Database, rows: int) -> None:
    database.load("r", grouped(rows, rows // 20))
    text = "SELECT a, sum(b) AS s FROM r GROUP BY a ORDER BY s DESC, a LIMIT 20"
    table = []
    for bound in (100, 1000, 10_000, None):
        m = measure(database, text, "r.a", lambda n: grouped(n, rows // 20, n), (100,), bound=bound)
        table.append([bound or "all", m.entries, m.follow[100]])
    report.table(
        f"Bounded buffers of top-20, {database.name}", ["reserve", "entries", "follow 100, s"], table
    )


def mixes(report: Report, database: Database, rows: int) -> None:
    """One operation after the other; sketches are used with the store's own choice."""
    text = "SELECT a, avg(b) AS ab FROM r GROUP BY a HAVING avg(c) < 40"
    table = []
    for updates, queries in ((1, 1), (1, 5), (5, 1)):
        for size in (1, 20, 200, 2000):
            seconds = {}
            for approach in ("without", "capture", "follow"):
                database.load("r", grouped(rows, 5000), order="a")
                seconds[approach] = _mix(database, text, updates, queries, size, approach)
            table.append([f"{updates}U{queries}Q", size, *seconds.values()])
    columns = ["mix", "rows per update", "without sketch, s", "captured anew, s", "followed, s"]
    report.table(f"End to end, 12 operations, {database.name}", columns, table)


def _mix(database: Database, text: str, updates: int, queries: int, size: int, approach: str) -> float:
    store = database.fresh_store()
    options = {"maintain": "recapture" if approach == "capture" else "auto"}
    sketch = store.capture(text, on="r.a", ranges=RANGES, eager=False, **options)
    spent = 0.0
    for operation in range(12):
        if operation % (updates + queries) < updates:
            store.apply({"r": grouped(size, 5000, operation)})
            continue
        began = time.perf_counter()
        if approach == "without":
            database.run(text)
        else:
            store.query(text, use="always" if approach == "capture" else "auto")
        spent += time.perf_counter() - began
    del sketch
    return spent


PARTS = {
    "groups": groups,
    "aggregates": aggregates,
    "joins": joins,
    "fragments": fragments,
    "break_even": break_even,
    "crimes": city,
    "buffers": buffers,
    "mixes": mixes,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--backends", nargs="+", default=["duckdb"], choices=["duckdb", "postgres"])
    parser.add_argument("--parts", nargs="+", default=list(PARTS), choices=list(PARTS))
    parser.add_argument("--folder", type=Path, default=RESULTS)
    parser.add_argument("--note", default="", help="a sentence about the circumstances, for the report")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    report = Report(options.folder)
    machine = f"{platform.machine()}, Python {platform.python_version()}, DuckDB {duckdb.__version__}"
    report.lines += ["# Sketches", "", f"{options.rows} rows; {machine}. {options.note}".rstrip(), ""]
    with databases(options.backends) as opened:
        for database in opened:
            for part in options.parts:
                PARTS[part](report, database, options.rows)
    (options.folder / "README.md").write_text("\n".join(report.lines))


if __name__ == "__main__":
    main()
