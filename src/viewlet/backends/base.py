"""What a database asks of an engine, whichever backend it is.

Rows here are tuples of physical values (``core/types.py``), all columns of the table in order. A *bag* maps
each row to its multiplicity. Engines trust their input: validation happens before, so that a batch either
applies whole or was refused whole.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias, overload, runtime_checkable

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from viewlet.backends.distinct import distinct_rows
from viewlet.core.types import Value
from viewlet.plan.nodes import Query
from viewlet.sql.catalog import Catalog
from viewlet.triggers.program import Program
from viewlet.triggers.work import Ordered

Row: TypeAlias = tuple[Value, ...]
Bag: TypeAlias = dict[Row, int]
Granularity: TypeAlias = Literal["auto", "tuple", "batch"]
Strategy: TypeAlias = Literal["auto", "higher_order", "view_caches", "first_order", "reevaluate"]

WEIGHTS = "weight"
"""What the column of weights is called where changes are written down."""


@dataclass(frozen=True, slots=True)
class Change:
    """A row that appears (positive weight) or disappears (negative weight), that many times."""

    row: Row
    weight: int


class ArrowChanges(Sequence[Change]):
    """Changes of one table as an Arrow record batch: all columns in order, each of its declared type.

    ``weights`` has a number per row, or is ``None`` where every row is inserted once. The rows as tuples of
    physical values are made by ``read``, once, if anybody asks for them.
    """

    __hash__ = None  # type: ignore[assignment]

    def __init__(
        self,
        batch: pa.RecordBatch,
        weights: NDArray[np.int64] | None,
        read: Callable[[pa.RecordBatch], Iterable[Row]],
        capsules: tuple[object, object] | None = None,
    ) -> None:
        self.batch = batch
        self.weights = weights
        self._read = read
        self._rows: list[Change] | None = None
        self._message: pa.Buffer | None = None
        self._capsules = capsules

    @overload
    def __getitem__(self, index: int) -> Change: ...
    @overload
    def __getitem__(self, index: slice) -> list[Change]: ...
    def __getitem__(self, index: int | slice) -> Change | list[Change]:
        return self.rows()[index]

    def __len__(self) -> int:
        return int(self.batch.num_rows)

    def __iter__(self) -> Iterator[Change]:
        return iter(self.rows())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and self.rows() == list(other)

    def __repr__(self) -> str:
        return f"<ArrowChanges: {len(self)} rows>"

    def rows(self) -> list[Change]:
        """The changes row by row."""
        if self._rows is None:
            weights = [1] * len(self) if self.weights is None else self.weights.tolist()
            self._rows = list(map(Change, self._read(self.batch), weights))
        return self._rows

    @property
    def inserts(self) -> bool:
        """Does every row come, and none go?"""
        return self.weights is None or not len(self) or bool(self.weights.min() > 0)

    @property
    def total(self) -> int:
        """The sum of all weights."""
        return len(self) if self.weights is None else int(self.weights.sum())

    def like(self, batch: pa.RecordBatch, weights: NDArray[np.int64] | None) -> ArrowChanges:
        """Other changes of the same table."""
        return ArrowChanges(batch, weights, self._read)

    def where(self, chosen: NDArray[np.bool_]) -> ArrowChanges:
        """Some of the changes, by row."""
        weights = None if self.weights is None else self.weights[chosen]
        return ArrowChanges(self.batch.filter(pa.array(chosen)), weights, self._read)

    def net(self) -> ArrowChanges:
        """The same changes with every row once; rows that come to nothing are left out."""
        first, sums = distinct_rows(self.batch, self.weights)
        if len(first) == len(self):
            return self
        stays = sums != 0
        return ArrowChanges(self.batch.take(pa.array(first[stays])), sums[stays], self._read)

    def slice(self, start: int, rows: int) -> ArrowChanges:
        """Some of the changes, without a copy."""
        weights = None if self.weights is None else self.weights[start : start + rows]
        return ArrowChanges(self.batch.slice(start, rows), weights, self._read)

    @property
    def capsules(self) -> tuple[object, object]:
        """The rows for native code: schema and array of the Arrow C Data Interface, made once.

        A column of weights may follow those of the table.
        """
        if self._capsules is None:
            self._capsules = self.batch.__arrow_c_array__()
        return self._capsules

    @property
    def message_schema(self) -> pa.Schema:
        """The columns of :attr:`message`."""
        schema = self.batch.schema
        return schema if self.weights is None else schema.append(pa.field(WEIGHTS, pa.int64()))

    @property
    def message(self) -> pa.Buffer:
        """The changes as one Arrow IPC message, made once: weights last, unless all rows are inserted once.

        The weights are found by their place: whatever a column is called, it cannot be taken for them.
        """
        if self._message is None:
            arrays = [*self.batch.columns, *([] if self.weights is None else [pa.array(self.weights)])]
            self._message = pa.RecordBatch.from_arrays(arrays, schema=self.message_schema).serialize()
        return self._message

    def owned(self) -> ArrowChanges:
        """The same changes in memory of their own: what came in may belong to arrays that change.

        That memory is the message, which whoever writes the changes down has made already.
        """
        copied = pa.ipc.read_record_batch(self.message, self.message_schema)
        if self.weights is None:
            return ArrowChanges(copied, None, self._read)
        places = list(range(self.batch.num_columns))
        return ArrowChanges(copied.select(places), copied.column(len(places)).to_numpy(), self._read)

    def opposite(self) -> ArrowChanges:
        """The opposite changes, in the opposite order."""
        weights = np.ones(len(self), np.int64) if self.weights is None else self.weights
        backwards = self.batch.take(pa.array(np.arange(len(self) - 1, -1, -1)))
        return ArrowChanges(backwards, -weights[::-1], self._read)


def merged(parts: Sequence[ArrowChanges]) -> ArrowChanges:
    """Several changes of one table, of which there is at least one, as one."""
    if len(parts) == 1:
        return parts[0]
    table = pa.Table.from_batches([part.batch for part in parts]).combine_chunks()
    assert all(column.num_chunks == 1 for column in table.columns), "over 2 GB of text in one column"
    arrays = [column.chunk(0) for column in table.columns]
    batch = pa.RecordBatch.from_arrays(arrays, schema=parts[0].batch.schema)
    if all(part.weights is None for part in parts):
        return parts[0].like(batch, None)
    ones = (np.ones(len(part), np.int64) if part.weights is None else part.weights for part in parts)
    return ArrowChanges(batch, np.concatenate(list(ones)), parts[0]._read)


def opposite(changes: Sequence[Change]) -> Sequence[Change]:
    """The opposite changes, in the same form and the opposite order: no sum passes where it has not been.

    >>> opposite([Change((1,), 2), Change((3,), -1)])
    [Change(row=(3,), weight=1), Change(row=(1,), weight=-2)]
    """
    if isinstance(changes, ArrowChanges):
        return changes.opposite()
    return [Change(change.row, -change.weight) for change in reversed(changes)]


@dataclass(frozen=True, slots=True)
class MapStats:
    """Size and use of one materialized map.

    Several programs may each have a map of a name: ``program`` is the place of the map's own among them.
    """

    name: str
    records: int
    bytes: int
    program: int | None = None


class Engine(Protocol):
    """Keeps the results of queries fresh.

    The law: after any sequence of ``apply``, ``output(view)`` equals the view's query evaluated from scratch
    over the tables as they are now.
    """

    def create(
        self, name: str, query: Query, catalog: Catalog, contents: Mapping[str, Bag], strategy: Strategy
    ) -> None:
        """Start maintaining a query; ``contents`` holds the present rows of every table it reads."""

    def drop(self, name: str) -> None:
        """Stop maintaining a query."""

    def apply(
        self, table: str, changes: Sequence[Change], granularity: Granularity, watched: frozenset[str]
    ) -> dict[str, Bag]:
        """Apply changes of one table; for each *watched* view return its own change as a bag of weights.

        Raises and leaves no trace if a value leaves its range (:class:`~viewlet.errors.ValueRangeError`).
        """

    def check(self, names: Collection[str]) -> None:
        """Refuse if the rows of some views cannot be published, as far as applied changes have touched them.

        Called at the end of a commit: a sum that leaves its type half way and comes back is no error.
        """

    def output(self, name: str) -> Bag:
        """The present rows of a view, unordered."""

    def explain(self, name: str) -> str:
        """The maintenance program of a view, in words."""

    def stats(self) -> list[MapStats]:
        """Every map with its size."""


@runtime_checkable
class ColumnEngine(Protocol):
    """An engine whose native code takes rows, and gives those of its views, in columns."""

    @property
    def native(self) -> bool:
        """Is it native code that runs, so that rows had better come as Arrow?"""
        ...

    def output_arrow(self, name: str) -> tuple[list[pa.Array], NDArray[np.int64]] | None:
        """The columns of a view's rows with their weights, rows in any order, some of them to be added up.

        Nothing for a view that is cut (ORDER BY, LIMIT): that is done with its output.
        """

    def count(self, name: str) -> int:
        """The number of rows of a view."""
        ...


@runtime_checkable
class TellingEngine(Protocol):
    """An engine that can note what changes in its views."""

    def tells(self, name: str) -> bool:
        """Can it tell what changes in a view? If not, all rows before are compared with all rows now."""
        ...

    def follow(self, names: Iterable[str]) -> None:
        """Note from now on what changes in some views that can tell, and in no others."""

    def touched(self, name: str) -> int:
        """About how many rows have changed in a followed view."""
        ...

    def changes(self, name: str) -> Bag:
        """What has changed in a view since it is followed."""
        ...

    def changes_arrow(self, name: str) -> tuple[list[pa.Array], NDArray[np.int64]]:
        """What has changed in a followed view, as columns with weights; some rows may cancel out."""
        ...


@runtime_checkable
class ProgramEngine(Protocol):
    """An engine that runs a trigger program, which can be looked at."""

    @property
    def program(self) -> Program:
        """The program of all its views."""
        ...

    @property
    def searches(self) -> Ordered:
        """The ordered access paths that it has."""
        ...
