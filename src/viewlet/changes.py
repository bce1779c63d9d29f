"""Batches of changes: data of any accepted kind to checked changes, and a view's own changes back to data.

Every check is made here, before any state is touched: which columns there are, what their values are
(``values.py``), and which way each row goes. A message names the table, the column and the row (from 0).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from viewlet.backends.base import ArrowChanges, Change, Row
from viewlet.core.types import BIGINT, VARCHAR, Column, Schema
from viewlet.errors import DataError, ValueRangeError
from viewlet.plan.bags import row_order
from viewlet.sql.catalog import Table
from viewlet.values import (
    arrow_column,
    arrow_schema,
    physical,
    physical_values,
    read_column,
    shown,
    to_arrow,
    validate,
)

Data: TypeAlias = Any
Weights: TypeAlias = NDArray[np.int64] | None

WEIGHT = "_weight"
CHANGE_TYPE = "_change_type"
COMMIT_VERSION = "_commit_version"
DIRECTIONS = frozenset({WEIGHT, CHANGE_TYPE})
FEED_COLUMNS = frozenset({COMMIT_VERSION, "_commit_timestamp"})
MOST_COPIES = (1 << 31) - 1
CHANGE_TYPES = {"insert": 1, "update_postimage": 1, "delete": -1, "update_preimage": -1}


@dataclass(frozen=True, slots=True)
class Batch:
    """Checked changes of one table; ``keyed`` if the rows hold only the columns of the primary key."""

    changes: Sequence[Change]
    keyed: bool = False


def read_changes(table: Table, data: Data) -> Batch:
    """Changes in either form: a column ``_weight`` or ``_change_type``, or neither for inserts.

    >>> r = Table("r", (Column("a", BIGINT),))
    >>> read_changes(r, [{"a": 7, "_weight": -2}]).changes
    [Change(row=(7,), weight=-2)]
    """
    names, columns = _columns(table, data, table.column_names)
    return _batch(table, names, columns, _weights(table, names, columns))


def read_inserts(table: Table, data: Data) -> Batch:
    """Rows that appear."""
    names, columns = _columns(table, data, table.column_names)
    return _batch(table, *_without_direction(table, names, columns), None)


def read_deletes(table: Table, data: Data) -> Batch:
    """Rows that disappear; of a table with a primary key the key alone may be given."""
    names, columns = _columns(table, data, table.column_names, table.key)
    weights = np.full(len(columns[0]), -1, np.int64)
    return _batch(table, *_without_direction(table, names, columns), weights)


def read_row(table: Table, values: Sequence[Any]) -> Row:
    """One row given as values in column order."""
    if len(values) != len(table.columns):
        raise DataError(_width_message(table, "the row", len(values)))
    return tuple(
        physical(value, column, table.name, None) for value, column in zip(values, table.columns, strict=True)
    )


def arrow_changes(table: Table, columns: Sequence[pa.ChunkedArray], weights: Weights) -> ArrowChanges:
    """Changes as one Arrow batch, from columns of the declared types."""
    arrays = [_one_array(column) for column in columns]
    batch = pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(table.columns))
    if weights is not None and (weights == 1).all():
        weights = None
    if weights is not None and not weights.all():
        batch, weights = batch.filter(pa.array(weights != 0)), weights[weights != 0]
    return ArrowChanges(batch, weights, partial(rows_of, table.columns))


def rows_of(columns: Schema, batch: pa.RecordBatch) -> Iterator[Row]:
    """The rows of a batch as tuples of physical values."""
    pairs = zip(batch.columns, columns, strict=True)
    return zip(*(physical_values(values, column.type) for values, column in pairs), strict=True)


def _one_array(column: pa.ChunkedArray) -> pa.Array:
    try:
        combined = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    except pa.ArrowInvalid:  # offsets of text have 32 bits
        raise DataError(f"a batch of {len(column)} rows holds over 2 GB of text: split it") from None
    if isinstance(combined, pa.ChunkedArray):
        combined = combined.chunk(0) if combined.num_chunks else pa.array([], column.type)
    return combined


def _batch(table: Table, names: list[str], columns: list[Any], weights: Weights) -> Batch:
    used = _match_columns(table, names, may_be_keyed=weights is not None and bool((weights <= 0).all()))
    keyed = len(used) < len(table.columns)
    given = [columns[names.index(column.name)] for column in used]
    if not keyed and all(isinstance(values, pa.ChunkedArray) for values in given):
        pairs = zip(given, used, strict=True)
        checked = [arrow_column(values, column, table.name) for values, column in pairs]
        return Batch(arrow_changes(table, checked, weights))
    rows = zip(*map(read_column, given, used, repeat(table.name)), strict=True)
    counts = repeat(1) if weights is None else weights.tolist()
    return Batch([Change(row, n) for row, n in zip(rows, counts, strict=False) if n], keyed)


def _columns(table: Table, data: Data, *orders: tuple[str, ...]) -> tuple[list[str], list[Any]]:
    """The columns of any data by lower-case name; ``orders`` are what the values of a tuple may be."""
    arrow = as_arrow(table, data)
    if arrow is None:
        return _columns_of_rows(table, list(data), [order for order in orders if order])
    for name, values in zip(arrow.column_names, arrow.columns, strict=True):
        try:
            validate(values)
        except pa.ArrowInvalid as reason:
            raise DataError(f"table {table.name!r}, column {name!r}: invalid Arrow data: {reason}") from None
    return _lower(table, arrow.column_names), arrow.columns or [[]]


def _lower(table: Table, names: Iterable[Any]) -> list[str]:
    """Column names in lower case, each once."""
    lower = [str(name).lower() for name in names]
    for name in lower:
        if lower.count(name) > 1:
            raise DataError(f"table {table.name!r}: the column {name!r} is given twice")
    return lower


def as_arrow(table: Table, data: Data) -> pa.Table | None:
    """Columnar data as an Arrow table; ``None`` for an iterable of rows."""
    kind = f"{type(data).__module__}.{type(data).__qualname__}"
    if isinstance(data, pa.Table):
        return data
    try:
        if isinstance(data, pa.RecordBatch):
            return pa.Table.from_batches([data])
        if kind.startswith("pandas."):
            return pa.Table.from_pandas(data, preserve_index=False)
        if hasattr(data, "__arrow_c_stream__") or kind.startswith("polars."):
            return pa.table(data)
    except (pa.ArrowException, AttributeError, TypeError, ValueError, OverflowError) as reason:
        raise DataError(f"table {table.name!r}: {kind} cannot be read as Arrow: {reason}") from None
    if isinstance(data, (Mapping, str, bytes)) or not _has_rows(data):
        raise DataError(
            f"table {table.name!r}: cannot read rows from {kind}; "
            "give a list of tuples or dicts, or pyarrow, pandas or polars data"
        )
    return None


def _has_rows(data: Data) -> bool:
    """Can it be gone through? An array without dimensions only says that it can."""
    try:
        iter(data)
    except TypeError:
        return False
    return True


def _columns_of_rows(
    table: Table, rows: list[Any], orders: list[tuple[str, ...]]
) -> tuple[list[str], list[Any]]:
    """Python rows as columns; tuples in one of the given orders of columns, dicts by name."""
    if not rows:
        return list(table.column_names), [[] for _ in table.columns]
    if isinstance(rows[0], Mapping):
        names = _lower(table, rows[0])
        ordered = [_values_by_name(table, row, names, number) for number, row in enumerate(rows)]
        return names, [list(column) for column in zip(*ordered, strict=True)]
    order = next((o for o in orders if isinstance(rows[0], Sequence) and len(o) == len(rows[0])), orders[0])
    for number, row in enumerate(rows):
        if not isinstance(row, (tuple, list)):
            raise DataError(
                f"table {table.name!r}, row {number}: {shown(row, repr)} is neither a tuple nor a dict"
            )
        if len(row) != len(order):
            raise DataError(_width_message(table, f"row {number}", len(row)))
    return list(order), [list(column) for column in zip(*rows, strict=True)]


def _values_by_name(table: Table, row: Any, names: list[str], number: int) -> list[Any]:
    """The values of a dict row, in the order of the first row's columns."""
    if not isinstance(row, Mapping):
        raise DataError(
            f"table {table.name!r}, row {number}: {shown(row, repr)} is not a dict, as the rows before it are"
        )
    by_name = {str(name).lower(): value for name, value in row.items()}
    if len(by_name) != len(names) or any(name not in by_name for name in names):
        here, first = ", ".join(by_name), ", ".join(names)
        raise DataError(
            f"table {table.name!r}, row {number}: the columns are {here}, in row 0 they are {first}"
        )
    return [by_name[name] for name in names]


