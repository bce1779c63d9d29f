"""The first rows of a view with LIMIT, found in the partitions.

With ``first n`` the n first rows of a bag in an order that leaves no choice::

    first n (a + b) = first n (first n a + first n b)      if no row is in both a and b

So partitions may each give their first rows instead of all entries of the view's maps. They can if they read
the view from what they hold, and a row of it tells which partition that is: then equal rows are in one place,
where their multiplicities add up.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from heapq import nlargest, nsmallest
from operator import ge, le
from typing import Any

from viewlet.backends.base import Bag, Row
from viewlet.backends.spark.nodes import Dist, DistProgram, Local, Location
from viewlet.backends.spark.route import By, Router
from viewlet.core.functions import compile_scalar
from viewlet.core.scalar import Scalar, Var
from viewlet.plan.evaluate import consolidate, cut
from viewlet.plan.nodes import Query, SortKey, Top, Unit
from viewlet.triggers.program import OutputTerm, View

MOST_ROWS = 10_000
"""Whoever wants more rows gets the maps, in columns."""


def find_tops(
    queries: Mapping[str, Query], views: Mapping[str, View], placement: Mapping[str, Location]
) -> dict[str, Query]:
    """The views whose first rows partitions find, each with the query that does so over all its columns."""
    router = Router(placement, Local())
    return {
        name: _first(query.plan, query, views[name])
        for name, query in queries.items()
        if isinstance(query.plan, Top)
        and query.plan.limit is not None
        and query.plan.limit + query.plan.offset <= MOST_ROWS
        and _is_partitioned(views[name], router)
    }


def _is_partitioned(view: View, router: Router) -> bool:
    """Is every row of a view read in one partition, which one of its columns tells?"""
    return any(
        all(_is_read_by(part, part.row[at], router) for part in view.output)
        for at in range(len(view.columns))
    )


def _is_read_by(part: OutputTerm, column: Scalar, router: Router) -> bool:
    """Does each partition read the rows whose value of a column belongs to it, from what it holds?"""
    if not isinstance(column, Var):
        return False
    (leg, *rest) = router.route(part.term, (column,), Dist(0))
    return not rest and leg.stop == By(column) and not leg.fetches


def _first(top: Top, query: Query, view: View) -> Query:
    """The rows that may count, in full: ordered as the query orders them, ties by its own columns first."""
    own = [var.name for _, var in query.columns]
    types = dict(view.columns)
    columns = tuple((name, Var(name, types[name])) for name in dict.fromkeys([*own, *types]))
    return Query(Top(Unit(), top.keys, (top.limit or 0) + top.offset), columns)


def first_rows(program: DistProgram, view: str, pairs: Iterable[tuple[Row, int]]) -> Bag:
    """Of the rows that a partition has of a view, those that may be among the first of all."""
    query, names = program.tops[view], tuple(name for name, _ in program.views[view].columns)
    assert isinstance(query.plan, Top)
    count = query.plan.limit or 0
    bag = {row: weight for row, weight in consolidate(pairs).items() if weight > 0}
    if len(bag) <= count:
        return bag
    if query.plan.keys and count:
        bag = no_worse(bag, query.plan.keys[0], names, count)
    found = cut(query, names, bag)
    order = [name for name, _ in query.columns]
    restored = [order.index(name) for name in names]
    return {tuple([row[i] for i in restored]): weight for row, weight in found.items()}


def no_worse(bag: Bag, key: SortKey, names: tuple[str, ...], count: int) -> Bag:
    """The rows that are no worse by a key than its ``count``-th best value, and those without a value.

    A quick look that leaves few rows to sort.

    >>> from viewlet.core.types import BIGINT
    >>> ascending = SortKey(Var("x", BIGINT), descending=False, nulls_first=False)
    >>> no_worse({(3,): 1, (1,): 1, (None,): 1, (2,): 1}, ascending, ("x",), 2)
    {(1,): 1, (None,): 1, (2,): 1}
    """
    value_of = compile_scalar(key.scalar, {name: slot for slot, name in enumerate(names)})
    values: list[Any] = [value_of(row) for row in bag]
    best = (nlargest if key.descending else nsmallest)(count, [v for v in values if v is not None])
    if len(best) < count:
        return bag
    last = best[-1]
    within = partial(le, last) if key.descending else partial(ge, last)
    return {
        row: weight
        for (row, weight), value in zip(bag.items(), values, strict=True)
        if value is None or within(value)
    }
