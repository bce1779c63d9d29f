"""Facts about conditions that several passes need."""

from __future__ import annotations

from collections.abc import Set

from viewlet.core.scalar import (
    FALSE,
    NON_STRICT,
    Call,
    Const,
    Scalar,
    conjuncts,
    is_null,
    substitute,
    variables,
)
from viewlet.core.types import VARCHAR

RAISING = frozenset({"/", "%", "div", "sqrt", "power", "exp"})


def reads(scalar: Scalar) -> frozenset[str]:
    """The names of the variables a scalar reads."""
    return frozenset(var.name for var in variables(scalar))


def may_raise(scalar: Scalar) -> bool:
    """Can it fail for reasons other than overflow: a division by zero, text that is no number?

    Such a condition must not move to rows that another condition would have kept away from it.
    """
    match scalar:
        case Call("cast", (arg,)) if arg.type == VARCHAR and scalar.type != VARCHAR:
            return True
        case Call(op, args):
            return op in RAISING or any(may_raise(arg) for arg in args)
        case _:
            return False


def rejects_null(condition: Scalar, names: Set[str]) -> bool:
    """Is the condition never TRUE when all these variables are NULL?

    Decided by putting NULLs in: strict functions fold to NULL, and NULL or FALSE does not let a row pass.
    """
    padded = substitute(
        condition, {var.name: Const(None, var.type) for var in variables(condition) if var.name in names}
    )
    return any(part == FALSE or is_null(part) or _never_true(part) for part in conjuncts(padded))


def _never_true(condition: Scalar) -> bool:
    match condition:
        case Call("or", args):
            return all(arg == FALSE or is_null(arg) or _never_true(arg) for arg in args)
        case Call("and", args):
            return any(arg == FALSE or is_null(arg) or _never_true(arg) for arg in args)
        case Call("in", (item, *_)) if is_null(item):
            return True
        case Call("is_true", (arg,)):
            return arg == FALSE or is_null(arg) or _never_true(arg)
        case _:
            return False


def not_null_after(condition: Scalar) -> frozenset[str]:
    """The variables that cannot be NULL in a row for which the condition is TRUE."""
    found: set[str] = set()
    for part in conjuncts(condition):
        found |= _strict_reads(part)
    return frozenset(found)


def _strict_reads(scalar: Scalar) -> set[str]:
    """The variables whose NULL makes a condition NULL or FALSE."""
    match scalar:
        case Call("not", (Call("is_null", (inner,)),)):
            return _null_makers(inner)
        case Call("in", (item, *_)):
            return _null_makers(item)
        case Call("is_true", (inner,)):
            return _strict_reads(inner)
        case Call("or", args):
            sides = [set(_strict_reads(arg)) for arg in args]
            return set.intersection(*sides)
        case Call("and", args):
            return set().union(*(_strict_reads(arg) for arg in args))
        case _:
            return _null_makers(scalar)


def _null_makers(scalar: Scalar) -> set[str]:
    """The variables whose NULL makes the scalar NULL: those reached through strict functions alone."""
    match scalar:
        case Call(op, args):
            if op in NON_STRICT:
                return set()
            return set().union(*(_null_makers(arg) for arg in args))
        case Const():
            return set()
        case _:
            return {scalar.name}
