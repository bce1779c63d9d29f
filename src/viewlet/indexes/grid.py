"""Sums of DOUBLE that no order of addition rounds: amounts as whole numbers of one power of two.

An ordered index adds amounts in an order of its own, takes prefixes off one another, and compares what it
gets. Rounding would depend on the way, and a comparison could come out differently at the next look. But
every double is a whole number of some power of two. While all amounts of a field are whole numbers of one
*unit*, and none has more than 95 bits of it, their sums are integers: exact, and 0 when everything has gone.

>>> grid = Grid.over([(0.1, 0.0), (1e6, 0.0)])
>>> tenth = grid.units((0.1, 0.0))
>>> tenth * 10 == grid.units((1.0, 0.0)), grid.value(tenth * 10)
(False, 1.0)
>>> grid.units((1e-300, 0.0)) is None, Grid.over([(1e-300, 0.0), (1.0, 0.0)]) is None
(True, True)

Amounts are pairs ``high + low``, as compensated sums leave them. Whoever has an amount outside the grid looks
at every entry instead.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import frexp, isfinite

BITS = 95
"""Of an amount: the sum of 2^32 of them has 127."""

USUAL = 64
"""Bits that amounts come to need, sooner or later: those of a double and some of smaller ones."""

EXPONENTS = (-1000, 890)
"""Of a unit: between them any sum is a normal double."""

Pair = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Grid:
    """Amounts as multiples of ``2 ** exponent``."""

    exponent: int

    @staticmethod
    def over(pairs: Iterable[Pair]) -> Grid | None:
        """A grid that holds some amounts, with room at both ends for what comes later, if there is one."""
        extents = [extent(x) for pair in pairs for x in pair if x]
        if not extents:
            return None
        low, high = min(low for low, _ in extents), max(high for _, high in extents)
        if high - low > BITS:
            return None
        wide = min(low, high - USUAL)
        exponent = max(wide - (BITS - (high - wide)) // 3, EXPONENTS[0])
        return Grid(exponent) if exponent <= min(low, EXPONENTS[1]) else None

    def units(self, pair: Pair) -> int | None:
        """How many units an amount is; ``None`` if it is outside."""
        parts = [self._units(x) for x in pair]
        return None if None in parts else sum(part for part in parts if part is not None)

    def _units(self, x: float) -> int | None:
        if not x:
            return 0
        if not isfinite(x):
            return None
        numerator, denominator = x.as_integer_ratio()
        units, rest = divmod(numerator << max(-self.exponent, 0), denominator << max(self.exponent, 0))
        return units if rest == 0 and frexp(x)[1] - self.exponent <= BITS else None

    def value(self, units: int) -> float:
        """The double nearest to so many units."""
        return float(units) * 2.0**self.exponent


def extent(x: float) -> tuple[int, int]:
    """The bits of a number that is not 0: a multiple of 2^low, below 2^high.

    >>> extent(0.75), extent(-12.0), extent(float("inf"))
    ((-2, 0), (2, 4), (972, 1025))
    """
    if not isfinite(x):
        return 972, 1025
    numerator, denominator = abs(x).as_integer_ratio()
    low = (numerator & -numerator).bit_length() - denominator.bit_length()
    return low, frexp(x)[1]
