"""Column types, and the physical values that stand for them inside the engine.

Inside the engine a value is a Python ``bool``, ``int``, ``float`` or ``str``, or ``None`` for NULL:

=============  ==========================================================
BOOLEAN        bool
INT, BIGINT    int (TINYINT and SMALLINT too)
DECIMAL(p,s)   int: the value times 10**s, exactly
DOUBLE         float, finite (FLOAT too)
DATE           int: days since 1970-01-01
TIMESTAMP      int: microseconds since 1970-01-01, no time zone
VARCHAR        str
=============  ==========================================================

So every backend computes on the same few representations, and only the boundary (Arrow, Python rows)
knows about ``datetime`` and ``decimal``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import cache
from typing import TypeAlias

Value: TypeAlias = bool | int | float | str | None


class Kind(Enum):
    """The families of types."""

    NULL = "NULL"
    BOOLEAN = "BOOLEAN"
    TINYINT = "TINYINT"
    SMALLINT = "SMALLINT"
    INT = "INT"
    BIGINT = "BIGINT"
    DECIMAL = "DECIMAL"
    FLOAT = "FLOAT"
    DOUBLE = "DOUBLE"
    DATE = "DATE"
    TIMESTAMP = "TIMESTAMP"
    VARCHAR = "VARCHAR"


INTEGER_BITS = {Kind.TINYINT: 8, Kind.SMALLINT: 16, Kind.INT: 32, Kind.BIGINT: 64}
INTEGER_DIGITS = {Kind.TINYINT: 3, Kind.SMALLINT: 5, Kind.INT: 10, Kind.BIGINT: 20}
MAX_DECIMAL_DIGITS = 38


@dataclass(frozen=True, slots=True)
class Type:
    """A column type; ``precision`` and ``scale`` count for DECIMAL only.

    >>> str(decimal(15, 2)), str(BIGINT)
    ('DECIMAL(15,2)', 'BIGINT')
    """

    kind: Kind
    precision: int = 0
    scale: int = 0

    def __str__(self) -> str:
        if self.kind is Kind.DECIMAL:
            return f"DECIMAL({self.precision},{self.scale})"
        return str(self.kind.value)

    @property
    def is_integer(self) -> bool:
        """Is it one of the integer types?"""
        return self.kind in INTEGER_BITS

    @property
    def is_exact(self) -> bool:
        """Is it an integer or DECIMAL, so that sums of it are exact?"""
        return self.is_integer or self.kind is Kind.DECIMAL

    @property
    def is_floating(self) -> bool:
        """Is it FLOAT or DOUBLE?"""
        return self.kind in (Kind.FLOAT, Kind.DOUBLE)

    @property
    def is_numeric(self) -> bool:
        """Can it be added and multiplied?"""
        return self.is_exact or self.is_floating


NULL = Type(Kind.NULL)
BOOLEAN = Type(Kind.BOOLEAN)
TINYINT = Type(Kind.TINYINT)
SMALLINT = Type(Kind.SMALLINT)
INT = Type(Kind.INT)
BIGINT = Type(Kind.BIGINT)
FLOAT = Type(Kind.FLOAT)
DOUBLE = Type(Kind.DOUBLE)
DATE = Type(Kind.DATE)
TIMESTAMP = Type(Kind.TIMESTAMP)
VARCHAR = Type(Kind.VARCHAR)


def decimal(precision: int, scale: int) -> Type:
    """DECIMAL(precision, scale), as it is: no capping (the SQL stage has the capping rules)."""
    if not 0 < precision <= MAX_DECIMAL_DIGITS or not 0 <= scale <= precision:
        raise ValueError(
            f"DECIMAL({precision},{scale}) does not exist: 1 <= precision <= 38, 0 <= scale <= precision"
        )
    return Type(Kind.DECIMAL, precision, scale)


def wide(scale: int) -> Type:
    """The type of an exact sum inside the engine: 128 bits at the given scale."""
    return decimal(MAX_DECIMAL_DIGITS, scale)


@cache
def bounds(kind: Type) -> tuple[int, int] | None:
    """The least and greatest physical value of an exact type, ``None`` for the others.

    >>> bounds(decimal(3, 1))
    (-999, 999)
    """
    if kind.is_integer:
        limit: int = 1 << (INTEGER_BITS[kind.kind] - 1)
        return -limit, limit - 1
    if kind.kind is Kind.DECIMAL:
        limit = 10**kind.precision
        return 1 - limit, limit - 1
    return None


def same_identity(left: Type, right: Type) -> bool:
    """Are two values of these types equal in SQL exactly when their representations are?"""
    if left.is_integer and right.is_integer:
        return True
    if left.kind is Kind.DECIMAL and right.kind is Kind.DECIMAL:
        return left.scale == right.scale
    return left.kind is right.kind


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table or of a result."""

    name: str
    type: Type
    nullable: bool = True

    def __str__(self) -> str:
        return f"{self.name} {self.type}" + ("" if self.nullable else " NOT NULL")


Schema: TypeAlias = tuple[Column, ...]
