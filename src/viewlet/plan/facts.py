"""What is known about a plan's rows, whatever the data: how many, which differ, which values are there."""

from __future__ import annotations

from viewlet.core.scalar import Var, nullable
from viewlet.plan.nodes import (
    Aggregate,
    AggregateCall,
    Apply,
    Distinct,
    Filter,
    Join,
    Plan,
    Project,
    SetKind,
    SetOperation,
    Top,
    Unit,
)
from viewlet.plan.scope import outputs


def has_one_row(plan: Plan) -> bool:
    """Does a plan have exactly one row?"""
    match plan:
        case Unit():
            return True
        case Aggregate(_, groups):
            return not groups
        case Project(below) | Apply(below) | Distinct(below):
            return has_one_row(below)
        case _:
            return False


def key_of(plan: Plan) -> frozenset[str] | None:
    """Variables in which any two rows of a plan differ, ``None`` if none are known."""
    match plan:
        case Unit():
            return frozenset()
        case Aggregate(_, groups):
            return frozenset(var.name for var, _ in groups)
        case Distinct(below):
            inner = key_of(below)
            return frozenset(var.name for var in outputs(plan)) if inner is None else inner
        case SetOperation(kind, columns=columns):
            return None if kind.endswith("_all") else frozenset(var.name for var in columns)
        case Filter(below) | Apply(below) | Top(below):
            return key_of(below)
        case Project(below, columns):
            inner, kept = (
                key_of(below),
                {scalar.name: var.name for var, scalar in columns if isinstance(scalar, Var)},
            )
            if inner is None or not inner <= kept.keys():
                return None
            return frozenset(kept[name] for name in inner)
        case Join(_, left, right):
            left_key, right_key = key_of(left), key_of(right)
            return None if left_key is None or right_key is None else left_key | right_key
        case _:
            return None


def aggregate_may_be_null(aggregate: AggregateCall, grouped: bool) -> bool:
    """COUNT is never NULL; others are where no value came in: no rows, only NULLs, a filter, too few."""
    match aggregate:
        case AggregateCall("count"):
            return False
        case AggregateCall("var_samp" | "stddev_samp"):
            return True
        case AggregateCall(_, argument, _, condition):
            return not grouped or condition is not None or argument is None or nullable(argument)


def set_may_be_null(kind: SetKind, left: Var, right: Var) -> bool:
    """May a column of a set operation be NULL, given the columns that meet in it?"""
    match kind:
        case "union" | "union_all":
            return left.nullable or right.nullable
        case "intersect" | "intersect_all":
            return left.nullable and right.nullable
        case "except" | "except_all":
            return left.nullable
