"""Tables of Parquet files, queried by DuckDB or by Spark.

A sketch skips whole files by their footers, row groups by the condition that the engine pushes into its scan,
and rows by the condition itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
from sqlglot import exp

from viewlet.backends.base import Change
from viewlet.core.types import Column, Type, Value
from viewlet.sketches.backends.base import Version, arrow_limits, arrow_rows, weighted_batch
from viewlet.sketches.backends.parquet_files import ParquetFiles, PreparedBatch, read_columns, rows_in
from viewlet.sketches.cost import Skipping
from viewlet.sketches.lineage import by_value
from viewlet.sketches.operators.base import Row
from viewlet.sketches.partition import Partition
from viewlet.sketches.plan_to_sql import type_to_sql
from viewlet.sketches.scans import WEIGHT
from viewlet.sketches.use import in_ranges
from viewlet.sql.catalog import Catalog, Table

SAMPLE = 200_000


class Engine(Protocol):
    """What runs queries over Parquet files."""

    dialect: str
    check: float
    """What one range of a condition costs per row, in units of reading the row and computing on it."""
    large: int
    """From so many rows on triggers are worth a C compiler's time: fewer where queries cost more."""

    def name_files(self, name: str, files: Sequence[str], root: Path, folders: Sequence[Column]) -> None:
        """Let a name in queries mean the rows of these files, which lie in folders below a root."""

    def run(self, text: str) -> pa.Table:
        """The result of a query."""


class DuckDBEngine:
    """A DuckDB connection."""

    dialect = "duckdb"
    check = 0.14
    large = 500_000

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def name_files(self, name: str, files: Sequence[str], root: Path, folders: Sequence[Column]) -> None:
        """A temporary view."""
        listed = exp.Array(expressions=[exp.Literal.string(path) for path in files]).sql("duckdb")
        types = ", ".join(f"'{c.name}': {type_to_sql(c.type).sql('duckdb')}" for c in folders)
        hive = f", hive_partitioning = true, hive_types = {{{types}}}" if folders else ""
        view = f'CREATE OR REPLACE TEMP VIEW "{name}"'
        self._connection.execute(f"{view} AS SELECT * FROM read_parquet({listed}{hive})")

    def run(self, text: str) -> pa.Table:
        """Arrow from the connection."""
        return self._connection.sql(text).to_arrow_table()


class SparkEngine:
    """A SparkSession."""

    dialect = "spark"
    check = 0.05
    large = 20_000

    def __init__(self, session: Any) -> None:
        self._session = session
        self._schemas: dict[str, Any] = {}

    def name_files(self, name: str, files: Sequence[str], root: Path, folders: Sequence[Column]) -> None:
        """A temporary view; Spark lists no folder and reads no other file.

        The first files of a name tell its columns; to look at the next ones for that would be another job.
        """
        reader = self._session.read.option("basePath", str(root)) if folders else self._session.read
        if name in self._schemas:
            reader = reader.schema(self._schemas[name])
        rows = reader.parquet(*files)
        self._schemas[name] = rows.schema
        rows.createOrReplaceTempView(name)

    def run(self, text: str) -> pa.Table:
        """Arrow from the executors."""
        return self._session.sql(text).toArrow()


