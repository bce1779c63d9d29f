"""Two signals value by value, whatever their grids."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from viewlet.signals import nodes
from viewlet.signals.errors import SignalTypeError
from viewlet.signals.functions import Both
from viewlet.signals.nodes import Policy
from viewlet.signals.operators.samples import OPERATIONS
from viewlet.signals.query import Signal, Uniform, common_clock


def join(left: Signal, right: Signal, op: str | Callable[[Any, Any], Any] = "+") -> Any:
    """Combine two signals value by value where both have one.

    Uniform signals are brought to one grid first: equal periods by shifting the right one by the difference
    of offsets; unequal ones by resampling the slower to the grid of the faster, with its own interpolation;
    an irregular signal is sampled on the grid of the other. Two irregular signals give an irregular one.
    """
    if isinstance(op, str) and op not in OPERATIONS:
        raise SignalTypeError(
            f"no operation {op!r}; use one of {' '.join(OPERATIONS)} or a function of two arrays"
        )
    common_clock(left, right)
    if not isinstance(left, Uniform) and not isinstance(right, Uniform):
        return _join_irregular(left, right, op)
    if not isinstance(left, Uniform) and isinstance(right, Uniform):
        left = _on_grid(left, right)
    if not isinstance(right, Uniform) and isinstance(left, Uniform):
        right = _on_grid(right, left)
    if not isinstance(left, Uniform) or not isinstance(right, Uniform):
        raise SignalTypeError("an irregular signal could not be sampled")
    if left.period > right.period:
        left = left._resampled(right.period, right.offset, left.policy)
    elif right.period > left.period:
        right = right._resampled(left.period, left.offset, right.policy)
    latest = max(left.offset, right.offset)  # a sample of either side is forgotten only after both grids
    node = nodes.Combine(left.node, right.node, op, left.period, latest)
    return replace(left, node=node)


def _on_grid(signal: Signal, other: Uniform) -> Uniform:
    """The irregular signal at the beats of a uniform one."""
    sampled = nodes.Sample(signal.node, other.period, other.offset, Policy(), signal.names, signal.function)
    names = signal.names if signal.function is None else ("value",)
    rest = (signal.key, signal.time, names, signal.payload, None)
    return Uniform(sampled, other.clock, *rest, other.period, other.offset, Policy())


def _join_irregular(left: Signal, right: Signal, op: str | Callable[[Any, Any], Any]) -> Signal:
    function = OPERATIONS[op][1] if isinstance(op, str) else op
    clock = common_clock(left, right)
    if left.function is None and right.function is None:
        node = nodes.SignalJoin(left.node, right.node, function, left.names, right.names)
        return replace(left, node=node, clock=clock)
    node = nodes.SignalJoin(left.node, right.node, None, left.names, right.names)
    both = Both(function, _value_of(left), _value_of(right))
    return Signal(node, clock, left.key, left.time, ("value",), None, both)


def _value_of(signal: Signal) -> Callable[..., Any]:
    if signal.function is not None:
        return signal.function
    (name,) = signal.names
    return lambda t, e: e[name]
