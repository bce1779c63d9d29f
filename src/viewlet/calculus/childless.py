"""Enforced foreign keys: no row refers to a row that comes or goes.

A child needs its parent, and a parent that has children stays. So when a row of P with key k appears or
disappears, no row of C refers to it, and whatever joins the change with such rows is nothing::

    dP(key: k, ..) * C(p: k, ..)              ->  0
    dP(key: k, ..) * E<k>(C(p: k, ..))        ->  0                       N  ->  1
    dP(key: k, ..) * (s := sum<k>(C(p: k)))   ->  dP(key: k, ..) * (s := 0)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from viewlet.calculus.events import Children
from viewlet.calculus.nodes import Argument, Exists, Extremum, Factor, Let, Lift, Query, Rel, product
from viewlet.core.scalar import Const


def without_children(changed: Sequence[Rel], factors: Iterable[Factor], children: Children) -> Query:
    """The product of what stands beside changed rows of a table that no row refers to; one term or none."""
    if not children:
        return product(*factors)
    kept: list[Factor] = []
    for factor in factors:
        match factor:
            case Rel() if _is_child(factor, changed, children):
                return ()
            case Lift(var, _, query) | Extremum(var, _, _, _, query):
                left = _left(query, changed, children)
                nothing = Const(0 if isinstance(factor, Lift) else None, var.type)
                kept.append(replace(factor, query=left) if left else Let(var, nothing))
            case Exists(_, query):
                kept.append(replace(factor, query=_left(query, changed, children)))
            case _:
                kept.append(factor)
    return product(*kept)


def _left(query: Query, changed: Sequence[Rel], children: Children) -> Query:
    """The terms of a nested query that do not go through children of changed rows."""
    return tuple(
        replace(new, coefficient=new.coefficient * term.coefficient)
        for term in query
        for new in without_children(changed, term.factors, children)
    )


def _is_child(atom: Rel, changed: Sequence[Rel], children: Children) -> bool:
    """Does an atom join one of the changed rows by a foreign key that refers to it?"""
    own = dict(atom.binds)
    return any(
        table == atom.table
        and all(
            _same(own.get(column), dict(parent.binds).get(other))
            for column, other in zip(key.columns, key.target_columns, strict=True)
        )
        for table, key in children
        for parent in changed
    )


def _same(left: Argument | None, right: Argument | None) -> bool:
    if left is None or right is None:
        return False
    if isinstance(left, Const) or isinstance(right, Const):
        return left == right
    return left.name == right.name
