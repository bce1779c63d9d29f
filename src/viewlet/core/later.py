"""A mapping that travels as bytes: whoever reads a large pickle pays only for the parts that are looked into.

>>> from pickle import dumps, loads
>>> read = loads(dumps(Later({"answer": 42})))
>>> read.is_read, read["answer"], read.is_read
(False, 42, True)
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from typing import Any, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Later(MutableMapping[K, V]):
    """Entries, or the pickle of a dict with them until somebody asks for one.

    What it shares with objects outside is no longer shared once it was read again.
    """

    __slots__ = ("_entries", "_written")

    def __init__(self, entries: Mapping[K, V] | bytes = {}) -> None:
        self._written = entries if isinstance(entries, bytes) else b""
        self._entries: dict[K, V] | None = None if isinstance(entries, bytes) else dict(entries)

    @property
    def is_read(self) -> bool:
        """Has anybody looked into it?"""
        return self._entries is not None

    def written(self, dump: Callable[[dict[K, V]], bytes]) -> bytes:
        """The pickle of its entries, made by ``dump`` if they may have changed."""
        return self._written if self._entries is None else dump(self._entries)

    def __reduce__(self) -> tuple[Any, ...]:
        return Later, (self.written(pickle.dumps),)

    def _read(self) -> dict[K, V]:
        if self._entries is None:
            self._entries, self._written = pickle.loads(self._written), b""
        return self._entries

    def __getitem__(self, key: K) -> V:
        return self._read()[key]

    def __setitem__(self, key: K, value: V) -> None:
        self._read()[key] = value

    def __delitem__(self, key: K) -> None:
        del self._read()[key]

    def __iter__(self) -> Iterator[K]:
        return iter(self._read())

    def __len__(self) -> int:
        return len(self._read())

    def __repr__(self) -> str:
        return repr(self._read())
