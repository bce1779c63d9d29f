"""Relations on their way between sites: Arrow batches of keys and sums, split by the partitioning.

A relation travels in *pieces*, one from each sender; the receiver adds them up. Keys are physical values in
the Arrow type that native code reads in place. A sum is one exact column, or for DOUBLE two columns that add
up to it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any
from zlib import crc32

import numpy as np
import pyarrow as pa

from viewlet.calculus.evaluate import Key, Number
from viewlet.calculus.nodes import Argument
from viewlet.core.scalar import Var
from viewlet.core.types import DOUBLE, Column, Kind, Schema, Type, Value
from viewlet.errors import ValueRangeError

Entries = dict[Key, Number]

WORD = (1 << 64) - 1
SPREAD = 0x9E3779B97F4A7C15
NO_UNICODE = "a text is not valid Unicode: it cannot travel between partitions"


@dataclass(frozen=True, slots=True)
class Shape:
    """The columns of a relation: its keys, and the type of its sums."""

    keys: Schema
    sums: Type

    @property
    def columns(self) -> Schema:
        """All columns of a piece."""
        names = ("high", "low") if self.sums.is_floating else ("sum",)
        return (*self.keys, *(Column(f"@{name}", self.sums, nullable=False) for name in names))

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of a piece."""
        return pa.schema([pa.field(column.name, cell_type(column.type)) for column in self.columns])


def shape_of(keys: Sequence[Argument], sums: Type) -> Shape:
    """The shape of a relation with these keys."""
    columns = [
        Column(f"k{i}", key.type, key.nullable if isinstance(key, Var) else True)
        for i, key in enumerate(keys)
    ]
    return Shape(tuple(columns), DOUBLE if sums.is_floating else sums)


def cell_type(kind: Type) -> pa.DataType:
    """The Arrow type in which native code reads the physical values of a type."""
    match kind.kind:
        case Kind.BOOLEAN | Kind.NULL:
            return pa.bool_()
        case Kind.FLOAT | Kind.DOUBLE:
            return pa.float64()
        case Kind.DECIMAL:
            return pa.decimal128(38, kind.scale)
        case Kind.VARCHAR:
            return pa.string()
        case Kind.BIGINT | Kind.TIMESTAMP:
            return pa.int64()
        case _:
            return pa.int32()


