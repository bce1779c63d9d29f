"""Rows of views and tables in pages, read from one ordered copy that several requests share.

Ordering a view of a million rows takes seconds. The copy is made again only when the database has moved on
and :data:`PATIENCE` times the time that it took has passed; a page says of which
version it is.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any, TypeAlias

import pyarrow as pa

from viewlet.database import Database
from viewlet.sql.catalog import TableKind

PATIENCE = 5
KEPT_COPIES = 4
MOST_ROWS = 500
LONGEST_TEXT = 500
EXACT_IN_A_DOUBLE = 1 << 53

Json: TypeAlias = bool | int | float | str | None


@dataclass(frozen=True, slots=True)
class Copy:
    """Rows in order, as of a version."""

    version: int
    types: tuple[str, ...]
    rows: pa.Table
    made: float
    cost: float


class Pages:
    """Copies of the views and tables that were asked for last."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._copies: OrderedDict[str, Copy] = OrderedDict()
        self._making: dict[str, asyncio.Lock] = {}

    async def page(self, name: str, offset: int, limit: int) -> dict[str, Any]:
        """Some rows of a view or table as JSON, with how many there are and of which version they are."""
        copy = await self._copy(name)
        part = copy.rows.slice(offset, min(limit, MOST_ROWS))
        return {
            "columns": part.column_names,
            "types": copy.types,
            "rows": json_rows(part),
            "offset": offset,
            "total": copy.rows.num_rows,
            "version": copy.version,
            "behind": self._database.version - copy.version,
        }

    async def _copy(self, name: str) -> Copy:
        async with self._making.setdefault(name, asyncio.Lock()):
            known = self._copies.get(name)
            if known is None or not self._is_good(known):
                known = await asyncio.to_thread(self._read, name)
                self._copies[name] = known
            self._copies.move_to_end(name)
            while len(self._copies) > KEPT_COPIES:
                self._making.pop(self._copies.popitem(last=False)[0], None)
            return known

    def _is_good(self, copy: Copy) -> bool:
        return copy.version == self._database.version or time.monotonic() < copy.made + PATIENCE * copy.cost

    def _read(self, name: str) -> Copy:
        began = time.thread_time()  # what the reading took, not what it waited
        version = self._database.version  # before reading: the copy is of this version or a later one
        relation = self._database.catalog[name]
        is_view = relation.kind is TableKind.VIEW
        rows = (self._database.view(name) if is_view else self._database.table(name)).to_arrow()
        types = tuple(str(column.type) for column in relation.columns)
        return Copy(version, types, rows, time.monotonic(), time.thread_time() - began)


def json_rows(table: pa.Table) -> list[list[Json]]:
    """Arrow rows as JSON values."""
    columns = [[json_value(value) for value in column.to_pylist()] for column in table.columns]
    return [list(row) for row in zip(*columns, strict=True)]


def json_value(value: Any) -> Json:
    """A value that a page can show without loss; what JavaScript's numbers cannot hold becomes text.

    >>> json_value(2**53 + 1), json_value(Decimal("0.10")), json_value(date(2024, 2, 29))
    ('9007199254740993', '0.10', '2024-02-29')
    """
    match value:
        case None | bool() | float():
            return value
        case int():
            return value if -EXACT_IN_A_DOUBLE <= value <= EXACT_IN_A_DOUBLE else str(value)
        case Decimal() | date():
            return str(value)
        case _:
            text = str(value)
            return text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]}…"
