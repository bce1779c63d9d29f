"""Every kernel in plain NumPy, one group and one run at a time: slow, obvious, and the definition.

The C kernels must agree with these on any input; these also serve payloads that C cannot hold (Python
objects with arithmetic) and machines without a compiler. State is laid out as in :mod:`.specs`, so a query
checkpointed with one set of kernels continues with the other.
"""

from __future__ import annotations

import functools
import operator
from dataclasses import replace
from typing import Any

import numpy as np

from viewlet.signals.chunks import Events, Frames, Ints, PerKey, Runs, Values, runs_of_samples
from viewlet.signals.memory import Strip
from viewlet.signals.specs import NEVER, SampleSpec, WindowSpec


def encode(keys: Ints, table: Values, labels: Ints, count: Values, out: Ints) -> int:
    """Number keys by first appearance; ``table`` is the C kernel's and stays unused."""
    seen = {int(key): number for number, key in enumerate(labels[: count[0]])}
    for row, key in enumerate(keys.tolist()):
        if key not in seen:
            if len(seen) == len(labels):
                return row
            labels[len(seen)] = key
            seen[key] = len(seen)
            count[0] = len(seen)
        out[row] = seen[key]
    return len(keys)


def encode_direct(keys: Ints, direct: Values, labels: Ints, count: Values, out: Ints) -> int:
    """Number small keys through a table of all of them; how many rows before one lay outside."""
    for row, key in enumerate(keys.tolist()):
        if not 0 <= key < len(direct) or (direct[key] == 0 and count[0] == len(labels)):
            return row
        if direct[key] == 0:
            labels[count[0]] = key
            count[0] += 1
            direct[key] = count[0]
        out[row] = direct[key] - 1
    return len(keys)


def rounds(keys: Ints) -> int:
    """How many keys take turns, row after row, for at least two rounds; 0 where they do not."""
    again = np.flatnonzero(keys == keys[0]) if len(keys) else keys
    g = int(again[1]) if len(again) > 1 else len(keys)
    return g if g and 2 * g <= len(keys) and np.array_equal(keys[g:], keys[:-g]) else 0


def beat(start: Ints, keys: int) -> int:
    """The distance of starts of each of ``keys`` keys in turns if it is the same throughout, else -1."""
    steps = set((start[keys:] - start[:-keys]).tolist())
    return steps.pop() if len(steps) == 1 and min(steps) > 0 else -1


def turn(column: Values, keys: int) -> Values:
    """Rows of ``keys`` keys in turns, put one key after the other."""
    return np.concatenate([column[first::keys] for first in range(keys)])


def group(ids: Ints, scratch: Ints) -> tuple[Ints, Ints, Ints | None]:
    """Distinct ids in any order, their boundaries, and each row's place (None: in place already)."""
    distinct, first = np.unique(ids, return_index=True)
    keys = distinct[np.argsort(first)]
    rank = np.empty(int(ids.max(initial=-1)) + 1, np.int64)
    rank[keys] = np.arange(len(keys))
    order = np.argsort(rank[ids], kind="stable")
    pos = np.empty_like(order)
    pos[order] = np.arange(len(ids))
    ptr = np.concatenate(([0], np.cumsum(np.bincount(rank[ids], minlength=len(keys)))))
    return keys, ptr, None if np.array_equal(order, np.arange(len(ids))) else pos


def group_points(ids: Ints, scratch: Ints, start: Ints, values: Values) -> tuple[Ints, Ints, Ints, Values]:
    """Distinct ids, their boundaries, and times and values moved to their places."""
    keys, ptr, pos = group(ids, scratch)
    return keys, ptr, *((start, values) if pos is None else (scatter(start, pos), scatter(values, pos)))


def scatter(source: Values, pos: Ints) -> Values:
    """out[pos[i]] = source[i]."""
    out = np.empty_like(source)
    out[pos] = source
    return out


