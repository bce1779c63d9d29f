"""The part of a query that needs no memory, σ, π, ⋈, ∪ over tables: the database computes its changes.

Only the changed rows and their join partners are read, and they arrive grouped: what crosses from the
database is one row per group and combination of fragments, however many rows changed. Conditions are part of
the text that the database runs, so changes that no condition lets pass never leave it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias, assert_never, cast

from sqlglot import exp

from viewlet.core.names import Names
from viewlet.core.scalar import Const, Scalar, Var, call, nullable
from viewlet.core.text import show as show_scalar
from viewlet.core.types import BIGINT, Type, Value, wide
from viewlet.plan.nodes import (
    Aggregate,
    AggregateCall,
    Apply,
    Distinct,
    Filter,
    Join,
    Plan,
    Project,
    Scan,
    SetOperation,
    Top,
    Unit,
)
from viewlet.plan.scope import outputs, walk
from viewlet.sketches.errors import SketchError
from viewlet.sketches.lineage import annotate, by_value, names_of
from viewlet.sketches.operators.base import AnnotatedRow, Bits, Delta, Row, bit_of
from viewlet.sketches.operators.bloom import JoinFilters, links_of
from viewlet.sketches.operators.group import Calls, Part, Parts, ValuePart, filtered, split_calls
from viewlet.sketches.operators.reader import Reader
from viewlet.sketches.partition import Partition
from viewlet.sketches.plan_to_sql import plan_to_sql
from viewlet.sketches.scans import WEIGHT, Reading, scan_to_sql

Groups: TypeAlias = Sequence[tuple[Var, Scalar]]
Binds: TypeAlias = tuple[tuple[str, Var], ...]
Text: TypeAlias = tuple[str, list[Type]]
MAX_TEXTS = 100


class NotLinearError(SketchError):
    """A table is read where the change of the result is not a sum over its changed rows."""


def is_stateless(plan: Plan) -> bool:
    """Does a plan compute row by row, so that the database can compute its change alone?"""
    match plan:
        case Unit() | Scan():
            return True
        case Filter(inner) | Project(inner) | Apply(inner):
            return is_stateless(inner)
        case Join(_, left, right) | SetOperation("union_all", left, right):
            return is_stateless(left) and is_stateless(right)
        case Aggregate() | Distinct() | Top() | SetOperation():
            return False
        case _:
            assert_never(plan)


def accesses(plan: Plan) -> tuple[Scan, ...]:
    """The scans in which a stateless plan is linear: not those of nested queries, not what is padded."""
    match plan:
        case Scan():
            return (plan,)
        case Filter(inner) | Project(inner) | Apply(inner):
            return accesses(inner)
        case Join("inner", left, right):
            return accesses(left) + accesses(right)
        case Join("left", left, _):
            return accesses(left)
        case _:
            return ()


def weigh(plan: Plan, names: Names) -> tuple[Plan, tuple[Var, ...]]:
    """The plan with the weight of each linear access, whose product is the weight of a row.

    >>> from viewlet.plan.text import show
    >>> plan, weights = weigh(Filter(Scan("r", (("a", Var("a")),)), Var("a")), Names())
    >>> print(show(plan))
    filter a
      scan r(a:BIGINT?, _weight as weight:BIGINT)
    """
    match plan:
        case Scan(table, binds):
            weight = Var(names.fresh("weight"), BIGINT, False)
            return Scan(table, (*binds, (WEIGHT, weight))), (weight,)
        case Filter(inner) | Apply(inner):
            below, weights = weigh(inner, names)
            return replace(plan, input=below), weights
        case Project(inner, columns):
            below, weights = weigh(inner, names)
            return Project(below, columns + tuple((w, w) for w in weights)), weights
        case Join("inner", left, right):
            left, of_left = weigh(left, names)
            right, of_right = weigh(right, names)
            return replace(plan, left=left, right=right), of_left + of_right
        case Join("left", left, _):
            left, weights = weigh(left, names)
            return replace(plan, left=left), weights
        case _:
            return plan, ()


def _product(weights: Sequence[Var]) -> Scalar:
    product: Scalar = Const(1, BIGINT)
    for place, weight in enumerate(weights):
        product = weight if place == 0 else call("*", product, weight)
    return product


def branches(plan: Plan) -> list[Plan]:
    """A stateless plan as plans without ∪ whose union it is: Q ⋈ (A ∪ B) = (Q ⋈ A) ∪ (Q ⋈ B)"""
    match plan:
        case Filter(inner) | Project(inner) | Apply(inner):
            return [replace(plan, input=below) for below in branches(inner)]
        case Join("left", left, _):
            return [replace(plan, left=side) for side in branches(left)]
        case Join(_, left, right):
            return [replace(plan, left=a, right=b) for a in branches(left) for b in branches(right)]
        case SetOperation("union_all", left, right, columns):
            return [
                Project(branch, tuple(zip(columns, outputs(side), strict=True)))
                for side in (left, right)
                for branch in branches(side)
            ]
        case _:
            return [plan]


def _groups_by(partition: Partition, plan: Plan, groups: Groups) -> bool:
    """Is the attribute of every access a group? Then its values come for free, and tell the fragments."""
    grouped = {scalar.name for _, scalar in groups if isinstance(scalar, Var)}
    scans = [node for node in walk(plan) if isinstance(node, Scan) and node.table == partition.table]
    return all(any(c == partition.column and v.name in grouped for c, v in scan.binds) for scan in scans)


class Branch:
    """A stateless plan without ∪: its rows, summed up per group and fragments."""

    def __init__(
        self,
        plan: Plan,
        groups: Groups,
        partitions: Sequence[Partition],
        reader: Reader,
        filtering: bool,
    ) -> None:
        names = names_of(plan)
        marks = {p: by_value(p) if _groups_by(p, plan, groups) else reader.mark(p) for p in partitions}
        (self._annotated,) = annotate(plan, partitions, names, marks.__getitem__)
        self._weighted, weights = weigh(self._annotated.plan, names)
        self._weight = _product(weights)
        self._accesses = accesses(self._weighted)
        self._partitions, self._reader, self._names = partitions, reader, names
        scans = [node.table for node in walk(plan) if isinstance(node, Scan)]
        linear = [access.table for access in self._accesses]
        links = links_of(self._weighted, self._accesses) if filtering else [() for _ in self._accesses]
        self._filters = JoinFilters(links, reader)
        self._restrictions: dict[int, exp.Expr | None] = {}
        self._texts: dict[object, Text] = {}
        # Of each fragment in a row: the place of its partition, and the bits of the marks seen so far.
        self._marks: list[tuple[int, Partition, bool, dict[Value, int]]] = [
            (partitions.index(p), p, marks[p][0] != p.column, {}) for p, _ in self._annotated.fragments
        ]
        self.tables = frozenset(scans)
        self.fixed = frozenset(table for table in scans if scans.count(table) > linear.count(table))

    def explain(self) -> Iterator[str]:
        """Which changes are joined in the database, and what keeps them from getting there."""
        joined = " with ".join(access.table for access in self._accesses) or "nothing"
        selected = [node.condition for node in walk(self._weighted) if isinstance(node, Filter)]
        pushed = f", selected there by {' and '.join(map(show_scalar, selected))}" if selected else ""
        yield f"changes of {joined} are summed up in the database{pushed}"
        yield from self._filters.explain()

    def forget(self) -> None:
        """Filters begin anew: changes may have passed them by."""
        self._filters.blooms.clear()

    def begin(self, changed: frozenset[str]) -> None:
        """Find out which staged rows have partners."""
        self._filters.begin(changed)
        self._restrictions = {
            place: self._filters.restriction(place, access.table, changed)
            for place, access in enumerate(self._accesses)
            if access.table in changed
        }

    def all_rows(self, groups: Groups, calls: Sequence[AggregateCall]) -> list[Row]:
        """Per group and fragments: the number of rows, and the given sums and counts."""

        def text() -> Text:
            counted = (Var(self._names.fresh("weight"), wide(0), False), AggregateCall("count", None))
            named = [(Var(self._names.fresh("part"), _kind(c), True), c) for c in calls]
            return self._text(self._annotated.plan, groups, [counted, *named], {})

        return self._run(("all", tuple(groups), tuple(calls)), text, len(groups))

    def changed_rows(
        self, groups: Groups, calls: Sequence[AggregateCall], changed: frozenset[str]
    ) -> Iterator[Row]:
        """The same for the staged changes: one sum of joins per access of a changed table."""
        if changed & self.fixed:
            tables = ", ".join(sorted(changed & self.fixed))
            raise NotLinearError(f"{tables} is read by a nested query or as the padded side of an outer join")
        changed &= self.tables
        for place, access in enumerate(self._accesses):
            restriction = self._restrictions.get(place)
            if access.table in changed and restriction != exp.false():
                key = (place, changed, tuple(groups), tuple(calls), restriction)
                yield from self._run(key, partial(self._change, groups, calls, changed, place), len(groups))

    def _change(
        self, groups: Groups, calls: Sequence[AggregateCall], changed: frozenset[str], place: int
    ) -> Text:
        """``Δ_i = new_1 ⋈ ... ⋈ new_(i-1) ⋈ change_i ⋈ old_(i+1) ⋈ ...``"""
        weight = Var(self._names.fresh("weight"), wide(0), False)
        summed = [(weight, AggregateCall("sum", self._weight))]
        summed += [(Var(self._names.fresh("part"), _kind(c), True), self._weighed(c)) for c in calls]
        later = {a.binds: Reading.OLD for a in self._accesses[place + 1 :] if a.table in changed}
        readings = {**later, self._accesses[place].binds: Reading.CHANGE}
        return self._text(self._weighted, groups, summed, readings)

    def _weighed(self, aggregate: AggregateCall) -> AggregateCall:
        """``count(x) -> sum(w if x is not NULL)``, ``sum(x) -> sum(w * x)``, where w is 1 or -1."""
        argument = aggregate.argument
        assert argument is not None, "rows are counted by their weights"
        if aggregate.op == "count":
            present = call("not", call("is_null", argument))
            return AggregateCall("sum", call("case", present, self._weight, type=BIGINT))
        positive = call(">", self._weight, Const(0, BIGINT))
        signed = call("case", positive, argument, call("neg", argument), type=argument.type)
        return AggregateCall("sum", signed)

    def _text(self, plan: Plan, groups: Groups, calls: Calls, readings: Mapping[Binds, Reading]) -> Text:
        fragments = tuple((var, var) for var in self._annotated.variables)
        summed = Aggregate(plan, tuple(groups) + fragments, tuple(calls))

        def source(scan: Scan) -> exp.Select:
            reading = readings.get(scan.binds, Reading.NEW)
            select = scan_to_sql(scan, reading, self._partitions, self._reader)
            restriction = None
            if reading is Reading.CHANGE:
                restriction = self._restrictions.get([a.binds for a in self._accesses].index(scan.binds))
            return select if restriction is None else select.where(restriction.copy())

        return self._reader.sql(plan_to_sql(summed, source)), [var.type for var in outputs(summed)]

    def _run(self, key: object, text: Callable[[], Text], groups: int) -> list[Row]:
        """Run a query, whose text is made once; rows that cancel in weight and in every sum are no change."""
        if key not in self._texts:
            if len(self._texts) > MAX_TEXTS:  # those that list values do not come again
                self._texts.clear()
            self._texts[key] = text()
        weight = groups + len(self._annotated.fragments)
        return [row for row in self._reader.rows(*self._texts[key]) if any(row[weight:])]

    def split(self, row: Row, groups: int) -> tuple[Row, Bits, int, Row]:
        """A row of the above as its key, fragments, weight and sums."""
        weight = groups + len(self._marks)
        bits = [0] * len(self._partitions)
        for (place, partition, by_number, seen), mark in zip(self._marks, row[groups:weight], strict=True):
            if mark not in seen:
                seen[mark] = bit_of(cast(int, mark) if by_number else partition.fragment_of(mark))
            bits[place] |= seen[mark]
        return row[:groups], tuple(bits), cast(int, row[weight]), row[weight + 1 :]


def _kind(aggregate: AggregateCall) -> Type:
    """The type of an exact sum; that of a count."""
    if aggregate.op == "count" or aggregate.argument is None:
        return wide(0)
    return wide(aggregate.argument.type.scale)


class LeafGroups:
    """A stateless plan as the input of a γ, summed up by the database."""

    def __init__(self, source: Sequence[Branch], groups: Groups, calls: Calls) -> None:
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

    def load(self) -> Parts:
        """All rows."""
        for branch in self._branches:
            branch.forget()
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

    def _parts(self, branch: Branch, rows: Iterable[Row]) -> Iterator[Part]:
        for row in rows:
            key, bits, weight, rest = branch.split(row, len(self._groups))
            numbers = iter([value or 0 for value in rest])
            sums: list[tuple[Any, int]] = []
            for of_rows, of_counts in self._layout:
                count = weight if of_rows else cast(int, next(numbers))
                sums.append((0 if of_counts else next(numbers), count))
            yield Part(key, bits, weight, sums)

    def _value_parts(self, branch: Branch, place: int, rows: Iterable[Row]) -> Iterator[ValuePart]:
        for row in rows:
            key, _, weight, _ = branch.split(row, len(self._groups) + 1)
            yield ValuePart(key[:-1], place, key[-1], weight)

    def entries(self) -> int:
        """Nothing is remembered."""
        return 0

    def explain(self) -> Iterator[str]:
        """What the database computes."""
        for branch in self._branches:
            yield from branch.explain()

    def save(self) -> Iterator[object]:
        """Nothing is remembered."""
        return iter(())

    def restore(self, parts: Iterator[object]) -> None:
        """Nothing is remembered."""


class LeafRows:
    """A stateless plan as an operator: its rows, equal ones together."""

    def __init__(self, source: Sequence[Branch], columns: Groups) -> None:
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
        """What the database computes."""
        return self._groups.explain()

    def save(self) -> Iterator[object]:
        """Nothing is remembered."""
        return iter(())

    def restore(self, parts: Iterator[object]) -> None:
        """Nothing is remembered."""


def _rows(parts: Parts) -> Delta:
    return [AnnotatedRow(part.key, part.bits, part.weight) for part in parts if isinstance(part, Part)]
