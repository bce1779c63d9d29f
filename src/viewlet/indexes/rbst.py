"""A search tree with lazy range updates: the range binary search tree (RBST) for SUM and MAX.

Each key holds two values, and a whole key range changes at once:

* ``sum``: :meth:`RangeTree.add_range` adds a number to the sum of every key of a range;
* ``peak``: :meth:`RangeTree.raise_range` lifts the peak of every key of a range to at least a number.

A subtree that lies inside the range only notes what it owes its children, as the function
``x -> max(x, floor)`` on peaks and ``x -> x + addend`` on sums, and hands it down when it is entered.
Prefix aggregates kept this way are read at one key, and a predicate that is monotone in the key is
found by descent (:meth:`RangeTree.first_peak_over`). A raised peak cannot be lowered again by undoing:
deletions need the values themselves, which :class:`~viewlet.indexes.maximum.MaximumMap` keeps.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from viewlet.indexes import treap
from viewlet.indexes.record import IndexStructureError, Number


class _Node(treap.Node):
    """``addend`` and ``floor`` are owed to both children; ``total`` and ``greatest`` are of this subtree."""

    __slots__ = ("addend", "floor", "greatest", "peak", "size", "sum", "total")

    def __init__(self, key: Any, amount: Number, peak: Number) -> None:
        super().__init__(key)
        self.sum = self.total = amount
        self.peak = self.greatest = peak
        self.size = 1
        self.addend: Number = 0
        self.floor: Number | None = None

    def apply_add(self, addend: Number) -> None:
        """Add to the sum of every key of this subtree."""
        self.sum += addend
        self.total += addend * self.size
        self.addend += addend

    def apply_raise(self, floor: Number) -> None:
        """Lift the peak of every key of this subtree."""
        self.peak = max(self.peak, floor)
        self.greatest = max(self.greatest, floor)
        self.floor = floor if self.floor is None else max(self.floor, floor)

    def push(self) -> None:
        for child in (self.left, self.right):
            if child is not None and self.addend:
                child.apply_add(self.addend)
            if child is not None and self.floor is not None:
                child.apply_raise(self.floor)
        self.addend, self.floor = 0, None

    def pull(self) -> None:
        self.total, self.greatest, self.size = self.sum, self.peak, 1
        for child in (self.left, self.right):
            if child is not None:
                self.total += child.total
                self.greatest = max(self.greatest, child.greatest)
                self.size += child.size


class RangeTree:
    """Keys with a sum and a peak; range updates and range reads in O(log n).

    >>> tree = RangeTree()
    >>> for price in (2, 3, 5, 6, 8):
    ...     tree.insert(price, 0, 0)
    >>> tree.raise_range(5, 9, 45); tree.add_range(3, 6, 100); tree.raise_range(2, 8, 7)
    >>> tree.items()
    [(2, 0, 7), (3, 100, 7), (5, 100, 45), (6, 100, 45), (8, 0, 45)]
    >>> tree.sum_range(2, 5), tree.max_range(2, 3), tree.first_peak_over(7)
    (200, 7, 5)
    """

    def __init__(self) -> None:
        self._root: _Node | None = None

    def __len__(self) -> int:
        return 0 if self._root is None else self._root.size

    def __iter__(self) -> Iterator[tuple[Any, Number, Number]]:
        return ((node.key, node.sum, node.peak) for node in treap.walk(self._root))

    def items(self) -> list[tuple[Any, Number, Number]]:
        """Every key with its sum and peak, ascending by key."""
        return list(self)

    def insert(self, key: Any, amount: Number, peak: Number) -> None:
        """Add a new key; it owes nothing to range updates that came before it."""
        below, middle, above = self._cut(key, key)
        if middle is not None:
            self._join(below, middle, above)
            raise IndexStructureError(f"RangeTree already holds key {key!r}; remove it first")
        self._join(below, _Node(key, amount, peak), above)

    def remove(self, key: Any) -> None:
        """Forget ``key``; nothing happens when it is not there."""
        below, _, above = self._cut(key, key)
        self._root = treap.merge(below, above)

    def get(self, key: Any) -> tuple[Number, Number] | None:
        """The sum and the peak of ``key``, None when there is none."""
        node = treap.find(self._root, key)
        return None if node is None else (node.sum, node.peak)

    def add_range(self, low: Any, high: Any, addend: Number) -> None:
        """sum += addend for every key with low <= key <= high."""
        if low <= high:
            below, middle, above = self._cut(low, high)
            if middle is not None:
                middle.apply_add(addend)
            self._join(below, middle, above)

    def raise_range(self, low: Any, high: Any, floor: Number) -> None:
        """peak = max(peak, floor) for every key with low <= key <= high."""
        if low <= high:
            below, middle, above = self._cut(low, high)
            if middle is not None:
                middle.apply_raise(floor)
            self._join(below, middle, above)

    def sum_range(self, low: Any, high: Any) -> Number:
        """The total of the sums with low <= key <= high; 0 when there is no such key."""
        if not low <= high:
            return 0
        below, middle, above = self._cut(low, high)
        total = 0 if middle is None else middle.total
        self._join(below, middle, above)
        return total

    def max_range(self, low: Any, high: Any) -> Number | None:
        """The greatest peak with low <= key <= high, None when there is no such key."""
        if not low <= high:
            return None
        below, middle, above = self._cut(low, high)
        greatest = None if middle is None else middle.greatest
        self._join(below, middle, above)
        return greatest

    def first_peak_over(self, bound: Number) -> Any | None:
        """The least key whose peak is > ``bound``."""
        node = self._root
        while node is not None and node.greatest > bound:
            node.push()
            if node.left is not None and node.left.greatest > bound:
                node = node.left
            elif node.peak > bound:
                return node.key
            else:
                node = node.right
        return None

    def sum_by_peak(self, bound: Number) -> Number:
        """The total of the sums from the first key whose peak is > ``bound`` to the end."""
        start = self.first_peak_over(bound)
        if start is None:
            return 0
        below, rest = treap.split(self._root, start)
        total = 0 if rest is None else rest.total
        self._root = treap.merge(below, rest)
        return total

    def _cut(self, low: Any, high: Any) -> tuple[_Node | None, _Node | None, _Node | None]:
        below, rest = treap.split(self._root, low)
        middle, above = treap.split_after(rest, high)
        return below, middle, above

    def _join(self, below: _Node | None, middle: _Node | None, above: _Node | None) -> None:
        self._root = treap.merge(treap.merge(below, middle), above)
