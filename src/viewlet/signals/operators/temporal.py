"""Operators over several events at once: union, temporal join, snapshot aggregates, the signal check."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from viewlet.signals.chunks import (
    Chunk,
    Column,
    Events,
    Ints,
    PerKey,
    Values,
    concat_events,
    events_of_rows,
    take,
)
from viewlet.signals.errors import OverlapError, SignalTypeError
from viewlet.signals.nodes import Aggregate, AsSignal, Join, SignalJoin, Union
from viewlet.signals.operators.base import Operator, reserved
from viewlet.signals.operators.lifetimes import FOREVER
from viewlet.signals.specs import NEVER
from viewlet.signals.values import to_values


class TwoSided(Operator[Events]):
    """Two inputs whose output must leave in time order.

    A row leaves once neither side can still produce an earlier one for its key: when its start is not after
    the bound of either side, which is the key's last start there, or the time advanced to.
    """

    carried: ClassVar[tuple[str, ...]] = ("bound", "advanced", "pending")

    def __init__(self) -> None:
        self.bound = PerKey(left=((), np.int64, NEVER), right=((), np.int64, NEVER))
        self.advanced = NEVER
        self.pending: Events | None = None

    def raise_bound(self, chunk: Events, side: int) -> None:
        """Learn that this side's next event of each key starts no earlier than its last."""
        reserved(self.bound, chunk.keys)[("left", "right")[side]][chunk.keys] = chunk.start[chunk.ptr[1:] - 1]

    def bounds(self, keys: Ints, side: int) -> Ints:
        """No event of these keys will start before this on one side."""
        known: Ints = reserved(self.bound, keys)[("left", "right")[side]][keys]
        return np.maximum(known, self.advanced)

    def release(self, produced: list[Events]) -> Iterable[Chunk]:
        """Add rows to those that wait, and let go of those that are final."""
        parts = [part for part in (self.pending, *produced) if part is not None and len(part)]
        self.pending = None
        if not parts:
            return
        rows = concat_events(parts)
        keys = rows.row_keys()
        final = rows.start <= np.minimum(self.bounds(keys, 0), self.bounds(keys, 1))
        waiting = np.flatnonzero(~final)
        self.pending = rows.take(waiting) if len(waiting) else None
        if len(waiting) < len(rows):
            yield rows.take(np.flatnonzero(final))

    def advance(self, time: int) -> Iterable[Chunk]:
        """Release what no event from ``time`` on can precede."""
        self.advanced = max(self.advanced, time)
        return self.release([])

    def flush(self) -> Iterable[Chunk]:
        """Release everything."""
        self.advanced = FOREVER
        return self.release([])


class Merge(TwoSided):
    """Union."""

    def __init__(self, node: Union) -> None:
        super().__init__()
        self.names: list[str] | None = None

    def feed(self, chunk: Events, side: int) -> Iterable[Chunk]:
        """Wait for the other side to catch up."""
        self.names = self.names or list(chunk.columns)
        if set(chunk.columns) != set(self.names):
            raise SignalTypeError(
                f"union of columns {self.names} and {list(chunk.columns)}; select the same ones"
            )
        self.raise_bound(chunk, side)
        columns = {name: chunk.columns[name] for name in self.names}
        return self.release([Events(chunk.keys, chunk.ptr, chunk.start, chunk.end, columns)])


