"""Aggregates that say more than they mean."""

from __future__ import annotations

from dataclasses import replace

from viewlet.core.scalar import TRUE, nullable
from viewlet.plan.nodes import Aggregate, AggregateCall, Plan, Query
from viewlet.plan.traverse import transform_query


def simplify_aggregates(query: Query) -> Query:
    """Three laws::

        count(e) = count(*)                    if e is never NULL
        min(DISTINCT e) = min(e)               likewise max
        f(e) FILTER (WHERE TRUE) = f(e)

    So that more aggregates of a group are the same, and are kept once.
    """
    return transform_query(query, _simplify)


def _simplify(plan: Plan) -> Plan:
    if not isinstance(plan, Aggregate):
        return plan
    calls = tuple((var, _simpler(call)) for var, call in plan.aggregates)
    return Aggregate(plan.input, plan.groups, calls)


def _simpler(call: AggregateCall) -> AggregateCall:
    condition = None if call.filter == TRUE else call.filter
    match call:
        case AggregateCall("count", argument, False) if argument is not None and not nullable(argument):
            return AggregateCall("count", None, False, condition)
        case AggregateCall("min" | "max" as op, argument):
            return AggregateCall(op, argument, False, condition)
        case _:
            return replace(call, filter=condition)
