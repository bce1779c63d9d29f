"""May the sketch of one query answer another? Rules R1 to R5, refused unless one of them says so.

The sketch of ``Q1`` serves ``Q2`` if the lineage of ``Q2`` lies in that of ``Q1`` and ``Q2`` is safe. The two
plans are walked together; a row of ``Q2`` has a counterpart in ``Q1`` with at least its lineage, and values
relate as in ``facts.py``: a stricter WHERE takes rows from groups, so their values move in known directions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from viewlet.core.node import transform
from viewlet.core.scalar import TRUE, Scalar, Var, conjunction, conjuncts
from viewlet.plan.conditions import reads
from viewlet.plan.nodes import (
    Aggregate,
    AggregateCall,
    Distinct,
    Filter,
    Join,
    Plan,
    Project,
    Query,
    Scan,
    SetOperation,
    Top,
)
from viewlet.plan.scope import outputs
from viewlet.plan.text import show_aggregate
from viewlet.sketches.closed import closed
from viewlet.sketches.errors import UnsafeError
from viewlet.sketches.facts import Assumption, Fact, Limits, Relation, aggregate_fact, fact_of, landmark
from viewlet.sketches.implication import implies
from viewlet.sketches.operators.build import essential


@dataclass(frozen=True, slots=True)
class Covering:
    """How the rows of a plan lie in those of another.

    ``names`` maps variables of the new plan to the old one's. If the rows are not the ``same``, which are
    missing depends on the variables ``missing_by`` alone.
    """

    names: Mapping[str, str]
    facts: Mapping[str, Fact]
    same: bool
    missing_by: frozenset[str] = frozenset()
    assumes: frozenset[Assumption] = frozenset()


class NotCoveredError(UnsafeError):
    """The old sketch may lack fragments that the new query needs."""


def covers(old: Query, new: Query, limits: Limits) -> frozenset[Assumption]:
    """What must hold so that the sketch of ``old`` holds the lineage of ``new``; else an error."""
    return _cover(essential(old).plan, essential(new).plan, limits).assumes


def _cover(old: Plan, new: Plan, limits: Limits) -> Covering:
    old_condition, old_inner = _condition(old)
    new_condition, new_inner = _condition(new)
    if old_condition != TRUE or new_condition != TRUE:
        return _selection(_cover(old_inner, new_inner, limits), old_condition, new_condition)
    match old, new:
        case Scan(table), Scan(other) if table == other:
            return _scan(old, new, limits)
        case Project(below, columns), Project(other, others):
            return _projection(_cover(below, other, limits), columns, others)
        case Join("inner", left, right), Join("inner", other_left, other_right):
            both = _pair(_cover(left, other_left, limits), _cover(right, other_right, limits))
            return _selection(both, old.condition, new.condition)
        case Aggregate(below), Aggregate(other):
            return _aggregation(_cover(below, other, limits), old, new)
        case Distinct(below), Distinct(other):
            return _still(_cover(below, other, limits), "DISTINCT")
        case Top(below), Top(other):
            return _top(_cover(below, other, limits), old, new)
        case SetOperation("union" | "union_all" as kind), SetOperation(other_kind) if kind == other_kind:
            return _union(_cover(old.left, new.left, limits), _cover(old.right, new.right, limits), old, new)
        case _:
            raise NotCoveredError(f"{type(new).__name__} where the sketch has {type(old).__name__}")


def _condition(plan: Plan) -> tuple[Scalar, Plan]:
    if not isinstance(plan, Filter):
        return TRUE, plan
    above, inner = _condition(plan.input)
    return conjunction(plan.condition, above), inner


def _scan(old: Scan, new: Scan, limits: Limits) -> Covering:
    known = {column: var.name for column, var in old.binds}
    # A column that only the new query reads needs a name that no variable of the old plan has.
    names = {var.name: known.get(column, f"{new.table}.{column}") for column, var in new.binds}
    columns = [(column, var.type, names[var.name]) for column, var in new.binds]
    columns += [(column, var.type, var.name) for column, var in old.binds]
    facts = {
        name: landmark(new.table, column, *limits(new.table, column))
        if kind.is_numeric
        else Fact(label=column)
        for column, kind, name in columns
    }
    return Covering(names, facts, True)


def _renamed(scalar: Any, names: Mapping[str, str]) -> Any:
    def rename(node: Any) -> Any:
        return replace(node, name=names[node.name]) if isinstance(node, Var) and node.name in names else node

    return transform(scalar, rename)


def _selection(covering: Covering, old: Scalar, new: Scalar) -> Covering:
    """R1: the new condition implies the old one, also for values that have moved; R3 where they have."""
    new = _renamed(new, covering.names)
    if not implies(new, old):
        raise NotCoveredError("R1: the condition does not imply the one that the sketch was captured for")
    unknown = reads(old) - covering.facts.keys()
    if unknown:
        raise NotCoveredError(f"R1: the condition on {', '.join(sorted(unknown))} is missing")
    try:
        _, assumes = closed(old, covering.facts)
    except UnsafeError as error:
        raise NotCoveredError(f"R3: {error}") from None
    same = covering.same and implies(old, new)
    stricter = [part for part in conjuncts(new) if not implies(old, part)]
    missing = covering.missing_by.union(*(reads(part) for part in stricter))
    return replace(covering, same=same, missing_by=missing, assumes=covering.assumes | assumes)


def _projection(covering: Covering, old: Any, new: Any) -> Covering:
    by_scalar = {scalar: var.name for var, scalar in old}
    names: dict[str, str] = {}
    facts: dict[str, Fact] = {}
    for var, scalar in new:
        renamed = _renamed(scalar, covering.names)
        name = by_scalar.get(renamed)
        if name is None:
            raise NotCoveredError(f"the column {var.name} is not computed by the sketch's query")
        names[var.name] = name
        facts[name] = fact_of(renamed, covering.facts)
    missing = covering.missing_by if covering.missing_by <= facts.keys() else frozenset({"*"})
    return replace(covering, names=names, facts=facts, missing_by=missing)


def _pair(left: Covering, right: Covering) -> Covering:
    return Covering(
        {**left.names, **right.names},
        {**left.facts, **right.facts},
        left.same and right.same,
        left.missing_by | right.missing_by,
        left.assumes | right.assumes,
    )


def _aggregation(covering: Covering, old: Aggregate, new: Aggregate) -> Covering:
    """R2: rows are missing by group only, so groups are whole; R3: else their values move."""
    old_groups = {scalar: var.name for var, scalar in old.groups}
    names: dict[str, str] = {}
    facts: dict[str, Fact] = {}
    for var, scalar in new.groups:
        renamed = _renamed(scalar, covering.names)
        fact = fact_of(renamed, covering.facts)
        if renamed not in old_groups or fact.relation is not Relation.EQUAL:
            raise NotCoveredError("the groups are not those of the sketch's query")
        names[var.name] = old_groups[renamed]
        facts[old_groups[renamed]] = fact
    if len(names) != len(old.groups):
        raise NotCoveredError("the groups are not those of the sketch's query")
    grouped = {scalar.name for scalar in old_groups if isinstance(scalar, Var)}
    whole = covering.same or (covering.missing_by <= grouped and _equal(covering))
    old_calls = {call: var.name for var, call in old.aggregates}
    for call, name in old_calls.items():
        if _reads_of(call) <= covering.facts.keys():
            facts[name] = aggregate_fact(call, covering.facts, whole, show_aggregate(call))
    for var, call in new.aggregates:
        renamed = _renamed(call, covering.names)
        name = old_calls.get(renamed, f"new {var.name}")
        names[var.name] = name
        facts[name] = aggregate_fact(renamed, covering.facts, whole, show_aggregate(call))
    return replace(covering, names=names, facts=facts, missing_by=frozenset(names.values()))


def _reads_of(call: AggregateCall) -> frozenset[str]:
    parts = [part for part in (call.argument, call.filter) if part is not None]
    return frozenset().union(*(reads(part) for part in parts))


def _equal(covering: Covering) -> bool:
    return all(fact.relation is Relation.EQUAL for fact in covering.facts.values())


def _still(covering: Covering, what: str) -> Covering:
    if not _equal(covering):
        raise NotCoveredError(f"R3: {what} over values that move")
    return covering


def _top(covering: Covering, old: Top, new: Top) -> Covering:
    """R4: the first rows of the same rows in the same order, not more of them."""
    keys = tuple(_renamed(key, covering.names) for key in new.keys)
    if not covering.same or keys != old.keys:
        raise NotCoveredError(
            "R4: the rows before LIMIT, or their order, are not those of the sketch's query"
        )
    if old.limit is not None and (new.limit is None or new.limit + new.offset > old.limit + old.offset):
        raise NotCoveredError("R4: LIMIT asks for more rows than the sketch was captured for")
    return covering


def _union(left: Covering, right: Covering, old: SetOperation, new: SetOperation) -> Covering:
    if not (_equal(left) and _equal(right)):
        raise NotCoveredError("R3: UNION over values that move")
    for covering, side, other in ((left, old.left, new.left), (right, old.right, new.right)):
        if [covering.names[var.name] for var in outputs(other)] != [var.name for var in outputs(side)]:
            raise NotCoveredError("the columns of UNION are not those of the sketch's query")
    names = {a.name: b.name for a, b in zip(new.columns, old.columns, strict=True)}
    facts = {name: Fact() for name in names.values()}
    assumes = left.assumes | right.assumes
    return Covering(names, facts, left.same and right.same, frozenset({"*"}), assumes)
