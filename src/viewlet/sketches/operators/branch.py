"""A stateless plan whose rows and changes the database computes.

Only the changed rows and their join partners are read. Conditions are part of the text that the database
runs, so changes that no condition lets pass never leave it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeAlias, assert_never

from sqlglot import exp

from viewlet.core.names import Names
from viewlet.core.scalar import Const, Scalar, Var, call
from viewlet.core.text import show as show_scalar
from viewlet.core.types import BIGINT, Type, wide
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
from viewlet.sketches.operators.base import Row
from viewlet.sketches.operators.bloom import JoinFilters, links_of
from viewlet.sketches.operators.leaf import Groups, Marks, sum_type, summed
from viewlet.sketches.operators.reader import Reader
from viewlet.sketches.partition import Partition
from viewlet.sketches.plan_to_sql import plan_to_sql
from viewlet.sketches.scans import WEIGHT, Reading, scan_to_sql

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
    """A source that is the database."""

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
        self.split = Marks(self._annotated, partitions, marks.__getitem__).split
        self.tables = frozenset(scans)
        self.fixed = frozenset(table for table in scans if scans.count(table) > linear.count(table))

    def explain(self) -> Iterator[str]:
        """Which changes are joined in the database, and what keeps them from getting there."""
        joined = " with ".join(access.table for access in self._accesses) or "nothing"
        selected = [node.condition for node in walk(self._weighted) if isinstance(node, Filter)]
        pushed = f", selected there by {' and '.join(map(show_scalar, selected))}" if selected else ""
        yield f"changes of {joined} are summed up in the database{pushed}"
        yield from self._filters.explain()

    def expect(self, groups: Groups, calls: Sequence[AggregateCall]) -> None:
        """Nothing: queries are not prepared."""

    def load(self) -> None:
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
        """By one query."""

        def text() -> Text:
            return self._text(summed(self._annotated, groups, calls, self._names), {})

        return self._run(("all", tuple(groups), tuple(calls)), text, len(groups))

    def changed_rows(
        self, groups: Groups, calls: Sequence[AggregateCall], changed: frozenset[str]
    ) -> Iterator[Row]:
        """One sum of joins per access of a changed table."""
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
        sums = [(weight, AggregateCall("sum", self._weight))]
        sums += [(Var(self._names.fresh("part"), sum_type(c), True), self._weighed(c)) for c in calls]
        fragments = tuple((var, var) for var in self._annotated.variables)
        later = {a.binds: Reading.OLD for a in self._accesses[place + 1 :] if a.table in changed}
        readings = {**later, self._accesses[place].binds: Reading.CHANGE}
        return self._text(Aggregate(self._weighted, tuple(groups) + fragments, tuple(sums)), readings)

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

    def _text(self, plan: Aggregate, readings: Mapping[Binds, Reading]) -> Text:
        def source(scan: Scan) -> exp.Select:
            reading = readings.get(scan.binds, Reading.NEW)
            select = scan_to_sql(scan, reading, self._partitions, self._reader)
            restriction = None
            if reading is Reading.CHANGE:
                restriction = self._restrictions.get([a.binds for a in self._accesses].index(scan.binds))
            return select if restriction is None else select.where(restriction.copy())

        return self._reader.sql(plan_to_sql(plan, source)), [var.type for var in outputs(plan)]

    def _run(self, key: object, text: Callable[[], Text], groups: int) -> list[Row]:
        """Run a query, whose text is made once; rows that cancel in weight and in every sum are no change."""
        if key not in self._texts:
            if len(self._texts) > MAX_TEXTS:  # those that list values do not come again
                self._texts.clear()
            self._texts[key] = text()
        weight = groups + len(self._annotated.fragments)
        return [row for row in self._reader.rows(*self._texts[key]) if any(row[weight:])]
