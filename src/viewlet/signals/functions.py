"""Small functions that queries are made of: named, and able to travel to other processes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from viewlet.signals.expressions import Columns
from viewlet.signals.kernels import kernels


class Function:
    """A value that is a function of time: the heterogeneous functional payload.

    >>> (Function(lambda t: t) + Function(lambda t: 1.0))(3)
    4.0
    """

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self.function = function

    def __call__(self, time: Any) -> Any:
        """The value at a time."""
        return self.function(time)

    def __add__(self, other: Function) -> Function:
        return Function(lambda t: self(t) + other(t))

    def __sub__(self, other: Function) -> Function:
        return Function(lambda t: self(t) - other(t))

    def __mul__(self, other: Any) -> Function:
        return Function(lambda t: self(t) * (other(t) if isinstance(other, Function) else other))


@dataclass(frozen=True)
class WindowOperation:
    """A window operator: ``recompute(windows)``, and ``update(outputs, old, new)`` for one hop."""

    recompute: Callable[[Any], Any]
    update: Callable[[Any, Any, Any], Any]
    name: str = "operation"


def window_op(update: Callable[[Any, Any, Any], Any]) -> Callable[[Callable[[Any], Any]], WindowOperation]:
    """Make a window operator of a function of windows and its incremental form.

    >>> @window_op(update=lambda total, old, new: total + (new - old).sum(1, keepdims=True))
    ... def total(windows):
    ...     return windows.sum(1, keepdims=True)
    >>> total.name
    'total'
    """
    return lambda recompute: WindowOperation(recompute, update, recompute.__name__)


@dataclass(frozen=True)
class Scale:
    """Multiply by a number."""

    factor: complex

    def __call__(self, values: Any) -> Any:
        """Apply to arrays."""
        return values * self.factor


@dataclass(frozen=True)
class Offset:
    """Add a number."""

    amount: Any

    def __call__(self, values: Any) -> Any:
        """Apply to arrays."""
        return values + self.amount


@dataclass(frozen=True, eq=False)
class Times:
    """Multiply windows by a vector, element by element."""

    vector: Any

    def __call__(self, windows: Any) -> Any:
        """Apply to arrays."""
        return windows * self.vector.reshape(-1, *(1,) * (windows.ndim - 2))


@dataclass(frozen=True)
class RealInverse:
    """The inverse transform of half spectra."""

    size: int

    def __call__(self, windows: Any) -> Any:
        """Apply to arrays."""
        return kernels(windows).irfft(windows, self.size)


@dataclass(frozen=True, eq=False)
class CrossCorrelation:
    """Correlate windows with a pattern."""

    pattern: Any

    def __call__(self, windows: Any) -> Any:
        """Apply to arrays."""
        return _correlation(windows, np.broadcast_to(self.pattern, (len(windows), len(self.pattern))))


@dataclass(frozen=True)
class CallEach:
    """Call each event's own function at its times."""

    name: str

    def __call__(self, times: Any, columns: Any) -> Any:
        """Apply to arrays."""
        return np.array([function(time) for function, time in zip(columns[self.name], times, strict=True)])


@dataclass(frozen=True)
class Both:
    """Combine the values of two signals whose columns are prefixed l. and r."""

    op: Callable[[Any, Any], Any]
    left: Callable[..., Any]
    right: Callable[..., Any]

    def __call__(self, times: Any, columns: Any) -> Any:
        """Apply to arrays."""
        sides = [
            {name[2:]: columns[name] for name in columns if name.startswith(prefix)}
            for prefix in ("l.", "r.")
        ]
        return self.op(self.left(times, Columns(sides[0])), self.right(times, Columns(sides[1])))


@dataclass(frozen=True)
class PairWithOne:
    """Each value with a one beside it, so that missing samples, zero, can be told from present ones."""

    def __call__(self, values: Any) -> Any:
        """Apply to arrays."""
        return np.stack((values, np.ones_like(values)), axis=1)


def inverse(windows: Any) -> Any:
    """The inverse transform of spectra."""
    return kernels(windows).ifft(windows)


def real_part(windows: Any) -> Any:
    """The real part, as an array of its own."""
    return np.ascontiguousarray(windows.real)


def autocorrelation(windows: Any) -> Any:
    """Each window correlated with itself."""
    return _correlation(windows, windows)


def _correlation(x: Any, y: Any) -> Any:
    """numpy.correlate(x, y, "full") of each pair of rows, through the spectrum."""
    from scipy import fft

    size = x.shape[1] + y.shape[1] - 1
    length = fft.next_fast_len(size)
    product = fft.fft(x, length, axis=1) * np.conj(fft.fft(y, length, axis=1))
    result = np.roll(fft.ifft(product, axis=1), y.shape[1] - 1, axis=1)[:, :size]
    return result if np.iscomplexobj(x) or np.iscomplexobj(y) else np.ascontiguousarray(result.real)


def _masked(fill: float, reduce: Callable[..., Any]) -> Callable[[Any], Any]:
    def reduced(windows: Any) -> Any:
        return reduce(np.where(windows[:, :, 1] == 1, windows[:, :, 0], fill), axis=1)

    return reduced


REDUCTIONS: dict[str, Callable[[Any], Any]] = {
    "sum": lambda windows: windows.sum(axis=1),
    "energy": lambda windows: (windows * np.conj(windows)).real.sum(axis=1),
    "power": lambda windows: (windows * np.conj(windows)).real.mean(axis=1),
    "mean": lambda windows: windows[:, :, 0].sum(axis=1) / windows[:, :, 1].sum(axis=1),
    "min": _masked(np.inf, np.min),
    "max": _masked(-np.inf, np.max),
}
