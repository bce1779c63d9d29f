"""Queries as the user writes them: Stream, Signal, Uniform; see also :mod:`.windows` and :mod:`.joins`.

Each class offers only what makes sense for its form, so a type checker refuses ``fft`` on an irregular
signal. Queries are immutable values; :mod:`.session` runs them, offline and online, from the same nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias, TypeVar

import numpy as np

from viewlet.signals import nodes
from viewlet.signals.clock import Duration, parse_duration
from viewlet.signals.errors import SignalTypeError, UnitError
from viewlet.signals.functions import (
    REDUCTIONS,
    CallEach,
    Offset,
    PairWithOne,
    Scale,
)
from viewlet.signals.nodes import Expression, Node, Payload, Policy
from viewlet.signals.operators.temporal import AGGREGATES
from viewlet.signals.runnable import Runnable
from viewlet.signals.windows import Windows

Self = TypeVar("Self", bound="Stream")
Interpolation: TypeAlias = (
    "Literal['constant', 'last', 'step', 'linear', 'second'] | Callable[..., Any] | None"
)
Missing: TypeAlias = Literal["zero", "skip"]
Clock: TypeAlias = "str | None"  # "ticks", "ns", or None while no duration was given


@dataclass(frozen=True)
class Stream(Runnable):
    """Events with lifetimes [start, end) and columns, grouped by key.

    Two events of one key may be active at once. ``signal`` asserts that this never happens.
    """

    node: Node
    clock: Clock
    key: tuple[str, ...]
    time: str

    # -- relational ------------------------------------------------------------------------------

    def where(self: Self, predicate: Expression) -> Self:
        """Keep events for which a SQL condition, or a function of the columns, is true.

        On a uniform signal a sample that fails becomes a missing sample.
        """
        names = self.names if isinstance(self, Signal) else ()
        return replace(self, node=nodes.Where(self.node, predicate, names))

    def select(self, *kept: str, **columns: Expression) -> Stream:
        """New columns: ``kept`` as they are, others by SQL expressions or functions of the columns."""
        pairs = tuple((name, name) for name in kept) + tuple(columns.items())
        if not pairs:
            raise SignalTypeError("select needs at least one column")
        self._check_names(columns)
        return self._stream(nodes.Select(self._events(), pairs))

    def group(self, *by: str) -> Stream:
        """New keys from columns. Events wait until time has passed them, since old keys come unordered."""
        if not by:
            raise SignalTypeError("group needs at least one column")
        return Stream(nodes.Group(self._events(), by), self.clock, by, self.time)

    def union(self, other: Stream) -> Stream:
        """The events of both streams; a stream again, since two signals may overlap."""
        clock = common_clock(self, other)
        return Stream(nodes.Union(self._events(), other._events()), clock, self.key, self.time)

    def join(self, other: Stream, on: Mapping[str, str] | Sequence[str] = ()) -> Stream:
        """Pairs of events of equal key, and equal ``on`` columns, while both are active."""
        pairs = tuple(on.items()) if isinstance(on, Mapping) else tuple((name, name) for name in on)
        clock = common_clock(self, other)
        return Stream(nodes.Join(self._events(), other._events(), pairs), clock, self.key, self.time)

    def lookup(self, reference: Any, on: str, to: str | None = None, keep: bool = False) -> Stream:
        """Add the columns of a table's row: an Arrow table, or anything with ``to_arrow`` such as a view.

        The reference is read anew for every batch, so a maintained view gives its current content. Events
        without a row are dropped, or with ``keep`` get NULLs.
        """
        return self._stream(nodes.Lookup(self._events(), reference, on, to or on, keep))

    # -- lifetimes ---------------------------------------------------------------------------------

    def shift(self: Self, by: Duration) -> Self:
        """Delay events, or advance them if ``by`` is a negative integer."""
        ticks, clock = self._ticks(by)
        return replace(self, node=nodes.Lifetime(self.node, shift=ticks), clock=clock)

    def lasting(self, duration: Duration) -> Stream:
        """Give every event the same duration."""
        ticks, clock = self._positive(duration, "a duration")
        return self._stream(nodes.Lifetime(self._events(), duration=ticks), clock)

    def extend(self, by: Duration) -> Stream:
        """Let every event last longer."""
        ticks, clock = self._ticks(by)
        return self._stream(nodes.Lifetime(self._events(), extend=ticks), clock)

    def clip(self, longest: Duration) -> Stream:
        """Let no event last longer than this."""
        ticks, clock = self._positive(longest, "a limit")
        return self._stream(nodes.Lifetime(self._events(), limit=ticks), clock)

    def until_next(self) -> Stream:
        """Let every event end where the next of its key starts: readings become a step signal."""
        return self._stream(nodes.UntilNext(self._events()))

    def hopping(self, size: Duration, hop: Duration, offset: Duration = 0) -> Stream:
        """Lifetimes such that at each grid point exactly the events of the last ``size`` are active."""
        ticks, clock = self._positive(size, "a window size")
        step, _ = self._positive(hop, "a hop", clock)
        return self._stream(nodes.Hopping(self._events(), ticks, step, self._ticks(offset, clock)[0]), clock)

    def tumbling(self, size: Duration, offset: Duration = 0) -> Stream:
        """Hopping windows that do not overlap."""
        return self.hopping(size, size, offset)

    def sessions(self, timeout: Duration) -> Stream:
        """Events less than ``timeout`` apart get one common lifetime; each session leaves once, when over."""
        ticks, clock = self._positive(timeout, "a timeout")
        return self._stream(nodes.Sessions(self._events(), ticks), clock)

    # -- to signals -----------------------------------------------------------------------------------

    def aggregate(self, **aggregates: Any) -> Signal:
        """Aggregates over the events active at each moment; never overlapping, hence a signal.

        ``total="sum(temp)"``, ``n="count(*)"``, or ``spread=(numpy.ptp, "temp")``. Functions: count, sum,
        avg, min, max, energy, power.
        """
        self._check_names(aggregates)
        parsed = tuple((name, *_parse_aggregate(spec)) for name, spec in aggregates.items())
        if not parsed:
            raise SignalTypeError("aggregate needs at least one aggregate, as in n='count(*)'")
        node = nodes.Aggregate(self._events(), parsed)
        return Signal(node, self.clock, self.key, self.time, tuple(aggregates), None, None)

    def signal(self, *value: str, payload: Payload | None = None) -> Signal:
        """Assert that at most one event of each key is active at any time; a violation raises."""
        if not value:
            raise SignalTypeError("signal needs the columns that hold the value")
        node = nodes.AsSignal(self._events(), value)
        return Signal(node, self.clock, self.key, self.time, value, payload, None)

    # -- helpers -----------------------------------------------------------------------------------------

    def _check_names(self, names: Mapping[str, Any]) -> None:
        taken = [name for name in names if name in (*self.key, self.time, "end")]
        if taken:
            raise SignalTypeError(
                f"{taken[0]!r} names the key, the time or the end of events; choose another name"
            )

    def _events(self) -> Node:
        return self.node

    def _stream(self, node: Node, clock: Clock = None) -> Stream:
        return Stream(node, clock or self.clock, self.key, self.time)

    def _ticks(self, duration: Duration, clock: Clock = None) -> tuple[int, Clock]:
        """A duration in this query's clock (or the given one), and the clock it implies."""
        clock = clock or self.clock
        if isinstance(duration, str):
            ticks, wanted = parse_duration(duration), "ns"
        elif isinstance(duration, int | np.integer) and not isinstance(duration, bool):
            ticks, wanted = int(duration), "ticks"
        else:
            raise UnitError(f"{duration!r} is no duration; give an integer or a string such as '100ms'")
        if ticks == 0:
            return 0, clock
        if clock not in (None, wanted):
            raise UnitError(
                f"{duration!r} mixes units: this query's durations so far are "
                f"{'strings such as 100ms' if clock == 'ns' else 'integers in units of the time column'}"
            )
        return ticks, wanted

    def _positive(self, duration: Duration, what: str, clock: Clock = None) -> tuple[int, Clock]:
        ticks, clock = self._ticks(duration, clock)
        if ticks <= 0:
            raise SignalTypeError(f"{what} must be positive, not {duration!r}")
        return ticks, clock


