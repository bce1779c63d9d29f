"""CAST between any two types, on physical values and without NULL: ANSI, so a value that does not fit raises.

``cast_function(source, target)`` gives the conversion; ``fit`` is the range check every exact result passes.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any, TypeAlias

from viewlet.core import calendar
from viewlet.core.scalar import Call
from viewlet.core.types import Kind, Type, Value, bounds
from viewlet.errors import CompileError, ValueRangeError

Function: TypeAlias = Callable[..., Any]
Builder: TypeAlias = Callable[[Call], Function]

# Room for every DECIMAL(38, s) and every double, so that Decimal never rounds on its own.
EXACT = Context(prec=1200)

MAX_NUMBER_TEXT = 400  # no number of any type needs more; Python's own limit would surface as ValueError

_INTEGER_TEXT = re.compile(r"[+-]?[0-9]+")
_REAL_TEXT = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,3})?[dDfF]?")
_NUMBER_TEXT = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,3})?")
_TRUE_TEXTS = frozenset({"t", "true", "y", "yes", "1"})
_FALSE_TEXTS = frozenset({"f", "false", "n", "no", "0"})


def half_up(numerator: int, denominator: int) -> int:
    """numerator / denominator to the nearest integer, halves away from zero.

    >>> half_up(5, 2), half_up(-5, 2), half_up(-7, 5), half_up(5, -10)
    (3, -3, -1, -1)
    """
    quotient, rest = divmod(abs(numerator), abs(denominator))
    quotient += 2 * rest >= abs(denominator)
    return quotient if (numerator < 0) == (denominator < 0) else -quotient


def rescale(value: int, source: int, target: int) -> int:
    """An unscaled decimal at another scale, rounded HALF_UP where digits are lost.

    >>> rescale(1005, 3, 2), rescale(7, 0, 2)
    (101, 700)
    """
    if target >= source:
        return int(value * 10 ** (target - source))
    return half_up(value, 10 ** (source - target))


def fit(value: int, kind: Type, what: str) -> int:
    """``value`` if its type holds it; ``what`` says where it came from."""
    limits = bounds(kind)
    if limits is not None and not limits[0] <= value <= limits[1]:
        raise ValueRangeError(f"{what}: {show(value, kind)} is out of range for {kind}")
    return value


def finite(value: float, what: str) -> float:
    """``value`` if it is a number (and -0.0 as 0.0, so that equal values look alike)."""
    if not math.isfinite(value):
        raise ValueRangeError(f"{what}: the result {value} is not a finite DOUBLE")
    return value + 0.0


def single(value: float, what: str) -> float:
    """The nearest value of FLOAT's 32 bits."""
    rounded = _rounded_to_single(value)
    if math.isinf(rounded):
        raise ValueRangeError(f"{what}: {value} is out of range for FLOAT")
    return finite(rounded, what)


def unscaled(number: Decimal, scale: int) -> int:
    """``number`` times 10**scale, rounded HALF_UP.

    >>> unscaled(Decimal("1.005"), 2)
    101
    """
    return int(number.scaleb(scale, EXACT).to_integral_value(ROUND_HALF_UP))


def as_decimal(value: int, scale: int) -> Decimal:
    """The exact decimal that an unscaled integer stands for.

    >>> as_decimal(-1050, 2)
    Decimal('-10.50')
    """
    return Decimal(value).scaleb(-scale, EXACT)


def show(value: Value, kind: Type) -> str:
    """A physical value as SQL writes it when cast to a string; NULL as the word.

    >>> from viewlet.core.types import decimal, DOUBLE
    >>> show(-5, decimal(4, 2)), show(1e7, DOUBLE), show(None, DOUBLE)
    ('-0.05', '1.0E7', 'NULL')
    """
    if value is None:
        return "NULL"
    match kind.kind:
        case Kind.BOOLEAN:
            return "true" if value else "false"
        case Kind.DECIMAL if isinstance(value, int):
            return format(as_decimal(value, kind.scale), "f")
        case Kind.DOUBLE if isinstance(value, float):
            return _show_double(value)
        case Kind.FLOAT if isinstance(value, float):
            return _show_double(_shortest_single(value))
        case Kind.DATE if isinstance(value, int) and calendar.FIRST_DAY <= value <= calendar.LAST_DAY:
            return calendar.show_date(value)
        case Kind.TIMESTAMP if isinstance(value, int):
            return calendar.show_timestamp(value)
    return str(value)


def _show_double(value: float) -> str:
    """Shortest digits that read back, at least two; scientific below 1e-3 and from 1e7, as the JVM prints."""
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return format(Decimal(repr(value)), "f")
    sign, digits, exponent = Decimal(repr(value)).normalize(EXACT).as_tuple()
    if len(digits) == 1:
        sign, digits, exponent = Decimal(f"{value:.1e}").normalize(EXACT).as_tuple()
    text = "".join(map(str, digits))
    assert isinstance(exponent, int)
    return f"{'-' * sign}{text[0]}.{text[1:] or '0'}E{exponent + len(text) - 1}"


def _shortest_single(value: float) -> float:
    """The double with the fewest digits, at least two, that is the same FLOAT."""
    candidates = (float(f"{value:.{digits}g}") for digits in range(2, 10))
    return next((short for short in candidates if _rounded_to_single(short) == value), value)


def _rounded_to_single(value: float) -> float:
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        return math.inf


