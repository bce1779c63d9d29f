"""Maps of native programs as they are at one moment, read while the programs go on (``runtime/image.h``).

To freeze takes as long as the page tables of this process take to copy: a child, which shares its pages until
they are written to, writes the states to files. Entries are read from these files, some at a time and without
the interpreter lock, and come as Arrow: the columns of the key as they are stored, then 16 bytes that are an
integer or, where the sum is of DOUBLEs, a pair of doubles that stand for their exact sum.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import IO

import numpy as np
import pyarrow as pa

from viewlet.backends.native.engine import NativeEngine, Running, program_error
from viewlet.backends.native.forms import cell_kind
from viewlet.backends.native.library import OpenProgram, finished, save
from viewlet.calculus.evaluate import Key, Number
from viewlet.errors import StorageError

AMOUNTS = "amounts"
LOADED_ROWS = 1 << 16
INTEGERS, PAIRS = b"integers", b"pairs"
WIDE = pa.binary(16)
_STORED = {"VL_INT32": pa.int32(), "VL_INT64": pa.int64(), "VL_DOUBLE": pa.float64(), "VL_DECIMAL": WIDE}


class Frozen:
    """The states of some engines, all as of the same moment; :meth:`close` it."""

    def __init__(self, engines: Iterable[NativeEngine], folder: Path) -> None:
        self._running = {id(engine): engine.running() for engine in engines}
        self._twins = {key: running.opened.twin() for key, running in self._running.items()}
        self._files: dict[int, IO[bytes]] = {}
        self._child: int | None = None
        try:
            for key in self._running:
                self._files[key] = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 (closed in close)
            states = [(running.opened, self._files[key].fileno()) for key, running in self._running.items()]
            self._child = save(states) if states else None
        except OSError as reason:
            self.close()
            raise StorageError(f"the states of views cannot be copied to {folder}: {reason}") from None

    def map(self, engine: NativeEngine, name: str) -> FrozenMap:
        """One map as it was."""
        key = id(engine)
        return FrozenMap(self, self._running[key], self._twins[key], name)

    def wait(self) -> None:
        """Return when the states are in their files."""
        child, self._child = self._child, None
        if child is None:
            return
        if not finished(child):
            raise StorageError("the states of views could not be copied: is there room on the disk?")
        for key, twin in self._twins.items():
            twin.thaw(self._files[key].fileno())

    def close(self) -> None:
        """Give the files back."""
        if self._child is not None:
            finished(self._child)
            self._child = None
        for twin in self._twins.values():
            twin.close()
        for file in self._files.values():
            file.close()


@dataclass(frozen=True, slots=True)
class FrozenMap:
    """One map of a frozen engine."""

    _frozen: Frozen
    _running: Running
    _twin: OpenProgram
    _name: str

    def blocks(self, rows: int) -> Iterator[pa.RecordBatch]:
        """Its entries, so many at a time."""
        self._frozen.wait()
        form = _Form.of(self._running, self._name)
        where = [form.order.index(i) for i in range(len(form.keys))]
        after, first = 0, True
        while after or first:
            after, runs = self._twin.amounts(form.record, form.field, after, rows)
            keys = [_stored_column(form.keys[i], *runs[3 * i : 3 * i + 3]) for i in where]
            names = [*(f"key{i}" for i in range(len(keys))), AMOUNTS]
            count = len(runs[-1]) // 16
            amounts = pa.Array.from_buffers(WIDE, count, [None, pa.py_buffer(runs[-1])])
            block = pa.RecordBatch.from_arrays([*keys, amounts], names)
            if count:
                yield block.replace_schema_metadata({AMOUNTS: form.amounts})
            first = False


def is_empty(engine: NativeEngine, name: str) -> bool:
    """Has a map no entries?"""
    running = engine.running()
    form = _Form.of(running, name)
    _, runs = running.opened.amounts(form.record, form.field, 0, 1)
    return not runs[-1]


def load_blocks(engine: NativeEngine, name: str, blocks: Sequence[pa.RecordBatch]) -> None:
    """Add entries to a map, in the form in which they were frozen; no entry becomes a Python object.

    They come in any order: in that of the table they were in, which is that of their hashes, they would all
    crowd at one end of the table that they go to, while it grows.
    """
    if blocks:
        table = pa.Table.from_batches(blocks)
        shuffled = table.take(np.random.default_rng(0).permutation(len(table)))
        for block in shuffled.to_batches(max_chunksize=LOADED_ROWS):
            _load_block(engine.running(), name, block)


def _load_block(running: Running, name: str, block: pa.RecordBatch) -> None:
    form = _Form.of(running, name)
    *keys, amounts = block.columns
    if block.schema.metadata[AMOUNTS.encode()] != form.amounts or len(keys) != len(form.keys):
        raise StorageError(f"map {name!r} was written in another form")
    runs = [run for kind, i in zip(form.keys, form.order, strict=True) for run in _runs(kind, keys[i])]
    try:
        failed = running.opened.put(form.record, form.field, [*runs, _values(amounts, 16)])
    except ValueError as reason:
        raise StorageError(f"map {name!r}: {reason}") from None
    if failed is not None:
        raise program_error(failed[0], f"map {name!r}")


@dataclass(frozen=True, slots=True)
class _Form:
    """Where a map is in its program: its record and field, the kinds of the record's keys and their order."""

    record: int
    field: int
    keys: tuple[str, ...]
    order: tuple[int, ...]
    amounts: bytes

    @staticmethod
    def of(running: Running, name: str) -> _Form:
        place = running.loops.places[name]
        record = running.loops.records[place.record]
        field = next(i for i, f in enumerate(record.fields) if f.name == place.field)
        return _Form(
            running.source.records.index(place.record),
            field,
            tuple(cell_kind(key.type) for key in record.keys),
            tuple(place.order),
            PAIRS if record.fields[field].type.is_floating else INTEGERS,
        )


