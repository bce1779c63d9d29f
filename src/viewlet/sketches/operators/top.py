"""Top-k over annotated rows: rows in order, of which the first k are the result.

A change gives the first rows as they were with weight -1 and as they are with weight +1. With a bound only
that many rows beyond the first k are kept; when deletions have used up this reserve, the rows that
were dropped would be needed, and :class:`~viewlet.sketches.errors.ExhaustedError` asks for a recapture.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

from viewlet.core.functions import RowFunction, compile_scalar
from viewlet.core.scalar import Var
from viewlet.plan.nodes import SortKey
from viewlet.sketches.errors import ExhaustedError
from viewlet.sketches.operators.base import AnnotatedRow, Bits, Delta, Operator, Row
from viewlet.sketches.operators.stateless import slots_of


@dataclass(frozen=True, slots=True)
class _Descending:
    value: Any

    def __lt__(self, other: _Descending) -> bool:
        return bool(other.value < self.value)


class Top:
    """The operator τ: the lineage of the first ``count`` rows, all copies of the last one included."""

    def __init__(
        self,
        input: Operator,
        keys: Sequence[SortKey],
        count: int,
        variables: Sequence[Var],
        bound: int | None,
    ) -> None:
        self._input, self._count, self._bound = input, count, bound
        slots = slots_of(variables)
        self._keys: list[tuple[RowFunction, SortKey]] = [(compile_scalar(k.scalar, slots), k) for k in keys]
        self._ranks: list[tuple[Any, ...]] = []
        self._rows: dict[tuple[Any, ...], dict[tuple[Row, Bits], int]] = {}
        self._limit: tuple[Any, ...] | None = None
        self._limit_row: Row | None = None

    def load(self) -> Delta:
        """The first rows."""
        self._ranks, self._rows, self._limit, self._limit_row = [], {}, None, None
        # Filled in one go: sorting once beats an ordered insertion per row.
        for change in self._input.load():
            self._count_row(self._rank(change.row), change)
        self._ranks = sorted(self._rows)
        self._truncate()
        return self._first(1)

    def change(self, changed: frozenset[str]) -> Delta:
        """The first rows as they were, and as they are."""
        delta = self._input.change(changed)
        if not delta:
            return []
        before = self._first(-1)
        for change in delta:
            rank = self._rank(change.row)
            if self._limit is not None and self._limit < rank:
                continue
            if rank not in self._rows:
                insort(self._ranks, rank)
            self._count_row(rank, change)
            if not self._rows[rank]:
                del self._rows[rank]
                del self._ranks[bisect_left(self._ranks, rank)]
        self._truncate()
        return before + self._first(1)

    def _rank(self, row: Row) -> tuple[Any, ...]:
        rank: list[Any] = []
        for of, key in self._keys:
            value = of(row)
            if value is None:
                rank.append((not key.nulls_first, 0))
            else:
                rank.append((key.nulls_first, _Descending(value) if key.descending else value))
        return tuple(rank)

    def _count_row(self, rank: tuple[Any, ...], change: AnnotatedRow) -> None:
        rows = self._rows.setdefault(rank, {})
        entry = (change.row, change.bits)
        total = rows.get(entry, 0) + change.weight
        if total:
            rows[entry] = total
        else:
            rows.pop(entry, None)

    def _first(self, weight: int) -> Delta:
        first: Delta = []
        seen = 0
        for rank in self._ranks:
            if seen >= self._count:
                break
            for (row, bits), copies in self._rows[rank].items():
                first.append(AnnotatedRow(row, bits, weight * copies))
                seen += copies
        if seen < self._count and self._limit is not None and weight > 0:
            raise ExhaustedError(
                f"the buffer of the first {self._count} rows ran out of its reserve by deletions"
            )
        return first

    def _truncate(self) -> None:
        if self._bound is None or len(self._ranks) <= 2 * (self._count + self._bound):
            return
        kept = self._count + self._bound
        for rank in self._ranks[kept:]:
            del self._rows[rank]
        del self._ranks[kept:]
        self._limit = self._ranks[-1]
        self._limit_row = next(iter(self._rows[self._limit]))[0]

    def entries(self) -> int:
        """The rows that are kept."""
        return sum(map(len, self._rows.values())) + self._input.entries()

    def explain(self) -> Iterator[str]:
        """How many rows are kept for the first ones."""
        kept = sum(map(len, self._rows.values()))
        cut = "" if self._limit is None else ", the rest was dropped"
        yield f"top {self._count}: {kept} rows are kept{cut}"
        yield from self._input.explain()

    def save(self) -> Iterator[object]:
        """The rows and where they were cut."""
        rows = [(row, bits, n) for entries in self._rows.values() for (row, bits), n in entries.items()]
        yield rows, self._limit_row
        yield from self._input.save()

    def restore(self, parts: Iterator[object]) -> None:
        """The rows in order again."""
        rows, self._limit_row = cast("tuple[Any, Row | None]", next(parts))
        self._rows = {}
        for row, bits, copies in rows:
            self._count_row(self._rank(row), AnnotatedRow(row, bits, copies))
        self._ranks = sorted(self._rows)
        self._limit = None if self._limit_row is None else self._rank(self._limit_row)
        self._input.restore(parts)