class Parquet:
    """Folders of Parquet files by table name."""

    text_is_bytes = True
    small = 500_000

    def __init__(self, engine: Engine, tables: Mapping[str, str | Path]) -> None:
        self._engine = engine
        self.dialect, self.large = engine.dialect, engine.large
        self._files = {name.lower(): ParquetFiles(name.lower(), Path(path)) for name, path in tables.items()}
        self._catalog = Catalog(files.table for files in self._files.values())
        self._shown: dict[str, tuple[str, ...]] = {}
        self._staged: dict[str, list[str]] = {}
        self._queried: set[str] = set()
        self._show()

    def _show(self) -> None:
        """Let every table name mean the present files."""
        for name, files in self._files.items():
            self._name(name, files.paths(files.manifest().files), files)

    def _name(self, name: str, paths: Sequence[str], files: ParquetFiles | None = None) -> None:
        """Show files under a name; those of a table have its folders."""
        if self._shown.get(name) != tuple(paths):
            root, folders = (Path(), ()) if files is None else (files.folder, files.folders)
            self._engine.name_files(name, paths, root, folders)
            self._shown[name] = tuple(paths)

    # Reading.

    def catalog(self) -> Catalog:
        """The tables, by the schema of their files."""
        return self._catalog

    def described(self, name: str) -> Table:
        """Files of a table do not change their columns."""
        return self._catalog[name]

    def table(self, name: str) -> exp.Table:
        """The files of the present version."""
        return exp.to_table(name)

    def reduced(self, restrictions: Sequence[tuple[Partition, frozenset[int]]]) -> exp.Table | None:
        """The files that may hold rows of a table's fragments: a file that no footer admits is not opened."""
        name = restrictions[0][0].table
        files = self._files[name]
        kept = list(files.manifest().files)
        for partition, fragments in restrictions:
            # With no file left there would be no schema: one file then answers with no rows.
            kept = files.overlapping(kept, partition, fragments) or kept[:1]
        reduced = f"_kept_{name}"
        self._name(reduced, files.paths(kept), files)
        return exp.to_table(reduced)

    def staged(self, name: str) -> exp.Table:
        """The changes that the sketch has not seen; from now on they are shown to the engine."""
        self._queried.add(name)
        self._show_staged()
        return exp.to_table(f"_changes_{name}")

    def _show_staged(self) -> None:
        """What nobody queries is not shown: engines take longer to look at a file than we to read it."""
        for name, paths in self._staged.items():
            if name in self._queried:
                self._name(f"_changes_{name}", paths)

    def condition(self, partition: Partition, fragments: frozenset[int]) -> exp.Expr:
        """An OR of ranges, which engines compare with the footers of row groups."""
        return in_ranges(partition, fragments, exp.column(partition.column, quoted=True))

    def skipping(self, partition: Partition, fragments: frozenset[int]) -> Skipping:
        """By the row groups that may hold rows."""
        files = self._files[partition.table]
        touched = files.touched(files.manifest().files, partition, fragments)
        intervals = len(partition.intervals(fragments))
        return Skipping(len(fragments) / partition.size, touched, self._engine.check * intervals)

    def mark(self, partition: Partition) -> tuple[str, Type]:
        """Values tell fragments."""
        return by_value(partition)

    def fragment(self, partition: Partition) -> exp.Expr:
        """Never asked for: values tell fragments."""
        raise AssertionError(f"{partition.name} is marked by value")

    staged_fragment = fragment

    def sql(self, query: exp.Query) -> str:
        """The query in the engine's SQL."""
        return query.sql(self.dialect)

    def run(self, text: str) -> pa.Table:
        """The result of a query over the present files."""
        self._show()
        return self._engine.run(text)

    def arrow(self, text: str, kinds: Sequence[Type]) -> pa.Table:
        """Results come in columns."""
        return self.run(text)

    def rows(self, text: str, kinds: Sequence[Type]) -> list[Row]:
        """The rows of a query as physical values."""
        return arrow_rows(self.run(text), kinds)

    def limits(self, table: str, column: Column) -> tuple[Value, Value]:
        """By the engine, which reads footers."""
        name = exp.column(column.name, quoted=True)
        text = self.sql(exp.select(exp.Min(this=name), exp.Max(this=name.copy())).from_(table))
        ((low, high),) = self.rows(text, [column.type] * 2)
        return low, high

    def quantiles(self, table: str, column: Column, ranges: int) -> list[Value]:
        """Of the first files, by rank."""
        values: list[Any] = sorted(self._files[table].values(column, SAMPLE))
        return [values[len(values) * place // ranges] for place in range(1, ranges)] if values else []

    def count(self, table: str) -> int:
        """From the footers."""
        return self._files[table].count()

    # Versions.

    def track(self, tables: Iterable[Table]) -> None:
        """Nothing to do: every batch leaves its changes beside the files."""

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Nothing to do: files of a version do not change while one store writes."""
        yield

    def version(self) -> Version:
        """The version of each table."""
        return {name: files.manifest().version for name, files in self._files.items()}

    def apply(self, changes: Mapping[Table, Sequence[Change]], lagging: bool) -> None:
        """Write all files of the batch, then let it take effect."""
        prepared: list[PreparedBatch] = []
        try:
            for table, part in changes.items():
                if part:
                    prepared.append(self._files[table.name].prepare(weighted_batch(table, part)))
        except BaseException:
            for batch in prepared:
                batch.abandon()
            raise
        for batch in prepared:
            batch.commit()
        self._show()

    def stage(self, since: Version, tables: Iterable[Table]) -> dict[str, int] | None:
        """The changes since a version, unless files changed by other hands."""
        changed = self._changes(since, tables)
        if changed is None:
            return None
        self._staged = changed
        self._show_staged()
        return {name: rows_in(paths) for name, paths in changed.items()}

    def at_hand(self, since: Version, tables: Iterable[Table]) -> None:
        """Nothing is: changes are in files."""

    def pending(self, since: Version, tables: Iterable[Table]) -> int | None:
        """From the footers of the files with changes."""
        changed = self._changes(since, tables)
        return None if changed is None else sum(map(rows_in, changed.values()))

    def _changes(self, since: Version, tables: Iterable[Table]) -> dict[str, list[str]] | None:
        found: dict[str, list[str]] = {}
        for table in tables:
            files = self._files[table.name]
            if since[table.name] < files.manifest().since:
                return None
            paths = files.changes(since[table.name])
            if paths:
                found[table.name] = paths
        return found

    def staged_columns(
        self, table: Table, columns: Sequence[Column], selection: exp.Expr | None
    ) -> pa.Table | None:
        """From the files themselves: for an engine to select among them would take longer."""
        return read_columns(self._staged[table.name], [*(column.name for column in columns), WEIGHT])

    def staged_limits(self, table: Table, column: Column) -> tuple[Value, Value]:
        """From the files with the changes."""
        return arrow_limits(read_columns(self._staged[table.name], [column.name, WEIGHT]), column)

    def forget(self, versions: Sequence[Version]) -> None:
        """Remove changes that every sketch has seen."""
        for name, files in self._files.items():
            files.forget(min((version[name] for version in versions), default=files.manifest().version))

    def save(self, name: str, content: bytes | None) -> None:
        """A file beside those of the first table."""
        path = self._state() / f"{name.replace(' ', '-')}.sketch"
        if content is None:
            path.unlink(missing_ok=True)
        else:
            path.write_bytes(content)

    def saved(self) -> Mapping[str, bytes]:
        """Those files."""
        return {path.stem: path.read_bytes() for path in self._state().glob("*.sketch")}

    def _state(self) -> Path:
        first = self._files[min(self._files)]
        return Path(first.paths(["_viewlet"])[0])
