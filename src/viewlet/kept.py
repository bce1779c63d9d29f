"""The rows that a table keeps: a bag, and with a primary key an index on it.

Arrow batches are kept as they came (``arrived.py``). Single rows that come later are put into the bag beside
them, and join them when they have become many; so do single rows that go: then the bag *owes*, it has a row
less than no times. Few rows, or rows whose deletion could not be checked there, are all in the bag.

A batch is checked against them before anything changes: what it deletes must be there, and a key may occur
once. Only the net effect of a batch counts, so the order of its rows does not matter, except that of two
inserted rows with the same key the conflict rule keeps the first or the last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NoReturn, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from viewlet.arrived import FEW_ROWS, Arrived
from viewlet.backends.base import ArrowChanges, Bag, Change, MapStats, Row, merged
from viewlet.changes import Batch, arrow_changes
from viewlet.core.casts import show
from viewlet.core.types import Column, Schema
from viewlet.errors import DataError
from viewlet.plan.bags import consolidate, sorted_rows
from viewlet.sql.catalog import Table
from viewlet.values import to_arrow

OnConflict: TypeAlias = Literal["error", "update", "nothing"]

Lane: TypeAlias = tuple[Bag, dict[Row, Row], Callable[[Row], int] | None]
"""Rows, those of them by key, and what is not 0 for keys of others elsewhere (``runtime/keeping.h``)."""

SINGLE_ROWS = 100
"""A batch of at most so many Python rows goes into the bag, where that is possible."""

MOST_BESIDE = 1 << 10
"""So many rows of the bag join those that came as Arrow."""


@dataclass(frozen=True, slots=True)
class Image:
    """The rows of a table at one moment: a bag, and Arrow batches of further rows."""

    bag: Bag
    arrived: tuple[ArrowChanges, ...] = ()

    def changes(self) -> Iterator[Sequence[Change]]:
        """The insertions that make these rows out of nothing."""
        if self.bag:
            yield _changes(self.bag)
        yield from self.arrived

    def rows(self) -> Bag:
        """All rows, each with its number of copies."""
        single = ((change.row, change.weight) for batch in self.arrived for change in batch)
        return consolidate([*self.bag.items(), *single]) if self.arrived else self.bag

    def to_arrow(self, columns: Schema) -> pa.Table:
        """All rows as an Arrow table, ordered by all columns with NULL first; no row becomes a Python object.

        >>> from viewlet.core.types import BIGINT
        >>> Image({(2,): 2, (None,): 1}).to_arrow((Column("a", BIGINT),)).to_pydict()
        {'a': [None, 2, 2]}
        """
        if not self.arrived:
            return to_arrow(sorted_rows(self.bag), columns)
        single = to_arrow([row for row, n in self.bag.items() for _ in range(n)], columns)
        plain = all(changes.inserts for changes in self.arrived)
        batches = map(_copies, self.arrived if plain else [merged(self.arrived).net()])
        table = pa.concat_tables([single, pa.Table.from_batches(batches)])
        keys = [key for values in table.columns for key in (values.is_valid(), values)]
        places = pa.table(keys, [str(place) for place in range(len(keys))])
        return table.take(pc.sort_indices(places, [(name, "ascending") for name in places.column_names]))


def _changes(bag: Bag) -> list[Change]:
    return list(map(Change, bag.keys(), bag.values()))


def _copies(changes: ArrowChanges) -> pa.RecordBatch:
    """The rows of insertions, each as often as it came."""
    if changes.weights is None or bool((changes.weights == 1).all()):
        return changes.batch
    return changes.batch.take(pa.array(np.repeat(np.arange(len(changes)), changes.weights)))


class KeptRows:
    """The present rows of one table."""

    def __init__(self, table: Table, *, native: bool = False) -> None:
        self.table = table
        self._bag: Bag = {}
        self._arrived = Arrived(table, native)
        self._slots = tuple(i for i, column in enumerate(table.columns) if column.name in table.key)
        self._by_key: dict[Row, Row] = {}
        self._owed_by_key: dict[Row, Row] = {}
        self._beside: Sequence[Change] | None = None
        self._owes = False
        self.lane: Lane | None = self._bag, self._by_key, None
        """While single rows may come and go there without being asked about."""

    @property
    def slots(self) -> bytes:
        """The places of the columns of the primary key."""
        return bytes(self._slots)

    @property
    def bag(self) -> Bag:
        """All rows, each with its number of copies."""
        if self._arrived.log:
            beside = self._bag
            self._empty()
            for changes in self._arrived.drain():
                self._take(changes)
            self._take(_changes(beside))  # last, for a key may have come and gone before it came here
            self._owes = False
        return self._bag

    def _empty(self) -> None:
        self._bag, self._by_key, self._owed_by_key, self._owes = {}, {}, {}, False
        self.lane = None

    def present(self) -> Image:
        """What is kept, to be looked at before the next commit; few rows are all in a bag."""
        self._settle()
        image = Image(self._bag, tuple(self._arrived.log))
        return Image(image.rows()) if self._arrived.rows < FEW_ROWS else image

    def image(self) -> Image:
        """What is kept, as it is now and will stay: later commits do not change it."""
        self._settle()
        return Image(dict(self._bag), tuple(self._arrived.log))

    def net(self, batch: Batch, on_conflict: OnConflict) -> Sequence[Change]:
        """The changes that a batch comes down to, each row once; refused if the rows do not allow them.

        >>> from viewlet.core.types import BIGINT, Column
        >>> kept = KeptRows(Table("r", (Column("a", BIGINT),)))
        >>> kept.net(Batch([Change((1,), -1), Change((2,), 1), Change((1,), 1)]), "error")
        [Change(row=(2,), weight=1)]
        """
        self._beside = self._net_beside(batch, on_conflict)
        if self._beside is not None:
            return self._beside
        changes, lasts = batch.changes, self._arrived.lasts
        if lasts:  # not for a few rows are all others turned into a bag
            self._unfold()
            changes = changes if batch.keyed else self._as_arrow(changes)
        if lasts and self.table.key and not self._bag:
            return self._net_in_log(Batch(changes, batch.keyed), on_conflict)
        if isinstance(changes, ArrowChanges):
            once = changes if changes.inserts else changes.net()
            if self._is_plain(once):
                return once
        assert self.bag is self._bag, "all rows and keys are at hand now"
        return self._net_in_bag(batch, on_conflict)

    def _net_beside(self, batch: Batch, on_conflict: OnConflict) -> list[Change] | None:
        """The net changes of few Python rows, if they can be put beside what came as Arrow.

        Rows that they delete or replace are looked up there; where those must not be deleted, the new rows
        may have no key of theirs.
        """
        changes = batch.changes
        if isinstance(changes, ArrowChanges) or len(changes) > SINGLE_ROWS or not self._arrived.log:
            return None
        if self.table.key:
            present = self._present_by_key(self._keys(batch))
            return None if present is None else _changes(self._net_by_key(batch, on_conflict, present))
        net = consolidate((change.row, change.weight) for change in changes)
        rest = {row: self._bag.get(row, 0) + weight for row, weight in net.items() if weight < 0}
        owed = [row for row, weight in rest.items() if weight < 0]
        if owed and not self._arrived.lasts:
            return None
        if owed and any(n + rest[row] < 0 for row, n in zip(owed, self._arrived.copies(owed), strict=True)):
            return None
        return _changes(net)

    def _present_by_key(self, keys: Sequence[Row]) -> Mapping[Row, Row] | None:
        """The present rows with some keys, of the bag and of what came as Arrow.

        ``None`` if one of them came as Arrow and must not be deleted there.
        """
        elsewhere = [key for key in keys if key not in self._by_key and key not in self._owed_by_key]
        if not elsewhere:
            return self._by_key
        if not self._arrived.lasts:
            return None if self._arrived.has_any(elsewhere) else self._by_key
        inside = {key: self._by_key[key] for key in keys if key in self._by_key}
        return inside | self._arrived.present(elsewhere)

    def having(self, keys: Sequence[Row]) -> Bag:
        """The present rows with some primary keys; not for these are all rows of a log turned into a bag.

        >>> from viewlet.core.types import BIGINT, Column
        >>> kept = KeptRows(Table("r", (Column("a", BIGINT, False), Column("b", BIGINT)), key=("a",)))
        >>> kept.commit(kept.net(Batch([Change((1, 7), 1), Change((2, 8), 1)]), "error"))
        >>> kept.having([(2,), (3,)])
        {(2, 8): 1}
        """
        present = self._present_by_key(keys)
        if present is None:
            assert self.bag is self._bag, "all rows and keys are at hand now"
            present = self._by_key
        return {present[key]: 1 for key in keys if key in present}

    def _net_in_bag(self, batch: Batch, on_conflict: OnConflict) -> list[Change]:
        """The net changes where all rows that they concern are in the bag."""
        if self.table.key:
            return _changes(self._net_by_key(batch, on_conflict, self._by_key))
        net = consolidate((change.row, change.weight) for change in batch.changes)
        for row, weight in net.items():
            if self._bag.get(row, 0) + weight < 0:
                self._absent(row)
        return _changes(net)

    def _net_in_log(self, batch: Batch, on_conflict: OnConflict) -> ArrowChanges:
        """The net changes of a table with a primary key where all rows came as Arrow."""
        changes = batch.changes
        if isinstance(changes, ArrowChanges):
            if changes.weights is None and on_conflict != "error":
                return self._arrived.settled(changes, replace=on_conflict == "update")
            if self._is_plain(changes):
                return changes
        keys = self._keys(batch)
        by_key = batch.keyed and all(change.weight == -1 for change in changes)
        if by_key and (found := self._arrived.leaving(keys)) is not None:
            return found
        present = self._arrived.present(keys)
        return self._as_arrow(_changes(self._net_by_key(batch, on_conflict, present)))

    def _as_arrow(self, changes: Sequence[Change]) -> ArrowChanges:
        if isinstance(changes, ArrowChanges):
            return changes
        columns = to_arrow([change.row for change in changes], self.table.columns).columns
        return arrow_changes(self.table, columns, np.array([change.weight for change in changes], np.int64))

    def _settle(self) -> None:
        """Let no row be there less than no times, beside others that are."""
        if self._owes and self._arrived.lasts:
            self._unfold()
        elif self._owes:
            assert self.bag is self._bag, "all rows are in the bag now"

    def _unfold(self) -> None:
        """Let rows of the bag join what came as Arrow, while they are the fewer; and if it owes any."""
        if self._bag and (self._owes or len(self._bag) <= self._arrived.rows):
            single = self._as_arrow(_changes(self._bag))
            self._empty()
            assert self._is_plain(single), "what is in the bag is in no log"
            self._arrived.add(single)

    def commit(self, changes: Sequence[Change]) -> None:
        """Take over changes that :meth:`net` has allowed."""
        if isinstance(changes, ArrowChanges) and self._is_plain(changes):
            self._arrived.add(changes)
        elif changes is self._beside:
            self._take(changes)
            if len(self._bag) >= MOST_BESIDE and self._arrived.lasts:
                self._unfold()
        else:
            assert self.bag is self._bag, "what arrived before comes first"
            self._take(changes)
        self._beside = None
        # Of keys that came as Arrow, those that are owed among them, the dictionary does not know.
        elsewhere = self._arrived.finder() if self._slots and self._arrived.log else None
        knows_all = not self._slots or not self._arrived.log or elsewhere is not None
        self.lane = (self._bag, self._by_key, elsewhere) if knows_all else None

    def _take(self, changes: Sequence[Change]) -> None:
        for change in sorted(changes, key=lambda change: change.weight):
            weight = self._bag.get(change.row, 0) + change.weight
            if weight:
                self._bag[change.row] = weight
                self._owes |= weight < 0
            else:
                del self._bag[change.row]
            if self._slots:
                self._take_key(change, weight)

    def _take_key(self, change: Change, weight: int) -> None:
        """Know by its key a row that the bag now has so often, or owes."""
        key = self._key(change.row)
        if weight:
            (self._by_key if weight > 0 else self._owed_by_key)[key] = change.row
        elif change.weight < 0:
            del self._by_key[key]
        else:  # of a log that is drained, several rows of one key may have been owed
            self._owed_by_key.pop(key, None)

    def count(self) -> int:
        """The number of rows, copies included."""
        return sum(self._bag.values()) + self._arrived.rows

    def stats(self) -> MapStats:
        """Rows and bytes: 100 for a dict entry plus 60 per column, and the buffers of Arrow batches."""
        size = len(self._bag) * self._row_bytes + self._arrived.bytes()
        return MapStats(f"table {self.table.name}", len(self._bag) + self._arrived.rows, size)

    def growth(self, changes: Sequence[Change]) -> int:
        """The bytes that changes would add at most."""
        if isinstance(changes, ArrowChanges) and self._is_plain(changes):
            return int(changes.batch.nbytes)
        bag = self._bag if changes is self._beside else self.bag
        appearing = sum(change.weight > 0 and change.row not in bag for change in changes)
        return appearing * self._row_bytes

    @property
    def _row_bytes(self) -> int:
        return 100 + 60 * len(self.table.columns)

    def _is_plain(self, changes: Sequence[Change]) -> bool:
        """Is it an Arrow batch that concerns rows of Arrow batches alone?"""
        return isinstance(changes, ArrowChanges) and self._arrived.allows(changes, self._by_key)

    def _key(self, row: Row) -> Row:
        return tuple([row[slot] for slot in self._slots])

    def _keys(self, batch: Batch) -> list[Row]:
        return [change.row if batch.keyed else self._key(change.row) for change in batch.changes]

    def _net_by_key(self, batch: Batch, on_conflict: OnConflict, by_key: Mapping[Row, Row]) -> Bag:
        """Deletions first, then insertions in order, each against the rows as they would be by then.

        ``by_key`` has those of the present rows that have a key of the batch.
        """
        changes = consolidate((change.row, change.weight) for change in batch.changes)
        gone: dict[Row, Row] = {}
        for row, weight in changes.items():
            if weight < 0:
                key = row if batch.keyed else self._key(row)
                present = by_key.get(key)
                if present is None or weight < -1 or not (batch.keyed or present == row):
                    self._absent(row)
                gone[key] = present
        new: dict[Row, Row] = {}
        coming = [change.row for change in batch.changes if change.weight > 0]
        # Of equal rows the last one counts where rows replace one another, else the first.
        ordered = (
            reversed(dict.fromkeys(reversed(coming))) if on_conflict == "update" else dict.fromkeys(coming)
        )
        for row in ordered:
            weight = changes.get(row, 0)
            if weight <= 0:
                continue
            key = self._key(row)
            taken = key in new or (key in by_key and key not in gone)
            if (taken or weight > 1) and on_conflict == "error":
                self._duplicate(key)
            if taken and on_conflict == "nothing":
                continue
            if key not in new and key in by_key:
                gone[key] = by_key[key]
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
