"""γ over annotated rows: per group the aggregates, the fragments of its rows, and how many rows need each.

``S[g] = (count, sums, values, F_g)`` with ``F_g[f]`` the weight of the group's rows that have fragment ``f``.
A batch is added first; then each group that it touched gives one row with weight -1 for what it was and one
with weight +1 for what it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, TypeAlias, cast

from viewlet.core.functions import compile_scalar
from viewlet.core.scalar import Const, Scalar, Var, call
from viewlet.core.types import INT, Value
from viewlet.plan.nodes import AggregateCall
from viewlet.sketches.operators.base import (
    AnnotatedRow,
    Bits,
    Delta,
    Operator,
    Row,
    count_fragments,
    counted_bits,
)
from viewlet.sketches.operators.stateless import slots_of
from viewlet.sketches.operators.values import Values, is_linear, total_of, value_of

Calls: TypeAlias = Sequence[tuple[Var, AggregateCall]]


class Part(NamedTuple):
    """Rows of one group with the same fragments: their weight, and per linear aggregate a sum and a count."""

    key: Row
    bits: Bits
    weight: int
    sums: Sequence[tuple[Any, int]]


class ValuePart(NamedTuple):
    """Rows of one group that have the same value of the non-linear aggregate number ``place``."""

    key: Row
    place: int
    value: Value
    weight: int


Parts: TypeAlias = Iterable[Part | ValuePart]


class Grouped(Protocol):
    """The input of a γ, already summed up as far as possible."""

    def load(self) -> Parts:
        """All rows."""

    def change(self, changed: frozenset[str]) -> Parts:
        """The change."""

    def entries(self) -> int:
        """See :class:`~viewlet.sketches.operators.base.Operator`."""

    def explain(self) -> Iterator[str]:
        """See :class:`~viewlet.sketches.operators.base.Operator`."""

    def save(self) -> Iterator[object]:
        """See :class:`~viewlet.sketches.operators.base.Operator`."""

    def restore(self, parts: Iterator[object]) -> None:
        """See :class:`~viewlet.sketches.operators.base.Operator`."""


def split_calls(calls: Calls) -> tuple[Calls, Calls]:
    """The linear aggregates, and the others."""
    return [c for c in calls if is_linear(c[1])], [c for c in calls if not is_linear(c[1])]


def filtered(aggregate: AggregateCall) -> Scalar | None:
    """The argument of an aggregate with its FILTER folded in: NULL where the filter is not TRUE."""
    if aggregate.filter is None:
        return aggregate.argument
    argument = Const(1, INT) if aggregate.argument is None else aggregate.argument
    return call("case", aggregate.filter, argument, type=argument.type)


@dataclass(slots=True)
class State:
    """What is remembered of one group."""

    count: int
    sums: list[list[Any]]
    values: list[Values]
    fragments: list[dict[int, int]]
    bits: Bits = field(default=())
    moved: bool = True
    """May the fragments be others than ``bits`` says?"""


class Group:
    """The operator γ."""

    def __init__(self, input: Grouped, calls: Calls, partitions: int, bound: int | None) -> None:
        self._input, self._partitions, self._bound = input, partitions, bound
        linear, others = split_calls(calls)
        self._linear = [total_of(aggregate, var.type) for var, aggregate in linear]
        self._others = [(aggregate, var.type) for var, aggregate in others]
        self._order = [
            (linear.index(c), True) if is_linear(c[1]) else (others.index(c), False) for c in calls
        ]
        self._groups: dict[Row, State] = {}

    def load(self) -> Delta:
        """All groups."""
        self._groups = {}
        return self._take(self._input.load())

    def change(self, changed: frozenset[str]) -> Delta:
        """The groups that changed, as they were and as they are."""
        return self._take(self._input.change(changed))

    def _take(self, parts: Parts) -> Delta:
        before: dict[Row, AnnotatedRow | None] = {}
        groups, add = self._groups, self._add
        for part in parts:
            key = part.key
            state = groups.get(key)
            if key not in before:
                before[key] = None if state is None else self._row(key, state, -1)
            if state is None:
                state = groups[key] = self._empty()
            add(state, part)
        delta: Delta = []
        for key, old in before.items():
            delta.extend(self._difference(key, old))
        return delta

    def _difference(self, key: Row, old: AnnotatedRow | None) -> Iterator[AnnotatedRow]:
        state = self._groups[key]
        new = None
        if state.count:
            if state.moved:
                state.bits, state.moved = tuple([counted_bits(counts) for counts in state.fragments]), False
            new = self._row(key, state, 1)
        else:
            del self._groups[key]
        if old is not None and new is not None and old.row == new.row and old.bits == new.bits:
            return
        if old is not None:
            yield old
        if new is not None:
            yield new

    def _empty(self) -> State:
        sums: list[list[Any]] = [[0, 0] for _ in self._linear]
        values = [
            Values(aggregate.op == "max", self._bound if aggregate.op in ("min", "max") else None)
            for aggregate, _ in self._others
        ]
        return State(0, sums, values, [{} for _ in range(self._partitions)])

    def _add(self, state: State, part: Part | ValuePart) -> None:
        if isinstance(part, ValuePart):
            state.values[part.place].add(part.value, part.weight)
            return
        _, fragments, weight, sums = part
        state.count += weight
        for total, (units, count) in zip(state.sums, sums, strict=True):
            total[0] += units
            total[1] += count
        for counts, bits in zip(state.fragments, fragments, strict=True):
            before = len(counts)
            count_fragments(counts, bits, weight)
            # One fragment can leave while another comes, unless there is one only.
            state.moved = state.moved or len(counts) != before or bits & (bits - 1) != 0

    def _row(self, key: Row, state: State, weight: int) -> AnnotatedRow:
        values = tuple(
            [
                self._linear[place](*state.sums[place])
                if linear
                else value_of(self._others[place][0], state.values[place], self._others[place][1])
                for place, linear in self._order
            ]
        )
        return AnnotatedRow(key + values, state.bits, weight)

    def entries(self) -> int:
        """Groups, their fragments and their values."""
        own = sum(
            1 + sum(map(len, s.fragments)) + sum(len(v.counts) for v in s.values)
            for s in self._groups.values()
        )
        return own + self._input.entries()

    def explain(self) -> Iterator[str]:
        """How many groups there are."""
        yield f"aggregation: {len(self._groups)} groups; a batch copies those it touches"
        yield from self._input.explain()

    def save(self) -> Iterator[object]:
        """The groups."""
        yield {
            key: (state.count, state.sums, [values.saved() for values in state.values], state.fragments)
            for key, state in self._groups.items()
        }
        yield from self._input.save()

    def restore(self, parts: Iterator[object]) -> None:
        """The groups."""
        self._groups = {}
        for key, (count, sums, values, fragments) in cast("dict[Row, Any]", next(parts)).items():
            state = self._groups[key] = self._empty()
            state.count, state.sums, state.fragments = count, sums, fragments
            state.bits = tuple([counted_bits(counts) for counts in fragments])
            for kept, saved in zip(state.values, values, strict=True):
                kept.restore(*saved)
        self._input.restore(parts)


class GroupedRows:
    """The rows of an operator as the input of a γ: nested aggregation, DISTINCT."""

    def __init__(
        self, input: Operator, keys: Sequence[Scalar], calls: Calls, variables: Sequence[Var]
    ) -> None:
        self._input = input
        slots = slots_of(variables)
        self._keys = [compile_scalar(key, slots) for key in keys]
        linear, others = split_calls(calls)
        arguments = [filtered(aggregate) for _, aggregate in linear]
        self._arguments = [None if a is None else compile_scalar(a, slots) for a in arguments]
        self._is_count = [aggregate.op == "count" for _, aggregate in linear]
        given = [cast(Scalar, filtered(aggregate)) for _, aggregate in others]
        self._values = [compile_scalar(argument, slots) for argument in given]

    def load(self) -> Parts:
        """All rows."""
        return self._parts(self._input.load())

    def change(self, changed: frozenset[str]) -> Parts:
        """The changed rows."""
        return self._parts(self._input.change(changed))

    def _parts(self, delta: Delta) -> Iterator[Part | ValuePart]:
        for change in delta:
            row, weight = change.row, change.weight
            key = tuple([of(row) for of in self._keys])
            sums: list[tuple[Any, int]] = []
            for of, is_count in zip(self._arguments, self._is_count, strict=True):
                value: Any = 1 if of is None else of(row)
                present = value is not None
                sums.append((0 if is_count or not present else value * weight, weight * present))
            yield Part(key, change.bits, weight, sums)
            for place, of_value in enumerate(self._values):
                yield ValuePart(key, place, of_value(row), weight)

    def entries(self) -> int:
        """Nothing of its own."""
        return self._input.entries()

    def explain(self) -> Iterator[str]:
        """Nothing of its own."""
        return self._input.explain()

    def save(self) -> Iterator[object]:
        """Nothing of its own."""
        return self._input.save()

    def restore(self, parts: Iterator[object]) -> None:
        """Nothing of its own."""
        self._input.restore(parts)
