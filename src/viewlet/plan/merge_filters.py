"""Filters on filters, and filters that keep every row."""

from __future__ import annotations

from viewlet.core.scalar import TRUE, conjunction
from viewlet.plan.nodes import Filter, Plan, Query
from viewlet.plan.traverse import transform_query


def merge_filters(query: Query) -> Query:
    """``σ[q](σ[p](A)) = σ[p AND q](A)``, ``σ[TRUE](A) = A``."""
    return transform_query(query, _merge)


def _merge(plan: Plan) -> Plan:
    match plan:
        case Filter(Filter(below, inner), outer):
            return Filter(below, conjunction(inner, outer))
        case Filter(below, condition) if condition == TRUE:
            return below
        case _:
            return plan
