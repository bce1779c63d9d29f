"""Monotone conditions: does a condition, as one key grows, hold first and then fail, or the other way round?

If every condition on a key is of that kind, the keys that satisfy them all form an interval, and a sum over
them is a difference of two prefix sums: logarithmic in an ordered index, whatever the condition computes.

A nested sum over ``{q <= p}`` grows with p, one over ``{q > p}`` shrinks, as long as what it sums is nowhere
negative. That cannot be known beforehand, so the maps on which it depends are reported, and whoever searches
looks at their signs first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from viewlet.calculus.nodes import Cond, Factor, Let, Lift, MapRef, Term, factor_variables
from viewlet.core.scalar import Call, Const, Scalar, Var, variables

UP, FLAT, DOWN = 1, 0, -1
Directions = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Growth:
    """How something changes with a key, and which maps must not hold negative values for that to be true."""

    direction: int
    needs: frozenset[str] = frozenset()


def direction(scalar: Scalar, known: Directions) -> int | None:
    """UP if it never falls as the key grows, DOWN if it never rises, FLAT if it ignores it; else None."""
    match scalar:
        case Var(name):
            return known.get(name, FLAT)
        case Const():
            return FLAT
        case Call("+", (a, b)):
            return _together(direction(a, known), direction(b, known))
        case Call("-", (a, b)):
            return _together(direction(a, known), _turned(direction(b, known)))
        case Call("neg", (a,)):
            return _turned(direction(a, known))
        case Call("*", (Const(int(c)), a)) | Call("*", (a, Const(int(c)))) | Call("/", (a, Const(int(c)))):
            return direction(a, known) if c >= 0 else _turned(direction(a, known))
        case Call("cast", (a,)) if a.type.is_numeric and scalar.type.is_numeric:
            return direction(a, known)
        case _:
            return FLAT if all(known.get(v.name, FLAT) == FLAT for v in variables(scalar)) else None


def _turned(way: int | None) -> int | None:
    return None if way is None else -way


def _together(a: int | None, b: int | None) -> int | None:
    if a is None or b is None:
        return None
    return a or b if not (a and b and a != b) else None


def condition_growth(condition: Scalar, known: Directions) -> int | None:
    """UP if the condition, once true, stays true as the key grows; DOWN if, once false, it stays false."""
    match condition:
        case Call("<" | "<=", (a, b)):
            return _together(_turned(direction(a, known)), direction(b, known))
        case Call(">" | ">=", (a, b)):
            return _together(direction(a, known), _turned(direction(b, known)))
        case Call("<>", (Var() as total, Const(0))):  # a sum of what is nowhere negative is 0 or above
            return direction(total, known)
        case _:
            return direction(condition, known)


def lift_growth(lift: Lift, key: str) -> Growth | None:
    """How a nested sum changes with one of its keys."""
    directions: set[int] = set()
    needs: set[str] = set()
    for term in lift.query:
        found = growths(term.factors, key)
        if found is None:
            return None
        for factor in term.factors:
            match factor:
                case MapRef(name, keys):
                    if Var(key) in keys:
                        return None
                    needs.add(name)
                case Cond(scalar):
                    way = condition_growth(scalar, {name: g.direction for name, g in found.items()})
                    if way is None:
                        return None
                    directions.add(way)
                case Lift() | Let():
                    needs |= found[factor.var.name].needs if factor.var.name in found else frozenset()
                case _:
                    return None
        if term.coefficient < 0:
            return None
    directions.discard(FLAT)
    if len(directions) > 1:
        return None
    return Growth(directions.pop() if directions else FLAT, frozenset(needs))


def growths(factors: tuple[Factor, ...], key: str) -> dict[str, Growth] | None:
    """How every variable that depends on the key changes with it; ``None`` where one is unknown."""
    known = {key: Growth(UP)}
    for factor in factors:
        if not isinstance(factor, Lift | Let):
            continue
        if not any(v.name in known for v in factor_variables(factor) if v != factor.var):
            continue
        grows = _growth_of(factor, known, key)
        if grows is None:
            return None
        known[factor.var.name] = grows
    return known


def _growth_of(factor: Lift | Let, known: Mapping[str, Growth], key: str) -> Growth | None:
    if isinstance(factor, Let):
        way = direction(factor.scalar, {name: g.direction for name, g in known.items()})
        used = [known[v.name].needs for v in variables(factor.scalar) if v.name in known]
        return None if way is None else Growth(way, frozenset().union(*used))
    others = [k for k in factor.keys if k.name in known and k.name != key]
    return None if others else lift_growth(factor, key)


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
    atoms = [f for f in term.factors if isinstance(f, MapRef)]
    if len(atoms) != 1 or any(not isinstance(f, MapRef | Cond | Let | Lift) for f in term.factors):
        return None
    free = [
        k for k in atoms[0].keys if isinstance(k, Var) and k.name not in bound and not k.name.startswith("@")
    ]
    if len(free) != 1:
        return None
    key = free[0]
    found = growths(term.factors, key.name)
    if found is None:
        return None
    ways: dict[int, list[Scalar]] = {UP: [], DOWN: []}
    flat: list[Factor] = []
    needs: set[str] = set()
    for factor in term.factors:
        names = {v.name for v in factor_variables(factor)} & found.keys()
        if isinstance(factor, Cond) and names:
            way = condition_growth(factor.scalar, {name: g.direction for name, g in found.items()})
            if not way:
                return None
            ways[way].append(factor.scalar)
            needs |= frozenset().union(*(found[name].needs for name in names))
        elif isinstance(factor, Cond) or (isinstance(factor, Let | Lift) and factor.var.name not in found):
            flat.append(factor)
    if not ways[UP] and not ways[DOWN]:
        return None
    dependents = tuple(f for f in term.factors if isinstance(f, Let | Lift) and f.var.name in found)
    return Search(
        atoms[0], key, dependents, tuple(ways[UP]), tuple(ways[DOWN]), tuple(flat), frozenset(needs)
    )
