"""How DuckDB restricts a table to fragments, and what that leaves to read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, cast

from sqlglot import exp

from viewlet.core.types import Column, Value
from viewlet.sketches.cost import Skipping, is_enumerable
from viewlet.sketches.partition import NULL_FRAGMENT, Partition
from viewlet.sketches.plan_to_sql import literal
from viewlet.sketches.use import in_ranges

MAX_VALUES = 20_000
"""So many values are listed at most."""

Limits: TypeAlias = Callable[[str, Column], tuple[Value, Value]]
"""The least and the greatest value of a column of a table."""


class Restrictions:
    """Conditions on the tables of a connection, in the form that it evaluates best."""

    def __init__(self, fetch: Callable[[str, Sequence[Any]], list[Any]], limits: Limits) -> None:
        self._fetch, self._limits = fetch, limits

    def condition(self, partition: Partition, fragments: frozenset[int]) -> exp.Expr:
        """A semi-join with the values of the ranges where they can be listed, else an OR of ranges.

        Each disjunct of an OR costs half a scan of its own here; a semi-join costs the same for any number.
        """
        column = exp.column(partition.column, quoted=True)
        values = self._values(partition, fragments)
        if values is None:
            return in_ranges(partition, fragments, column)
        # As one piece of text: a tree of a thousand literals takes longer to write than the query to run.
        whole = partition.type.is_integer
        texts = map(str, values) if whole else (literal(v, partition.type).sql("duckdb") for v in values)
        listed = exp.Var(this=f"[{', '.join(texts)}]")
        inside = exp.In(this=column, query=exp.select(exp.Unnest(expressions=[listed])).subquery())
        if NULL_FRAGMENT not in fragments:
            return inside
        return exp.or_(inside, exp.Is(this=column.copy(), expression=exp.Null()))

    def _values(self, partition: Partition, fragments: frozenset[int]) -> list[int] | None:
        """The values in the ranges; open ends are those of the data, which has the sketch's version."""
        intervals = partition.intervals(fragments)
        if len(intervals) < 2 or not is_enumerable(partition.type):
            return None
        ends: tuple[Value, Value] = (None, None)
        if intervals[0][0] is None or intervals[-1][1] is None:
            ends = self._limits(partition.table, Column(partition.column, partition.type))
            if ends[0] is None or ends[1] is None:
                return None
        edges = [
            (cast(int, ends[0] if low is None else low), cast(int, ends[1] if high is None else high - 1))
            for low, high in cast("list[tuple[Any, Any]]", intervals)
        ]
        if sum(max(high - low + 1, 0) for low, high in edges) > MAX_VALUES:
            return None
        return [value for low, high in edges for value in range(low, high + 1)]

    def skipping(self, partition: Partition, fragments: frozenset[int]) -> Skipping:
        """By the least and greatest value of every row group."""
        kept = len(fragments) / partition.size
        check = (
            0.2
            if self._values(partition, fragments) is not None
            else 0.14 * len(partition.intervals(fragments))
        )
        return Skipping(kept, max(self._touched(partition, fragments), kept), check)

    def _touched(self, partition: Partition, fragments: frozenset[int]) -> float:
        """The share of row groups that may hold rows of the fragments; 1 where that is not known."""
        if not is_enumerable(partition.type):
            return 1.0
        segments = self._fetch(
            f"SELECT any_value(stats) FROM pragma_storage_info('{partition.table}') "
            f"WHERE column_name = ? AND segment_type <> 'VALIDITY' GROUP BY row_group_id, segment_id",
            [partition.column],
        )
        touched = 0
        for (stats,) in segments:
            low, high = (stats or {}).get("min"), (stats or {}).get("max")
            if not isinstance(low, int) or not isinstance(high, int):
                return 1.0
            first, last = partition.fragment_of(low), partition.fragment_of(high)
            touched += any(first <= fragment <= last for fragment in fragments)
        return touched / len(segments) if segments else 1.0
