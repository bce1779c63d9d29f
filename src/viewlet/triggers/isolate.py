"""Isolate sums along one key, so that an ordered index can answer them::

    M[k, q] * {q > c}  ->  (x := sum<k, c>(M[k, q] * {q > c})) * <x>          q needed nowhere else

    {a OR b}           ->  {a} + {b} - {a AND b}                              each a condition on q

Whatever the conditions on q compute from q (nested sums, lets) moves along. The rewrite never changes the
meaning; it pays where the conditions are monotone in q (``calculus/monotone.py``), and only then is it done.
"""

from __future__ import annotations

from collections.abc import Iterable

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
    Term,
    Value,
    add,
    factor_variables,
    is_parameter,
    product,
    term_variables,
)
from viewlet.calculus.schedule import binds_keys
from viewlet.core.names import Names
from viewlet.core.scalar import Call, Var, variables


def isolate_sums(query: Query, needed: Iterable[Var], names: Names) -> Query:
    """Isolate what can be searched, in every term and in the nested sums of every term."""
    wanted = frozenset(var.name for var in needed)
    return add(*(_isolate_term(term, wanted, names) for term in query))


def _isolate_term(term: Term, needed: frozenset[str], names: Names) -> Query:
    term = Term(tuple(_inside(f, names) for f in term.factors), term.coefficient)
    for atom in term.factors:
        if not isinstance(atom, MapRef):
            continue
        for key in atom.keys:
            if isinstance(key, Var) and key.name not in needed and not is_parameter(key):
                parted = _part(term, atom, key, needed)
                if parted is not None:
                    return _isolated(parted, needed, names)
    return (term,)


def _inside(factor: Factor, names: Names) -> Factor:
    match factor:
        case Lift(var, keys, query):
            given = frozenset(key.name for key in keys)
            if all(as_search(term, given) is not None for term in query):
                return factor
            return Lift(var, keys, isolate_sums(query, keys, names))
        case _:
            return factor


def _part(
    term: Term, atom: MapRef, key: Var, needed: frozenset[str]
) -> tuple[Term, list[Factor], list[Factor]] | None:
    """The term's factors that depend on the key, and the others; ``None`` where something else reads it."""
    inside: list[Factor] = [atom]
    local = {key.name}
    grown = True
    while grown:
        grown = False
        for factor in term.factors:
            if any(factor is f for f in inside) or not _mentions(factor, local):
                continue
            if isinstance(factor, Let | Lift) and factor.var.name not in needed:
                local.add(factor.var.name)
            elif not isinstance(factor, Cond):
                return None
            inside.append(factor)
            grown = True
    outside = [f for f in term.factors if not any(f is i for i in inside)]
    others = {k.name for k in atom.keys if isinstance(k, Var) and not is_parameter(k)} - {key.name}
    bound = {name for f in outside for name in _binds(f)}
    return (term, inside, outside) if others <= bound and len(inside) > 1 else None


def _binds(factor: Factor) -> set[str]:
    """The variables that a factor can bind by itself."""
    match factor:
        case MapRef() | Delta():
            return {v.name for v in factor_variables(factor)}
        case Let(var) | Lift(var) | Extremum(var):
            return {var.name}
        case Exists(negated=False) if binds_keys(factor, frozenset()):
            return {key.name for key in factor.keys}
        case _:
            return set()


def _mentions(factor: Factor, names: set[str]) -> bool:
    return any(v.name in names for v in factor_variables(factor))


def _isolated(parted: tuple[Term, list[Factor], list[Factor]], needed: frozenset[str], names: Names) -> Query:
    term, inside, outside = parted
    given = frozenset(name for f in outside for name in _binds(f))
    cases = _without_or(Term(tuple(inside)), given)
    if any(as_search(case, given) is None for case in cases):
        return (term,)
    results: list[Query] = []
    for case in cases:
        atom = next(f for f in case.factors if isinstance(f, MapRef))
        total = Var(names.fresh("x"), atom.type, False)
        keys = tuple(
            v for name, v in term_variables(case.factors).items() if name in given or is_parameter(v)
        )
        lift = Lift(total, keys, (Term(case.factors),))
        rest = product(*outside, lift, Value(total), coefficient=term.coefficient * case.coefficient)
        results.extend(_isolate_term(new, needed, names) for new in rest)
    return add(*results)


def _without_or(term: Term, given: frozenset[str]) -> list[Term]:
    """``{a OR b} -> {a} + {b} - {a AND b}``, for the first disjunction over two conditions."""
    for factor in term.factors:
        match factor:
            case Cond(Call("or", (a, b))) if any(v.name not in given for v in variables(factor.scalar)):
                rest = tuple(f for f in term.factors if f is not factor)
                both = (Cond(a), Cond(b))
                split = [
                    Term((*rest, both[0]), term.coefficient),
                    Term((*rest, both[1]), term.coefficient),
                    Term((*rest, *both), -term.coefficient),
                ]
                return [new for each in split for new in _without_or(each, given)]
    return [term]
