"""Types as PEP 249 has them: classes of columns, and the makers of dates and times."""

from __future__ import annotations

import datetime
import time
from typing import TypeAlias

import pyarrow as pa


class TypeCode:
    """A class of column types; the second item of a description is one of them."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


STRING, BINARY, NUMBER, DATETIME, ROWID = map(TypeCode, ("STRING", "BINARY", "NUMBER", "DATETIME", "ROWID"))
BOOLEAN, OTHER = TypeCode("BOOLEAN"), TypeCode("OTHER")

Date = datetime.date
Time = datetime.time
Timestamp = datetime.datetime
Binary = bytes


def DateFromTicks(ticks: float) -> datetime.date:  # noqa: N802  PEP 249
    """The local date of a time in seconds."""
    return datetime.date(*time.localtime(ticks)[:3])


def TimeFromTicks(ticks: float) -> datetime.time:  # noqa: N802  PEP 249
    """The local time of day of a time in seconds."""
    return datetime.time(*time.localtime(ticks)[3:6])


def TimestampFromTicks(ticks: float) -> datetime.datetime:  # noqa: N802  PEP 249
    """The local date and time of a time in seconds."""
    return datetime.datetime(*time.localtime(ticks)[:6])


Description: TypeAlias = tuple[str, TypeCode, None, None, int | None, int | None, bool]


def described(column: pa.Field) -> Description:
    """A column of a result as an item of a cursor's description."""
    kind = column.type
    is_decimal = pa.types.is_decimal(kind)
    precision, scale = (kind.precision, kind.scale) if is_decimal else (None, None)
    return column.name, _type_code(kind), None, None, precision, scale, column.nullable


def _type_code(kind: pa.DataType) -> TypeCode:
    checks = (
        (pa.types.is_boolean, BOOLEAN),
        (pa.types.is_integer, NUMBER),
        (pa.types.is_floating, NUMBER),
        (pa.types.is_decimal, NUMBER),
        (pa.types.is_temporal, DATETIME),
        (pa.types.is_string, STRING),
        (pa.types.is_large_string, STRING),
        (pa.types.is_binary, BINARY),
    )
    return next((code for check, code in checks if check(kind)), OTHER)
