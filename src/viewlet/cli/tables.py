"""Rows as text: columns aligned, numbers to the right."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


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
    widths = [max(map(cells_wide, column)) for column in zip(columns, *cells, strict=True)]
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
    """A value as SQL people write it, in one line: what would move the cursor is shown as its escape.

    >>> show_value(None), show_value(True), show_value(2.5), show_value("two\\nlines")
    ('NULL', 'true', '2.5', 'two\\\\nlines')
    """
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value).lower()
        case datetime():
            return value.isoformat(" ")
        case _:
            return _CONTROL.sub(lambda found: repr(found[0])[1:-1], str(value))


def cells_wide(text: str) -> int:
    """How many cells of a terminal a text takes: two for a letter of East Asia, none for an accent.

    >>> cells_wide("tea"), cells_wide("お茶"), cells_wide("cafe\u0301")
    (3, 4, 4)
    """
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(c) else 1 + (unicodedata.east_asian_width(c) in "WF") for c in text)


def cut(text: str, width: int) -> str:
    """As much of a text as fits into so many cells.

    >>> cut("お茶 tea", 5), cut("tea", 5)
    ('お茶 ', 'tea')
    """
    if text.isascii():
        return text[:width]
    while cells_wide(text) > width:
        text = text[:-1]
    return text


def _line(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:

    def blank(cell: str, width: int) -> str:
        return " " * (width - cells_wide(cell))

    placed = [
        blank(cell, width) + cell if to_right else cell + blank(cell, width)
        for cell, width, to_right in zip(cells, widths, right, strict=True)
    ]
    return "  ".join(placed).rstrip()
