"""Running sums: do the conditions of a search read nothing of its key but prefix sums of maps?

::

    M[p] * {0.25 * total > sum<p>(V[q] * {q > p})}

A walk down an ordered index of V knows the sum of V behind every point that it meets. So conditions on such
sums alone are asked on the way, and one walk finds where they change their mind: O(log V). Whatever else they
compute of the key has to be computed at each key that a walk meets.

Further conditions on q that hold from some key on, whatever p is, keep a part of V out for good. While
nothing in V is negative::

    sum<p>(V[q] * {q <= p} * {c(q)})  =  max(0, sum<p>(V[q] * {q <= p}) - sum(V[q] * {not c(q)}))
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from viewlet.calculus.monotone import UP, Growth, Search, as_search, condition_growth
from viewlet.calculus.nodes import Extremum, Factor, Let, Lift, MapRef, factor_variables
from viewlet.core.scalar import FLIPPED, Call, Scalar, Var, substitute, variables


@dataclass(frozen=True, slots=True)
class Prefix:
    """``var := sum<p>(atom[.., key, ..] * {key op p})``: a running sum of ``atom`` along ``key``.

    ``within`` are further conditions that p has no part in: they hold from some key on, or, of a sum from p
    on, up to some key.
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
    if not (within.rising or within.falling):
        return None if within.flat else Prefix(lift.var, inner.atom, inner.key, op)
    return None if _reads(within, outer) else Prefix(lift.var, inner.atom, inner.key, op, within)


def as_opening(lift: Lift, outer: Var, bound: frozenset[str]) -> Search | None:
    """A nested sum over the first entries of a map, more of them as the variable ``outer`` grows."""
    if len(lift.query) != 1 or lift.query[0].coefficient != 1:
        return None
    given = {key.name for key in lift.keys} & (bound | {outer.name})
    inner = as_search(lift.query[0], frozenset(given))
    if inner is None or inner.rising or inner.dependents or inner.flat or outer in inner.atom.keys:
        return None
    known = {outer.name: Growth(UP)}
    return inner if all(condition_growth(c, known) == UP for c in inner.falling) else None


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
    """All that conditions read of the key of a search, if that is sums over the first entries of one map."""
    found: list[Search] = []
    extents: set[Scalar] = set()
    for factor in needed(search.dependents, conditions):
        opening = as_opening(factor, search.key, bound) if isinstance(factor, Lift) else None
        if opening is None:
            return None
        found.append(opening)
        extents |= {substitute(c, {opening.key.name: Var("*")}) for c in opening.falling}
    at_key = any(var == search.key for condition in conditions for var in variables(condition))
    return found if not at_key and found and len(extents) == len(found[0].falling) else None


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
