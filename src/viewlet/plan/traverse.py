"""Changing plans: over the plans inside a plan, and over the scalars of one node."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import assert_never

from viewlet.core.scalar import Call, Const, Scalar, Var, call
from viewlet.plan.nodes import (
    Aggregate,
    AggregateCall,
    Apply,
    Distinct,
    Filter,
    Join,
    Nested,
    Plan,
    Project,
    QuantifiedQuery,
    Query,
    Scan,
    SetOperation,
    SortKey,
    Top,
    Unit,
)


def transform(plan: Plan, change: Callable[[Plan], Plan]) -> Plan:
    """Rewrite bottom-up: inputs and nested queries first, then ``change`` on the rebuilt node."""
    return change(over_inputs(plan, lambda below: transform(below, change)))


def transform_query(query: Query, change: Callable[[Plan], Plan]) -> Query:
    """Rewrite the plan of a query bottom-up; its columns stay."""
    plan = transform(query.plan, change)
    return query if plan is query.plan else replace(query, plan=plan)


def over_inputs(plan: Plan, change: Callable[[Plan], Plan]) -> Plan:
    """The same node over changed inputs and nested queries; the node itself where nothing changed."""
    match plan:
        case Unit() | Scan():
            return plan
        case Join(_, left, right) | SetOperation(_, left, right):
            new_left, new_right = change(left), change(right)
            if new_left is left and new_right is right:
                return plan
            return replace(plan, left=new_left, right=new_right)
        case Apply(below, nested):
            new_below = change(below)
            queries = tuple(over_query(item, change) for item in nested)
            same = new_below is below and all(a is b for a, b in zip(queries, nested, strict=True))
            return plan if same else Apply(new_below, queries)
        case Filter(below) | Project(below) | Aggregate(below) | Distinct(below) | Top(below):
            new_below = change(below)
            return plan if new_below is below else replace(plan, input=new_below)
        case _:
            assert_never(plan)


def over_query(nested: Nested, change: Callable[[Plan], Plan]) -> Nested:
    """A nested query with a changed plan."""
    query = change(nested.query)
    return nested if query is nested.query else replace(nested, query=query)


def over_scalars(plan: Plan, change: Callable[[Scalar], Scalar]) -> Plan:
    """The same node with changed scalars; inputs and nested queries stay as they are."""
    match plan:
        case Filter(below, condition):
            return Filter(below, change(condition))
        case Join(kind, left, right, condition):
            return Join(kind, left, right, change(condition))
        case Project(below, columns):
            return Project(below, tuple((var, change(scalar)) for var, scalar in columns))
        case Aggregate(below, groups, aggregates):
            return Aggregate(
                below,
                tuple((var, change(scalar)) for var, scalar in groups),
                tuple((var, over_aggregate(call, change)) for var, call in aggregates),
            )
        case Apply(below, nested):
            return Apply(below, tuple(_over_operands(item, change) for item in nested))
        case Top(below, keys, limit, offset):
            changed = tuple(SortKey(change(key.scalar), key.descending, key.nulls_first) for key in keys)
            return Top(below, changed, limit, offset)
        case Unit() | Scan() | Distinct() | SetOperation():
            return plan
        case _:
            assert_never(plan)


def over_aggregate(aggregate: AggregateCall, change: Callable[[Scalar], Scalar]) -> AggregateCall:
    """An aggregate over a changed argument and filter."""
    argument = None if aggregate.argument is None else change(aggregate.argument)
    condition = None if aggregate.filter is None else change(aggregate.filter)
    return replace(aggregate, argument=argument, filter=condition)


def _over_operands(nested: Nested, change: Callable[[Scalar], Scalar]) -> Nested:
    if isinstance(nested, QuantifiedQuery):
        return replace(nested, operands=tuple(change(operand) for operand in nested.operands))
    return nested


def over_calls(scalar: Scalar, change: Callable[[Scalar], Scalar]) -> Scalar:
    """Rewrite a scalar bottom-up, folding on the way."""
    match scalar:
        case Call(op, args):
            changed = tuple(over_calls(arg, change) for arg in args)
            if any(a is not b for a, b in zip(changed, args, strict=True)):
                return change(call(op, *changed, type=scalar.type))
            return change(scalar)
        case Const() | Var():
            return change(scalar)
        case _:
            assert_never(scalar)