@dataclass(frozen=True)
class Signal(Stream):
    """Events of which at most one per key is active at any time, with a value; times are irregular.

    ``function`` computes the value from time and columns (homogeneous functional payloads); without one the
    value is the column ``names``, or several of them as channels.
    """

    names: tuple[str, ...]
    payload: Payload | None
    function: Callable[..., Any] | None

    def map(self: Any, function: Callable[[Any], Any]) -> Any:
        """Apply a function to arrays of values; it must give one value per value."""
        self._plain("map")
        return replace(self, node=nodes.MapValues(self.node, function, self.names))

    def scale(self: Any, factor: complex) -> Any:
        """Multiply every value by a number."""
        if self.function is not None:
            inner = self.function
            return replace(self, function=lambda t, e: inner(t, e) * factor)
        return self.map(Scale(factor))

    def with_function(self, function: Callable[..., Any]) -> Signal:
        """Say how the value follows from times and columns: ``function(t, e)`` on arrays, ``e.column``.

        Nothing is computed until the signal is sampled.
        """
        return replace(self, function=function)

    def functions(self) -> Signal:
        """Say that each event's value is itself a function of time (see :class:`Function`)."""
        (name,) = self.names
        return replace(self, function=CallEach(name))

    def sample(
        self,
        period: Duration,
        offset: Duration = 0,
        interpolate: Interpolation = None,
        max_gap: Duration | None = None,
        duplicates: Literal["error", "first", "last"] = "error",
        constant: Any = 0.0,
    ) -> Uniform:
        """Values at the times k * period + offset, k any integer.

        A beat with an active event takes its value. Others are interpolated between the reference points
        around them, if these are no further apart than ``max_gap``: ``constant``, ``step`` (the earlier
        point's value), ``linear``, ``second`` (the parabola through the two earlier points and the next), a
        function (t, t0, v0, t1, v1) of arrays; ``last`` holds the last value for up to ``max_gap``, also
        after the last event. Nothing is emitted before the first or (but for ``last``) after the last event.

        Interpolation answers for the past: an online result comes when the next event of its key does.
        """
        ticks, clock = self._positive(period, "a period")
        gap = -1 if max_gap is None else self._positive(max_gap, "max_gap", clock)[0]
        policy = _policy(interpolate, gap, constant)
        if self.function is not None and policy.mode != "exact":
            raise SignalTypeError(
                "a functional signal has a value at every time; sample it without interpolation"
            )
        beat = self._ticks(offset, clock)[0] % ticks
        node = self._events()
        if duplicates in ("first", "last"):
            node = nodes.Deduplicate(node, duplicates)
        elif duplicates != "error":
            raise SignalTypeError(f"duplicates must be 'error', 'first' or 'last', not {duplicates!r}")
        sampled = nodes.Sample(node, ticks, beat, policy, self.names, self.function)
        names = self.names if self.function is None else ("value",)
        return Uniform(sampled, clock, self.key, self.time, names, self.payload, None, ticks, beat, policy)

    def __add__(self, other: Signal | complex) -> Any:
        return self._combined(other, "+")

    def __sub__(self, other: Signal | complex) -> Any:
        return self._combined(other, "-")

    def __mul__(self, other: Signal | complex) -> Any:
        return self._combined(other, "*")

    __rmul__ = __mul__
    __radd__ = __add__

    def _combined(self, other: Signal | complex, op: str) -> Any:
        if isinstance(other, Signal):
            from viewlet.signals.joins import join

            return join(self, other, op)
        if op == "*":
            return self.scale(other)
        return self.map(Offset(other if op == "+" else -other))

    def _plain(self, what: str) -> None:
        if self.function is not None:
            raise SignalTypeError(f"{what} on a functional signal would fix its values; sample it first")


