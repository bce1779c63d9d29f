"""The result types of arithmetic: Spark's rules in ANSI mode.

Exact arithmetic keeps every digit while it fits into 38, and gives up digits after the point beyond that::

    a + b, a - b    scale max(s1, s2),         integer digits max(p1 - s1, p2 - s2) + 1
    a * b           scale s1 + s2,             precision p1 + p2 + 1
    a / b           scale max(6, s1 + p2 + 1), integer digits p1 - s1 + s2
    a % b           scale max(s1, s2),         integer digits min(p1 - s1, p2 - s2)

Next to a DECIMAL, an integer *literal* counts the digits that it has, an integer of any other kind the
digits that its type may need.
"""

from __future__ import annotations

from viewlet.core.scalar import Const, Scalar
from viewlet.core.types import (
    BIGINT,
    DOUBLE,
    FLOAT,
    INTEGER_BITS,
    INTEGER_DIGITS,
    MAX_DECIMAL_DIGITS,
    Kind,
    Type,
    decimal,
)

MIN_KEPT_SCALE = 6


def arithmetic_type(op: str, left: Scalar, right: Scalar) -> Type:
    """The type of ``left op right`` for numbers, op being one of + - * / % div.

    >>> from viewlet.core.scalar import Var
    >>> price = Var("price", decimal(15, 2))
    >>> str(arithmetic_type("-", Const(1), price)), str(arithmetic_type("*", price, price))
    ('DECIMAL(16,2)', 'DECIMAL(31,4)')
    """
    a, b = left.type, right.type
    if op == "div":
        return BIGINT
    if a.is_floating or b.is_floating:
        return FLOAT if a == b == FLOAT and op != "/" else DOUBLE
    if a.kind is not Kind.DECIMAL and b.kind is not Kind.DECIMAL:
        return DOUBLE if op == "/" else wider_integer(a, b)
    (p1, s1), (p2, s2) = _digits(left), _digits(right)
    match op:
        case "+" | "-":
            scale = max(s1, s2)
            return capped(max(p1 - s1, p2 - s2) + scale + 1, scale)
        case "*":
            return capped(p1 + p2 + 1, s1 + s2)
        case "/":
            scale = max(MIN_KEPT_SCALE, s1 + p2 + 1)
            return capped(p1 - s1 + s2 + scale, scale)
        case "%":
            scale = max(s1, s2)
            return capped(min(p1 - s1, p2 - s2) + scale, scale)
        case _:
            raise ValueError(f"{op!r} is not arithmetic; there are + - * / % div")


def capped(precision: int, scale: int) -> Type:
    """DECIMAL(precision, scale), or with 38 digits: integer digits first, yet six after the point.

    >>> str(capped(46, 6)), str(capped(42, 10))
    ('DECIMAL(38,6)', 'DECIMAL(38,6)')
    """
    if precision <= MAX_DECIMAL_DIGITS:
        return decimal(precision, scale)
    kept = max(MAX_DECIMAL_DIGITS - (precision - scale), min(scale, MIN_KEPT_SCALE))
    return decimal(MAX_DECIMAL_DIGITS, kept)


def wider_integer(a: Type, b: Type) -> Type:
    """The integer type that holds both."""
    return max(a, b, key=lambda kind: INTEGER_BITS[kind.kind])


def decimal_of(kind: Type) -> Type:
    """The DECIMAL type that holds every value of an exact type."""
    return kind if kind.kind is Kind.DECIMAL else decimal(INTEGER_DIGITS[kind.kind], 0)


def literal_decimal(text: str) -> Type:
    """The type of a literal with a decimal point: as many digits as are written, leading zeros apart.

    >>> str(literal_decimal("1.50")), str(literal_decimal("0.05")), str(literal_decimal("100."))
    ('DECIMAL(3,2)', 'DECIMAL(2,2)', 'DECIMAL(3,0)')
    """
    whole, _, fraction = text.lstrip("-").partition(".")
    digits = (whole + fraction).lstrip("0")
    return decimal(max(len(digits), len(fraction), 1), len(fraction))


def _digits(scalar: Scalar) -> tuple[int, int]:
    """Precision and scale that an operand brings into DECIMAL arithmetic."""
    if isinstance(scalar, Const) and scalar.type.is_integer and scalar.value is not None:
        return len(str(abs(int(scalar.value)))), 0
    exact = decimal_of(scalar.type)
    return exact.precision, exact.scale
