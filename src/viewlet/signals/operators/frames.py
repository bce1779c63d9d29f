"""Windows of samples, pipelines over them, and the way back to the time axis."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np

from viewlet.signals.chunks import Chunk, Frames, Ints, PerKey, Runs, Values, runs_of_samples
from viewlet.signals.errors import SignalTypeError
from viewlet.signals.kernels import kernels
from viewlet.signals.memory import Strip
from viewlet.signals.nodes import FrameMap, FrameUpdate, Reduce, Spectra, Unwindow, Window
from viewlet.signals.operators.base import Operator, reserved
from viewlet.signals.specs import NEVER, WindowSpec, unwindow_state

TILE = 1 << 18  # samples per block of windows: few enough for the cache, enough to outweigh the calls
SPECTRAL_TILE = 1 << 17  # the same where no array of windows exists, and the second-level cache can do
INCREMENTAL_RATIO = 64  # slide the spectrum when hop * ratio <= size (benchmarks/signals.py)


class Windowing(Operator[Runs]):
    """Samples to windows, in blocks that fit the cache."""

    carried = ("state", "spec")

    def __init__(self, node: Window, period: int = 1, offset: int = 0, back: int = 0) -> None:
        self.period, self.offset = period, offset
        self.tile = TILE
        self.spec = WindowSpec(node.size, node.hop, node.missing == "zero", back)
        self.state: PerKey | None = None

    def feed(self, chunk: Runs, side: int) -> Iterable[Chunk]:
        """The windows that a chunk completes."""
        if self.state is None:
            self.state = self.spec.state(chunk.values)
            self.state.zero = self.zero
        reserved(self.state, chunk.keys)
        if len(chunk):
            for part in _blocks(chunk, self.tile):
                yield from self._windows(part)

    def advance(self, time: int) -> Iterable[Chunk]:
        """Windows that end before ``time`` will get no more samples."""
        return self._close(-((self.offset - time) // self.period))

    def flush(self) -> Iterable[Chunk]:
        """Windows that were begun are completed with zeros, where missing samples are zero."""
        if self.state is None or not self.spec.zeros:
            return ()
        frontier = int(self.state["last"].max(initial=0)) + self.spec.size + self.spec.hop
        return self._close(frontier)

    def horizon(self, time: int) -> int:
        """A window reaches back by its size."""
        return time if time == NEVER else time - (self.spec.size + self.spec.hop) * self.period

    def _close(self, tick: int) -> Iterable[Chunk]:
        """No sample before ``tick`` will come: feed runs of no samples there."""
        state = self.state
        if state is None or not self.spec.zeros:
            return
        seen = np.flatnonzero(state["seen"])
        keys = seen[state["next"][seen] <= state["last"][seen]]
        nothing = state["carry"][:0, 0]
        for part in np.array_split(keys, max(1, len(keys) * self.spec.size // self.tile)):
            ptr = np.zeros(len(part) + 1, np.int64)
            yield from self._windows(Runs(part, np.full(len(part), tick), ptr, nothing))

    def _windows(self, runs: Runs) -> Iterator[Chunk]:
        if self.state is None:
            return
        spec, begin = self.spec, 0
        need = runs.lengths() // spec.hop + (spec.size // spec.hop + 2)
        most, enough = int(need.sum()), max(64, 4 * TILE // spec.size)
        while begin < len(runs.keys):
            room = most if most <= enough else max(int(need.max()), min(int(need[begin:].sum()), enough))
            rest = (
                runs
                if begin == 0
                else Runs(runs.keys[begin:], runs.first[begin:], runs.ptr[begin:], runs.values)
            )
            frames, done = kernels(runs.values).window(rest, spec, self.state, room)
            begin += done
            if len(frames):
                yield frames


def _blocks(chunk: Runs, tile: int) -> Iterator[Runs]:
    """The same runs in blocks of about ``tile`` samples; longer runs are cut."""
    lengths = chunk.lengths()
    if len(chunk) <= tile:
        yield chunk
        return
    pieces = -(-lengths // tile)
    index = np.arange(pieces.sum()) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    keys, first = np.repeat(chunk.keys, pieces), np.repeat(chunk.first, pieces) + index * tile
    begin = np.repeat(chunk.ptr[:-1], pieces) + index * tile
    ptr = np.append(begin, len(chunk))
    low = 0
    while low < len(keys):
        high = max(low + 1, int(np.searchsorted(ptr, ptr[low] + tile, side="right")) - 1)
        values = chunk.values[ptr[low] : ptr[high]]
        yield Runs(keys[low:high], first[low:high], ptr[low : high + 1] - ptr[low], values)
        low = high


class FrameFunction(Operator[Frames]):
    """A function of blocks of windows."""

    def __init__(self, node: FrameMap) -> None:
        self.node = node

    def feed(self, chunk: Frames, side: int) -> Iterable[Chunk]:
        """Replace the windows by the function's rows."""
        return (_replaced(chunk, self.node.function(chunk.values), self.node.label),)


