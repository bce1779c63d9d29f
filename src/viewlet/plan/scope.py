"""Which variables a plan produces, and which it reads from its surroundings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from viewlet.core.scalar import Scalar, Var, variables
from viewlet.plan.nodes import (
    Aggregate,
    Apply,
    Distinct,
    Filter,
    Join,
    Nested,
    Plan,
    Project,
    QuantifiedQuery,
    Scan,
    SetOperation,
    Top,
    Unit,
)


def outputs(plan: Plan) -> tuple[Var, ...]:
    """The variables a plan's rows consist of."""
    match plan:
        case Unit():
            return ()
        case Scan(_, binds):
            return tuple(var for _, var in binds)
        case Filter(inner) | Distinct(inner) | Top(inner):
            return outputs(inner)
        case Project(_, columns):
            return tuple(var for var, _ in columns)
        case Join(_, left, right):
            return outputs(left) + outputs(right)
        case Aggregate(_, groups, aggregates):
            return tuple(var for var, _ in groups) + tuple(var for var, _ in aggregates)
        case SetOperation(columns=columns):
            return columns
        case Apply(inner, nested):
            return outputs(inner) + tuple(item.output for item in nested)
        case _:
            assert_never(plan)


def inputs(plan: Plan) -> tuple[Plan, ...]:
    """The plans directly below, nested queries not included."""
    match plan:
        case Unit() | Scan():
            return ()
        case Join(_, left, right) | SetOperation(_, left, right):
            return (left, right)
        case _:
            return (plan.input,)


def scalars(plan: Plan) -> Iterator[Scalar]:
    """The scalars of this node alone."""
    match plan:
        case Filter(_, condition) | Join(_, _, _, condition):
            yield condition
        case Project(_, columns):
            yield from (scalar for _, scalar in columns)
        case Aggregate(_, groups, aggregates):
            yield from (scalar for _, scalar in groups)
            for _, aggregate in aggregates:
                yield from (part for part in (aggregate.argument, aggregate.filter) if part is not None)
        case Apply(_, nested):
            for item in nested:
                if isinstance(item, QuantifiedQuery):
                    yield from item.operands
        case Top(_, keys):
            yield from (key.scalar for key in keys)
        case _:
            return


def nested_queries(plan: Plan) -> tuple[Nested, ...]:
    """The nested queries of this node alone."""
    return plan.nested if isinstance(plan, Apply) else ()


def walk(plan: Plan) -> Iterator[Plan]:
    """The plan and every plan in it, nested queries included."""
    yield plan
    for below in inputs(plan):
        yield from walk(below)
    for item in nested_queries(plan):
        yield from walk(item.query)


def free_variables(plan: Plan) -> dict[str, Var]:
    """The variables that a plan reads but does not produce: what correlates a subquery, by name."""
    produced = {var.name for node in walk(plan) for var in outputs(node)}
    read = (var for node in walk(plan) for scalar in scalars(node) for var in variables(scalar))
    return {var.name: var for var in read if var.name not in produced}


def tables_of(plan: Plan) -> frozenset[str]:
    """The tables a plan scans."""
    return frozenset(node.table for node in walk(plan) if isinstance(node, Scan))
