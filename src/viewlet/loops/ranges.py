"""Which values a scalar can have, and whether computing it can fail.

Intervals of exact numbers follow from the types of columns and constants; they decide how wide a machine
number must be and where an overflow test can be left out. The law: a scalar that is not NULL and did not fail
lies in its interval.
"""

from __future__ import annotations

from typing import TypeAlias

from viewlet.core.scalar import COMPARISONS, Call, Const, Scalar, Var
from viewlet.core.types import INTEGER_BITS, Kind, Type, bounds

Interval: TypeAlias = tuple[int, int]

I128: Interval = (-(1 << 127), (1 << 127) - 1)
I64: Interval = (-(1 << 63), (1 << 63) - 1)

_TOTAL = COMPARISONS | {
    *("==", "and", "or", "not", "is_null", "is_true", "in", "case", "coalesce", "nz", "nn", "greatest"),
    *("least", "like", "starts_with", "ends_with", "contains", "substring", "left", "right", "length"),
    *("year", "quarter", "month", "week", "day", "dayofweek", "weekday", "dayofyear", "hour", "minute"),
    *("second", "position", "days_between", "last_day", "sign", "concat", "upper", "lower", "trim"),
    *("unix_seconds", "unix_millis", "unix_micros", "interpolate"),
    *("bit_and", "bit_or", "bit_xor", "bit_not", "shift_left", "shift_right", "shift_right_unsigned"),
}


def type_interval(kind: Type) -> Interval:
    """The physical values that a variable of a type may hold, if they are integers.

    >>> from viewlet.core.types import BIGINT, decimal
    >>> type_interval(decimal(3, 1)), type_interval(BIGINT) == I64
    ((-999, 999), True)
    """
    if kind.kind is Kind.DECIMAL and kind.precision == 38:
        return I128  # sums of 128 bits are typed so
    limits = bounds(kind)
    if limits is not None:
        return limits
    return {Kind.BOOLEAN: (0, 1), Kind.DATE: (-(1 << 31), (1 << 31) - 1)}.get(kind.kind, I64)


def result_interval(kind: Type) -> Interval:
    """What a computed value of a type may be: of DECIMAL(38, s), too, only 38 digits."""
    return bounds(kind) or type_interval(kind)


def interval(scalar: Scalar) -> Interval:
    """Bounds of an exact, boolean or calendar scalar.

    >>> from viewlet.core.types import decimal
    >>> price, rate = Var("p", decimal(4, 2)), Var("r", decimal(2, 2))
    >>> interval(Call("*", (price, rate), decimal(7, 4)))
    (-989901, 989901)
    """
    match scalar:
        case Const(bool() | int() as value):
            return int(value), int(value)
        case Call("+" | "-" | "*") if scalar.type.is_exact:
            return _meet(natural(scalar), result_interval(scalar.type))
        case Call("nz", (arg,)):
            low, high = interval(arg)
            return min(low, 0), max(high, 0)
        case Call("nn"):
            return 0, 1
        case Call("cast", (arg,)) if scalar.type.is_exact and arg.type.is_exact:
            return _meet(
                rescaled(interval(arg), arg.type.scale, scalar.type.scale), result_interval(scalar.type)
            )
        case _:
            return type_interval(scalar.type)


def natural(call: Call) -> Interval:
    """What ``+``, ``-`` or ``*`` gives at the scale of the result, before its range is checked."""
    left, right = call.args
    a, b = interval(left), interval(right)
    if call.op == "*":
        scale = left.type.scale + right.type.scale
        corners = [x * y for x in a for y in b]
        return rescaled((min(corners), max(corners)), scale, call.type.scale)
    scale = max(left.type.scale, right.type.scale)
    a, b = rescaled(a, left.type.scale, scale), rescaled(b, right.type.scale, scale)
    result = (a[0] + b[0], a[1] + b[1]) if call.op == "+" else (a[0] - b[1], a[1] - b[0])
    return rescaled(result, scale, call.type.scale)


def rescaled(limits: Interval, source: int, target: int) -> Interval:
    """An interval at another scale; rounding may reach one further."""
    if target >= source:
        unit = 10 ** (target - source)
        return limits[0] * unit, limits[1] * unit
    unit = 10 ** (source - target)
    return -(-limits[0] // unit) - 1, limits[1] // unit + 1


def within(inner: Interval, outer: Interval) -> bool:
    """Is every value of one interval in the other?"""
    return outer[0] <= inner[0] and inner[1] <= outer[1]


def can_fail(scalar: Scalar) -> bool:
    """Can evaluating it raise an error? Errs on the side of yes.

    >>> from viewlet.core.types import BIGINT, INT
    >>> x = Var("x", INT)
    >>> can_fail(Call("+", (x, x), BIGINT)), can_fail(Call("+", (x, x), INT))
    (False, True)
    """
    match scalar:
        case Const() | Var():
            return False
        case Call(_, args) if any(can_fail(arg) for arg in args):
            return True
        case Call("+" | "-" | "*", args) if scalar.type.is_exact and all(a.type.is_exact for a in args):
            return not within(natural(scalar), result_interval(scalar.type))
        case Call("like", args):
            return not all(isinstance(arg, Const) for arg in args[1:])
        case Call("cast", (arg,)):
            return _cast_can_fail(arg, scalar.type)
        case Call("avg", (total, _)):
            return not _quotient_fits(total, scalar.type)
        case Call("/", (total, Const(int() | float() as divisor))) if divisor and scalar.type.is_floating:
            return total.type.is_floating
        case Call("/", (_, divisor)) if scalar.type.is_exact and divisor.type.is_exact:
            return True
        case Call(op):
            return op not in _TOTAL


def _quotient_fits(total: Scalar, result: Type) -> bool:
    """Is a total over a whole number other than 0 always in range? A finite DOUBLE stays one."""
    if not result.is_exact:
        return True
    limits = rescaled(interval(total), total.type.scale, result.scale)
    return within((min(limits[0], -limits[1]), max(limits[1], -limits[0])), result_interval(result))


def _cast_can_fail(arg: Scalar, target: Type) -> bool:
    if target.kind is Kind.VARCHAR or (target.kind is Kind.DOUBLE and arg.type.is_numeric):
        return False
    if arg.type.is_exact and (target.kind is Kind.DECIMAL or target.kind in INTEGER_BITS):
        return not within(rescaled(interval(arg), arg.type.scale, target.scale), result_interval(target))
    return True


def _meet(a: Interval, b: Interval) -> Interval:
    return (max(a[0], b[0]), min(a[1], b[1])) if max(a[0], b[0]) <= min(a[1], b[1]) else b
