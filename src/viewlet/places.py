"""Where the row with a primary key is in a log of rows: a dict of few keys, a native map of many.

The native map is the one that counts rows (``backends/native/counts.py``): a key whose row is at place p is
there p + 1 times.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import pyarrow as pa

from viewlet.backends.base import Row
from viewlet.backends.distinct import Places
from viewlet.backends.native.counts import RowCounts
from viewlet.changes import rows_of
from viewlet.core.types import Schema
from viewlet.sql.catalog import Table
from viewlet.values import to_arrow

MANY_KEYS = 1 << 14
"""From here on a native map pays, whose program may have to be compiled first."""


class KeyPlaces:
    """The places of rows by their primary keys, which are distinct; -1 is the place of no row.

    >>> from viewlet.core.types import BIGINT, Column
    >>> places = KeyPlaces((Column("a", BIGINT, False),), native=False)
    >>> keys = pa.record_batch({"a": [7, 8]})
    >>> places.put(keys, np.array([0, 1]))
    >>> places.find(pa.record_batch({"a": [8, 9]})).tolist()
    [1, -1]
    """

    def __init__(self, columns: Schema, *, native: bool) -> None:
        self._columns = columns
        self._native = native
        self._few: dict[Row, int] = {}
        self._many: RowCounts | None = None
        self._keys = 0

    def find(self, keys: pa.RecordBatch) -> Places:
        """The place of each key."""
        if self._many is not None:
            return self._many.of(keys) - 1
        return self.find_rows(rows_of(self._columns, keys))

    def find_rows(self, keys: Iterable[Row]) -> Places:
        """The place of each key, given as physical values."""
        if self._many is None:
            few = self._few
            return np.array([few.get(key, -1) for key in keys], np.int64)
        return np.array([*map(self._many.finder(), keys)], np.int64) - 1

    def finder(self) -> Callable[[Row], int]:
        """Not 0 for a key that has a place, until the next one gets or loses its own; runs no Python code."""
        return self._few.__contains__ if self._many is None else self._many.finder()

    def put(self, keys: pa.RecordBatch, places: Places) -> None:
        """Note where rows with new keys are."""
        self._keys += len(places)
        if self._many is None and self._native and self._keys >= MANY_KEYS:
            self._many = RowCounts(Table("keys", self._columns))
            few, self._few = self._few, {}
            self._many.add(_batch(few, self._columns), np.fromiter(few.values(), np.int64) + 1)
        if self._many is not None:
            self._many.add(keys, places + 1)
        else:
            self._few.update(zip(rows_of(self._columns, keys), places.tolist(), strict=True))

    def remove(self, keys: pa.RecordBatch, places: Places) -> None:
        """Forget keys, which are at these places."""
        self._keys -= len(places)
        if self._many is not None:
            self._many.add(keys, -(places + 1))
        else:
            for key in rows_of(self._columns, keys):
                del self._few[key]

    def bytes(self) -> int:
        """The memory that this takes: in a dict, 150 for a key and 40 per column of it."""
        return self._keys * (150 + 40 * len(self._columns)) if self._many is None else self._many.bytes()


def _batch(rows: Iterable[Row], columns: Schema) -> pa.RecordBatch:
    table = to_arrow(list(rows), columns)
    return pa.RecordBatch.from_arrays(
        [column.combine_chunks() for column in table.columns], schema=table.schema
    )
