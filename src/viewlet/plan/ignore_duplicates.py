"""Work on duplicates where nobody can tell them apart from single rows."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace

from viewlet.plan.conditions import reads
from viewlet.plan.facts import key_of
from viewlet.plan.nodes import (
    Aggregate,
    AggregateCall,
    Apply,
    Distinct,
    ExistsQuery,
    Filter,
    Join,
    Nested,
    Plan,
    Project,
    QuantifiedQuery,
    Query,
    SetOperation,
)
from viewlet.plan.scope import free_variables, outputs, scalars
from viewlet.plan.traverse import transform_query


def ignore_duplicates(query: Query) -> Query:
    """Who ignores how often a row occurs lets others do so too.

    EXISTS, IN, DISTINCT, UNION, INTERSECT, EXCEPT and groups without sums and counts are such. If E is any
    of them::

        δ(A) = A                               if A has a key
        E(δ(A)) = E(A)
        E(A UNION B) = E(A UNION ALL B)        so of many UNIONs only the outermost looks for duplicates
        E<g>(A LEFT JOIN B) = E<g>(A)          if g reads only A
    """
    return transform_query(query, _ignore)


def _ignore(plan: Plan) -> Plan:
    match plan:
        case Distinct(below) if key_of(below) is not None:
            return below
        case Distinct(below):
            return Distinct(_once(below, {var.name for var in outputs(below)}))
        case Aggregate(below, _, aggregates) if all(_indifferent(call) for _, call in aggregates):
            return replace(plan, input=_once(below, {name for s in scalars(plan) for name in reads(s)}))
        case SetOperation(kind, left, right) if not kind.endswith("_all"):
            left, right = (_once(side, {var.name for var in outputs(side)}) for side in (left, right))
            return replace(plan, left=left, right=right)
        case Apply(below, nested):
            return Apply(below, tuple(_ignore_nested(item) for item in nested))
        case _:
            return plan


def _indifferent(call: AggregateCall) -> bool:
    """Does an aggregate ignore duplicates?"""
    return call.distinct or call.op in ("min", "max")


def _ignore_nested(nested: Nested) -> Nested:
    match nested:
        case ExistsQuery(_, query):
            return replace(nested, query=_once(query, set()))
        case QuantifiedQuery(_, _, _, query):
            return replace(nested, query=_once(query, {var.name for var in outputs(query)}))
        case _:
            return nested


def _once(plan: Plan, wanted: Set[str]) -> Plan:
    """A plan with the same rows of the wanted variables, how often they may occur."""
    needed = wanted | {name for scalar in scalars(plan) for name in reads(scalar)}
    match plan:
        case Distinct(below):
            return _once(below, wanted)
        case Project(below, columns):
            read = {name for _, scalar in columns for name in reads(scalar)}
            return replace(plan, input=_once(below, read))
        case Filter(below):
            return replace(plan, input=_once(below, needed))
        case SetOperation("union" | "union_all", left, right):
            left, right = (_once(side, {var.name for var in outputs(side)}) for side in (left, right))
            return replace(plan, kind="union_all", left=left, right=right)
        case Apply(below, nested):
            correlated = set(free_variables(plan)) | {
                n for item in nested for n in free_variables(item.query)
            }
            return replace(plan, input=_once(below, needed | correlated))
        case Join("left", left, right) if not wanted & {var.name for var in outputs(right)}:
            return _once(left, wanted)
        case Join("inner", left, right):
            needed = needed | set(free_variables(right))
            return replace(plan, left=_once(left, needed), right=_once(right, needed))
        case _:
            return plan
