"""An ordered map from keys to values, with the greatest value in every subtree.

Serves nested MAX under an inequality: the running maximum over keys is monotone whatever the sign of
the values, so "the first key whose running maximum exceeds c" is the first key whose *own* value
exceeds c, and deletions are exact because nothing but present values is stored.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from viewlet.indexes import treap
from viewlet.indexes.record import Number


class _Node(treap.Node):
    """``greatest`` is the greatest value in this subtree."""

    __slots__ = ("greatest", "value")

    def __init__(self, key: Any, value: Number) -> None:
        super().__init__(key)
        self.value = value
        self.greatest = value

    def pull(self) -> None:
        self.greatest = self.value
        for child in (self.left, self.right):
            if child is not None and child.greatest > self.greatest:
                self.greatest = child.greatest


class MaximumMap:
    """Values under ordered keys; range maximum and first key above a bound in O(log n).

    >>> volumes = MaximumMap()
    >>> for price, volume in [(10, 3), (11, -7), (12, 9), (15, 4)]:
    ...     volumes.set(price, volume)
    >>> volumes.first_over(3), volumes.range(10, 11)
    (12, 3)
    >>> volumes.remove(12); volumes.first_over(3)
    15
    """

    def __init__(self) -> None:
        self._root: _Node | None = None

    def __iter__(self) -> Iterator[tuple[Any, Number]]:
        return ((node.key, node.value) for node in treap.walk(self._root))

    def get(self, key: Any) -> Number | None:
        """The value of ``key``, None when there is none."""
        node = treap.find(self._root, key)
        return None if node is None else node.value

    def set(self, key: Any, value: Number) -> None:
        """Put ``value`` under ``key``, replacing what was there."""
        below, _, above = self._cut(key, key)
        self._root = treap.merge(treap.merge(below, _Node(key, value)), above)

    def remove(self, key: Any) -> None:
        """Forget ``key``; nothing happens when it is not there."""
        below, _, above = self._cut(key, key)
        self._root = treap.merge(below, above)

    def range(self, low: Any, high: Any) -> Number | None:
        """The greatest value with low <= key <= high, None when there is no such key."""
        if not low <= high:
            return None
        below, middle, above = self._cut(low, high)
        greatest = None if middle is None else middle.greatest
        self._root = treap.merge(treap.merge(below, middle), above)
        return greatest

    def first_over(self, bound: Number) -> Any | None:
        """The least key whose value is > ``bound``."""
        return _first_over(self._root, bound)

    def first_over_from(self, low: Any, bound: Number) -> Any | None:
        """The least key >= ``low`` whose value is > ``bound``."""
        below, above = treap.split(self._root, low)
        found = _first_over(above, bound)
        self._root = treap.merge(below, above)
        return found

    def _cut(self, low: Any, high: Any) -> tuple[_Node | None, _Node | None, _Node | None]:
        below, rest = treap.split(self._root, low)
        middle, above = treap.split_after(rest, high)
        return below, middle, above


def _first_over(node: _Node | None, bound: Number) -> Any | None:
    while node is not None and node.greatest > bound:
        if node.left is not None and node.left.greatest > bound:
            node = node.left
        elif node.value > bound:
            return node.key
        else:
            node = node.right
    return None
