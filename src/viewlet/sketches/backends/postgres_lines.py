"""Rows of PostgreSQL as lines of text that Arrow reads: many rows come as one value.

A driver makes Python objects row by row, which takes longer than the server does for the query. So the server
writes lines itself, where the text of a value means the same whatever its settings are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa
from pyarrow import csv

from viewlet.core.types import Kind, Type
from viewlet.values import arrow_type

PLAIN = frozenset({Kind.DATE, Kind.DECIMAL, Kind.VARCHAR})
"""What can be sent as text whatever the server's settings are, besides whole numbers."""


def has_lines(kinds: Sequence[Type]) -> bool:
    """Can rows of these types come as lines? One NULL alone would be an empty line, which is no row."""
    return len(kinds) > 1 and all(kind.is_integer or kind.kind in PLAIN for kind in kinds)


def as_lines(text: str, kinds: Sequence[Type], part: str) -> str:
    """A query for the rows of another one, those of the same ``part`` as one value."""
    names = _names(kinds)
    line = " || ',' || ".join(map(_field, names, kinds))
    return (
        f"SELECT string_agg(line, E'\\n') FROM "
        f"(SELECT {line} AS line, {part} AS part "
        f"FROM ({text}) AS t ({', '.join(names)})) AS lines GROUP BY part"
    )


def read_lines(parts: Iterable[str], kinds: Sequence[Type]) -> pa.Table | None:
    """The rows that such values hold; ``None`` for odd ones."""
    names = _names(kinds)
    days = [kind.kind is Kind.DATE for kind in kinds]
    types = [pa.int32() if day else arrow_type(kind) for kind, day in zip(kinds, days, strict=True)]
    table = _read_csv("\n".join(parts), dict(zip(names, types, strict=True)))
    if table is None:
        return None
    return table.cast(pa.schema(zip(names, map(arrow_type, kinds), strict=True)))


def _names(kinds: Sequence[Type]) -> list[str]:
    return [f"c{place}" for place in range(len(kinds))]


def _field(name: str, kind: Type) -> str:
    """A column as a field of a line: nothing for NULL, text in quotes, a date by its number."""
    if kind.kind is Kind.VARCHAR:
        return f"""coalesce('"' || replace({name}, '"', '""') || '"', '')"""
    number = f"({name} - DATE 'epoch')" if kind.kind is Kind.DATE else name
    return f"coalesce({number}::text, '')"


def _read_csv(text: str, types: dict[str, pa.DataType]) -> pa.Table | None:
    """Lines in which NULL is an empty field and an empty text a quoted one; ``None`` for odd values.

    >>> _read_csv('1,""\\n,\\n', {"a": pa.int64(), "b": pa.string()}).to_pylist()
    [{'a': 1, 'b': ''}, {'a': None, 'b': None}]
    """
    if not text:
        return pa.table({name: pa.array([], kind) for name, kind in types.items()})
    meaning = csv.ConvertOptions(
        column_types=types, null_values=[""], strings_can_be_null=True, quoted_strings_can_be_null=False
    )
    named, lines = csv.ReadOptions(column_names=list(types)), csv.ParseOptions(newlines_in_values=True)
    try:
        return csv.read_csv(pa.BufferReader(text.encode()), named, lines, meaning)
    except pa.ArrowInvalid:
        return None