def _width_message(table: Table, what: str, width: int) -> str:
    columns = ", ".join(str(column) for column in table.columns)
    return f"table {table.name!r}: {what} has {width} values, but the columns are: {columns}"


def _without_direction(table: Table, names: list[str], columns: list[Any]) -> tuple[list[str], list[Any]]:
    for name in names:
        if name in DIRECTIONS:
            raise DataError(f"table {table.name!r}: {name} belongs to apply(), not to insert() and delete()")
    return names, columns


def _match_columns(table: Table, names: list[str], may_be_keyed: bool) -> Schema:
    """The table's columns that the data holds: all of them, or those of the key for deletions."""
    where = f"table {table.name!r}"
    present = set(names)
    if present & DIRECTIONS:
        present -= DIRECTIONS | FEED_COLUMNS
    if present == set(table.column_names):
        return table.columns
    expected = ", ".join(str(column) for column in table.columns)
    for name in sorted(present - set(table.column_names)):
        raise DataError(f"{where} has no column {name!r}; its columns: {expected}")
    if table.key and present == set(table.key) and may_be_keyed:
        return tuple(column for column in table.columns if column.name in table.key)
    missing = next(name for name in table.column_names if name not in present)
    raise DataError(f"{where}: the column {missing!r} is missing; expected: {expected}")


