"""The C kernels as Python functions: names, arguments and results as in :mod:`viewlet.signals.reference`.

Each call hands whole NumPy buffers to C; ctypes releases the interpreter lock while it runs.
"""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from viewlet.signals.chunks import Events, Frames, Ints, PerKey, Runs, Values
from viewlet.signals.native.build import build
from viewlet.signals.specs import MODES, UNWINDOWS, SampleSpec, WindowSpec

KERNELS = (
    *("vs_encode", "vs_count", "vs_disorder", "vs_on_grid", "vs_sample", "vs_combine", "vs_window"),
    "vs_unwindow",
)


@cache
def load() -> ctypes.CDLL:
    """The compiled kernels; builds them on first use."""
    library = ctypes.CDLL(str(build([Path(__file__).with_name("kernels.c")])))
    for name in KERNELS:
        getattr(library, name).restype = ctypes.c_int64
    return library


def _call(name: str, *args: Any) -> int:
    """Call a kernel with arrays as pointers and numbers as 64-bit integers."""
    prepared = [
        ctypes.c_void_p(arg.__array_interface__["data"][0])
        if isinstance(arg, np.ndarray)
        else (None if arg is None else ctypes.c_int64(arg))
        for arg in args
    ]
    result: int = getattr(load(), name)(*prepared)
    if result == -1 and name in ("vs_fir", "vs_rational", "vs_window"):
        raise MemoryError(f"{name} could not allocate its scratch buffer")
    return result


def width(values: Values) -> int:
    """Doubles per sample: 1 real, 2 complex, c for c channels."""
    return int(np.prod(values.shape[1:], dtype=np.int64)) * (2 if values.dtype == np.complex128 else 1)


def _c(array: Any) -> Any:
    return np.ascontiguousarray(array)


def encode(keys: Ints, table: Values, labels: Ints, count: Values, out: Ints) -> int:
    """Number integer keys through the hash table; how many rows before the table was half full."""
    return _call("vs_encode", keys, len(keys), table, len(table) - 1, labels, count, out)


def group(ids: Ints, scratch: Ints) -> tuple[Ints, Ints, Ints | None]:
    """Distinct ids by first appearance, their boundaries, and each row's place (None: in place already)."""
    keys, ptr, moved = _counted(ids, scratch)
    pos = np.empty(len(ids), np.int64) if moved else None
    if pos is not None:
        _call("vs_place", ids, len(ids), scratch, pos, None, None, None, None)
    scratch[keys] = 0
    return keys, ptr, pos


def group_points(ids: Ints, scratch: Ints, start: Ints, values: Values) -> tuple[Ints, Ints, Ints, Values]:
    """Distinct ids, their boundaries, and times and real values moved to their places: one pass over all."""
    keys, ptr, moved = _counted(ids, scratch)
    if moved:
        start, values = _c(start), _c(values)
        to_start, to_values = np.empty_like(start), np.empty_like(values)
        _call("vs_place", ids, len(ids), scratch, None, start, values, to_start, to_values)
        start, values = to_start, to_values
    scratch[keys] = 0
    return keys, ptr, start, values


def _counted(ids: Ints, scratch: Ints) -> tuple[Ints, Ints, bool]:
    keys, ptr = np.empty(len(ids), np.int64), np.empty(len(ids) + 1, np.int64)
    groups = _call("vs_count", ids, len(ids), scratch, keys, ptr)
    return keys[: abs(groups)].copy(), ptr[: abs(groups) + 1].copy(), groups > 0


