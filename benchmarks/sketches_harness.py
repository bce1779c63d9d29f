"""What the benchmark of sketches measures with: databases to load tables into, and a report that grows.

A report is one JSON file; the page and the plots beside it are drawn from that file alone, so a run of some
suites replaces their tables and leaves the others.
"""

from __future__ import annotations

import importlib.util
import io
import json
import os
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import csv

import plots
from viewlet import sketches

FILES = 16
"""Parquet files per table."""


@dataclass
class Report:
    """Tables by title, each with its circumstances."""

    folder: Path
    note: str

    def clear(self) -> None:
        """Forget all tables and plots."""
        for path in (*self.folder.glob("*.png"), *self.folder.glob("results.json")):
            path.unlink()

    def table(
        self, title: str, columns: list[str], rows: list[list[Any]], plot: dict[str, Any] | None = None
    ) -> None:
        """Take a table in, and write everything again; ``plot`` names the axes and gives the series."""
        machine = f"{platform.machine()}, Python {platform.python_version()}, DuckDB {duckdb.__version__}"
        tables = self._tables()
        tables[title] = {
            "columns": columns,
            "rows": rows,
            "note": f"{machine}. {self.note}".strip(),
            "plot": plot,
        }
        (self.folder / "results.json").write_text(json.dumps(tables, indent=1))
        print("\n".join(_page(title, tables[title])), "\n", flush=True)
        if plot is not None:
            plots.curves(self.folder / _file(title), **plot, title=title)
        pages = [line for name in tables for line in _page(name, tables[name])]
        (self.folder / "README.md").write_text("\n".join(["# Sketches", "", *pages]))

    def _tables(self) -> dict[str, Any]:
        path = self.folder / "results.json"
        return json.loads(path.read_text()) if path.exists() else {}


def _page(title: str, table: dict[str, Any]) -> list[str]:
    columns = table["columns"]
    lines = [f"## {title}", "", table["note"], "", f"| {' | '.join(columns)} |", "|" + "---|" * len(columns)]
    lines += ["| " + " | ".join(_cell(value) for value in row) + " |" for row in table["rows"]]
    return [*lines, "", *([f"![{title}]({_file(title)})", ""] if table["plot"] else [])]


def _file(title: str) -> str:
    return "".join(c if c.isalnum() else "_" for c in title.lower()) + ".png"


