"""Rows as text: columns aligned, numbers to the right."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any


def show_table(columns: Sequence[str], rows: Sequence[Sequence[Any]], limit: int | None = None) -> list[str]:
    """The lines of a table; of more than ``limit`` rows the rest is counted, not shown.

    >>> print("\\n".join(show_table(["g", "n"], [("a", 1), (None, 20), ("c", 3)], limit=2)))
    g      n
    ----  --
    a      1
    NULL  20
    (1 more row)
    """
    shown = rows if limit is None else rows[:limit]
    cells = [[show_value(value) for value in row] for row in shown]
    widths = [max(map(len, column)) for column in zip(columns, *cells, strict=True)]
    right = [
        any(isinstance(row[i], (int, float, Decimal)) and not isinstance(row[i], bool) for row in shown)
        for i in range(len(columns))
    ]
    lines = [_line(columns, widths, right), "  ".join("-" * width for width in widths)]
    lines += [_line(row, widths, right) for row in cells]
    if hidden := len(rows) - len(shown):
        lines.append(f"({hidden} more row{'s' if hidden > 1 else ''})")
    return lines


def show_value(value: Any) -> str:
    """A value as SQL people write it.

    >>> show_value(None), show_value(True), show_value(2.5)
    ('NULL', 'true', '2.5')
    """
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value).lower()
        case datetime():
            return value.isoformat(" ")
        case _:
            return str(value)


def _line(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    placed = [
        cell.rjust(width) if to_right else cell.ljust(width)
        for cell, width, to_right in zip(cells, widths, right, strict=True)
    ]
    return "  ".join(placed).rstrip()