def _replaced(chunk: Frames, values: Values, label: str) -> Frames:
    values = np.asarray(values)
    if values.ndim < 2 or len(values) != len(chunk):
        raise SignalTypeError(
            f"{label} gave an array of shape {values.shape} for {len(chunk)} windows; it must give one row "
            f"each (to get one number per window use reduce)"
        )
    if values.dtype.kind in "biuf":
        values = values.astype(np.float64, copy=False)
    return Frames(chunk.keys, chunk.first, chunk.lo, chunk.hi, chunk.fresh, values, chunk.old)


class FrameIncrement(Operator[Frames]):
    """A user's window operator: updated by what left and what came, recomputed after a break."""

    carried = ("outputs",)

    def __init__(self, node: FrameUpdate, hop: int) -> None:
        self.node, self.hop = node, hop
        self.outputs: PerKey | None = None

    def feed(self, chunk: Frames, side: int) -> Iterable[Chunk]:
        """Windows of one key in sequence; all keys of a step together."""
        node = self.node
        if chunk.old is None:
            raise SignalTypeError(
                f"{node.label} needs the windows themselves; put it directly after window()"
            )
        rank = _rank_in_key(chunk.keys)
        results: Values | None = None
        for step in range(int(rank.max(initial=-1)) + 1):
            rows = np.flatnonzero(rank == step)
            fresh = rows[(chunk.fresh[rows] == 1) | (self.outputs is None)]
            moved = np.setdiff1d(rows, fresh, assume_unique=True)
            if len(fresh):
                out = np.asarray(node.recompute(chunk.values[fresh]))
                results = self._store(results, chunk, fresh, out)
            if len(moved) and self.outputs is not None:
                before = self.outputs["y"][chunk.keys[moved]]
                new = chunk.values[moved][:, -self.hop :]
                results = self._store(
                    results, chunk, moved, np.asarray(node.update(before, chunk.old[moved], new))
                )
        return () if results is None else (_replaced(chunk, results, node.label),)

    def _store(self, results: Values | None, chunk: Frames, rows: Ints, out: Values) -> Values:
        if len(out) != len(rows):
            raise SignalTypeError(f"{self.node.label} gave {len(out)} rows for {len(rows)} windows")
        if self.outputs is None:
            self.outputs = PerKey(y=(out.shape[1:], out.dtype, 0))
        reserved(self.outputs, chunk.keys)["y"][chunk.keys[rows]] = out
        if results is None:
            results = np.empty((len(chunk), *out.shape[1:]), out.dtype)
        results[rows] = out
        return results


def _rank_in_key(keys: Ints) -> Ints:
    """The how-manieth row of its key each row is."""
    order = np.argsort(keys, kind="stable")
    begin = np.flatnonzero(np.concatenate(([True], np.diff(keys[order]) != 0))) if len(keys) else order
    rank = np.empty(len(keys), np.int64)
    rank[order] = np.arange(len(keys)) - np.repeat(begin, np.diff(np.append(begin, len(keys))))
    return rank


