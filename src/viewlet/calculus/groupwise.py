"""Groupwise extrema: rows of a table that no other row of their group exceeds.

A row is one of its own group. So the group has a greatest p, and what none exceeds has just that::

    R(k, p) * N<k, p>(R(k, q) * {q > p})  =  R(k, p) * (m := max q<k>(R(k, q))) * {p = m}
    R(k, p) * E<k, p>(R(k, q) * {q > p})  =  R(k, p) - R(k, p) * (m := max q<k>(R(k, q))) * {p = m}

and the least likewise, of the q that are not NULL. The left side has to ask every row of a group again when
one comes or goes; the right side looks up the rows at the old and at the new maximum.

With conditions t that the nested query sets on k, and with ``{p not NULL}`` where p may be NULL::

    R * N<k, p>(R(k, q) * t(k) * {q > p})  =  R * {not t(k)} + R * t(k) * (m := max q<k>(R(k, q))) * {p = m}

``p >= ALL (q)`` holds where no ``q > p`` is TRUE or NULL: there must be no NULL besides, neither p nor a q::

    R * N<k, p>(R(k, q) * {(q > p) is not FALSE})
        =  R * {p not NULL} * N<k>(R(k, q) * {q is NULL}) * (m := max q<k>(R(k, q))) * {p = m}

Further conditions on its own rows are no obstacle where the row itself is known to meet them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from operator import is_
from typing import Literal

from viewlet.calculus.conditions import condition_factors
from viewlet.calculus.nodes import (
    Argument,
    Cond,
    Exists,
    Extremum,
    Factor,
    Lift,
    Query,
    Rel,
    Term,
    product,
    term_variables,
    times,
)
from viewlet.calculus.substitute import substitute_query
from viewlet.core.names import Names
from viewlet.core.scalar import Call, Scalar, Var, call, substitute, variables


def groupwise_extrema(query: Query, names: Names) -> Query:
    """Replace each ``E`` and ``N`` over rows that exceed the row beside it, at every depth.

    >>> from viewlet.calculus.text import show_query
    >>> from viewlet.core.types import BIGINT
    >>> k, p, q = (Var(name, BIGINT, False) for name in "kpq")
    >>> beyond = product(Rel("R", (("k", k), ("p", q))), Cond(call(">", q, p)))
    >>> row, none = Rel("R", (("k", k), ("p", p))), Exists((k, p), beyond, negated=True)
    >>> print(show_query(groupwise_extrema(product(row, none), Names(frozenset("kpq")))))
    R(k: k, p: p) * (best := max q_2<k>(R(k: k, p: q_2))) * {p == best}
    """
    return tuple(new for term in query for new in _in_term(term, names))


def _in_term(term: Term, names: Names) -> Query:
    """Where it takes two terms, only the first ``E`` or ``N`` is replaced: n of them would make 2^n."""
    inside = tuple(_inside(factor, names) for factor in term.factors)
    term = term if all(map(is_, inside, term.factors)) else replace(term, factors=inside)
    split = False
    terms = [term]
    for factor in term.factors:
        if not isinstance(factor, Exists):
            continue
        found = _as_groupwise(factor, term, names)
        if found is None or (split and found.splits):
            continue
        split = split or found.splits
        terms = [new for each in terms for new in _replaced(each, factor, found)]
    return tuple(terms)


def _inside(factor: Factor, names: Names) -> Factor:
    if not isinstance(factor, Lift | Extremum | Exists):
        return factor
    inner = groupwise_extrema(factor.query, names)
    same = len(inner) == len(factor.query) and all(map(is_, inner, factor.query))
    return factor if same else replace(factor, query=inner)


@dataclass(frozen=True, slots=True)
class _Groupwise:
    """The extremum of a group, what holds of a row that has it, and without what the group is empty."""

    best: Extremum
    has: tuple[Factor, ...]
    given: tuple[Scalar, ...]
    negated: bool

    @property
    def splits(self) -> bool:
        """Does it take two terms?"""
        return bool(self.given) or not self.negated


def _replaced(term: Term, exists: Exists, found: _Groupwise) -> Query:
    rest = tuple(f for f in term.factors if f is not exists)
    given = tuple(map(Cond, found.given))
    best = Term((*rest, *given, found.best, *found.has), term.coefficient)
    if not found.negated:
        return (Term((*rest, *given), term.coefficient), replace(best, coefficient=-term.coefficient))
    if not found.given:
        return (best,)
    fails = Cond(call("not", call("is_true", call("and", *found.given))))
    return (Term((*rest, fails), term.coefficient), best)


def _as_groupwise(exists: Exists, term: Term, names: Names) -> _Groupwise | None:
    if len(exists.query) != 1:
        return None
    (inner,) = exists.query
    atoms = [f for f in inner.factors if isinstance(f, Rel)]
    conditions = [f.scalar for f in inner.factors if isinstance(f, Cond)]
    if len(atoms) != 1 or len(conditions) + 1 != len(inner.factors):
        return None
    for row in (f for f in term.factors if isinstance(f, Rel) and f.table == atoms[0].table):
        itself = _itself(atoms[0], row, frozenset(key.name for key in exists.keys))
        for condition in conditions if itself is not None else ():
            exceeds = _exceeds(condition, itself or {})
            if exceeds is not None:
                others = [other for other in conditions if other is not condition]
                return _over(exists, atoms[0], others, exceeds, itself or {}, term, names)
    return None


def _itself(atom: Rel, row: Rel, keys: frozenset[str]) -> dict[str, Argument] | None:
    """What the columns of a nested table are in the row beside it; ``None`` where it is none of the group."""
    own, meaning = dict(row.binds), dict[str, Argument]()
    for column, argument in atom.binds:
        if isinstance(argument, Var) and argument.name not in keys:
            if column not in own or meaning.setdefault(argument.name, own[column]) != own[column]:
                return None
        elif own.get(column) != argument:
            return None
    return meaning


@dataclass(frozen=True, slots=True)
class _Exceeds:
    """``q op p``, with q the column of the nested table that p is in the row; ``unknown`` if NULL counts."""

    op: Literal[">", "<"]
    q: Var
    p: Var
    unknown: bool = False


def _exceeds(condition: Scalar, itself: Mapping[str, Argument]) -> _Exceeds | None:
    match condition:
        case Call("not", (Call("is_true", (Call("not", (compared,)),)),)):
            found = _exceeds(compared, itself)
            return None if found is None or found.unknown else replace(found, unknown=True)
        case Call(">" | "<" as op, (Var() as q, Var() as p)) if itself.get(q.name) == p:
            return _Exceeds(op, q, p)
        case Call(">" | "<" as op, (Var() as p, Var() as q)) if itself.get(q.name) == p:
            return _Exceeds("<" if op == ">" else ">", q, p)
        case _:
            return None


def _over(
    exists: Exists,
    atom: Rel,
    others: list[Scalar],
    exceeds: _Exceeds,
    itself: Mapping[str, Argument],
    term: Term,
    names: Names,
) -> _Groupwise | None:
    """The extremum of q in the group, if the row meets the other conditions, or all of the group does."""
    known = {f.scalar for f in term.factors if isinstance(f, Cond)}
    on_rows = [c for c in others if any(v.name in itself for v in variables(c))]
    if any(substitute(c, itself) not in known for c in on_rows) or (exceeds.unknown and not exists.negated):
        return None
    given = tuple(c for c in others if c not in on_rows and c not in known)
    of, rows, keys = _group(exists, product(atom, *map(Cond, on_rows)), exceeds.q, names)
    known_rows = times(rows, product(*map(Cond, _known(of))))
    best = Var(names.fresh("best"), of.type, True)
    has: tuple[Factor, ...] = tuple(condition_factors(call("=", exceeds.p, best)))
    there = _known(exceeds.p)
    if exceeds.unknown:
        null, own, _ = _group(exists, rows, of, names)
        nulls = Exists(keys, times(own, product(Cond(call("is_null", null)))), negated=True)
        has = (*map(Cond, there), nulls, *has)
    else:
        given = (*given, *there)
    extremum = Extremum(best, "max" if exceeds.op == ">" else "min", of, keys, known_rows)
    return _Groupwise(extremum, has, given, exists.negated)


def _known(value: Var) -> tuple[Scalar, ...]:
    """``{v not NULL}``, unless it goes without saying."""
    return (call("not", call("is_null", value)),) if value.nullable else ()


def _group(exists: Exists, rows: Query, q: Var, names: Names) -> tuple[Var, Query, tuple[Var, ...]]:
    """The rows of the group with a q of their own, which may be NULL, and the keys that they share."""
    own = Var(names.fresh(q.name), q.type, q.nullable)
    renamed = substitute_query(rows, {q.name: own})
    present = {name for term in renamed for name in term_variables(term.factors)}
    return own, renamed, tuple(key for key in exists.keys if key.name in present)
