"""The SQL functions there are: each parser node of a function to the scalar it means.

A builder gets the node and a reader for its arguments. Conversions that Spark makes silently are explicit
casts here, so that the functions themselves (``core/functions.py``) see only the types they are defined on.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from viewlet.core.scalar import Const, Scalar, call
from viewlet.core.types import BIGINT, BOOLEAN, DOUBLE, FLOAT, INT, SMALLINT, TINYINT, VARCHAR, Type
from viewlet.errors import SqlError
from viewlet.sql import scalars
from viewlet.sql.date_functions import DATE_FUNCTIONS, NAMED_DATE_FUNCTIONS
from viewlet.sql.number_functions import NAMED_NUMBER_FUNCTIONS, NUMBER_FUNCTIONS
from viewlet.sql.position import invalid
from viewlet.sql.signature import Builder, Reader
from viewlet.sql.text_functions import NAMED_TEXT_FUNCTIONS, TEXT_FUNCTIONS

NONDETERMINISTIC = (
    exp.Rand,
    exp.Randn,
    exp.Randstr,
    exp.Uuid,
    exp.CurrentTimestamp,
    exp.CurrentTimestampLTZ,
    exp.CurrentDate,
    exp.CurrentTime,
    exp.CurrentDatetime,
    exp.CurrentUser,
)


class UnknownFunctionError(SqlError):
    """The parser has no node for a function, and neither is it one of ours."""


def _is_null(node: exp.Anonymous, read: Reader) -> Scalar:
    if len(node.expressions) != 1:
        raise invalid(node, f"{node.name.lower()} takes one argument")
    absent = call("is_null", read(node.expressions[0]), type=BOOLEAN)
    return absent if node.name.lower() == "isnull" else call("not", absent)


def _equal_null(node: exp.EqualNull, read: Reader) -> Scalar:
    return scalars.compare("==", read(node.this), read(node.expression))


def _decode(node: exp.DecodeCase, read: Reader) -> Scalar:
    """``decode(x, a, v, b, w, else)``: the value behind the first that is x; NULL is NULL here."""
    subject, *rest = (read(part) for part in node.expressions)
    pairs = list(zip(rest[0::2], rest[1::2], strict=False))
    otherwise = rest[-1] if len(rest) % 2 else Const(None)
    if not len(rest) % 2:
        otherwise = Const(None, rest[-1].type)
    return scalars.case(
        [(scalars.compare("==", subject, wanted), value) for wanted, value in pairs], otherwise
    )


def _zero_if_null(node: exp.Anonymous, read: Reader) -> Scalar:
    both = scalars.alike([read(node.expressions[0]), Const(0, INT)], "zeroifnull")
    return call("coalesce", *both, type=both[0].type)


def _null_if_zero(node: exp.Anonymous, read: Reader) -> Scalar:
    item = read(node.expressions[0])
    return scalars.case([(scalars.compare("=", item, Const(0, INT)), Const(None, item.type))], item)


def _converted(kind: Type) -> Builder:
    """``int(x)``, which is ``CAST(x AS INT)``."""

    def build(node: exp.Anonymous, read: Reader) -> Scalar:
        if len(node.expressions) != 1:
            raise invalid(node, f"{node.name.lower()} takes one argument")
        return scalars.cast(read(node.expressions[0]), kind)

    return build


NAMED: Mapping[str, Builder] = {
    **NAMED_NUMBER_FUNCTIONS,
    **NAMED_TEXT_FUNCTIONS,
    **NAMED_DATE_FUNCTIONS,
    "isnull": _is_null,
    "isnotnull": _is_null,
    "zeroifnull": _zero_if_null,
    "nullifzero": _null_if_zero,
    "boolean": _converted(BOOLEAN),
    "tinyint": _converted(TINYINT),
    "smallint": _converted(SMALLINT),
    "int": _converted(INT),
    "bigint": _converted(BIGINT),
    "float": _converted(FLOAT),
    "double": _converted(DOUBLE),
    "string": _converted(VARCHAR),
}


def _named(node: exp.Anonymous, read: Reader) -> Scalar:
    """Functions that the parser has no node for."""
    name = node.name.lower()
    if name not in NAMED:
        raise UnknownFunctionError(name)
    return NAMED[name](node, read)


FUNCTIONS: Mapping[type[exp.Expr], Builder] = {
    **NUMBER_FUNCTIONS,
    **TEXT_FUNCTIONS,
    **DATE_FUNCTIONS,
    exp.EqualNull: _equal_null,
    exp.DecodeCase: _decode,
    exp.Anonymous: _named,
}
