"""What flows between operators: events, runs of samples, frames; and the state that operators carry.

All three are grouped: the key of a row is a dense group number, and every operator handles all groups of a
chunk at once. Within one key, chunks and their rows come in time order; across keys there is no order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from viewlet.signals.memory import follows, joined

Ints: TypeAlias = npt.NDArray[np.int64]
Values: TypeAlias = npt.NDArray[Any]  # float64, complex128 or object; a second axis holds channels
Column: TypeAlias = "pa.Array | Values"


def take(column: Column, rows: Ints) -> Column:
    """Rows of a column by position."""
    return column[rows] if isinstance(column, np.ndarray) else column.take(pa.array(rows))


def concat(columns: list[Column]) -> Column:
    """Columns one after the other."""
    if all(isinstance(column, np.ndarray) for column in columns):
        return np.concatenate(columns)
    return pa.concat_arrays(columns)


@dataclass(frozen=True, slots=True)
class Even:
    """Times at equal distances: those of group g are first[g], first[g] + stride, first[g] + 2 stride, ...

    >>> Even(np.array([5, 0]), 10).array(np.array([0, 2, 5])).tolist()
    [5, 15, 0, 10, 20]
    """

    first: Ints
    stride: int

    def array(self, ptr: Ints) -> Ints:
        """Time by time, rows ptr[g]:ptr[g+1] being those of group g."""
        counts = np.diff(ptr)
        if (counts == counts[0]).all():
            return np.asarray(np.add.outer(self.first, np.arange(counts[0]) * self.stride).ravel())
        inside = np.arange(ptr[-1]) - np.repeat(ptr[:-1], counts)
        return np.asarray(np.repeat(self.first, counts) + inside * self.stride)


@dataclass(slots=True)
class Events:
    """Events with lifetimes [start, end): rows ptr[g]:ptr[g+1] are those of key keys[g], by start.

    Each key appears once. ``end is None`` means points, whose lifetime is one time unit. ``stride`` is the
    distance of successive starts of a key where it is known to be the same throughout: 0 if no key has two
    events, -1 if it varies or nobody looked. Starts at equal distances need not exist as an array until
    somebody asks for them.
    """

    keys: Ints
    ptr: Ints
    times: Ints | Even
    end: Ints | None
    columns: dict[str, Column]
    stride: int = -1

    def __len__(self) -> int:
        return int(self.ptr[-1])

    @property
    def start(self) -> Ints:
        """The start of each event."""
        if isinstance(self.times, Even):
            self.times = self.times.array(self.ptr)
        return self.times

    def firsts(self) -> Ints:
        """The first start of each key."""
        return self.times.first if isinstance(self.times, Even) else self.times[self.ptr[:-1]]

    def lasts(self) -> Ints:
        """The last start of each key."""
        if isinstance(self.times, Even):
            return np.asarray(self.times.first + self.times.stride * (np.diff(self.ptr) - 1))
        return self.times[self.ptr[1:] - 1]

    def ends(self) -> Ints:
        """The end of each lifetime, also for points."""
        return self.start + 1 if self.end is None else self.end

    def row_keys(self) -> Ints:
        """The key of each row."""
        return np.repeat(self.keys, np.diff(self.ptr))

    def take(self, rows: Ints) -> Events:
        """Some rows, in their present order (``rows`` ascending)."""
        groups = np.searchsorted(self.ptr, rows, side="right") - 1
        keys, ptr = _group_boundaries(self.keys[groups])
        end = None if self.end is None else self.end[rows]
        return Events(keys, ptr, self.start[rows], end, {n: take(c, rows) for n, c in self.columns.items()})


@dataclass(slots=True)
class Runs:
    """Gap-free stretches of a uniform signal: run r holds ticks first[r], first[r] + 1, ... of keys[r].

    A tick k stands for the time k * period + offset, so no time column exists until rows leave the query.
    """

    keys: Ints
    first: Ints
    ptr: Ints
    values: Values

    def __len__(self) -> int:
        return len(self.values)

    def lengths(self) -> Ints:
        """The number of samples of each run."""
        return np.diff(self.ptr)

    def ticks(self) -> Ints:
        """The tick of each sample."""
        return np.repeat(self.first - self.ptr[:-1], self.lengths()) + np.arange(len(self.values))

    def row_keys(self) -> Ints:
        """The key of each sample."""
        return np.repeat(self.keys, self.lengths())

    def take(self, rows: Ints) -> Runs:
        """Some samples, ascending; runs break where samples were left out."""
        run = np.searchsorted(self.ptr, rows, side="right") - 1
        return runs_of_samples(self.keys[run], self.first[run] + rows - self.ptr[run], self.values[rows])


@dataclass(slots=True)
class Frames:
    """Windows as rows of an array: row i starts at tick first[i] and holds real samples in lo[i]..hi[i].

    ``fresh[i]`` says that the row is not one hop after the previous row of its key, so nothing can be
    updated from there; ``old`` holds, where asked for, the samples that the last hop expired.
    """

    keys: Ints
    first: Ints
    lo: Ints
    hi: Ints
    fresh: Ints
    values: Values
    old: Values | None = None

    def __len__(self) -> int:
        return len(self.keys)


Chunk: TypeAlias = "Events | Runs | Frames"


def runs_of_samples(keys: Ints, ticks: Ints, values: Values) -> Runs:
    """Runs from samples listed by key and then tick."""
    if len(keys) == 0:
        return Runs(keys, ticks, np.zeros(1, np.int64), values)
    breaks = np.flatnonzero((keys[1:] != keys[:-1]) | (ticks[1:] != ticks[:-1] + 1)) + 1
    begin = np.concatenate(([0], breaks))
    return Runs(keys[begin], ticks[begin], np.append(begin, len(keys)), values)


def events_of_rows(keys: Ints, start: Ints, end: Ints | None, columns: Mapping[str, Column]) -> Events:
    """Group rows by key and order them by start; rows that tie keep their order."""
    order = np.lexsort((start, keys))
    unique, ptr = _group_boundaries(keys[order])
    ends = None if end is None else end[order]
    return Events(unique, ptr, start[order], ends, {n: take(c, order) for n, c in columns.items()})


def concat_events(parts: list[Events]) -> Events:
    """One chunk of several: rows regrouped by key, by start inside each key."""
    if len(parts) == 1:
        return parts[0]
    points = all(part.end is None for part in parts)
    columns = {name: concat([part.columns[name] for part in parts]) for name in parts[0].columns}
    return events_of_rows(
        np.concatenate([part.row_keys() for part in parts]),
        np.concatenate([part.start for part in parts]),
        None if points else np.concatenate([part.ends() for part in parts]),
        columns,
    )


def concat_runs(parts: list[Runs]) -> Runs:
    """The runs of several chunks, in the order given."""
    if len(parts) == 1:
        return parts[0]
    shifts = np.cumsum([0] + [len(part) for part in parts])
    ptr = [part.ptr[:-1] + shift for part, shift in zip(parts, shifts, strict=False)]
    return Runs(
        np.concatenate([part.keys for part in parts]),
        np.concatenate([part.first for part in parts]),
        np.append(np.concatenate(ptr), shifts[-1]),
        joined([part.values for part in parts]),
    )


def side_by_side(parts: list[Runs]) -> list[list[Runs]]:
    """Chunks in groups whose samples can be joined without a copy; all in one where there are few such."""
    groups = [[parts[0]]]
    for before, part in pairwise(parts):
        if follows(before.values, part.values):
            groups[-1].append(part)
        else:
            groups.append([part])
    return groups if 2 * len(groups) <= len(parts) else [parts]


def concat_frames(parts: list[Frames]) -> Frames:
    """The windows of several chunks, in the order given, without their old deltas."""
    names = ("keys", "first", "lo", "hi", "fresh", "values")
    return Frames(*(joined([getattr(part, name) for part in parts]) for name in names))


def _group_boundaries(keys: Ints) -> tuple[Ints, Ints]:
    begin = np.flatnonzero(np.concatenate(([True], keys[1:] != keys[:-1]))) if len(keys) else keys
    return keys[begin], np.append(begin, len(keys))


class PerKey:
    """Arrays indexed by group number that grow together: the carried state of a kernel.

    >>> state = PerKey(last=((), np.int64, -1))
    >>> state.reserve(3)
    >>> state["last"].tolist()
    [-1, -1, -1]
    """

    def __init__(self, **fields: tuple[tuple[int, ...], Any, Any]) -> None:
        self.fields = fields
        self.zero: Any = 0  # the missing sample, where samples are Python objects
        self.size = 0
        self.addresses: dict[
            tuple[str, ...], Any
        ] = {}  # what kernels remember of the arrays, as they are now
        self.arrays = {name: np.full((0, *tail), fill, dtype) for name, (tail, dtype, fill) in fields.items()}

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        return self.arrays[name]

    def reserve(self, size: int) -> None:
        """Make room for groups 0 .. size - 1."""
        if size <= self.size:
            return
        capacity = max(size, self.size * 3 // 2) if self.size else size
        for name, (tail, dtype, fill) in self.fields.items():
            grown = np.zeros((capacity, *tail), dtype)
            if np.dtype(dtype) == np.dtype(object):
                grown[...] = self.zero
            elif fill:
                grown[...] = fill
            grown[: self.size] = self.arrays[name]
            self.arrays[name] = grown
        self.size = capacity
        self.addresses.clear()

    def load(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Replace the contents by those of a checkpoint."""
        self.arrays = dict(arrays)
        self.size = len(next(iter(arrays.values())))
        self.addresses.clear()
