"""The strict scalar functions: for each name, how to build it for one call.

A builder gets the :class:`~viewlet.core.scalar.Call`, so that it knows the types of the arguments and of the
result, and returns a function of physical values that are not NULL.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping
from decimal import ROUND_HALF_EVEN, ROUND_HALF_UP, Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any

from viewlet.core import calendar
from viewlet.core.casts import (
    EXACT,
    Function,
    cast_function,
    finite,
    fit,
    half_up,
    rescale,
    show,
    single,
    try_cast_function,
)
from viewlet.core.formats import FORMAT_FUNCTIONS
from viewlet.core.patterns import PATTERN_FUNCTIONS
from viewlet.core.reals import REALS, width_bucket
from viewlet.core.scalar import Call
from viewlet.core.strings import TEXT_FUNCTIONS
from viewlet.core.types import INTEGER_BITS, Kind, Type
from viewlet.errors import ValueRangeError

Builder = Callable[[Call], Function]


# Arithmetic. Exact + - * are operators of the generated code (core/functions.py); here is the rest.


def describe(call: Call, *values: Any) -> str:
    """A call with its operands, for error messages: ``power(10.0, 400.0)``."""
    shown = [show(value, arg.type) for value, arg in zip(values, call.args, strict=True)]
    return f"{shown[0]} {call.op} {shown[1]}" if call.op in "+-*/%" else f"{call.op}({', '.join(shown)})"


def in_doubles(call: Call, compute: Callable[..., float]) -> Function:
    """``compute`` on the operands as doubles; domain errors and results that are not finite raise."""
    units = [10**arg.type.scale for arg in call.args]

    def run(*values: Any) -> float:
        try:
            result = compute(*(value / unit for value, unit in zip(values, units, strict=True)))
        except ZeroDivisionError:
            raise ValueRangeError(f"{describe(call, *values)}: division by zero") from None
        except (ValueError, OverflowError) as reason:
            raise ValueRangeError(f"{describe(call, *values)}: {reason}") from None
        return (single if call.type.kind is Kind.FLOAT else finite)(result, describe(call, *values))

    return run


def _floating_arithmetic(compute: Callable[..., float]) -> Builder:
    return lambda call: in_doubles(call, compute)


def divide(call: Call) -> Function:
    """a / b to the scale of the result, HALF_UP; a double if the result is one. By zero is an error."""
    left, right = (arg.type for arg in call.args)
    if not call.type.is_exact or left.is_floating or right.is_floating:
        return _divide_to_double(call, left, right)
    shift = call.type.scale - left.scale + right.scale
    up, down = 10 ** max(shift, 0), 10 ** max(-shift, 0)

    def run(a: int, b: int) -> int:
        if not b:
            raise ValueRangeError(f"{describe(call, a, b)}: division by zero")
        return fit(half_up(a * up, b * down), call.type, describe(call, a, b))

    return run


def _divide_to_double(call: Call, left: Type, right: Type) -> Function:
    if left.is_floating or right.is_floating:
        return in_doubles(call, lambda a, b: a / b)
    unit_left, unit_right = 10**left.scale, 10**right.scale

    def run(a: int, b: int) -> float:
        if not b:
            raise ValueRangeError(f"{describe(call, a, b)}: division by zero")
        ratio: float = (a * unit_right) / (b * unit_left)  # integers: one correct rounding, at the end
        return ratio

    return run


def _truncated(call: Call, quotient: bool) -> Function:
    """a div b without its fraction, or a - b * (a div b), whose sign is a's."""
    left, right = (arg.type for arg in call.args)
    if left.is_floating or right.is_floating:
        return in_doubles(call, math.fmod)
    scale = max(left.scale, right.scale)
    unit_left, unit_right = 10 ** (scale - left.scale), 10 ** (scale - right.scale)

    def run(a: int, b: int) -> int:
        if not b:
            raise ValueRangeError(f"{describe(call, a, b)}: division by zero")
        whole, rest = divmod(abs(a) * unit_left, abs(b) * unit_right)
        if quotient:
            return fit(whole if (a < 0) == (b < 0) else -whole, call.type, describe(call, a, b))
        return fit(rescale(-rest if a < 0 else rest, scale, call.type.scale), call.type, describe(call, a, b))

    return run


def _unary(compute: Callable[[Any], Any]) -> Builder:
    """Minus and absolute value: exact types check their range (there is no 2**63)."""

    def build(call: Call) -> Function:
        if call.type.is_floating:
            return in_doubles(call, compute)
        source = call.args[0].type.scale
        return lambda a: fit(rescale(compute(a), source, call.type.scale), call.type, describe(call, a))

    return build


