"""What a kernel must know beside its data: the parameters, and the layout of the state it carries."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from viewlet.signals.chunks import Events, PerKey, Values

MODES = ("exact", "constant", "last", "step", "linear", "second", "user")
UNWINDOWS = ("sum", "max", "min", "mean")
RULES = ("samples", "sliding", "anew")
NEVER = np.iinfo(np.int64).min  # before every time


@dataclass(frozen=True, slots=True)
class SampleSpec:
    """A grid of beats k * period + offset, and how to fill beats without an active event."""

    period: int
    offset: int
    mode: str
    gap: int  # the interpolation window; -1: unbounded
    constant: Any = 0.0
    function: Callable[..., Any] | None = None

    def state(self, values: Values) -> PerKey:
        """Reference points (newest first) and the next beat of each key."""
        return PerKey(
            refs=((), np.int64, 0),
            times=((2,), np.int64, 0),
            values=((2, *values.shape[1:]), values.dtype, 0),
            beat=((), np.int64, 0),
        )

    def bounds(self, events: Events, state: PerKey) -> tuple[int, int]:
        """How many runs and samples a chunk can yield at most; cheap, and never too small."""
        n, first = len(events), events.firsts()
        ends = events.lasts() if events.end is None else events.end[events.ptr[1:] - 1] - 1
        begin = -(-(first - self.offset) // self.period)
        beat = np.where(state["refs"][events.keys] > 0, state["beat"][events.keys], begin)
        spanned = int(np.maximum((ends - self.offset) // self.period - beat + 1, 0).sum())
        inside = n if events.end is None else int(((events.end - events.start) // self.period + 1).sum())
        if self.mode == "exact":
            return 2 * n, min(spanned, inside)
        if self.gap >= 0:
            return 2 * n, min(spanned, inside + n * (self.gap // self.period + 1))
        return 2 * n, spanned


@dataclass(frozen=True, slots=True)
class WindowSpec:
    """Windows of ``size`` samples at multiples of ``hop``.

    A rule other than ``samples`` asks for their half spectra instead, each slid from the one before or
    computed anew.
    """

    size: int
    hop: int
    zeros: bool
    back: int = 0
    rule: str = "samples"
    reseed: int = 4096

    @property
    def bins(self) -> int:
        """Frequencies per row, 0 where rows are samples."""
        return 0 if self.rule == "samples" else self.size // 2 + 1

    @property
    def before(self) -> int:
        """Samples before a window that its row needs: what the last hop expired."""
        return self.hop if self.rule == "sliding" else self.back

    def state(self, values: Values) -> PerKey:
        """Per key: the next window, the frontier, and the samples that later windows still need."""
        integers = ("seen", "next", "last", "origin", "solid", "carry_tick", "carry_n")
        kept = self.bins if self.rule == "sliding" else 0
        return PerKey(
            **dict.fromkeys(integers, ((), np.int64, 0)),
            previous=((), np.int64, NEVER),
            carry=((self.size + self.before, *values.shape[1:]), values.dtype, 0),
            re=((kept,), np.float64, 0),
            im=((kept,), np.float64, 0),
        )


def filter_state(values: Values, taps: int) -> PerKey:
    """State of a FIR filter: the last ``taps - 1`` samples of each key."""
    return PerKey(
        seen=((), np.int64, 0),
        last=((), np.int64, 0),
        filled=((), np.int64, 0),
        history=((taps - 1, *values.shape[1:]), values.dtype, 0),
    )


def rational_state(values: Values, sections: int, order: int) -> PerKey:
    """State of a cascade of rational filters: the delays of each section, per key."""
    return PerKey(
        seen=((), np.int64, 0),
        last=((), np.int64, 0),
        z=((sections, order, *values.shape[1:]), values.dtype, 0),
    )


def unwindow_state(values: Values, how: str) -> PerKey:
    """State of unwindowing: the ticks that later windows may still change, and for a mean their covers."""
    counted = values.shape[1] if how == "mean" else 0
    return PerKey(
        **dict.fromkeys(("seen", "base", "pending", "final"), ((), np.int64, 0)),
        acc=(values.shape[1:], values.dtype, 0),
        covers=((counted,), np.int64, 0),
    )
