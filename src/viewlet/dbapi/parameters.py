"""Values in place of question marks, as literals of the database's dialect."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, TypeAlias

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError, TokenError
from sqlglot.tokenizer_core import TokenType

from viewlet.dbapi.errors import DataError, InterfaceError, NotSupportedError, ProgrammingError

Parameters: TypeAlias = Sequence[Any]


def bound(operation: str, parameters: Parameters, dialect: str) -> str:
    """The statement with literals in place of its question marks; those in strings and comments stay.

    >>> bound("SELECT '?' AS a, ? AS b -- ?", ["it's"], "duckdb")
    "SELECT '?' AS a, 'it''s' AS b -- ?"
    """
    if isinstance(parameters, (str, bytes, Mapping)):
        raise InterfaceError("parameters are a sequence of values, one for each question mark")
    places = _places(operation, dialect)
    if len(places) != len(parameters):
        raise ProgrammingError(f"{len(places)} question marks, but {len(parameters)} values")
    parts, end = [], 0
    for place, value in zip(places, parameters, strict=True):
        parts += [operation[end:place], literal(value).sql(dialect)]
        end = place + 1
    return "".join([*parts, operation[end:]])


def _places(operation: str, dialect: str) -> list[int]:
    try:
        tokens = sqlglot.tokenize(operation, read=dialect)
    except TokenError as reason:
        raise ProgrammingError(f"the text cannot be read: {reason}") from None
    return [token.start for token in tokens if token.token_type is TokenType.PLACEHOLDER]


def literal(value: Any) -> exp.Expr:
    """A Python value as SQL."""
    match value:
        case None:
            return exp.null()
        case bool():
            return exp.Boolean(this=value)
        case int():
            return _signed(str(abs(value)), value < 0)
        case Decimal() if value.is_finite():
            return _decimal(value)
        case float():
            return exp.cast(exp.Literal.string(repr(value)), "double")
        case str():
            return exp.Literal.string(value)
        case datetime.datetime() if value.tzinfo is None:
            return exp.cast(exp.Literal.string(value.isoformat(" ")), exp.DType.TIMESTAMPNTZ)
        case datetime.date() if not isinstance(value, datetime.datetime):
            return exp.cast(exp.Literal.string(value.isoformat()), "date")
        case _:
            kinds = "None, bool, int, float, Decimal, str, date and datetime without time zone"
            what = f"a {type(value).__name__} cannot be a parameter: {value!r}"
            raise NotSupportedError(f"{what}; there are {kinds}")


def _signed(digits: str, negative: bool) -> exp.Expr:
    number = exp.Literal.number(digits)
    return exp.Paren(this=exp.Neg(this=number)) if negative else number


def _decimal(value: Decimal) -> exp.Expr:
    """A DECIMAL with as many digits as are written."""
    _, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    scale = max(0, -exponent)
    precision = max(len(digits) + max(0, exponent), scale, 1)
    if precision > 38:
        raise DataError(f"{value} has {precision} digits, DECIMAL has at most 38")
    return exp.cast(exp.Literal.string(format(value, "f")), f"decimal({precision}, {scale})")


def plain_insert(operation: str, dialect: str) -> tuple[str, list[str]] | None:
    """Table and columns of ``INSERT INTO t [(columns)] VALUES (?, ?, ...)``, else ``None``."""
    words = operation.split(None, 1)
    if not words or words[0].upper() != "INSERT":
        return None
    try:
        tree = sqlglot.parse_one(operation, read=dialect)
    except SqlglotError:
        return None  # whatever is wrong with it, the database says it better
    match tree:
        case exp.Insert(this=target, expression=exp.Values(expressions=[exp.Tuple(expressions=cells)])):
            plain = all(isinstance(cell, exp.Placeholder) for cell in cells)
            if plain and not any(tree.args.get(part) for part in ("conflict", "overwrite", "returning")):
                if isinstance(target, exp.Schema):
                    return target.this.name, [column.name for column in target.expressions]
                return target.name, []
    return None


def refuse_ragged(rows: Sequence[Sequence[Any]], width: int) -> None:
    """Refuse rows of any other width."""
    for number, row in enumerate(rows):
        if len(row) != width:
            raise ProgrammingError(f"row {number} has {len(row)} values, {width} are needed")
