"""What an expression means: computed from scratch, slowly and obviously, on any arithmetic.

No chain ordering, no squaring, no sharing: T = A T + B is a loop. The maintained views are tested against it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, assert_never

from viewlet.linalg.arrays import Arrays, Selector
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
)


def evaluate(expr: Expr, values: Mapping[str, Any], arrays: Arrays) -> Any:
    """The value of ``expr`` where the inputs have the given values.

    >>> import numpy as np
    >>> from viewlet.linalg.modular import Modular
    >>> from viewlet.linalg.nodes import Input, power
    >>> evaluate(power(Input("A", (1, 1)), 3), {"A": np.array([[2]])}, Modular(7)).tolist()
    [[1]]
    """

    def of(node: Expr) -> Any:
        return evaluate(node, values, arrays)

    def times(left: Any, right: Any) -> Any:
        return arrays.multiply(left, False, right, False)

    def plus(left: Any, right: Any) -> Any:
        return arrays.combine([(1, left, False), (1, right, False)])

    match expr:
        case Input(name) | Ref(name):
            return values[name]
        case Constant(held):
            return arrays.take(held.array)
        case Identity(n):
            return arrays.dense(Selector.unit(n))
        case Zeros(shape):
            return arrays.zeros(shape)
        case Sum(terms):
            return arrays.combine([(1, of(term), False) for term in terms])
        case Scale(factor, body):
            return arrays.combine([(factor, of(body), False)])
        case Product(factors):
            result = of(factors[0])
            for matrix in factors[1:]:
                result = times(result, of(matrix))
            return result
        case Transpose(body):
            return arrays.combine([(1, of(body), True)])
        case Inverse(body):
            return arrays.invert(of(body), "the expression")
        case Stored(body):
            return of(body)
        case Block(rows):
            strips = [arrays.stack([of(cell) for cell in row]) for row in rows]
            flipped = arrays.stack([arrays.combine([(1, strip, True)]) for strip in strips])
            return arrays.combine([(1, flipped, True)])
        case Window(body, rows, columns):
            return of(body)[rows[0] : rows[1], columns[0] : columns[1]]
        case Power(body, k):
            base = result = of(body)
            for _ in range(k - 1):
                result = times(base, result)
            return result
        case PowerSum(body, k):
            base, result = of(body), arrays.dense(Selector.unit(body.shape[0]))
            unit = result
            for _ in range(k - 1):
                result = plus(times(base, result), unit)
            return result
        case Iterate(step, offset, start, k):
            base, shift, result = of(step), of(offset), of(start)
            for _ in range(k):
                result = plus(times(base, result), shift)
            return result
        case _:
            assert_never(expr)
