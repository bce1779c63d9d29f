"""Conditions as factors: conjuncts apart, common conjuncts out of OR, equalities as identities."""

from __future__ import annotations

from collections.abc import Iterator

from viewlet.calculus.nodes import Cond
from viewlet.core.scalar import COMPARISONS, FALSE, TRUE, Call, Scalar, call, conjuncts, is_null, nullable
from viewlet.core.types import Kind, Type, same_identity

OPPOSITES = {"=": "<>", "<>": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}


def condition_factors(condition: Scalar) -> Iterator[Cond]:
    """The conditions whose product is 1 exactly where ``condition`` is TRUE.

    SQL's ``a = b`` becomes the identity ``a == b``, which joins and map keys understand, times
    ``{a not NULL}`` where both sides may be NULL. Types must share their representation for that.

    >>> from viewlet.core.scalar import Var
    >>> [c.scalar.op for c in condition_factors(call("=", Var("a"), Var("b")))]
    ['==', 'not']
    """
    for part in (piece for whole in conjuncts(condition) for piece in _without_nulls(whole)):
        shared, rest = _split_disjunction(part)
        for conjunct in shared:
            yield from _equality(conjunct)
        if rest != TRUE:
            yield from _equality(rest) if not shared else condition_factors(rest)


def _without_nulls(condition: Scalar) -> list[Scalar]:
    """``a < CASE WHEN c THEN NULL ELSE x END  ->  c is not TRUE AND a < x``: sums over nothing are such.

    In each branch of an OR likewise, whose conditions an ordered index then finds (``triggers/isolate.py``).
    """
    if isinstance(condition, Call) and condition.op == "or":
        branches = ([p for c in conjuncts(branch) for p in _without_nulls(c)] for branch in condition.args)
        return [call("or", *(call("and", *parts) for parts in branches))]
    if not (isinstance(condition, Call) and condition.op in COMPARISONS):
        return [condition]
    guards: list[Scalar] = []
    bare = call(condition.op, *(_bare(arg, guards) for arg in condition.args), type=condition.type)
    return [*guards, bare] if guards else [condition]


def _bare(scalar: Scalar, guards: list[Scalar]) -> Scalar:
    """The scalar where it is not NULL, and the conditions for that; only strict arithmetic is looked into."""
    match scalar:
        case Call("case", (test, nothing, value)) if is_null(nothing):
            decided = not nullable(test)
            guards.append(negated(test) if decided else call("not", call("is_true", test)))
            return _bare(value, guards)
        case Call("+" | "-" | "*" | "/" | "neg" | "cast", args):
            return call(scalar.op, *(_bare(arg, guards) for arg in args), type=scalar.type)
        case _:
            return scalar


def negated(test: Scalar) -> Scalar:
    """NOT test, with comparisons turned around: ``NOT a = b -> a <> b``; for tests that are never NULL."""
    if isinstance(test, Call) and test.op in OPPOSITES:
        return call(OPPOSITES[test.op], *test.args)
    return call("not", test)


def _equality(condition: Scalar) -> Iterator[Cond]:
    match condition:
        case Call("=", (left, right)):
            left, right = widened(left), widened(right)
            if same_identity(left.type, right.type):
                yield Cond(call("==", left, right))
                if nullable(left) and nullable(right):
                    yield Cond(call("not", call("is_null", left)))
                return
    if condition == FALSE:
        yield Cond(FALSE)
    elif condition != TRUE:
        yield Cond(condition)


def _split_disjunction(condition: Scalar) -> tuple[list[Scalar], Scalar]:
    """``(a AND b) OR (a AND c) -> a AND (b OR c)``: what all branches share, and the rest."""
    if not (isinstance(condition, Call) and condition.op == "or"):
        return [], condition
    branches = [conjuncts(branch) for branch in condition.args]
    shared = [part for part in branches[0] if all(part in branch for branch in branches[1:])]
    if not shared:
        return [], condition
    rest = (call("and", *(part for part in branch if part not in shared)) for branch in branches)
    return shared, call("or", *rest)


def widened(scalar: Scalar) -> Scalar:
    """Without the casts that change the type but not the value: ``cast(x AS BIGINT) -> x`` for INT x."""
    match scalar:
        case Call("cast", (inner,)) if same_identity(inner.type, scalar.type) and _wider(
            inner.type, scalar.type
        ):
            return widened(inner)
        case _:
            return scalar


def _wider(narrow: Type, wide: Type) -> bool:
    if narrow.is_integer:
        order = [Kind.TINYINT, Kind.SMALLINT, Kind.INT, Kind.BIGINT]
        return order.index(narrow.kind) <= order.index(wide.kind)
    return narrow.precision <= wide.precision
