"""The first rows of a view with LIMIT, found in the partitions.

With ``first n`` the n first rows of a bag in an order that leaves no choice::

    first n (a + b) = first n (first n a + first n b)      if no row is in both a and b

So partitions may each give their first rows instead of all that they have, of views that they read
(``spread.py``): equal rows are in one place there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from heapq import nlargest, nsmallest
from operator import ge, le
from typing import Any

from viewlet.backends.base import Bag, Row
from viewlet.backends.spark.nodes import DistProgram
from viewlet.core.functions import compile_scalar
from viewlet.core.scalar import Var
from viewlet.plan.bags import consolidate, cut
from viewlet.plan.nodes import Query, SortKey, Top, Unit
from viewlet.triggers.program import View

MOST_ROWS = 10_000
"""Whoever wants more rows gets all of them, to be cut on the driver."""


def find_tops(
    queries: Mapping[str, Query], views: Mapping[str, View], spread: frozenset[str]
) -> dict[str, Query]:
    """The views whose first rows partitions find, each with the query that does so over all its columns."""
    return {
        name: _first(query.plan, query, views[name])
        for name, query in queries.items()
        if isinstance(query.plan, Top)
        and query.plan.limit is not None
        and query.plan.limit + query.plan.offset <= MOST_ROWS
        and name in spread
    }


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