def encode(shape: Shape, rows: Iterable[tuple[Any, ...]]) -> pa.RecordBatch:
    """Rows of keys and sums as a piece.

    >>> from viewlet.core.types import BIGINT
    >>> shape = shape_of([Var("k", BIGINT)], BIGINT)
    >>> decode(shape, encode(shape, [(7, 2), (None, -1)]))
    {(7,): 2, (None,): -1}
    """
    columns = list(zip(*rows, strict=True)) or [() for _ in shape.columns]
    arrays = [_array(values, column.type) for values, column in zip(columns, shape.columns, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=shape.schema)


def encode_entries(shape: Shape, entries: Entries) -> pa.RecordBatch:
    """Entries as a piece; a sum that no two doubles add up to is rounded to 106 bits."""
    if shape.sums.is_floating:
        return encode(shape, ((*key, *as_pair(number)) for key, number in entries.items()))
    return encode(shape, ((*key, int(number)) for key, number in entries.items()))


def decode(shape: Shape, piece: pa.RecordBatch) -> Entries:
    """The entries of a piece."""
    width = len(shape.keys)
    columns = [
        _values(array, column.type) for array, column in zip(piece.columns, shape.columns, strict=True)
    ]
    keys = zip(*columns[:width], strict=True) if width else [()] * piece.num_rows
    if shape.sums.is_floating:
        sums: Iterable[Number] = map(lambda h, low: Fraction(h) + Fraction(low), *columns[width:])
    else:
        (sums,) = columns[width:]
    return dict(zip(keys, sums, strict=True))


def piece_of_runs(
    shape: Shape, order: Sequence[int], stored: Sequence[Type], runs: Sequence[bytes]
) -> pa.RecordBatch:
    """A piece from the runs of bytes that native code gives, without a Python object per entry.

    Three runs for each key, of which the ``order[i]``-th is key ``i`` here: values, a byte that says whether
    there is one, and for text where each ends. They are of the types ``stored``, which may be wider than the
    keys: records that are compared are stored alike. The last run has 16 bytes for each sum
    (``runtime/image.h``).
    """
    found = [_array_of_runs(stored[i], *runs[3 * i : 3 * i + 3]) for i in order]
    keys = [array.cast(cell_type(column.type)) for array, column in zip(found, shape.keys, strict=True)]
    return pa.RecordBatch.from_arrays([*keys, *_sums_of_run(shape.sums, runs[-1])], schema=shape.schema)


def _array_of_runs(kind: Type, values: bytes, presence: bytes, ends: bytes) -> pa.Array:
    target, present = cell_type(kind), np.frombuffer(presence, np.bool_)
    valid = None if present.all() else pa.py_buffer(np.packbits(present, bitorder="little"))
    if pa.types.is_string(target):
        buffers = [valid, pa.py_buffer(bytes(8) + ends), pa.py_buffer(values)]
        texts = pa.Array.from_buffers(pa.large_string(), len(present), buffers)
        try:
            texts.validate(full=True)
        except pa.ArrowInvalid:
            raise ValueRangeError(NO_UNICODE) from None
        return texts.cast(target)
    if pa.types.is_boolean(target):
        values = np.packbits(np.frombuffer(values, np.bool_), bitorder="little").tobytes()
    return pa.Array.from_buffers(target, len(present), [valid, pa.py_buffer(values)])


def _sums_of_run(kind: Type, run: bytes) -> list[pa.Array]:
    target = cell_type(kind)
    if pa.types.is_decimal(target):
        return [pa.Array.from_buffers(target, len(run) // 16, [None, pa.py_buffer(run)])]
    if pa.types.is_floating(target):
        pairs = np.frombuffer(run, np.float64).reshape(-1, 2)
        return [pa.array(pairs[:, 0]), pa.array(pairs[:, 1])]
    words = np.frombuffer(run, np.int64).reshape(-1, 2)
    if (words[:, 1] != words[:, 0] >> 63).any():
        raise ValueRangeError("a count does not fit BIGINT")
    return [pa.array(words[:, 0]).cast(target)]


def as_pair(number: Number) -> tuple[float, float]:
    """A number as an unevaluated sum of two doubles."""
    high = float(number)
    return high, float(Fraction(number) - Fraction(high))


def _array(values: Sequence[Any], kind: Type) -> pa.Array:
    target = cell_type(kind)
    if kind.kind is not Kind.DECIMAL:
        try:
            return pa.array(values, target)
        except UnicodeEncodeError:
            raise ValueRangeError(NO_UNICODE) from None
    valid = None
    if None in values:
        valid = pa.array([value is not None for value in values], pa.bool_()).buffers()[1]
        values = [0 if value is None else value for value in values]
    try:
        low = np.array(values, np.int64)
        data = np.stack([low, low >> 63], axis=1).tobytes()
    except OverflowError:
        data = b"".join(value.to_bytes(16, "little", signed=True) for value in values)
    return pa.Array.from_buffers(target, len(values), [valid, pa.py_buffer(data)])


def _values(array: pa.Array, kind: Type) -> list[Any]:
    if kind.kind is not Kind.DECIMAL:
        return list(array.to_pylist())
    words = _words(array)
    low, high = words[:, 0].view(np.uint64).tolist(), words[:, 1].tolist()
    known = array.is_valid().to_pylist() if array.null_count else [True] * len(array)
    return [(h << 64) + lo if ok else None for lo, h, ok in zip(low, high, known, strict=True)]


def _words(array: pa.Array) -> np.ndarray[Any, Any]:
    """The two words of each decimal, least significant first."""
    words = np.frombuffer(array.buffers()[1], np.int64)
    return words.reshape(-1, 2)[array.offset : array.offset + len(array)]


def physical_rows(arrays: Sequence[pa.Array], kinds: Sequence[Type]) -> Iterator[tuple[Value, ...]]:
    """Rows of physical values from columns of the declared types.

    >>> from viewlet.core.types import BIGINT, decimal
    >>> prices = pa.array([1, 2], pa.decimal128(5, 2))
    >>> list(physical_rows([pa.array([7, None]), prices], [BIGINT, decimal(5, 2)]))
    [(7, 100), (None, 200)]
    """
    cells = [_values(a.cast(cell_type(kind)), kind) for a, kind in zip(arrays, kinds, strict=True)]
    return zip(*cells, strict=True)


# Which partition.


def split(piece: pa.RecordBatch, position: int, partitions: int) -> list[pa.RecordBatch]:
    """A piece cut by the values of one of its columns."""
    if partitions == 1 or not piece.num_rows:
        return [piece] * partitions
    numbers = partition_numbers(piece.column(position), partitions)
    return [piece.filter(pa.array(numbers == number)) for number in range(partitions)]


def partition_numbers(column: pa.Array, partitions: int) -> np.ndarray[Any, Any]:
    """The partition of every value of a column: :func:`partition_of`, all at once.

    >>> partition_numbers(pa.array([7, None, 8]), 4).tolist() == [partition_of(v, 4) for v in (7, None, 8)]
    True
    """
    if pa.types.is_string(column.type):
        encoded = column.dictionary_encode()
        found = [partition_of(value, partitions) for value in encoded.dictionary.to_pylist()]
        codes: np.ndarray[Any, Any] = encoded.indices.fill_null(len(found)).to_numpy(zero_copy_only=False)
        return np.asarray([*found, 0], np.int64).take(codes)
    if pa.types.is_decimal(column.type):
        words = _words(column)[:, 0].view(np.uint64)
    elif pa.types.is_floating(column.type):
        numbers = column.fill_null(0).to_numpy(zero_copy_only=False) + 0.0
        whole = (np.abs(numbers) < 2.0**63) & (np.trunc(numbers) == numbers)
        integers = np.where(whole, numbers, 0).astype(np.int64).view(np.uint64)
        words = np.where(whole, integers, numbers.view(np.uint64))
    else:
        words = column.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False).view(np.uint64)
    mixed = (words * np.uint64(SPREAD)) >> np.uint64(17)
    numbers = (mixed % np.uint64(partitions)).astype(np.int64)
    if column.null_count:
        numbers[column.is_null().to_numpy(zero_copy_only=False)] = 0
    return numbers


def partition_of(value: Value, partitions: int) -> int:
    """The partition of a value: equal values of any type go together, in every process alike.

    >>> partition_of(7, 4) == partition_of(7.0, 4), partition_of("x", 4), partition_of(None, 4)
    (True, 3, 0)
    """
    if value is None:
        return 0
    if isinstance(value, str):
        return crc32(value.encode("utf-8", "surrogatepass")) % partitions
    if isinstance(value, float):
        whole = value.is_integer() and abs(value) < 2.0**63
        word = int(value) if whole else struct.unpack("<Q", struct.pack("<d", value + 0.0))[0]
    else:
        word = int(value)
    return (((word & WORD) * SPREAD & WORD) >> 17) % partitions