class TemporalJoin(TwoSided):
    """Pairs of events of one key while both are active; lifetimes intersect."""

    carried = ("bound", "advanced", "pending", "held")

    def __init__(self, node: Join | SignalJoin) -> None:
        super().__init__()
        self.node = node
        self.held: list[Events | None] = [None, None]

    def feed(self, chunk: Events, side: int) -> Iterable[Chunk]:
        """Match a chunk with what the other side still holds."""
        self.raise_bound(chunk, side)
        other = self.held[1 - side]
        produced = []
        if other is not None:
            sides = (chunk, other) if side == 0 else (other, chunk)
            produced = [self._paired(*sides, *overlapping_pairs(*sides))]
        parts = [part for part in (self.held[side], chunk) if part is not None]
        self.held[side] = concat_events(parts)
        self._evict()
        return self.release(produced)

    def advance(self, time: int) -> Iterable[Chunk]:
        """Forget events that nothing can match any more."""
        self.advanced = max(self.advanced, time)
        self._evict()
        return self.release([])

    def _evict(self) -> None:
        for side in (0, 1):
            events = self.held[side]
            if events is not None:
                alive = np.flatnonzero(events.ends() > self.bounds(events.row_keys(), 1 - side))
                self.held[side] = events.take(alive) if len(alive) else None

    def _paired(self, left: Events, right: Events, i: Ints, j: Ints) -> Events:
        columns = self._columns(
            {name: take(column, i) for name, column in left.columns.items()},
            {name: take(column, j) for name, column in right.columns.items()},
        )
        start = np.maximum(left.start[i], right.start[j])
        end = np.minimum(left.ends()[i], right.ends()[j])
        points = left.end is None or right.end is None
        rows = events_of_rows(left.row_keys()[i], start, None if points else end, columns)
        if isinstance(self.node, Join) and self.node.on:
            return rows.take(np.flatnonzero(self._equal(rows.columns)))
        return rows

    def _columns(self, left: dict[str, Column], right: dict[str, Column]) -> dict[str, Column]:
        if isinstance(self.node, SignalJoin):
            if self.node.op is not None:
                x, y = stack(left, self.node.left_names), stack(right, self.node.right_names)
                return unstack(self.node.op(x, y), self.node.left_names)
            renamed = {f"l.{name}": column for name, column in left.items()}
            return renamed | {f"r.{name}": column for name, column in right.items()}
        return left | {name if name not in left else f"{name}_right": c for name, c in right.items()}

    def _equal(self, columns: dict[str, Column]) -> Values:
        mask: Any = True
        on = self.node.on if isinstance(self.node, Join) else ()
        for left, right in on:
            right = right if right != left and right in columns else f"{right}_right"
            equal = pc.equal(_arrow(columns[left]), _arrow(columns[right]))
            mask = mask & equal.fill_null(False).to_numpy(zero_copy_only=False)
        result: Values = np.asarray(mask)
        return result


def _arrow(column: Column) -> pa.Array:
    return pa.array(column) if isinstance(column, np.ndarray) else column


def overlapping_pairs(left: Events, right: Events) -> tuple[Ints, Ints]:
    """Positions (i, j) of events of equal key whose lifetimes overlap.

    Either r starts inside l, or l starts strictly inside r: two disjoint cases, each a range of starts.
    """
    i, j = _starting_inside(left.start, left.ends(), left.row_keys(), right)
    j2, i2 = _starting_inside(right.start + 1, right.ends(), right.row_keys(), left)
    return np.concatenate((i, i2)), np.concatenate((j, j2))


def _starting_inside(low: Ints, high: Ints, keys: Ints, events: Events) -> tuple[Ints, Ints]:
    """Pairs (row, event) such that the event has the row's key and starts in [low, high)."""
    order = np.argsort(events.keys)
    known = events.keys[order]
    at = np.minimum(np.searchsorted(known, keys), len(known) - 1)
    group = np.where(known[at] == keys, order[at], -1)
    rows = np.flatnonzero(group >= 0)
    first = _position(events, group[rows], low[rows])
    count = np.maximum(_position(events, group[rows], high[rows]) - first, 0)
    offsets = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
    return np.repeat(rows, count), np.repeat(first, count) + offsets


def _position(events: Events, group: Ints, time: Ints) -> Ints:
    """The first row of each group that starts at or after the time."""
    if len(group) == 0:
        return group
    base = int(min(events.start.min(), time.min()))
    span = int(max(events.start.max(), time.max())) - base + 1
    if span * (len(events.keys) + 1) < 2**62:
        ranked = np.repeat(np.arange(len(events.keys)), np.diff(events.ptr)) * span + (events.start - base)
        result: Ints = np.searchsorted(ranked, group * span + (time - base))
        return result
    return np.array(
        [
            events.ptr[g] + np.searchsorted(events.start[events.ptr[g] : events.ptr[g + 1]], t)
            for g, t in zip(group, time, strict=True)
        ]
    )


