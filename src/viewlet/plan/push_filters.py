"""Conditions move towards the scans whose rows they look at."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from viewlet.core.scalar import Scalar, Var, conjunction, conjuncts, substitute
from viewlet.plan.conditions import may_raise, reads
from viewlet.plan.nodes import Aggregate, Apply, Distinct, Filter, Join, Plan, Project, Query, SetOperation
from viewlet.plan.scope import outputs
from viewlet.plan.traverse import over_inputs, transform_query


def push_filters(query: Query) -> Query:
    """A conjunct goes as deep as the variables it reads allow::

        σ[p](A × B)        = A ⋈[p] B
        σ[p(a)](A ⋈ B)     = σ[p](A) ⋈ B                  also for a LEFT JOIN's kept side
        A ⟕[on, p(b)] B    = A ⟕[on] σ[p](B)
        σ[p](π[x=e](A))    = π[x=e](σ[p(e)](A))
        σ[p(g)](γ[g](A))   = γ[g](σ[p](A))                if there are groups
        σ[p](δ(A))         = δ(σ[p](A))
        σ[p](A ∪ B)        = σ[p](A) ∪ σ[p](B)            and likewise for ∩, and for the left of −

    A conjunct that may raise an error does not pass a join, a nested query or a grouping: there it might
    meet rows that it was not meant for.
    """
    return transform_query(query, _push)


def _push(plan: Plan) -> Plan:
    match plan:
        case Filter(below, condition):
            return _into(below, conjuncts(condition))
        case Join():
            return _into(plan, ())
        case _:
            return plan


def _kept(plan: Plan, conditions: Sequence[Scalar]) -> Plan:
    return Filter(plan, conjunction(*conditions)) if conditions else plan


def _into(plan: Plan, conditions: Sequence[Scalar]) -> Plan:
    """``σ[conditions](plan)`` with every condition as deep as it goes."""
    match plan:
        case Filter(below, condition):
            return _into(below, (*conjuncts(condition), *conditions))
        case Join():
            return _into_join(plan, conditions)
        case Project(below, columns):
            values = {var.name: scalar for var, scalar in columns}
            return Project(_into(below, [substitute(p, values) for p in conditions]), columns)
        case Apply(below):
            down, here = _split(conditions, below, [item.output for item in plan.nested])
            return _kept(Apply(_into(below, down), plan.nested), here)
        case Aggregate(below, groups, aggregates) if groups:
            values = {var.name: scalar for var, scalar in groups}
            others = {var.name for var, _ in aggregates}
            down = [p for p in conditions if not reads(p) & others and not may_raise(p)]
            here = [p for p in conditions if p not in down]
            inner = _into(below, [substitute(p, values) for p in down])
            return _kept(Aggregate(inner, groups, aggregates), here)
        case Distinct(below):
            return Distinct(_into(below, conditions))
        case SetOperation(kind, left, right, columns):
            here = [p for p in conditions if may_raise(p) and not kind.startswith("union")]
            down = [p for p in conditions if p not in here]
            left = _into(left, [substitute(p, _renaming(columns, left)) for p in down])
            if not kind.startswith("except"):
                right = _into(right, [substitute(p, _renaming(columns, right)) for p in down])
            return _kept(SetOperation(kind, left, right, columns), here)
        case _:
            return _kept(plan, conditions)


def _renaming(columns: Sequence[Var], side: Plan) -> dict[str, Scalar]:
    return {column.name: var for column, var in zip(columns, outputs(side), strict=True)}


def _split(
    conditions: Sequence[Scalar], plan: Plan, neighbours: Iterable[Var]
) -> tuple[list[Scalar], list[Scalar]]:
    """The conditions that may go into ``plan``, which they read without its neighbours, and the others."""
    own, other = ({var.name for var in vars_} for vars_ in (outputs(plan), neighbours))
    down = [p for p in conditions if reads(p) & own and not reads(p) & other and not may_raise(p)]
    return down, [p for p in conditions if p not in down]


def _into_join(join: Join, conditions: Sequence[Scalar]) -> Plan:
    on = conjuncts(join.condition)
    match join.kind:
        case "inner":
            to_left, rest = _split((*on, *conditions), join.left, outputs(join.right))
            to_right, rest = _split(rest, join.right, outputs(join.left))
            raising = [p for p in rest if may_raise(p) and p in conditions]
            here = [p for p in rest if p not in raising]
            left, right = _into(join.left, to_left), _into(join.right, to_right)
            return _kept(Join("inner", left, right, conjunction(*here)), raising)
        case "left":
            to_left, above = _split(conditions, join.left, outputs(join.right))
            to_right, here = _split(on, join.right, outputs(join.left))
            left, right = _into(join.left, to_left), _into(join.right, to_right)
            return _kept(Join("left", left, right, conjunction(*here)), above)
        case "full":
            return _kept(over_inputs(join, lambda side: _into(side, ())), conditions)
