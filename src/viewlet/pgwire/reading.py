"""A query under way in DuckDB: rows come batch by batch, so that a large result is never in memory whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from sqlglot import exp

from viewlet.adhoc import SEALED
from viewlet.database import Database
from viewlet.errors import BackendError
from viewlet.pgwire.catalog import catalog_relation
from viewlet.pgwire.described import Described
from viewlet.pgwire.functions import macros
from viewlet.pgwire.to_duckdb import Translated, to_duckdb
from viewlet.values import to_arrow

BATCH_ROWS = 2048


def open_duckdb() -> Any:
    """A DuckDB for a server. It holds nothing: all that queries see is temporary, and theirs alone."""
    try:
        import duckdb
    except ImportError:
        raise BackendError("queries are answered by DuckDB: pip install 'viewlet[duckdb]'") from None
    return duckdb.connect(config=SEALED)


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


@dataclass(frozen=True, slots=True)
class Reads:
    """What queries read: a database as of its last commit, and the system catalog as a session sees it."""

    engine: Any
    database: Database
    described: Described
    process: int

    def start(self, reading: Reading, query: exp.Query) -> None:
        """Run a query."""
        translated = to_duckdb(query, self.described)
        rows = self.database.read(translated.relations)
        reading.start(translated.text, self._macros(translated), rows | self._catalog(translated))

    def columns(self, query: exp.Query) -> pa.Schema:
        """The columns of a query, found without its rows."""
        translated = to_duckdb(query, self.described)
        catalog = self.database.catalog
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
