"""Arrow data out of arbitrary bytes: whatever it claims, it is refused, or read as Arrow itself reads it.

A column is put together from raw buffers: hostile offsets, bitmaps shorter than they should be, counts of
NULLs that are not true, dictionaries with indices that lead nowhere, lists; or sound columns have
bytes changed. ``oracle`` is Arrow's own full validation, then its own Python values.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from decimal import Decimal
from functools import partial
from typing import Any

import pyarrow as pa

import viewlet
from viewlet.errors import ViewletError

SCHEMA = "CREATE TABLE r (a BIGINT, s VARCHAR, n DECIMAL(20,2), b BOOLEAN)"
VIEW = "CREATE MATERIALIZED VIEW v AS SELECT a, s, n, b, count(*) AS c FROM r GROUP BY a, s, n, b"
TYPES: dict[str, tuple[pa.DataType, ...]] = {
    "a": (pa.int64(), pa.int32(), pa.uint64(), pa.int8(), pa.dictionary(pa.int8(), pa.int64()), pa.float64()),
    "s": (
        pa.string(),
        pa.large_string(),
        pa.binary(),
        pa.dictionary(pa.int8(), pa.string()),
        pa.list_(pa.string()),
    ),
    "n": (pa.decimal128(20, 2), pa.decimal128(38, 2), pa.decimal256(20, 2), pa.int16(), pa.decimal128(5, 0)),
    "b": (pa.bool_(), pa.int8(), pa.null()),
}
SOUND = {
    "a": pa.array([1, None, 3, 3, -1, 0], pa.int64()),
    "s": pa.array(["x", "straße", None, "", "x", "y"]),
    "n": pa.array([Decimal("1.25"), None, Decimal(3), Decimal(3), Decimal(-1), None], pa.decimal128(20, 2)),
    "b": pa.array([True, None, False, False, True, True]),
}
ROWS = 6


class Bytes:
    """Choices made from a run of bytes; zeros once it is used up."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def take(self, n: int) -> bytes:
        """The next bytes."""
        found = self._data[self._at : self._at + n]
        self._at += n
        return found + bytes(n - len(found))

    def below(self, n: int) -> int:
        """A number below another."""
        return int.from_bytes(self.take(2), "little") % n


def array_of(source: Bytes, kind: pa.DataType) -> pa.Array:
    """An array of a type from raw buffers, none of which need be what the type asks for."""
    if pa.types.is_dictionary(kind):
        indices, values = array_of(source, kind.index_type), array_of(source, kind.value_type)
        return pa.DictionaryArray.from_arrays(indices, values, safe=False)
    if pa.types.is_null(kind):
        return pa.nulls(ROWS)
    children = [array_of(source, kind.value_type)] if pa.types.is_list(kind) else None
    buffers = [_buffer(source) for _ in range(kind.num_buffers)]
    claimed = source.below(4) - 1
    return pa.Array.from_buffers(kind, ROWS, buffers, claimed, source.below(3), children)


def _buffer(source: Bytes) -> pa.Buffer | None:
    """Nothing, small integers such as offsets are, or any bytes; sometimes too few."""
    match source.below(6):
        case 0:
            return None
        case 1 | 2:
            width = (4, 8)[source.below(2)]
            numbers = [source.below(9) - (source.below(40) == 0) for _ in range(ROWS + 3)]
            return pa.py_buffer(b"".join(n.to_bytes(width, "little", signed=True) for n in numbers))
        case 3:
            return pa.py_buffer(source.take(source.below(40)))
        case _:
            return pa.py_buffer(source.take(16 * (ROWS + 3)))


def table_of(data: bytes) -> pa.Table:
    """A table out of arbitrary bytes; a column that Arrow itself refuses to make is a sound one instead."""
    source, columns = Bytes(data), {}
    for name, sound in SOUND.items():
        kinds = TYPES[name]
        columns[name] = sound
        with suppress(pa.ArrowException, ValueError, TypeError):
            match source.below(4):
                case 0:
                    columns[name] = _changed(source, sound)
                case 1 | 2:
                    columns[name] = array_of(source, kinds[source.below(len(kinds))])
    return pa.table(columns)


def _changed(source: Bytes, array: pa.Array) -> pa.Array:
    """A sound array with some bytes of its buffers changed."""
    buffers = [None if buffer is None else bytearray(buffer) for buffer in array.buffers()]
    for _ in range(source.below(6)):
        buffer = buffers[source.below(len(buffers))]
        if buffer:
            buffer[source.below(len(buffer))] = source.take(1)[0]
    changed = [None if buffer is None else pa.py_buffer(bytes(buffer)) for buffer in buffers]
    return pa.Array.from_buffers(array.type, len(array), changed)


def oracle(table: pa.Table) -> list[tuple[Any, ...]] | None:
    """The rows as Arrow itself reads them; nothing if it finds anything wrong."""
    try:
        table.validate(full=True)
        return [tuple(row[name] for name in TYPES) for row in table.select(list(TYPES)).to_pylist()]
    except (pa.ArrowException, ValueError, KeyError, UnicodeDecodeError, OverflowError):
        return None


def attempt(db: viewlet.Database, data: bytes) -> str:
    """Insert what the bytes make, and compare; says what became of it."""
    table = table_of(data)
    before = db.version
    try:
        db.insert("r", table)
    except ViewletError:
        assert db.version == before
        assert db.table("r").rows() == []
        return "refused"
    expected = oracle(table)
    assert expected is not None, "what Arrow itself refuses was taken"
    order: Callable[[tuple[Any, ...]], Any] = lambda row: [(value is not None, value) for value in row]  # noqa: E731
    rows = sorted(expected, key=order)
    assert db.table("r").rows() == rows
    groups = db.view("v").rows()
    assert sorted((row[:-1] for row in groups for _ in range(row[-1])), key=order) == rows
    db.apply({"r": [{**dict(zip(TYPES, row, strict=True)), "_weight": -1} for row in rows]})
    assert db.view("v").rows() == []
    return "taken"


def fresh(backend: str) -> viewlet.Database:
    """A database to attempt things on."""
    db = viewlet.connect(backend=backend)  # type: ignore[arg-type]
    db.execute(SCHEMA)
    db.execute(VIEW)
    return db


def random_inputs(seed: int, count: int) -> list[bytes]:
    """Inputs without guidance, most of them with many small numbers."""
    rng = random.Random(seed)
    return [
        bytes(rng.choice((0, 1, 2, 3, 4, rng.randrange(256))) for _ in range(rng.randrange(700)))
        for _ in range(count)
    ]


def starts() -> Callable[[bytes], str]:
    """What ``run.py`` calls with every input."""
    return partial(attempt, fresh("native"))
