"""Monotone conditions: does a condition, as one key grows, hold first and then fail, or the other way round?

If every condition on a key is of that kind, the keys that satisfy them all form an interval, and a sum over
them is a difference of two prefix sums: logarithmic in an ordered index, whatever the condition computes.

A nested sum over ``{q <= p}`` grows with p, one over ``{q > p}`` shrinks, as long as what it sums is nowhere
negative. That cannot be known beforehand, so the maps on which it depends are reported, and whoever searches
looks at their signs first. A nested maximum over ``{q <= p}`` grows with p whatever the values are; but it is
NULL before the first q, where no comparison holds: that is a second condition, monotone by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import isfinite

from viewlet.calculus.nodes import Cond, Extremum, Factor, Let, Lift, MapRef, Query, Term, factor_variables
from viewlet.core.scalar import COMPARISONS, Call, Const, Scalar, Var, call, nullable, variables
from viewlet.core.types import BOOLEAN

UP, FLAT, DOWN = 1, 0, -1


@dataclass(frozen=True, slots=True)
class Growth:
    """How something changes with a key, and which maps must not hold negative values for that to be true.

    ``nonnegative`` for nested sums; ``blanks`` are the nested minima and maxima that it is computed from,
    each with the way in which the set grows that it is taken over: NULL while that set is empty.
    """

    direction: int
    needs: frozenset[str] = frozenset()
    nonnegative: bool = False
    blanks: frozenset[tuple[Var, int]] = frozenset()


Growths = Mapping[str, Growth]


def direction(scalar: Scalar, known: Growths) -> int | None:
    """UP if it never falls as the key grows, DOWN if it never rises, FLAT if it ignores it; else None."""
    match scalar:
        case Var(name):
            return known[name].direction if name in known else FLAT
        case Const():
            return FLAT
        case Call("+", (a, b)):
            return _together(direction(a, known), direction(b, known))
        case Call("-", (a, b)):
            return _together(direction(a, known), _turned(direction(b, known)))
        case Call("neg", (a,)):
            return _turned(direction(a, known))
        case Call("*", (Const(int() | float() as c), a)) | Call("*" | "/", (a, Const(int() | float() as c))):
            way = direction(a, known)
            return None if not isfinite(c) else way if c >= 0 else _turned(way)
        case Call("cast", (a,)) if a.type.is_numeric and scalar.type.is_numeric:
            return direction(a, known)
        case _:
            return FLAT if not any(_moves(v, known) for v in variables(scalar)) else None


def _moves(var: Var, known: Growths) -> bool:
    return var.name in known and known[var.name].direction != FLAT


def _turned(way: int | None) -> int | None:
    return None if way is None else -way


def _together(*ways: int | None) -> int | None:
    moving = {way for way in ways if way != FLAT}
    return FLAT if not moving else moving.pop() if len(moving) == 1 else None


def condition_growth(condition: Scalar, known: Growths) -> int | None:
    """UP if the condition, once true, stays true as the key grows; DOWN if, once false, it stays false."""
    match condition:
        case Call("<" | "<=", (a, b)):
            return _together(_turned(direction(a, known)), direction(b, known))
        case Call(">" | ">=", (a, b)):
            return _together(direction(a, known), _turned(direction(b, known)))
        case Call("<>", (Var(name) as total, Const(0))) if name in known and known[name].nonnegative:
            return direction(total, known)
        case Call("and" | "or", parts) if not _blanks(condition, known):
            return _together(*(condition_growth(part, known) for part in parts))
        case Call("is_true", (inner,)) if not _blanks(condition, known):
            return condition_growth(inner, known)
        case Call("not", (Call("is_true", (inner,)),)) if not _blanks(condition, known):
            return _turned(condition_growth(inner, known))
        case _:
            return direction(condition, known)


def _blanks(scalar: Scalar, known: Growths) -> frozenset[tuple[Var, int]]:
    return frozenset().union(*(known[v.name].blanks for v in variables(scalar) if v.name in known))


def monotone_parts(condition: Scalar, known: Growths) -> list[tuple[int, Scalar]] | None:
    """Conditions with the way each grows, all TRUE exactly where ``condition`` is; else ``None``.

    ``a = b  ->  a <= b, a >= b``

    ``c  ->  c OR x IS NULL, x IS NOT NULL``, with x a nested extremum that is NULL at the end where c holds
    """
    match condition:
        case Call("=" | "==" as op, (a, b)) if op == "=" or not (nullable(a) and nullable(b)):
            halves: Iterable[Scalar] = (call("<=", a, b), call(">=", a, b))
        case Call("and", parts):
            halves = parts
        case _:
            halves = (condition,)
    found: list[tuple[int, Scalar]] = []
    for half in halves:
        way = condition_growth(half, known)
        if way is None:
            return None
        against = [(x, grown) for x, grown in _blanks(half, known) if way and grown != way]
        if against and not (isinstance(half, Call) and half.op in COMPARISONS):
            return None
        missing = [Call("is_null", (x,), BOOLEAN) for x, _ in against]
        found.append((way, call("or", half, *missing)))
        found += [(grown, call("not", gone)) for (_, grown), gone in zip(against, missing, strict=True)]
    return found


def support_growth(query: Query, key: str) -> Growth | None:
    """How the set of entries that a nested query sums grows with a key."""
    directions: set[int] = set()
    needs: set[str] = set()
    for term in query:
        found = growths(term.factors, key)
        if found is None or term.coefficient < 0:
            return None
        for factor in term.factors:
            match factor:
                case MapRef(name, keys):
                    if Var(key) in keys:
                        return None
                    needs.add(name)
                case Cond(scalar):
                    parts = monotone_parts(scalar, found)
                    if parts is None:
                        return None
                    directions |= {way for way, _ in parts}
                case Lift() | Let() | Extremum():
                    needs |= found[factor.var.name].needs if factor.var.name in found else frozenset()
                case _:
                    return None
    directions.discard(FLAT)
    if len(directions) > 1:
        return None
    return Growth(directions.pop() if directions else FLAT, frozenset(needs))


def growths(factors: tuple[Factor, ...], key: str) -> dict[str, Growth] | None:
    """How every variable that depends on the key changes with it; ``None`` where one is unknown."""
    known = {key: Growth(UP)}
    for factor in factors:
        if not isinstance(factor, Lift | Let | Extremum):
            continue
        if not any(v.name in known for v in factor_variables(factor) if v != factor.var):
            continue
        grows = _growth_of(factor, known, key)
        if grows is None:
            return None
        known[factor.var.name] = grows
    return known


def _growth_of(factor: Lift | Let | Extremum, known: Growths, key: str) -> Growth | None:
    match factor:
        case Let(_, scalar):
            way = direction(scalar, known)
            used = [known[v.name].needs for v in variables(scalar) if v.name in known]
            blanks = _blanks(scalar, known)
            return None if way is None else Growth(way, frozenset().union(*used), blanks=blanks)
        case Lift(_, keys) | Extremum(_, _, _, keys):
            if any(k.name in known and k.name != key for k in keys):
                return None
            support = support_growth(factor.query, key)
            if support is None:
                return None
            if isinstance(factor, Lift):
                return Growth(support.direction, support.needs, nonnegative=True)
            way = support.direction if factor.op == "max" else -support.direction
            return Growth(
                way, support.needs, blanks=frozenset({(factor.var, support.direction)} if way else ())
            )


@dataclass(frozen=True, slots=True)
class Search:
    """A sum over one map, along one key, under conditions that cut an interval out of it.

    ``rising`` conditions hold from some key on, ``falling`` ones up to some key, ``flat`` ones do not depend
    on it; ``dependents`` compute what the conditions read. Valid while no map of ``needs`` is negative.
    """

    atom: MapRef
    key: Var
    dependents: tuple[Factor, ...]
    rising: tuple[Scalar, ...]
    falling: tuple[Scalar, ...]
    flat: tuple[Factor, ...]
    needs: frozenset[str]


def as_search(term: Term, bound: frozenset[str]) -> Search | None:
    """The term as a search, if it is one map with one unbound key and monotone conditions on that key."""
    atom = only_map(term)
    if atom is None:
        return None
    free = unbound_keys(atom, bound)
    found = interval(term, atom, free[0]) if len(free) == 1 else None
    return found if found is not None and (found.rising or found.falling) else None


def only_map(term: Term) -> MapRef | None:
    """The one map of a term in which all else is conditions, lets and nested factors that bind a value."""
    atoms = [f for f in term.factors if isinstance(f, MapRef)]
    others = [f for f in term.factors if not isinstance(f, MapRef)]
    if len(atoms) != 1 or any(not isinstance(f, Cond | Let | Lift | Extremum) for f in others):
        return None
    return atoms[0]


def unbound_keys(atom: MapRef, bound: frozenset[str]) -> list[Var]:
    """The keys of a map reference that are not known beforehand, as often as they occur."""
    return [k for k in atom.keys if isinstance(k, Var) and k.name not in bound and not k.name.startswith("@")]


def interval(term: Term, atom: MapRef, key: Var) -> Search | None:
    """The interval of ``key`` that the conditions of a term cut out, if all of them are monotone in it.

    A key that the term itself binds is no interval but a point: ``M[p] * (p := x)`` is a lookup.
    """
    if any(isinstance(f, Let | Lift | Extremum) and f.var == key for f in term.factors):
        return None
    found = growths(term.factors, key.name)
    if found is None:
        return None
    ways: dict[int, list[Scalar]] = {UP: [], DOWN: []}
    flat: list[Factor] = []
    needs: set[str] = set()
    for factor in term.factors:
        names = {v.name for v in factor_variables(factor)} & found.keys()
        if isinstance(factor, Cond) and names:
            parts = monotone_parts(factor.scalar, found)
            if parts is None or any(not way for way, _ in parts):
                return None
            for way, part in parts:
                ways[way].append(part)
            needs |= frozenset().union(*(found[name].needs for name in names))
        elif isinstance(factor, Cond) or (
            isinstance(factor, Let | Lift | Extremum) and factor.var.name not in found
        ):
            flat.append(factor)
    dependents = tuple(
        f for f in term.factors if isinstance(f, Let | Lift | Extremum) and f.var.name in found
    )
    return Search(atom, key, dependents, tuple(ways[UP]), tuple(ways[DOWN]), tuple(flat), frozenset(needs))