@dataclass(frozen=True)
class Uniform(Signal):
    """Point events at k * period + offset; some may be missing."""

    period: int
    offset: int
    policy: Policy

    def shift(self, by: Duration) -> Uniform:
        """Delay (or advance) the signal; the grid moves along."""
        ticks, clock = self._ticks(by)
        whole, offset = divmod(self.offset + ticks, self.period)
        node = nodes.ShiftTicks(self.node, whole, self.period, offset)
        return replace(self, node=node, offset=offset, clock=clock)

    # -- rates ---------------------------------------------------------------------------------------

    def downsample(self, factor: int) -> Uniform:
        """Keep the samples whose tick is a multiple of ``factor``."""
        _at_least_one(factor, "a factor")
        return replace(self, node=nodes.Downsample(self.node, factor), period=self.period * factor)

    def upsample(
        self, factor: int, interpolate: Interpolation = None, max_gap: Duration | None = None
    ) -> Uniform:
        """Samples ``factor`` times as often; by the signal's own interpolation unless another is given."""
        _at_least_one(factor, "a factor")
        if self.period % factor:
            raise SignalTypeError(f"period {self.period} is not divisible by {factor}; use resample")
        return self._resampled(self.period // factor, self.offset, self._policy_or(interpolate, max_gap))

    def resample(
        self,
        period: Duration,
        offset: Duration = 0,
        interpolate: Interpolation = None,
        max_gap: Duration | None = None,
    ) -> Uniform:
        """A new grid; by the signal's own interpolation unless another is given."""
        ticks, _ = self._positive(period, "a period")
        policy = self._policy_or(interpolate, max_gap)
        return self._resampled(ticks, self._ticks(offset)[0] % ticks, policy)

    def _policy_or(self, interpolate: Interpolation, max_gap: Duration | None) -> Policy:
        gap = self.policy.gap if max_gap is None else self._positive(max_gap, "max_gap")[0]
        return replace(self.policy, gap=gap) if interpolate is None else _policy(interpolate, gap, 0.0)

    def _resampled(self, period: int, offset: int, policy: Policy) -> Uniform:
        node = nodes.Sample(self._events(), period, offset, policy, self.names)
        return replace(self, node=node, period=period, offset=offset, policy=policy)

    # -- filters -----------------------------------------------------------------------------------------

    def fir(self, taps: Sequence[complex] | Any, missing: Missing = "zero") -> Uniform:
        """y[n] = sum_j taps[j] x[n - j], as ``scipy.signal.lfilter(taps, 1, x)``.

        Missing inputs count as zero, or with ``missing="skip"`` no output has one behind it.
        """
        coefficients = tuple(np.asarray(taps).tolist())
        if not coefficients:
            raise SignalTypeError("a filter needs at least one tap")
        return replace(self, node=nodes.Fir(self.node, coefficients, _missing(missing)))

    def convolve(self, kernel: Sequence[complex] | Any, missing: Missing = "zero") -> Uniform:
        """Convolution with a kernel: the same as ``fir``."""
        return self.fir(kernel, missing)

    def correlate(self, pattern: Sequence[complex] | Any, missing: Missing = "zero") -> Uniform:
        """y[n] = sum_i conj(pattern[i]) x[n - N + 1 + i]: how well the last N samples match."""
        return self.fir(np.conj(np.asarray(pattern))[::-1], missing)

    def iir(self, b: Sequence[float] | Any, a: Sequence[float] | Any) -> Uniform:
        """``scipy.signal.lfilter(b, a, x)`` with its state carried; missing inputs count as zero."""
        b, a = np.atleast_1d(np.asarray(b, float)), np.atleast_1d(np.asarray(a, float))
        if a[0] == 0:
            raise SignalTypeError("a[0] must not be zero")
        order = max(len(a), len(b))
        rows = [np.append(x, np.zeros(order - len(x))) / a[0] for x in (b, a)]
        return self._rational(rows[0][None], rows[1][None])

    def sos(self, sections: Any) -> Uniform:
        """``scipy.signal.sosfilt(sections, x)`` with its state carried; missing inputs count as zero."""
        rows = np.atleast_2d(np.asarray(sections, float))
        if rows.shape[1] != 6 or (rows[:, 3] == 0).any():
            raise SignalTypeError(
                f"sections must have rows b0 b1 b2 a0 a1 a2 with a0 != 0, not shape {rows.shape}"
            )
        rows = rows / rows[:, 3:4]
        return self._rational(rows[:, :3], rows[:, 3:])

    def _rational(self, b: Any, a: Any) -> Uniform:
        node = nodes.Rational(self.node, tuple(map(tuple, b.tolist())), tuple(map(tuple, a.tolist())))
        return replace(self, node=node)

    def filter(
        self,
        compute: Callable[[Any, Any], Any],
        forward: int,
        backward: int = 0,
        missing: Missing = "zero",
    ) -> Uniform:
        """A filter of your own over the last ``forward`` inputs and the last ``backward`` outputs.

        ``compute(x, y)`` gets arrays of rows, oldest sample first, and returns one output per row. Rows are
        different windows or different keys: never a single window.
        """
        _at_least_one(forward, "forward")
        return replace(self, node=nodes.UserFilter(self.node, compute, forward, backward, _missing(missing)))

    # -- windows --------------------------------------------------------------------------------------------

    def window(
        self, size: int, hop: int | None = None, missing: Missing = "zero", taper: Any = None
    ) -> Windows:
        """Windows of ``size`` samples that start at ticks 0, hop, 2 hop, ... of the grid.

        With ``missing="zero"`` every window that holds a sample is processed, missing ones being zero (also
        before the first and after the last sample); with ``"skip"`` only windows without missing samples.
        ``taper`` is a window function by name (see ``scipy.signal.get_window``) or its samples.
        """
        _at_least_one(size, "a window size")
        step = size if hop is None else hop
        _at_least_one(step, "a hop")
        node = nodes.Window(self.node, size, step, _missing(missing))
        windows = Windows(node, self.clock, self.key, self.time, self.names, self, size, step)
        return windows if taper is None else windows.taper(taper)

    def aggregate_windows(
        self, function: str | Callable[[Any], Any], size: int, hop: int | None = None
    ) -> Uniform:
        """One value per hopping window of samples: sum, energy, power, mean, min, max, or a function of rows.

        Missing samples count as zero for sum, energy and power, and are left out of mean, min and max. The
        value stands at the window's last sample; only windows that hold a sample have one.
        """
        if callable(function):
            return self.window(size, hop).reduce(function)
        if function not in REDUCTIONS:
            raise SignalTypeError(f"no aggregate {function!r}; there are {', '.join(REDUCTIONS)}")
        source = self if function in ("sum", "energy", "power") else self.map(PairWithOne())
        return source.window(size, hop).reduce(REDUCTIONS[function])

    def sum(self, size: int, hop: int | None = None) -> Uniform:
        """Sums over hopping windows of samples."""
        return self.aggregate_windows("sum", size, hop)

    def energy(self, size: int, hop: int | None = None) -> Uniform:
        """Sums of squares |x|^2 over hopping windows of samples."""
        return self.aggregate_windows("energy", size, hop)

    def power(self, size: int, hop: int | None = None) -> Uniform:
        """Energy divided by the window size."""
        return self.aggregate_windows("power", size, hop)

    def _events(self) -> Node:
        return nodes.ToEvents(self.node, self.period, self.offset, self.names)

    def select(self, *kept: str, **columns: Expression) -> Stream:
        """New columns from the samples, as a stream of point events."""
        return super().select(*kept, **columns)


def common_clock(left: Stream, right: Stream) -> Clock:
    """The form of durations of two queries that are put together; their keys must match in number."""
    if None not in (left.clock, right.clock) and left.clock != right.clock:
        raise UnitError(
            "one query gives durations as integers, the other as strings such as '100ms'; use one form"
        )
    if len(left.key) != len(right.key):
        raise SignalTypeError(f"cannot match keys {left.key} with keys {right.key}")
    return left.clock or right.clock


def _policy(interpolate: Interpolation, gap: int, constant: Any) -> Policy:
    if interpolate is None:
        return Policy("exact", gap)
    if callable(interpolate):
        return Policy("user", gap, function=interpolate)
    if interpolate not in ("constant", "last", "step", "linear", "second"):
        raise SignalTypeError(
            f"no interpolation {interpolate!r}; use constant, last, step, linear, second, or a function"
        )
    return Policy(interpolate, gap, constant)


def _missing(missing: str) -> str:
    if missing not in ("zero", "skip"):
        raise SignalTypeError(f"missing must be 'zero' or 'skip', not {missing!r}")
    return missing


def _at_least_one(number: int, what: str) -> None:
    if not isinstance(number, int | np.integer) or number < 1:
        raise SignalTypeError(f"{what} must be a positive integer, not {number!r}")


def _parse_aggregate(spec: Any) -> tuple[Any, str]:
    if isinstance(spec, tuple):
        function, column = spec
    else:
        function, _, rest = str(spec).partition("(")
        function, column = function.strip(), rest.strip().removesuffix(")").strip()
    if (not callable(function) and function not in ("count", *AGGREGATES)) or not column:
        raise SignalTypeError(
            f"cannot read aggregate {spec!r}; write e.g. 'sum(temp)' or (function, 'temp'); "
            f"functions: count, {', '.join(AGGREGATES)}"
        )
    return function, column
