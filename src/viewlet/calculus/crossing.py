"""Crossing: rows that pass a moving threshold change only where the threshold has passed them.

A term ``R * U * c1 * .. * cm`` compares its rows with values U that do not depend on the row: a total, an
average. With U' the values before the event and U those after it::

    d(R * U * c1 * .. * cm) =  d(R) * U * c1 * .. * cm
                             + sum over i of  R * U * U' * c'1 * .. * c'(i-1) * (ci - c'i) * c(i+1) * .. * cm
    ci - c'i                =  ci * {c'i is not TRUE}  -  c'i * {ci is not TRUE}

Each ``ci * {c'i is not TRUE}`` holds for an interval of the compared variable, between the old threshold and
the new one: an ordered index goes through the rows in it and no others. Where U = U' it is empty, and
``{U <> U'}`` says so beforehand: most events of a filtered total do not move it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from viewlet.calculus.delta import Affected, affected_by, delta_term
from viewlet.calculus.events import Event
from viewlet.calculus.monotone import DOWN, UP, Growth, monotone_parts
from viewlet.calculus.nodes import (
    Cond,
    Extremum,
    Factor,
    Let,
    Lift,
    Query,
    Term,
    add,
    factor_variables,
    product,
)
from viewlet.core.names import Names
from viewlet.core.scalar import Call, Scalar, Var, call, conjuncts, substitute, variables


def crosses(query: Query, keys: Iterable[Var], event: Event, names: Names) -> bool:
    """Is every value that an event changes for all rows a threshold that rows of the result cross?

    That is so if it is a sum that is compared, by monotone conditions, with one variable that the result
    shows or that belongs to a group it shows: then rows of the result come and go one by one. Where the
    variable is summed out, a sum over an interval does better: it needs no look at the rows that cross. Where
    it must equal the threshold, so does a lookup of the rows that do. Where the result shows the threshold
    itself, every row of the result changes with it.
    """
    shown = {key.name for key in keys}
    for term in query:
        moved = _moved(term, event, names)
        if moved and not _is_threshold(term, moved, shown):
            return False
    return True


def moves(query: Query, event: Event, names: Names) -> bool:
    """Can an event change a nested value whatever the row is?"""
    return any(_moved(term, event, names) for term in query)


def _moved(term: Term, event: Event, names: Names) -> list[Affected]:
    """The nested factors that an event can change whatever the row is."""
    affected = (affected_by(factor, event, names) for factor in term.factors)
    return [a for a in affected if a is not None and a.domain is None]


def _is_threshold(term: Term, moved: list[Affected], shown: set[str]) -> bool:
    if not all(isinstance(a.old, Lift) and not a.old.keys for a in moved):
        return False
    moving = _moving(term, moved)
    if moving & shown:
        return False
    shown = shown | {v.name for f in term.factors if _copies(f, shown) for v in factor_variables(f)}
    shown |= {f.var.name for f in term.factors if isinstance(f, Lift | Extremum) and _is_told(f, shown)}
    compared = False
    for factor in term.factors:
        names = {v.name for v in factor_variables(factor)}
        if not names & moving or (isinstance(factor, Let | Lift) and factor.var.name in moving):
            continue
        rows = names - moving
        if not isinstance(factor, Cond) or len(rows) > 1 or not rows <= shown:
            return False
        parts = monotone_parts(factor.scalar, {name: Growth(UP) for name in rows})
        if parts is None or (rows and [way for way, _ in parts] not in ([UP], [DOWN])):
            return False
        compared = compared or bool(rows)
    return compared


def _copies(factor: Factor, shown: set[str]) -> bool:
    """Is it ``k := x`` with k shown, so that x is shown too?"""
    return isinstance(factor, Let) and factor.var.name in shown and isinstance(factor.scalar, Var)


def _is_told(factor: Lift | Extremum, shown: set[str]) -> bool:
    """Is it a value of the group that the result shows?"""
    return bool(factor.keys) and {key.name for key in factor.keys} <= shown


def _moving(term: Term, moved: list[Affected]) -> set[str]:
    """The variables of the values that move, and of what lets compute from them alone."""
    moving = {a.old.var.name for a in moved if isinstance(a.old, Lift)}
    while True:
        more = {
            f.var.name
            for f in term.factors
            if isinstance(f, Let) and (names := {v.name for v in variables(f.scalar)}) and names <= moving
        }
        if more <= moving:
            return moving
        moving |= more


def crossing_delta(query: Query, event: Event, names: Names) -> Query:
    """The change of a query whose unrestricted nested values are thresholds (:func:`crosses`)."""
    return add(*(_term_delta(term, event, names) for term in query))


def _term_delta(term: Term, event: Event, names: Names) -> Query:
    totals = Term(tuple(f for f in term.factors if isinstance(f, Lift) and not f.keys))
    moved = _moved(totals, event, names)
    if not moved:
        return delta_term(term, event, names)
    moving = _moving(term, moved)
    becomes = {id(a.old): a.new for a in moved}
    values = [f for f in term.factors if isinstance(f, Let | Lift) and f.var.name in moving]
    conditions = [
        f.scalar
        for f in term.factors
        if isinstance(f, Cond) and any(v.name in moving for v in variables(f.scalar))
    ]
    rest = tuple(
        f for f in term.factors if f not in values and not (isinstance(f, Cond) and f.scalar in conditions)
    )
    new = [becomes.get(id(f), f) for f in values]
    before = {f.var.name: Var(names.fresh(f.var.name), f.var.type, f.var.nullable) for f in values}
    old = [_renamed(f, before) for f in values]
    result = [
        product(*f.factors, *new, *map(Cond, conditions), coefficient=f.coefficient)
        for f in delta_term(Term(rest, term.coefficient), event, names)
    ]
    sums = [f.var for f in values if id(f) in becomes]
    has_moved = Cond(call("or", *(call("<>", var, before[var.name]) for var in sums)))
    conditions = _with_flat(conditions, moving)
    was = [substitute(condition, before) for condition in conditions]
    for i, (now, then) in enumerate(zip(conditions, was, strict=True)):
        around = [*rest, *new, *old, has_moved, *_each(was[:i]), *_each(conditions[i + 1 :])]
        result.append(product(*around, *_each([now]), _fails(then), coefficient=term.coefficient))
        result.append(product(*around, *_each([then]), _fails(now), coefficient=-term.coefficient))
    return add(*result)


def _with_flat(conditions: list[Scalar], moving: set[str]) -> list[Scalar]:
    """Conditions on the values alone ("there are rows") go with the first one that cuts among rows."""
    flat = [c for c in conditions if all(v.name in moving for v in variables(c))]
    first, *others = [c for c in conditions if c not in flat]
    return [call("and", *flat, first), *others]


def _each(conditions: Iterable[Scalar]) -> list[Cond]:
    return [Cond(part) for condition in conditions for part in conjuncts(condition)]


def is_crossing(factors: Iterable[Factor]) -> bool:
    """Do the factors hold only between an old and a new threshold, as those of the terms made here do?"""
    return any(isinstance(f, Cond) and _has_failed(f.scalar) for f in factors)


def _has_failed(condition: Scalar) -> bool:
    match condition:
        case Call("not", (Call("is_true"),)):
            return True
        case _:
            return False


def _fails(condition: Scalar) -> Cond:
    return Cond(call("not", call("is_true", condition)))


def _renamed(factor: Let | Lift, names: Mapping[str, Var]) -> Let | Lift:
    var = names[factor.var.name]
    if isinstance(factor, Let):
        return Let(var, substitute(factor.scalar, names))
    return replace(factor, var=var)
