"""Maps on dicts, with the slice indexes that lookups ask for."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Literal

from viewlet.calculus.evaluate import Key, Number
from viewlet.indexes import BestMap, OrderedMap

Entries = Iterable[tuple[Key, Number]]
Ask = Callable[[Any], bool]


_Best = tuple[int, int, Literal["min", "max"]]
"""Along which key, of which key, and which end."""


class ReferenceMap:
    """Keys to non-zero numbers. An index on some key positions exists once somebody has looked that way.

    ``negatives`` counts the entries below zero.
    """

    def __init__(self) -> None:
        self.entries: dict[Key, Number] = {}
        self.negatives = 0
        self._slices: dict[tuple[int, ...], dict[Key, set[Key]]] = {}
        self._ordered: dict[int, dict[Key, OrderedMap]] = {}
        self._levels: dict[tuple[tuple[int, ...], int], dict[Key, OrderedMap]] = {}
        self._best: dict[_Best, dict[Key, BestMap]] = {}

    def add(self, key: Key, change: Number) -> None:
        """Add to an entry; an entry at zero disappears."""
        old = self.entries.get(key)
        new = change if old is None else old + change
        self.negatives += (new < 0) - (old is not None and old < 0)
        for position, slices in self._ordered.items():
            self._add_ordered(slices, position, key, bool(new) - (old is not None), change)
        if bool(new) != (old is not None):
            for (bound, position), levels in self._levels.items():
                self._add_level(levels, bound, position, key, bool(new) - (old is not None))
            for wanted, trees in self._best.items():
                self._set_best(trees, wanted, key)
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

    def ordered(self, position: int) -> Callable[[Key], OrderedMap | None]:
        """A function from the values of all other keys to the entries in the order of this one.

        NULL has no place in an order: entries with NULL there are left out.
        """
        if position not in self._ordered:
            slices = self._ordered[position] = {}
            for key, value in self.entries.items():
                self._add_ordered(slices, position, key, 1, value)
        return self._ordered[position].get

    def best(self, along: int, of: int, op: Literal["min", "max"]) -> Callable[[Key], BestMap | None]:
        """A function from the values of all other keys to the best ``of`` by the key ``along``."""
        wanted = (along, of, op)
        self.ordered(of)
        if wanted not in self._best:
            trees = self._best[wanted] = {}
            for key in self.entries:
                self._set_best(trees, wanted, key)
        return self._best[wanted].get

    def _set_best(self, trees: dict[Key, BestMap], wanted: _Best, key: Key) -> None:
        """Correct a tree at the place of an entry that came or went."""
        along, of, op = wanted
        place = key[along]
        if place is None:
            return
        rest = tuple(value for i, value in enumerate(key) if i not in (along, of))
        tree = trees.setdefault(rest, BestMap(op))
        values = self._ordered[of].get(key[:of] + key[of + 1 :])
        if values is None:
            tree.remove(place)
        else:
            tree.set(place, values.least() if op == "min" else values.greatest())
        if not tree:
            del trees[rest]

    def between(
        self, bound: tuple[int, ...], position: int, width: int
    ) -> Callable[[Key, Ask, Ask], Entries]:
        """A function from the values at the ``bound`` positions to the entries in an interval of one key.

        The interval is told as in :meth:`OrderedMap.between`; entries with NULL for that key come along.
        """
        if (bound, position) not in self._levels:
            levels = self._levels[bound, position] = {}
            for key in self.entries:
                self._add_level(levels, bound, position, key, 1)
        found = self._levels[bound, position]
        places = tuple(sorted((*bound, position)))
        gap = places.index(position)
        look_up = self.lookup(places, width)

        def entries(values: Key, before: Ask, inside: Ask) -> Entries:
            levels = found.get(values)
            keys = [None] if levels is None else [None, *levels.between(before, inside)]
            return [e for key in keys for e in look_up((*values[:gap], key, *values[gap:]))]

        return entries

    def _add_level(
        self, levels: dict[Key, OrderedMap], bound: tuple[int, ...], position: int, key: Key, change: int
    ) -> None:
        if key[position] is not None:
            part = tuple([key[i] for i in bound])
            index = levels.setdefault(part, OrderedMap(1))
            index.add(key[position], (change,))
            if not len(index):
                del levels[part]

    def _add_ordered(
        self, slices: dict[Key, OrderedMap], position: int, key: Key, count: int, change: Number
    ) -> None:
        place = key[position]
        if place is None:
            return
        rest = key[:position] + key[position + 1 :]
        index = slices.get(rest)
        if index is None:
            index = slices[rest] = OrderedMap(2)
        index.add(place, (count, change))  # type: ignore[arg-type]
        if not len(index):
            del slices[rest]

    def _get(self, key: Key) -> Entries:
        value = self.entries.get(key)
        return () if value is None else ((key, value),)
