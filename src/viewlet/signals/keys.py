"""Dense numbers for grouping keys, so that all per-key state lives in arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from viewlet.signals.chunks import Ints
from viewlet.signals.errors import SignalTypeError
from viewlet.signals.kernels import kernels
from viewlet.signals.memory import empty

NULL = np.iinfo(np.int64).min  # the integer that stands for the key NULL, where there is one
DIRECT = 1 << 21  # keys below are looked up in a table of all of them, eight megabytes at most


class KeyIndex:
    """Keys to numbers 0, 1, 2, ... by first appearance, and back.

    A single integer column goes through a native table, addressed directly while all keys are small and not
    negative, else by a hash; other keys through Arrow's dictionaries and a Python dict, whose cost follows
    the distinct keys of a batch. NULL is a key like any other.

    >>> index = KeyIndex(1)
    >>> index.encode([pa.array(["b", "a", "b"])]).tolist()
    [0, 1, 0]
    >>> index.labels(np.array([1, 0]), [pa.string()])[0].to_pylist()
    ['a', 'b']
    """

    def __init__(self, width: int, integers: bool = False) -> None:
        self.width = width
        self.integers = integers
        self.nulls = False  # is NULL among integer keys?
        self._direct: Ints | None = np.zeros(16, np.int32)  # None once a key lay outside
        self._table = np.zeros((16, 2), np.int64)
        self._labels = np.zeros(8, np.int64)
        self._count = np.zeros(1, np.int64)
        self._numbers: dict[tuple[Any, ...], int] = {}
        self._scratch = np.zeros(0, np.int64)
        self._columns: list[pa.Array] = []

    def __len__(self) -> int:
        return int(self._count[0]) if self.integers else len(self._numbers)

    def encode(self, columns: list[pa.Array]) -> Ints:
        """The number of each row's key; new keys get the next numbers."""
        if self.integers:
            return self._encode_integers(self._integers(columns[0]))
        codes, sizes, dictionaries = [], [], []
        for column in columns:
            encoded = column.dictionary_encode(null_encoding="encode")
            codes.append(encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64))
            dictionaries.append(encoded.dictionary.to_pylist())
            sizes.append(max(len(dictionaries[-1]), 1))
        flat = np.ravel_multi_index(codes, sizes)
        distinct, first, inverse = np.unique(flat, return_index=True, return_inverse=True)
        numbers = np.empty(len(distinct), np.int64)
        for at in np.argsort(first):
            row = first[at]
            key = tuple(values[code[row]] for values, code in zip(dictionaries, codes, strict=True))
            numbers[at] = self._numbers.setdefault(key, len(self._numbers))
        result: Ints = numbers[inverse]
        return result

    def turns(self, columns: list[pa.Array]) -> Ints | None:
        """The numbers of keys that take turns all through the rows, in order; None where they do not."""
        if not self.integers:
            return None
        keys = np.ascontiguousarray(self._integers(columns[0]))
        count = kernels().rounds(keys)
        if count == 0:
            return None
        ids, order, places = self._encode_integers(keys[:count]), np.arange(count), self.scratch()
        places[ids] = order
        distinct = bool((places[ids] == order).all())
        places[ids] = 0
        return ids if distinct else None

    def scratch(self) -> Ints:
        """A zeroed counter per key, for the counting sort, which leaves it zeroed."""
        if len(self._scratch) < len(self):
            self._scratch = np.zeros(2 * len(self), np.int64)
        return self._scratch

    def labels(self, ids: Ints, types: list[pa.DataType]) -> list[pa.Array]:
        """The key columns of some numbers."""
        if self.integers:
            found = self._labels[ids]
            return [pa.array(found, mask=found == NULL if self.nulls else None).cast(types[0])]
        if len(self._columns[0] if self._columns else ()) != len(self):
            keys = list(self._numbers)
            self._columns = [pa.array([key[i] for key in keys], type=kind) for i, kind in enumerate(types)]
        return [column.take(pa.array(ids)) for column in self._columns]

    def integer_labels(self) -> Ints:
        """The labels of integer keys, by number."""
        return self._labels

    def describe(self, number: int) -> str:
        """A key for an error message."""
        if self.integers:
            return "NULL" if self.nulls and self._labels[number] == NULL else str(self._labels[number])
        key = list(self._numbers)[number]
        return repr(key[0]) if len(key) == 1 else repr(key)

    def snapshot(self) -> dict[str, Any]:
        """The keys in order of their numbers."""
        if self.integers:
            return {"labels": self._labels[: len(self)].copy(), "nulls": self.nulls}
        columns = list(zip(*self._numbers, strict=True)) or [() for _ in range(self.width)]
        return {"columns": [pa.array(column) for column in columns]}

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Number keys as they were when the snapshot was taken."""
        if self.integers:
            self._encode_integers(snapshot["labels"])
            self.nulls = snapshot["nulls"]
        else:
            rows = zip(*(column.to_pylist() for column in snapshot["columns"]), strict=True)
            self._numbers = {key: number for number, key in enumerate(rows)}

    def _encode_integers(self, keys: Ints) -> Ints:
        keys = np.ascontiguousarray(keys)
        out = empty(len(keys))
        done = 0
        while True:
            rest = keys[done:], self._labels, self._count, out[done:]
            if self._direct is not None:
                done += kernels().encode_direct(rest[0], self._direct, *rest[1:])
            else:
                done += kernels().encode(rest[0], self._table, *rest[1:])
            if done == len(keys):
                return out
            self._grow(int(keys[done]))

    def _integers(self, column: pa.Array) -> Ints:
        if not column.null_count and not self.nulls:
            keys: Ints = column.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
            return keys
        given = column.drop_null().cast(pa.int64()).to_numpy()
        if NULL in given or (not self.nulls and NULL in self._labels[: len(self)]):
            raise SignalTypeError(f"among keys that are NULL there cannot be {NULL}, which stands for them")
        self.nulls = True
        filled: Ints = column.cast(pa.int64()).fill_null(NULL).to_numpy()
        return filled

    def _grow(self, key: int) -> None:
        """Make room for ``key``, at which encoding stopped."""
        known = self._labels[: self._count[0]].copy()
        if self._direct is not None and 0 <= key < DIRECT:
            size = max(len(self._direct), min(DIRECT, 2 << key.bit_length()))
            self._direct = np.concatenate((self._direct, np.zeros(size - len(self._direct), np.int32)))
            self._labels = np.concatenate((known, np.zeros(max(8, len(known)), np.int64)))
            return
        self._direct = None
        size = max(4 * len(self._table), 4 << len(known).bit_length())
        self._table = np.zeros((size, 2), np.int64)
        self._labels = np.zeros(len(self._table) // 2, np.int64)
        self._count = np.zeros(1, np.int64)
        kernels().encode(known, self._table, self._labels, self._count, np.empty(len(known), np.int64))


class KeySpaces:
    """One index per kind of key, shared by all streams of a query so that their numbers can be joined."""

    def __init__(self) -> None:
        self.indexes: dict[tuple[str, ...], KeyIndex] = {}

    def index(self, types: list[pa.DataType]) -> KeyIndex:
        """The index for key columns of these types."""
        kinds = tuple("integer" if pa.types.is_integer(kind) else str(kind) for kind in types)
        for kind in types:
            if pa.types.is_nested(kind):
                raise SignalTypeError(f"a key cannot have type {kind}; name its parts as several key columns")
        return self.adopt(kinds)

    def most(self) -> int:
        """The number of keys seen, of the kind that has most: all numbers are below."""
        return max(map(len, self.indexes.values()), default=0)

    def adopt(self, kinds: tuple[str, ...]) -> KeyIndex:
        """The index for kinds of key known from a checkpoint."""
        return self.indexes.setdefault(kinds, KeyIndex(len(kinds), kinds == ("integer",)))