def _rounding(halves: str, exact: Callable[[int, int], int]) -> Builder:
    """round(x, n): n digits after the point (before it, if negative); ``halves`` says where these go."""

    def build(call: Call) -> Function:
        source = call.args[0].type

        def exactly(a: int, digits: int = 0) -> int:
            drop = source.scale - digits
            kept = exact(a, 10**drop) if drop > 0 else a * 10**-drop
            what = f"{call.op}({show(a, source)}, {digits})"
            return fit(rescale(kept, digits, call.type.scale), call.type, what)

        def doubles(a: float, digits: int = 0) -> float:
            if digits > 400:
                return a
            step = Decimal(1).scaleb(-digits, EXACT)
            shown = repr(a) if call.type.kind is Kind.DOUBLE else show(a, source)
            kept = float(Decimal(shown).quantize(step, halves, EXACT)) + 0.0
            return kept if call.type.kind is Kind.DOUBLE else single(kept, call.op)

        return doubles if source.is_floating else exactly

    return build


def half_even(numerator: int, denominator: int) -> int:
    """numerator / denominator to the nearest integer, halves to the even one; the denominator is above 0.

    >>> half_even(5, 2), half_even(-5, 2), half_even(7, 2)
    (2, -2, 4)
    """
    quotient, rest = divmod(numerator, denominator)
    return quotient + (2 * rest > denominator or (2 * rest == denominator and quotient % 2))


def _tried(build: Builder) -> Builder:
    """The same function, NULL where it would be an error; of doubles, only where it divides by zero."""

    def build_tried(call: Call) -> Function:
        compute = build(call)

        def run(*values: Any) -> Any:
            if call.type.is_floating:
                return None if call.op == "try_divide" and not values[1] else compute(*values)
            try:
                return compute(*values)
            except ValueRangeError:
                return None

        return run

    return build_tried


def _plain_arithmetic(compute: Callable[[Any, Any], Any]) -> Builder:
    """+ - * as functions: exact at the natural scale of exact operands, then rounded and checked."""

    def build(call: Call) -> Function:
        left, right = (arg.type for arg in call.args)
        if not (left.is_exact and right.is_exact):
            return in_doubles(call, compute)
        product = call.op == "try_multiply"
        scale = left.scale + right.scale if product else max(left.scale, right.scale)
        up = (1, 1) if product else (10 ** (scale - left.scale), 10 ** (scale - right.scale))
        return lambda a, b: fit(
            rescale(compute(a * up[0], b * up[1]), scale, call.type.scale), call.type, call.op
        )

    return build


def _shift(compute: Callable[[int, int], int], unsigned: bool = False) -> Builder:
    """Shifts of 32 or 64 bits, by the distance modulo their number, as the JVM has them."""

    def build(call: Call) -> Function:
        bits = INTEGER_BITS[call.type.kind]
        low, size = 1 << (bits - 1), 1 << bits

        def run(a: int, distance: int) -> int:
            shifted = compute(a % size if unsigned else a, distance % bits)
            return (shifted + low) % size - low

        return run

    return build


