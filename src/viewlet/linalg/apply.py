"""Multiply an expression by thin matrices without forming the expression.

``E @ X`` with X thin is evaluated from the right, ``A @ (B @ X)`` in place of ``(A @ B) @ X``, so that no
step costs more than a matrix times a thin matrix. All X that meet the same stored matrix at the same time
are stacked into one product: reading the large matrix is what costs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from viewlet.linalg.instructions import Builder, Named, Nought
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
    transpose,
)


class Applier:
    """Products of expressions with thin matrices, each computed once per :class:`Builder`."""

    def __init__(self, builder: Builder) -> None:
        self.builder = builder
        self._known: dict[tuple[Expr, str], str] = {}

    def apply(self, expr: Expr, thin: Sequence[str]) -> list[str]:
        """The names of ``expr @ x`` for every x in ``thin``; x = I forms the expression itself."""
        missing = [x for x in dict.fromkeys(thin) if (expr, x) not in self._known]
        if missing:
            for x, y in zip(missing, self._compute(expr, missing), strict=True):
                self._known[expr, x] = y
        return [self._known[expr, x] for x in thin]

    def _compute(self, expr: Expr, thin: list[str]) -> list[str]:
        match expr:
            case Input(name) | Ref(name):
                return self._multiply(Named(name), thin)
            case Constant():
                return self._multiply(Named(expr.name), thin)
            case Transpose(Input(name) | Ref(name)):
                return self._multiply(Named(name, True), thin)
            case Transpose(Constant() as constant):
                return self._multiply(Named(constant.name, True), thin)
            case Identity():
                return thin
            case Zeros(shape):
                return [self._zeros(shape[0], x) for x in thin]
            case Scale(factor, body):
                return [self.builder.combine([(factor, Named(y))]) for y in self.apply(body, thin)]
            case Sum(terms):
                columns = [self.apply(term, thin) for term in terms]
                return [self._add(*parts) for parts in zip(*columns, strict=True)]
            case Product(factors):
                for matrix in reversed(factors):
                    thin = self.apply(matrix, thin)
                return thin
            case Block():
                return [self._block(expr, x) for x in thin]
            case Window(body, rows, columns):
                return [self._window(body, rows, columns, x) for x in thin]
            case Stored(body):
                return self.apply(body, thin)
            case Power(body, k):
                for _ in range(k):
                    thin = self.apply(body, thin)
                return thin
            case PowerSum(body, k):
                return self._power_sum(body, k, thin)
            case Iterate():
                return self._iterate(expr, thin)
            case Transpose(Iterate() as body):
                return self._iterate_transposed(body, thin)
            case Inverse() | Transpose():
                raise AssertionError(f"{type(expr).__name__} is a statement of its own and is read by name")
            case _:
                assert_never(expr)

    def _multiply(self, matrix: Named, thin: list[str]) -> list[str]:
        stacked = self.builder.stack(thin)
        return self.builder.split(self.builder.multiply(matrix, Named(stacked)), thin)

    def _power_sum(self, body: Expr, k: int, thin: list[str]) -> list[str]:
        """S_1 x = x;  S_(i+1) x = A (S_i x) + x"""
        result = thin
        for _ in range(k - 1):
            result = [self._add(y, x) for y, x in zip(self.apply(body, result), thin, strict=True)]
        return result

    def _iterate(self, expr: Iterate, thin: list[str]) -> list[str]:
        """T_0 x = start x;  T_(i+1) x = step (T_i x) + offset x"""
        result = self.apply(expr.start, thin)
        offsets = self.apply(expr.offset, thin)
        for _ in range(expr.k):
            result = [self._add(y, b) for y, b in zip(self.apply(expr.step, result), offsets, strict=True)]
        return result

    def _iterate_transposed(self, expr: Iterate, thin: list[str]) -> list[str]:
        """T_k' x = start' w_k + offset' (w_0 + ... + w_(k-1)) with w_0 = x, w_(j+1) = step' w_j"""
        step, total, current = transpose(expr.step), list(thin), list(thin)
        for j in range(expr.k):
            current = self.apply(step, current)
            if j < expr.k - 1:
                total = [self._add(s, w) for s, w in zip(total, current, strict=True)]
        from_start = self.apply(transpose(expr.start), current)
        from_offset = self.apply(transpose(expr.offset), total)
        return [self._add(a, b) for a, b in zip(from_start, from_offset, strict=True)]

    def _block(self, expr: Block, x: str) -> str:
        """[a b; c d] [x; y] = [a x + b y; c x + d y]"""
        pieces, start = [], 0
        width = self.builder.rank(x)
        for cell in expr.rows[0]:
            pieces.append(self.builder.part(x, (start, start + cell.shape[1]), (0, width)))
            start += cell.shape[1]
        above, strips = 0, []
        for row in expr.rows:
            strip = self._add(
                *(self.apply(cell, [piece])[0] for cell, piece in zip(row, pieces, strict=True))
            )
            strips.append(self.builder.embed(strip, above, expr.shape[0]))
            above += row[0].shape[0]
        return self._add(*strips)

    def _window(self, body: Expr, rows: tuple[int, int], columns: tuple[int, int], x: str) -> str:
        """a[r, c] x = (a E x)[r] where E puts x at the columns c"""
        placed = self.builder.embed(x, columns[0], body.shape[1])
        whole = self.apply(body, [placed])[0]
        return self.builder.part(whole, rows, (0, self.builder.rank(whole)))

    def _zeros(self, rows: int, x: str) -> str:
        shape = rows, self.builder.rank(x)
        return self.builder.emit(Nought(shape), shape)

    def _add(self, *names: str) -> str:
        return self.builder.combine([(1, Named(name)) for name in names])