def cast_function(source: Type, target: Type) -> Function:
    """The function from non-NULL values of ``source`` to values of ``target``.

    >>> from viewlet.core.types import VARCHAR, INT, decimal
    >>> cast_function(VARCHAR, decimal(5, 2))("1.005"), cast_function(decimal(5, 2), INT)(-199)
    (101, -1)
    """
    what = "SUM" if source == target else f"CAST({source} AS {target})"  # to its own type: a total's check
    match source.kind, target.kind:
        case (_, kind) if kind is source.kind and kind is not Kind.DECIMAL:
            return lambda value: value
        case _, Kind.VARCHAR:
            return lambda value: show(value, source)
        case Kind.VARCHAR, _:
            return _from_text(target, what)
        case Kind.DATE, Kind.TIMESTAMP:
            return lambda value: value * calendar.MICROS_PER_DAY
        case Kind.TIMESTAMP, Kind.DATE:
            return lambda value: value // calendar.MICROS_PER_DAY
        case _, Kind.BOOLEAN if source.is_numeric:
            return lambda value: value != 0
    if target.is_numeric and (source.is_numeric or source.kind is Kind.BOOLEAN):
        return _to_number(source, target, what)
    raise CompileError(f"{what} has no meaning: go through VARCHAR, or extract a part such as year(...)")


def _to_number(source: Type, target: Type, what: str) -> Function:
    """Number to number: exact to integer truncates, everything else rounds HALF_UP."""
    scale, unit = source.scale, 10**source.scale
    if target.kind is Kind.FLOAT:
        return lambda value: single(value / unit, what)
    if target.kind is Kind.DOUBLE:
        return lambda value: value / unit
    if source.is_floating and target.is_integer:
        return lambda value: fit(int(value), target, what)
    if source.is_floating:
        return lambda value: fit(unscaled(Decimal(repr(value)), target.scale), target, what)
    if target.is_integer:
        return lambda value: fit(abs(value) // unit * (-1 if value < 0 else 1), target, what)
    return lambda value: fit(rescale(value, scale, target.scale), target, what)


def _from_text(target: Type, what: str) -> Function:
    """Text to anything; surrounding blanks do not count."""
    if target.kind is Kind.DATE:
        return calendar.parse_date
    if target.kind is Kind.TIMESTAMP:
        return calendar.parse_timestamp
    if target.kind is Kind.BOOLEAN:
        return lambda text: _parse_boolean(text, what)
    if target.is_integer:
        return lambda text: fit(int(_matching(_INTEGER_TEXT, text, what)), target, what)
    if target.kind is Kind.DECIMAL:
        return lambda text: fit(
            unscaled(Decimal(_matching(_NUMBER_TEXT, text, what)), target.scale), target, what
        )
    if target.kind is Kind.FLOAT:
        return lambda text: single(_real(text, what), what)
    if target.kind is Kind.DOUBLE:
        return lambda text: finite(_real(text, what), what)
    raise CompileError(f"{what} has no meaning")


def _matching(pattern: re.Pattern[str], text: str, what: str) -> str:
    trimmed = text.strip()
    if len(trimmed) > MAX_NUMBER_TEXT or pattern.fullmatch(trimmed) is None:
        raise ValueRangeError(f"{what}: {text!r} is not a number of that type")
    return trimmed


def _real(text: str, what: str) -> float:
    """A number, which may end in Java's letter for a double or float."""
    return float(_matching(_REAL_TEXT, text, what).rstrip("dDfF"))


def try_cast_function(source: Type, target: Type) -> Function:
    """CAST, or NULL for what does not fit.

    What would fit in Spark and does not here, such as infinities and the year 10000, is an error even so.

    >>> from viewlet.core.types import VARCHAR, INT
    >>> cast = try_cast_function(VARCHAR, INT)
    >>> cast("12"), cast("twelve")
    (12, None)
    """
    convert = cast_function(source, target)
    elsewhere = _ELSEWHERE.get(target.kind) if source.kind is Kind.VARCHAR else None

    def run(value: Any) -> Any:
        try:
            return convert(value)
        except ValueRangeError:
            if elsewhere is not None and elsewhere.fullmatch(value.strip()):
                raise
            return None

    return run


_YEARS_ELSEWHERE = r"[+-][0-9].*|[0-9]{5,7}(-.*)?|0000.*"
_NUMBERS_ELSEWHERE = re.compile(r"[+-]?(nan|inf|infinity|[0-9.]+(e[+-]?[0-9]+)?[df]?)", re.IGNORECASE)
_ELSEWHERE = {
    Kind.DOUBLE: _NUMBERS_ELSEWHERE,
    Kind.FLOAT: _NUMBERS_ELSEWHERE,
    Kind.DATE: re.compile(_YEARS_ELSEWHERE, re.DOTALL),
    Kind.TIMESTAMP: re.compile(rf"{_YEARS_ELSEWHERE}|T?[0-9]+:.*|[0-9]{{4}}-[0-9]+-[0-9]+[ T].*", re.DOTALL),
}
"""Texts that are values of these types in Spark, as far as they are none here."""


def _parse_boolean(text: str, what: str) -> bool:
    word = text.strip().lower()
    if word in _TRUE_TEXTS or word in _FALSE_TEXTS:
        return word in _TRUE_TEXTS
    raise ValueRangeError(f"{what}: {text!r} is neither true nor false")