def scatter(source: Values, pos: Ints) -> Values:
    """out[pos[i]] = source[i]."""
    source = _c(source)
    out = np.empty_like(source)
    _call("vs_scatter", source, pos, len(pos), source.nbytes // 8 // max(len(source), 1), out)
    return out


def disorder(events: Events, bound: Ints, overlap: bool) -> int:
    """The first row that comes too early for its key, or -1."""
    end = None if events.end is None else _c(events.end)
    return _call(
        "vs_disorder",
        *(len(events.keys), _c(events.keys), _c(events.ptr), _c(events.start), end, int(overlap), bound),
    )


def expand(runs: Runs, labels: Ints, period: int, offset: int) -> tuple[Ints, Ints]:
    """Key label and time of each sample."""
    keys, times = np.empty(len(runs), np.int64), np.empty(len(runs), np.int64)
    args = (_c(runs.keys), _c(runs.first), _c(runs.ptr), labels)
    _call("vs_expand", len(runs.keys), *args, period, offset, keys, times)
    return keys, times


def sample(events: Events, values: Values, spec: SampleSpec, state: PerKey) -> Runs:
    """Values at the beats of a grid, by active events and interpolation."""
    runs, room = spec.bounds(events, state)
    keys, first, ptr = np.empty(runs, np.int64), np.empty(runs, np.int64), np.empty(runs + 1, np.int64)
    out = np.empty((room, *values.shape[1:]), values.dtype)
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


def on_grid(events: Events, spec: SampleSpec, state: PerKey) -> bool:
    """Are the points of every key successive beats, so that their values are the samples?"""
    args = (_c(events.keys), _c(events.ptr), _c(events.start), spec.period, spec.offset)
    jumps = int(spec.mode == "exact")
    return bool(_call("vs_on_grid", len(events.keys), *args, jumps, state["refs"], state["beat"]))


def combine(left: Runs, right: Runs, op: int) -> tuple[Runs, Ints, Ints]:
    """Match samples of equal key and tick; op 0, 1, 2 gives their sum, difference, product, -1 positions."""
    room = min(len(left), len(right))
    runs = len(left.keys) + len(right.keys)
    keys, first, ptr = np.empty(runs, np.int64), np.empty(runs, np.int64), np.empty(runs + 1, np.int64)
    positions = room if op < 0 else 0
    left_at, right_at = np.empty(positions, np.int64), np.empty(positions, np.int64)
    out = np.empty((0 if op < 0 else room, *left.values.shape[1:]), left.values.dtype)
    sides = [
        (len(side.keys), np.lexsort((side.first, side.keys)), _c(side.keys), _c(side.first), _c(side.ptr))
        for side in (left, right)
    ]
    values = [np.zeros(1) if op < 0 else _c(side.values) for side in (left, right)]
    count = _call(
        "vs_combine",
        *(op, width(left.values), *sides[0], values[0], *sides[1], values[1]),
        *(keys, first, ptr, out, left_at, right_at),
    )
    n = ptr[count]
    return Runs(keys[:count], first[:count], ptr[: count + 1], out[:n]), left_at[:n], right_at[:n]


def fir(runs: Runs, taps: Values, state: PerKey) -> tuple[Values, Ints]:
    """Filtered values, and per run how many of the first ones lack a full window behind them."""
    out, lead = np.empty_like(_c(runs.values)), np.empty(len(runs.keys), np.int64)
    _call(
        "vs_fir",
        *(len(runs.keys), _c(runs.keys), _c(runs.first), _c(runs.ptr), _c(runs.values), width(runs.values)),
        *(
            np.ascontiguousarray(taps, np.float64),
            len(taps),
            state["seen"],
            state["last"],
            state["filled"],
            state["history"],
            out,
            lead,
        ),
    )
    return out, lead


def rational(runs: Runs, b: Values, a: Values, powers: Values, state: PerKey) -> Values:
    """A cascade of rational filters, rows of ``b`` and ``a``."""
    values: Values = np.empty_like(_c(runs.values))
    _call(
        "vs_rational",
        *(len(runs.keys), _c(runs.keys), _c(runs.first), _c(runs.ptr), _c(runs.values), width(runs.values)),
        *(len(b), b.shape[1] - 1, _c(b), _c(a), _c(powers), state["seen"], state["last"], state["z"], values),
    )
    return values


def window(runs: Runs, spec: WindowSpec, state: PerKey, capacity: int) -> tuple[Frames, int]:
    """The windows that the runs complete, and how many runs were consumed before ``capacity`` rows."""
    w, bins = width(runs.values), spec.bins
    keys, first, lo, hi, fresh = (np.empty(capacity, np.int64) for _ in range(5))
    if bins:
        out = np.empty((capacity, bins), np.complex128)
    else:
        out = np.empty((capacity, spec.back + spec.size, *runs.values.shape[1:]), runs.values.dtype)
    done = np.zeros(1, np.int64)
    cosine, sine = spec.twiddles()
    rows = _call(
        "vs_window",
        *(len(runs.keys), _c(runs.keys), _c(runs.first), _c(runs.ptr), _c(runs.values), w),
        *(spec.size, spec.hop, int(spec.zeros), spec.back, capacity),
        *(state[name] for name in ("seen", "next", "last", "origin", "solid", "carry_tick", "carry_n")),
        *(state["carry"], bins, spec.reseed, cosine, sine, state["re"], state["im"], state["previous"]),
        *(keys, first, lo, hi, fresh, out, done),
    )
    old = out[:rows, : spec.back] if spec.back else None
    frames = Frames(
        *(keys[:rows], first[:rows], lo[:rows], hi[:rows], fresh[:rows], out[:rows, spec.back :]), old
    )
    return frames, int(done[0])


def unwindow(frames: Frames, how: str, state: PerKey) -> Runs:
    """Samples that no later window can change, aggregated over the windows that cover them."""
    rows, size = frames.values.shape[:2]
    keys, first, ptr = (
        np.empty(2 * rows, np.int64),
        np.empty(2 * rows, np.int64),
        np.empty(2 * rows + 1, np.int64),
    )
    moved = int(state["pending"][frames.keys].sum()) if rows else 0
    out = np.empty((rows * size + moved, *frames.values.shape[2:]), frames.values.dtype)
    values = _c(frames.values)
    count = _call(
        "vs_unwindow",
        *(rows, _c(frames.keys), _c(frames.first), _c(frames.lo), _c(frames.hi), values, size),
        *(width(values[:, 0]), UNWINDOWS.index(how)),
        *(state[name] for name in ("seen", "base", "pending", "final", "acc", "covers")),
        *(keys, first, ptr, out),
    )
    return Runs(keys[:count], first[:count], ptr[: count + 1], out[: ptr[count]])
