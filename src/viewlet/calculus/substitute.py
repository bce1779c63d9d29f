"""Replace variables in factors, with respect for the scopes of nested queries."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from viewlet.calculus.nodes import (
    Argument,
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
    factor_variables,
    is_parameter,
    product,
)
from viewlet.core.names import Names
from viewlet.core.scalar import Const, Scalar, Var, call
from viewlet.core.scalar import substitute as substitute_scalar
from viewlet.errors import CalculusError

Replacement = Mapping[str, Scalar]


def substitute_query(query: Query, by: Replacement) -> Query:
    """Replace variables throughout; terms that become zero disappear."""
    return tuple(new for term in query for new in substitute_term(term, by))


def substitute_term(term: Term, by: Replacement) -> Query:
    """Replace variables in one term; the result is one term or none."""
    if not by:
        return (term,)
    return product(*[substitute_factor(f, by) for f in term.factors], coefficient=term.coefficient)


def substitute_factor(factor: Factor, by: Replacement) -> Factor:
    """Replace variables in one factor; into a nested query only members of its keys are carried.

    A factor that has none of them comes back as it is, the same object.
    """
    for var in factor_variables(factor):
        if var.name in by:
            break
    else:
        return factor
    match factor:
        case Rel(table, binds):
            return Rel(table, tuple([(column, _argument(arg, by)) for column, arg in binds]))
        case Delta(table, binds, absolute):
            return Delta(table, tuple((column, _argument(arg, by)) for column, arg in binds), absolute)
        case MapRef(name, keys, type_):
            return MapRef(name, tuple(_argument(key, by) for key in keys), type_)
        case Cond(scalar):
            return Cond(substitute_scalar(scalar, by))
        case Value(scalar):
            return Value(substitute_scalar(scalar, by))
        case Let(var, scalar):
            target, meaning = by.get(var.name, var), substitute_scalar(scalar, by)
            return Let(target, meaning) if isinstance(target, Var) else Cond(call("==", target, meaning))
        case Lift(var):
            keys, query = _nested(factor, by)
            return Lift(_variable(var, by), keys, query)
        case Extremum(var):
            keys, query = _nested(factor, by)
            return replace(factor, var=_variable(var, by), keys=keys, query=query)
        case Exists():
            keys, query = _nested(factor, by)
            return replace(factor, keys=keys, query=query)


def _nested(factor: Lift | Extremum | Exists, by: Replacement) -> tuple[tuple[Var, ...], Query]:
    inner = {key.name: by[key.name] for key in factor.keys if key.name in by}
    if not inner:
        return factor.keys, factor.query
    keys: dict[str, Var] = {}
    for key in factor.keys:
        target = inner.get(key.name, key)
        if isinstance(target, Var):
            keys.setdefault(target.name, target)
    if isinstance(factor, Exists) and not factor.negated:
        inner = _for_its_rows(factor, inner)
    return tuple(keys.values()), substitute_query(factor.query, inner)


def _for_its_rows(factor: Exists, by: dict[str, Scalar]) -> dict[str, Scalar]:
    """The same replacement for the rows that E is over, before its conditions are known to hold.

    ``x`` is not NULL outside of ``E<x>(r(a: x) * {not is_null(x)})``, and for that the condition must stay.
    """
    sure = {name for name, new in by.items() if isinstance(new, Var) and not new.nullable}
    if not sure:
        return by
    unsure = {var.name for var in _inside(factor) if var.nullable} & sure
    return by | {name: Var(new.name, new.type, True) for name in unsure if isinstance(new := by[name], Var)}


def _argument(argument: Argument, by: Replacement) -> Argument:
    if isinstance(argument, Const) or argument.name not in by:
        return argument
    new = by[argument.name]
    if not isinstance(new, Var | Const):
        raise CalculusError(f"{argument.name} stands in an atom and cannot become the expression {new}")
    return new


def _variable(var: Var, by: Replacement) -> Var:
    new = by.get(var.name, var)
    if not isinstance(new, Var):
        raise CalculusError(f"{var.name} is bound here and cannot become {new}")
    return new


def local_variables(query: Query, keys: Iterable[Var]) -> dict[str, Var]:
    """The variables of a query's own scope that are not shared with its surroundings.

    One that may be NULL anywhere may be NULL: elsewhere it is not because of a condition over it there.
    """
    shared = {key.name for key in keys}
    found: dict[str, Var] = {}
    for var in (var for term in query for factor in term.factors for var in seen_within(factor)):
        if var.name not in shared and not is_parameter(var) and (var.nullable or var.name not in found):
            found[var.name] = var
    return found


def seen_within(factor: Factor) -> Iterator[Var]:
    """The variables that a factor shares; those that E binds as its own query sees them."""
    yield from factor_variables(factor)
    if isinstance(factor, Exists) and not factor.negated:
        yield from _inside(factor)


def _inside(factor: Exists) -> Iterator[Var]:
    """The keys of E wherever its own query has them."""
    shared = {key.name for key in factor.keys}
    return (
        var for term in factor.query for f in term.factors for var in seen_within(f) if var.name in shared
    )


def freshen(query: Query, keys: Iterable[Var], names: Names) -> Query:
    """Give every local variable, at every depth, a new name: a copy that can meet the original."""
    renaming = {
        name: Var(
            names.fresh(name.rsplit("_", 1)[0] if name[-1:].isdigit() else name), var.type, var.nullable
        )
        for name, var in local_variables(query, keys).items()
    }
    renamed = substitute_query(query, renaming)
    return tuple(Term(tuple(_freshen_nested(f, names) for f in t.factors), t.coefficient) for t in renamed)


def _freshen_nested(factor: Factor, names: Names) -> Factor:
    match factor:
        case Lift(keys=keys, query=query) | Exists(keys=keys, query=query):
            return replace(factor, query=freshen(query, keys, names))
        case Extremum(of=of, keys=keys, query=query):
            new = Var(names.fresh(of.name), of.type, of.nullable)
            inner = freshen(query, (*keys, of), names)
            return replace(factor, of=new, query=substitute_query(inner, {of.name: new}))
        case _:
            return factor
