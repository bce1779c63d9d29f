"""Extract common factors from a sum of outer products."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from viewlet.linalg.instructions import Builder, Named


@dataclass(frozen=True, slots=True)
class Term:
    """left @ right.T, both thin, by name."""

    left: str
    right: str


Factored: TypeAlias = tuple[Term, ...]


def extract_common_factors(builder: Builder, terms: Factored) -> Factored:
    """u v' + u w' -> u (v + w)';  u w' + v w' -> (u + v) w'

    Values are numbered, so equal factors have equal names. The rank of the result is at most that of the
    input, and the matrix is the same.

    >>> code = Builder({name: (5, 1) for name in "uvwx"})
    >>> len(extract_common_factors(code, (Term("u", "v"), Term("u", "w"), Term("x", "w"))))
    2
    """
    by_left: dict[str, list[str]] = {}
    for term in terms:
        by_left.setdefault(term.left, []).append(term.right)
    by_right: dict[str, list[str]] = {}
    for left, rights in by_left.items():
        by_right.setdefault(_add(builder, rights), []).append(left)
    return tuple(Term(_add(builder, lefts), right) for right, lefts in by_right.items())


def rank_of(builder: Builder, terms: Factored) -> int:
    """The number of outer products in the sum."""
    return sum(builder.rank(term.left) for term in terms)


def form(builder: Builder, terms: Factored) -> Factored:
    """u1 v1' + ... + d I' -> (u1 v1' + ... + d) I', one dense term.

    This is what a delta becomes when its rank reaches the smaller side of its matrix: then the factored
    form holds more numbers than the matrix itself.
    """
    rows, columns = builder.shapes[terms[0].left][0], builder.shapes[terms[0].right][0]
    parts: list[Named] = []
    thin: list[Term] = []
    for term in terms:
        if builder.is_unit(term.right):
            parts.append(Named(term.left))
        elif builder.is_unit(term.left):
            parts.append(Named(term.right, transposed=True))
        else:
            thin.append(term)
    if thin:
        left, right = builder.stack([t.left for t in thin]), builder.stack([t.right for t in thin])
        parts.append(Named(builder.multiply(Named(left), Named(right, transposed=True))))
    if columns <= rows:
        return (Term(builder.combine([(1, part) for part in parts]), builder.unit(columns)),)
    flipped = [(1, Named(part.name, not part.transposed)) for part in parts]
    return (Term(builder.unit(rows), builder.combine(flipped)),)


def _add(builder: Builder, names: list[str]) -> str:
    return builder.combine([(1, Named(name)) for name in names])
