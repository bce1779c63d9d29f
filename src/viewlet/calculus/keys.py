"""Primary keys: where they make a nested query linear, and where they bound the size of a join.

A table holds at most one row per key, so a nested ``E`` whose tables are all found by their keys is 0 or 1
already and needs no counting::

    E<k>(R(key: k, v: x) * {x > 0})  ->  R(key: k, v: x) * {x > 0}
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from viewlet.calculus.nodes import (
    Cond,
    Exists,
    Extremum,
    Factor,
    Let,
    Lift,
    Query,
    Rel,
    Term,
    factor_variables,
    is_parameter,
    product,
)
from viewlet.calculus.substitute import freshen
from viewlet.core.names import Names
from viewlet.core.scalar import Const, variables
from viewlet.sql.catalog import Catalog, Table


def inline_keyed_exists(query: Query, catalog: Catalog, names: Names) -> Query:
    """Replace every ``E`` that primary keys make 0 or 1 by its term, at every depth."""
    return tuple(new for term in query for new in _inline_term(term, catalog, names))


def _inline_term(term: Term, catalog: Catalog, names: Names) -> Query:
    factors: list[Factor] = []
    for factor in term.factors:
        match factor:
            case Lift(var, keys, query):
                factors.append(Lift(var, keys, inline_keyed_exists(query, catalog, names)))
            case Extremum(var, op, of, keys, query):
                factors.append(Extremum(var, op, of, keys, inline_keyed_exists(query, catalog, names)))
            case Exists(keys, query, negated):
                inner = Exists(keys, inline_keyed_exists(query, catalog, names), negated)
                factors.extend(_inline_exists(inner, catalog, names))
            case _:
                factors.append(factor)
    return product(*factors, coefficient=term.coefficient)


def _inline_exists(factor: Exists, catalog: Catalog, names: Names) -> tuple[Factor, ...]:
    if factor.negated or len(factor.query) != 1:
        return (factor,)
    (term,) = factor.query
    known = {key.name for key in factor.keys}
    if not all(isinstance(f, Rel | Cond | Let) for f in term.factors):
        return (factor,)
    if not determined(term.factors, known, catalog):
        return (factor,)
    (fresh,) = freshen((Term(term.factors),), factor.keys, names)
    return fresh.factors


def determined(factors: Iterable[Factor], known: set[str], tables: Mapping[str, Table]) -> bool:
    """Do the known variables find each table's row by its primary key, one after the other?"""
    return not _follow(factors, known, tables)[1]


def decided(factors: Iterable[Factor], known: set[str], tables: Mapping[str, Table]) -> set[str]:
    """The known variables, and those that have one value for each of theirs."""
    return _follow(factors, known, tables)[0]


def _follow(
    factors: Iterable[Factor], known: set[str], tables: Mapping[str, Table]
) -> tuple[set[str], list[Rel]]:
    """What the known variables decide, and the tables that they find no single row in."""
    known = set(known)
    pending = [f for f in factors if isinstance(f, Rel)]
    lets = [f for f in factors if isinstance(f, Let)]
    while True:
        for let in lets:
            if all(v.name in known or is_parameter(v) for v in variables(let.scalar)):
                known.add(let.var.name)
        found = [atom for atom in pending if _is_found(atom, known, tables)]
        if not found:
            return known, pending
        for atom in found:
            pending.remove(atom)
            known |= {v.name for v in factor_variables(atom)}


def _is_found(atom: Rel, known: set[str], tables: Mapping[str, Table]) -> bool:
    key = tables[atom.table].key
    arguments = dict(atom.binds)
    if not key or not all(column in arguments for column in key):
        return False
    return all(
        isinstance(arguments[column], Const) or arguments[column].name in known  # type: ignore[union-attr]
        for column in key
    )