def disorder(events: Events, bound: Ints, overlap: bool) -> tuple[int, int]:
    """The first row that comes too early for its key, or -1; and the distance of starts (see Events)."""
    ends = events.ends()
    for key, low, high in zip(events.keys, events.ptr[:-1], events.ptr[1:], strict=True):
        limit = bound[key]
        for row in range(low, high):
            if events.start[row] < limit:
                return row, -1
            limit = ends[row] if overlap else events.start[row]
    inside = np.ones(max(len(events) - 1, 0), bool)
    inside[events.ptr[1:-1] - 1] = False
    steps = set(np.diff(events.start)[inside].tolist())
    even = events.end is None and len(steps) <= 1 and 0 not in steps
    return -1, steps.pop() if even and steps else 0 if even else -1


def expand(runs: Runs, labels: Ints, period: int, offset: int) -> tuple[Ints, Ints]:
    """Key label and time of each sample."""
    return labels[runs.row_keys()], runs.ticks() * period + offset


def sample(events: Events, values: Values, spec: SampleSpec, state: PerKey) -> Runs:
    """Values at the beats of a grid: of the active event, else interpolated between reference points.

    Reference points of an event [a, b) are a, the beats inside, and b - 1. A beat between the last reference
    point and the next event is interpolated when the buffer is full (one earlier point, two for ``second``)
    and no point in it is further than the interpolation window from that event.
    """
    keys: list[int] = []
    ticks: list[int] = []
    out: list[Any] = []
    asked: list[tuple[int, ...]] = []  # for a user's function: position, time, t0, v0, t1, v1
    ends = events.ends()
    for key, low, high in zip(events.keys, events.ptr[:-1], events.ptr[1:], strict=True):
        points = [(int(t), v) for t, v in zip(state["times"][key], state["values"][key], strict=True)]
        points = points[: state["refs"][key]]
        beat = int(state["beat"][key])
        for row in range(low, high):
            a, b, value = int(events.start[row]), int(ends[row]) - 1, values[row]
            if not points:
                beat = -(-(a - spec.offset) // spec.period)
            while points and beat * spec.period + spec.offset < a:
                time = beat * spec.period + spec.offset
                filled = _interpolate(spec, points, a, value, time)
                if filled is None:
                    beat = -(-(a - spec.offset) // spec.period)
                    break
                if spec.mode == "user":
                    asked.append((len(out), time, points[0][0], points[0][1], a, value))
                keys.append(int(key))
                ticks.append(beat)
                out.append(filled[0])
                beat += 1
            points.insert(0, (a, value))
            while beat * spec.period + spec.offset <= b:
                time = beat * spec.period + spec.offset
                keys.append(int(key))
                ticks.append(beat)
                out.append(value)
                if a < time < b:
                    points.insert(0, (time, value))
                beat += 1
            if b > a:
                points.insert(0, (b, value))
            del points[2:]
        state["refs"][key] = len(points)
        for slot, (time, value) in enumerate(points):
            state["times"][key, slot] = time
            state["values"][key, slot] = value
        state["beat"][key] = beat
    result = _array(out, values)
    if asked and spec.function is not None:
        at, *reference_points = (np.array(column) for column in zip(*asked, strict=True))
        result[at] = spec.function(*reference_points)
    return runs_of_samples(np.array(keys, np.int64), np.array(ticks, np.int64), result)


def on_grid(events: Events, values: Values, spec: SampleSpec, state: PerKey) -> Runs | None:
    """Points on successive beats as the samples they are, or None where they lie otherwise."""
    keys, counts, last = events.keys, np.diff(events.ptr), events.ptr[1:] - 1
    first, rest = np.divmod(events.firsts() - spec.offset, spec.period)
    goes_on = (state["refs"][keys] == 0) | (state["beat"][keys] == first) | (spec.mode == "exact")
    inside = np.arange(len(events)) - np.repeat(events.ptr[:-1], counts)
    steps = events.start == (np.repeat(first, counts) + inside) * spec.period + spec.offset
    if rest.any() or not steps.all() or not goes_on.all():
        return None
    state["beat"][keys] = first + counts
    state["refs"][keys] = np.minimum(state["refs"][keys] + counts, 2)
    state["times"][keys, 0] = events.start[last]
    state["values"][keys, 0] = values[last]
    return Runs(keys, first, events.ptr, values)


def _interpolate(spec: SampleSpec, points: list[Any], a: int, value: Any, time: int) -> tuple[Any] | None:
    """The value at ``time`` between the newest point and the event at ``a``; None where there is none."""
    (t0, v0) = points[0]
    if spec.mode == "last":
        return (v0,) if spec.gap < 0 or time <= t0 + spec.gap else None
    depth = 2 if spec.mode == "second" else 1
    if spec.mode == "exact" or len(points) < depth or 0 <= spec.gap < a - points[depth - 1][0]:
        return None
    match spec.mode:
        case "constant":
            return (spec.constant,)
        case "linear":
            return (v0 + (value - v0) * ((time - t0) / (a - t0)),)
        case "second":
            (t1, v1) = points[1]
            older, newer = (v0 - v1) * (1.0 / (t0 - t1)), (value - v0) * (1.0 / (a - t0))
            curve = (newer - older) * (1.0 / (a - t1))
            return (v0 + older * float(time - t0) + curve * float((time - t0) * (time - t1)),)
        case _:  # step, and the placeholder that a user's function replaces
            return (v0,)


def combine(left: Runs, right: Runs, op: int) -> tuple[Runs, Ints, Ints]:
    """Match samples of equal key and tick; op 0, 1, 2 gives their sum, difference, product, -1 positions."""
    places = {pair: row for row, pair in enumerate(zip(right.row_keys(), right.ticks(), strict=True))}
    pairs = sorted(
        (*pair, row, places[pair])
        for row, pair in enumerate(zip(left.row_keys(), left.ticks(), strict=True))
        if pair in places
    )
    keys, ticks, left_at, right_at = np.array(pairs, np.int64).reshape(-1, 4).T
    x, y = left.values[left_at], right.values[right_at]
    values = x[:0] if op < 0 else (x + y if op == 0 else x - y if op == 1 else x * y)
    runs = runs_of_samples(keys, ticks, keys)
    return Runs(runs.keys, runs.first, runs.ptr, values), left_at, right_at


def trim(runs: Runs, begin: Ints, length: Ints) -> Runs:
    """Of each run, ``length`` samples from position ``begin``; empty runs vanish."""
    keep = np.flatnonzero(length > 0)
    ptr = np.concatenate(([0], np.cumsum(length[keep])))
    rows = np.repeat(runs.ptr[keep] + begin[keep] - ptr[:-1], length[keep]) + np.arange(ptr[-1])
    return Runs(runs.keys[keep], runs.first[keep] + begin[keep], ptr, runs.values[rows])


def fir(runs: Runs, taps: Values, state: PerKey) -> tuple[Values, Ints]:
    """y[n] = sum_j taps[j] x[n - j], where missing samples count as zero."""
    size = len(taps)
    out = np.empty(runs.values.shape, np.result_type(runs.values, taps))
    lead = np.zeros(len(runs.keys), np.int64)
    for r, (key, tick, low, high) in enumerate(
        zip(runs.keys, runs.first, runs.ptr[:-1], runs.ptr[1:], strict=True)
    ):
        gap = min(int(tick - state["last"][key] - 1), size) if state["seen"][key] else size
        history = state["history"][key].copy()
        if gap > 0:
            zeros = np.full_like(history[: min(gap, size - 1)], state.zero)
            history = np.concatenate((history[len(zeros) :], zeros))
            state["filled"][key] = 0
        x = np.concatenate((history, runs.values[low:high]))
        for i in range(high - low):
            window = x[i : i + size][::-1]
            out[low + i] = functools.reduce(operator.add, [t * v for t, v in zip(taps, window, strict=True)])
        lead[r] = min(high - low, max(0, size - 1 - state["filled"][key]))
        state["history"][key] = x[len(x) - (size - 1) :]
        state["filled"][key] = min(size, state["filled"][key] + high - low)
        state["last"][key], state["seen"][key] = tick + high - low - 1, 1
    return out, lead


def rational(runs: Runs, b: Values, a: Values, powers: Values, state: PerKey) -> Values:
    """A cascade of rational filters in transposed direct form II; a gap is that many zero inputs."""
    sections, order = len(b), b.shape[1] - 1
    out = np.empty_like(runs.values)
    for key, tick, low, high in zip(runs.keys, runs.first, runs.ptr[:-1], runs.ptr[1:], strict=True):
        z = state["z"][key]
        gap = int(tick - state["last"][key] - 1) if state["seen"][key] else 0
        for level in range(gap.bit_length()):
            if gap >> level & 1:
                flat = z.reshape(sections * order, -1)
                z[...] = (powers[level] @ flat).reshape(z.shape)
        for i in range(low, high):
            x = runs.values[i]
            for s in range(sections):
                y = b[s, 0] * x + (z[s, 0] if order else 0.0)
                for d in range(order):
                    z[s, d] = b[s, d + 1] * x - a[s, d + 1] * y + (z[s, d + 1] if d + 1 < order else 0.0)
                x = y
            out[i] = x
        state["last"][key], state["seen"][key] = tick + high - low - 1, 1
    return out


def window(runs: Runs, spec: WindowSpec, state: PerKey, capacity: int) -> tuple[Frames, int]:
    """The windows that the runs complete; all runs are consumed, whatever the capacity.

    A window fires once its last tick is at or before the key's frontier: with ``zeros`` if it holds at least
    one sample, else if it holds all of them. A run without samples only moves the frontier.
    """
    rows: list[tuple[int, int, int, int, int]] = []
    values: list[Any] = []
    for key, tick, low, high in zip(runs.keys, runs.first, runs.ptr[:-1], runs.ptr[1:], strict=True):
        n = int(high - low)
        if not state["seen"][key]:
            if n == 0:
                continue
            start = tick - spec.size + 1 if spec.zeros else tick
            state["next"][key] = -(-start // spec.hop) * spec.hop
            state["origin"][key] = state["solid"][key] = tick
            state["seen"][key], state["last"][key], state["carry_n"][key] = 1, tick - 1, 0
            state["previous"][key] = NEVER
        if n == 0 and not spec.zeros:
            continue
        base, kept = int(state["carry_tick"][key]), int(state["carry_n"][key])
        present = dict(enumerate(state["carry"][key, :kept].copy(), base))
        present |= {int(tick) + i: runs.values[low + i] for i in range(n)}
        last = int(state["last"][key])
        if n and tick > last + 1:
            state["solid"][key] = tick
        frontier = int(tick) + n - 1
        start = int(state["next"][key])
        while start + spec.size - 1 <= frontier:
            if spec.zeros:
                holds = start <= last or (n > 0 and start + spec.size > tick)
            else:
                holds = start >= state["solid"][key]
            if not holds and n == 0:
                break
            if holds:
                real = frontier if n and start + spec.size > tick else last
                fresh = int(state["previous"][key] != start - spec.hop)
                lo, hi = max(start, int(state["origin"][key])), min(start + spec.size - 1, real)
                rows.append((int(key), start, lo, hi, fresh))
                values.append([present.get(t) for t in range(start - spec.back, start + spec.size)])
                state["previous"][key] = start
            start += spec.hop
        state["next"][key] = start
        if n:
            state["last"][key] = frontier
        begin = start - spec.before
        held = max(0, min(spec.size + spec.before, int(state["last"][key]) - begin + 1))
        tail = _array([present.get(begin + i) for i in range(held)], runs.values, state.zero)
        state["carry"][key, :held] = tail
        state["carry_tick"][key], state["carry_n"][key] = begin, held
    table = np.array(rows, np.int64).reshape(-1, 5)
    keys = table[:, 0]
    flat = _array([sample for row in values for sample in row], runs.values, state.zero)
    matrix = flat.reshape(len(rows), spec.back + spec.size, *runs.values.shape[1:])
    old, windows = matrix[:, : spec.back], matrix[:, spec.back :]
    if spec.bins:
        windows = np.fft.rfft(windows, axis=1)
    if spec.rule == "sliding":
        state["re"][keys], state["im"][keys] = windows.real, windows.imag  # of several rows the last stays
    frames = Frames(
        keys, table[:, 1], table[:, 2], table[:, 3], table[:, 4], windows, old if spec.back else None
    )
    return frames, len(runs.keys)


def transforms(size: int) -> bool:
    """Is there a kernel for real windows of ``size`` samples?"""
    return False


def rfft(windows: Values) -> Values:
    """The non-negative half of the spectrum of each real window."""
    from scipy import fft as scipy_fft

    result: Values = scipy_fft.rfft(windows, axis=1)
    return result


def fft(windows: Values) -> Values:
    """The spectrum of each window."""
    from scipy import fft as scipy_fft

    result: Values = scipy_fft.fft(windows, axis=1)
    return result


def irfft(windows: Values, size: int) -> Values:
    """Real windows of ``size`` samples from the non-negative halves of their spectra."""
    from scipy import fft as scipy_fft

    result: Values = scipy_fft.irfft(windows, size, axis=1)
    return result


def ifft(windows: Values) -> Values:
    """The windows whose spectra these are."""
    from scipy import fft as scipy_fft

    result: Values = scipy_fft.ifft(windows, axis=1)
    return result


def unwindow(frames: Frames, how: str, state: PerKey, strip: Strip) -> Runs:
    """Samples that no later window can change, aggregated over the windows that cover them."""
    keys: list[int] = []
    ticks: list[int] = []
    out: list[Any] = []
    size = frames.values.shape[1]
    for row, (key, first) in enumerate(zip(frames.keys, frames.first, strict=True)):
        if not state["seen"][key]:
            state["seen"][key], state["base"][key], state["pending"][key] = 1, frames.lo[row], 0
        base, pending = int(state["base"][key]), int(state["pending"][key])
        acc = {base + i: np.copy(state["acc"][key, i])[()] for i in range(pending)}
        covers = {base + i: int(n) for i, n in enumerate(state["covers"][key, :pending])}
        for tick in range(base, base + min(max(int(first) - base, 0), pending)):
            keys.append(int(key))
            ticks.append(tick)
            out.append(_finished(acc.pop(tick), covers.pop(tick, 0), how))
        begin = max(base, int(first)) if acc or pending == 0 else max(base + pending, int(first))
        for tick in range(begin, int(first) + size):
            value = frames.values[row, tick - int(first)]
            acc[tick] = _merge(acc[tick], value, how) if tick in acc else value
            covers[tick] = covers.get(tick, 0) + 1
        state["base"][key], state["pending"][key], state["final"][key] = begin, len(acc), frames.hi[row]
        for i, tick in enumerate(sorted(acc)):
            state["acc"][key, i] = acc[tick]
            state["covers"][key, i : i + 1] = covers[tick]  # no place for it but for a mean
    like = frames.values.reshape(-1, *frames.values.shape[2:])
    return runs_of_samples(np.array(keys, np.int64), np.array(ticks, np.int64), _array(out, like))


def unwindow_spectra(frames: Frames, size: int, how: str, state: PerKey, strip: Strip) -> Runs:
    """The same for real windows of ``size`` samples that are given by their half spectra."""
    return unwindow(replace(frames, values=irfft(frames.values, size)), how, state, strip)


def _finished(value: Any, covers: int, how: str) -> Any:
    """The aggregate from what was accumulated over ``covers`` windows."""
    return value * (1.0 / covers) if how == "mean" else value


def _merge(old: Any, new: Any, how: str) -> Any:
    if how in ("sum", "mean"):
        return old + new
    return np.maximum(old, new) if how == "max" else np.minimum(old, new)


def _array(values: list[Any], like: Values, zero: Any = 0) -> Values:
    """Samples as an array of the dtype and channels of ``like``; None is a missing sample, zero."""
    out = np.zeros((len(values), *like.shape[1:]), like.dtype)
    for row, value in enumerate(values):
        out[row] = zero if value is None else value
    return out
