"""Rows of a table that came as Arrow batches and stay so: a log of batches, and what is needed to add to it.

The log holds insertions, and deletions of rows that the log itself holds. With a primary key, the place of
each row in the log is known by its key; without one, a native map counts the rows, from the first deletion
on. Once most of the log cancels out it is written anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa

from viewlet.backends.base import ArrowChanges, Row, merged
from viewlet.backends.native.counts import MOST_COLUMNS, RowCounts
from viewlet.changes import arrow_changes, rows_of
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
        self._slots = tuple(i for i, column in enumerate(table.columns) if column.name in table.key)
        self._may_delete = bool(self._slots) or (native and len(table.columns) <= MOST_COLUMNS)
        self.places: dict[Row, int] = {}
        """Where the row with a primary key is in the log."""
        self._counts: RowCounts | None = None
        self._allowed: ArrowChanges | None = None
        self._coming: dict[Row, int] = {}
        self._going: list[Row] = []

    @property
    def lasts(self) -> bool:
        """Are there many rows, and can they stay here whatever is deleted?"""
        return self._may_delete and self.rows >= FEW_ROWS

    def allows(self, changes: ArrowChanges, elsewhere: Mapping[Row, Row]) -> bool:
        """May changes join the log: is all there that they delete, and no key twice, nor ``elsewhere``?

        Changes that delete something have every row once.
        """
        if changes is not self._allowed:
            if self._slots and not self._are_keys_free(changes, elsewhere):
                return False
            if not changes.inserts and not self._holds(changes):
                return False
            self._allowed = changes
        return True

    def _holds(self, changes: ArrowChanges) -> bool:
        """Are all rows that are deleted in the log? Changes that delete have every row once."""
        if not self.lasts or changes.weights is None:
            return False
        going = changes.weights < 0
        leaving = changes.where(going).batch
        if self._slots:
            known = all(key in self.places for key in self._going)
            return known and self.rows_with(self._going).equals(leaving)
        if self._counts is None:
            self._counts = RowCounts(self._table)
            for earlier in self.log:
                self._counts.apply(earlier)
        return bool((self._counts.of(leaving) >= -changes.weights[going]).all())

    def _are_keys_free(self, changes: ArrowChanges, elsewhere: Mapping[Row, Row]) -> bool:
        """Is every key that comes new, or that of a row which goes, and none there twice?"""
        single = self._note_keys(changes)
        taken = self._coming.keys() & self.places.keys()
        return single and taken <= set(self._going) and elsewhere.keys().isdisjoint(self._coming)

    def _note_keys(self, changes: ArrowChanges) -> bool:
        """Note which keys come, and where, and which go; does none do so twice?"""
        keys = self.keys_of(changes)
        if changes.weights is None:
            self._coming, self._going = dict(zip(keys, range(len(keys)), strict=True)), []
            return len(self._coming) == len(keys)
        weights = changes.weights.tolist()
        self._coming = {key: i for i, key in enumerate(keys) if weights[i] > 0}
        self._going = [key for i, key in enumerate(keys) if weights[i] < 0]
        return bool(len(self._coming) + len(set(self._going)) == sum(map(abs, weights)))

    def rows_with(self, keys: Sequence[Row]) -> pa.RecordBatch:
        """The rows with some keys, of which there is at least one, in the order of the keys."""
        places = np.array([self.places[key] for key in keys], np.int64)
        order = np.argsort(places)
        ordered, starts = places[order], np.cumsum([0, *map(len, self.log)])
        ranges = pairwise(np.searchsorted(ordered, starts).tolist())
        parts = [
            changes.batch.take(pa.array(ordered[low:high] - start))
            for changes, start, (low, high) in zip(self.log, starts, ranges, strict=False)
            if low < high
        ]
        back = np.empty_like(order)
        back[order] = np.arange(len(order))
        return pa.concat_batches(parts).take(pa.array(back))

    def replacing(self, changes: ArrowChanges) -> ArrowChanges | None:
        """Insertions, with the deletions of the rows that have their keys; nothing if a key comes twice.

        They need no further permission: what goes was found here, and its key is free then.
        """
        keys = self.keys_of(changes)
        taken = [key for key in keys if key in self.places]
        if not taken or len(set(keys)) < len(keys):
            return None
        columns = pa.Table.from_batches([self.rows_with(taken)]).columns
        gone = arrow_changes(self._table, columns, np.full(len(taken), -1, np.int64))
        self._allowed = merged([gone, changes]).net()
        self._note_keys(self._allowed)
        return self._allowed

    def present(self, keys: Iterable[Row]) -> dict[Row, Row]:
        """Those of the rows that have one of some keys, by key."""
        known = [key for key in dict.fromkeys(keys) if key in self.places]
        return (
            dict(zip(known, rows_of(self._table.columns, self.rows_with(known)), strict=True))
            if known
            else {}
        )

    def add(self, changes: ArrowChanges) -> None:
        """Take over changes that are allowed."""
        own = changes.owned()
        if self._slots:
            for key in self._going:
                del self.places[key]
            start = self._length
            self.places.update((key, start + i) for key, i in self._coming.items())
            self._coming, self._going = {}, []
        self.log.append(own)
        self.rows += own.total
        self._length += len(own)
        if self._counts is not None:
            self._counts.apply(own)
        self._allowed = None
        self._tidy()

    def _tidy(self) -> None:
        """Join short batches of like length, so that there are few; write anew what mostly cancels out."""
        while len(self.log) > 1 and len(self.log[-2]) <= min(2 * len(self.log[-1]), SHORT):
            self.log[-2:] = [merged(self.log[-2:])]
        if self._length > 2 * self.rows + SLACK:
            self.log = [merged(self.log).net()]
            self._length = len(self.log[0])
            if self._slots:
                self.places = {key: i for i, key in enumerate(self.keys_of(self.log[0]))}

    def drain(self) -> Iterator[ArrowChanges]:
        """All changes in order; afterwards nothing is left here."""
        log, self.log = self.log, []
        self.rows, self._length, self.places, self._counts, self._allowed = 0, 0, {}, None, None
        yield from log

    def bytes(self) -> int:
        """The memory that the log and its index take: 150 for a key, and 40 per column of it."""
        index = 0 if self._counts is None else self._counts.bytes()
        keys = len(self.places) * (150 + 40 * len(self._slots))
        return index + keys + sum(int(changes.batch.nbytes) for changes in self.log)

    def keys_of(self, changes: ArrowChanges) -> list[Row]:
        """The primary key of every row of some changes."""
        columns = [(changes.batch.column(slot), self._table.columns[slot].type) for slot in self._slots]
        return list(zip(*(physical_values(values, kind) for values, kind in columns), strict=True))
