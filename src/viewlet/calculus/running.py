"""Running sums: do the conditions of a search read nothing of its key but prefix sums of maps?

::

    M[p] * {0.25 * total > sum<p>(V[q] * {q > p})}

A walk down an ordered index of V knows the sum of V behind every point that it meets. So conditions on such
sums alone are asked on the way, and one walk finds where they change their mind: O(log V). Whatever else they
compute of the key has to be computed at each key that a walk meets.

Further conditions on q that hold from some key on, whatever p is, keep a part of V out for good. While
nothing in V is negative::

    sum<p>(V[q] * {q <= p} * {c(q)})  =  max(0, sum<p>(V[q] * {q <= p}) - sum(V[q] * {not c(q)}))

A nested aggregate *opens* with p if a comparison of q with p, whichever, lets more and more entries into it
from one end of the order of q on. Such sums turn a condition at one entry, and so do minima and maxima.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from viewlet.calculus.extreme import as_end
from viewlet.calculus.monotone import DOWN, UP, Growth, Search, as_search, condition_growth
from viewlet.calculus.nodes import Extremum, Factor, Let, Lift, MapRef, Term, factor_variables
from viewlet.core.scalar import FLIPPED, Call, Scalar, Var, substitute, variables


@dataclass(frozen=True, slots=True)
class Prefix:
    """``var := sum<p>(atom[.., key, ..] * {key op p})``: a running sum of ``atom`` along ``key``.

    ``within`` are further conditions that p has no part in: they hold from some key on, or, of a sum from p
    on, up to some key, or for all keys or none.
    """

    var: Var
    atom: MapRef
    key: Var
    op: str
    within: Search | None = None

    @property
    def behind(self) -> bool:
        """Is it the sum from a point on, not up to it?"""
        return self.op in (">", ">=")

    @property
    def closed(self) -> bool:
        """Is an entry at p itself before the point?"""
        return self.op in ("<=", ">")


def as_prefix(lift: Lift, outer: Var, bound: frozenset[str]) -> Prefix | None:
    """A nested sum as a running one, if the variable ``outer`` cuts it off and does nothing else."""
    if len(lift.query) != 1 or lift.query[0].coefficient != 1:
        return None
    given = {key.name for key in lift.keys} & (bound | {outer.name})
    inner = as_search(lift.query[0], frozenset(given))
    if inner is None or outer in inner.atom.keys:
        return None
    if (op := _comparison(inner.falling, inner.key, outer)) is not None:
        within = replace(inner, falling=())
    elif (op := _comparison(inner.rising, inner.key, outer)) is not None:
        within = replace(inner, rising=())
    else:
        return None
    if not (within.rising or within.falling or within.flat):
        return Prefix(lift.var, inner.atom, inner.key, op)
    return None if _reads(within, outer) else Prefix(lift.var, inner.atom, inner.key, op, within)


def as_opening(factor: Lift | Extremum, outer: Var, bound: frozenset[str]) -> Search | None:
    """A nested aggregate over the first entries of a map, more of them as the variable ``outer`` grows; or
    over the last ones (its conditions are ``rising`` then), more of them as it falls."""
    inner = _interval_of(factor, frozenset({key.name for key in factor.keys} & (bound | {outer.name})))
    if inner is None or inner.dependents or inner.flat or outer in inner.atom.keys:
        return None
    if inner.rising and inner.falling:
        return None
    known, way = {outer.name: Growth(UP)}, DOWN if inner.rising else UP
    extent = (*inner.rising, *inner.falling)
    return inner if extent and all(condition_growth(c, known) == way for c in extent) else None


def _interval_of(factor: Lift | Extremum, given: frozenset[str]) -> Search | None:
    """The part of one map, cut out along a key, that is summed or of which another key's best is sought."""
    match factor:
        case Lift(query=(Term(coefficient=1) as term,)):
            return as_search(term, given)
        case Extremum():
            end = as_end(factor, given)
            return end.interval if end is not None and end.is_nested and not end.points else None
        case _:
            return None


def _reads(search: Search, var: Var) -> bool:
    scalars = (v for scalar in (*search.rising, *search.falling) for v in variables(scalar))
    factors = (v for factor in (*search.dependents, *search.flat) for v in factor_variables(factor))
    return var in (*scalars, *factors)


def needed(dependents: Sequence[Factor], conditions: Iterable[Scalar]) -> list[Factor]:
    """The dependents that conditions read, directly or through others, in their order."""
    names = {var.name for condition in conditions for var in variables(condition)}
    kept: list[Factor] = []
    for factor in reversed(dependents):
        assert isinstance(factor, Let | Lift | Extremum)
        if factor.var.name in names:
            kept.append(factor)
            names |= {var.name for var in factor_variables(factor)}
    return kept[::-1]


def running_sums(search: Search, conditions: Sequence[Scalar], bound: frozenset[str]) -> list[Prefix] | None:
    """All that conditions read of the key of a search, if that is sums of one kind of prefix."""
    found: list[Prefix] = []
    read = list(conditions)
    for factor in needed(search.dependents, conditions):
        match factor:
            case Lift():
                prefix = as_prefix(factor, search.key, bound)
                if prefix is None:
                    return None
                found.append(prefix)
            case Let(_, scalar):
                read.append(scalar)
            case _:
                return None
    at_key = any(var == search.key for scalar in read for var in variables(scalar))
    return found if not at_key and len({prefix.closed for prefix in found}) == 1 else None


def openings(search: Search, conditions: Sequence[Scalar], bound: frozenset[str]) -> list[Search] | None:
    """All that conditions read of the key of a search, if that is sums, or minima, or maxima of one key, over
    the same first or last entries of one map."""
    found: list[Search] = []
    kinds: set[tuple[object, ...]] = set()
    read = list(conditions)
    for factor in needed(search.dependents, conditions):
        match factor:
            case Lift() | Extremum():
                opening = as_opening(factor, search.key, bound)
                if opening is None:
                    return None
                found.append(opening)
                kinds.add((*_held(factor, opening), *_extent(opening)))
            case Let(_, scalar):
                read.append(scalar)
            case _:
                return None
    at_key = any(var == search.key for scalar in read for var in variables(scalar))
    return found if not at_key and len(kinds) == 1 else None


def _held(factor: Lift | Extremum, opening: Search) -> tuple[object, ...]:
    """What an index holds that tells a nested aggregate: sums are held side by side."""
    if isinstance(factor, Lift):
        return ("sums",)
    return (factor.op, opening.atom.name, opening.atom.keys.index(factor.of))


def _extent(opening: Search) -> tuple[object, ...]:
    """How far it extends, whatever its key is called."""
    named = {opening.key.name: Var("*")}
    return tuple(tuple(substitute(c, named) for c in cs) for cs in (opening.rising, opening.falling))


def _comparison(conditions: Sequence[Scalar], inner: Var, outer: Var) -> str | None:
    """The operator of the only condition, if it is ``inner op outer`` or the same the other way round.

    >>> _comparison((Call(">=", (Var("p"), Var("q")), Var("p").type),), Var("q"), Var("p"))
    '<='
    """
    match conditions:
        case (Call("<" | "<=" | ">" | ">=" as op, (Var() as a, Var() as b)),):
            if (a, b) == (inner, outer):
                return op
            if (b, a) == (inner, outer):
                return FLIPPED[op]
    return None
