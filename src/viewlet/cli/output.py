"""What a shell shows: text for people, or a line of JSON for each result."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from viewlet.cli.tables import show_table

MAX_ROWS = 40


class Output(Protocol):
    """Takes results one after the other."""

    def note(self, text: str) -> None:
        """A text: an explanation, a list, a confirmation."""

    def commit(self, version: int) -> None:
        """A change has become a version."""

    def rows(self, columns: Sequence[str], rows: Sequence[Sequence[Any]], title: str = "") -> None:
        """A table."""


class TextOutput:
    """Text, of large tables the first rows only.

    >>> TextOutput(print, limit=1).rows(["a"], [(1,), (2,)], "r:")
    r:
    a
    -
    1
    (1 more row)
    """

    def __init__(self, write: Callable[[str], object], limit: int = MAX_ROWS) -> None:
        self._write, self._limit = write, limit

    def note(self, text: str) -> None:
        """The text as it is."""
        self._write(text)

    def commit(self, version: int) -> None:
        """A short line."""
        self._write(f"commit {version}")

    def rows(self, columns: Sequence[str], rows: Sequence[Sequence[Any]], title: str = "") -> None:
        """Aligned columns."""
        shown = show_table(columns, rows, self._limit)
        self._write("\n".join([title, *shown] if title else shown))


class JsonOutput:
    """One JSON object a line; numbers that JSON cannot hold exactly, and times, are strings.

    >>> JsonOutput(print).rows(["a", "b"], [(1, None)])
    {"columns": ["a", "b"], "rows": [[1, null]]}
    """

    def __init__(self, write: Callable[[str], object]) -> None:
        self._write = write

    def note(self, text: str) -> None:
        """``{"note": ...}``"""
        self._write(json.dumps({"note": text}))

    def commit(self, version: int) -> None:
        """``{"commit": ...}``"""
        self._write(json.dumps({"commit": version}))

    def rows(self, columns: Sequence[str], rows: Sequence[Sequence[Any]], title: str = "") -> None:
        """``{"columns": [...], "rows": [[...], ...]}``, all of them; a change feed has a title too."""
        head = {"title": title} if title else {}
        table = {"columns": list(columns), "rows": [list(row) for row in rows]}
        self._write(json.dumps({**head, **table}, default=str))
