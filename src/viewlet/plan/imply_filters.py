"""What a disjunction over both sides of a join says about each side alone."""

from __future__ import annotations

from viewlet.core.scalar import TRUE, Call, Scalar, call, conjunction, conjuncts
from viewlet.plan.conditions import may_raise, reads
from viewlet.plan.nodes import Filter, Join, Plan, Query
from viewlet.plan.scope import outputs
from viewlet.plan.traverse import transform_query


def imply_filters(query: Query) -> Query:
    """Rows that meet no branch of a disjunction on their own side meet none at all::

        A ⋈[(a1 ∧ b1) ∨ (a2 ∧ b2)] B  =  σ[a1 ∨ a2](A) ⋈[(a1 ∧ b1) ∨ (a2 ∧ b2)] σ[b1 ∨ b2](B)

    ``ai`` reads A alone and ``bi`` reads B alone. The disjunction stays. What it implies is the same each
    time it is found, and then changes nothing.
    """
    return transform_query(query, _imply)


def _imply(plan: Plan) -> Plan:
    match plan:
        case Join("inner", left, right, condition):
            return Join("inner", _restricted(left, condition), _restricted(right, condition), condition)
        case _:
            return plan


def _restricted(side: Plan, condition: Scalar) -> Plan:
    own = frozenset(var.name for var in outputs(side))
    implied = conjunction(*(_implied(part, own) for part in conjuncts(condition)))
    return side if implied == TRUE else Filter(side, implied)


def _implied(condition: Scalar, own: frozenset[str]) -> Scalar:
    """The disjunction of what each branch says of some variables alone; TRUE if one of them says nothing."""
    match condition:
        case Call("or", branches) if not may_raise(condition):
            said = (
                conjunction(*(part for part in conjuncts(branch) if reads(part) <= own and reads(part)))
                for branch in branches
            )
            return call("or", *said)
        case _:
            return TRUE
