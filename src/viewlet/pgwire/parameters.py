"""Parameters of prepared statements: which types they have, and queries with values in their places.

Values are put into the tree of the query as literals, never into its text.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping, Sequence
from decimal import Decimal, InvalidOperation

from sqlglot import exp

from viewlet.pgwire.arrays import binary_items, text_items
from viewlet.pgwire.errors import WireError
from viewlet.pgwire.types import (
    ARRAYS,
    BOOL,
    BY_NAME,
    BY_OID,
    BYTEA,
    DATE,
    FLOAT4,
    FLOAT8,
    INT2,
    INT4,
    INT8,
    NUMERIC,
    OID,
    TEXT,
    TIMESTAMP,
    TIMESTAMPTZ,
    UNKNOWN,
    VARCHAR,
    ArrayType,
    WireType,
)

MAX_PARAMETERS = 1000

_DAY = re.compile(r"(\d{4,}-\d\d-\d\d)(?:[ T]*[\d:.]*(?: ?[+-][\d:]+|Z)?)")

_OF_CAST = {
    exp.DType.BOOLEAN: BOOL,
    exp.DType.UINT: OID,
    exp.DType.SMALLINT: INT2,
    exp.DType.INT: INT4,
    exp.DType.BIGINT: INT8,
    exp.DType.FLOAT: FLOAT4,
    exp.DType.DOUBLE: FLOAT8,
    exp.DType.DECIMAL: NUMERIC,
    exp.DType.DATE: DATE,
    exp.DType.TIMESTAMP: TIMESTAMP,
    exp.DType.TIMESTAMPTZ: TIMESTAMPTZ,
    exp.DType.VARCHAR: VARCHAR,
    exp.DType.VARBINARY: BYTEA,
}


def _number(parameter: exp.Parameter) -> int:
    number = parameter.this
    if not isinstance(number, exp.Literal) or number.is_string or not 0 < int(number.this) <= MAX_PARAMETERS:
        raise WireError("42P02", f"parameters are $1 to ${MAX_PARAMETERS}, not {parameter.sql()}")
    return int(number.this)


def parameter_types(
    query: exp.Query, given: Sequence[int], columns: Mapping[str, WireType]
) -> tuple[WireType | ArrayType, ...]:
    """The type of each parameter: as the client says, else by its place in the query, else text.

    ``columns`` has the types of the columns by name.

    >>> import sqlglot
    >>> query = sqlglot.parse_one("SELECT a FROM r WHERE a < $1 AND b = $2::date LIMIT $3", read="postgres")
    >>> [kind.name for kind in parameter_types(query, [], {"a": INT8})]
    ['int8', 'date', 'int8']
    """
    found = {_number(parameter): parameter for parameter in query.find_all(exp.Parameter)}
    types: list[WireType | ArrayType] = []
    for number in range(1, max([*found, len(given)], default=0) + 1):
        oid = given[number - 1] if number <= len(given) else 0
        if oid in (0, UNKNOWN.oid):
            types.append(_inferred(found[number], columns) if number in found else TEXT)
        elif oid in BY_OID:
            types.append(BY_OID[oid])
        elif oid in ARRAYS:
            types.append(ARRAYS[oid])
        else:
            raise WireError("0A000", f"parameter ${number} has type {oid}, which is not known here")
    return tuple(types)


def _inferred(parameter: exp.Parameter, columns: Mapping[str, WireType]) -> WireType | ArrayType:
    parent = parameter.parent
    while isinstance(parent, exp.Paren):
        parent = parent.parent
    match parent:
        case exp.Cast():
            return of_cast(parent.to)
        case exp.Limit() | exp.Offset() | exp.Fetch():
            return INT8
        case exp.Any() | exp.Anonymous() if is_quantifier(parent) and isinstance(parent.parent, exp.Binary):
            element = _compared(parent.parent, columns) or TEXT
            return ArrayType(element) if isinstance(element, WireType) else element
        case exp.Binary() | exp.Between() | exp.In():
            return _compared(parent, columns) or TEXT
    return TEXT


def is_quantifier(node: exp.Expr) -> bool:
    """Is it the ANY or ALL of ``a = ANY(list)``? sqlglot takes the second for a function."""
    return isinstance(node, exp.Any) or (isinstance(node, exp.Anonymous) and str(node.this).lower() == "all")


def _compared(comparison: exp.Expr, columns: Mapping[str, WireType]) -> WireType | ArrayType | None:
    """The type of what a parameter is compared with, if it is a column or a cast."""
    for other in comparison.iter_expressions():
        if isinstance(other, exp.Column) and other.name in columns:
            return columns[other.name]
        if isinstance(other, exp.Cast):
            return of_cast(other.to)
    return None


def of_cast(kind: exp.DataType) -> WireType | ArrayType:
    """The type that a cast is to."""
    if kind.this is exp.DType.ARRAY and kind.expressions:
        element = of_cast(kind.expressions[0])
        return ArrayType(element) if isinstance(element, WireType) else element
    if kind.this in _OF_CAST:
        return _OF_CAST[kind.this]
    return BY_NAME.get(type_name(kind), TEXT)


def type_name(kind: exp.DataType) -> str:
    """The name of a type without its schema: sqlglot has three ways to say it.

    >>> import sqlglot
    >>> type_name(sqlglot.parse_one("a::pg_catalog.regclass", read="postgres").to)
    'regclass'
    """
    spelled = kind.args.get("kind") or getattr(kind.this, "value", kind.this)
    return str(spelled).lower().rpartition(".")[2].strip('"')


def bind(query: exp.Query, values: Mapping[int, exp.Expr]) -> exp.Query:
    """The query with expressions in place of its parameters, by number."""

    def replace(node: exp.Expr) -> exp.Expr:
        return values[_number(node)].copy() if isinstance(node, exp.Parameter) else node

    bound = query.transform(replace)
    assert isinstance(bound, exp.Query)
    return bound


def null_of(kind: WireType | ArrayType) -> exp.Expr:
    """NULL of a type."""
    return exp.cast(exp.null(), exp.DataType.build(kind.sql, dialect="duckdb"))


def literal_of(kind: WireType | ArrayType, data: bytes | None, binary: bool) -> exp.Expr:
    """The literal of a value as it came.

    >>> literal_of(INT8, b"12", binary=False).sql("duckdb"), literal_of(TEXT, b"it's", False).sql("duckdb")
    ("CAST('12' AS BIGINT)", "'it''s'")
    """
    if data is None:
        return null_of(kind)
    if isinstance(kind, ArrayType):
        return _array_literal(kind, data, binary)
    try:
        if kind is BYTEA:
            return _bytes_literal(data, binary)
        value = kind.from_binary(data) if binary else data.decode()
    except (struct.error, ValueError) as reason:
        raise WireError("22P03", f"a parameter is no {kind.name}: {reason}") from None
    text = value if isinstance(value, str) else kind.to_text(value)
    if "\0" in text:
        raise WireError("22021", "a parameter contains a zero byte")
    if kind is NUMERIC:
        return _numeric_literal(text)
    if kind is DATE:
        text = _day_alone(text)
    literal = exp.Literal.string(text)
    if kind.sql == "VARCHAR":
        return literal  # of no type until it is compared, as in PostgreSQL
    return exp.cast(literal, exp.DataType.build(kind.sql, dialect="duckdb"))


def _array_literal(kind: ArrayType, data: bytes, binary: bool) -> exp.Expr:
    """An array of one dimension, item by item."""
    try:
        found = binary_items(data) if binary else _encoded(text_items(data.decode()))
    except (struct.error, ValueError) as reason:
        raise WireError("22P03", f"a parameter is no {kind.name}: {reason}") from None
    items = [literal_of(kind.element, item, binary) for item in found]
    return exp.cast(exp.Array(expressions=items), exp.DataType.build(kind.sql, dialect="duckdb"))


def _encoded(items: Sequence[str | None]) -> list[bytes | None]:
    return [None if item is None else item.encode() for item in items]


def _day_alone(text: str) -> str:
    """A date without the zone or the time behind it, which PostgreSQL overlooks: pgJDBC sends them.

    >>> _day_alone("2026-01-31 +00"), _day_alone("2026-01-31 10:00:00+00"), _day_alone("today")
    ('2026-01-31', '2026-01-31', 'today')
    """
    found = _DAY.fullmatch(text)
    return found[1] if found else text


def _numeric_literal(text: str) -> exp.Expr:
    """A NUMERIC keeps the digits that it has."""
    try:
        number = Decimal(text)
    except InvalidOperation:
        raise WireError("22P02", f"a parameter is no NUMERIC: {text!r}") from None
    if not number.is_finite() or abs(number.adjusted()) > 38:
        raise WireError("22003", f"a NUMERIC parameter is out of range: {text!r}")
    literal = exp.Literal.number(format(number.copy_abs(), "f"))
    return exp.Paren(this=exp.Neg(this=literal)) if number.is_signed() else literal


def _bytes_literal(data: bytes, binary: bool) -> exp.Expr:
    if not binary:
        if not data.startswith(b"\\x"):
            raise WireError("22P02", "a BYTEA parameter as text must begin with \\x")
        data = bytes.fromhex(data[2:].decode())
    return exp.Anonymous(this="unhex", expressions=[exp.Literal.string(data.hex())])
