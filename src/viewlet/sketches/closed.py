"""Conditions closed in a direction: if a row satisfies one, so does its counterpart that moved (S3)."""

from __future__ import annotations

from viewlet.core.scalar import FLIPPED, Call, Scalar
from viewlet.plan.conditions import reads
from viewlet.sketches.errors import UnsafeError
from viewlet.sketches.facts import Assumption, Fact, Facts, Relation, fact_of

NEGATED = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "=": "<>", "<>": "="}


def closed(condition: Scalar, facts: Facts) -> tuple[bool, frozenset[Assumption]]:
    """If the condition holds for a row, it holds for its counterpart; else :class:`UnsafeError`.

    Also: does it read moving values at all, and what are their directions assumed from.
    """
    if all(facts[name].relation is Relation.EQUAL for name in reads(condition)):
        return False, frozenset()
    match condition:
        case Call("and" | "or", args):
            parts = [closed(arg, facts) for arg in args]
            return True, frozenset().union(*(assumes for _, assumes in parts))
        case Call("is_true", (inner,)):
            return closed(inner, facts)
        case Call("not", (Call("is_null", (inner,)),)):
            fact = fact_of(inner, facts)
            if fact.relation is not Relation.UNKNOWN:
                return True, fact.assumes
        case Call("not", (Call("and" | "or" as op, args),)):
            dual = Call("or" if op == "and" else "and", tuple(_not(arg) for arg in args), condition.type)
            return closed(dual, facts)
        case Call("not", (Call(op, args),)) if op in NEGATED:
            return closed(Call(NEGATED[op], args, condition.type), facts)
        case Call(">" | ">=", (left, right)):
            return _ordered(fact_of(left, facts), fact_of(right, facts))
        case Call("<" | "<=" as op, (left, right)):
            return closed(Call(FLIPPED[op], (right, left), condition.type), facts)
    raise UnsafeError(f"S3: the condition on {culprit(condition, facts)} is not closed under skipping rows")


def _not(condition: Scalar) -> Scalar:
    return Call("not", (condition,), condition.type)


def _ordered(greater: Fact, less: Fact) -> tuple[bool, frozenset[Assumption]]:
    """``greater > less`` stays true for the counterparts: the greater side can only rise, the other fall."""
    if greater.relation in (Relation.EQUAL, Relation.LOWER) and less.relation in (
        Relation.EQUAL,
        Relation.HIGHER,
    ):
        return True, greater.assumes | less.assumes
    moving = greater if greater.relation is not Relation.EQUAL else less
    direction = {
        Relation.LOWER: "can only become smaller, which this condition welcomes",
        Relation.HIGHER: "can only become greater, which this condition welcomes",
    }.get(moving.relation, "can move either way")
    raise UnsafeError(f"S3: when rows of a group are skipped, {moving.label} {direction}")


def culprit(scalar: Scalar, facts: Facts) -> str:
    """What it is in a scalar that moves."""
    moving = [facts[n].label or n for n in sorted(reads(scalar)) if facts[n].relation is not Relation.EQUAL]
    return ", ".join(moving)
