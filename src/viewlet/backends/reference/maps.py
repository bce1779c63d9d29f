"""Maps on dicts, with the slice indexes that lookups ask for."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from viewlet.calculus.evaluate import Key, Number

Entries = Iterable[tuple[Key, Number]]


class ReferenceMap:
    """Keys to non-zero numbers. An index on some key positions exists once somebody has looked that way."""

    def __init__(self) -> None:
        self.entries: dict[Key, Number] = {}
        self._slices: dict[tuple[int, ...], dict[Key, set[Key]]] = {}

    def add(self, key: Key, change: Number) -> None:
        """Add to an entry; an entry at zero disappears."""
        old = self.entries.get(key)
        new = change if old is None else old + change
        if new:
            self.entries[key] = new
            if old is None:
                for positions, index in self._slices.items():
                    index.setdefault(tuple([key[i] for i in positions]), set()).add(key)
        elif old is not None:
            del self.entries[key]
            for positions, index in self._slices.items():
                part = tuple([key[i] for i in positions])
                index[part].remove(key)
                if not index[part]:
                    del index[part]

    def replace(self, entries: dict[Key, Number]) -> None:
        """Hold exactly these entries from now on."""
        for key in [key for key in self.entries if key not in entries]:
            self.add(key, -self.entries[key])
        for key, value in entries.items():
            if (difference := value - self.entries.get(key, 0)) != 0:
                self.add(key, difference)

    def lookup(self, bound: tuple[int, ...], width: int) -> Callable[[Key], Entries]:
        """A function from the values at the ``bound`` positions to the entries that match."""
        if len(bound) == width:
            return self._get
        if not bound:
            return lambda values: list(self.entries.items())
        index = self._slices.get(bound)
        if index is None:
            index = self._slices[bound] = {}
            for key in self.entries:
                index.setdefault(tuple([key[i] for i in bound]), set()).add(key)
        found = index
        return lambda values: [(key, self.entries[key]) for key in found.get(values, ())]

    def _get(self, key: Key) -> Entries:
        value = self.entries.get(key)
        return () if value is None else ((key, value),)
