"""Columns that nobody reads disappear."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace
from typing import assert_never

from viewlet.plan.conditions import reads
from viewlet.plan.nodes import (
    Aggregate,
    Apply,
    Distinct,
    ExistsQuery,
    Filter,
    Join,
    Nested,
    Plan,
    Project,
    Query,
    ScalarQuery,
    Scan,
    SetOperation,
    Top,
    Unit,
)
from viewlet.plan.scope import free_variables, outputs, scalars


def prune_columns(query: Query) -> Query:
    """``π[V](A) = π[V](A')`` where A' has no columns, aggregates and nested queries outside V.

    Rows stay as many as they were, so nothing is dropped below DISTINCT and set operations, whose columns
    decide which rows are the same. A scalar subquery stays even if unread, since it may raise an error.
    """
    return Query(_prune(query.plan, {var.name for _, var in query.columns}), query.columns)


def _prune(plan: Plan, wanted: Set[str]) -> Plan:
    """``plan`` with the variables that are wanted, and few others."""
    needed = wanted | {name for scalar in scalars(plan) for name in reads(scalar)}
    match plan:
        case Unit():
            return plan
        case Scan(table, binds):
            return Scan(table, tuple(bind for bind in binds if bind[1].name in wanted))
        case Filter(below) | Top(below):
            return replace(plan, input=_prune(below, needed))
        case Project(below, columns):
            kept = tuple(column for column in columns if column[0].name in wanted)
            return Project(_prune(below, {name for _, scalar in kept for name in reads(scalar)}), kept)
        case Join(kind, left, right, condition):
            needed = needed | set(free_variables(right))
            return Join(kind, _prune(left, needed), _prune(right, needed), condition)
        case Aggregate(below, groups, aggregates):
            return _prune_aggregate(
                Aggregate(below, groups, tuple(a for a in aggregates if a[0].name in wanted))
            )
        case Distinct(below):
            return Distinct(_prune(below, {var.name for var in outputs(below)}))
        case SetOperation(kind, left, right, columns):
            left, right = (_prune(side, {var.name for var in outputs(side)}) for side in (left, right))
            return SetOperation(kind, left, right, columns)
        case Apply(below, nested):
            kept_queries = tuple(
                _prune_nested(item)
                for item in nested
                if item.output.name in wanted or isinstance(item, ScalarQuery)
            )
            correlated = set(free_variables(Apply(Unit(), kept_queries)))
            inner = _prune(below, wanted | correlated)
            return Apply(inner, kept_queries) if kept_queries else inner
        case _:
            assert_never(plan)


def _prune_aggregate(plan: Aggregate) -> Plan:
    needed = {name for scalar in scalars(plan) for name in reads(scalar)}
    return replace(plan, input=_prune(plan.input, needed))


def _prune_nested(nested: Nested) -> Nested:
    """The rows of EXISTS matter, not their columns; other nested queries need all of theirs."""
    wanted = set() if isinstance(nested, ExistsQuery) else {var.name for var in outputs(nested.query)}
    return replace(nested, query=_prune(nested.query, wanted))
