"""Plans whose rows say where they come from: each row with the fragments of its lineage.

``annotate(Q)`` has the columns of ``Q`` and one fragment variable per access of a partitioned table. A row of
``Q`` may occur several times, once per combination of fragments::

    R        ->  R with fragment(x)                       Q1 ⋈ Q2  ->  annotate(Q1) ⋈ annotate(Q2)
    σ, π     ->  the same over annotate(Q)                Q1 ∪ Q2  ->  annotate(Q1) ∪ annotate(Q2)
    γ_G(Q)   ->  γ_G(Q) ⋈_G annotate(Q)                   top(Q)   ->  top(Q) ⋈ annotate(Q)
    δ(Q)     ->  annotate(Q)                              Q1 - Q2  ->  (Q1 - Q2) ⋈ annotate(Q1)

The rule for γ says that the lineage of a group is all its input rows. The fragment of a table access is
a column of the scan that no table has: what writes the plan as SQL, or feeds an engine, provides it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, assert_never

from viewlet.core.names import Names
from viewlet.core.node import transform
from viewlet.core.scalar import Const, Scalar, Var, call, conjunction, nullable
from viewlet.core.types import INT
from viewlet.plan.nodes import (
    Aggregate,
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
from viewlet.plan.scope import outputs, walk
from viewlet.sketches.partition import Partition

FRAGMENT_PREFIX = "_fragment_"

Fragments: TypeAlias = tuple[tuple[Partition, Var], ...]


def fragment_column(partition: Partition) -> str:
    """The column of a scan that holds the fragment of each row."""
    return FRAGMENT_PREFIX + partition.column


@dataclass(frozen=True, slots=True)
class Annotated:
    """A plan and, per access of a partitioned table, the variable with the fragment."""

    plan: Plan
    fragments: Fragments

    @property
    def variables(self) -> tuple[Var, ...]:
        """The fragment variables."""
        return tuple(var for _, var in self.fragments)


def names_of(plan: Plan) -> Names:
    """Fresh names for new variables of a plan."""
    return Names(frozenset(var.name for node in walk(plan) for var in outputs(node)))


def annotate(plan: Plan, partitions: Sequence[Partition], names: Names) -> Annotated:
    """The plan with the fragments of each row's lineage; variables of ``plan`` keep their names."""
    match plan:
        case Unit():
            return Annotated(plan, ())
        case Scan(table, binds):
            own = [partition for partition in partitions if partition.table == table]
            new = tuple((p, Var(names.fresh("fragment"), INT, False)) for p in own)
            return Annotated(Scan(table, binds + tuple((fragment_column(p), var) for p, var in new)), new)
        case Filter(inner) | Apply(inner):
            below = annotate(inner, partitions, names)
            return Annotated(replace(plan, input=below.plan), below.fragments)
        case Project(inner, columns):
            below = annotate(inner, partitions, names)
            kept = tuple((var, var) for var in below.variables)
            return Annotated(Project(below.plan, columns + kept), below.fragments)
        case Join():
            return _join(plan, partitions, names)
        case Aggregate() | Top():
            return _with_lineage(plan, plan.input, partitions, names)
        case Distinct(inner):
            return annotate(inner, partitions, names)
        case SetOperation():
            return _set_operation(plan, partitions, names)
        case _:
            assert_never(plan)


def lineage(query: Query, partitions: Sequence[Partition]) -> Annotated:
    """The fragments of a query's whole result: one row per combination of fragments, no other columns."""
    annotated = annotate(query.plan, partitions, names_of(query.plan))
    columns = tuple((var, var) for var in annotated.variables)
    return Annotated(Distinct(Project(annotated.plan, columns)), annotated.fragments)


def renamed_copy(plan: Plan, names: Names) -> tuple[Plan, dict[str, Var]]:
    """The plan over variables of its own, and what became of each."""
    fresh = {
        var.name: Var(names.fresh(var.name), var.type, var.nullable)
        for node in walk(plan)
        for var in outputs(node)
    }

    def rename(node: Any) -> Any:
        if isinstance(node, Var) and node.name in fresh:
            return replace(node, name=fresh[node.name].name)
        return node

    return transform(plan, rename), fresh


