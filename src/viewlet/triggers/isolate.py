"""Isolate sums along one key, so that an ordered index can answer them::

    M[k, q] * {q > c}  ->  (x := sum<k, c>(M[k, q] * {q > c})) * <x>          q needed nowhere else

    {a OR b}           ->  {a} + {b} - {a AND b}                              each a condition on q

    E<c>(M[q] * {q > c})  ->  (x := sum<c>(M[q] * {q > c})) * {x <> 0}        N likewise, with {x = 0}

Whatever the conditions on q compute from q (nested sums, lets) moves along. Where M would be scanned and k is
a key of the result, the groups that exist are enumerated instead: ``E<k>(G[k])``, with G the row count of M's
body by k. The same is done with the levels of a k that is no key, where nested sums depend on both q and k.
The rewrite never changes the meaning; it pays where the conditions are monotone in q
(``calculus/monotone.py``), and only then is it done.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from viewlet.calculus.canonical import strip_values
from viewlet.calculus.crossing import is_crossing
from viewlet.calculus.monotone import as_search
from viewlet.calculus.nodes import (
    Cond,
    Delta,
    Exists,
    Extremum,
    Factor,
    Let,
    Lift,
    MapRef,
    Query,
    Rel,
    Term,
    Value,
    add,
    factor_variables,
    is_parameter,
    product,
    term_variables,
)
from viewlet.calculus.schedule import binds_keys
from viewlet.calculus.solve import computable, solve_equalities
from viewlet.core.names import Names
from viewlet.core.scalar import Call, Const, Var, call, conjuncts, variables
from viewlet.core.types import BIGINT
from viewlet.triggers.maps import MapRegistry


def isolate_sums(
    query: Query,
    needed: Iterable[Var],
    names: Names,
    maps: MapRegistry,
    bound: frozenset[str] = frozenset(),
) -> Query:
    """Isolate what can be searched, in every term and in the nested sums of every term.

    ``needed`` variables are read by whoever uses the query; ``bound`` ones are given by its surroundings.
    """
    scope = _Scope(frozenset(var.name for var in needed), bound, names, maps)
    return add(*(_isolate_term(term, scope) for term in query))


@dataclass(frozen=True, slots=True)
class _Scope:
    needed: frozenset[str]
    bound: frozenset[str]
    names: Names
    maps: MapRegistry


def _isolate_term(term: Term, scope: _Scope) -> Query:
    inner = (_inside(f, _bound_beside(f, term, scope), scope) for f in term.factors)
    term = Term(tuple(new for factors in inner for new in factors), term.coefficient)
    term = solve_equalities(term, scope.bound)
    told = scope.needed | computable(term.factors, scope.bound)
    places = [
        (atom, key)
        for atom in term.factors
        if isinstance(atom, MapRef)
        for key in atom.keys
        if isinstance(key, Var) and key.name not in told and not is_parameter(key)
    ]
    for atom, key in places:
        if (split := _split(term, atom, key, scope)) is not None:
            return _isolated(term, split, scope)
    if any(isinstance(f, Lift | Extremum) and f.keys for f in term.factors):
        for atom, key in sorted(places, key=lambda place: _column(place[0], place[1], scope.maps)):
            if (split := _split(term, atom, key, scope, levels=True)) is not None:
                return _isolated(term, split, scope)
    return (term,)


def _column(atom: MapRef, key: Var, maps: MapRegistry) -> int:
    """The place of a map's key among the columns of its table.

    Columns that identify rows or date them come first in a table, and those whose values repeat later: with
    nothing else known, the search goes along the former and the levels are those of the latter.
    """
    definition = maps.maps[atom.name]
    own = definition.keys[atom.keys.index(key)]
    return min(
        (
            [column.name for column in maps.catalog[f.table].columns].index(column)
            for term in definition.definition
            for f in term.factors
            if isinstance(f, Rel)
            for column, argument in f.binds
            if argument == own
        ),
        default=0,
    )


def _bound_beside(factor: Factor, term: Term, scope: _Scope) -> frozenset[str]:
    """The variables that the surroundings of a term or its other factors bind."""
    return scope.bound.union(*(_binds(other, scope.bound) for other in term.factors if other is not factor))


def _inside(factor: Factor, bound: frozenset[str], scope: _Scope) -> tuple[Factor, ...]:
    """Searches inside a nested factor; ``E<k>(Q) -> (n := sum<k>(Q)) * {n <> 0}`` for k bound beside it."""
    match factor:
        case Lift(var, keys, query):
            given = frozenset(key.name for key in keys)
            if all(as_search(term, given) is not None for term in query):
                return (factor,)
            return (Lift(var, keys, isolate_sums(query, keys, scope.names, scope.maps, given)),)
        case Exists(keys, (term,), negated) if all(k.name in bound or is_parameter(k) for k in keys):
            search = as_search(term, frozenset(key.name for key in keys))
            if search is None or search.atom.type != BIGINT:
                return (factor,)
            count = Var(scope.names.fresh("n"), BIGINT, False)
            return (Lift(count, keys, (term,)), Cond(call("=" if negated else "<>", count, Const(0))))
        case _:
            return (factor,)


@dataclass(frozen=True, slots=True)
class _Split:
    """What depends on the key, as one search per case; the rest; and keys that the rest does not bind."""

    cases: list[Term]
    outside: list[Factor]
    unbound: tuple[Var, ...]
    given: frozenset[str]


def _split(term: Term, atom: MapRef, key: Var, scope: _Scope, *, levels: bool = False) -> _Split | None:
    """Part a term along a key; ``None`` where something else reads the key, or nothing can be searched.

    With ``levels``, keys that nobody needs are gone through too, if nested sums depend on the searched one.
    """
    inside: list[Factor] = [atom]
    local = {key.name}
    grown = True
    while grown:
        grown = False
        for factor in term.factors:
            if any(factor is f for f in inside) or not _mentions(factor, local):
                continue
            if isinstance(factor, Let | Lift | Extremum) and factor.var.name not in scope.needed:
                local.add(factor.var.name)
            elif not isinstance(factor, Cond):
                return None
            inside.append(factor)
            grown = True
    if any(_tells(f, key, local) for f in inside):
        return None  # a lookup of the one value beats a search for it
    outside = [f for f in term.factors if not any(f is i for i in inside)]
    bound = scope.bound | {name for f in outside for name in _binds(f, scope.bound)}
    others = [k for k in atom.keys if isinstance(k, Var) and not is_parameter(k) and k != key]
    unbound = tuple(dict.fromkeys(k for k in others if k.name not in bound))
    if len(inside) == 1:
        return None
    sums = any(isinstance(f, Lift | Extremum) for f in inside)
    if not all(k.name in scope.needed for k in unbound) and not (levels and sums):
        return None
    if unbound and len(unbound) + 1 < len(atom.keys):
        return None  # some key is known: a slice of the map beats going through all groups
    if unbound and is_crossing(inside):
        return None  # the few entries that cross are visited themselves
    given = frozenset(bound | {k.name for k in unbound})
    cases = _without_or(Term(tuple(inside)), given)
    if any(as_search(case, given) is None for case in cases):
        return None
    return _Split(cases, outside, unbound, given)


def _tells(factor: Factor, key: Var, local: set[str]) -> bool:
    """Does an equality say what the key is, from what is known without it?"""
    match factor:
        case Cond(Call("==", (a, b))):
            pairs = ((a, b), (b, a))
            return any(x == key and not any(v.name in local for v in variables(e)) for x, e in pairs)
        case _:
            return False


def _binds(factor: Factor, bound: frozenset[str]) -> set[str]:
    """The variables that a factor can bind by itself, or from what is bound around it."""
    match factor:
        case MapRef() | Delta():
            return {v.name for v in factor_variables(factor)}
        case Let(var) | Lift(var) | Extremum(var):
            return {var.name}
        case Exists(negated=False) if binds_keys(factor, bound):
            return {key.name for key in factor.keys}
        case _:
            return set()


def _mentions(factor: Factor, names: set[str]) -> bool:
    return any(v.name in names for v in factor_variables(factor))


def _isolated(term: Term, split: _Split, scope: _Scope) -> Query:
    results: list[Query] = []
    for case in split.cases:
        atom = next(f for f in case.factors if isinstance(f, MapRef))
        total = Var(scope.names.fresh("x"), atom.type, False)
        shared = term_variables(case.factors).values()
        keys = tuple(v for v in shared if v.name in split.given or is_parameter(v))
        lift = Lift(total, keys, (Term(case.factors),))
        groups = _groups(atom, split.unbound, scope.maps)
        coefficient = term.coefficient * case.coefficient
        rest = product(*split.outside, *groups, lift, Value(total), coefficient=coefficient)
        results.extend(_isolate_term(new, scope) for new in rest)
    return add(*results)


def _groups(atom: MapRef, unbound: tuple[Var, ...], maps: MapRegistry) -> tuple[Factor, ...]:
    """``E<k>(G[k])``: the values of the unbound keys for which the map's body has a row."""
    if not unbound:
        return ()
    definition = maps.maps[atom.name]
    place = {argument: key for key, argument in zip(definition.keys, atom.keys, strict=True)}
    keys = tuple(place[argument] for argument in unbound)
    counted = maps.reference(keys, unbound, strip_values(definition.definition))
    return (Exists(unbound, (Term((counted,)),)),)


def _without_or(term: Term, given: frozenset[str]) -> list[Term]:
    """``{a OR b} -> {a} + {b} - {a AND b}``, for the first disjunction over two conditions."""
    for factor in term.factors:
        match factor:
            case Cond(Call("or", (a, b))) if any(v.name not in given for v in variables(factor.scalar)):
                rest = tuple(f for f in term.factors if f is not factor)
                one, other = (tuple(map(Cond, conjuncts(branch))) for branch in (a, b))
                split = [
                    Term((*rest, *one), term.coefficient),
                    Term((*rest, *other), term.coefficient),
                    Term((*rest, *one, *other), -term.coefficient),
                ]
                return [new for each in split for new in _without_or(each, given)]
    return [term]
