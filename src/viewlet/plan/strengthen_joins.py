"""Outer joins whose padded rows a filter throws away."""

from __future__ import annotations

from dataclasses import replace

from viewlet.core.scalar import Scalar
from viewlet.plan.conditions import rejects_null
from viewlet.plan.nodes import Apply, Filter, Join, Plan, Query
from viewlet.plan.scope import outputs
from viewlet.plan.traverse import transform_query


def strengthen_joins(query: Query) -> Query:
    """If p is not TRUE where B's columns are all NULL::

        σ[p](A LEFT JOIN B) = σ[p](A JOIN B)
        σ[p](A FULL JOIN B) = σ[p](B LEFT JOIN A)

    The filter may stand above further joins, as long as the padded rows come through to it.
    """
    return transform_query(query, _strengthen)


def _strengthen(plan: Plan) -> Plan:
    match plan:
        case Filter(below, condition):
            changed = _under(below, condition)
            return plan if changed is below else Filter(changed, condition)
        case Join("inner" | "left" as kind, left, right, condition):
            # An ON condition filters the rows of the right side, and in an inner join those of the left too.
            right = _under(right, condition)
            left = _under(left, condition) if kind == "inner" else left
            if left is plan.left and right is plan.right:
                return plan
            return Join(kind, left, right, condition)
        case _:
            return plan


def _under(plan: Plan, condition: Scalar) -> Plan:
    """``plan``, of which only rows with a TRUE condition count."""
    match plan:
        case Filter(below) | Apply(below):
            changed = _under(below, condition)
            return plan if changed is below else replace(plan, input=changed)
        case Join(kind, left, right, on):
            rejects_left, rejects_right = (
                rejects_null(condition, {var.name for var in outputs(side)}) for side in (left, right)
            )
            if kind == "full" and rejects_left and rejects_right:
                return Join("inner", left, right, on)
            if kind == "full" and rejects_right:
                return _under(Join("left", right, left, on), condition)
            if kind == "full" and rejects_left:
                return _under(Join("left", left, right, on), condition)
            if kind == "left" and rejects_right:
                return _under(Join("inner", left, right, on), condition)
            if kind == "full":
                return plan
            left = _under(left, condition)
            right = _under(right, condition) if kind == "inner" else right
            return plan if left is plan.left and right is plan.right else Join(kind, left, right, on)
        case _:
            return plan
