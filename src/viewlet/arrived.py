"""Rows of a table that came as Arrow batches and stay so: a log of batches, and what is needed to add to it.

The log holds insertions, and deletions of rows that the log itself holds. To see that it does, a native map
counts its rows, from the first deletion on. Primary keys of its rows are a set. Once most of the log cancels
out it is written anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from viewlet.backends.base import ArrowChanges, Row, merged
from viewlet.backends.native.counts import MOST_COLUMNS, RowCounts
from viewlet.sql.catalog import Table
from viewlet.values import physical_values

FEW_ROWS = 1_000
"""Below this many rows a dict is good enough, and nothing needs to be compiled."""

SHORT, SLACK = 1 << 12, 1 << 16


class Arrived:
    """The Arrow part of the rows of one table; ``native`` says whether there may be native code."""

    def __init__(self, table: Table, native: bool) -> None:
        self.log: list[ArrowChanges] = []
        self.rows = 0
        self._length = 0
        self._table = table
        self.native = native and len(table.columns) <= MOST_COLUMNS
        self._slots = tuple(i for i, column in enumerate(table.columns) if column.name in table.key)
        self._keys: set[Row] = set()
        self._counts: RowCounts | None = None
        self._allowed: ArrowChanges | None = None
        self._coming: set[Row] = set()
        self._going: set[Row] = set()

    def allows(self, changes: ArrowChanges, elsewhere: Mapping[Row, Row]) -> bool:
        """May changes join the log: is all there that they delete, and no key twice, nor ``elsewhere``?

        Changes that delete something have every row once.
        """
        if changes is not self._allowed:
            held = changes.inserts or self._holds(changes)
            if not held or (self._slots and not self._are_keys_free(changes, elsewhere)):
                return False
            self._allowed = changes
        return True

    def _holds(self, changes: ArrowChanges) -> bool:
        """Are all rows that are deleted in the log? Changes that delete have every row once."""
        if not self.native or self.rows < FEW_ROWS or changes.weights is None:
            return False
        if self._counts is None:
            self._counts = RowCounts(self._table)
            for earlier in self.log:
                self._counts.apply(earlier)
        going = changes.weights < 0
        return bool((self._counts.of(changes.where(going).batch) >= -changes.weights[going]).all())

    def _are_keys_free(self, changes: ArrowChanges, elsewhere: Mapping[Row, Row]) -> bool:
        """Is every key that comes new, or that of a row which goes?"""
        weights = np.ones(len(changes), np.int64) if changes.weights is None else changes.weights
        self._coming = self._keys_of(changes if changes.inserts else changes.where(weights > 0))
        self._going = set() if changes.inserts else self._keys_of(changes.where(weights < 0))
        single = len(self._coming) + len(self._going) == np.abs(weights).sum()
        taken = self._coming & self._keys
        return bool(single and taken <= self._going and elsewhere.keys().isdisjoint(self._coming))

    def add(self, changes: ArrowChanges) -> None:
        """Take over changes that are allowed."""
        own = changes.owned()
        self.log.append(own)
        self.rows += own.total
        self._length += len(own)
        if self._counts is not None:
            self._counts.apply(own)
        if self._slots:
            self._keys -= self._going
            self._keys |= self._coming
            self._coming, self._going = set(), set()
        self._allowed = None
        self._tidy()

    def _tidy(self) -> None:
        """Join short batches of like length, so that there are few; write anew what mostly cancels out."""
        while len(self.log) > 1 and len(self.log[-2]) <= min(2 * len(self.log[-1]), SHORT):
            self.log[-2:] = [merged(self.log[-2:])]
        if self._length > 2 * self.rows + SLACK:
            self.log = [merged(self.log).net()]
            self._length = len(self.log[0])

    def drain(self) -> Iterator[ArrowChanges]:
        """All changes in order; afterwards nothing is left here."""
        log, self.log = self.log, []
        self.rows, self._length, self._keys, self._counts, self._allowed = 0, 0, set(), None, None
        yield from log

    def bytes(self) -> int:
        """The memory that the log and its index take."""
        index = 0 if self._counts is None else self._counts.bytes()
        return index + sum(int(changes.batch.nbytes) for changes in self.log)

    def _keys_of(self, changes: ArrowChanges) -> set[Row]:
        columns = [(changes.batch.column(slot), self._table.columns[slot].type) for slot in self._slots]
        return set(zip(*(physical_values(values, kind) for values, kind in columns), strict=True))