class Spectrum(Operator[Frames]):
    """The discrete Fourier transform of each window, all windows of a block in one call."""

    def __init__(self, node: Spectra) -> None:
        self.half = node.half

    def feed(self, chunk: Frames, side: int) -> Iterable[Chunk]:
        """Transform a block."""
        if self.half and chunk.values.dtype == np.complex128:
            raise SignalTypeError("rfft needs real samples; use fft for complex ones")
        run = kernels(chunk.values)
        spectra = run.rfft(chunk.values) if self.half else run.fft(chunk.values)
        return (_replaced(chunk, spectra, "fft"),)


class WindowSpectrum(Windowing):
    """Window and transform in one: nothing else sees the windows, so they need not exist as arrays.

    Real windows whose length the kernels know are transformed where they lie in the input. With ``sliding``
    each spectrum comes from the previous one, X' = (X + new - old) e^(2 pi i k / N), at the cost of
    hop * size per window instead of size * log(size), and is seeded anew every ``reseed`` windows so that
    rounding does not build up; complex and multichannel samples are transformed from scratch.
    """

    def __init__(self, window: Window, node: Spectra, period: int, offset: int, sliding: bool) -> None:
        super().__init__(window, period, offset)
        self.half, self.sliding = node.half, sliding
        self.transform = Spectrum(node)

    def feed(self, chunk: Runs, side: int) -> Iterable[Chunk]:
        """Spectra of the windows that a chunk completes."""
        if self.state is None:
            self.spec = self._spec(chunk.values)
            self.state = self.spec.state(chunk.values)
        self.tile = TILE if self.spec.rule == "samples" else SPECTRAL_TILE
        reserved(self.state, chunk.keys)
        if len(chunk.keys) == 1 and self.spec.size == self.spec.hop and self.spec.rule != "sliding":
            frames, chunk = self._in_place(chunk, self.state)
            if frames is not None:
                yield from self.transform.feed(frames, 0)
        yield from super().feed(chunk, side)

    def _spec(self, values: Values) -> WindowSpec:
        """How spectra of such samples are made."""
        spec = self.spec
        if values.dtype != np.float64 or values.ndim != 1:
            return spec
        if self.sliding:
            return replace(spec, rule="sliding")
        anew = self.half and kernels(values).transforms(spec.size)
        return replace(spec, rule="anew") if anew else spec

    def _in_place(self, chunk: Runs, state: PerKey) -> tuple[Frames | None, Runs]:
        """Tumbling windows of a single run, up to the last that is complete; and the rest of the run."""
        key, first, size = int(chunk.keys[0]), int(chunk.first[0]), self.spec.size
        count = len(chunk) // size
        begun = state["seen"][key] and (state["next"][key] != first or state["last"][key] != first - 1)
        if first % size or begun or count == 0:
            return None, chunk
        starts = first + size * np.arange(count)
        fresh = np.zeros(count, np.int64)
        fresh[0] = state["previous"][key] != first - size or not state["seen"][key]
        if not state["seen"][key]:
            state["origin"][key] = state["solid"][key] = first
        done = count * size
        frames = Frames(
            *(np.full(count, key), starts, starts, starts + size - 1, fresh),
            chunk.values[:done].reshape(count, size, *chunk.values.shape[1:]),
        )
        state["seen"][key], state["next"][key], state["last"][key] = 1, first + done, first + done - 1
        state["previous"][key] = starts[-1]
        state["carry_tick"][key], state["carry_n"][key] = first + done, 0
        rest = Runs(chunk.keys, chunk.first + done, chunk.ptr - done, chunk.values[done:])
        rest.ptr[0] = 0
        return frames, rest

    def _windows(self, runs: Runs) -> Iterator[Chunk]:
        for frames in super()._windows(runs):
            if not isinstance(frames, Frames):
                continue
            if self.spec.rule == "samples":
                yield from self.transform.feed(frames, 0)
            elif self.half:
                yield frames
            else:
                mirrored = frames.values[:, 1 : (self.spec.size + 1) // 2][:, ::-1].conj()
                yield _replaced(frames, np.concatenate((frames.values, mirrored), axis=1), "fft")


class Unwindowing(Operator[Frames]):
    """Windows back to samples; a tick leaves when no later window covers it."""

    carried = ("state",)

    def __init__(self, node: Unwindow) -> None:
        self.how, self.size, self.strip = node.how, node.size, Strip()
        self.state: PerKey | None = None

    def feed(self, chunk: Frames, side: int) -> Iterable[Chunk]:
        """Add windows; the last sample of each lies at its window's last tick."""
        if chunk.values.dtype.kind == "c" and self.how in ("max", "min"):
            raise SignalTypeError(f"complex samples have no {self.how}; take real() or abs first")
        produced = chunk.values.shape[1]
        if produced != self.size:
            first = chunk.first + self.size - produced
            last = first + produced - 1
            chunk = Frames(chunk.keys, first, first, last, chunk.fresh, chunk.values)
        if self.state is None:
            self.state = unwindow_state(chunk.values, self.how)
        self.state.reserve(self.spaces.most())
        runs = kernels(chunk.values).unwindow(chunk, self.how, self.state, self.strip)
        return (runs,) if len(runs) else ()

    def flush(self) -> Iterable[Chunk]:
        """Emit what waits, up to the last real sample of each key."""
        state = self.state
        if state is None:
            return ()
        groups, size = state["acc"].shape[:2]
        count = np.minimum(state["pending"], state["final"] - state["base"] + 1)
        runs = self._waiting(state["acc"].reshape(groups * size, *state["acc"].shape[2:]), state, count)
        if self.how == "mean":
            covers = self._waiting(state["covers"].ravel(), state, count).values
            runs.values = runs.values * (1.0 / covers.reshape(-1, *(1,) * (runs.values.ndim - 1)))
        state["pending"][:] = 0
        return (runs,) if len(runs) else ()

    def _waiting(self, ticks: Values, state: PerKey, count: Ints) -> Runs:
        """The first ``count`` of the ``size`` ticks that each group has."""
        groups = np.arange(len(count))
        ptr = np.arange(len(count) + 1) * state["acc"].shape[1]
        runs: Runs = kernels(ticks).trim(Runs(groups, state["base"], ptr, ticks), np.zeros_like(count), count)
        return runs


class SpectralUnwindowing(Unwindowing):
    """Inverse transform and unwindowing in one, for real windows: again no array of them exists."""

    def feed(self, chunk: Frames, side: int) -> Iterable[Chunk]:
        """Add the windows of half spectra."""
        if self.state is None:
            self.state = unwindow_state(np.empty((0, self.size, *chunk.values.shape[2:])), self.how)
        self.state.reserve(self.spaces.most())
        runs = kernels(chunk.values).unwindow_spectra(chunk, self.size, self.how, self.state, self.strip)
        return (runs,) if len(runs) else ()


class Reduction(Operator[Frames]):
    """One sample per window."""

    def __init__(self, node: Reduce) -> None:
        self.node = node

    def feed(self, chunk: Frames, side: int) -> Iterable[Chunk]:
        """Window k of the grid becomes tick k."""
        values = np.asarray(self.node.function(chunk.values))
        if len(values) != len(chunk):
            raise SignalTypeError(
                f"reduce gave {len(values)} values for {len(chunk)} windows; it must give one each"
            )
        if values.dtype.kind in "biuf":
            values = values.astype(np.float64, copy=False)
        return (runs_of_samples(chunk.keys, chunk.first // self.node.hop, values),)
