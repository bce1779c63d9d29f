"""Plans whose rows say where they come from: each row with the fragments of its lineage.

``annotate(Q)`` has the columns of ``Q`` and one fragment variable per access of a partitioned table. A row of
``Q`` may occur several times, once per combination of fragments::

    R        ->  R with fragment(x)                       Q1 ⋈ Q2  ->  annotate(Q1) ⋈ annotate(Q2)
    σ, π     ->  the same over annotate(Q)                Q1 ∪ Q2  ->  annotate(Q1) ∪ annotate(Q2)
    γ_G(Q)   ->  γ_G(Q) ⋈_G annotate(Q)                   top(Q)   ->  top(Q) ⋈ annotate(Q)
    δ(Q)     ->  annotate(Q)                              Q1 - Q2  ->  (Q1 - Q2) ⋈ annotate(Q1)

The rule for γ says that the lineage of a group is all its input rows. How a table access tells its fragment
is its reader's choice (:data:`Mark`): by the value of the attribute, from which the fragment follows, or by
a column that no table has and that the reader provides.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, TypeAlias, assert_never
from zlib import crc32

from viewlet.core.names import Names
from viewlet.core.node import transform
from viewlet.core.scalar import Scalar, Var, call, conjunction, nullable
from viewlet.core.types import INT, Type
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
Mark: TypeAlias = Callable[[Partition], tuple[str, Type]]
"""The column of a scan that tells the fragment, and its type."""


def by_value(partition: Partition) -> tuple[str, Type]:
    """The attribute itself tells the fragment."""
    return partition.column, partition.type


def by_fragment(partition: Partition) -> tuple[str, Type]:
    """The reader provides the number of the fragment."""
    return fragment_column(partition), INT


@lru_cache(maxsize=256)
def fragment_column(partition: Partition) -> str:
    """The column of a scan that holds the fragment of each row; partitions of one column differ in name.

    It is asked for with every batch, and the text of many bounds takes a while to write.

    >>> from viewlet.core.types import INT
    >>> fragment_column(Partition("r", "a", INT, (10, 20)))
    '_fragment_a_5bc7fd9b'
    """
    return f"{FRAGMENT_PREFIX}{partition.column}_{crc32(repr(partition.bounds).encode()):08x}"


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


def annotate(plan: Plan, partitions: Sequence[Partition], names: Names, mark: Mark) -> list[Annotated]:
    """The plan with the fragments of each row's lineage, as plans whose union that is: one without ∪.

    Variables of ``plan`` keep their names. What no fragment can tell apart from a part of another plan, such
    as the same rows without partitioned tables, is left out.
    """
    match plan:
        case Unit():
            return [Annotated(plan, ())]
        case Scan(table, binds):
            marks = [(p, mark(p)) for p in partitions if p.table == table]
            new = tuple((p, column, Var(names.fresh("fragment"), kind)) for p, (column, kind) in marks)
            annotated = Scan(table, binds + tuple((column, var) for _, column, var in new))
            return [Annotated(annotated, tuple((p, var) for p, _, var in new))]
        case Filter(inner) | Apply(inner):
            return [
                Annotated(replace(plan, input=below.plan), below.fragments)
                for below in annotate(inner, partitions, names, mark)
            ]
        case Project(inner, columns):
            return [
                Annotated(Project(below.plan, columns + _kept(below)), below.fragments)
                for below in annotate(inner, partitions, names, mark)
            ]
        case Join():
            return _join(plan, partitions, names, mark)
        case Aggregate() | Top():
            return _with_lineage(plan, plan.input, partitions, names, mark)
        case Distinct(inner):
            return annotate(inner, partitions, names, mark)
        case SetOperation():
            return _set_operation(plan, partitions, names, mark)
        case _:
            assert_never(plan)


def _kept(below: Annotated) -> tuple[tuple[Var, Scalar], ...]:
    return tuple((var, var) for var in below.variables)


def lineage(query: Query, partitions: Sequence[Partition], mark: Mark) -> list[Annotated]:
    """The fragments of a query's whole result: one row per combination of fragments, no other columns."""
    parts = annotate(query.plan, partitions, names_of(query.plan), mark)
    return [
        Annotated(Distinct(Project(part.plan, _kept(part))), part.fragments)
        for part in parts
        if part.fragments
    ]


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


def _join(plan: Join, partitions: Sequence[Partition], names: Names, mark: Mark) -> list[Annotated]:
    """Both sides' fragments; of an outer join the preserved side's alone, which its partners share (S6)."""
    lefts = annotate(plan.left, partitions, names, mark)
    if plan.kind != "inner":
        return [Annotated(replace(plan, left=left.plan), left.fragments) for left in lefts]
    return [
        Annotated(replace(plan, left=left.plan, right=right.plan), left.fragments + right.fragments)
        for left in lefts
        for right in annotate(plan.right, partitions, names, mark)
    ]


def _with_lineage(
    plan: Aggregate | Top, inner: Plan, partitions: Sequence[Partition], names: Names, mark: Mark
) -> list[Annotated]:
    """The rows of an aggregation, or the first rows, joined with the annotated rows that they come from."""
    copy, fresh = renamed_copy(inner, names)
    keys: list[tuple[Var, Scalar]]
    if isinstance(plan, Top):
        # OFFSET skips result rows, not lineage: rows before it decide which rows come after.
        limit = None if plan.limit is None else plan.limit + plan.offset
        values: Plan = replace(plan, limit=limit, offset=0)
        keys = [(var, fresh[var.name]) for var in outputs(inner)]
    else:
        values = plan
        keys = [(var, transform(scalar, lambda n: _renamed(n, fresh))) for var, scalar in plan.groups]
    parts = [part for part in annotate(copy, partitions, names, mark) if part.fragments]
    return [_matched(values, keys, part, names) for part in parts] or [Annotated(plan, ())]


def _renamed(node: Any, fresh: dict[str, Var]) -> Any:
    return replace(node, name=fresh[node.name].name) if isinstance(node, Var) and node.name in fresh else node


def _matched(values: Plan, keys: list[tuple[Var, Scalar]], below: Annotated, names: Names) -> Annotated:
    """``values`` joined with the annotated rows that have the same keys; NULL is the same as NULL."""
    copies = [(Var(names.fresh(v.name), s.type, nullable(s)), s) for v, s in keys]
    source = Project(below.plan, tuple(copies) + _kept(below))
    condition = conjunction(
        *(
            call("==" if var.nullable and copy.nullable else "=", var, copy)
            for (var, _), (copy, _) in zip(keys, copies, strict=True)
        )
    )
    return Annotated(Join("inner", values, source, condition), below.fragments)


def _set_operation(
    plan: SetOperation, partitions: Sequence[Partition], names: Names, mark: Mark
) -> list[Annotated]:
    """∪: the annotated rows of either side. ∩ and -: the result, joined with the rows that it comes from."""
    sides = (plan.left,) if plan.kind.startswith("except") else (plan.left, plan.right)
    parts: list[Annotated] = []
    for side in sides:
        copy, fresh = renamed_copy(side, names)
        for below in annotate(copy, partitions, names, mark):
            pairs = list(zip(plan.columns, outputs(side), strict=True))
            if plan.kind in ("union", "union_all"):
                columns = tuple((column, fresh[var.name]) for column, var in pairs)
                parts.append(Annotated(Project(below.plan, columns + _kept(below)), below.fragments))
            elif below.fragments:
                keys: list[tuple[Var, Scalar]] = [(column, fresh[var.name]) for column, var in pairs]
                parts.append(_matched(plan, keys, below, names))
    return parts or [Annotated(plan, ())]
