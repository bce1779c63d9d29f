"""Commits, rows and map entries as bytes, and back.

Rows are Arrow IPC streams of the declared types with their weights in a last column, which is found by its
place: whatever a column is called, it cannot be taken for the weight. It is left out where every row is
inserted once. A few rows are JSON: Arrow would take longer to describe them. So are entries of maps, since a
sum may be an integer of any size or a fraction.

A commit is bytes in pieces: an Arrow batch is written from the memory that its table will keep it in.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice
from typing import TypeAlias, TypeVar

import numpy as np
import pyarrow as pa

from viewlet.backends.base import WEIGHTS, ArrowChanges, Change, Row
from viewlet.calculus.evaluate import Key, Number
from viewlet.changes import arrow_changes
from viewlet.core.types import Schema, Value
from viewlet.sql.catalog import Catalog, Table
from viewlet.values import arrow_column, arrow_schema, to_arrow

ROWS_PER_BLOCK = 1 << 16
COMPRESSED_BYTES = 1 << 14  # less is not worth it
FEW_ROWS = 100
"""So many Python rows are written as JSON."""
END_OF_STREAM = b"\xff\xff\xff\xff\0\0\0\0"

Item = TypeVar("Item")

Piece: TypeAlias = bytes | pa.Buffer
"""Some bytes of something that is written in one go."""


@dataclass(frozen=True, slots=True)
class Commit:
    """One atomic batch: the net changes of each table, each row once, under the version that it made."""

    version: int
    changes: Mapping[str, Sequence[Change]]
    token: str | None = None


def encode_changes(
    changes: Mapping[str, Sequence[Change]], catalog: Catalog, *, compress: bool = True
) -> list[Piece]:
    """The changes of all tables: a line of JSON with names and sizes, then one Arrow stream per table.

    A few rows of a table stand in that line themselves, in place of the size.
    """
    header: dict[str, int | list[tuple[Row, int]]] = {}
    pieces: list[Piece] = []
    for name, part in changes.items():
        if len(part) <= FEW_ROWS and not isinstance(part, ArrowChanges):
            header[name] = [(change.row, change.weight) for change in part]
        else:
            stream = _part(part, catalog[name].columns, compress)
            header[name] = size_of(stream)
            pieces += stream
    return [json.dumps(header, allow_nan=False).encode() + b"\n", *pieces]


def size_of(pieces: Iterable[Piece]) -> int:
    """The bytes of all pieces.

    >>> size_of([b"abc", pa.py_buffer(b"de")])
    5
    """
    return sum(map(len, pieces))


def decode_changes(body: bytes, catalog: Catalog) -> dict[str, ArrowChanges]:
    """The changes that :func:`encode_changes` wrote, checked against the tables of the catalog."""
    start = body.index(b"\n") + 1
    changes = {}
    for name, size in json.loads(body[:start]).items():
        if isinstance(size, list):
            changes[name] = _few_rows(size, catalog[name])
        else:
            changes[name] = decode_rows(memoryview(body)[start : start + size], catalog[name])
            start += size
    return changes


def _few_rows(pairs: list[tuple[list[Value], int]], table: Table) -> ArrowChanges:
    columns = to_arrow([tuple(row) for row, _ in pairs], table.columns).columns
    return arrow_changes(table, _checked(columns, table), np.array([weight for _, weight in pairs], np.int64))


def encode_part(changes: Sequence[Change], columns: Schema) -> bytes:
    """The changes of one table as an Arrow IPC stream; an Arrow batch is written as it is."""
    return b"".join(_part(changes, columns, compress=True))


def encode_rows(rows: Iterable[tuple[Row, int]], columns: Schema) -> bytes:
    """Rows with weights as one Arrow IPC stream, a block after the other."""
    return bytes(_rows(rows, columns, compress=True))


def _part(changes: Sequence[Change], columns: Schema, compress: bool) -> list[Piece]:
    """The Arrow stream of one table; what is not compressed is not copied either."""
    if not isinstance(changes, ArrowChanges):
        return [_rows(((change.row, change.weight) for change in changes), columns, compress)]
    if compress:
        return [_stream([_weighted(changes)], compress)]
    return [changes.message_schema.serialize(), changes.message, END_OF_STREAM] if len(changes) else []


def _rows(rows: Iterable[tuple[Row, int]], columns: Schema, compress: bool) -> pa.Buffer:
    def table(block: list[tuple[Row, int]]) -> pa.Table:
        weights = pa.array([weight for _, weight in block], pa.int64())
        return to_arrow([row for row, _ in block], columns).append_column(WEIGHTS, weights)

    return _stream(map(table, blocks(rows, ROWS_PER_BLOCK)), compress)


def _weighted(changes: ArrowChanges) -> pa.Table:
    rows = pa.Table.from_batches([changes.batch])
    return rows if changes.weights is None else rows.append_column(WEIGHTS, pa.array(changes.weights))


def _stream(tables: Iterable[pa.Table], compress: bool) -> pa.Buffer:
    """Tables of one schema as an Arrow IPC stream; nothing for no rows."""
    sink = pa.BufferOutputStream()
    writer: pa.RecordBatchStreamWriter | None = None
    for table in tables:
        if table.num_rows:
            compression = "lz4" if compress and table.nbytes >= COMPRESSED_BYTES else None
            options = pa.ipc.IpcWriteOptions(compression=compression, use_threads=False)
            writer = writer or pa.ipc.new_stream(sink, table.schema, options=options)
            writer.write_table(table)
    if writer is not None:
        writer.close()
    return sink.getvalue()


def decode_rows(stream: bytes | memoryview, table: Table) -> ArrowChanges:
    """The rows with weights that :func:`encode_rows` and :func:`encode_part` wrote."""
    if not stream:
        columns = [pa.chunked_array([], field.type) for field in arrow_schema(table.columns)]
        return arrow_changes(table, columns, None)
    with pa.ipc.open_stream(pa.py_buffer(stream)) as reader:
        columns = reader.read_all().columns
    checked = _checked(columns, table)
    if len(columns) == len(table.columns):
        return arrow_changes(table, checked, None)
    (weights,) = columns[len(table.columns) :]
    return arrow_changes(table, checked, weights.cast(pa.int64()).to_numpy())


def _checked(columns: Sequence[pa.ChunkedArray], table: Table) -> list[pa.ChunkedArray]:
    """The columns of a table, ahead of any that follow, if it takes their values: no file is trusted."""
    pairs = zip(columns, table.columns, strict=False)
    return [arrow_column(column, declared, table.name) for column, declared in pairs]


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


def encode_block(block: pa.RecordBatch) -> bytes:
    """Entries of a frozen map as an Arrow IPC stream."""
    return bytes(_stream([pa.Table.from_batches([block])], compress=True))


def decode_block(body: bytes) -> Iterator[pa.RecordBatch]:
    """The entries that :func:`encode_block` wrote."""
    with pa.ipc.open_stream(pa.py_buffer(body)) as reader:
        yield from reader


def blocks(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """The items in lists of ``size``; the last may be shorter.

    >>> list(blocks("abcde", 2))
    [['a', 'b'], ['c', 'd'], ['e']]
    """
    iterator = iter(items)
    while block := list(islice(iterator, size)):
        yield block
