"""One value, one column, one row set across the boundary: Python and Arrow to physical values and back.

Values are never bent to fit: a decimal with too many digits, a double that is not finite or a timestamp with
a time zone is refused, and the message names the table, the column and the row (counted from 0).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from math import isfinite
from operator import index as as_integer
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from viewlet.core.calendar import (
    FIRST_DAY,
    LAST_DAY,
    MICROS_PER_DAY,
    date_of,
    datetime_of,
    days_of,
    micros_of,
)
from viewlet.core.casts import EXACT, as_decimal, single
from viewlet.core.types import Column, Kind, Schema, Type, Value, bounds
from viewlet.errors import DataError, ValueRangeError

Row = tuple[Value, ...]

MOST_SHOWN = 60
"""Characters of a value in a message."""


def read_column(values: Any, column: Column, table: str) -> list[Any]:
    """A column of data, a list of Python values or Arrow, as physical values."""
    return (_read_python_column if isinstance(values, list) else _read_arrow_column)(values, column, table)


# Python values to physical values.


def _read_python_column(values: list[Any], column: Column, table: str) -> list[Value]:
    kind = column.type
    if kind.kind is Kind.VARCHAR and all(type(value) is str and value.isascii() for value in values):
        return values
    if kind.is_integer and values and all(type(value) is int for value in values):
        low, high = bounds(kind) or (0, 0)
        if low <= min(values) and max(values) <= high:
            return values
    return [physical(value, column, table, number) for number, value in enumerate(values)]


def physical(value: Any, column: Column, table: str, number: int | None) -> Value:
    """The physical value of a Python value for a column; refused if it does not fit exactly.

    >>> from viewlet.core.types import decimal
    >>> physical(Decimal("1.5"), Column("price", decimal(5, 2)), "r", 0)
    150
    """
    if type(value) is int and column.type.is_integer:
        low, high = bounds(column.type) or (0, 0)
        if low <= value <= high:
            return value
    where = f"table {table!r}, column {column.name!r}" + ("" if number is None else f", row {number}")
    if value is None:
        if not column.nullable:
            raise DataError(f"{where}: NULL in a NOT NULL column")
        return None
    converted = _PHYSICAL[column.type.kind](value, column.type, where)
    limits = bounds(column.type)
    if limits is not None and not limits[0] <= converted <= limits[1]:
        raise ValueRangeError(f"{where}: {shown(value)} is out of range for {column.type}")
    return converted  # type: ignore[no-any-return]


def shown(value: Any, write: Callable[[Any], str] = str) -> str:
    """A value in a message: the beginning of what is long, the type of what cannot be written.

    >>> shown("straw" * 40, repr), shown(10**5000)
    ("'strawstrawstrawstrawstrawstrawstrawstrawstrawstrawstrawst..", 'int(..)')
    """
    try:
        text = write(value)
    except Exception:  # an integer of over 4,300 digits, a list within itself, whatever __repr__ does
        return f"{type(value).__name__}(..)"
    return text if len(text) <= MOST_SHOWN else f"{text[: MOST_SHOWN - 2]}.."


def _wrong_type(value: Any, kind: Type, where: str, hint: str = "") -> DataError:
    found = f"{shown(value, repr)} of type {type(value).__name__}"
    return DataError(f"{where}: {found} where {kind} is expected{hint and '; ' + hint}")


def _boolean(value: Any, kind: Type, where: str) -> bool:
    if not isinstance(value, (bool, np.bool_)):
        raise _wrong_type(value, kind, where)
    return bool(value)


def _integer(value: Any, kind: Type, where: str) -> int:
    return _whole(value, kind, where)


def _whole(value: Any, kind: Type, where: str, hint: str = "") -> int:
    """What counts as an integer by ``__index__``, but for truth values; an array that has it raises."""
    if isinstance(value, (bool, np.bool_)):
        raise _wrong_type(value, kind, where, hint)
    try:
        return as_integer(value)
    except TypeError:
        raise _wrong_type(value, kind, where, hint) from None


def _decimal(value: Any, kind: Type, where: str) -> int:
    is_decimal = isinstance(value, Decimal)
    number = value if is_decimal else Decimal(_whole(value, kind, where, "use decimal.Decimal"))
    if not number.is_finite():
        raise ValueRangeError(f"{where}: {value} is not a number; use NULL")
    if number.adjusted() > 38:
        raise ValueRangeError(f"{where}: {shown(value)} is out of range for {kind}")
    scaled = number.scaleb(kind.scale, EXACT)
    if scaled != scaled.to_integral_value():
        raise ValueRangeError(
            f"{where}: {shown(value)} has more than {kind.scale} digits after the point ({kind})"
        )
    return int(scaled)


def _double(value: Any, kind: Type, where: str) -> float:
    is_number = isinstance(value, (int, float, np.integer, np.floating))
    if not is_number or isinstance(value, (bool, np.bool_, np.timedelta64)):
        raise _wrong_type(value, kind, where)
    if not isinstance(value, (int, np.integer)) and not isfinite(value):
        raise ValueRangeError(f"{where}: {value} is not a finite number; use NULL")
    try:
        converted = float(value) + 0.0
    except OverflowError:
        raise ValueRangeError(f"{where}: {shown(value)} is out of range for {kind}") from None
    if isinstance(value, (int, np.integer)) and converted != value:
        raise ValueRangeError(f"{where}: the integer {shown(value)} is not exactly a {kind}")
    return single(converted, where) if kind.kind is Kind.FLOAT else converted


def _date(value: Any, kind: Type, where: str) -> int:
    if not isinstance(value, date) or isinstance(value, datetime):
        raise _wrong_type(value, kind, where, "use datetime.date")
    return days_of(value)


def _timestamp(value: Any, kind: Type, where: str) -> int:
    if not isinstance(value, datetime):
        raise _wrong_type(value, kind, where, "use datetime.datetime")
    if value.tzinfo is not None:
        raise DataError(
            f"{where}: {value} has a time zone, {kind} has none; convert it to UTC and drop the zone"
        )
    if getattr(value, "nanosecond", 0):
        raise ValueRangeError(f"{where}: {value} has nanoseconds, {kind} has microseconds")
    return micros_of(datetime.fromisoformat(value.isoformat()))


def _text(value: Any, kind: Type, where: str) -> str:
    if not isinstance(value, str):
        hint = "decode the bytes as UTF-8" if isinstance(value, (bytes, bytearray)) else ""
        raise _wrong_type(value, kind, where, hint)
    try:
        value.encode()
    except UnicodeEncodeError:
        raise DataError(
            f"{where}: {shown(value, repr)} is not valid Unicode text (it cannot be written as UTF-8)"
        ) from None
    return str(value)


_PHYSICAL: Mapping[Kind, Callable[[Any, Type, str], Any]] = {
    Kind.BOOLEAN: _boolean,
    Kind.TINYINT: _integer,
    Kind.SMALLINT: _integer,
    Kind.INT: _integer,
    Kind.BIGINT: _integer,
    Kind.DECIMAL: _decimal,
    Kind.FLOAT: _double,
    Kind.DOUBLE: _double,
    Kind.DATE: _date,
    Kind.TIMESTAMP: _timestamp,
    Kind.VARCHAR: _text,
}


# Arrow to physical values, a column at a time.


def _read_arrow_column(values: pa.ChunkedArray, column: Column, table: str) -> list[Value]:
    return physical_values(arrow_column(values, column, table), column.type)


def arrow_column(values: pa.ChunkedArray, column: Column, table: str) -> pa.ChunkedArray:
    """A column of Arrow data in the declared type; refused if a value does not fit exactly."""
    where = f"table {table!r}, column {column.name!r}"
    if values.type == arrow_type(column.type) and not (values.null_count or column.type.is_floating):
        return _within_years(values, column.type, where)
    if pa.types.is_dictionary(values.type):
        values = _decoded(values)
    if values.null_count and not column.nullable:
        row = values.is_null().index(True).as_py()
        raise DataError(f"{where}, row {row}: NULL in a NOT NULL column")
    if values.null_count == len(values):  # whatever type was guessed for them
        return pa.chunked_array([pa.nulls(len(values), arrow_type(column.type))])
    if not _accepts(column.type, values.type):
        hint = "; convert it to UTC and drop the zone" if getattr(values.type, "tz", None) else ""
        raise DataError(f"{where}: the data is {values.type} where {column.type} is expected{hint}")
    try:
        declared = _declared(values, column.type)
    except (pa.ArrowInvalid, _DoesNotFitError):  # also of what does fit: 2 ** 60, an integer, is a DOUBLE
        found = [
            physical(_python_value(value, f"{where}, row {number}"), column, table, number)
            for number, value in enumerate(values)
        ]
        declared = pa.chunked_array([_arrow_array(found, column.type)])
    return _within_years(declared, column.type, where)


def _decoded(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """A dictionary's values where its indices are; Arrow casts none of views of text, which polars has."""
    kind = values.type.value_type
    if pa.types.is_string_view(kind):
        kind = pa.string()
    chunks = [chunk.dictionary.cast(kind).take(chunk.indices) for chunk in values.chunks]
    return pa.chunked_array(chunks, kind)


