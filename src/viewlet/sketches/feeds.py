"""The rows of a table, all or the changed ones, as a stream takes them: some columns, fragments, weights."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property, lru_cache
from typing import Any, TypeAlias, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from sqlglot import exp

from viewlet.core.node import transform
from viewlet.core.scalar import Scalar, Var
from viewlet.core.types import BIGINT, Column, Kind
from viewlet.plan.conditions import reads
from viewlet.plan.nodes import Filter, Plan, Scan
from viewlet.plan.scope import walk
from viewlet.sketches.backends.base import Backend
from viewlet.sketches.backends.database import Streams
from viewlet.sketches.lineage import fragment_column
from viewlet.sketches.partition import NULL_FRAGMENT, Partition
from viewlet.sketches.plan_to_sql import scalar_to_sql
from viewlet.sketches.scans import WEIGHT
from viewlet.sketches.state import Keep
from viewlet.sql.catalog import Table
from viewlet.values import read_column

MOST_LISTED = 1 << 16
"""Fragments are listed for up to so many values, which fit into a cache."""

Numbers: TypeAlias = NDArray[Any]

NUMBERS = frozenset({Kind.TINYINT, Kind.SMALLINT, Kind.INT, Kind.BIGINT, Kind.FLOAT, Kind.DOUBLE})


class Feeds:
    """What streams of our own are fed with: the tables that a plan reads."""

    def __init__(
        self,
        plan: Plan,
        partitions: Sequence[Partition],
        schema: Sequence[Table],
        backend: Backend,
        keep: Keep,
        optimize: bool,
    ) -> None:
        self._dialect, self._keep = backend.dialect, keep
        self._feeds = [Feed(table, plan, partitions, backend, optimize) for table in schema]

    def streams(self) -> Streams:
        """New streams, without rows."""
        return Streams(self._keep, [feed.definition() for feed in self._feeds])

    def resumed(self, image: bytes) -> Streams:
        """The streams of an image, with the views there are of them."""
        streams = Streams(self._keep, ())
        streams.resume(image)
        return streams

    def fill(self, streams: Streams) -> None:
        """All rows as one batch."""
        streams.feed({feed.table.name: feed.all_rows() for feed in self._feeds})

    def follow(self, streams: Streams, changed: frozenset[str]) -> None:
        """The staged rows of these tables as one batch."""
        streams.feed(
            {feed.table.name: feed.staged_rows() for feed in self._feeds if feed.table.name in changed}
        )

    def explain(self, streams: Streams) -> Iterator[str]:
        """The maps, their size, and which rows never leave the database."""
        maps = streams.maps()
        kind = "native" if self._keep != "reference" else "reference"
        records, size = sum(stats.records for stats in maps), sum(stats.bytes for stats in maps)
        yield f"kept as views by {kind} triggers: {records} records in {len(maps)} maps, {size} bytes"
        for feed in self._feeds:
            if feed.selection is not None:
                shown = feed.selection.sql(self._dialect)
                yield f"pushed into the fetch of changes of {feed.table.name}: {shown}"


class Feed:
    """The rows of one table as a stream needs them: some columns, fragments, weights."""

    def __init__(
        self,
        table: Table,
        plan: Plan,
        partitions: Sequence[Partition],
        backend: Backend,
        selecting: bool,
    ) -> None:
        scans = [node for node in walk(plan) if isinstance(node, Scan) and node.table == table.name]
        used = {column for scan in scans for column, _ in scan.binds}
        self.table, self._backend = table, backend
        self._partitions = [p for p in partitions if p.table == table.name]
        # A stream has some column even if the query only counts its rows.
        self._columns = [c for c in table.columns if c.name in used] or (
            [] if self._partitions else [table.columns[0]]
        )
        read = used | {p.column for p in self._partitions}
        self._read = [c for c in table.columns if c.name in read] or self._columns
        self.selection = _selection(plan, scans) if selecting else None

    def definition(self) -> Table:
        """The stream."""
        fragments = [
            Column(fragment_column(p), Streams.fragment_type, nullable=False) for p in self._partitions
        ]
        return Table(self.table.name, (*self._columns, *fragments))

    def all_rows(self) -> pa.Table:
        """The present rows, equal ones once with their number."""
        return self._fed(self._backend.arrow(self._all, [*(column.type for column in self._read), BIGINT]))

    def staged_rows(self) -> pa.Table:
        """The staged changes: as they are at hand, and the triggers select; or by a query that selects."""
        at_hand = self._backend.staged_columns(self.table, self._read, self.selection)
        return self._fed(self._backend.run(self._staged) if at_hand is None else at_hand)

    @cached_property
    def _all(self) -> str:
        """The query for all rows."""
        columns = [exp.column(column.name, quoted=True) for column in self._read]
        counted = exp.alias_(exp.Count(this=exp.Star()), WEIGHT)
        rows = exp.select(*columns, counted).from_(self._backend.table(self.table.name))
        selected = rows if self.selection is None else rows.where(self.selection.copy())
        return self._backend.sql(selected.group_by(*(column.copy() for column in columns)))

    @cached_property
    def _staged(self) -> str:
        """The query for the staged rows."""
        columns = [exp.column(column.name, quoted=True) for column in self._read]
        rows = exp.select(*columns, exp.column(WEIGHT)).from_(self._backend.staged(self.table.name))
        return self._backend.sql(rows if self.selection is None else rows.where(self.selection.copy()))

    def _fed(self, rows: pa.Table) -> pa.Table:
        """Rows of the columns that are read and a weight, as the stream takes them."""
        by_name = {c.name: values for c, values in zip(self._read, rows.columns, strict=False)}
        arrays = {column.name: by_name[column.name] for column in self._columns}
        for partition in self._partitions:
            arrays[fragment_column(partition)] = fragments_of(partition, by_name[partition.column])
        weights = rows.columns[-1]
        arrays[WEIGHT] = weights if weights.type == pa.int64() else pc.cast(weights, pa.int64())
        return pa.table(arrays)


def fragments_of(partition: Partition, values: Any) -> Any:
    """The fragment of each value of an Arrow column.

    >>> from viewlet.core.types import INT
    >>> fragments_of(Partition("r", "a", INT, (10, 20)), pa.chunked_array([[5, 20, None]])).to_pylist()
    [0, 2, -1]
    """
    column = Column(partition.column, partition.type)
    kind = partition.type.kind
    if pa.types.is_null(values.type):  # a database that sends rows, not columns, has no type for no values
        return pa.array([NULL_FRAGMENT] * len(values), pa.int32())
    if kind in NUMBERS or kind is Kind.DATE:
        numbers = values.cast(pa.int32()) if kind is Kind.DATE else values
        filled = (pc.fill_null(numbers, 0) if numbers.null_count else numbers).to_numpy()
        found = _found(partition, filled)
        if numbers.null_count:
            found[pc.is_null(values).to_numpy(zero_copy_only=False)] = NULL_FRAGMENT
        return pa.array(found)
    encoded = values.combine_chunks().dictionary_encode()
    known = [partition.fragment_of(v) for v in read_column(encoded.dictionary, column, partition.table)]
    return pc.fill_null(pc.take(pa.array(known, pa.int32()), encoded.indices), NULL_FRAGMENT)


def _found(partition: Partition, values: Numbers) -> Numbers:
    """The number of bounds at or below each number: listed for whole numbers that lie close, else searched.

    >>> from viewlet.core.types import INT
    >>> _found(Partition("r", "a", INT, (10, 20)), np.array([-5, 10, 19, 99])).tolist()
    [0, 1, 1, 2]
    """
    found: Numbers
    listed = _listed(partition) if values.dtype.kind == "i" else None
    if listed is None:
        found = np.searchsorted(_bounds(partition, values.dtype), values, side="right")
        return found.astype(np.int32)
    below, numbers = listed
    wide: Numbers = values.astype(np.int64, copy=False)
    # Not clip, which takes twice the time of both.
    near = np.minimum(np.maximum(wide, below), below + len(numbers) - 1)
    found = numbers[near - below]
    return found


@lru_cache(maxsize=64)
def _bounds(partition: Partition, kind: np.dtype[Any]) -> Numbers:
    """The inner bounds as an array: for a small batch, making it would be half of the work."""
    return np.array(partition.bounds, kind)


@lru_cache(maxsize=64)
def _listed(partition: Partition) -> tuple[int, Numbers] | None:
    """The greatest whole number below all bounds, and the fragments from it on up to the last bound.

    ``None`` where they would be many.
    """
    if not partition.bounds:
        return None
    below, last = cast(int, partition.bounds[0]) - 1, cast(int, partition.bounds[-1])
    if last - below >= MOST_LISTED or below < np.iinfo(np.int64).min:
        return None
    above = np.array([cast(int, bound) - below for bound in partition.bounds])
    numbers = np.searchsorted(above, np.arange(last - below + 1), side="right")
    return below, numbers.astype(np.int32)


def _selection(plan: Plan, scans: Sequence[Scan]) -> exp.Expr | None:
    """The rows of a table that some access lets pass, as a condition on its columns; ``None`` for all."""
    above = {
        id(node.input): node.condition
        for node in walk(plan)
        if isinstance(node, Filter) and isinstance(node.input, Scan)
    }
    conditions: list[exp.Expr] = []
    for scan in scans:
        condition = above.get(id(scan))
        columns = {var.name: column for column, var in scan.binds}
        if condition is None or not reads(condition) <= columns.keys():
            return None
        conditions.append(scalar_to_sql(_of_columns(condition, columns)))
    return exp.or_(*conditions) if conditions else None


def _of_columns(condition: Scalar, columns: dict[str, str]) -> Scalar:
    def rename(node: Any) -> Any:
        return Var(columns[node.name], node.type, node.nullable) if isinstance(node, Var) else node

    renamed: Scalar = transform(condition, rename)
    return renamed
