"""The rows that a table keeps: a bag, and with a primary key an index on it.

A batch is checked against them before anything changes: what it deletes must be there, and a key may occur
once. Only the net effect of a batch counts, so the order of its rows does not matter, except that of two
inserted rows with the same key the conflict rule keeps the first or the last.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NoReturn, TypeAlias

from viewlet.backends.base import Bag, Change, MapStats, Row
from viewlet.changes import Batch
from viewlet.core.casts import show
from viewlet.core.types import Column
from viewlet.errors import DataError
from viewlet.plan.evaluate import consolidate
from viewlet.sql.catalog import Table

OnConflict: TypeAlias = Literal["error", "update", "nothing"]


class KeptRows:
    """The present rows of one table."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.bag: Bag = {}
        self._slots = tuple(i for i, column in enumerate(table.columns) if column.name in table.key)
        self._by_key: dict[Row, Row] = {}

    def net(self, batch: Batch, on_conflict: OnConflict) -> list[Change]:
        """The changes that a batch comes down to, each row once; refused if the rows do not allow them.

        >>> from viewlet.core.types import BIGINT, Column
        >>> kept = KeptRows(Table("r", (Column("a", BIGINT),)))
        >>> kept.net(Batch([Change((1,), -1), Change((2,), 1), Change((1,), 1)]), "error")
        [Change(row=(2,), weight=1)]
        """
        if self.table.key:
            net = self._net_by_key(batch, on_conflict)
        else:
            net = consolidate((change.row, change.weight) for change in batch.changes)
            for row, weight in net.items():
                if self.bag.get(row, 0) + weight < 0:
                    self._absent(row)
        return [Change(row, weight) for row, weight in net.items()]

    def commit(self, changes: Iterable[Change]) -> None:
        """Take over changes that :meth:`net` has allowed."""
        for change in sorted(changes, key=lambda change: change.weight):
            weight = self.bag.get(change.row, 0) + change.weight
            if weight:
                self.bag[change.row] = weight
            else:
                del self.bag[change.row]
            if self._slots:
                if weight:
                    self._by_key[self._key(change.row)] = change.row
                else:
                    del self._by_key[self._key(change.row)]

    def load(self, rows: Iterable[tuple[Row, int]]) -> None:
        """Take over rows that were kept before."""
        loaded = dict(rows)
        self.bag |= loaded
        if self._slots:
            self._by_key |= {self._key(row): row for row in loaded}

    def stats(self) -> MapStats:
        """Distinct rows, and their bytes: 100 for a dict entry plus 60 per column."""
        return MapStats(f"table {self.table.name}", len(self.bag), len(self.bag) * self._row_bytes)

    def growth(self, changes: Iterable[Change]) -> int:
        """The bytes that changes would add at most."""
        appearing = sum(change.weight > 0 and change.row not in self.bag for change in changes)
        return appearing * self._row_bytes

    @property
    def _row_bytes(self) -> int:
        return 100 + 60 * len(self.table.columns)

    def _key(self, row: Row) -> Row:
        return tuple([row[slot] for slot in self._slots])

    def _net_by_key(self, batch: Batch, on_conflict: OnConflict) -> Bag:
        """Deletions first, then insertions in order, each against the rows as they would be by then."""
        changes = consolidate((change.row, change.weight) for change in batch.changes)
        gone: dict[Row, Row] = {}
        for row, weight in changes.items():
            if weight < 0:
                key = row if batch.keyed else self._key(row)
                present = self._by_key.get(key)
                if present is None or weight < -1 or not (batch.keyed or present == row):
                    self._absent(row)
                gone[key] = present
        new: dict[Row, Row] = {}
        for row, weight in changes.items():
            if weight <= 0:
                continue
            key = self._key(row)
            taken = key in new or (key in self._by_key and key not in gone)
            if (taken or weight > 1) and on_conflict == "error":
                self._duplicate(key)
            if taken and on_conflict == "nothing":
                continue
            if key not in new and key in self._by_key:
                gone[key] = self._by_key[key]
            new[key] = row
        return consolidate([*((row, -1) for row in gone.values()), *((row, 1) for row in new.values())])

    def _absent(self, row: Row) -> NoReturn:
        columns = self.table.columns if len(row) == len(self.table.columns) else self._key_columns()
        shown = ", ".join(show(value, column.type) for value, column in zip(row, columns, strict=True))
        what = "key" if len(row) < len(self.table.columns) else "row"
        raise DataError(f"table {self.table.name!r}: cannot delete the {what} ({shown}): it is not there")

    def _duplicate(self, key: Row) -> NoReturn:
        columns = self._key_columns()
        shown = ", ".join(f"{c.name} = {show(value, c.type)}" for value, c in zip(key, columns, strict=True))
        raise DataError(
            f"table {self.table.name!r}: the key {shown} would occur twice; "
            "delete the old row in the same batch, or insert with on_conflict='update' or 'nothing'"
        )

    def _key_columns(self) -> list[Column]:
        return [self.table.columns[slot] for slot in self._slots]
