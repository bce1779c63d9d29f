"""SQL scalar expressions over columns, for ``where`` and ``select``: parsed by sqlglot, run by Arrow.

NULL follows SQL: a comparison with NULL is NULL, AND and OR are three-valued, and ``where`` keeps only true.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import sqlglot
from sqlglot import exp

from viewlet.signals.chunks import Column, Values
from viewlet.signals.errors import SignalTypeError
from viewlet.signals.values import from_values

BINARY: dict[type, Callable[..., Any]] = {
    exp.EQ: pc.equal,
    exp.NEQ: pc.not_equal,
    exp.LT: pc.less,
    exp.LTE: pc.less_equal,
    exp.GT: pc.greater,
    exp.GTE: pc.greater_equal,
    exp.Add: pc.add,
    exp.Sub: pc.subtract,
    exp.Mul: pc.multiply,
    exp.And: pc.and_kleene,
    exp.Or: pc.or_kleene,
}
UNARY: dict[type, Callable[..., Any]] = {
    exp.Not: pc.invert,
    exp.Neg: pc.negate,
    exp.Abs: pc.abs,
    exp.Sqrt: pc.sqrt,
    exp.Exp: pc.exp,
    exp.Ln: pc.ln,
    exp.Floor: pc.floor,
    exp.Ceil: pc.ceil,
    exp.Paren: lambda value: value,
}


@cache
def parse(text: str) -> exp.Expr:
    """The syntax tree of an expression, or an error that shows it."""
    try:
        return sqlglot.parse_one(text)
    except sqlglot.errors.ParseError as error:
        raise SignalTypeError(f"cannot read the expression {text!r}: {error}") from None


def evaluate(expression: str | Callable[..., Any], columns: Mapping[str, Column], rows: int) -> Column:
    """A column from others; a callable gets the columns as a mapping, numeric ones as NumPy arrays.

    >>> evaluate("a + 1 > 2", {"a": pa.array([1, 2, None])}, 3).to_pylist()
    [False, True, None]
    """
    if callable(expression):
        result = expression(Columns(columns))
    else:
        result = _walk(parse(expression), columns, expression)
    if isinstance(result, pa.Scalar):
        result = pa.array([result.as_py()] * rows, type=result.type)
    if np.ndim(result) == 0 and not isinstance(result, pa.Array):
        result = np.full(rows, result)
    if isinstance(result, pa.ChunkedArray):
        result = result.combine_chunks()
    if len(result) != rows:
        raise SignalTypeError(
            f"{expression!r} gave {len(result)} values for {rows} rows; it must give one per row"
        )
    return result if isinstance(result, pa.Array) else np.asarray(result)


def evaluate_mask(predicate: str | Callable[..., Any], columns: Mapping[str, Column], rows: int) -> Values:
    """Where the predicate is true: NULL counts as not."""
    mask = evaluate(predicate, columns, rows)
    if isinstance(mask, pa.Array):
        if not pa.types.is_boolean(mask.type):
            raise SignalTypeError(f"{predicate!r} is {mask.type}, not a condition")
        mask = mask.fill_null(False).to_numpy(zero_copy_only=False)
    if mask.dtype != np.bool_:
        raise SignalTypeError(f"{predicate!r} gives {mask.dtype}, not booleans")
    return mask


class Columns(Mapping[str, Any]):
    """Columns by name for a user's function, as NumPy arrays; also as attributes."""

    def __init__(self, columns: Mapping[str, Column]) -> None:
        self._columns = columns

    def __getitem__(self, name: str) -> Any:
        column = self._columns[name]
        return column if isinstance(column, np.ndarray) else column.to_numpy(zero_copy_only=False)

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"no column {name!r}; there are {', '.join(self._columns)}") from None

    def __iter__(self) -> Any:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)


def _walk(node: exp.Expr, columns: Mapping[str, Column], text: str) -> Any:
    def value(child: exp.Expr) -> Any:
        return _walk(child, columns, text)

    match node:
        case exp.Column():
            return _column(node.name, columns, text)
        case exp.Literal():
            return pa.scalar(node.to_py())
        case exp.Boolean():
            return pa.scalar(bool(node.this))
        case exp.Null():
            return pa.scalar(None)
        case exp.Is():
            return pc.is_null(value(node.this))
        case exp.Between():
            low, high = value(node.args["low"]), value(node.args["high"])
            tested = value(node.this)
            return pc.and_kleene(pc.greater_equal(tested, low), pc.less_equal(tested, high))
        case exp.In():
            return pc.is_in(value(node.this), value_set=pa.array([e.to_py() for e in node.expressions]))
        case exp.Div():
            return pc.divide(pc.cast(value(node.this), pa.float64()), value(node.expression))
        case _ if type(node) in BINARY:
            return BINARY[type(node)](value(node.this), value(node.expression))
        case _ if type(node) in UNARY:
            return UNARY[type(node)](value(node.this))
    raise SignalTypeError(
        f"{node.sql()!r} in {text!r} is not supported; give a Python function of the columns instead"
    )


def _column(name: str, columns: Mapping[str, Column], text: str) -> Any:
    if name not in columns:
        raise SignalTypeError(f"no column {name!r} for {text!r}; there are {', '.join(columns)}")
    column = columns[name]
    return from_values(column) if isinstance(column, np.ndarray) else column
