"""The C kernels as Python functions: names, arguments and results as in :mod:`viewlet.signals.reference`."""

from __future__ import annotations

import numpy as np

from viewlet.signals.chunks import Events, Frames, Ints, PerKey, Runs, Values
from viewlet.signals.memory import Strip, empty
from viewlet.signals.native.binding import call as _call
from viewlet.signals.native.binding import contiguous as _c
from viewlet.signals.native.binding import load, state_pointers, width
from viewlet.signals.native.fourier import (
    block_length,
    fft,
    ifft,
    irfft,
    response,
    rfft,
    table,
    transforms,
    waves,
)
from viewlet.signals.native.fourier import turn as turn_table
from viewlet.signals.specs import MODES, RULES, UNWINDOWS, SampleSpec, WindowSpec

FAR = 1 << 13  # groups whose output lines fill the second-level cache
SHIFT = 8  # bits of an id that do not matter to its neighbourhood

__all__ = [
    "beat",
    "combine",
    "disorder",
    "encode",
    "encode_direct",
    "expand",
    "fft",
    "fir",
    "group",
    "group_points",
    "ifft",
    "irfft",
    "load",
    "on_grid",
    "rational",
    "rfft",
    "rounds",
    "sample",
    "scatter",
    "transforms",
    "trim",
    "turn",
    "unwindow",
    "unwindow_spectra",
    "window",
]


def encode(keys: Ints, table: Values, labels: Ints, count: Values, out: Ints) -> int:
    """Number integer keys through the hash table; how many rows before the table was half full."""
    return _call("vs_encode", keys, len(keys), table, len(table) - 1, labels, count, out)


def encode_direct(keys: Ints, direct: Values, labels: Ints, count: Values, out: Ints) -> int:
    """Number small keys through a table of all of them; how many rows before one lay outside."""
    size, room = len(direct), len(labels)
    return _call("vs_encode_direct", keys, len(keys), direct, size, room, labels, count, out)


def rounds(keys: Ints) -> int:
    """How many keys take turns, row after row, for at least two rounds; 0 where they do not."""
    return _call("vs_rounds", keys, len(keys))


def beat(start: Ints, keys: int) -> int:
    """The distance of starts of each of ``keys`` keys in turns if it is the same throughout, else -1."""
    return _call("vs_beat", _c(start), len(start), keys)


def turn(column: Values, keys: int) -> Values:
    """Rows of ``keys`` keys in turns, put one key after the other."""
    column = _c(column)
    out = empty(len(column), column.dtype)
    _call("vs_turn", column, len(column), keys, out)
    return out


def group(ids: Ints, scratch: Ints) -> tuple[Ints, Ints, Ints | None]:
    """Distinct ids in any order, their boundaries, and each row's place (None: in place already)."""
    keys, ptr, moved = _counted(ids, scratch)
    pos = np.empty(len(ids), np.int64) if moved else None
    if pos is not None:
        _call("vs_place", ids, len(ids), scratch, pos)
    scratch[keys] = 0
    return keys, ptr, pos


def group_points(ids: Ints, scratch: Ints, start: Ints, values: Values) -> tuple[Ints, Ints, Ints, Values]:
    """Distinct ids, their boundaries, and times and real values moved to their places: one pass over all."""
    keys, ptr, moved = _counted(ids, scratch)
    if moved:
        start, values = _c(start), _c(values)
        to_start, to_values = empty(len(start)), empty(len(values), np.float64)
        if len(keys) > FAR:
            parts = (len(scratch) - 1 >> SHIFT) + 1
            room = empty((len(ids), 3)), np.empty(parts, np.int64), parts, SHIFT
            _call("vs_place_far", ids, len(ids), scratch, start, values, *room, to_start, to_values)
        else:
            _call("vs_place_pair", ids, len(ids), scratch, start, values, to_start, to_values)
        start, values = to_start, to_values
    scratch[keys] = 0
    return keys, ptr, start, values


def _counted(ids: Ints, scratch: Ints) -> tuple[Ints, Ints, bool]:
    room = min(len(ids), len(scratch))
    keys, ptr = np.empty(room, np.int64), np.empty(room + 1, np.int64)
    groups = _call("vs_count", ids, len(ids), len(scratch), scratch, keys, ptr)
    return keys[: abs(groups)].copy(), ptr[: abs(groups) + 1].copy(), groups > 0


