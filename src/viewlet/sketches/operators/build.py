"""A plan as incremental operators: the largest parts that need no memory are left to who sums them up."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias, assert_never

from viewlet.core.node import walk as walk_scalar
from viewlet.core.scalar import Call, Scalar, Var
from viewlet.core.types import Kind
from viewlet.plan.nodes import (
    Aggregate,
    AggregateCall,
    Apply,
    Distinct,
    Filter,
    Join,
    Plan,
    Project,
    Query,
    Scan,
    SetOperation,
    Top,
    Unit,
)
from viewlet.plan.prune_columns import prune_columns
from viewlet.plan.scope import outputs, walk
from viewlet.sketches.errors import SketchError
from viewlet.sketches.operators import stateless
from viewlet.sketches.operators.base import Operator
from viewlet.sketches.operators.branch import branches, is_stateless
from viewlet.sketches.operators.group import Calls, Group, Grouped, GroupedRows
from viewlet.sketches.operators.leaf import Groups, LeafGroups, LeafRows, Source
from viewlet.sketches.operators.reader import Reader
from viewlet.sketches.operators.top import Top as TopOperator

MakeSource: TypeAlias = Callable[[Plan, Groups], Source]
"""Who sums up a stateless plan by some groups."""


class NotIncrementalError(SketchError):
    """No operator can follow this part of the query; its sketch is captured again instead."""


def essential(query: Query) -> Query:
    """The query without its result columns: which rows there are decides the sketch, not what they show."""
    return prune_columns(Query(query.plan, ()))


class Builder:
    """Turns the plan of one sketch into operators.

    Parts that need no memory are left to sources. ``bound`` limits the buffers of MIN, MAX and top-k.
    """

    def __init__(self, partitions: int, reader: Reader, bound: int | None, source: MakeSource) -> None:
        self._partitions, self._reader, self._bound, self._source = partitions, reader, bound, source

    def root(self, query: Query) -> Operator:
        """The operator whose annotated rows are counted into the sketch."""
        plan = essential(query).plan
        return LeafRows(self._leaf(plan, ()), ()) if is_stateless(plan) else self._operator(plan)

    def _leaf(self, plan: Plan, groups: Groups) -> list[Source]:
        return [self._source(branch, groups) for branch in branches(plan)]

    def _operator(self, plan: Plan) -> Operator:
        """An operator that gives the rows of ``outputs(plan)``."""
        if is_stateless(plan):
            whole = tuple((var, var) for var in outputs(plan))
            return LeafRows(self._leaf(plan, whole), whole)
        match plan:
            case Filter(inner, condition):
                _refuse_order_of_text(condition, self._reader)
                return stateless.selection(self._operator(inner), condition, outputs(inner))
            case Project(inner, columns):
                return stateless.projection(self._operator(inner), [s for _, s in columns], outputs(inner))
            case Aggregate(inner, groups, calls):
                return self._group(inner, groups, calls)
            case Distinct(inner):
                return self._group(inner, tuple((var, var) for var in outputs(inner)), ())
            case SetOperation("union_all", left, right):
                return stateless.Union(self._operator(left), self._operator(right))
            case SetOperation("union", left, right, columns):
                return self._operator(Distinct(SetOperation("union_all", left, right, columns)))
            case SetOperation(kind):
                raise NotIncrementalError(f"{kind.upper().replace('_', ' ')} is not followed incrementally")
            case Top(inner, keys, limit, offset):
                if limit is None and not offset:
                    return self._operator(inner)
                if limit is None:
                    raise NotIncrementalError("OFFSET without LIMIT is not followed incrementally")
                below = self._operator(inner)
                for key in keys:
                    _refuse_rounded(key.scalar)
                    _refuse_language(key.scalar, self._reader)
                return TopOperator(below, keys, limit + offset, outputs(inner), self._bound)
            case Join():
                raise NotIncrementalError(
                    "a join of the result of an aggregation is not followed incrementally"
                )
            case Apply():
                raise NotIncrementalError("a nested query above an aggregation is not followed incrementally")
            case Unit() | Scan():
                raise AssertionError("tables need no memory")
            case _:
                assert_never(plan)

    def _group(self, inner: Plan, groups: tuple[tuple[Var, Scalar], ...], calls: Calls) -> Operator:
        if not groups:
            raise NotIncrementalError("an aggregate without GROUP BY has no sketch")
        for _, aggregate in calls:
            _refuse_inexact(aggregate, self._reader)
        source: Grouped
        if is_stateless(inner):
            source = LeafGroups(self._leaf(inner, groups), groups, calls)
        else:
            keys = [scalar for _, scalar in groups]
            source = GroupedRows(self._operator(inner), keys, calls, outputs(inner))
        return Group(source, calls, self._partitions, self._bound)


def refuse_inexact(plan: Plan, reader: Reader) -> None:
    """Refuse a plan that would mean something else if this process computed it, and not its database."""
    for node in walk(plan):
        match node:
            case Aggregate(_, _, calls):
                for _, aggregate in calls:
                    _refuse_inexact(aggregate, reader)
            case Filter(_, condition) | Join(_, _, _, condition):
                _refuse_order_of_text(condition, reader)


def _refuse_order_of_text(condition: Scalar, reader: Reader) -> None:
    for part in walk_scalar(condition):
        if isinstance(part, Call) and part.op in ("<", "<=", ">", ">="):
            _refuse_language(part.args[0], reader)


def _refuse_language(scalar: Scalar, reader: Reader) -> None:
    if scalar.type.kind is Kind.VARCHAR and not reader.text_is_bytes:
        raise NotIncrementalError("the order of text is the database's own")


def _refuse_inexact(aggregate: AggregateCall, reader: Reader) -> None:
    """Sums of doubles depend on the order of rows, and averages of decimals on who rounds them."""
    if aggregate.argument is None or aggregate.op == "count":
        return
    if aggregate.op in ("min", "max"):
        _refuse_language(aggregate.argument, reader)
        return
    kind = aggregate.argument.type
    if kind.is_floating:
        raise NotIncrementalError(f"{aggregate.op} over {kind} is rounded differently by every order of rows")
    if aggregate.op != "sum" and not kind.is_integer:
        raise NotIncrementalError(f"{aggregate.op} over {kind} is rounded differently by every database")


def _refuse_rounded(scalar: Scalar) -> None:
    if scalar.type.is_floating and not isinstance(scalar, Var):
        raise NotIncrementalError(f"the order of a computed {scalar.type} depends on who rounds it")