def _within_years(values: pa.ChunkedArray, kind: Type, where: str) -> pa.ChunkedArray:
    """Dates and timestamps of the years that there are: Arrow has many more."""
    if kind.kind not in (Kind.DATE, Kind.TIMESTAMP):
        return values
    first, end = (n if kind.kind is Kind.DATE else n * MICROS_PER_DAY for n in (FIRST_DAY, LAST_DAY + 1))
    numbers = values.cast(pa.int32() if kind.kind is Kind.DATE else pa.int64())
    outside = pc.or_(pc.less(numbers, first), pc.greater_equal(numbers, end))
    row = outside.index(pa.scalar(True)).as_py()
    if row >= 0:
        raise _beyond_years(f"{where}, row {row}")
    return values


def _python_value(value: pa.Scalar, where: str) -> Any:
    try:
        return value.as_py()
    except (OverflowError, ValueError):
        raise _beyond_years(where) from None


def _beyond_years(where: str) -> ValueRangeError:
    return ValueRangeError(f"{where}: the value is outside the years 1 to 9999")


def validate(values: pa.ChunkedArray) -> None:
    """Refuse Arrow data that is not what it says: offsets that lead elsewhere, text that is not UTF-8.

    What Arrow looks at value by value is told at a glance where nothing can be wrong: of fixed width are only
    the lengths of buffers, a text of ASCII is UTF-8, and without a bitmap no NULL can be miscounted.
    """
    values.validate()
    kind = values.type
    simple = pa.types.is_primitive(kind) or (kind == pa.string() and all(map(_is_ascii, values.chunks)))
    if simple and all(chunk.buffers()[0] is None for chunk in values.chunks):
        return
    values.validate(full=True)


