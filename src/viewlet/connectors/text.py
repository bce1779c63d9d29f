"""Values that come as text, by the type of the column they are for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

from viewlet.core.types import Kind, Type
from viewlet.sql.catalog import Table
from viewlet.values import to_arrow

_BOOLEANS = {"t": True, "true": True, "f": False, "false": False}


def reader(kind: Type) -> Callable[[str], Any]:
    """The function that reads a text of a type; it raises ``ValueError`` or ``KeyError`` for others.

    >>> from viewlet.core.types import DATE, decimal
    >>> reader(DATE)("2024-02-29"), reader(decimal(9, 2))("0.10")
    (datetime.date(2024, 2, 29), Decimal('0.10'))
    """
    if kind.is_integer:
        return int
    if kind.is_floating:
        return float
    match kind.kind:
        case Kind.DECIMAL:
            return Decimal
        case Kind.BOOLEAN:
            return lambda text: _BOOLEANS[text.lower()]
        case Kind.DATE:
            return date.fromisoformat
        case Kind.TIMESTAMP:
            return _timestamp
        case _:
            return str


def _timestamp(text: str) -> datetime:
    """A moment with a zone becomes the same moment in UTC, without one."""
    moment = datetime.fromisoformat(text)
    return moment.astimezone(UTC).replace(tzinfo=None) if moment.tzinfo else moment


def arrow_types(table: Table) -> Mapping[str, pa.DataType]:
    """The Arrow types of a table's columns."""
    schema = to_arrow([], table.columns).schema
    return {name: schema.field(name).type for name in schema.names}
