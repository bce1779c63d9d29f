"""Ends of ordered maps: a nested minimum or maximum that an ordered index answers without a loop.

::

    x := max v<k>(M[k, v] * {v < c})      the end of an interval of M's keys: an ordered multiset
    x := max v<p>(M[q, v] * {q <= p})     the greatest in a subtree, along another key than v

Terms that no loop is needed for (the changed row of an event) are *points*: they are added to what the map
holds. A value that the points cancel is passed over, so at most one more entry is looked at than there are
points.
"""

from __future__ import annotations

from dataclasses import dataclass

from viewlet.calculus.monotone import Search, interval, only_map, unbound_keys
from viewlet.calculus.nodes import Exists, Extremum, MapRef, Query, Term, factor_variables, is_parameter
from viewlet.calculus.schedule import schedule
from viewlet.core.scalar import Const


@dataclass(frozen=True, slots=True)
class End:
    """The least or greatest ``of`` in an interval of one map, and points beside it.

    ``interval.key`` is ``of`` itself or, if ``is_nested``, a key along which subtrees keep their best ``of``.
    """

    interval: Search
    coefficient: int
    points: Query
    is_nested: bool


def as_end(extremum: Extremum, bound: frozenset[str]) -> End | None:
    """The extremum as an end, if one term of it loops, and that over one map with monotone conditions."""
    looping = tuple(term for term in extremum.query if not is_point(term, bound))
    if len(looping) != 1:
        return None
    (term,) = looping
    atom = only_map(term)
    if atom is None or extremum.of not in unbound_keys(atom, bound):
        return None
    others = [key for key in unbound_keys(atom, bound) if key != extremum.of]
    if len(others) + 1 != len(unbound_keys(atom, bound)) or len(others) > 1:
        return None
    along = others[0] if others else extremum.of
    found = interval(term, atom, along)
    if found is None:
        return None
    if others and any(extremum.of in factor_variables(f) for f in term.factors if f != atom):
        return None
    needs = found.needs | ({atom.name} if others else frozenset())
    points = tuple(t for t in extremum.query if t is not term)
    sought = Search(atom, along, found.dependents, found.rising, found.falling, found.flat, frozenset(needs))
    return End(sought, term.coefficient, points, bool(others))


def is_point(term: Term, bound: frozenset[str]) -> bool:
    """Is a term found by lookups, or by going through the rows of a change?"""
    known = set(bound)
    for factor in schedule(term.factors, bound):
        match factor:
            case MapRef(_, keys):
                if not all(isinstance(k, Const) or k.name in known or is_parameter(k) for k in keys):
                    return False
            case Exists(keys) if not all(k.name in known or is_parameter(k) for k in keys):
                return False
        known |= {var.name for var in factor_variables(factor)}
    return True
