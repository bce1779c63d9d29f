"""Ranges of an attribute: which fragment a value falls into, and which condition a set of fragments is.

Inner bounds ``b1 < b2 < ... < bk`` cut the domain into ``k + 1`` ranges, half-open and open at both ends,
so that every value has a fragment, whatever is inserted later::

    fragment(x) = the number of bounds <= x          fragment(NULL) = -1
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from viewlet.core.scalar import FALSE, Const, Scalar, Var, call
from viewlet.core.types import Kind, Type, Value
from viewlet.sketches.errors import SketchError

NULL_FRAGMENT = -1
UNORDERED = frozenset({Kind.BOOLEAN, Kind.NULL})

Interval: TypeAlias = tuple[Value, Value]


@dataclass(frozen=True, slots=True)
class Partition:
    """A table cut into fragments by ranges of one column; ``bounds`` are physical values, increasing.

    >>> from viewlet.core.types import INT
    >>> price = Partition("sales", "price", INT, (601, 1001, 1501))
    >>> [price.fragment_of(x) for x in (600, 601, 1500, 9999, None)]
    [0, 1, 2, 3, -1]
    """

    table: str
    column: str
    type: Type
    bounds: tuple[Value, ...]

    def __post_init__(self) -> None:
        if self.type.kind in UNORDERED:
            raise SketchError(f"{self.name} is {self.type}: ranges need numbers, dates, timestamps or text")
        pairs: Iterable[tuple[Any, Any]] = zip(self.bounds, self.bounds[1:], strict=False)
        if None in self.bounds or any(low >= high for low, high in pairs):
            raise SketchError(f"{self.name}: range bounds must increase, and none is NULL: {self.bounds}")

    @property
    def name(self) -> str:
        """The attribute, with its table."""
        return f"{self.table}.{self.column}"

    @property
    def size(self) -> int:
        """The number of ranges, the NULL fragment not counted."""
        return len(self.bounds) + 1

    def fragment_of(self, value: Value) -> int:
        """The fragment of a value."""
        bounds: Sequence[Any] = self.bounds
        return NULL_FRAGMENT if value is None else bisect_right(bounds, value)

    def intervals(self, fragments: Collection[int]) -> list[Interval]:
        """The fragments as maximal intervals ``low <= x < high``; ``None`` is an open end.

        >>> from viewlet.core.types import INT
        >>> Partition("r", "x", INT, (10, 20, 30)).intervals({0, 1, 3})
        [(None, 20), (30, None)]
        """
        merged: list[list[int]] = []
        for fragment in sorted(f for f in fragments if f != NULL_FRAGMENT):
            if merged and merged[-1][1] == fragment:
                merged[-1][1] = fragment + 1
            else:
                merged.append([fragment, fragment + 1])
        edges = (None, *self.bounds, None)
        return [(edges[low], edges[high]) for low, high in merged]

    def condition(self, fragments: Collection[int], x: Var) -> Scalar:
        """``x`` lies in one of the fragments: an OR of ranges; FALSE for none."""
        parts = [self._between(x, low, high) for low, high in self.intervals(fragments)]
        if NULL_FRAGMENT in fragments:
            parts.append(call("is_null", Var(x.name, x.type)))
        return call("or", *parts) if parts else FALSE

    def _between(self, x: Var, low: Value, high: Value) -> Scalar:
        if low is None and high is None:
            return call("not", call("is_null", Var(x.name, x.type)))
        lower = [] if low is None else [call(">=", x, Const(low, self.type))]
        upper = [] if high is None else [call("<", x, Const(high, self.type))]
        return call("and", *lower, *upper)


def successor(value: Any, kind: Type) -> Any:
    """The least value above ``value``: where the range that holds it alone ends.

    >>> from viewlet.core.types import VARCHAR
    >>> successor("ab", VARCHAR) == "ab" + chr(0)
    True
    """
    if kind.kind is Kind.VARCHAR:
        return value + "\0"
    return math.nextafter(value, math.inf) if kind.is_floating else value + 1


def equi_depth(quantiles: Sequence[Any], kind: Type) -> tuple[Any, ...]:
    """Bounds from the quantiles 1/n ... (n-1)/n of a column, so that ranges hold about equally many rows.

    A value that takes several quantiles fills more than one range: it gets a range of its own, so that a
    sketch that needs its neighbours does not drag it along.

    >>> from viewlet.core.types import INT
    >>> equi_depth([3, 7, 7, 7, 9], INT)
    (3, 7, 8, 9)
    """
    bounds: set[Any] = set()
    for place, value in enumerate(quantiles):
        bounds.add(value)
        if place and quantiles[place - 1] == value and kind.kind is not Kind.VARCHAR:
            bounds.add(successor(value, kind))
    return tuple(sorted(bounds))
