"""Windows of a uniform signal as the user writes them: pipelines over blocks of windows, and the way back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from viewlet.signals import nodes
from viewlet.signals.errors import SignalTypeError
from viewlet.signals.functions import (
    CrossCorrelation,
    RealInverse,
    Times,
    WindowOperation,
    autocorrelation,
    inverse,
    real_part,
)
from viewlet.signals.nodes import Node, Policy
from viewlet.signals.runnable import Runnable
from viewlet.signals.specs import UNWINDOWS

if TYPE_CHECKING:
    from viewlet.signals.query import Clock, Uniform


@dataclass(frozen=True)
class Windows(Runnable):
    """Windows of a uniform signal: rows of a 2-D array, transformed block by block.

    Without ``overlap_add``, ``unwindow`` or ``reduce`` the result has one array per window, at the time of
    the window's last sample.
    """

    node: Node
    clock: Clock
    key: tuple[str, ...]
    time: str
    names: tuple[str, ...]
    signal: Uniform
    size: int
    hop: int

    def map(self, function: Callable[[Any], Any]) -> Windows:
        """Apply a function to blocks of windows (rows); it may change their length."""
        return self._then(function, getattr(function, "__name__", "map"))

    def taper(self, window: Any) -> Windows:
        """Multiply each window by a window function, by name or by its samples."""
        if isinstance(window, str):
            from scipy.signal import get_window

            window = get_window(window, self.size)
        samples = np.asarray(window)
        if samples.shape != (self.size,):
            raise SignalTypeError(f"a taper for windows of {self.size} samples has shape {samples.shape}")
        return self._then(Times(samples), "taper")

    def times(self, vector: Any) -> Windows:
        """Multiply each window by a vector of its length, element by element."""
        return self._then(Times(np.asarray(vector)), "times")

    def fft(self, incremental: bool | None = None) -> Windows:
        """The spectrum of each window, as ``numpy.fft.fft``.

        With a small hop it slides from window to window instead of being computed anew; ``incremental`` says
        so, or forbids it.
        """
        return replace(self, node=nodes.Spectra(self.node, False, incremental))

    def rfft(self, incremental: bool | None = None) -> Windows:
        """The non-negative half of the spectrum of real windows, as ``numpy.fft.rfft``."""
        return replace(self, node=nodes.Spectra(self.node, True, incremental))

    def ifft(self) -> Windows:
        """The inverse of ``fft``: complex windows."""
        return self._then(inverse, "ifft")

    def irfft(self) -> Windows:
        """The inverse of ``rfft``: real windows."""
        return self._then(RealInverse(self.size), "irfft")

    def real(self) -> Windows:
        """The real part of complex windows."""
        return self._then(real_part, "real")

    def autocorrelate(self) -> Windows:
        """r[k] = sum_n x[n + k] conj(x[n]) for k = -(N - 1) .. N - 1: rows of 2 N - 1 values."""
        return self._then(autocorrelation, "autocorrelate")

    def cross_correlate(self, pattern: Any) -> Windows:
        """``numpy.correlate(window, pattern, "full")`` of each window."""
        return self._then(CrossCorrelation(np.asarray(pattern)), "cross_correlate")

    def apply(self, operation: WindowOperation) -> Windows:
        """A window operator with an incremental form; put it directly after ``window``."""
        if not isinstance(self.node, nodes.Window):
            raise SignalTypeError(
                f"{operation.name} is updated from the samples; put it directly after window()"
            )
        node = nodes.FrameUpdate(self.node, operation.recompute, operation.update, operation.name)
        return replace(self, node=node)

    def overlap_add(self) -> Uniform:
        """Lay the windows back on the time axis and add them up where they overlap."""
        return self.unwindow("sum")

    def unwindow(self, how: Literal["sum", "mean", "max", "min"] = "sum") -> Uniform:
        """Lay the windows back on the time axis, each ending at its hop, and aggregate where they overlap.

        Ticks before the first and after the last sample of a key are left out, unless windows changed length.
        """
        if how not in UNWINDOWS:
            raise SignalTypeError(f"cannot unwindow by {how!r}; there are {', '.join(UNWINDOWS)}")
        return replace(self.signal, node=nodes.Unwindow(self.node, how, self.size))

    def reduce(self, function: Callable[[Any], Any]) -> Uniform:
        """One value per window, from a function of rows: a uniform signal of ``hop`` times the period."""
        node = nodes.Reduce(self.node, function, self.hop)
        period = self.signal.period * self.hop
        last = self.signal.offset + (self.size - 1) * self.signal.period
        whole, offset = divmod(last, period)
        shifted = nodes.ShiftTicks(node, whole, period, offset)
        return replace(self.signal, node=shifted, period=period, offset=offset, policy=Policy())

    def _then(self, function: Callable[[Any], Any], label: str) -> Windows:
        return replace(self, node=nodes.FrameMap(self.node, function, label))