def _weights(table: Table, names: list[str], columns: list[Any]) -> Weights:
    """Which way each row goes, and how often; nothing where all are inserted once."""
    if names and {*names} >= DIRECTIONS:
        raise DataError(f"table {table.name!r}: give either {WEIGHT} or {CHANGE_TYPE}, not both")
    if WEIGHT in names:
        return _counts(table, columns[names.index(WEIGHT)])
    if CHANGE_TYPE not in names:
        return None
    column = Column(CHANGE_TYPE, VARCHAR, nullable=False)
    words = read_column(columns[names.index(CHANGE_TYPE)], column, table.name)
    for number, word in enumerate(words):
        if word not in CHANGE_TYPES:
            known = ", ".join(CHANGE_TYPES)
            raise DataError(
                f"table {table.name!r}, row {number}: {CHANGE_TYPE} is {word!r}, not one of {known}"
            )
    return np.fromiter(map(CHANGE_TYPES.__getitem__, words), np.int64, len(words))


def _counts(table: Table, values: Any) -> NDArray[np.int64]:
    """The column ``_weight``; a row comes or goes at most ``MOST_COPIES`` times at once."""
    column = Column(WEIGHT, BIGINT, nullable=False)
    if isinstance(values, list):
        weights = np.array(read_column(values, column, table.name), np.int64)
    else:
        weights = arrow_column(values, column, table.name).to_numpy()
    if len(weights) and max(int(weights.max()), -int(weights.min())) > MOST_COPIES:
        number = int(np.argmax((weights > MOST_COPIES) | (weights < -MOST_COPIES)))
        raise ValueRangeError(
            f"table {table.name!r}, row {number}: {WEIGHT} is {weights[number]}; "
            f"at most {MOST_COPIES} copies of a row may come or go at once"
        )
    return weights


def feed(changes: Mapping[Row, int], columns: Schema, version: int, weights: bool) -> pa.Table:
    """A view's own change as Arrow: one row per copy, or with ``_weight``.

    Deletions come before insertions, each ordered by all columns, so equal changes give equal feeds.
    """
    ordered = sorted(changes.items(), key=lambda item: (item[1] > 0, row_order(item[0])))
    if weights:
        extra = pa.array([weight for _, weight in ordered], pa.int64())
        return to_arrow([row for row, _ in ordered], columns).append_column(WEIGHT, extra)
    copies = [(row, weight > 0) for row, weight in ordered for _ in range(abs(weight))]
    table = to_arrow([row for row, _ in copies], columns)
    words = pa.array(["insert" if inserted else "delete" for _, inserted in copies], pa.string())
    versions = pa.array([version] * len(copies), pa.int64())
    return table.append_column(CHANGE_TYPE, words).append_column(COMMIT_VERSION, versions)


def feed_of_arrow(changes: ArrowChanges, version: int, weights: bool) -> pa.Table:
    """The same as :func:`feed` for changes that are columns already, every row once."""
    signs = np.ones(len(changes), np.int64) if changes.weights is None else changes.weights
    rows = pa.Table.from_batches([changes.batch])
    keys = [pa.array(signs > 0), *(key for column in rows.columns for key in (column.is_valid(), column))]
    places = pa.table(keys, [str(place) for place in range(len(keys))])
    order = pc.sort_indices(places, [(name, "ascending") for name in places.column_names]).to_numpy()
    if weights:
        return rows.take(pa.array(order)).append_column(WEIGHT, pa.array(signs[order]))
    copies = np.repeat(order, np.abs(signs[order]))
    words = pa.array(np.where(signs[copies] > 0, "insert", "delete"), pa.string())
    versions = pa.array(np.full(len(copies), version, np.int64))
    table = rows.take(pa.array(copies))
    return table.append_column(CHANGE_TYPE, words).append_column(COMMIT_VERSION, versions)
