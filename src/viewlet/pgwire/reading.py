"""A query under way in DuckDB: rows come batch by batch, so that a large result is never in memory whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import duckdb
import pyarrow as pa

from viewlet.adhoc import SEALED
from viewlet.database import Database
from viewlet.pgwire.catalog import Described, catalog_relation
from viewlet.pgwire.functions import macros
from viewlet.pgwire.to_duckdb import Translated
from viewlet.values import to_arrow

BATCH_ROWS = 2048


class Reading:
    """The rows of one query. Every method may take its time, except :meth:`interrupt`."""

    def __init__(self, text: str, preparations: Sequence[str], relations: Mapping[str, pa.Table]) -> None:
        self._connection = duckdb.connect(config=SEALED)
        try:
            for statement in preparations:
                self._connection.execute(statement)
            for name, rows in relations.items():
                self._connection.register(name, rows)
            self._batches = self._connection.sql(text).to_arrow_reader(BATCH_ROWS)
        except BaseException:
            self._connection.close()
            raise
        self.schema: pa.Schema = self._batches.schema

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


def read(translated: Translated, database: Database, described: Described, process: int) -> Reading:
    """Begin to read, as of the last commit."""
    return _reading(translated, database.read(translated.relations), described, process)


def columns(translated: Translated, database: Database, described: Described, process: int) -> pa.Schema:
    """The columns of a query, found without its rows."""
    empty = {name: to_arrow([], database.catalog[name].columns) for name in translated.relations}
    reading = _reading(translated, empty, described, process)
    reading.close()
    return reading.schema


def _reading(
    translated: Translated, relations: Mapping[str, pa.Table], described: Described, process: int
) -> Reading:
    catalog = {name: catalog_relation(name, described) for name in translated.catalog_relations}
    preparations = macros(translated.functions, described, process)
    return Reading(translated.text, preparations, {**relations, **catalog})