def _cell(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


# Databases.


class Database:
    """A connection to be measured: how tables get into it, and queries out."""

    name: str
    holds: object = None
    """Which synthetic table is loaded."""
    in_process = False
    """Do its CPU seconds count as ours, and can a batch be written without a sketch for comparison?"""

    def load(self, name: str, content: pa.Table, order: str | None = None) -> None:
        """Make a table, in the order of a column or with an index on it."""
        raise NotImplementedError

    def fresh_store(self) -> sketches.Store:
        """A store without sketches."""
        raise NotImplementedError

    def run(self, text: str) -> None:
        """Run a query to its end."""
        raise NotImplementedError

    def write(self, name: str, content: pa.Table) -> None:
        """Insert rows as one does where there are no sketches."""
        raise NotImplementedError


class DuckDB(Database):
    """In this process."""

    name = "duckdb"
    in_process = True

    def __init__(self, connection: Any) -> None:
        self.connection = connection

    def load(self, name: str, content: pa.Table, order: str | None = None) -> None:
        self.connection.register("content", content)
        by = f" ORDER BY {order}" if order else ""
        self.connection.execute(f"CREATE OR REPLACE TABLE {name} AS SELECT * FROM content{by}")
        self.connection.unregister("content")

    def fresh_store(self) -> sketches.Store:
        self.connection.execute("DROP SCHEMA IF EXISTS viewlet_sketches CASCADE")
        return sketches.open(self.connection)

    def run(self, text: str) -> None:
        self.connection.sql(text).to_arrow_table()

    def write(self, name: str, content: pa.Table) -> None:
        # DuckDB finds the rows by the name of this variable, which is its quickest way to take them in.
        self.connection.execute(f"INSERT INTO {name} SELECT * FROM content").fetchall()


class Postgres(Database):
    """A server of our own."""

    name = "postgres"

    def __init__(self, connection: Any) -> None:
        self.connection = connection

    def load(self, name: str, content: pa.Table, order: str | None = None) -> None:
        self.connection.execute(f"DROP TABLE IF EXISTS {name}")
        columns = ", ".join(f"{field.name} {_postgres_type(field.type)}" for field in content.schema)
        self.connection.execute(f"CREATE UNLOGGED TABLE {name} ({columns})")
        if order:
            content = content.sort_by(order)
        # As text made by Arrow: rows made by Python would take longer than the server does.
        with self.connection.cursor().copy(f"COPY {name} FROM STDIN (FORMAT csv)") as copy:
            for batch in content.to_batches(100_000):
                text = io.BytesIO()
                csv.write_csv(batch, text, csv.WriteOptions(include_header=False))
                copy.write(text.getvalue())
        if order:
            self.connection.execute(f"CREATE INDEX ON {name} ({order})")
        self.connection.execute(f"ANALYZE {name}")

    def fresh_store(self) -> sketches.Store:
        self.connection.execute("DROP SCHEMA IF EXISTS viewlet_sketches CASCADE")
        return sketches.open(self.connection)

    def run(self, text: str) -> None:
        self.connection.execute(text).fetchall()


def _postgres_type(kind: pa.DataType) -> str:
    if pa.types.is_integer(kind):
        return "BIGINT"
    if pa.types.is_decimal(kind):
        return f"NUMERIC({kind.precision}, {kind.scale})"
    if pa.types.is_date(kind):
        return "DATE"
    return "DOUBLE PRECISION" if pa.types.is_floating(kind) else "TEXT"


class Spark(Database):
    """Parquet files in a folder per table, queried by a local session."""

    name = "spark"

    def __init__(self, session: Any, folder: Path) -> None:
        self.session, self._folder = session, folder
        self._tables: dict[str, Path] = {}

    def load(self, name: str, content: pa.Table, order: str | None = None) -> None:
        path = self._tables[name] = self._folder / name
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir()
        content = content.sort_by(order) if order else content
        step = -(-max(content.num_rows, 1) // FILES)
        for number, start in enumerate(range(0, max(content.num_rows, 1), step)):
            pq.write_table(content.slice(start, step), path / f"{number:03d}.parquet")

    def fresh_store(self) -> sketches.Store:
        for path in self._tables.values():
            shutil.rmtree(path / "_viewlet", ignore_errors=True)
        return sketches.open(self.session, self._tables)

    def run(self, text: str) -> None:
        self.session.sql(text).toArrow()


def tests_server() -> Any:
    """The module with which the tests start PostgreSQL, by its path: this folder is no package."""
    path = Path(__file__).parents[1] / "tests" / "postgres_server.py"
    spec = importlib.util.spec_from_file_location("postgres_server", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _postgres(stack: ExitStack) -> Database | None:
    import psycopg

    server = tests_server()
    folder, user = server.binaries(), server.account()
    if folder is None or user is None:
        print("PostgreSQL is left out: there are no binaries, or no user to run it as")
        return None
    text = stack.enter_context(server.server(folder, user))
    return Postgres(stack.enter_context(psycopg.connect(text, autocommit=True)))


def _spark(stack: ExitStack) -> Database:
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.ui.showConsoleProgress", "false").config("spark.driver.memory", "3g")
    session = builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    stack.callback(session.stop)
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    return Spark(session, folder)


@contextmanager
def databases(names: list[str]) -> Iterator[list[Database]]:
    """Connections to the databases of these names, those that the machine has."""
    with ExitStack() as stack:
        opened: list[Database | None] = []
        for name in names:
            if name == "duckdb":
                opened.append(DuckDB(stack.enter_context(duckdb.connect())))
            elif name == "postgres":
                opened.append(_postgres(stack))
            else:
                opened.append(_spark(stack))
        yield [database for database in opened if database is not None]


LONG = 2.0
"""Seconds after which nothing is repeated: what takes so long is not measured better by that."""


def best(work: Callable[[], object], repeats: int) -> float:
    """The smallest of a few times, in seconds."""
    times: list[float] = []
    while len(times) < repeats and sum(times) < LONG:
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return min(times)
