"""Expressions and code as text.

Expressions print as the Python that writes them, and :func:`parse` reads that text back:
``parse(show(e), names) is e``.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any, assert_never

from viewlet.linalg.errors import LinalgError
from viewlet.linalg.instructions import (
    Accumulate,
    Assemble,
    Code,
    Combine,
    Divide,
    Effect,
    Embed,
    Instruction,
    Invert,
    Multiply,
    Named,
    Nought,
    Part,
    Replace,
    Stack,
    Unit,
)
from viewlet.linalg.iterate import iteration
from viewlet.linalg.nodes import (
    Block,
    Constant,
    Expr,
    Identity,
    Input,
    Inverse,
    Iterate,
    Matrix,
    Power,
    PowerSum,
    Product,
    Ref,
    Scalar,
    Scale,
    Stored,
    Sum,
    Transpose,
    Window,
    Zeros,
    block,
    power,
    power_sum,
    stored,
)

_SUM, _PRODUCT, _ATOM = 1, 2, 3


def show(expr: Expr) -> str:
    """The expression as Python text.

    >>> A, B = Input("A", (2, 2)), Input("B", (2, 2))
    >>> show((A.T @ A - 2 * B).inv() @ B)
    '(A.T @ A - 2 * B).inv() @ B'
    """
    return _show(expr)[0]


def _show(expr: Expr) -> tuple[str, int]:
    match expr:
        case Input(name) | Ref(name):
            return name, _ATOM
        case Constant():
            return expr.name, _ATOM
        case Identity(n):
            return f"identity({n})", _ATOM
        case Zeros((rows, columns)):
            return f"zeros({rows}, {columns})", _ATOM
        case Sum(terms):
            return _show_sum(terms), _SUM
        case Scale(factor, body):
            return f"{_scalar(factor)} * {_at_least(body, _ATOM)}", _PRODUCT
        case Product(factors):
            return " @ ".join(_at_least(factor, _ATOM) for factor in factors), _PRODUCT
        case Transpose(body):
            return f"{_at_least(body, _ATOM)}.T", _ATOM
        case Inverse(body):
            return f"{_at_least(body, _ATOM)}.inv()", _ATOM
        case Block(rows):
            text = ", ".join("[" + ", ".join(show(cell) for cell in row) + "]" for row in rows)
            return f"block([{text}])", _ATOM
        case Window(body, (top, bottom), (left, right)):
            return f"{_at_least(body, _ATOM)}[{top}:{bottom}, {left}:{right}]", _ATOM
        case Stored(body):
            return f"stored({show(body)})", _ATOM
        case Power(body, k):
            return f"power({show(body)}, {k})", _ATOM
        case PowerSum(body, k):
            return f"power_sum({show(body)}, {k})", _ATOM
        case Iterate(step, offset, start, k):
            return f"iteration({show(step)}, {show(offset)}, {show(start)}, {k})", _ATOM
        case _:
            assert_never(expr)


def _show_sum(terms: tuple[Expr, ...]) -> str:
    text = _at_least(terms[0], _PRODUCT)
    for term in terms[1:]:
        if isinstance(term, Scale) and term.factor < 0:
            text += " - " + _at_least(-term, _PRODUCT)
        else:
            text += " + " + _at_least(term, _PRODUCT)
    return text


def _at_least(expr: Expr, level: int) -> str:
    text, own = _show(expr)
    return text if own >= level else f"({text})"


def _scalar(value: Scalar) -> str:
    return f"{value.numerator}/{value.denominator}" if isinstance(value, Fraction) else repr(value)


def parse(text: str, names: Mapping[str, Expr]) -> Expr:
    """Read an expression over named matrices; the inverse of :func:`show`.

    >>> A = Input("A", (2, 2))
    >>> parse("power(A, 4) + 1/2 * A.T", {"A": A}) is power(A, 4) + Fraction(1, 2) * A.T
    True
    """
    try:
        tree = ast.parse(text, mode="eval").body
    except SyntaxError as wrong:
        raise LinalgError(f"cannot read {text!r}: {wrong.msg} at column {wrong.offset}") from None
    value = _read(tree, names)
    if not isinstance(value, Matrix):
        raise LinalgError(f"{text!r} is not a matrix expression")
    return value  # type: ignore[return-value]


_FUNCTIONS: Mapping[str, Callable[..., Expr]] = {
    "identity": Identity,
    "zeros": lambda rows, columns: Zeros((rows, columns)),
    "power": power,
    "power_sum": power_sum,
    "iteration": iteration,
    "stored": stored,
    "block": block,
}


def _read(tree: ast.expr, names: Mapping[str, Expr]) -> Any:
    def read(part: ast.expr) -> Any:
        return _read(part, names)

    match tree:
        case ast.Name(name) if name in names:
            return names[name]
        case ast.Constant(int() | float() as value):
            return value
        case ast.List(items):
            return [read(item) for item in items]
        case ast.UnaryOp(ast.USub(), body):
            return -read(body)
        case ast.BinOp(left, operator, right):
            return _binary(operator, read(left), read(right))
        case ast.Attribute(body, "T"):
            return read(body).T
        case ast.Call(ast.Attribute(body, "inv"), []):
            return read(body).inv()
        case ast.Call(ast.Name(name), arguments) if name in _FUNCTIONS:
            return _FUNCTIONS[name](*map(read, arguments))
        case ast.Subscript(body, ast.Tuple([ast.Slice(top, bottom), ast.Slice(left, right)])):
            limits = [None if limit is None else read(limit) for limit in (top, bottom, left, right)]
            return read(body)[slice(*limits[:2]), slice(*limits[2:])]
        case _:
            raise LinalgError(
                f"cannot read {ast.unparse(tree)!r}; known names: {', '.join(sorted(names)) or 'none'}, "
                f"known functions: {', '.join(sorted(_FUNCTIONS))}"
            )


def _binary(operator: ast.operator, left: Any, right: Any) -> Any:
    match operator:
        case ast.Add():
            return left + right
        case ast.Sub():
            return left - right
        case ast.Mult():
            return left * right
        case ast.MatMult():
            return left @ right
        case ast.Div():
            return Fraction(left, right) if isinstance(left, int) and isinstance(right, int) else left / right
        case ast.Pow():
            return left**right
        case _:
            raise LinalgError(f"matrices have no operator {type(operator).__name__}; use @ + - * /")


def show_code(code: Code) -> str:
    """One line per instruction and effect.

    ``:=`` names a value, ``+=`` changes a stored matrix; all of the former run before any of the latter.
    """
    lines = [f"{name} := {show_instruction(op)}" for name, op in code.instructions]
    return "\n".join(lines + [_show_effect(effect) for effect in code.effects])


def show_instruction(op: Instruction) -> str:
    """The right-hand side of an instruction."""
    match op:
        case Multiply(left, right):
            return f"{_named(left)} @ {_named(right)}"
        case Combine(terms):
            text = " + ".join(
                _named(named) if factor == 1 else f"{_scalar(factor)} * {_named(named)}"
                for factor, named in terms
            )
            return text.replace("+ -1 * ", "- ")
        case Stack(names):
            return "[" + "  ".join(names) + "]"
        case Part(name, (top, bottom), (left, right)):
            return f"{name}[{top}:{bottom}, {left}:{right}]"
        case Embed(name, above, total):
            return f"embed({name}, at row {above} of {total})"
        case Assemble(rows):
            return "block(" + "; ".join(" ".join(row) for row in rows) + ")"
        case Unit(n):
            return f"identity({n})"
        case Nought((rows, columns)):
            return f"zeros({rows}, {columns})"
        case Divide(left, capacitance):
            return f"-{left} @ {capacitance}.inv()"
        case Invert(name):
            return f"{name}.inv()"
        case _:
            assert_never(op)


def _show_effect(effect: Effect) -> str:
    match effect:
        case Accumulate(target, left, right):
            return f"{target} += {left} @ {right}.T"
        case Replace(target, name):
            return f"{target} := {name}"
        case _:
            assert_never(effect)


def _named(named: Named) -> str:
    return f"{named.name}.T" if named.transposed else named.name
