"""Bags of rows: equal rows are added up, brought into order, and cut to the first of them.

A view with LIMIT *contains* the limited rows. Ties are broken by the whole result row, ascending, NULL
first, so which rows these are depends on nothing but the data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter
from typing import TypeAlias

from viewlet.core.functions import RowFunction, compile_scalar
from viewlet.core.scalar import variables
from viewlet.core.types import Value
from viewlet.errors import UnsupportedError
from viewlet.plan.nodes import Query, SortKey, Top

Row: TypeAlias = tuple[Value, ...]
Bag: TypeAlias = dict[Row, int]
Names: TypeAlias = tuple[str, ...]


def tuple_of(slots: Sequence[int]) -> Callable[[Row], Row]:
    """Projection of rows to the given positions; unlike ``itemgetter``, a row for one position too."""
    if len(slots) == 1:
        (slot,) = slots
        return lambda row: (row[slot],)
    return itemgetter(*slots) if slots else lambda row: ()


def cut(query: Query, names: Names, bag: Bag) -> Bag:
    """The result's own columns of rows over ``names``, after LIMIT and OFFSET."""
    own = tuple(var.name for _, var in query.columns)
    pick = tuple_of([names.index(name) for name in own])
    if not isinstance(query.plan, Top) or (query.plan.limit is None and not query.plan.offset):
        return bag if own == names else consolidate([(pick(row), weight) for row, weight in bag.items()])
    rows = _sorted_rows(bag, query.plan.keys, names, pick)
    stop = None if query.plan.limit is None else query.plan.offset + query.plan.limit
    return consolidate([(pick(row), 1) for row in rows[query.plan.offset : stop]])


def ordered_rows(query: Query, bag: Bag) -> list[Row]:
    """The rows of a result as a list, in the query's ORDER BY, else by the whole row with NULL first."""
    names = tuple(var.name for _, var in query.columns)
    keys = query.plan.keys if isinstance(query.plan, Top) else ()
    for key in keys:
        for var in variables(key.scalar):
            if var.name not in names:
                raise UnsupportedError(f"ORDER BY {var.name}: the result does not keep it; add it to SELECT")
    return _sorted_rows(bag, keys, names, lambda row: row)


def sorted_rows(bag: Bag) -> list[Row]:
    """The rows of a bag as a list, ordered by all columns with NULL first.

    >>> sorted_rows({(2, "b"): 2, (None, "a"): 1})
    [(None, 'a'), (2, 'b'), (2, 'b')]
    """
    return _sorted_rows(bag, (), (), lambda row: row)


def consolidate(pairs: Iterable[tuple[Row, int]]) -> Bag:
    """Add up the weights of equal rows and drop zeros.

    >>> consolidate([(("a",), 1), (("b",), 2), (("a",), -1)])
    {('b',): 2}
    """
    pairs = [*pairs]
    bag = dict(pairs)
    if len(bag) < len(pairs):
        bag.clear()
        for row, weight in pairs:
            bag[row] = bag.get(row, 0) + weight
    return bag if all(bag.values()) else {row: weight for row, weight in bag.items() if weight}


def row_order(row: Row) -> list[tuple[bool, Value]]:
    """The sort key of a whole row: by its columns from left to right, ascending, NULL first."""
    return [(value is not None, value) for value in row]


def _sorted_rows(bag: Bag, keys: Sequence[SortKey], names: Names, whole: Callable[[Row], Row]) -> list[Row]:
    rows = [row for row, weight in bag.items() for _ in range(weight)]
    try:
        rows.sort(key=whole)
    except TypeError:  # NULL met a value where two rows begin to differ
        rows.sort(key=lambda row: row_order(whole(row)))
    slots = {name: slot for slot, name in enumerate(names)}
    for key in reversed(keys):
        value_of = compile_scalar(key.scalar, slots)
        # Sorting in reverse also turns the place of NULL around.
        null_rank = key.nulls_first == key.descending

        def rank(row: Row, of: RowFunction = value_of, null_rank: bool = null_rank) -> tuple[bool, Value]:
            value = of(row)
            return (null_rank, 0) if value is None else (not null_rank, value)

        rows.sort(key=rank, reverse=key.descending)
    return rows
