"""The parts of a query that need no memory, σ, π, ⋈, ∪ over tables: their rows and changes come summed up.

What crosses from who computes them is one row per group and combination of fragments, however many rows
changed: from the database (``branch.py``), or from views of streams (``streamed.py``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol, TypeAlias, cast

from viewlet.core.names import Names
from viewlet.core.scalar import Scalar, Var, nullable
from viewlet.core.types import Type, Value, wide
from viewlet.plan.nodes import Aggregate, AggregateCall
from viewlet.sketches.lineage import Annotated, Mark
from viewlet.sketches.operators.base import AnnotatedRow, Bits, Delta, Row, bit_of
from viewlet.sketches.operators.group import Calls, Part, Parts, ValuePart, filtered, split_calls
from viewlet.sketches.partition import Partition

Groups: TypeAlias = Sequence[tuple[Var, Scalar]]


class Source(Protocol):
    """A stateless plan without ∪, summed up per group and fragments: its rows, and what a batch changes.

    A row has the groups, the fragments, the number of rows or its change, and the given sums and counts.
    """

    tables: frozenset[str]

    def expect(self, groups: Groups, calls: Sequence[AggregateCall]) -> None:
        """Rows will be asked for by these groups: said before there are any."""

    def load(self) -> None:
        """All rows will be asked for, then changes."""

    def begin(self, changed: frozenset[str]) -> None:
        """The staged changes of these tables will be asked for."""

    def all_rows(self, groups: Groups, calls: Sequence[AggregateCall]) -> Iterable[Row]:
        """The rows as they are."""

    def changed_rows(
        self, groups: Groups, calls: Sequence[AggregateCall], changed: frozenset[str]
    ) -> Iterable[Row]:
        """What the staged changes are to them."""

    def split(self, row: Row, groups: int) -> tuple[Row, Bits, int, Row]:
        """A row as its key, fragments, weight and sums."""

    def explain(self) -> Iterator[str]:
        """Who computes the changes."""


class Marks:
    """The fragments of a row of an annotated plan that was summed up."""

    def __init__(self, annotated: Annotated, partitions: Sequence[Partition], mark: Mark) -> None:
        # Of each fragment in a row: the place of its partition, and the bits of the marks seen so far.
        self._marks: list[tuple[int, Partition, bool, dict[Value, int]]] = [
            (partitions.index(p), p, mark(p)[0] != p.column, {}) for p, _ in annotated.fragments
        ]
        self._partitions = len(partitions)

    def split(self, row: Row, groups: int) -> tuple[Row, Bits, int, Row]:
        """A row as its key, fragments, weight and sums."""
        weight = groups + len(self._marks)
        bits = [0] * self._partitions
        for (place, partition, by_number, seen), mark in zip(self._marks, row[groups:weight], strict=True):
            if mark not in seen:
                seen[mark] = bit_of(cast(int, mark) if by_number else partition.fragment_of(mark))
            bits[place] |= seen[mark]
        return row[:groups], tuple(bits), cast(int, row[weight]), row[weight + 1 :]


def summed(annotated: Annotated, groups: Groups, calls: Sequence[AggregateCall], names: Names) -> Aggregate:
    """An annotated plan per group and fragments: the number of rows, and the given sums and counts."""
    counted = (Var(names.fresh("weight"), wide(0), False), AggregateCall("count", None))
    named = [(Var(names.fresh("part"), sum_type(c), True), c) for c in calls]
    fragments = tuple((var, var) for var in annotated.variables)
    return Aggregate(annotated.plan, tuple(groups) + fragments, (counted, *named))


def sum_type(aggregate: AggregateCall) -> Type:
    """The type of an exact sum; that of a count."""
    if aggregate.op == "count" or aggregate.argument is None:
        return wide(0)
    return wide(aggregate.argument.type.scale)


class LeafGroups:
    """A stateless plan as the input of a γ, summed up."""

    def __init__(self, source: Sequence[Source], groups: Groups, calls: Calls) -> None:
        self._branches, self._groups = source, groups
        linear, others = split_calls(calls)
        # Per linear aggregate: does it count rows, does it count at all (or sum)?
        self._layout = [(filtered(call) is None, call.op == "count") for _, call in linear]
        self._sums: list[AggregateCall] = []
        for _, aggregate in linear:
            argument = filtered(aggregate)
            if argument is not None:
                self._sums.append(AggregateCall("count", argument))
                if aggregate.op != "count":
                    self._sums.append(AggregateCall("sum", argument))
        self._others = [cast(Scalar, filtered(aggregate)) for _, aggregate in others]
        for branch in source:
            branch.expect(groups, self._sums)
            for of_values in self._value_groups():
                branch.expect(of_values, ())

    def load(self) -> Parts:
        """All rows."""
        for branch in self._branches:
            branch.load()
            yield from self._parts(branch, branch.all_rows(self._groups, self._sums))
            for place, groups in enumerate(self._value_groups()):
                yield from self._value_parts(branch, place, branch.all_rows(groups, ()))

    def change(self, changed: frozenset[str]) -> Parts:
        """The staged changes."""
        for branch in self._branches:
            if changed & branch.tables:
                branch.begin(changed)
                yield from self._parts(branch, branch.changed_rows(self._groups, self._sums, changed))
                for place, groups in enumerate(self._value_groups()):
                    yield from self._value_parts(branch, place, branch.changed_rows(groups, (), changed))

    def _value_groups(self) -> list[Groups]:
        return [(*self._groups, (Var("value of the group", v.type, nullable(v)), v)) for v in self._others]

    def _parts(self, branch: Source, rows: Iterable[Row]) -> Iterator[Part]:
        for row in rows:
            key, bits, weight, rest = branch.split(row, len(self._groups))
            numbers = iter([value or 0 for value in rest])
            sums: list[tuple[Any, int]] = []
            for of_rows, of_counts in self._layout:
                count = weight if of_rows else cast(int, next(numbers))
                sums.append((0 if of_counts else next(numbers), count))
            yield Part(key, bits, weight, sums)

    def _value_parts(self, branch: Source, place: int, rows: Iterable[Row]) -> Iterator[ValuePart]:
        for row in rows:
            key, _, weight, _ = branch.split(row, len(self._groups) + 1)
            yield ValuePart(key[:-1], place, key[-1], weight)

    def entries(self) -> int:
        """Nothing is remembered."""
        return 0

    def explain(self) -> Iterator[str]:
        """What is computed below."""
        for branch in self._branches:
            yield from branch.explain()

    def save(self) -> Iterator[object]:
        """Nothing is remembered."""
        return iter(())

    def restore(self, parts: Iterator[object]) -> None:
        """Nothing is remembered."""


class LeafRows:
    """A stateless plan as an operator: its rows, equal ones together."""

    def __init__(self, source: Sequence[Source], columns: Groups) -> None:
        self._groups = LeafGroups(source, columns, ())

    def load(self) -> Delta:
        """All rows."""
        return _rows(self._groups.load())

    def change(self, changed: frozenset[str]) -> Delta:
        """The change of the rows."""
        return _rows(self._groups.change(changed))

    def entries(self) -> int:
        """Nothing is remembered."""
        return 0

    def explain(self) -> Iterator[str]:
        """What is computed below."""
        return self._groups.explain()

    def save(self) -> Iterator[object]:
        """Nothing is remembered."""
        return iter(())

    def restore(self, parts: Iterator[object]) -> None:
        """Nothing is remembered."""


def _rows(parts: Parts) -> Delta:
    return [AnnotatedRow(part.key, part.bits, part.weight) for part in parts if isinstance(part, Part)]
