"""Products: inner joins and filters are one thing, a set of factors and a set of conditions.

In which order the factors are joined, and by which equalities, is told here; ``evaluate.py`` does it.
"""

from __future__ import annotations

from collections.abc import Iterator

from viewlet.core.functions import common_type, in_type
from viewlet.core.scalar import Call, Scalar, call, conjunction, conjuncts
from viewlet.plan.bags import Names
from viewlet.plan.conditions import reads
from viewlet.plan.nodes import Filter, Join, Plan
from viewlet.plan.scope import free_variables, outputs


def factors_of(plan: Plan) -> tuple[list[Plan], list[Scalar]]:
    """The relations and the conditions of a nest of filters and inner joins."""
    match plan:
        case Filter(inner, condition):
            factors, conditions = factors_of(inner)
            return factors, [*conditions, *_conditions(condition)]
        case Join("inner", left, right, condition):
            left_factors, left_conditions = factors_of(left)
            right_factors, right_conditions = factors_of(right)
            conditions = [*left_conditions, *right_conditions, *_conditions(condition)]
            return left_factors + right_factors, conditions
        case _:
            return [plan], []


def _conditions(condition: Scalar) -> Iterator[Scalar]:
    """The conjuncts, also those that hide in every branch of an OR: a b OR a c = a AND (b OR c)."""
    for part in conjuncts(condition):
        branches = (
            [conjuncts(branch) for branch in part.args] if isinstance(part, Call) and part.op == "or" else []
        )
        common = [c for c in branches[0] if all(c in branch for branch in branches)] if branches else []
        yield from common
        rests = [conjunction(*(c for c in branch if c not in common)) for branch in branches]
        yield call("or", *rests) if common else part


def next_factor(factors: list[Plan], conditions: list[Scalar], known: Names) -> Plan:
    """The factor to join next with what is known: one that an equality connects, if there is any."""

    def connected(factor: Plan) -> bool:
        names = frozenset(var.name for var in outputs(factor))
        return any(split_equality(condition, frozenset(known), names) for condition in conditions)

    possible = [factor for factor in factors if free_variables(factor).keys() <= {*known}] or factors[:1]
    return next(filter(connected, possible), possible[0])


def split_equality(
    condition: Scalar, left: frozenset[str], right: frozenset[str]
) -> tuple[Scalar, Scalar] | None:
    """``f(left) = g(right)`` as its two sides, each in their common type; ``None`` for other conditions."""
    match condition:
        case Call("=", (a, b)):
            kind = common_type(a.type, b.type)
            for near, far in ((a, b), (b, a)):
                if reads(near) <= left and reads(far) <= right and reads(far):
                    return in_type(near, kind), in_type(far, kind)
    return None