def stack(columns: dict[str, Column], names: tuple[str, ...]) -> Values:
    """The value of a signal: one column, or channels side by side."""
    arrays = [c if isinstance(c, np.ndarray) else to_values(c, n) for n in names for c in (columns[n],)]
    return arrays[0] if len(arrays) == 1 else np.stack(arrays, axis=1)


def unstack(values: Values, names: tuple[str, ...]) -> dict[str, Column]:
    """Columns from the value of a signal."""
    if len(names) == 1:
        return {names[0]: values}
    if values.ndim != 2 or values.shape[1] != len(names):
        raise SignalTypeError(f"a function of channels {names} gave shape {values.shape}; it must keep them")
    return {name: np.ascontiguousarray(values[:, i]) for i, name in enumerate(names)}


class Snapshots(Operator[Events]):
    """Aggregates over the events active at each moment."""

    carried = ("held", "done")

    def __init__(self, node: Aggregate) -> None:
        self.node = node
        self.held: Events | None = None
        self.done = PerKey(done=((), np.int64, NEVER))

    def feed(self, chunk: Events, side: int) -> Iterable[Chunk]:
        """Everything before the last start of a key is final."""
        events = chunk if self.held is None else concat_events([self.held, chunk])
        limits = np.full(int(events.keys.max()) + 1, NEVER)
        limits[chunk.keys] = chunk.start[chunk.ptr[1:] - 1]
        return self._emit(events, limits[events.keys])

    def advance(self, time: int) -> Iterable[Chunk]:
        """Intervals that end by ``time`` are final; the one around it is not cut."""
        if self.held is None:
            return ()
        events = self.held
        points = np.where(events.start <= time, events.start, NEVER)
        points = np.maximum(points, np.where(events.ends() <= time, events.ends(), NEVER))
        return self._emit(events, np.maximum.reduceat(points, events.ptr[:-1]))

    def flush(self) -> Iterable[Chunk]:
        """Everything is final."""
        if self.held is None:
            return ()
        return self._emit(self.held, np.full(len(self.held.keys), FOREVER))

    def horizon(self, time: int) -> int:
        """The interval around ``time`` may have begun at any earlier start."""
        return time if self.held is None else min(time, int(self.held.start.min()))

    def _emit(self, events: Events, limit: Ints) -> Iterable[Chunk]:
        """Snapshots of each key between what was emitted and its limit."""
        reserved(self.done, events.keys)
        done = self.done["done"]
        size = np.diff(events.ptr)
        upper = np.repeat(limit, size)
        alive = np.flatnonzero(events.ends() > upper)
        start = np.maximum(events.start, np.repeat(done[events.keys], size))
        end = np.minimum(events.ends(), upper)
        done[events.keys] = np.maximum(done[events.keys], limit)
        self.held = events.take(alive) if len(alive) else None
        rows = np.flatnonzero(start < end)
        if len(rows) == 0:
            return ()
        return (self._snapshots(events.take(rows), start[rows], end[rows]),)

    def _snapshots(self, events: Events, start: Ints, end: Ints) -> Events:
        n, keys = len(events), events.row_keys()
        both = np.concatenate((keys, keys)), np.concatenate((start, end))
        order = np.lexsort((both[1], both[0]))
        sorted_keys, times = both[0][order], both[1][order]
        distinct = np.concatenate(([True], (np.diff(sorted_keys) != 0) | (np.diff(times) != 0)))
        rank = np.empty(2 * n, np.int64)
        rank[order] = np.cumsum(distinct) - 1
        point_keys, point_times = sorted_keys[distinct], times[distinct]
        count = rank[n:] - rank[:n]  # the intervals that each event covers
        offsets = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
        interval = np.repeat(rank[:n], count) + offsets
        by_interval = np.argsort(interval, kind="stable")
        member = np.repeat(np.arange(n), count)[by_interval]
        live, begin = np.unique(interval[by_interval], return_index=True)
        columns = {
            name: _aggregate(function, column, events, member, begin)
            for name, function, column in self.node.aggregates
        }
        return events_of_rows(point_keys[live], point_times[live], point_times[live + 1], columns)