def scatter(source: Values, pos: Ints) -> Values:
    """out[pos[i]] = source[i]."""
    source = _c(source)
    out = empty(source.shape, source.dtype)
    _call("vs_scatter", source, pos, len(pos), source.nbytes // 8 // max(len(source), 1), out)
    return out


def disorder(events: Events, bound: Ints, overlap: bool) -> tuple[int, int]:
    """The first row that comes too early for its key, or -1; and the distance of starts (see Events)."""
    end = None if events.end is None else _c(events.end)
    stride = np.zeros(1, np.int64)
    args = (len(events.keys), _c(events.keys), _c(events.ptr), _c(events.start), end, int(overlap), bound)
    return _call("vs_disorder", *args, stride), int(stride[0])


def expand(runs: Runs, labels: Ints, period: int, offset: int) -> tuple[Ints, Ints]:
    """Key label and time of each sample."""
    keys, times = empty(len(runs)), empty(len(runs))
    args = (_c(runs.keys), _c(runs.first), _c(runs.ptr), labels)
    _call("vs_expand", len(runs.keys), *args, period, offset, keys, times)
    return keys, times


def sample(events: Events, values: Values, spec: SampleSpec, state: PerKey) -> Runs:
    """Values at the beats of a grid, by active events and interpolation."""
    runs, room = spec.bounds(events, state)
    keys, first, ptr = np.empty(runs, np.int64), np.empty(runs, np.int64), np.empty(runs + 1, np.int64)
    out = empty((room + 2, *values.shape[1:]), values.dtype)  # two that may be computed in vain
    constant = np.full(values.shape[1:], spec.constant, values.dtype)
    end = None if events.end is None else _c(events.end)
    count = _call(
        "vs_sample",
        *(len(events.keys), _c(events.keys), _c(events.ptr), _c(events.start), end, _c(values)),
        *(width(values), spec.period, spec.offset, MODES.index(spec.mode), spec.gap, constant),
        *(state["refs"], state["times"], state["values"], state["beat"]),
        *(keys, first, ptr, out),
    )
    return Runs(keys[:count], first[:count], ptr[: count + 1], out[: ptr[count]])


def on_grid(events: Events, values: Values, spec: SampleSpec, state: PerKey) -> Runs | None:
    """Points on successive beats as the samples they are, or None where they lie otherwise."""
    if events.stride > 0 and events.stride != spec.period:
        return None
    first, values, even = np.empty(len(events.keys), np.int64), _c(values), events.stride >= 0
    start = events.firsts() if even else events.start
    args = (_c(events.keys), _c(events.ptr), _c(start), values, width(values))
    flags = int(spec.mode == "exact"), int(even)
    held = (state[name] for name in ("refs", "times", "values", "beat"))
    fits = _call("vs_on_grid", len(events.keys), *args, spec.period, spec.offset, *flags, *held, first)
    return Runs(events.keys, first, events.ptr, values) if fits else None


def combine(left: Runs, right: Runs, op: int) -> tuple[Runs, Ints, Ints]:
    """Match samples of equal key and tick; op 0, 1, 2 gives their sum, difference, product, -1 positions."""
    room = min(len(left), len(right))
    runs = len(left.keys) + len(right.keys)
    keys, first, ptr = np.empty(runs, np.int64), np.empty(runs, np.int64), np.empty(runs + 1, np.int64)
    positions = room if op < 0 else 0
    left_at, right_at = np.empty(positions, np.int64), np.empty(positions, np.int64)
    out = empty((0 if op < 0 else room, *left.values.shape[1:]), left.values.dtype)
    sides = [
        (len(side.keys), _by_key(side), _c(side.keys), _c(side.first), _c(side.ptr)) for side in (left, right)
    ]
    values = [np.zeros(1) if op < 0 else _c(side.values) for side in (left, right)]
    count = _call(
        "vs_combine",
        *(op, width(left.values), *sides[0], values[0], *sides[1], values[1]),
        *(keys, first, ptr, out, left_at, right_at),
    )
    n = ptr[count]
    return Runs(keys[:count], first[:count], ptr[: count + 1], out[:n]), left_at[:n], right_at[:n]


def _by_key(runs: Runs) -> Ints:
    """The order of runs by key, then time; runs of one key are in time order already."""
    ascending = bool((runs.keys[1:] >= runs.keys[:-1]).all())
    return np.arange(len(runs.keys)) if ascending else np.argsort(runs.keys, kind="stable")


def trim(runs: Runs, begin: Ints, length: Ints) -> Runs:
    """Of each run, ``length`` samples from position ``begin``; empty runs vanish."""
    keep = np.flatnonzero(length > 0)
    ptr = np.concatenate(([0], np.cumsum(length[keep])))
    values = _c(runs.values)
    out = empty((int(ptr[-1]), *values.shape[1:]), values.dtype)
    _call("vs_trim", len(keep), runs.ptr[keep] + begin[keep], ptr, width(values), values, out)
    return Runs(runs.keys[keep], runs.first[keep] + begin[keep], ptr, out)


def fir(runs: Runs, taps: Values, state: PerKey) -> tuple[Values, Ints]:
    """Filtered values, and per run how many of the first ones lack a full window behind them."""
    out, lead = empty(runs.values.shape, runs.values.dtype), np.empty(len(runs.keys), np.int64)
    taps = np.ascontiguousarray(taps, np.float64)
    block = block_length(len(taps), int(runs.lengths().max(initial=0)))
    spectrum = (response(taps.tobytes(), block), table(block)) if block else (None, None)
    _call(
        "vs_fir",
        *(len(runs.keys), _c(runs.keys), _c(runs.first), _c(runs.ptr), _c(runs.values), width(runs.values)),
        *(taps, len(taps), block, *spectrum),
        *(state["seen"], state["last"], state["filled"], state["history"], out, lead),
    )
    return out, lead


def rational(runs: Runs, b: Values, a: Values, powers: Values, state: PerKey) -> Values:
    """A cascade of rational filters, rows of ``b`` and ``a``."""
    values = empty(runs.values.shape, runs.values.dtype)
    _call(
        "vs_rational",
        *(len(runs.keys), _c(runs.keys), _c(runs.first), _c(runs.ptr), _c(runs.values), width(runs.values)),
        *(len(b), b.shape[1] - 1, _c(b), _c(a), _c(powers), state["seen"], state["last"], state["z"], values),
    )
    return values


def window(runs: Runs, spec: WindowSpec, state: PerKey, capacity: int) -> tuple[Frames, int]:
    """The windows that the runs complete, and how many runs were consumed before ``capacity`` rows."""
    w, bins = width(runs.values), spec.bins
    about = empty((5, capacity))  # keys, first, lo, hi, fresh
    if bins:
        out = empty((capacity, bins), np.complex128)
    else:
        out = empty((capacity, spec.back + spec.size, *runs.values.shape[1:]), runs.values.dtype)
    done = np.zeros(1, np.int64)
    tables: tuple[Values | None, Values | None] = (None, None)
    if bins:
        anew = spec.rule == "anew"
        tables = (table(spec.size // 2), turn_table(spec.size)) if anew else waves(spec.size)
    rows = _call(
        "vs_window",
        *(len(runs.keys), _c(runs.keys), _c(runs.first), _c(runs.ptr), _c(runs.values), w),
        *(spec.size, spec.hop, int(spec.zeros), spec.back, capacity),
        *state_pointers(state, "seen", "next", "last", "origin", "solid", "carry_tick", "carry_n", "carry"),
        *(RULES.index(spec.rule), bins, spec.reseed, *tables, *state_pointers(state, "re", "im", "previous")),
        *(about, out, done),
    )
    old = out[:rows, : spec.back] if spec.back else None
    keys, first, lo, hi, fresh = about[:, :rows]
    return Frames(keys, first, lo, hi, fresh, out[:rows, spec.back :], old), int(done[0])


def unwindow(frames: Frames, how: str, state: PerKey, strip: Strip) -> Runs:
    """Samples that no later window can change, aggregated over the windows that cover them."""
    return _unwindow(frames, _c(frames.values), frames.values.shape[1], how, (None, None), state, strip)


def unwindow_spectra(frames: Frames, size: int, how: str, state: PerKey, strip: Strip) -> Runs:
    """The same for real windows of ``size`` samples that are given by their half spectra."""
    values = _c(frames.values)
    if transforms(size) and values.dtype == np.complex128 and values.shape[1:] == (size // 2 + 1,):
        return _unwindow(frames, values, size, how, (table(size // 2), turn_table(size)), state, strip)
    return _unwindow(frames, irfft(values, size), size, how, (None, None), state, strip)


def _unwindow(
    frames: Frames,
    values: Values,
    size: int,
    how: str,
    tables: tuple[Values | None, Values | None],
    state: PerKey,
    strip: Strip,
) -> Runs:
    rows, acc = len(frames), state["acc"]
    about = empty((3, 2 * rows + 1))  # keys, first, ptr
    moved = int(state["pending"][frames.keys].sum()) if rows else 0
    out = strip.room((rows * size + moved, *acc.shape[2:]), acc.dtype)
    counts = np.empty(len(out), np.int64) if how == "mean" else None
    count = _call(
        "vs_unwindow",
        *(rows, _c(frames.keys), _c(frames.first), _c(frames.lo), _c(frames.hi), values, size),
        *(width(acc[:, 0]), UNWINDOWS.index(how), *tables),
        *state_pointers(state, "seen", "base", "pending", "final", "acc", "covers"),
        *(*about, out, counts),
    )
    keys, first, ptr = about[:, : count + 1]
    return Runs(keys[:count], first[:count], ptr, strip.keep(out, int(ptr[count])))
