"""Rows of a table that came as Arrow batches and stay so: a log of batches, and what is needed to add to it.

The log holds insertions, and deletions of rows that the log itself holds. With a primary key, the place of
each row in the log is known by its key (``places.py``), from the moment on when one is looked up: keys that
rise need not be (``rising.py``). Without one, a native map counts the rows, from the first deletion on. Once
most of the log cancels out it is written anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from viewlet.backends.base import ArrowChanges, Row, merged
from viewlet.backends.distinct import Places, are_distinct, first_and_last
from viewlet.backends.native.counts import MOST_COLUMNS, RowCounts
from viewlet.changes import rows_of
from viewlet.places import KeyPlaces
from viewlet.rising import Rising
from viewlet.sql.catalog import Table
from viewlet.values import to_arrow

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
        self._slots = [i for i, column in enumerate(table.columns) if column.name in table.key]
        self._key_columns = tuple(table.columns[slot] for slot in self._slots)
        self._may_delete = bool(self._slots) or (native and len(table.columns) <= MOST_COLUMNS)
        self._native = native
        self._places, self._rising = self._no_keys()
        self._indexed = 0
        """How far keys of the log are in the places; the rows after that only come."""
        self._counts: RowCounts | None = None
        self._allowed: ArrowChanges | None = None

    def _no_keys(self) -> tuple[KeyPlaces, Rising]:
        return KeyPlaces(self._key_columns, native=self._native), Rising(self._key_columns)

    @property
    def lasts(self) -> bool:
        """Are there many rows, and can they stay here whatever is deleted?"""
        return self._may_delete and self.rows >= FEW_ROWS

    def has_any(self, keys: Sequence[Row]) -> bool:
        """Is there a row with one of some primary keys?"""
        return bool((self._index().find_rows(keys) >= 0).any())

    def finder(self) -> Callable[[Row], int] | None:
        """Not 0 for the primary key of a row in the log, while nothing is added to it.

        Nothing tells it while keys wait to be indexed: nobody has asked for any of them yet.
        """
        return self._places.finder() if self._indexed == self._length else None

    def _index(self) -> KeyPlaces:
        """The places of all keys of the log."""
        start, waiting = 0, []
        for changes in self.log:
            behind = min(max(self._indexed - start, 0), len(changes))
            if behind < len(changes):
                waiting.append(changes.batch.slice(behind).select(self._slots))
            start += len(changes)
        if waiting:
            self._places.put(pa.concat_batches(waiting), np.arange(self._indexed, start))
        self._indexed = start
        return self._places

    def _find(self, keys: pa.RecordBatch) -> Places:
        """The place of each key; of those that rise beyond all others it is known without an index."""
        return np.full(keys.num_rows, -1) if self._rising.follow(keys) else self._index().find(keys)

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
            places = self._index().find(leaving.select(self._slots))
            return bool((places >= 0).all()) and self.rows_at(places).equals(leaving)
        return bool((self._copies(leaving) >= -changes.weights[going]).all())

    def copies(self, rows: Sequence[Row]) -> list[int]:
        """How often each of some rows is in the log of a table without a key, whose rows may be deleted."""
        (batch,) = to_arrow(rows, self._table.columns).combine_chunks().to_batches()
        found: list[int] = self._copies(batch).tolist()
        return found

    def _copies(self, rows: pa.RecordBatch) -> NDArray[np.int64]:
        if self._counts is None:
            self._counts = RowCounts(self._table)
            for earlier in self.log:
                self._counts.apply(earlier)
        return self._counts.of(rows)

    def _are_keys_free(self, changes: ArrowChanges, elsewhere: Mapping[Row, Row]) -> bool:
        """Is every key that comes new, or that of a row which goes, and none there twice?"""
        going, coming = self._keys(changes)
        if going.num_rows + coming.num_rows != (
            len(changes) if changes.weights is None else np.abs(changes.weights).sum()
        ):
            return False
        rises = self._rising.follow(coming)
        if not are_distinct(going) or not (rises or are_distinct(coming)):
            return False
        if not rises:
            taken, left = self._index().find(coming), self._index().find(going)
            if not np.isin(taken[taken >= 0], left).all():
                return False
        return not elsewhere or elsewhere.keys().isdisjoint(rows_of(self._key_columns, coming))

    def _keys(self, changes: ArrowChanges) -> tuple[pa.RecordBatch, pa.RecordBatch]:
        """The primary keys of the rows that go, and of those that come."""
        keys = changes.batch.select(self._slots)
        if changes.weights is None:
            return keys.slice(0, 0), keys
        comes = changes.weights > 0
        return keys.filter(pa.array(~comes)), keys.filter(pa.array(comes))

    def rows_at(self, places: Places) -> pa.RecordBatch:
        """The rows at some places of the log, in the order of the places."""
        order = np.argsort(places, kind="stable")
        ordered, starts = places[order], np.cumsum([0, *map(len, self.log)])
        ranges = pairwise(np.searchsorted(ordered, starts).tolist())
        parts = [
            changes.batch.take(pa.array(ordered[low:high] - start))
            for changes, start, (low, high) in zip(self.log, starts, ranges, strict=False)
            if low < high
        ]
        if not parts:
            return self.log[0].batch.slice(0, 0)
        back = np.empty_like(order)
        back[order] = np.arange(len(order))
        return pa.concat_batches(parts).take(pa.array(back))

    def present(self, keys: Iterable[Row]) -> dict[Row, Row]:
        """Those of the rows that have one of some keys, by key."""
        asked = list(dict.fromkeys(keys))
        places = self._index().find_rows(asked)
        known = [(key, place) for key, place in zip(asked, places.tolist(), strict=True) if place >= 0]
        if len(known) == 1:
            ((key, place),) = known
            return {key: self._row_at(place)}
        if not known:
            return {}
        rows = rows_of(self._table.columns, self.rows_at(places[places >= 0]))
        return dict(zip((key for key, _ in known), rows, strict=True))

    def _row_at(self, place: int) -> Row:
        """The row at a place of the log, which is found more quickly than several."""
        for changes in self.log:
            if place < len(changes):
                (row,) = rows_of(self._table.columns, changes.batch.slice(place, 1))
                return row
            place -= len(changes)
        raise IndexError(f"the log ends {place} before that place")

    def leaving(self, keys: Sequence[Row]) -> ArrowChanges | None:
        """The deletion of the rows with some primary keys; ``None`` if one is not there, or given twice."""
        places = self._index().find_rows(keys)
        if not len(places) or places.min() < 0 or len(np.unique(places)) < len(places):
            return None
        self._allowed = self.log[0].like(self.rows_at(places), np.full(len(places), -1))
        return self._allowed

    def settled(self, rows: ArrowChanges, *, replace: bool) -> ArrowChanges:
        """What insertions come to where keys are taken, by rows of the log or by one another.

        Of rows with the same key the last one stays if they ``replace``, else the first one. What this gives
        needs no further permission.
        """
        first, last = first_and_last(rows.batch.select(self._slots))
        new = rows.batch.filter(pa.array(np.arange(len(rows)) == (last if replace else first)))
        places = self._find(new.select(self._slots))
        is_taken = places >= 0
        free = new.filter(pa.array(~is_taken))
        if not replace:
            self._allowed = rows.like(free, None)
            return self._allowed
        old, taking = self.rows_at(places[is_taken]), new.filter(pa.array(is_taken))
        differ = pa.array(~_are_equal(old, taking))
        parts = [old.filter(differ), taking.filter(differ), free]
        weights = np.repeat(np.array([-1, 1, 1]), [part.num_rows for part in parts])
        self._allowed = rows.like(pa.concat_batches(parts), weights)
        return self._allowed

    def add(self, changes: ArrowChanges) -> None:
        """Take over changes that are allowed."""
        own = changes.owned()
        if self._slots:
            self._add_keys(own)
        self.log.append(own)
        self.rows += own.total
        self._length += len(own)
        if self._counts is not None:
            self._counts.apply(own)
        self._allowed = None
        self._tidy()

    def _add_keys(self, changes: ArrowChanges) -> None:
        """Know where the keys are of changes that come next in the log."""
        going, coming = self._keys(changes)
        if going.num_rows or not self._rising.follow(coming):
            places = self._index()
            if going.num_rows:
                places.remove(going, places.find(going))
            comes = slice(None) if changes.weights is None else changes.weights > 0
            places.put(coming, np.arange(self._length, self._length + len(changes))[comes])
            self._indexed = self._length + len(changes)
        self._rising.extend(coming)

    def _tidy(self) -> None:
        """Join short batches of like length, so that there are few; write anew what mostly cancels out."""
        while len(self.log) > 1 and len(self.log[-2]) <= min(2 * len(self.log[-1]), SHORT):
            self.log[-2:] = [merged(self.log[-2:])]
        if self._length > 2 * self.rows + SLACK:
            self.log = [self._present_rows()]
            self._length = len(self.log[0])
            self._places, self._indexed = self._no_keys()[0], 0

    def _present_rows(self) -> ArrowChanges:
        """The insertions that the whole log comes to."""
        whole = merged(self.log)
        if not self._slots:
            return whole.net()
        stays = self._index().find(whole.batch.select(self._slots)) == np.arange(len(whole))
        return whole.like(whole.batch.filter(pa.array(stays)), None)

    def drain(self) -> Iterator[ArrowChanges]:
        """All changes in order; afterwards nothing is left here."""
        log, self.log = self.log, []
        self.rows, self._length, self._counts, self._allowed = 0, 0, None, None
        self._places, self._rising = self._no_keys()
        self._indexed = 0
        yield from log

    def bytes(self) -> int:
        """The memory that the log and its index take."""
        index = self._places.bytes() + (0 if self._counts is None else self._counts.bytes())
        return index + sum(int(changes.batch.nbytes) for changes in self.log)


def _are_equal(ones: pa.RecordBatch, others: pa.RecordBatch) -> NDArray[np.bool_]:
    """Which rows are the same; NULL is NULL."""
    same = np.ones(ones.num_rows, bool)
    for one, other in zip(ones.columns, others.columns, strict=True):
        equal = pc.equal(one, other)
        if equal.null_count:
            equal = pc.or_(pc.fill_null(equal, False), pc.and_(one.is_null(), other.is_null()))
        same &= equal.to_numpy(zero_copy_only=False)
    return same
