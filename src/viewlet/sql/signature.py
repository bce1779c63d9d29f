"""Functions whose arguments are read one by one: for each the conversion that Spark makes silently."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from sqlglot import exp

from viewlet.core.scalar import Scalar, call, is_null
from viewlet.core.types import BIGINT, DATE, TIMESTAMP, VARCHAR, Type
from viewlet.sql import scalars
from viewlet.sql.position import invalid
from viewlet.sql.typing import TypeMismatchError

Reader: TypeAlias = Callable[[exp.Expr], Scalar]
Builder: TypeAlias = Callable[[Any, Reader], Scalar]
Argument: TypeAlias = Callable[[Scalar, str], Scalar]


def text(scalar: Scalar, what: str) -> Scalar:
    """A VARCHAR."""
    return scalars.text(scalar)


def long(scalar: Scalar, what: str) -> Scalar:
    """A BIGINT."""
    if scalar.type.is_integer or scalar.type == VARCHAR or is_null(scalar):
        return scalars.cast(scalar, BIGINT)
    raise TypeMismatchError(f"{what} needs an integer, got {scalar.type}")


def timestamp(scalar: Scalar, what: str) -> Scalar:
    """A TIMESTAMP; a date is its midnight, text is read."""
    if scalar.type in (DATE, TIMESTAMP, VARCHAR) or is_null(scalar):
        return scalars.cast(scalar, TIMESTAMP)
    raise TypeMismatchError(f"{what} needs a timestamp, got {scalar.type}")


whole: Argument = scalars.whole
real: Argument = scalars.real


def function(op: str, kind: Type, **arguments: Argument) -> Builder:
    """A function of the parser's node, given how to read each part of it; parts may be absent at the end."""

    def build(node: exp.Expr, read: Reader) -> Scalar:
        given = [(node.args[name], argument) for name, argument in arguments.items() if node.args.get(name)]
        return call(op, *(argument(read(part), op) for part, argument in given), type=kind)

    return build


def called(op: str, kind: Type, *arguments: Argument) -> Builder:
    """A function that the parser only knows by its name, with all of its arguments."""

    def build(node: exp.Anonymous, read: Reader) -> Scalar:
        if len(node.expressions) != len(arguments):
            raise invalid(
                node, f"{node.name.lower()} takes {len(arguments)} arguments, not {len(node.expressions)}"
            )
        parts = zip(node.expressions, arguments, strict=True)
        return call(op, *(argument(read(part), op) for part, argument in parts), type=kind)

    return build


def literal_text(node: exp.Expr, what: str) -> str:
    """The text that must be written out in the query."""
    if isinstance(node, exp.Literal) and node.is_string:
        return str(node.this)
    raise invalid(node, f"{what} must be a literal text")
