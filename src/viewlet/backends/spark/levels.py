"""Statements of a block in groups that run together, and what each group is fed with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from viewlet.backends.spark.fuse import reads
from viewlet.backends.spark.nodes import Compute
from viewlet.calculus.nodes import Delta, Query, nested_factors
from viewlet.core.node import walk

Feed: TypeAlias = Literal["rows", "batch", "once"]
"""The rows of a change one after the other, all of them at once, or nothing, once."""


@dataclass(frozen=True, slots=True)
class Level:
    """Statements that run together, and how they are fed."""

    feed: Feed
    statements: tuple[Compute, ...]


def levels(segment: Sequence[Compute], by_row: bool, maps: Mapping[str, object]) -> list[Level]:
    """Statements in groups such that running the groups in order is running the statements in order.

    Within a group increments read the state before it, and what is recomputed comes after them. A statement
    is one group later than what it reads from; it may share a group with an earlier one that reads what it
    adds to, if both run at once.
    """
    feeds = ["rows" if by_row else feed_of(statement.query) for statement in segment]
    depth: list[int] = []
    for i, later in enumerate(segment):
        least = 0
        for j, earlier in enumerate(segment[:i]):
            increments = all(s.op == "+=" or s.target not in maps for s in (earlier, later))
            if earlier.target in reads(later) or (earlier.target == later.target and not increments):
                least = max(least, depth[j] + 1)
            elif later.target in reads(earlier):
                together = increments and feeds[i] == feeds[j] and (by_row or feeds[i] != "rows")
                least = max(least, depth[j] + (0 if together else 1))
        depth.append(least)
    return [
        Level(feed, chosen)
        for level in range(max(depth, default=-1) + 1)
        for feed in ("rows", "batch", "once")
        if (
            chosen := tuple(
                s for s, d, f in zip(segment, depth, feeds, strict=True) if (d, f) == (level, feed)
            )
        )
    ]


def feed_of(query: Query) -> Feed:
    """Does a query need no change, one row of it after the other, or all of it at once?"""
    if not any(isinstance(node, Delta) for term in query for node in walk(term)):
        return "once"
    linear = all(
        [f.absolute for f in term.factors if isinstance(f, Delta)] == [False]
        and not any(isinstance(node, Delta) for nested in nested_factors((term,)) for node in walk(nested))
        for term in query
    )
    return "rows" if linear else "batch"
