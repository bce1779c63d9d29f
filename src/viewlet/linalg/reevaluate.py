"""Code that computes every statement from scratch: chains in the cheapest order, powers by squaring."""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

from viewlet.linalg.chain import Order, chain_order
from viewlet.linalg.instructions import Assemble, Builder, Code, Invert, Named, Nought, Replace
from viewlet.linalg.nodes import (
    Block,
    Constant,
    Expr,
    Identity,
    Input,
    Inverse,
    Iterate,
    Power,
    PowerSum,
    Product,
    Ref,
    Scale,
    Stored,
    Sum,
    Transpose,
    Window,
    Zeros,
    postorder,
)
from viewlet.linalg.program import Program


def compile_reevaluation(program: Program, changed: Iterable[str] | None = None) -> Code:
    """Recompute the statements that depend on the ``changed`` inputs, or all statements."""
    builder = Builder(dict(program.shapes))
    lowering = _Lowering(builder)
    stale = set(changed or ())
    effects = []
    for statement in program.statements:
        if changed is not None and stale.isdisjoint(_reads(statement.expr)):
            continue
        stale.add(statement.name)
        name = lowering.form(statement.expr, statement.name)
        lowering.computed[statement.name] = name
        effects.append(Replace(statement.name, name))
    return builder.code((), effects)


def _reads(expr: Expr) -> set[str]:
    return {node.name for node in postorder(expr) if isinstance(node, Input | Ref)}


class _Lowering:
    """Forms expressions; later statements read the values just computed for earlier ones."""

    def __init__(self, builder: Builder) -> None:
        self.builder = builder
        self.computed: dict[str, str] = {}

    def form(self, expr: Expr, statement: str) -> str:
        """The name of the value of ``expr``."""
        return self.builder.plain(self._form(expr, statement))

    def _form(self, expr: Expr, statement: str) -> Named:
        builder = self.builder
        match expr:
            case Input(name) | Ref(name):
                return Named(self.computed.get(name, name))
            case Constant():
                return Named(expr.name)
            case Identity(n):
                return Named(builder.unit(n))
            case Zeros(shape):
                return Named(builder.emit(Nought(shape), shape))
            case Transpose(body):
                inner = self._form(body, statement)
                return Named(inner.name, not inner.transposed)
            case Scale(factor, body):
                return Named(builder.combine([(factor, self._form(body, statement))]))
            case Sum(terms):
                return Named(builder.combine([self._scaled(term, statement) for term in terms]))
            case Product(factors):
                return self._chain(expr, [self._form(factor, statement) for factor in factors])
            case Inverse(body):
                return Named(builder.emit(Invert(self.form(body, statement), statement), expr.shape))
            case Stored(body):
                return self._form(body, statement)
            case Block(rows):
                cells = tuple(tuple(self.form(cell, statement) for cell in row) for row in rows)
                return Named(builder.emit(Assemble(cells), expr.shape))
            case Window(body, rows, columns):
                return Named(builder.part(self.form(body, statement), rows, columns))
            case Power(body, k):
                return self._power(self._form(body, statement), k)
            case PowerSum(body, k):
                return self._power_sum(self._form(body, statement), k)
            case Iterate():
                return self._iterate(expr, statement)
            case _:
                assert_never(expr)

    def _scaled(self, term: Expr, statement: str) -> tuple[int | float, Named]:
        if isinstance(term, Scale):
            return term.factor, self._form(term.body, statement)  # type: ignore[return-value]
        return 1, self._form(term, statement)

    def _chain(self, expr: Product, operands: list[Named]) -> Named:
        order = chain_order((expr.shape[0], *(factor.shape[1] for factor in expr.factors)))

        def multiply(part: Order) -> Named:
            if isinstance(part, int):
                return operands[part]
            return Named(self.builder.multiply(multiply(part[0]), multiply(part[1])))

        return multiply(order)

    def _power(self, base: Named, k: int) -> Named:
        """a^(2i) = a^i a^i;  a^(2i+1) = a a^2i"""
        if k == 1:
            return base
        half = self._power(base, k // 2)
        square = Named(self.builder.multiply(half, half))
        return Named(self.builder.multiply(base, square)) if k % 2 else square

    def _power_sum(self, base: Named, k: int) -> Named:
        """S_2i = a^i S_i + S_i;  S_(i+1) = a S_i + I"""
        unit = Named(self.builder.unit(self.builder.shape(base)[0]))
        if k == 1:
            return unit
        half = self._power_sum(base, k // 2)
        leap = Named(self.builder.multiply(self._power(base, k // 2), half))
        result = Named(self.builder.combine([(1, leap), (1, half)]))
        if k % 2:
            one_more = Named(self.builder.multiply(base, result))
            result = Named(self.builder.combine([(1, one_more), (1, unit)]))
        return result

    def _iterate(self, expr: Iterate, statement: str) -> Named:
        """T_(i+1) = A T_i + B where T is narrow; otherwise T_k = A^k T_0 + S_k B"""
        start, offset = self._form(expr.start, statement), self._form(expr.offset, statement)
        n, p = expr.shape
        squarings = expr.k.bit_length()
        if p * expr.k > 3 * n * squarings:
            step = self._form(expr.step, statement)
            leap = self.builder.multiply(self._power(step, expr.k), start)
            summed = self.builder.multiply(self._power_sum(step, expr.k), offset)
            return Named(self.builder.combine([(1, Named(leap)), (1, Named(summed))]))
        return self._narrow_steps(expr, start, offset, statement)

    def _narrow_steps(self, expr: Iterate, current: Named, offset: Named, statement: str) -> Named:
        """A T for a sum of chains A = I - X'X is T - X'(X T): never form A"""
        terms = expr.step.terms if isinstance(expr.step, Sum) else (expr.step,)
        for _ in range(expr.k):
            parts: list[tuple[int | float, Named]] = [(1, offset)]
            for term in terms:
                factor, body = (term.factor, term.body) if isinstance(term, Scale) else (1, term)
                result = current
                for matrix in reversed(body.factors if isinstance(body, Product) else (body,)):
                    result = Named(self.builder.multiply(self._form(matrix, statement), result))
                parts.append((factor, result))  # type: ignore[arg-type]
            current = Named(self.builder.combine(parts))
        return current
