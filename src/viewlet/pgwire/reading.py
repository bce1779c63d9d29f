"""A query under way in DuckDB: rows come batch by batch, so that a large result is never in memory whole."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from sqlglot import exp

from viewlet.adhoc import INTEGER_DIVISION, SEALED, STRICT
from viewlet.database import Database
from viewlet.errors import BackendError
from viewlet.pgwire.catalog import catalog_relation
from viewlet.pgwire.described import Described
from viewlet.pgwire.functions import macros
from viewlet.pgwire.to_duckdb import Translated, to_duckdb
from viewlet.sql.catalog import Catalog
from viewlet.values import to_arrow

BATCH_ROWS = 2048
MAX_KEPT_BYTES = 256 << 20


def open_duckdb() -> Any:
    """A DuckDB for a server. It holds nothing: all that queries see is temporary, and theirs alone."""
    try:
        import duckdb
    except ImportError:
        raise BackendError("queries are answered by DuckDB: pip install 'viewlet[duckdb]'") from None
    return duckdb.connect(config=SEALED | STRICT | INTEGER_DIVISION)


class Reading:
    """The rows of one query. Every method may take its time, except :meth:`interrupt`."""

    def __init__(self, engine: Any) -> None:
        self._connection = engine.cursor()
        self._batches: pa.RecordBatchReader = pa.RecordBatchReader.from_batches(pa.schema([]), [])

    def start(self, text: str, preparations: Sequence[str], relations: Mapping[str, pa.Table]) -> None:
        """Run the query, up to its first rows."""
        self._batches = self._relation(text, preparations, relations).to_arrow_reader(BATCH_ROWS)

    def columns(self, text: str, preparations: Sequence[str], relations: Mapping[str, pa.Table]) -> pa.Schema:
        """The columns of the query, which is not run."""
        relation = self._relation(text, preparations, relations)
        types = relation.limit(0).to_arrow_table().schema.types
        return pa.schema(list(zip(relation.columns, types, strict=True)))

    def _relation(self, text: str, preparations: Sequence[str], relations: Mapping[str, pa.Table]) -> Any:
        for statement in preparations:
            self._connection.execute(statement)
        for name, rows in relations.items():
            self._connection.register(name, rows)
        return self._connection.sql(text)

    @property
    def schema(self) -> pa.Schema:
        """The columns."""
        return self._batches.schema

    def next(self) -> pa.RecordBatch | None:
        """The next rows, ``None`` after the last."""
        try:
            return self._batches.read_next_batch()
        except StopIteration:
            return None

    def interrupt(self) -> None:
        """Let a query that runs in another thread fail soon."""
        self._connection.interrupt()

    def close(self) -> None:
        """Give up the query."""
        self._batches.close()
        self._connection.close()


class Copies:
    """Tables and views as Arrow: a copy serves everybody who asks before the next commit or definition."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._mark: tuple[int, Catalog] = (-1, Catalog())
        self._tables: dict[str, pa.Table] = {}

    def read(self, names: Sequence[str]) -> dict[str, pa.Table]:
        """The rows of relations, all as of the same commit."""
        mark = self._database.version, self._database.catalog
        known = self._known(mark, names)
        missing = [name for name in names if name not in known]
        fresh = self._database.read(missing)  # also if none is missing: a closed database refuses
        if not _same(mark, (self._database.version, self._database.catalog)):
            return self._database.read(names) if known else fresh
        self._keep(mark, fresh)
        return known | fresh

    def _known(self, mark: tuple[int, Catalog], names: Sequence[str]) -> dict[str, pa.Table]:
        with self._lock:
            if not _same(mark, self._mark):
                return {}
            return {name: self._tables[name] for name in names if name in self._tables}

    def _keep(self, mark: tuple[int, Catalog], fresh: Mapping[str, pa.Table]) -> None:
        with self._lock:
            if not _same(mark, self._mark):
                self._mark, self._tables = mark, {}
            size = sum(table.nbytes for table in self._tables.values())
            for name, table in fresh.items():
                size += table.nbytes
                if size <= MAX_KEPT_BYTES:
                    self._tables[name] = table


def _same(left: tuple[int, Catalog], right: tuple[int, Catalog]) -> bool:
    """The same commit and the same definitions: a catalog is never changed, only replaced."""
    return left[0] == right[0] and left[1] is right[1]


@dataclass(frozen=True, slots=True)
class Reads:
    """What queries read: relations as of the last commit, and the system catalog as a session sees it."""

    engine: Any
    copies: Copies
    described: Described
    process: int

    def start(self, reading: Reading, query: exp.Query) -> None:
        """Run a query."""
        translated = to_duckdb(query, self.described)
        rows = self.copies.read(translated.relations)
        reading.start(translated.text, self._macros(translated), rows | self._catalog(translated))

    def columns(self, query: exp.Query) -> pa.Schema:
        """The columns of a query, found without its rows."""
        translated = to_duckdb(query, self.described)
        catalog = self.described.relations
        reading = Reading(self.engine)
        try:
            empty = {name: to_arrow([], catalog[name].columns) for name in translated.relations}
            relations = empty | self._catalog(translated)
            return reading.columns(translated.text, self._macros(translated), relations)
        finally:
            reading.close()

    def _catalog(self, translated: Translated) -> dict[str, pa.Table]:
        return {name: catalog_relation(name, self.described) for name in translated.catalog_relations}

    def _macros(self, translated: Translated) -> list[str]:
        return macros(translated.functions, self.described, self.process)
