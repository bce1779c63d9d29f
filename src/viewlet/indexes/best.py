"""An ordered map from keys to values that knows the least, or the greatest, value of any interval of keys.

The interval is told by questions, not by bounds: whoever asks may compute anything, as long as the answers
are monotone in the key. Values may be of any totally ordered type.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from viewlet.indexes import treap

Ask = Callable[[Any], bool]


class _Node(treap.Node):
    """``best`` is the best value in this subtree."""

    __slots__ = ("best", "choose", "value")

    def __init__(self, key: Any, value: Any, choose: Callable[..., Any]) -> None:
        super().__init__(key)
        self.value = self.best = value
        self.choose = choose

    def pull(self) -> None:
        children = (child.best for child in (self.left, self.right) if child is not None)
        self.best = self.choose([self.value, *children])


class BestMap:
    """Values under ordered keys; the best of an interval in O(log n).

    >>> volumes = BestMap("max")
    >>> for price, volume in [(10, 3), (11, -7), (12, 9), (15, 4)]:
    ...     volumes.set(price, volume)
    >>> volumes.between(lambda p: p < 11, lambda p: p < 12), volumes.between(lambda p: False, lambda p: True)
    (-7, 9)
    >>> volumes.remove(12); volumes.between(lambda p: p < 11, lambda p: True)
    4
    """

    def __init__(self, op: Literal["min", "max"]) -> None:
        self._choose: Callable[..., Any] = min if op == "min" else max
        self._root: _Node | None = None

    def __bool__(self) -> bool:
        return self._root is not None

    def set(self, key: Any, value: Any) -> None:
        """Put ``value`` under ``key``, replacing what was there."""
        below, above = self._apart(key)
        self._root = treap.merge(treap.merge(below, _Node(key, value, self._choose)), above)

    def remove(self, key: Any) -> None:
        """Forget ``key``; nothing happens when it is not there."""
        self._root = treap.merge(*self._apart(key))

    def between(self, before: Ask, inside: Ask) -> Any | None:
        """The best value of the keys with ``inside`` and without ``before``, None without any.

        Both must hold for small keys and fail for large ones.
        """
        node = self._root
        while node is not None:
            if before(node.key):
                node = node.right
            elif not inside(node.key):
                node = node.left
            else:
                break
        else:
            return None
        found = [node.value]
        left, right = node.left, node.right
        while left is not None:
            if before(left.key):
                left = left.right
            else:
                found += [left.value] if left.right is None else [left.value, left.right.best]
                left = left.left
        while right is not None:
            if inside(right.key):
                found += [right.value] if right.left is None else [right.value, right.left.best]
                right = right.right
            else:
                right = right.left
        return self._choose(found)

    def _apart(self, key: Any) -> tuple[_Node | None, _Node | None]:
        below, rest = treap.split(self._root, key)
        return below, treap.split_after(rest, key)[1]
