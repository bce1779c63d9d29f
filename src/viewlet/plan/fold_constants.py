"""Compute what no row can change."""

from __future__ import annotations

from viewlet.core.functions import evaluate
from viewlet.core.scalar import FALSE, TRUE, Call, Const, Scalar, call, is_null
from viewlet.errors import ViewletError
from viewlet.plan.nodes import Plan, Query
from viewlet.plan.traverse import over_calls, over_scalars, transform_query


def fold_constants(query: Query) -> Query:
    """``f(c1, .., cn) = c``, and ``CASE WHEN FALSE THEN a ELSE b END = b``.

    A call that raises an error (1/0, a cast that does not parse) stays: it is an error only where a row gets
    there.
    """
    return transform_query(query, _fold_plan)


def _fold_plan(plan: Plan) -> Plan:
    return over_scalars(plan, lambda scalar: over_calls(scalar, fold))


def fold(scalar: Scalar) -> Scalar:
    """One call whose arguments are folded already.

    >>> fold(call("+", Const(1), Const(2))).value
    3
    """
    match scalar:
        case Call("case", args):
            return _fold_case(scalar, args)
        case Call(_, args) if all(isinstance(arg, Const) for arg in args):
            try:
                return Const(evaluate(scalar, {}), scalar.type)
            except ViewletError:
                return scalar
        case _:
            return scalar


def _fold_case(scalar: Call, args: tuple[Scalar, ...]) -> Scalar:
    """Drop the branches that are never taken, and all that follow one that always is."""
    kept: list[Scalar] = []
    *branches, otherwise = args
    for test, value in zip(branches[::2], branches[1::2], strict=True):
        if test == TRUE:
            otherwise = value
            break
        if test != FALSE and not is_null(test):
            kept += [test, value]
    if not kept:
        return otherwise
    return scalar if len(kept) + 1 == len(args) else call("case", *kept, otherwise, type=scalar.type)
