"""The plan passes, in order."""

from __future__ import annotations

from collections.abc import Callable

from viewlet.core.rewrite import fixpoint, run_passes
from viewlet.plan.fold_constants import fold_constants
from viewlet.plan.ignore_duplicates import ignore_duplicates
from viewlet.plan.imply_filters import imply_filters
from viewlet.plan.inline_projections import inline_projections
from viewlet.plan.merge_filters import merge_filters
from viewlet.plan.nodes import Query
from viewlet.plan.prune_columns import prune_columns
from viewlet.plan.push_filters import push_filters
from viewlet.plan.refine_nullability import refine_nullability
from viewlet.plan.simplify_aggregates import simplify_aggregates
from viewlet.plan.split_absolutes import split_absolutes
from viewlet.plan.strengthen_joins import strengthen_joins

PASSES: tuple[Callable[[Query], Query], ...] = (
    fold_constants,
    split_absolutes,
    merge_filters,
    strengthen_joins,
    imply_filters,
    push_filters,
    inline_projections,
    ignore_duplicates,
    refine_nullability,
    simplify_aggregates,
    prune_columns,
)


def optimize(query: Query) -> Query:
    """The same query, simpler: the passes of :data:`PASSES` in turn, until none finds anything more."""
    return fixpoint(run_all, query)


def run_all(query: Query) -> Query:
    """Each pass once."""
    return run_passes(PASSES, query)