def _whole(compute: Callable[[Any], int], sign: int) -> Builder:
    """floor and ceil to an integer or to a DECIMAL of scale 0."""

    def build(call: Call) -> Function:
        source = call.args[0].type
        unit = 10**source.scale
        if source.is_floating:
            return lambda a: fit(compute(a) * 10**call.type.scale, call.type, describe(call, a))
        return lambda a: fit(sign * (sign * a // unit) * 10**call.type.scale, call.type, describe(call, a))

    return build


def _sign(call: Call) -> Function:
    unit: float = 1.0 if call.type.is_floating else 10**call.type.scale
    return lambda a: unit * ((a > 0) - (a < 0))


def _natural_logarithm(call: Call) -> Function:
    """ln(x), NULL at zero and below as in Spark: the one function here that may answer NULL."""
    logarithm = in_doubles(call, math.log)
    return lambda a: logarithm(a) if a > 0 else None


# Strings: sequences of code points.


def _untyped(compute: Function) -> Builder:
    return lambda call: compute


def _replace(text: str, search: str, replacement: str) -> str:
    return text.replace(search, replacement) if search else text


def _pad(text: str, width: int, padding: str, on_left: bool) -> str:
    missing = width - len(text)
    if missing <= 0 or not padding:
        return text[: max(width, 0)]
    fill = (padding * (missing // len(padding) + 1))[:missing]
    return fill + text if on_left else text + fill


def like(text: str, pattern: str, escape: str = "\\") -> bool:
    """SQL LIKE: ``_`` is any one character, ``%`` any number of them, the escape makes them literal.

    >>> like("50% off", "50\\\\%%"), like("promo", "PR%"), like("abc", "a_c")
    (True, False, True)
    """
    return _like_pattern(pattern, escape).fullmatch(text) is not None


@lru_cache(maxsize=1024)
def _like_pattern(pattern: str, escape: str) -> re.Pattern[str]:
    parts, characters = [], iter(pattern)
    for character in characters:
        if character == escape:
            literal = next(characters, None)
            if literal is None or literal not in ("_", "%", escape):
                raise ValueRangeError(
                    f"LIKE {pattern!r}: the escape {escape!r} must stand before _ or % or itself"
                )
            parts.append(re.escape(literal))
        else:
            parts.append({"_": ".", "%": ".*"}.get(character) or re.escape(character))
    return re.compile("".join(parts), re.DOTALL)


# Dates and times.


def _date_part(part: Callable[[int], int]) -> Builder:
    """A part of the day: of a DATE, or of the day that holds a TIMESTAMP."""

    def build(call: Call) -> Function:
        if call.args[0].type.kind is Kind.TIMESTAMP:
            return lambda micros: part(micros // calendar.MICROS_PER_DAY)
        return part

    return build


def _clock_part(unit: int, count: int) -> Builder:
    return lambda call: lambda micros: micros // unit % count


def _second(call: Call) -> Function:
    """Whole seconds of the minute, or with the fraction that a DECIMAL result asks for."""
    unit = 60 * calendar.MICROS_PER_SECOND
    if call.type.kind is Kind.DECIMAL:
        return lambda micros: rescale(micros % unit, 6, call.type.scale)
    return lambda micros: micros % unit // calendar.MICROS_PER_SECOND


def _date_trunc(call: Call) -> Function:
    truncate = (
        calendar.truncate_timestamp if call.args[1].type.kind is Kind.TIMESTAMP else calendar.truncate_date
    )
    return lambda unit, value: truncate(value, unit.lower())


def _add_months(call: Call) -> Function:
    if call.args[0].type.kind is Kind.TIMESTAMP:
        day = calendar.MICROS_PER_DAY
        return lambda micros, months: calendar.add_months(micros // day, months) * day + micros % day
    return calendar.add_months


def _add_days(days: int, count: int) -> int:
    calendar.date_of(days + count)
    return days + count


def _add_micros(micros: int, count: int) -> int:
    calendar.date_of((micros + count) // calendar.MICROS_PER_DAY)
    return micros + count


def _months_between(call: Call) -> Function:
    """Months and parts of 31 days between two moments, rounded to 8 digits if the third argument says so."""

    def run(later: int, earlier: int, rounded: bool) -> float:
        months = calendar.months_between(later, earlier)
        return math.floor(months * 1e8 + 0.5) / 1e8 if rounded else months

    return run


def _last_day(days: int) -> int:
    day = calendar.date_of(days)
    return days - day.day + calendar.month_length(day.year, day.month)


def _spread(call: Call) -> Function:
    """Variance or deviation from count n, sum s and sum of squares q: ``(q - s*s / n)`` over n or n - 1.

    NULL where there is nothing to divide by. Exact until the last step for exact arguments.
    """
    unit = 10 ** call.args[1].type.scale
    sample, root = call.op.endswith("samp"), call.op.startswith("stddev")

    def spread(n: int, s: float, q: float) -> float | None:
        freedom = n - 1 if sample else n
        if freedom <= 0:
            return None
        squares = (Fraction(q) * n - Fraction(s) * Fraction(s)) / (n * freedom * unit * unit)
        variance = finite(float(max(squares, Fraction(0))), call.op)
        return math.sqrt(variance) if root else variance

    return spread


def between(low: float, high: float, part: float) -> float:
    """The number that lies so far from ``low`` to ``high``, never outside of them."""
    return low if low == high else (1.0 - part) * low + part * high


def _interpolate(call: Call) -> Function:
    """Between two neighbours of a place, by its digits behind the point."""
    unit = 10 ** call.args[2].type.scale
    return lambda low, high, place: between(low, high, place % unit / unit)


FUNCTIONS: Mapping[str, Builder] = {
    **dict.fromkeys(("var_pop", "var_samp", "stddev_pop", "stddev_samp"), _spread),
    "interpolate": _interpolate,
    "+": _floating_arithmetic(lambda a, b: a + b),
    "-": _floating_arithmetic(lambda a, b: a - b),
    "*": _floating_arithmetic(lambda a, b: a * b),
    "/": divide,
    "%": lambda call: _truncated(call, quotient=False),
    "div": lambda call: _truncated(call, quotient=True),
    "neg": _unary(lambda a: -a),
    "abs": _unary(abs),
    "sign": _sign,
    "round": _rounding(ROUND_HALF_UP, half_up),
    "bround": _rounding(ROUND_HALF_EVEN, half_even),
    "floor": _whole(math.floor, 1),
    "ceil": _whole(math.ceil, -1),
    "ln": _natural_logarithm,
    **{op: _floating_arithmetic(compute) for op, compute in REALS.items()},
    "width_bucket": _untyped(width_bucket),
    "try_cast": lambda call: try_cast_function(call.args[0].type, call.type),
    "try_divide": _tried(divide),
    "try_add": _tried(_plain_arithmetic(operator.add)),
    "try_subtract": _tried(_plain_arithmetic(operator.sub)),
    "try_multiply": _tried(_plain_arithmetic(operator.mul)),
    "bit_and": _untyped(operator.and_),
    "bit_or": _untyped(operator.or_),
    "bit_xor": _untyped(operator.xor),
    "bit_not": _untyped(operator.invert),
    "shift_left": _shift(operator.lshift),
    "shift_right": _shift(operator.rshift),
    "shift_right_unsigned": _shift(operator.rshift, unsigned=True),
    "cast": lambda call: cast_function(call.args[0].type, call.type),
    "like": _untyped(like),
    "concat": _untyped(lambda *texts: "".join(texts)),
    **TEXT_FUNCTIONS,
    **PATTERN_FUNCTIONS,
    "left": _untyped(lambda text, n: text[: max(n, 0)]),
    "right": _untyped(lambda text, n: text[-n:] if n > 0 else ""),
    "upper": _untyped(str.upper),
    "lower": _untyped(str.lower),
    "trim": _untyped(lambda text, characters=" ": text.strip(characters)),
    "ltrim": _untyped(lambda text, characters=" ": text.lstrip(characters)),
    "rtrim": _untyped(lambda text, characters=" ": text.rstrip(characters)),
    "replace": _untyped(_replace),
    "length": _untyped(len),
    "starts_with": _untyped(str.startswith),
    "ends_with": _untyped(str.endswith),
    "contains": _untyped(lambda text, part: part in text),
    "lpad": _untyped(lambda text, width, padding=" ": _pad(text, width, padding, on_left=True)),
    "rpad": _untyped(lambda text, width, padding=" ": _pad(text, width, padding, on_left=False)),
    "repeat": _untyped(lambda text, n: text * n),
    "reverse": _untyped(lambda text: text[::-1]),
    "year": _date_part(lambda days: calendar.date_of(days).year),
    "quarter": _date_part(lambda days: (calendar.date_of(days).month + 2) // 3),
    "month": _date_part(lambda days: calendar.date_of(days).month),
    "week": _date_part(lambda days: calendar.date_of(days).isocalendar().week),
    "day": _date_part(lambda days: calendar.date_of(days).day),
    "dayofweek": _date_part(lambda days: (days + 4) % 7 + 1),
    "weekday": _date_part(lambda days: (days + 3) % 7),
    "dayofyear": _date_part(lambda days: calendar.date_of(days).timetuple().tm_yday),
    "hour": _clock_part(calendar.SUBDAY_UNITS["hour"], 24),
    "minute": _clock_part(calendar.SUBDAY_UNITS["minute"], 60),
    "second": _second,
    "unix_seconds": _untyped(lambda micros: micros // 1_000_000),
    "unix_millis": _untyped(lambda micros: micros // 1_000),
    "unix_micros": _untyped(lambda micros: micros),
    "date_trunc": _date_trunc,
    "add_days": _untyped(_add_days),
    "add_months": _add_months,
    "add_micros": _untyped(_add_micros),
    "days_between": _untyped(lambda later, earlier: later - earlier),
    "last_day": _untyped(_last_day),
    "make_date": _untyped(calendar.make_date),
    "months_between": _months_between,
    "whole_months": _untyped(calendar.whole_months),
    "micros_between": _untyped(lambda later, earlier: later - earlier),
    **FORMAT_FUNCTIONS,
}
