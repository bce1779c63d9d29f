"""Batches of a table become grouped, ordered, checked events."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from viewlet.signals.chunks import Chunk, Column, Even, Events, Ints, PerKey
from viewlet.signals.clock import describe_time, read_times
from viewlet.signals.errors import OrderError, OverlapError, SignalTypeError
from viewlet.signals.kernels import kernels
from viewlet.signals.keys import KeyIndex, KeySpaces
from viewlet.signals.nodes import Source
from viewlet.signals.operators.base import Operator, reserved
from viewlet.signals.specs import NEVER
from viewlet.signals.values import to_values


class Ingress(Operator[Events]):
    """The source of one table: ``prepare`` checks a batch and changes nothing, ``feed`` accepts it."""

    carried = ("bound", "advanced")

    def __init__(self, node: Source, spaces: KeySpaces, clock: str, overlap: bool) -> None:
        self.node, self.spaces, self.clock, self.overlap = node, spaces, clock, overlap
        self.bound = PerKey(bound=((), np.int64, NEVER))
        self.advanced = NEVER
        self.key_types: list[pa.DataType] = []
        self.time_type: pa.DataType = pa.int64()
        self.index: KeyIndex | None = None

    def require_columns(self, schema: pa.Schema) -> None:
        """Refuse a table without one of the columns."""
        node = self.node
        names = (*node.key, node.time, *(() if node.end is None else (node.end,)), *node.value)
        for name in names:
            if name not in schema.names:
                raise SignalTypeError(
                    f"source {node.name!r} has no column {name!r}; there are {', '.join(schema.names)}"
                )

    def bind(self, schema: pa.Schema) -> None:
        """Learn the column types."""
        self.require_columns(schema)
        self.time_type = schema.field(self.node.time).type
        self.key_types = [schema.field(name).type for name in self.node.key]
        self.index = self.spaces.index(self.key_types or [pa.int64()])

    def prepare(self, table: pa.Table) -> Events:
        """A batch as events, grouped by key; raises where it does not fit, and changes nothing."""
        node = self.node
        table = self._without_null_values(table)
        start = read_times(_column(table, node.time), node.time, self.clock, node.unit)
        end = self._ends(table, start)
        columns = self._columns(table)
        events = self._grouped(table, start, end, columns)
        reserved(self.bound, events.keys)
        self._check(events)
        return events

    def feed(self, chunk: Events, side: int) -> Iterable[Chunk]:
        """Accept a prepared batch."""
        limit = chunk.lasts()
        if self.overlap:
            limit = limit + 1 if chunk.end is None else chunk.end[chunk.ptr[1:] - 1]
        self.bound["bound"][chunk.keys] = limit
        return (chunk,) if len(chunk) else ()

    def advance(self, time: int) -> Iterable[Chunk]:
        """Events before ``time`` are refused from now on."""
        self.advanced = max(self.advanced, time)
        return ()

    def _without_null_values(self, table: pa.Table) -> pa.Table:
        """A NULL sample is a missing sample: its row is not an event."""
        for name in self.node.value:
            if table.column(name).null_count:
                table = table.filter(pc.is_valid(table.column(name)))
        return table

    def _ends(self, table: pa.Table, start: Ints) -> Ints | None:
        node = self.node
        if node.end is None:
            return None if node.duration == 1 else start + node.duration
        end = read_times(_column(table, node.end), node.end, self.clock, node.unit)
        if (end <= start).any():
            row = int(np.flatnonzero(end <= start)[0])
            raise SignalTypeError(
                f"row {row} of source {node.name!r} ends at {describe_time(end[row], self.clock)}, not after "
                f"its start {describe_time(start[row], self.clock)}; lifetimes are [start, end)"
            )
        return end

    def _columns(self, table: pa.Table) -> dict[str, Column]:
        node = self.node
        if node.value:
            decode = to_values if node.payload is None else node.payload.decode
            return {name: decode(_column(table, name)) for name in node.value}
        skipped = {node.time, node.end}
        return {name: _column(table, name) for name in table.column_names if name not in skipped}

    def _grouped(self, table: pa.Table, start: Ints, end: Ints | None, columns: dict[str, Column]) -> Events:
        if self.index is None:
            raise SignalTypeError(f"source {self.node.name!r} was never bound to a schema")
        if not self.node.key:
            self.index.encode([pa.array([0])])
            whole = np.array([0, len(start)][: 1 + (len(start) > 0)])
            return Events(np.zeros(len(whole) - 1, np.int64), whole, start, end, columns)
        keys = [_column(table, name) for name in self.node.key]
        turns = self.index.turns(keys) if end is None and _are_words(columns.values()) else None
        if turns is not None:
            return _events_of_turns(turns, start, columns)
        return self._sorted(self.index.encode(keys), start, end, columns)

    def _sorted(self, ids: Ints, start: Ints, end: Ints | None, columns: dict[str, Column]) -> Events:
        if self.index is None:
            raise SignalTypeError(f"source {self.node.name!r} was never bound to a schema")
        if end is None and len(columns) == 1 and _are_words(columns.values()):
            ((name, column),) = columns.items()
            keys, ptr, start, column = kernels().group_points(ids, self.index.scratch(), start, column)
            return Events(keys, ptr, start, None, {name: column})
        keys, ptr, pos = kernels().group(ids, self.index.scratch())
        if pos is None:
            return Events(keys, ptr, start, end, columns)
        start = kernels().scatter(start, pos)
        end = None if end is None else kernels().scatter(end, pos)
        order: Ints | None = None
        moved: dict[str, Column] = {}
        for name, column in columns.items():
            if isinstance(column, np.ndarray) and column.dtype != object:
                moved[name] = kernels().scatter(column, pos)
                continue
            if order is None:
                order = np.empty_like(pos)
                order[pos] = np.arange(len(pos))
            moved[name] = column[order] if isinstance(column, np.ndarray) else column.take(pa.array(order))
        return Events(keys, ptr, start, end, moved)

    def _check(self, events: Events) -> None:
        bound = self.bound["bound"]
        if self.advanced != NEVER and len(events) and events.start.min() < self.advanced:
            row = int(np.argmin(events.start))
            limit = describe_time(self.advanced, self.clock)
            raise OrderError(f"{self._where(events, row)}, but time was advanced to {limit}")
        if isinstance(events.times, Even):
            early = np.flatnonzero(events.times.first < bound[events.keys])
            row = int(events.ptr[early[0]]) if len(early) else -1
        else:
            row, events.stride = kernels().disorder(events, bound, self.overlap)
        if row < 0:
            return
        group = int(np.searchsorted(events.ptr, row, side="right")) - 1
        first = row == events.ptr[group]
        before = bound[events.keys[group]] if first else None
        if not first:
            before = events.ends()[row - 1] if self.overlap else events.start[row - 1]
        earlier = events.start[row - 1] if not first else NEVER
        text = describe_time(before, self.clock)
        if self.overlap and (first or events.start[row] >= earlier):
            raise OverlapError(
                f"{self._where(events, row)}, but the previous event of that key lasts until {text}: a "
                f"signal has one event at a time; choose duplicates='first' or 'last', or aggregate first"
            )
        raise OrderError(
            f"{self._where(events, row)}, before {text} of the previous event of that key; sort the input, "
            f"or allow lateness"
        )

    def _where(self, events: Events, row: int) -> str:
        key = int(events.keys[np.searchsorted(events.ptr, row, side="right") - 1])
        label = self.index.describe(key) if self.index is not None and self.node.key else None
        named = "the event" if label is None else f"key {label}: the event"
        return f"source {self.node.name!r}, {named} at {describe_time(events.start[row], self.clock)}"


def _are_words(columns: Iterable[Column]) -> bool:
    """Are all columns real samples, of eight bytes each?"""
    return all(isinstance(c, np.ndarray) and c.dtype == np.float64 and c.ndim == 1 for c in columns)


def _events_of_turns(keys: Ints, start: Ints, columns: dict[str, Column]) -> Events:
    """Points of keys that take turns: nothing need be counted, a transposition brings them together."""
    rounds, rest = divmod(len(start), len(keys))
    order = np.arange(len(keys) + 1)
    ptr = order * rounds + np.minimum(order, rest)
    if len(keys) == 1:
        return Events(keys, ptr, start, None, columns)
    moved: dict[str, Column] = {name: kernels().turn(column, len(keys)) for name, column in columns.items()}
    stride = kernels().beat(start, len(keys))
    if stride > 0:
        return Events(keys, ptr, Even(start[: len(keys)], stride), None, moved, stride)
    return Events(keys, ptr, kernels().turn(start, len(keys)), None, moved)


def _column(table: pa.Table, name: str) -> pa.Array:
    column = table.column(name)
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
