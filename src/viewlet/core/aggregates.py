"""What every aggregate means: a function from the bag of its non-NULL argument values to one value.

Sums are exact whatever the order: integers and decimals as integers of any size, doubles as multiples of
2**-1074, of which every double is one. Rounding and the range check happen once, at the end, so a sum
that leaves its type for a while and comes back is no error.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

from viewlet.core.casts import finite, fit, rescale
from viewlet.core.library import FUNCTIONS
from viewlet.core.numbers import between
from viewlet.core.scalar import Call, Const, Var
from viewlet.core.types import BIGINT, Kind, Type, Value, wide
from viewlet.errors import CompileError, ValueRangeError

# The least positive double is 2**-1074: every double times this is an integer.
DOUBLE_UNIT = 1 << 1074


def aggregate(op: str, values: Mapping[Any, int], argument: Type, result: Type) -> Value:
    """The aggregate of a bag of values that are not NULL; NULL over nothing, except that COUNT is 0.

    >>> from viewlet.core.types import INT
    >>> bag = {5: 2, 8: 1}
    >>> [aggregate(op, bag, INT, BIGINT) for op in ("count", "sum", "min", "max")]
    [3, 18, 5, 8]
    """
    if op == "count":
        return fit(sum(values.values()), result, "COUNT")
    if not values:
        return None
    match op:
        case "min":
            return min(values)  # type: ignore[no-any-return]
        case "max":
            return max(values)  # type: ignore[no-any-return]
        case "sum":
            return published_sum(total(values, argument), argument, result)
        case "avg":
            return average(total(values, argument), sum(values.values()), argument, result)
        case "var_pop" | "var_samp" | "stddev_pop" | "stddev_samp":
            return _spread(op, values, argument)
    raise CompileError(f"there is no aggregate {op!r}")


def exact(share: Const) -> Fraction:
    """A literal number without any rounding.

    >>> from viewlet.core.types import decimal
    >>> exact(Const(25, decimal(3, 2)))
    Fraction(1, 4)
    """
    assert isinstance(share.value, int), "a share is written in digits"
    return Fraction(share.value, 10**share.type.scale)


def percentile(
    op: str, values: Mapping[Any, int], argument: Type, share: Fraction, *, descending: bool = False
) -> Value:
    """The value at a share p of the way through n values in their order; NULL over nothing.

    The discrete one is the first value up to which there are at least p * n. The continuous one lies between
    the two values around place p * (n - 1), counted from 0, in proportion to its distance from them.

    >>> from viewlet.core.types import INT
    >>> bag = {10: 1, 20: 2, 50: 1}
    >>> percentile("percentile_disc", bag, INT, Fraction(1, 2))
    20
    >>> percentile("percentile_cont", bag, INT, Fraction(9, 10))
    41.0
    """
    if not values:
        return None
    count = sum(values.values())
    if op == "percentile_disc":
        found: Value = _first(values, lambda passed: passed >= share * count, descending=descending)
        return found
    place = share * (count - 1)
    low = _first(values, lambda passed: passed > place)
    high = _first(values, lambda passed: passed >= place + 1)
    unit = 1 if argument.is_floating else 10**argument.scale
    return between(low / unit, high / unit, float(place - math.floor(place)))


def mode(values: Mapping[Any, int], *, descending: bool = False) -> Value:
    """The most frequent value; of several the least, or the greatest if ``descending``.

    >>> mode({3: 2, 1: 2, 2: 1}), mode({3: 2, 1: 2, 2: 1}, descending=True)
    (1, 3)
    """
    most = max(values.values(), default=0)
    best: Callable[..., Any] = max if descending else min
    return best((value for value, count in values.items() if count == most), default=None)  # type: ignore[no-any-return]


def _first(values: Mapping[Any, int], reached: Callable[[int], bool], *, descending: bool = False) -> Any:
    passed = 0
    for value in sorted(values, reverse=descending):
        passed += values[value]
        if reached(passed):
            return value
    raise AssertionError("all values together are enough for any share")


def total(values: Mapping[Any, int], argument: Type) -> int:
    """The exact weighted sum: in units of the argument's scale, or of 2**-1074 for a floating argument."""
    if argument.is_floating:
        return sum(double_units(value) * weight for value, weight in values.items())
    return sum(value * weight for value, weight in values.items())


def double_units(value: float) -> int:
    """A double as an integer number of 2**-1074."""
    numerator, denominator = value.as_integer_ratio()
    return numerator * (DOUBLE_UNIT // denominator)


def from_double_units(units: int) -> float:
    """The nearest double; an error where there is none.

    >>> from_double_units(double_units(0.1) * 3)
    0.30000000000000004
    """
    try:
        return units / DOUBLE_UNIT
    except OverflowError:
        raise ValueRangeError("SUM: the total is out of range for DOUBLE") from None


def published_sum(units: int, argument: Type, result: Type) -> Value:
    """An exact total as a value of the result's type."""
    if argument.is_floating:
        return from_double_units(units)
    if result.is_floating:
        return float(Fraction(units, 10**argument.scale))
    return fit(rescale(units, argument.scale, result.scale), result, "SUM")


def average(units: int, count: int, argument: Type, result: Type) -> Value:
    """The published sum over the count, as the scalar function ``avg`` has it."""
    if argument.is_floating:
        return finite(from_double_units(units) / count, "AVG")
    sum_type = wide(argument.scale) if argument.kind is Kind.DECIMAL else BIGINT
    divide = FUNCTIONS["/"](Call("/", (Var("sum", sum_type), Var("count", BIGINT)), result))
    quotient: Value = divide(units, count)
    return quotient


def _spread(op: str, values: Mapping[Any, int], argument: Type) -> float | None:
    """Variance and standard deviation: (sum(x*x) - sum(x)**2 / n) over n or n - 1, exact up to the end.

    Over one value the sample versions are NULL: there is no spread to estimate.
    """
    unit = 1 if argument.is_floating else 10**argument.scale
    n = sum(values.values())
    numbers = [(Fraction(value) / unit, weight) for value, weight in values.items()]
    first = sum((x * weight for x, weight in numbers), Fraction(0))
    second = sum((x * x * weight for x, weight in numbers), Fraction(0))
    freedom = n - 1 if op.endswith("samp") else n
    if not freedom:
        return None
    try:
        variance = float((second - first * first / n) / freedom)
    except OverflowError:
        raise ValueRangeError(f"{op}: the result is out of range for DOUBLE") from None
    return math.sqrt(variance) if op.startswith("stddev") else variance
