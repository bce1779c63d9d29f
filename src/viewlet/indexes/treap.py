"""The one balanced tree behind every ordered structure here: a treap with annotations.

A treap is a search tree on keys and a heap on priorities; with pseudo-random priorities its expected
depth is logarithmic. Everything is done by two functions that are inverse to each other::

    split(merge(a, b), k) == (a, b)     when a holds the keys below k and b the others

A structure subclasses :class:`Node` and says two things: how a node's annotation follows from its
children (``pull``), and how a pending change of a whole subtree moves one level down (``push``).
Priorities come from a counter, not from the clock: the same operations give the same tree.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any, Self, TypeVar

_serial = count(1)


def _priority() -> int:
    """The next pseudo-random priority: a counter through a 64-bit mixing function (Weyl, then xor-shift)."""
    x = next(_serial) * 0x9E3779B97F4A7C15 & 0xFFFFFFFFFFFFFFFF
    x ^= x >> 32
    x = x * 0xD6E8FEB86659FD93 & 0xFFFFFFFFFFFFFFFF
    return x ^ x >> 32


class Node:
    """A treap node; subclasses add annotations and say how they are kept."""

    __slots__ = ("key", "left", "priority", "right")

    def __init__(self, key: Any) -> None:
        self.key = key
        self.priority = _priority()
        self.left: Self | None = None
        self.right: Self | None = None

    def pull(self) -> None:
        """Recompute this node's annotation from its own record and its children's annotations."""

    def push(self) -> None:
        """Hand a pending change of this subtree to the children."""


N = TypeVar("N", bound=Node)


def split(node: N | None, key: Any) -> tuple[N | None, N | None]:
    """Cut a tree into the keys below ``key`` and the keys at or above it."""
    if node is None:
        return None, None
    node.push()
    if node.key < key:
        node.right, above = split(node.right, key)
        node.pull()
        return node, above
    below, node.left = split(node.left, key)
    node.pull()
    return below, node


def split_after(node: N | None, key: Any) -> tuple[N | None, N | None]:
    """Cut a tree into the keys at or below ``key`` and the keys above it."""
    if node is None:
        return None, None
    node.push()
    if node.key <= key:
        node.right, above = split_after(node.right, key)
        node.pull()
        return node, above
    below, node.left = split_after(node.left, key)
    node.pull()
    return below, node


def merge(below: N | None, above: N | None) -> N | None:
    """Join two trees; every key of ``below`` is less than every key of ``above``."""
    if below is None:
        return above
    if above is None:
        return below
    if below.priority > above.priority:
        below.push()
        below.right = merge(below.right, above)
        below.pull()
        return below
    above.push()
    above.left = merge(below, above.left)
    above.pull()
    return above


def first(node: N | None) -> N | None:
    """The node with the least key."""
    while node is not None:
        node.push()
        if node.left is None:
            return node
        node = node.left
    return None


def last(node: N | None) -> N | None:
    """The node with the greatest key."""
    while node is not None:
        node.push()
        if node.right is None:
            return node
        node = node.right
    return None


def find(node: N | None, key: Any) -> N | None:
    """The node that holds ``key``."""
    while node is not None:
        node.push()
        if node.key == key:
            return node
        node = node.left if key < node.key else node.right
    return None


def nearest_below(node: N | None, key: Any) -> N | None:
    """The node with the greatest key less than ``key``."""
    best: N | None = None
    while node is not None:
        node.push()
        if node.key < key:
            best, node = node, node.right
        else:
            node = node.left
    return best


def nearest_above(node: N | None, key: Any) -> N | None:
    """The node with the least key greater than ``key``."""
    best: N | None = None
    while node is not None:
        node.push()
        if node.key > key:
            best, node = node, node.left
        else:
            node = node.right
    return best


def walk(node: N | None) -> Iterator[N]:
    """Every node in key order."""
    if node is not None:
        node.push()
        yield from walk(node.left)
        yield node
        yield from walk(node.right)
