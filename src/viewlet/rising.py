"""Keys that rise from row to row and from batch to batch, as numbers of orders do, are all different.

While they do, nobody looks a key up, and an index of them waits until somebody does (``arrived.py``).
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from viewlet.core.types import Kind, Schema
from viewlet.values import integers

GREATEST = np.iinfo(np.int64).max
_LIKE_INTEGERS = (Kind.DATE, Kind.TIMESTAMP)


class Rising:
    """A bound that no key exceeds which was there so far; keys are compared column by column.

    Only keys of integers, dates and timestamps have one.

    >>> from viewlet.core.types import BIGINT, Column
    >>> keys = Rising((Column("a", BIGINT, False), Column("b", BIGINT, False)))
    >>> keys.extend(pa.record_batch({"a": [1, 1, 2], "b": [7, 8, 0]}))
    >>> keys.follow(pa.record_batch({"a": [2, 3], "b": [1, 0]}))
    True
    >>> keys.follow(pa.record_batch({"a": [2, 3], "b": [0, 0]}))
    False
    """

    def __init__(self, columns: Schema) -> None:
        self._ordered = all(c.type.is_integer or c.type.kind in _LIKE_INTEGERS for c in columns)
        self._bound: list[int] | None = None

    def follow(self, keys: pa.RecordBatch) -> bool:
        """Do keys rise, from beyond the bound? Then they are all different, and none of them was there."""
        columns = self._integers(keys)
        if columns is None:
            return False
        rises, ties = np.zeros(max(keys.num_rows - 1, 0), bool), True
        for numbers in columns:
            rises |= ties & (numbers[1:] > numbers[:-1])
            ties &= numbers[1:] == numbers[:-1]
        first = [int(numbers[0]) for numbers in columns] if keys.num_rows else None
        return bool(rises.all()) and (first is None or self._bound is None or first > self._bound)

    def extend(self, keys: pa.RecordBatch) -> None:
        """These keys have come, in whatever order: the bound is not below them."""
        columns = self._integers(keys)
        if columns is None or not keys.num_rows:
            return
        greatest = [int(columns[0].max()), *(GREATEST for _ in columns[1:])]
        last = [int(numbers[-1]) for numbers in columns]
        found = last if self.follow(keys) else greatest
        self._bound = found if self._bound is None else max(found, self._bound)

    def _integers(self, keys: pa.RecordBatch) -> list[NDArray[np.int64]] | None:
        """The columns as integers; nothing where they have no order here."""
        if not self._ordered or any(column.null_count for column in keys.columns):
            return None
        return [integers(column) for column in keys.columns]
