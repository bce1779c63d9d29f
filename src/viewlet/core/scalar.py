"""Scalar expressions: what a row computes, in SELECT lists, conditions and trigger statements alike.

A scalar is a constant, a variable, or a call of a named function (``core/functions.py`` says what each
means). Every scalar has a type; NULL is a value of every type. Plans, the calculus and trigger programs
share this language, so a column of a query *is* a variable, unique within the query.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from viewlet.core import types
from viewlet.core.types import BOOLEAN, NULL, Type, Value


@dataclass(frozen=True, slots=True)
class Const:
    """A literal; ``Const(None, type)`` is NULL."""

    value: Value
    type: Type = field(default=types.BIGINT)


@dataclass(frozen=True, slots=True)
class Var:
    """A variable. Two variables are the same if their names are: type and nullability come along."""

    name: str
    type: Type = field(default=types.BIGINT, compare=False)
    nullable: bool = field(default=True, compare=False)


@dataclass(frozen=True, slots=True)
class Call:
    """A function applied to scalars, with the type of its result."""

    op: str
    args: tuple[Scalar, ...]
    type: Type


Scalar: TypeAlias = Const | Var | Call

COMPARISONS = frozenset({"=", "<>", "<", "<=", ">", ">="})
PREDICATES = COMPARISONS | {"==", "and", "or", "not", "is_null", "is_true", "in", "like", "starts_with"}
FLIPPED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}

# NULL in, NULL out does not hold for these; for every other function it does.
NON_STRICT = frozenset(
    {"==", "and", "or", "is_null", "is_true", "in", "case", "coalesce", "nz", "nn", "only"}
)

# These may be NULL though none of their arguments is.
MAY_BE_NULL = frozenset(
    {
        *("avg", "only", "var_pop", "var_samp", "stddev_pop", "stddev_samp", "width_bucket"),
        *("try_cast", "try_add", "try_subtract", "try_multiply", "try_divide"),
    }
)

TRUE = Const(True, BOOLEAN)
FALSE = Const(False, BOOLEAN)


def call(op: str, *args: Scalar, type: Type | None = None) -> Scalar:
    """``op(args)``, folded where the algebra alone decides.

    A strict function of a literal NULL is NULL; AND and OR flatten and drop their units.

    >>> x = Var("x", BOOLEAN)
    >>> call("and", TRUE, x) == x
    True
    >>> call("+", Const(None), Var("y")).value is None
    True
    """
    if type is None:
        type = BOOLEAN if op in PREDICATES else args[0].type
    if op in ("and", "or"):
        return _connective(op, args)
    if op not in NON_STRICT and any(is_null(arg) for arg in args):
        return Const(None, type)
    match op, args:
        case "not", (Const(value),):
            return Const(not value, BOOLEAN)
        case "not", (Call("not", (inner,)),):
            return inner
        case "is_null", (arg,):
            if isinstance(arg, Const):
                return Const(arg.value is None, BOOLEAN)
            if not nullable(arg):
                return FALSE
        case "is_true", (arg,):
            if isinstance(arg, Const):
                return Const(arg.value is True, BOOLEAN)
        case "nz", (arg,) if not nullable(arg):
            return arg
        case "nn", (arg,) if not nullable(arg):
            return Const(1)
        case "nn", (Const(None),):
            return Const(0)
        case "coalesce", (arg, *_) if not nullable(arg) and arg.type == type:
            return arg
        case "cast", (arg,) if arg.type == type and type.precision < types.MAX_DECIMAL_DIGITS:
            return (
                arg  # a sum of 128 bits counts as DECIMAL(38, s) and may have a digit more: a check remains
            )
    return Call(op, args, type)


def _connective(op: str, args: tuple[Scalar, ...]) -> Scalar:
    """``a AND TRUE -> a``; ``a AND FALSE -> FALSE``; ``(a AND b) AND c -> a AND b AND c``; dually for OR."""
    unit, zero = (TRUE, FALSE) if op == "and" else (FALSE, TRUE)
    flat: dict[Scalar, None] = {}  # each once, in order; a condition may have thousands
    for arg in args:
        flat.update(dict.fromkeys(arg.args if isinstance(arg, Call) and arg.op == op else (arg,)))
    if zero in flat:
        return zero
    flat.pop(unit, None)
    if not flat:
        return unit
    return next(iter(flat)) if len(flat) == 1 else Call(op, tuple(flat), BOOLEAN)


def conjunction(*conditions: Scalar) -> Scalar:
    """All of them."""
    return call("and", *conditions)


def conjuncts(condition: Scalar) -> tuple[Scalar, ...]:
    """The conditions whose AND is ``condition``; none for TRUE."""
    if condition == TRUE:
        return ()
    if isinstance(condition, Call) and condition.op == "and":
        return tuple(part for arg in condition.args for part in conjuncts(arg))
    return (condition,)


def is_null(scalar: Scalar) -> bool:
    """Is it the literal NULL?"""
    return isinstance(scalar, Const) and scalar.value is None


def nullable(scalar: Scalar) -> bool:
    """May it be NULL? Errs on the side of yes.

    >>> nullable(call("is_null", Var("x")))
    False
    """
    match scalar:
        case Const(value):
            return value is None
        case Var():
            return scalar.nullable
        case Call("==" | "is_null" | "is_true" | "nz" | "nn"):
            return False
        case Call("coalesce", args):
            return all(nullable(arg) for arg in args)
        case Call("case", args):
            results = [*args[1::2], args[-1]] if len(args) % 2 else [*args[1::2], Const(None, NULL)]
            return any(nullable(result) for result in results)
        case Call(op) if op in MAY_BE_NULL:
            return True
        case Call(_, args):
            return any(nullable(arg) for arg in args)


def variables(scalar: Scalar) -> list[Var]:
    """The variables it reads, left to right, with repeats.

    A list, not a generator: compiling asks this a million times, and generators within generators are slow.
    """
    if isinstance(scalar, Var):
        return [scalar]
    found: list[Var] = []
    if isinstance(scalar, Call):
        for arg in scalar.args:
            if isinstance(arg, Var):
                found.append(arg)
            elif isinstance(arg, Call):
                found += variables(arg)
    return found


def substitute(scalar: Scalar, replacements: Mapping[str, Scalar]) -> Scalar:
    """Replace variables by name, folding on the way up.

    >>> substitute(call("is_null", Var("x")), {"x": Const(None)}) == TRUE
    True
    """
    match scalar:
        case Var(name):
            return replacements.get(name, scalar)
        case Const():
            return scalar
        case Call(op, args):
            changed = tuple(substitute(arg, replacements) for arg in args)
            if all(a is b for a, b in zip(changed, args, strict=True)):
                return scalar
            return call(op, *changed, type=scalar.type)
