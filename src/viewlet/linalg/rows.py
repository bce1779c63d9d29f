"""A bag of rows in order of arrival: what a regression remembers to remove, window and recompute exactly."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np

from viewlet.errors import DataError


class RowBag:
    """Rows in order of arrival; a row is found again by its value, equal rows oldest first.

    >>> bag = RowBag(2)
    >>> bag.add(np.array([[1.0, 2.0], [3.0, 4.0]]))
    >>> bag.remove(np.array([[1.0, 2.0]]))
    >>> bag.array().tolist()
    [[3.0, 4.0]]
    """

    def __init__(self, width: int) -> None:
        self._data = np.empty((64, width))
        self._alive = np.zeros(64, dtype=bool)
        self._where: dict[bytes, deque[int]] = {}
        self._first = self._end = self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, rows: np.ndarray[Any, Any]) -> None:
        """Append rows."""
        self._reserve(len(rows))
        slots = range(self._end, self._end + len(rows))
        self._data[slots.start : slots.stop] = rows
        self._alive[slots.start : slots.stop] = True
        for slot in slots:
            self._where.setdefault(self._data[slot].tobytes(), deque()).append(slot)
        self._end += len(rows)
        self._count += len(rows)

    def remove(self, rows: np.ndarray[Any, Any]) -> None:
        """Drop one row equal to each given row; all of them must be there, or none is dropped."""
        keys = [np.ascontiguousarray(row).tobytes() for row in rows]
        wanted: dict[bytes, int] = {}
        for position, key in enumerate(keys):
            wanted[key] = wanted.get(key, 0) + 1
            if wanted[key] > len(self._where.get(key, ())):
                raise DataError(
                    f"row {position} of the rows to remove, {rows[position].tolist()}, is not in the data "
                    "(any more); nothing was removed"
                )
        for key in keys:
            self._drop(key)

    def pop_oldest(self, count: int) -> np.ndarray[Any, Any]:
        """Drop and return the ``count`` rows that arrived first."""
        oldest = self._first + np.flatnonzero(self._alive[self._first : self._end])[:count]
        rows = self._data[oldest].copy()
        for row in rows:
            self._drop(row.tobytes())
        return rows

    def array(self) -> np.ndarray[Any, Any]:
        """All rows, oldest first."""
        return self._data[self._first : self._end][self._alive[self._first : self._end]]

    def _drop(self, key: bytes) -> None:
        slots = self._where[key]
        self._alive[slots.popleft()] = False
        if not slots:
            del self._where[key]
        self._count -= 1
        while self._first < self._end and not self._alive[self._first]:
            self._first += 1

    def _reserve(self, extra: int) -> None:
        if self._end + extra <= len(self._data):
            return
        kept = self.array()
        capacity = max(64, 2 * (len(kept) + extra))
        self._data = np.empty((capacity, kept.shape[1]))
        self._data[: len(kept)] = kept
        self._alive = np.zeros(capacity, dtype=bool)
        self._alive[: len(kept)] = True
        self._first, self._end = 0, len(kept)
        self._where = {}
        for slot in range(len(kept)):
            self._where.setdefault(self._data[slot].tobytes(), deque()).append(slot)
