"""Digital filters: what a filter keeps between chunks is explicit, as in the difference equation."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from viewlet.signals.chunks import Chunk, Frames, PerKey, Runs, Values, runs_of_samples
from viewlet.signals.errors import SignalTypeError
from viewlet.signals.kernels import kernels
from viewlet.signals.nodes import Fir, Rational, UserFilter, Window
from viewlet.signals.operators.base import Operator, reserved
from viewlet.signals.operators.frames import Windowing
from viewlet.signals.specs import filter_state, rational_state


class FirFilter(Operator[Runs]):
    """y[n] = sum_j taps[j] x[n - j]: the kernel goes through the spectrum for many taps and long runs."""

    carried = ("state",)

    def __init__(self, node: Fir) -> None:
        taps = np.array(node.taps, np.complex128)
        self.taps = taps if taps.imag.any() else np.ascontiguousarray(taps.real)
        self.skip = node.missing == "skip"
        self.state: PerKey | None = None

    def feed(self, chunk: Runs, side: int) -> Iterable[Chunk]:
        """Filter a chunk; the output has the ticks of the input, or fewer where windows are incomplete."""
        values = chunk.values
        if np.iscomplexobj(self.taps) and values.dtype == np.float64:
            values = values.astype(np.complex128)
        if self.state is None:
            self.state = filter_state(values, len(self.taps))
            self.state.zero = self.zero
        chunk = Runs(chunk.keys, chunk.first, chunk.ptr, values)
        out, lead = self._filtered(chunk, reserved(self.state, chunk.keys))
        result = Runs(chunk.keys, chunk.first, chunk.ptr, out)
        if self.skip and lead.any():
            result = kernels(out).trim(result, lead, chunk.lengths() - lead)
        return (result,) if len(result) else ()

    def _filtered(self, chunk: Runs, state: PerKey) -> tuple[Values, Values]:
        """Kernels have real taps: complex ones are two filters, by their real and their imaginary parts."""
        run = kernels(chunk.values).fir
        if not np.iscomplexobj(self.taps) or chunk.values.dtype == object:
            out, lead = run(chunk, self.taps, state)
            return out, lead
        twin = PerKey(**state.fields)
        twin.load({name: array.copy() for name, array in state.arrays.items()})
        real, lead = run(chunk, np.ascontiguousarray(self.taps.real), twin)
        imaginary, _ = run(chunk, np.ascontiguousarray(self.taps.imag), state)
        return real + 1j * imaginary, lead


class RationalFilter(Operator[Runs]):
    """Infinite impulse response: a gap of g samples advances the state by g zero inputs, in O(log g)."""

    carried = ("state",)

    def __init__(self, node: Rational) -> None:
        self.b, self.a = np.array(node.b), np.array(node.a)
        self.powers = transition_powers(self.b, self.a)
        self.state: PerKey | None = None

    def feed(self, chunk: Runs, side: int) -> Iterable[Chunk]:
        """Filter a chunk."""
        if self.state is None:
            self.state = rational_state(chunk.values, len(self.b), self.b.shape[1] - 1)
        run = kernels(chunk.values).rational
        values = run(chunk, self.b, self.a, self.powers, reserved(self.state, chunk.keys))
        return (Runs(chunk.keys, chunk.first, chunk.ptr, values),)


def transition_powers(b: Values, a: Values) -> Values:
    """M^(2^j) for j < 63, where z' = M z is one step of the cascade on a zero input."""
    sections, order = len(b), b.shape[1] - 1
    total = sections * order
    powers = np.zeros((63, total, total))
    for column in range(total):
        z = np.zeros((sections, order))
        z.flat[column] = 1.0
        x = 0.0
        for s in range(sections):
            y = b[s, 0] * x + z[s, 0]
            z[s] = b[s, 1:] * x - a[s, 1:] * y + np.append(z[s, 1:], 0.0)
            x = y
        powers[0, :, column] = z.flat
    with np.errstate(all="ignore"):  # the powers of an unstable filter overflow, as its output would
        for level in range(1, 63):
            powers[level] = powers[level - 1] @ powers[level - 1]
    return powers


class CustomFilter(Operator[Runs]):
    """A user's filter over the last inputs and its own last outputs.

    ``compute`` sees rows: without feedback all windows of a chunk at once, with feedback one step of all
    keys at once.
    """

    carried = ("windows", "outputs")

    def __init__(self, node: UserFilter) -> None:
        self.node = node
        self.windows = Windowing(Window(node.input, node.forward, 1, node.missing))
        self.outputs: PerKey | None = None

    def feed(self, chunk: Runs, side: int) -> Iterable[Chunk]:
        """One output per input whose window may be computed."""
        for frames in self.windows.feed(chunk, 0):
            if not isinstance(frames, Frames):
                continue
            last = frames.first + self.node.forward - 1
            rows = np.flatnonzero(frames.hi == last)  # windows that end in a gap have no input to answer
            values = self._computed(frames, rows)
            if len(rows):
                yield runs_of_samples(frames.keys[rows], last[rows], values)

    def _computed(self, frames: Frames, rows: Values) -> Values:
        node, forward = self.node, frames.values[rows]
        if node.backward == 0:
            return self._checked(node.compute(forward, forward[:, :0]), len(rows))
        if self.outputs is None:
            self.outputs = PerKey(y=((node.backward, *forward.shape[2:]), forward.dtype, 0))
        y = reserved(self.outputs, frames.keys)["y"]
        keys, fresh = frames.keys[rows], frames.fresh[rows]
        out = np.empty((len(rows), *forward.shape[2:]), forward.dtype)
        order = np.argsort(keys, kind="stable")
        begin = np.flatnonzero(np.concatenate(([True], np.diff(keys[order]) != 0))) if len(rows) else order
        rank = np.empty(len(rows), np.int64)
        rank[order] = np.arange(len(rows)) - np.repeat(begin, np.diff(np.append(begin, len(rows))))
        for step in range(int(rank.max(initial=-1)) + 1):
            now = np.flatnonzero(rank == step)
            y[keys[now][fresh[now] == 1]] = 0
            result = self._checked(node.compute(forward[now], y[keys[now]]), len(now))
            y[keys[now], :-1] = y[keys[now], 1:]
            y[keys[now], -1] = out[now] = result
        return out

    def _checked(self, result: Values, rows: int) -> Values:
        if len(result) != rows:
            raise SignalTypeError(
                f"a filter gave {len(result)} outputs for {rows} windows; it must give one each"
            )
        return np.asarray(result)

    def snapshot(self) -> dict[str, object]:
        """The windows' own state, and the last outputs."""
        return {"windows": self.windows.snapshot(), "outputs": self.outputs}

    def restore(self, snapshot: dict[str, object]) -> None:
        """Go on from a snapshot."""
        self.windows.restore(snapshot["windows"])  # type: ignore[arg-type]
        self.outputs = snapshot["outputs"]  # type: ignore[assignment]