def _runs(stored: str, column: pa.Array) -> list[bytes]:
    """A key column as a program reads it: the opposite of :func:`_stored_column`."""
    kind = {"VL_TEXT": pa.large_binary(), "VL_BOOLEAN": pa.bool_()}.get(stored, _STORED.get(stored))
    if column.type != kind:
        raise StorageError(f"a key is {column.type} where {kind} is expected")
    column.validate(full=True)
    presence = np.asarray(column.is_valid()).astype(np.uint8).tobytes()
    if stored == "VL_BOOLEAN":
        return [np.asarray(column.fill_null(False)).astype(np.uint8).tobytes(), presence, b""]
    if stored != "VL_TEXT":
        return [_values(column, kind.bit_width // 8), presence, b""]
    offsets = np.frombuffer(column.buffers()[1], np.int64)[column.offset : column.offset + len(column) + 1]
    texts = b"" if column.buffers()[2] is None else bytes(column.buffers()[2])
    return [texts[offsets[0] : offsets[-1]], presence, (offsets[1:] - offsets[0]).tobytes()]


def _values(column: pa.Array, width: int) -> bytes:
    start = column.offset * width
    return bytes(memoryview(column.buffers()[1])[start : start + len(column) * width])


def _stored_column(stored: str, values: bytes, presence: bytes, ends: bytes) -> pa.Array:
    """A key column in the form that it is stored in; text stays bytes, for it may hold lone surrogates."""
    present = np.frombuffer(presence, np.bool_)
    valid = None if present.all() else pa.py_buffer(np.packbits(present, bitorder="little"))
    if stored == "VL_TEXT":
        buffers = [valid, pa.py_buffer(bytes(8) + ends), pa.py_buffer(values)]
        return pa.Array.from_buffers(pa.large_binary(), len(present), buffers)
    if stored == "VL_BOOLEAN":
        bits = pa.py_buffer(np.packbits(np.frombuffer(values, np.bool_), bitorder="little"))
        return pa.Array.from_buffers(pa.bool_(), len(present), [valid, bits])
    return pa.Array.from_buffers(_STORED[stored], len(present), [valid, pa.py_buffer(values)])


def entries_of(block: pa.RecordBatch) -> Iterator[tuple[Key, Number]]:
    """The entries of a block as Python values.

    >>> two = pa.array([(2).to_bytes(16, "little")], WIDE)
    >>> block = pa.RecordBatch.from_arrays([pa.array([b"a"], pa.large_binary()), two], ["key0", "amounts"])
    >>> list(entries_of(block.replace_schema_metadata({"amounts": "integers"})))
    [(('a',), 2)]
    """
    *columns, amounts = block.columns
    keys = zip(*map(_python_values, columns), strict=True) if columns else iter([()] * len(amounts))
    if block.schema.metadata[AMOUNTS.encode()] == INTEGERS:
        yield from zip(keys, _integers(amounts), strict=True)
    else:
        pairs = np.frombuffer(b"".join(amounts.to_pylist()), np.float64).reshape(-1, 2).tolist()
        for key, (high, low) in zip(keys, pairs, strict=True):
            yield key, Fraction(high) + Fraction(low)


def _python_values(column: pa.Array) -> list[object]:
    if column.type == pa.large_binary():
        texts: list[bytes | None] = column.to_pylist()
        return [None if text is None else text.decode("utf-8", "surrogatepass") for text in texts]
    if column.type == WIDE:
        return [None if wide is None else _integer(wide) for wide in column.to_pylist()]
    values: list[object] = column.to_pylist()
    return values


def _integers(amounts: pa.Array) -> list[int]:
    return list(map(_integer, amounts.to_pylist()))


def _integer(wide: bytes) -> int:
    return int.from_bytes(wide, "little", signed=True)
