"""What a signal query is made of: frozen nodes, one class per operator, over three forms of data.

Events carry lifetimes and columns; samples lie on a grid k * period + offset; frames are windows of samples.
Durations are integers in the query's clock (see :mod:`.clock`). The fluent classes in :mod:`.query` build
these nodes and keep track of names, period and offset; :mod:`.lower` turns them into running operators.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

Expression: TypeAlias = "str | Callable[..., Any]"


@dataclass(frozen=True, slots=True)
class Payload:
    """A user's sample type: any Python objects with +, - and * (also by a number), and their zero.

    ``decode`` turns an Arrow column into an object array, ``encode`` turns one back.
    """

    zero: Any
    decode: Callable[[Any], Any]
    encode: Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Source:
    """Events read from batches of a table: key columns, start time, and lifetime or none (points)."""

    name: str
    key: tuple[str, ...]
    time: str
    end: str | None
    duration: int
    value: tuple[str, ...]
    payload: Payload | None
    unit: str | None


# -- events to events ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Where:
    """Keep events or samples for which the predicate is true (not NULL)."""

    input: Node
    predicate: Expression
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Select:
    """New columns, each an expression over the old ones."""

    input: Node
    columns: tuple[tuple[str, Expression], ...]


@dataclass(frozen=True, slots=True)
class Lifetime:
    """[s, e) -> [s + shift, ...): ``duration`` replaces, ``extend`` adds to, ``limit`` cuts the length."""

    input: Node
    shift: int = 0
    duration: int | None = None
    extend: int = 0
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class UntilNext:
    """Each event ends where the next one of its key starts, at the latest."""

    input: Node


@dataclass(frozen=True, slots=True)
class Hopping:
    """Lifetimes such that at a grid point g exactly the events that started in [g - size, g) are active."""

    input: Node
    size: int
    hop: int
    offset: int


@dataclass(frozen=True, slots=True)
class Sessions:
    """Events less than ``timeout`` apart share one lifetime: [first start, last start + timeout)."""

    input: Node
    timeout: int


@dataclass(frozen=True, slots=True)
class Group:
    """New keys from columns (Map); what follows runs per key (Reduce)."""

    input: Node
    by: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Union:
    """The events of both streams."""

    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class Join:
    """Pairs of events of equal key (and equal ``on`` columns) while both are active."""

    left: Node
    right: Node
    on: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Lookup:
    """Columns of a table's row with equal ``on`` column; without such a row the event is dropped, or NULL."""

    input: Node
    reference: Any
    on: str
    to: str
    keep: bool


@dataclass(frozen=True, slots=True)
class Aggregate:
    """Snapshot aggregates: one event per maximal interval over which the set of active events is constant."""

    input: Node
    aggregates: tuple[tuple[str, Expression, str], ...]  # name, function, column


@dataclass(frozen=True, slots=True)
class AsSignal:
    """Check that at most one event of each key is active at any time; keep the value columns."""

    input: Node
    value: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MapValues:
    """A function of the values, element by element."""

    input: Node
    function: Callable[[Any], Any]
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SignalJoin:
    """A binary operation on irregular signals while both are active; None keeps both sides' columns."""

    left: Node
    right: Node
    op: Callable[[Any, Any], Any] | None
    left_names: tuple[str, ...]
    right_names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Deduplicate:
    """Of events of one key that start together keep the first or the last."""

    input: Node
    keep: str


# -- samples -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Policy:
    """Interpolation: a function of reference points, and the widest gap it may bridge (-1: any)."""

    mode: str = "exact"
    gap: int = -1
    constant: Any = 0.0
    function: Callable[..., Any] | None = None


@dataclass(frozen=True, slots=True)
class Sample:
    """Values of a signal at the beats k * period + offset."""

    input: Node
    period: int
    offset: int
    policy: Policy
    names: tuple[str, ...]
    function: Callable[..., Any] | None = None


@dataclass(frozen=True, slots=True)
class ToEvents:
    """Samples as point events with columns ``names``."""

    input: Node
    period: int
    offset: int
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ShiftTicks:
    """Move samples by whole ticks, onto the grid k * period + offset."""

    input: Node
    by: int
    period: int
    offset: int


@dataclass(frozen=True, slots=True)
class Combine:
    """A binary operation on two uniform signals of the same grid, where both have a sample."""

    left: Node
    right: Node
    op: str | Callable[[Any, Any], Any]
    period: int
    offset: int


@dataclass(frozen=True, slots=True)
class Downsample:
    """Keep the ticks that are multiples of ``factor``."""

    input: Node
    factor: int


@dataclass(frozen=True, slots=True)
class Fir:
    """y[n] = sum_j taps[j] x[n - j]."""

    input: Node
    taps: tuple[complex, ...]
    missing: str


@dataclass(frozen=True, slots=True)
class Rational:
    """A cascade of rational filters b / a: one section is lfilter, several of order two are sosfilt."""

    input: Node
    b: tuple[tuple[float, ...], ...]
    a: tuple[tuple[float, ...], ...]


@dataclass(frozen=True, slots=True)
class UserFilter:
    """y[n] = compute(x[n - forward + 1 .. n], y[n - backward .. n - 1]), rows being keys or times."""

    input: Node
    compute: Callable[[Any, Any], Any]
    forward: int
    backward: int
    missing: str


# -- frames --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Window:
    """Windows of ``size`` samples whose first ticks are multiples of ``hop``."""

    input: Node
    size: int
    hop: int
    missing: str


@dataclass(frozen=True, slots=True)
class FrameMap:
    """A function of a 2-D array, windows x samples; it may change the number of columns, never of rows."""

    input: Node
    function: Callable[[Any], Any]
    label: str


@dataclass(frozen=True, slots=True)
class FrameUpdate:
    """A window operator with an incremental form.

    recompute(windows) -> outputs and update(outputs, old, new) -> outputs must agree whenever ``windows``
    moved by one hop: ``old`` are the samples that left, ``new`` those that came.
    """

    input: Window
    recompute: Callable[[Any], Any]
    update: Callable[[Any, Any, Any], Any]
    label: str


@dataclass(frozen=True, slots=True)
class Spectra:
    """The spectrum of each window; ``half`` keeps the non-negative frequencies of real samples."""

    input: Node
    half: bool
    incremental: bool | None  # None: chosen by hop and size


@dataclass(frozen=True, slots=True)
class Unwindow:
    """Lay windows back on the time axis, aggregating where they overlap."""

    input: Node
    how: str
    size: int


@dataclass(frozen=True, slots=True)
class Reduce:
    """One sample per window, at the time of the window's last sample."""

    input: Node
    function: Callable[[Any], Any]
    hop: int


Node: TypeAlias = (
    "Source | Where | Select | Lifetime | UntilNext | Hopping | Sessions | Group | Union | Join | Lookup"
    " | Aggregate | AsSignal | MapValues | SignalJoin | Deduplicate | Sample | ToEvents | ShiftTicks"
    " | Combine | Downsample | Fir | Rational | UserFilter | Window | FrameMap | FrameUpdate | Spectra"
    " | Unwindow | Reduce"
)


def inputs(node: Node) -> tuple[Node, ...]:
    """The nodes that a node reads, left before right."""
    if isinstance(node, Source):
        return ()
    if isinstance(node, Union | Join | SignalJoin | Combine):
        return (node.left, node.right)
    return (node.input,)
