"""One value of a column after another: what the column alone decides is decided once.

A decimal or a date as it is usually written takes a few steps; any other value goes the way of
:func:`viewlet.values.physical`, which finds the words for what is wrong with it.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from functools import partial
from typing import Any, TypeAlias

from viewlet.core.calendar import days_of, micros_of
from viewlet.core.casts import EXACT
from viewlet.core.types import Column, Kind, Type, Value, bounds
from viewlet.values import physical

Converter: TypeAlias = Callable[[Any], Value]


def converter(column: Column, table: str) -> Converter:
    """:func:`viewlet.values.physical` for the values of one column.

    >>> from viewlet.core.types import decimal
    >>> price = converter(Column("price", decimal(5, 2)), "r")
    >>> price(Decimal("1.5")), price(None)
    (150, None)
    >>> price(Decimal("1000"))
    Traceback (most recent call last):
        ...
    viewlet.errors.ValueRangeError: table 'r', column 'price': 1000 is out of range for DECIMAL(5,2)
    """
    slowly = partial(physical, column=column, table=table, number=None)
    match column.type.kind:
        case Kind.DECIMAL:
            return _of_decimals(column.type, slowly)
        case Kind.DATE:
            return lambda value: days_of(value) if type(value) is date else slowly(value)
        case Kind.TIMESTAMP:
            return lambda value: micros_of(value) if _is_plain(value) else slowly(value)
    return slowly


def _of_decimals(kind: Type, slowly: Converter) -> Converter:
    low, high = bounds(kind) or (0, 0)
    scale = kind.scale

    def convert(value: Any) -> Value:
        if type(value) is Decimal:
            try:
                scaled = value.scaleb(scale, EXACT)
                if low <= scaled <= high and (number := int(scaled)) == scaled:
                    return number
            except ArithmeticError:  # what is not a number, or not a finite one
                pass
        return slowly(value)

    return convert


def _is_plain(value: Any) -> bool:
    return type(value) is datetime and value.tzinfo is None
