"""How databases, tables, views and explanations look in a notebook: plain HTML, without styles or scripts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from viewlet.core.types import Column, Schema
from viewlet.sql.catalog import Catalog, TableKind

SHOWN_ROWS = 20


class Explanation(str):
    """What ``explain`` says: a text, which a notebook shows in fixed width."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return f"<pre>{escape(self)}</pre>"


def table_html(title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]], note: str = "") -> str:
    """A table with a title above and a note below.

    >>> table_html("r", ["a"], [(None,), ("<b>",)])
    '<p><b>r</b></p><table><tr><th>a</th></tr><tr><td><i>NULL</i></td></tr><tr><td>&lt;b&gt;</td></tr></table>'
    """
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    body = "".join(f"<tr>{''.join(f'<td>{_cell(value)}</td>' for value in row)}</tr>" for row in rows)
    below = f"<p>{escape(note)}</p>" if note else ""
    return f"<p><b>{escape(title)}</b></p><table><tr>{head}</tr>{body}</table>{below}"


def _cell(value: Any) -> str:
    return "<i>NULL</i>" if value is None else escape(str(value))


def relation_html(kind: str, name: str, columns: Schema, rows: Sequence[Sequence[Any]]) -> str:
    """A table or view: its first rows under its columns and their types."""
    hidden = len(rows) - SHOWN_ROWS
    note = f"{hidden} more row{'s' if hidden > 1 else ''}" if hidden > 0 else ""
    return table_html(f"{kind} {name}", [str(column) for column in columns], rows[:SHOWN_ROWS], note)


def database_html(catalog: Catalog, sizes: Mapping[str, int], version: int) -> str:
    """A database: its relations, their columns, and how many rows they have; streams keep none."""
    rows = [
        (
            table.name,
            table.kind.value.lower(),
            _size(table.kind, sizes.get(table.name)),
            _listed(table.columns),
        )
        for table in catalog.values()
    ]
    return table_html(f"viewlet database, version {version}", ["name", "kind", "rows", "columns"], rows)


def _size(kind: TableKind, rows: int | None) -> str:
    return "" if kind is TableKind.STREAM or rows is None else f"{rows:,}"


def _listed(columns: Iterable[Column]) -> str:
    return ", ".join(map(str, columns))
