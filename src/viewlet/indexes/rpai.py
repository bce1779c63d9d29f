"""A relative partial aggregate index: a PAI whose keys shift by whole ranges in O(log n).

Keys are relative: the key stored in a node is off by the ``shift`` of each of its ancestors, so moving
a whole subtree of keys is one addition at its root. (The shift moves down when a subtree is entered;
the published tree keeps it in the root's own key instead. The keys are the same.)

``shift_keys(k, d)`` cuts the tree after k, shifts the upper part, and joins:

* order kept, ``least upper key + d > greatest lower key``: a plain join. Every d > 0, and every d < 0 that
  comes from removing a row with a non-negative value, except that two keys may meet;
* two keys meet or the order breaks: only the upper keys that land at or below the greatest lower key
  are taken out and added one by one. m such keys cost O(m log n); at most one when keys only meet.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from viewlet.indexes import treap
from viewlet.indexes.record import Number, Record, is_empty, plus, require_width, zero
from viewlet.indexes.summed import Summed


class _Node(Summed):
    """``shift`` is owed to the keys of both children."""

    __slots__ = ("shift",)

    def __init__(self, key: Any, record: Record) -> None:
        super().__init__(key, record)
        self.shift: Number = 0

    def move(self, offset: Number) -> None:
        """Move every key of this subtree."""
        self.key += offset
        self.shift += offset

    def push(self) -> None:
        if self.shift:
            for child in (self.left, self.right):
                if child is not None:
                    child.move(self.shift)
            self.shift = 0


class RpaiTree:
    """Records under shifting numeric keys: get, put, add, get_sum, shift_keys.

    >>> index = RpaiTree(width=2)
    >>> for key in (5, 10, 20, 30):
    ...     index.add(key, (1, key))
    >>> index.shift_keys(10, 7); index.items()
    [(5, (1, 5)), (10, (1, 10)), (27, (1, 20)), (37, (1, 30))]
    >>> index.shift_keys(10, -17); index.items()      # 27 lands on 10: they become one
    [(5, (1, 5)), (10, (2, 30)), (20, (1, 30))]
    >>> index.shift_keys(5, -12); index.items()       # 10 lands below 5: the order breaks
    [(-2, (2, 30)), (5, (1, 5)), (8, (1, 30))]
    >>> index.get_sum(5)
    (3, 35)
    """

    def __init__(self, width: int) -> None:
        self.width = width
        self._root: _Node | None = None

    def __iter__(self) -> Iterator[tuple[Number, Record]]:
        return ((node.key, node.record) for node in treap.walk(self._root))

    def items(self) -> list[tuple[Number, Record]]:
        """Every key with its record, ascending by key."""
        return list(self)

    def get(self, key: Number) -> Record:
        """The record under ``key``; zeros when there is none."""
        node = treap.find(self._root, key)
        return zero(self.width) if node is None else node.record

    def put(self, key: Number, record: Record) -> None:
        """Replace the record under ``key``; an empty record removes it."""
        require_width(record, self.width, "RpaiTree")
        below, _, above = self._cut(key)
        middle = None if is_empty(record) else _Node(key, record)
        self._root = treap.merge(treap.merge(below, middle), above)

    def add(self, key: Number, delta: Record) -> None:
        """Add ``delta`` to the record under ``key``."""
        require_width(delta, self.width, "RpaiTree")
        self.put(key, plus(self.get(key), delta))

    def total(self) -> Record:
        """The sum of all records."""
        return zero(self.width) if self._root is None else self._root.total

    def get_sum(self, key: Number) -> Record:
        """The sum of the records with keys <= ``key``."""
        total, node = zero(self.width), self._root
        while node is not None:
            node.push()
            if node.key <= key:
                if node.left is not None:
                    total = plus(total, node.left.total)
                total = plus(total, node.record)
                node = node.right
            else:
                node = node.left
        return total

    def shift_keys(self, key: Number, offset: Number) -> None:
        """Move every record with a key > ``key`` by ``offset``; records that meet add up."""
        self._shift_upper(*treap.split_after(self._root, key), offset)

    def shift_keys_inclusive(self, key: Number, offset: Number) -> None:
        """Move every record with a key >= ``key`` by ``offset``; records that meet add up."""
        self._shift_upper(*treap.split(self._root, key), offset)

    def _shift_upper(self, lower: _Node | None, upper: _Node | None, offset: Number) -> None:
        ceiling = treap.last(lower)
        crossing: _Node | None = None
        if ceiling is not None:
            crossing, upper = treap.split_after(upper, ceiling.key - offset)
        if upper is not None:
            upper.move(offset)
        self._root = treap.merge(lower, upper)
        for node in list(treap.walk(crossing)):
            self.add(node.key + offset, node.record)

    def _cut(self, key: Number) -> tuple[_Node | None, _Node | None, _Node | None]:
        below, rest = treap.split(self._root, key)
        middle, above = treap.split_after(rest, key)
        return below, middle, above
