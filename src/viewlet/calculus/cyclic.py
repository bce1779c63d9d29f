"""Cyclic joins, by the GYO reduction: an acyclic join loses all its atoms to it, a cyclic one does not."""

from __future__ import annotations

from collections.abc import Iterable


def is_cyclic(edges: Iterable[frozenset[str]]) -> bool:
    """Is the hypergraph of a join cyclic?

    >>> is_cyclic([frozenset("ab"), frozenset("bc"), frozenset("cd")])
    False
    >>> is_cyclic([frozenset("ab"), frozenset("bc"), frozenset("ca")])
    True
    """
    left = list(edges)
    while True:
        reduced = _without_ears([_shared(edge, i, left) for i, edge in enumerate(left)])
        if len(reduced) <= 1:
            return False
        if reduced == left:
            return True
        left = reduced


def _shared(edge: frozenset[str], i: int, edges: list[frozenset[str]]) -> frozenset[str]:
    """A vertex that occurs in one edge alone holds nothing together."""
    others = frozenset().union(*(other for j, other in enumerate(edges) if j != i))
    return edge & others


def _without_ears(edges: list[frozenset[str]]) -> list[frozenset[str]]:
    """An edge inside another one adds nothing."""
    kept: list[frozenset[str]] = []
    for i, edge in enumerate(edges):
        inside = any(edge < other or (edge == other and i > j) for j, other in enumerate(edges) if j != i)
        if not inside:
            kept.append(edge)
    return kept
