"""What a group remembers per aggregate, so that rows can come and go: sums, or the values themselves."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any, TypeAlias

from viewlet.core.aggregates import aggregate, average, published_sum
from viewlet.core.types import Kind, Type, Value, bounds
from viewlet.plan.nodes import AggregateCall
from viewlet.sketches.errors import ExhaustedError

LINEAR = frozenset({"count", "sum", "avg"})
Total: TypeAlias = Callable[[Any, int], Value]


def is_linear(call: AggregateCall) -> bool:
    """Is it a function of sums, so that a change of the group is added without knowing its values?"""
    return call.op in LINEAR and not call.distinct


def total_of(call: AggregateCall, kind: Type) -> Total:
    """A linear aggregate from the exact sum of its argument and the number of values that are not NULL."""
    argument = kind if call.argument is None else call.argument.type
    if call.op == "count":
        return lambda _, count: count
    if call.op == "sum":
        low, high = bounds(kind) or (1, 0)
        if argument.is_floating or argument.scale != kind.scale:
            low, high = 1, 0  # no total is its own value

        def total(units: Any, count: int) -> Value:
            if not count:
                return None
            return units if low <= units <= high else published_sum(units, argument, kind)

        return total
    if argument.is_integer and kind.kind is Kind.DOUBLE:
        return lambda units, count: units / count if count else None
    return lambda units, count: average(units, count, argument, kind) if count else None


class Values:
    """The values of one group with their multiplicities, at most ``bound`` of the best for MIN and MAX.

    A bounded buffer knows the best values only: those beyond its ``limit`` were dropped and are ignored when
    they disappear. If deletions eat it up, the group has to be captured again.
    """

    __slots__ = ("_bound", "_descending", "_heap", "_limit", "counts")

    def __init__(self, descending: bool, bound: int | None) -> None:
        self.counts: dict[Any, int] = {}
        self._heap: list[Any] = []
        self._descending, self._bound = descending, bound
        self._limit: Any = None

    def add(self, value: Any, weight: int) -> None:
        """Let a value appear or disappear."""
        if value is None or (self._limit is not None and self._worse(value)):
            return
        total = self.counts.get(value, 0) + weight
        if value not in self.counts:
            heapq.heappush(self._heap, _Reversed(value) if self._descending else value)
        if total:
            self.counts[value] = total
        else:
            self.counts.pop(value, None)
        if self._bound is not None and len(self.counts) > 2 * self._bound:
            self._truncate(self._bound)

    def _worse(self, value: Any) -> bool:
        return bool(value < self._limit if self._descending else value > self._limit)

    def _truncate(self, bound: int) -> None:
        kept = sorted(self.counts, reverse=self._descending)[:bound]
        self._limit = kept[-1]
        self.counts = {value: self.counts[value] for value in kept}
        self._heap = [_Reversed(value) for value in kept] if self._descending else kept

    def best(self) -> Value:
        """The least value, or the greatest if descending; NULL if there is none."""
        while self._heap:
            top = self._heap[0]
            value = top.value if isinstance(top, _Reversed) else top
            if value in self.counts:
                return value  # type: ignore[no-any-return]
            heapq.heappop(self._heap)
        if self._limit is not None:
            raise ExhaustedError("a buffer of the best values of a group ran empty by deletions")
        return None

    def saved(self) -> tuple[dict[Any, int], Any]:
        """The values and where they were cut, as literals."""
        return self.counts, self._limit

    def restore(self, counts: dict[Any, int], limit: Any) -> None:
        """Take over what was saved."""
        self.counts, self._limit = counts, limit
        self._heap = sorted(_Reversed(value) if self._descending else value for value in counts)


class _Reversed:
    """A value in descending order."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __lt__(self, other: _Reversed) -> bool:
        return bool(other.value < self.value)


def value_of(call: AggregateCall, values: Values, kind: Type) -> Value:
    """A non-linear aggregate from the values of its group."""
    if call.op in ("min", "max"):
        return values.best()
    counts = dict.fromkeys(values.counts, 1) if call.distinct else values.counts
    if call.op == "count":
        return len(counts)
    assert call.argument is not None, "only COUNT has no argument"
    return aggregate(call.op, counts, call.argument.type, kind) if counts else None
