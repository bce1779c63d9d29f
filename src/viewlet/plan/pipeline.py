"""The plan passes, in order."""

from __future__ import annotations

from collections.abc import Callable

from viewlet.core.rewrite import run_passes
from viewlet.plan.nodes import Query

PASSES: tuple[Callable[[Query], Query], ...] = ()


def optimize(query: Query) -> Query:
    """The same query, simpler: each pass of :data:`PASSES` in turn."""
    return run_passes(PASSES, query)
