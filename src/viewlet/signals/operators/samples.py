"""Operators that make and combine uniform signals."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from viewlet.signals.chunks import Chunk, Events, Ints, PerKey, Runs, concat_runs, take
from viewlet.signals.errors import SignalTypeError
from viewlet.signals.expressions import Columns
from viewlet.signals.kernels import kernels
from viewlet.signals.nodes import Combine, Downsample, MapValues, Sample, ShiftTicks, ToEvents
from viewlet.signals.operators.base import Operator, reserved
from viewlet.signals.operators.lifetimes import FOREVER
from viewlet.signals.operators.temporal import stack, unstack
from viewlet.signals.reference import sample as reference_sample
from viewlet.signals.specs import NEVER, SampleSpec

OPERATIONS: dict[str, tuple[int, Callable[[Any, Any], Any]]] = {
    "+": (0, operator.add),
    "-": (1, operator.sub),
    "*": (2, operator.mul),
}


class Sampler(Operator[Events]):
    """Events of a signal to samples on a grid."""

    carried = ("state",)

    def __init__(self, node: Sample) -> None:
        policy = node.policy
        self.node = node
        self.spec = SampleSpec(
            node.period, node.offset, policy.mode, policy.gap, policy.constant, policy.function
        )
        self.state: PerKey | None = None

    def feed(self, chunk: Events, side: int) -> Iterable[Chunk]:
        """Samples up to the last event of each key."""
        if self.node.function is not None:
            return self._materialize(chunk)
        values = stack(chunk.columns, self.node.names)
        if self.state is None:
            self.state = self.spec.state(values)
        reserved(self.state, chunk.keys)
        if chunk.end is None and self.spec.mode != "second":
            ready = kernels(values).on_grid(chunk, values, self.spec, self.state)
            if ready is not None:
                return (ready,)
        run = reference_sample if self.spec.mode == "user" else kernels(values).sample
        runs = run(chunk, values, self.spec, self.state)
        return (runs,) if len(runs) else ()

    def _materialize(self, chunk: Events) -> Iterable[Chunk]:
        """Functional payloads: sample which event is active, then compute its function at the beats."""
        rows = np.arange(len(chunk), dtype=np.float64)
        if self.state is None:
            self.state = self.spec.state(rows)
        runs = kernels().sample(chunk, rows, self.spec, reserved(self.state, chunk.keys))
        active = runs.values.astype(np.int64)
        columns = Columns({name: take(column, active) for name, column in chunk.columns.items()})
        times = runs.ticks() * self.node.period + self.node.offset
        values = np.asarray(self.node.function(times, columns)) if self.node.function else rows
        if len(values) != len(times):
            raise SignalTypeError(f"a signal function gave {len(values)} values for {len(times)} times")
        dtype = np.complex128 if np.iscomplexobj(values) else np.float64
        return (Runs(runs.keys, runs.first, runs.ptr, values.astype(dtype)),) if len(runs) else ()

    def advance(self, time: int) -> Iterable[Chunk]:
        """The last value holds until ``time``, where the policy says so."""
        return self._hold(time - 1)

    def flush(self) -> Iterable[Chunk]:
        """The last value holds to the end of its interpolation window."""
        return self._hold(FOREVER)

    def horizon(self, time: int) -> int:
        """Interpolation fills beats in the past, as far back as its window."""
        if self.spec.mode in ("exact", "last"):
            return time
        return NEVER if self.spec.gap < 0 or time == NEVER else time - self.spec.gap

    def _hold(self, time: int) -> Iterable[Chunk]:
        """Policy ``last`` after the last event: its value at beats up to ``time`` within the window."""
        if self.spec.mode != "last" or self.spec.gap < 0 or self.state is None:
            return ()
        state = self.state
        keys = np.flatnonzero(state["refs"] > 0)
        until = np.minimum(state["times"][keys, 0] + self.spec.gap, time)
        ticks = (until - self.spec.offset) // self.spec.period
        count = np.maximum(ticks - state["beat"][keys] + 1, 0)
        keys, count = keys[count > 0], count[count > 0]
        if len(keys) == 0:
            return ()
        first = state["beat"][keys].copy()
        state["beat"][keys] += count
        values = np.repeat(state["values"][keys, 0], count, axis=0)
        return (Runs(keys, first, np.concatenate(([0], np.cumsum(count))), values),)


class Apply(Operator["Events | Runs"]):
    """A function of the values, element by element."""

    def __init__(self, node: MapValues) -> None:
        self.node = node

    def feed(self, chunk: Events | Runs, side: int) -> Iterable[Chunk]:
        """Replace the values of a chunk."""
        if isinstance(chunk, Events):
            values = self._mapped(stack(chunk.columns, self.node.names))
            columns = {**chunk.columns, **unstack(values, self.node.names)}
            return (Events(chunk.keys, chunk.ptr, chunk.start, chunk.end, columns),)
        return (Runs(chunk.keys, chunk.first, chunk.ptr, self._mapped(chunk.values)),)

    def _mapped(self, values: Any) -> Any:
        mapped = np.asarray(self.node.function(values))
        if len(mapped) != len(values):
            raise SignalTypeError(
                f"map gave {len(mapped)} values for {len(values)} samples; it must keep their number"
            )
        if mapped.dtype.kind in "biuf":
            return mapped.astype(np.float64, copy=False)
        return mapped.astype(np.complex128, copy=False) if mapped.dtype.kind == "c" else mapped


class Points(Operator[Runs]):
    """Samples as point events."""

    def __init__(self, node: ToEvents) -> None:
        self.node = node

    def feed(self, chunk: Runs, side: int) -> Iterable[Chunk]:
        """Times appear; runs of one key become adjacent."""
        order = np.argsort(chunk.keys, kind="stable")
        if len(chunk.keys) > 1 and (np.diff(order) != 1).any():
            lengths = chunk.lengths()[order]
            ptr = np.concatenate(([0], np.cumsum(lengths)))
            rows = np.repeat(chunk.ptr[:-1][order] - ptr[:-1], lengths) + np.arange(ptr[-1])
            chunk = Runs(chunk.keys[order], chunk.first[order], ptr, chunk.values[rows])
        begin = np.flatnonzero(np.concatenate(([True], chunk.keys[1:] != chunk.keys[:-1])))
        times = chunk.ticks() * self.node.period + self.node.offset
        ptr = np.append(chunk.ptr[begin], len(chunk))
        return (Events(chunk.keys[begin], ptr, times, None, unstack(chunk.values, self.node.names)),)


class Shift(Operator[Runs]):
    """Move samples by whole ticks."""

    def __init__(self, node: ShiftTicks) -> None:
        self.by, self.period = node.by, node.period

    def feed(self, chunk: Runs, side: int) -> Iterable[Chunk]:
        """Only the first ticks change."""
        return (Runs(chunk.keys, chunk.first + self.by, chunk.ptr, chunk.values),)

    def horizon(self, time: int) -> int:
        """Output moves along, by less than a tick more or less."""
        return time if time == NEVER else time + (self.by - 1) * self.period


class Decimate(Operator[Runs]):
    """Keep every n-th tick."""

    def __init__(self, node: Downsample) -> None:
        self.factor = node.factor

    def feed(self, chunk: Runs, side: int) -> Iterable[Chunk]:
        """Tick k n becomes tick k."""
        skip = -chunk.first % self.factor
        count = np.maximum(-((skip - chunk.lengths()) // self.factor), 0)
        kept = np.flatnonzero(count)
        ptr = np.concatenate(([0], np.cumsum(count[kept])))
        inside = np.arange(ptr[-1]) - np.repeat(ptr[:-1], count[kept])
        rows = np.repeat(chunk.ptr[:-1][kept] + skip[kept], count[kept]) + inside * self.factor
        first = (chunk.first[kept] + skip[kept]) // self.factor
        return (Runs(chunk.keys[kept], first, ptr, chunk.values[rows]),) if len(rows) else ()


class Combiner(Operator[Runs]):
    """Two uniform signals sample by sample; each side waits for the other."""

    carried = ("waiting", "frontier")

    def __init__(self, node: Combine) -> None:
        self.node, self.op = node, node.op
        self.waiting: list[Runs | None] = [None, None]
        self.frontier = PerKey(left=((), np.int64, NEVER), right=((), np.int64, NEVER))

    def feed(self, chunk: Runs, side: int) -> Iterable[Chunk]:
        """Match what waits on the other side; keep what the other side has not reached."""
        frontier = reserved(self.frontier, chunk.keys)
        ends = chunk.first + chunk.lengths() - 1
        np.maximum.at(frontier[("left", "right")[side]], chunk.keys, ends)
        other = self.waiting[1 - side]
        result = None
        if other is not None:
            result = self._combined(*((chunk, other) if side == 0 else (other, chunk)))
        self.waiting[side] = self._kept([self.waiting[side], chunk], side)
        self.waiting[1 - side] = self._kept([other], 1 - side)
        return () if result is None or len(result) == 0 else (result,)

    def advance(self, time: int) -> Iterable[Chunk]:
        """Samples before ``time`` will find no partner any more."""
        tick = -((self.node.offset - time) // self.node.period)
        for side, chunk in enumerate(self.waiting):
            if chunk is not None:
                begin = np.clip(tick - chunk.first, 0, chunk.lengths())
                kept = (
                    kernels(chunk.values).trim(chunk, begin, chunk.lengths() - begin)
                    if begin.any()
                    else chunk
                )
                self.waiting[side] = kept if len(kept) else None
        return ()

    def _combined(self, left: Runs, right: Runs) -> Runs:
        same = left.values.dtype == right.values.dtype and left.values.shape[1:] == right.values.shape[1:]
        code, function = OPERATIONS[self.op] if isinstance(self.op, str) else (-1, self.op)
        native = same and (
            left.values.dtype == np.float64 or (left.values.dtype == np.complex128 and code < 2)
        )
        runs, i, j = kernels(left.values).combine(left, right, code if native else -1)
        if native and code >= 0:
            return runs  # type: ignore[no-any-return]
        values = np.asarray(function(left.values[i], right.values[j]))
        return Runs(runs.keys, runs.first, runs.ptr, values)

    def _kept(self, parts: list[Runs | None], side: int) -> Runs | None:
        """What lies beyond the other side's frontier."""
        runs = [part for part in parts if part is not None]
        if not runs:
            return None
        chunk = concat_runs(runs)
        reached: Ints = self.frontier[("right", "left")[side]][chunk.keys]
        begin = np.clip(np.where(reached == NEVER, 0, reached + 1 - chunk.first), 0, chunk.lengths())
        if not begin.any():
            return chunk
        kept = kernels(chunk.values).trim(chunk, begin, chunk.lengths() - begin)
        return kept if len(kept) else None
