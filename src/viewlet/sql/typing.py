"""Which types SQL gives to what: Spark's rules in ANSI mode, beyond plain arithmetic.

Operands of different types meet in a *wider* type: integers in the larger one, exact numbers in a DECIMAL
with enough digits on both sides of the point, exact and floating in DOUBLE, DATE and TIMESTAMP in
TIMESTAMP. Text beside another type is read as that type (as BIGINT beside an integer, as DOUBLE beside any
other number). NULL takes any type.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce

from sqlglot import exp

from viewlet.core.arithmetic import decimal_of, wider_integer
from viewlet.core.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    MAX_DECIMAL_DIGITS,
    NULL,
    SMALLINT,
    TIMESTAMP,
    TINYINT,
    VARCHAR,
    Kind,
    Type,
    decimal,
)
from viewlet.errors import SqlError

DType = exp.DType

_NAMED_TYPES = {
    DType.BOOLEAN: BOOLEAN,
    DType.TINYINT: TINYINT,
    DType.SMALLINT: SMALLINT,
    DType.INT: INT,
    DType.BIGINT: BIGINT,
    DType.FLOAT: FLOAT,
    DType.DOUBLE: DOUBLE,
    DType.DATE: DATE,
    **dict.fromkeys((DType.TIMESTAMP, DType.TIMESTAMPTZ, DType.TIMESTAMPNTZ, DType.TIMESTAMPLTZ), TIMESTAMP),
    **dict.fromkeys((DType.DATETIME, DType.DATETIME2), TIMESTAMP),
    **dict.fromkeys(
        (DType.VARCHAR, DType.CHAR, DType.TEXT, DType.NCHAR, DType.NVARCHAR, DType.BPCHAR), VARCHAR
    ),
    DType.NULL: NULL,
}
SUPPORTED = "BOOLEAN, TINYINT, SMALLINT, INT, BIGINT, DECIMAL(p,s), FLOAT, DOUBLE, DATE, TIMESTAMP, VARCHAR"
DEFAULT_DECIMAL = decimal(10, 0)


class TypeMismatchError(SqlError):
    """Operands that do not go together; whoever knows the position in the text adds it."""


def type_of(node: exp.DataType) -> Type:
    """The type that a type name in SQL means.

    >>> str(type_of(exp.DataType.build("decimal(15,2)"))), str(type_of(exp.DataType.build("char(1)")))
    ('DECIMAL(15,2)', 'VARCHAR')
    """
    if node.this in (DType.DECIMAL, DType.BIGDECIMAL):
        digits = [int(param.this.name) for param in node.expressions]
        precision, scale = (*digits, 0)[:2] if digits else (DEFAULT_DECIMAL.precision, DEFAULT_DECIMAL.scale)
        try:
            return decimal(precision, scale)
        except ValueError as error:
            raise TypeMismatchError(str(error)) from None
    try:
        kind = _NAMED_TYPES[node.this]
    except KeyError:
        raise TypeMismatchError(f"there is no type {node.sql().upper()}; there are {SUPPORTED}") from None
    if kind == TIMESTAMP and node.expressions and node.expressions[0].name != "6":
        raise TypeMismatchError(f"a TIMESTAMP has six digits after the point, not {node.expressions[0].name}")
    return kind


def wider(a: Type, b: Type) -> Type | None:
    """The type in which CASE, COALESCE, IN and UNION bring two types together, ``None`` if there is none.

    >>> str(wider(decimal(15, 2), INT)), wider(DATE, BIGINT)
    ('DECIMAL(15,2)', None)
    """
    if a == b or b == NULL:
        return a
    if a == NULL:
        return b
    if VARCHAR in (a, b):
        return _wider_with_text(b if a == VARCHAR else a)
    if a.is_integer and b.is_integer:
        return wider_integer(a, b)
    if a.is_exact and b.is_exact:
        return _wider_decimal(decimal_of(a), decimal_of(b))
    if a.is_numeric and b.is_numeric:
        return DOUBLE
    if {a, b} == {DATE, TIMESTAMP}:
        return TIMESTAMP
    return None


def _wider_decimal(a: Type, b: Type) -> Type:
    """All integer digits of both, then as many digits after the point as still fit."""
    scale = max(a.scale, b.scale)
    whole = max(a.precision - a.scale, b.precision - b.scale)
    if whole + scale <= MAX_DECIMAL_DIGITS:
        return decimal(whole + scale, scale)
    return decimal(MAX_DECIMAL_DIGITS, max(0, MAX_DECIMAL_DIGITS - whole))


def _wider_with_text(other: Type) -> Type:
    if other.is_integer:
        return BIGINT
    return DOUBLE if other.is_numeric else other


def widest(types: Iterable[Type], what: str) -> Type:
    """The wider type of all; ``what`` names the construct in the error."""

    def meet(a: Type, b: Type) -> Type:
        common = wider(a, b)
        if common is None:
            raise TypeMismatchError(
                f"{what} brings together {a} and {b}, which have no common type; cast one of them"
            )
        return common

    return reduce(meet, types, NULL)


def sum_type(argument: Type) -> Type:
    """The type of SUM.

    >>> str(sum_type(decimal(15, 2)))
    'DECIMAL(25,2)'
    """
    if argument.is_integer:
        return BIGINT
    if argument.kind is Kind.DECIMAL:
        return decimal(min(MAX_DECIMAL_DIGITS, argument.precision + 10), argument.scale)
    return DOUBLE


def avg_type(argument: Type) -> Type:
    """The type of AVG.

    >>> str(avg_type(decimal(15, 2)))
    'DECIMAL(19,6)'
    """
    if argument.kind is Kind.DECIMAL:
        precision, scale = argument.precision + 4, argument.scale + 4
        return decimal(min(MAX_DECIMAL_DIGITS, precision), min(MAX_DECIMAL_DIGITS, scale))
    return DOUBLE


def round_type(argument: Type, digits: int) -> Type:
    """The type of ROUND: one more integer digit than before, since 9.9 rounds to 10.

    >>> str(round_type(decimal(15, 2), 1))
    'DECIMAL(15,1)'
    """
    if argument.kind is not Kind.DECIMAL:
        return argument
    whole = argument.precision - argument.scale + 1
    if digits < 0:
        return decimal(min(MAX_DECIMAL_DIGITS, max(whole, 1 - digits)), 0)
    scale = min(argument.scale, digits)
    return decimal(min(MAX_DECIMAL_DIGITS, whole + scale), scale)


def floor_type(argument: Type) -> Type:
    """The type of FLOOR and CEIL."""
    if argument.kind is not Kind.DECIMAL:
        return BIGINT
    if argument.scale == 0:
        return argument
    return decimal(min(MAX_DECIMAL_DIGITS, argument.precision - argument.scale + 1), 0)