def _is_ascii(texts: pa.StringArray) -> bool:
    """Are the offsets in order, and is all that they point to ASCII? Lengths of buffers have been checked."""
    _, offsets, data = texts.buffers()
    if not len(texts) or data is None:
        return False
    at = np.frombuffer(offsets, np.int32, len(texts) + 1, 4 * texts.offset)
    first, last = int(at[0]), int(at[-1])
    if first < 0 or last > data.size or (at[1:] < at[:-1]).any():
        return False
    return first == last or bool(np.frombuffer(data, np.uint8, last - first, first).max() < 128)


class _DoesNotFitError(Exception):
    """Some value of a column does not fit; the value-wise check finds it and names it."""


def _accepts(kind: Type, source: pa.DataType) -> bool:
    """May data of an Arrow type fill a column, value by value and without loss?"""
    if kind.is_integer:
        return bool(pa.types.is_integer(source))
    match kind.kind:
        case Kind.DECIMAL:
            return bool(pa.types.is_decimal(source) or pa.types.is_integer(source))
        case Kind.FLOAT | Kind.DOUBLE:
            return bool(pa.types.is_floating(source) or pa.types.is_integer(source))
        case Kind.BOOLEAN:
            return bool(pa.types.is_boolean(source))
        case Kind.DATE:
            return bool(pa.types.is_date(source))
        case Kind.TIMESTAMP:
            return bool(pa.types.is_timestamp(source)) and source.tz is None
        case _:
            texts = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
            return any(is_text(source) for is_text in texts)


def _declared(values: pa.ChunkedArray, kind: Type) -> pa.ChunkedArray:
    """Arrow data in the type of a column, every value as it was; DOUBLE has no negative zero here."""
    target = arrow_type(kind)
    if kind.is_floating:
        values = pc.add(values.cast(pa.float64()).cast(target, safe=False), pa.scalar(0.0, target))
        if pc.all(pc.is_finite(values), min_count=0).as_py() is False:
            raise _DoesNotFitError
        return values
    if values.type == target:
        return values
    if kind.kind is Kind.DECIMAL:
        if pa.types.is_integer(values.type):
            values = values.cast(pa.decimal128(20, 0))
        values = values.cast(pa.decimal256(76, kind.scale))
    return values.cast(target)