def _join(plan: Join, partitions: Sequence[Partition], names: Names) -> Annotated:
    left, right = annotate(plan.left, partitions, names), annotate(plan.right, partitions, names)
    fragments = right.fragments
    if plan.kind != "inner":
        fragments = tuple((p, replace(var, nullable=True)) for p, var in fragments)
    return Annotated(replace(plan, left=left.plan, right=right.plan), left.fragments + fragments)


def _with_lineage(
    plan: Aggregate | Top, inner: Plan, partitions: Sequence[Partition], names: Names
) -> Annotated:
    """The rows of an aggregation, or the first rows, joined with the annotated rows that they come from."""
    copy, fresh = renamed_copy(inner, names)
    below = annotate(copy, partitions, names)
    if not below.fragments:
        return Annotated(plan, ())
    if isinstance(plan, Top):
        # OFFSET skips result rows, not lineage: rows before it decide which rows come after.
        limit = None if plan.limit is None else plan.limit + plan.offset
        values: Plan = replace(plan, limit=limit, offset=0)
        keys: list[tuple[Var, Scalar]] = [(var, fresh[var.name]) for var in outputs(inner)]
    else:
        values = plan
        keys = [(var, transform(scalar, lambda n: _renamed(n, fresh))) for var, scalar in plan.groups]
    return _matched(values, keys, below, names)


def _renamed(node: Any, fresh: dict[str, Var]) -> Any:
    return replace(node, name=fresh[node.name].name) if isinstance(node, Var) and node.name in fresh else node


def _matched(values: Plan, keys: list[tuple[Var, Scalar]], below: Annotated, names: Names) -> Annotated:
    """``values`` joined with the annotated rows that have the same keys; NULL is the same as NULL."""
    copies = [(Var(names.fresh(v.name), s.type, nullable(s)), s) for v, s in keys]
    kept = tuple((var, var) for var in below.variables)
    source = Project(below.plan, tuple(copies) + kept)
    condition = conjunction(
        *(
            call("==" if var.nullable and copy.nullable else "=", var, copy)
            for (var, _), (copy, _) in zip(keys, copies, strict=True)
        )
    )
    return Annotated(Join("inner", values, source, condition), below.fragments)


def _set_operation(plan: SetOperation, partitions: Sequence[Partition], names: Names) -> Annotated:
    if plan.kind in ("union", "union_all"):
        return _union(plan, partitions, names)
    found = plan
    result = Annotated(found, ())
    for side in (plan.left,) if plan.kind.startswith("except") else (plan.left, plan.right):
        copy, fresh = renamed_copy(side, names)
        below = annotate(copy, partitions, names)
        if below.fragments:
            keys: list[tuple[Var, Scalar]] = [
                (column, fresh[var.name]) for column, var in zip(plan.columns, outputs(side), strict=True)
            ]
            matched = _matched(result.plan, keys, below, names)
            result = Annotated(matched.plan, result.fragments + matched.fragments)
    return result


def _union(plan: SetOperation, partitions: Sequence[Partition], names: Names) -> Annotated:
    """Rows of either side; the fragment of an access on the other side is NULL: no row of it took part."""
    sides = [annotate(side, partitions, names) for side in (plan.left, plan.right)]
    fragments = tuple(
        (p, Var(names.fresh("fragment"), INT, True)) for side in sides for p, _ in side.fragments
    )
    missing = Const(None, INT)
    columns: list[Plan] = []
    for number, (side, original) in enumerate(zip(sides, (plan.left, plan.right), strict=True)):
        own: list[Scalar] = list(side.variables)
        other: list[Scalar] = [missing] * len(sides[1 - number].fragments)
        values = [*outputs(original), *(own + other if number == 0 else other + own)]
        columns.append(Project(side.plan, tuple((Var(names.fresh("side"), v.type, True), v) for v in values)))
    variables = plan.columns + tuple(var for _, var in fragments)
    return Annotated(SetOperation("union_all", *columns, variables), fragments)
