"""Ranges: a loop over a map that conditions confine to an interval of one of its keys::

    M[k, q] * {q > a} * {q <= b}        an ordered index visits the entries in between, and no others

The conditions stay in the term and are asked again, so a range only leaves out what they would.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from viewlet.calculus.monotone import DOWN, UP, Growth, monotone_parts, unbound_keys
from viewlet.calculus.nodes import Cond, Factor, MapRef, is_parameter
from viewlet.core.scalar import Scalar, Var, variables


@dataclass(frozen=True, slots=True)
class Range:
    """An interval of one key: ``rising`` conditions hold from some key on, ``falling`` ones up to one."""

    key: Var
    rising: tuple[Scalar, ...]
    falling: tuple[Scalar, ...]

    @property
    def is_closed(self) -> bool:
        """Is it confined on both sides?"""
        return bool(self.rising and self.falling)


def as_range(atom: MapRef, others: Iterable[Factor], known: frozenset[str]) -> Range | None:
    """The key of an atom that other factors confine by what is known before it; on both sides if possible.

    >>> from viewlet.core.scalar import Const, call
    >>> q = Var("q")
    >>> as_range(MapRef("m", (Var("k"), q)), [Cond(call(">", q, Const(3)))], frozenset()).is_closed
    False
    """
    conditions = [f.scalar for f in others if isinstance(f, Cond)]
    free = unbound_keys(atom, known)
    found = [_confined(key, conditions, known) for key in free if free.count(key) == 1]
    return next(
        (each for each in sorted(found, key=lambda r: not r.is_closed) if each.rising or each.falling), None
    )


def _confined(key: Var, conditions: list[Scalar], known: frozenset[str]) -> Range:
    ways: dict[int, list[Scalar]] = {UP: [], DOWN: []}
    for condition in conditions:
        unknown = {v.name for v in variables(condition) if v.name not in known and not is_parameter(v)}
        if unknown == {key.name}:
            for way, part in monotone_parts(condition, {key.name: Growth(UP)}) or ():
                ways.get(way, []).append(part)
    return Range(key, tuple(ways[UP]), tuple(ways[DOWN]))