def physical_values(values: pa.ChunkedArray | pa.Array, kind: Type) -> list[Value]:
    """The physical values of Arrow data that has the type of its column."""
    if kind.kind is Kind.DECIMAL:
        return _unscaled(values)
    if kind.kind is Kind.DATE:
        values = values.cast(pa.int32())
    elif kind.kind is Kind.TIMESTAMP:
        values = values.cast(pa.int64())
    if not values.null_count and kind.kind not in (Kind.VARCHAR, Kind.BOOLEAN, Kind.NULL):
        return values.to_numpy().tolist()  # type: ignore[no-any-return]
    return list(values.to_pylist())


def integers(values: pa.Array) -> NDArray[Any]:
    """The integers that a column without NULL has in memory: numbers, days, microseconds.

    Arrow's own way to NumPy imports pandas first, which takes longer than many a batch.

    >>> integers(pa.array([1, 2, 3], pa.int16())[1:]).tolist()
    [2, 3]
    """
    kind, at = np.dtype(f"i{values.type.byte_width}"), values.offset
    return (
        np.frombuffer(values.buffers()[1], kind, len(values), at * kind.itemsize)
        if len(values)
        else np.array([], kind)
    )


def _unscaled(values: pa.ChunkedArray | pa.Array) -> list[Value]:
    """The integers inside a decimal128 column: 16 bytes each, least significant word first."""
    result: list[Value] = []
    for chunk in values.chunks if isinstance(values, pa.ChunkedArray) else [values]:
        buffer = chunk.buffers()[1]
        if buffer is None:
            result.extend([None] * len(chunk))
            continue
        words = np.frombuffer(buffer, dtype=np.int64).reshape(-1, 2)[chunk.offset : chunk.offset + len(chunk)]
        low, high = words[:, 0].view(np.uint64).tolist(), words[:, 1].tolist()
        valid = chunk.is_valid().to_pylist()
        result.extend((h << 64) + lo if ok else None for lo, h, ok in zip(low, high, valid, strict=True))
    return result


# Physical values to Python and to Arrow.


def to_python(rows: Iterable[Row], columns: Schema) -> list[tuple[Any, ...]]:
    """Rows with ``decimal.Decimal``, ``datetime.date`` and ``datetime.datetime`` where the types say so."""
    converters = [_python_of(column.type) for column in columns]
    if not any(converters):
        return list(rows)
    shown = [
        values if convert is None else [None if value is None else convert(value) for value in values]
        for values, convert in zip(zip(*rows, strict=True), converters, strict=False)
    ]
    return list(zip(*shown, strict=True))


def _python_of(kind: Type) -> Callable[[Any], Any] | None:
    match kind.kind:
        case Kind.DECIMAL:
            return lambda value: as_decimal(value, kind.scale)
        case Kind.DATE:
            return date_of
        case Kind.TIMESTAMP:
            return datetime_of
        case _:
            return None


def arrow_type(kind: Type) -> pa.DataType:
    """The Arrow type of a column type."""
    if kind.kind is Kind.DECIMAL:
        return pa.decimal128(kind.precision, kind.scale)
    return _ARROW_TYPES[kind.kind]


_ARROW_TYPES = {
    Kind.NULL: pa.null(),
    Kind.BOOLEAN: pa.bool_(),
    Kind.TINYINT: pa.int8(),
    Kind.SMALLINT: pa.int16(),
    Kind.INT: pa.int32(),
    Kind.BIGINT: pa.int64(),
    Kind.FLOAT: pa.float32(),
    Kind.DOUBLE: pa.float64(),
    Kind.DATE: pa.date32(),
    Kind.TIMESTAMP: pa.timestamp("us"),
    Kind.VARCHAR: pa.string(),
}


def arrow_schema(columns: Schema) -> pa.Schema:
    """The Arrow schema of a table or view."""
    return pa.schema([pa.field(column.name, arrow_type(column.type)) for column in columns])


def to_arrow(rows: Sequence[Row], columns: Schema) -> pa.Table:
    """Rows as an Arrow table of the declared types."""
    values = list(zip(*rows, strict=True)) or [() for _ in columns]
    arrays = [_arrow_array(column, c.type) for column, c in zip(values, columns, strict=True)]
    return pa.Table.from_arrays(arrays, schema=arrow_schema(columns))


def _arrow_array(values: Sequence[Any], kind: Type) -> pa.Array:
    target = arrow_type(kind)
    if kind.kind is not Kind.DECIMAL:
        return pa.array(values, target)
    zero = bytes(16)
    data = b"".join(zero if v is None else v.to_bytes(16, "little", signed=True) for v in values)
    valid = pa.array([v is not None for v in values], pa.bool_()).buffers()[1]
    return pa.Array.from_buffers(target, len(values), [valid, pa.py_buffer(data)])
