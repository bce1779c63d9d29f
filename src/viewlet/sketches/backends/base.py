"""What a sketch store asks of a database."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from typing import Any, Protocol, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from viewlet.backends.base import ArrowChanges, Change
from viewlet.core.types import Column, Type, Value
from viewlet.errors import DataError, SqlError
from viewlet.sketches.cost import Skipping
from viewlet.sketches.operators.base import Row
from viewlet.sketches.operators.reader import Reader
from viewlet.sketches.partition import Partition
from viewlet.sketches.scans import WEIGHT
from viewlet.sql import parse
from viewlet.sql.catalog import Catalog, Table
from viewlet.values import read_column, to_arrow

Changes: TypeAlias = Mapping[str, list[Change]]
Version: TypeAlias = Any
"""A state of the data: comparable for equality only; each backend has its own."""


class Backend(Reader, Protocol):
    """A database with tables; see the classes of this folder."""

    dialect: str
    large: int
    """From so many rows of a table on, following it by triggers is worth a C compiler's time."""

    def condition(self, partition: Partition, fragments: frozenset[int]) -> exp.Expr:
        """That a row lies in one of the fragments, in the form that this database evaluates best."""

    def reduced(self, restrictions: Sequence[tuple[Partition, frozenset[int]]]) -> exp.Table | None:
        """A part of a table that holds all rows of its fragments and is named apart; ``None``: the table."""

    def skipping(self, partition: Partition, fragments: frozenset[int]) -> Skipping:
        """What that condition leaves to read."""

    def catalog(self) -> Catalog:
        """The tables there are."""

    def described(self, name: str) -> Table:
        """One table as it is now: asked before every batch, so without looking at all the others."""

    def run(self, text: str) -> pa.Table:
        """The result of a query."""

    def arrow(self, text: str, kinds: Sequence[Type]) -> pa.Table:
        """The result of a query of many rows of the given types, by the quickest way; names do not count."""

    def limits(self, table: str, column: Column) -> tuple[Value, Value]:
        """The least and the greatest value of a column, physical; NULL for an empty one."""

    def quantiles(self, table: str, column: Column, ranges: int) -> list[Value]:
        """The values at 1/n ... (n-1)/n of a column, physical, in order; approximately."""

    def count(self, table: str) -> int:
        """The number of rows of a table; an estimate where counting is expensive."""

    def track(self, tables: Iterable[Table]) -> None:
        """From now on remember the changes of these tables."""

    def snapshot(self) -> AbstractContextManager[None]:
        """Everything inside sees one state of the data."""

    def version(self) -> Version:
        """The present version of the data."""

    def apply(self, changes: Mapping[Table, Sequence[Change]], lagging: bool) -> None:
        """Change the data, and remember the changes; all of it or nothing.

        ``lagging`` if some sketch will not follow at once: saved, it needs the changes after a restart too.
        """

    def stage(self, since: Version, tables: Iterable[Table]) -> dict[str, int] | None:
        """Let ``staged`` mean the changes since a version, and count them; ``None`` if they are unknown."""

    def at_hand(self, since: Version, tables: Iterable[Table]) -> tuple[Version, dict[str, int]] | None:
        """The present version, with the changes since one staged and counted, if all are in this process.

        Then a state that needs the changes alone reads nothing in the database, and needs no snapshot of it.
        """

    def pending(self, since: Version, tables: Iterable[Table]) -> int | None:
        """How many changes there were since a version, about; ``None`` if they are unknown."""

    def staged_columns(
        self, table: Table, columns: Sequence[Column], selection: exp.Expr | None
    ) -> pa.Table | None:
        """Some columns of the staged changes and ``_weight``, if there is a quicker way than a query.

        Changes that do not satisfy the ``selection`` need not be among them.
        """

    def staged_limits(self, table: Table, column: Column) -> tuple[Value, Value]:
        """The least and the greatest value that the staged changes bring, physical; NULL for none."""

    def forget(self, versions: Sequence[Version]) -> None:
        """Changes that all of these versions contain are needed no more."""

    def save(self, name: str, content: bytes | None) -> None:
        """Keep some bytes in the database under a name; ``None`` removes them."""

    def saved(self) -> Mapping[str, bytes]:
        """What was kept."""


def arrow_rows(table: pa.Table, kinds: Sequence[Type]) -> list[Row]:
    """The rows of an Arrow table as physical values of the given types."""
    columns = [
        read_column(column, Column(name, kind), "result")
        for name, column, kind in zip(table.column_names, table.columns, kinds, strict=True)
    ]
    return list(zip(*columns, strict=True))


def arrow_limits(rows: pa.Table, column: Column) -> tuple[Value, Value]:
    """The least and the greatest value of a column among the rows that appear, physical; NULL for none."""
    appear = pc.greater(rows[WEIGHT], 0)
    found = pc.min_max(rows[column.name].filter(appear))
    limits = pa.table({end: pa.array([found[end].as_py()], found[end].type) for end in ("min", "max")})
    ((low, high),) = arrow_rows(limits, [column.type] * 2)
    return low, high


def weighted_batch(table: Table, changes: Sequence[Change]) -> pa.Table:
    """Changes as an Arrow table with ``_weight``, each row as often as it appears or disappears.

    >>> from viewlet.core.types import BIGINT
    >>> r = Table("r", (Column("a", BIGINT),))
    >>> weighted_batch(r, [Change((7,), -2), Change((8,), 1)]).to_pydict()
    {'a': [7, 7, 8], '_weight': [-1, -1, 1]}
    """
    if isinstance(changes, ArrowChanges):
        rows, weights = pa.Table.from_batches([changes.batch]), changes.weights
    else:
        rows = to_arrow([change.row for change in changes], table.columns)
        weights = np.fromiter((change.weight for change in changes), np.int64, len(changes))
    if weights is None:
        return rows.append_column(WEIGHT, pa.array(np.ones(len(rows), np.int64)))
    copies = np.abs(weights)
    if (copies != 1).any():
        rows = rows.take(pa.array(np.repeat(np.arange(len(copies)), copies)))
    return rows.append_column(WEIGHT, pa.array(np.repeat(np.sign(weights), copies)))


def missing_rows(table: Table, asked: int, found: int) -> DataError:
    """Some rows to delete were not there."""
    return DataError(
        f"table {table.name!r}: {asked - found} of {asked} rows to delete are not there; nothing was changed"
    )


def catalog_of(
    columns: Sequence[tuple[str, str, str, bool]], keys: Mapping[str, Sequence[str]], dialect: str
) -> Catalog:
    """A catalog from rows of (table, column, type, nullable); tables with other types are left out."""
    texts: dict[str, list[str]] = {}
    for table, column, kind, nullable in columns:
        texts.setdefault(table, []).append(f'"{column}" {kind}{"" if nullable else " NOT NULL"}')
    tables: list[Table] = []
    for name, parts in texts.items():
        key = f", PRIMARY KEY ({', '.join(keys[name])})" if name in keys else ""
        with suppress(SqlError):
            (statement,) = parse.parse(f'CREATE TABLE "{name}" ({", ".join(parts)}{key})', dialect)
            assert isinstance(statement, parse.CreateTable)
            tables.append(statement.table)
    return Catalog(tables)