def _aggregate(function: Any, column: str, events: Events, member: Ints, begin: Ints) -> Column:
    """One aggregate per interval: NULLs do not count, and of nothing but NULLs the result is NULL."""
    if function == "count" and column == "*":
        return np.diff(np.append(begin, len(member)))
    data = events.columns[column]
    valid = None
    if not isinstance(data, np.ndarray):
        if data.null_count:
            valid = data.is_valid().to_numpy(zero_copy_only=False)[member]
        data = data if function == "count" else to_values(data, column)
    present = None if valid is None else np.add.reduceat(valid.astype(np.int64), begin)
    if function == "count":
        return np.diff(np.append(begin, len(member))) if present is None else present
    values = np.asarray(data)[member]
    if callable(function):
        bounds = np.append(begin, len(member))
        kept = [
            values[low:high] if valid is None else values[low:high][valid[low:high]]
            for low, high in itertools.pairwise(bounds)
        ]
        return np.array([function(part) for part in kept])
    result = AGGREGATES[function](values, valid, begin)
    if present is None:
        return result
    return pa.array(result, mask=present == 0)


def _reduce(ufunc: np.ufunc, neutral: float, prepare: Callable[[Values], Values]) -> Callable[..., Values]:
    def aggregate(values: Values, valid: Values | None, begin: Ints) -> Values:
        prepared = prepare(values)
        if valid is not None:
            prepared = np.where(valid, prepared, neutral)
        result: Values = ufunc.reduceat(prepared, begin)
        return result

    return aggregate


def _mean_of(numerator: Callable[..., Values]) -> Callable[..., Values]:
    def aggregate(values: Values, valid: Values | None, begin: Ints) -> Values:
        counts = np.diff(np.append(begin, len(values)))
        if valid is not None:
            counts = np.maximum(np.add.reduceat(valid.astype(np.int64), begin), 1)
        result: Values = numerator(values, valid, begin) / counts
        return result

    return aggregate


_SUM = _reduce(np.add, 0.0, lambda values: values)
_ENERGY = _reduce(np.add, 0.0, lambda values: (values * np.conj(values)).real)
AGGREGATES: dict[str, Callable[..., Values]] = {
    "sum": _SUM,
    "avg": _mean_of(_SUM),
    "min": _reduce(np.minimum, np.inf, lambda values: values),
    "max": _reduce(np.maximum, -np.inf, lambda values: values),
    "energy": _ENERGY,
    "power": _mean_of(_ENERGY),
}


class SignalCheck(Operator[Events]):
    """Refuse overlapping events, and keep the value columns as samples."""

    carried = ("until",)

    def __init__(self, node: AsSignal, describe: Callable[[int], str]) -> None:
        self.node, self.describe = node, describe
        self.until = PerKey(until=((), np.int64, NEVER))

    def feed(self, chunk: Events, side: int) -> Iterable[Chunk]:
        """Compare each start with the end of the previous event of its key."""
        until = reserved(self.until, chunk.keys)["until"]
        previous = np.concatenate(([0], chunk.ends()[:-1]))
        previous[chunk.ptr[:-1]] = until[chunk.keys]
        early = np.flatnonzero(chunk.start < previous)
        if len(early):
            row = int(early[0])
            key = int(chunk.keys[np.searchsorted(chunk.ptr, row, side="right") - 1])
            raise OverlapError(
                f"key {self.describe(key)}: the event at {chunk.start[row]} overlaps one that lasts until "
                f"{previous[row]}; a signal has one event at a time: aggregate the stream, or until_next()"
            )
        until[chunk.keys] = chunk.ends()[chunk.ptr[1:] - 1]
        rows = self._without_nulls(chunk)
        columns = {n: stack(rows.columns, (n,)) for n in self.node.value} if self.node.value else rows.columns
        return (Events(rows.keys, rows.ptr, rows.start, rows.end, columns),)

    def _without_nulls(self, chunk: Events) -> Events:
        for name in self.node.value:
            if name not in chunk.columns:
                raise SignalTypeError(
                    f"no column {name!r} for a signal; there are {', '.join(chunk.columns)}"
                )
            column = chunk.columns[name]
            if not isinstance(column, np.ndarray) and column.null_count:
                chunk = chunk.take(np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False)))
        return chunk
