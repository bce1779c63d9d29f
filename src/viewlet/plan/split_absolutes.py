"""A distance from a value is two bounds."""

from __future__ import annotations

from math import isfinite

from viewlet.core.node import walk
from viewlet.core.scalar import FLIPPED, Call, Const, Scalar, call
from viewlet.core.types import INTEGER_BITS
from viewlet.plan.nodes import Filter, Join, Plan, Query
from viewlet.plan.traverse import over_calls, over_scalars, transform_query


def split_absolutes(query: Query) -> Query:
    """In conditions, an absolute value meets a literal c where the value itself meets c or its opposite::

        |e| >  c  =  e >  c OR  e <  -c        |e| >= c  =  e >= c OR  e <= -c
        |e| <  c  =  e <  c AND e >  -c        |e| <= c  =  e <= c AND e >= -c

    So it is for every c, negative ones too, and NULL is NULL on both sides. Each bound on ``a.p - b.p`` is an
    interval of ``a.p``, which an ordered index sums; ``abs`` it would have to ask at every key. The smallest
    integer has no absolute value: it is compared, where ``abs`` would fail.
    """
    return transform_query(query, _split_plan)


def _split_plan(plan: Plan) -> Plan:
    if isinstance(plan, Filter | Join):
        return over_scalars(plan, lambda scalar: over_calls(scalar, _split))
    return plan


def _split(scalar: Scalar) -> Scalar:
    """One comparison.

    >>> from viewlet.core.scalar import Var
    >>> from viewlet.core.types import BIGINT
    >>> apart = Call("abs", (Var("e", BIGINT),), BIGINT)
    >>> split = _split(call(">", apart, Const(3, BIGINT)))
    >>> split.op, [(bound.op, bound.args[1].value) for bound in split.args]
    ('or', [('>', 3), ('<', -3)])
    """
    op: str
    match scalar:
        case Call("<" | "<=" | ">" | ">=" as op, (Call("abs", (e,)), Const() as c)):
            pass
        case Call("<" | "<=" | ">" | ">=" as mirrored, (Const() as c, Call("abs", (e,)))):
            op = FLIPPED[mirrored]
        case _:
            return scalar
    opposite = _opposite(c)
    if opposite is None or any(isinstance(node, Call) and node.op == "abs" for node in walk(e)):
        return scalar  # of |..||e|..| each level would be written twice
    return call("or" if op in (">", ">=") else "and", call(op, e, c), call(FLIPPED[op], e, opposite))


def _opposite(c: Const) -> Const | None:
    """The literal with the other sign, unless its type has none."""
    match c.value:
        case bool() | None:
            return None
        case float() as value if isfinite(value):
            return Const(-value, c.type)
        case int() as value:
            bits = INTEGER_BITS.get(c.type.kind)
            return None if bits is not None and value == -(1 << (bits - 1)) else Const(-value, c.type)
        case _:
            return None
