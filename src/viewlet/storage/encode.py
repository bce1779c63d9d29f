"""Commits, rows and map entries as bytes, and back.

Rows are Arrow IPC streams of the declared types with their weights in a last column, which is found by its
place: whatever a column is called, it cannot be taken for the weight. Entries of maps are JSON, since a sum
may be an integer of any size or a fraction.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice
from typing import TypeVar

import pyarrow as pa

from viewlet.backends.base import Change, Row
from viewlet.calculus.evaluate import Key, Number
from viewlet.core.types import Schema
from viewlet.sql.catalog import Catalog, Table
from viewlet.values import read_column, to_arrow

ROWS_PER_BLOCK = 1 << 16

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Commit:
    """One atomic batch: the net changes of each table, each row once, under the version that it made."""

    version: int
    changes: Mapping[str, Sequence[Change]]
    token: str | None = None


def encode_changes(changes: Mapping[str, Sequence[Change]], catalog: Catalog) -> bytes:
    """The changes of all tables: a line of JSON with names and sizes, then one Arrow stream per table."""
    streams = {
        name: encode_rows(((c.row, c.weight) for c in part), catalog[name].columns)
        for name, part in changes.items()
    }
    header = json.dumps({name: len(stream) for name, stream in streams.items()}).encode()
    return b"\n".join([header, b"".join(streams.values())])


def decode_changes(body: bytes, catalog: Catalog) -> dict[str, list[Change]]:
    """The changes that :func:`encode_changes` wrote, checked against the tables of the catalog."""
    header, _, rest = body.partition(b"\n")
    changes = {}
    start = 0
    for name, size in json.loads(header).items():
        rows = decode_rows(memoryview(rest)[start : start + size], catalog[name])
        changes[name] = [Change(row, weight) for row, weight in rows]
        start += size
    return changes


def encode_rows(rows: Iterable[tuple[Row, int]], columns: Schema) -> bytes:
    """Rows with weights as one Arrow IPC stream, a block after the other."""
    sink = io.BytesIO()
    writer: pa.RecordBatchStreamWriter | None = None
    for block in blocks(rows, ROWS_PER_BLOCK):
        weights = pa.array([weight for _, weight in block], pa.int64())
        table = to_arrow([row for row, _ in block], columns).append_column("weight", weights)
        writer = writer or pa.ipc.new_stream(sink, table.schema)
        writer.write_table(table)
    if writer is not None:
        writer.close()
    return sink.getvalue()


def decode_rows(stream: bytes | memoryview, table: Table) -> Iterator[tuple[Row, int]]:
    """The rows with weights that :func:`encode_rows` wrote."""
    if not stream:
        return
    with pa.ipc.open_stream(pa.py_buffer(stream)) as reader:
        for batch in reader:
            *values, weights = pa.Table.from_batches([batch]).columns
            pairs = zip(values, table.columns, strict=True)
            columns = [read_column(column, declared, table.name) for column, declared in pairs]
            yield from zip(zip(*columns, strict=True), weights.to_pylist(), strict=True)


def encode_entries(entries: Iterable[tuple[Key, Number]]) -> bytes:
    """Entries of a map as JSON; a fraction is written ``"numerator/denominator"``.

    >>> encode_entries([(("a", None), 3), ((1,), Fraction(1, 4))])
    b'[[["a", null], 3], [[1], "1/4"]]'
    """
    written = [(key, number if isinstance(number, int) else str(number)) for key, number in entries]
    return json.dumps(written, allow_nan=False).encode()


def decode_entries(body: bytes) -> Iterator[tuple[Key, Number]]:
    """The entries that :func:`encode_entries` wrote.

    >>> list(decode_entries(b'[[[1], "1/4"]]'))
    [((1,), Fraction(1, 4))]
    """
    for key, number in json.loads(body):
        yield tuple(key), Fraction(number) if isinstance(number, str) else number


def blocks(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """The items in lists of ``size``; the last may be shorter.

    >>> list(blocks("abcde", 2))
    [['a', 'b'], ['c', 'd'], ['e']]
    """
    iterator = iter(items)
    while block := list(islice(iterator, size)):
        yield block
