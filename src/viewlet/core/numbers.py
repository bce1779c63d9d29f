"""Functions of numbers: arithmetic, rounding, bits, and what is computed from sums.

Exact + - * are operators of the generated code (``functions.py``); here is the rest.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from decimal import ROUND_HALF_EVEN, ROUND_HALF_UP, Decimal
from fractions import Fraction
from typing import Any

from viewlet.core.casts import EXACT, Builder, Function, finite, fit, half_up, rescale, show, single
from viewlet.core.reals import REALS, width_bucket
from viewlet.core.scalar import Call
from viewlet.core.types import INTEGER_BITS, Kind, Type
from viewlet.errors import ValueRangeError


def describe(call: Call, *values: Any) -> str:
    """A call with its operands, for error messages: ``power(10.0, 400.0)``."""
    shown = [show(value, arg.type) for value, arg in zip(values, call.args, strict=True)]
    return f"{shown[0]} {call.op} {shown[1]}" if call.op in "+-*/%" else f"{call.op}({', '.join(shown)})"


def in_doubles(call: Call, compute: Callable[..., float]) -> Function:
    """``compute`` on the operands as doubles; domain errors and results that are not finite raise."""
    units = [10**arg.type.scale for arg in call.args]

    def run(*values: Any) -> float:
        try:
            result = compute(*(value / unit for value, unit in zip(values, units, strict=True)))
        except ZeroDivisionError:
            raise ValueRangeError(f"{describe(call, *values)}: division by zero") from None
        except (ValueError, OverflowError) as reason:
            raise ValueRangeError(f"{describe(call, *values)}: {reason}") from None
        return (single if call.type.kind is Kind.FLOAT else finite)(result, describe(call, *values))

    return run


def _floating_arithmetic(compute: Callable[..., float]) -> Builder:
    return lambda call: in_doubles(call, compute)


def divide(call: Call) -> Function:
    """a / b to the scale of the result, HALF_UP; a double if the result is one. By zero is an error."""
    left, right = (arg.type for arg in call.args)
    if not call.type.is_exact or left.is_floating or right.is_floating:
        return _divide_to_double(call, left, right)
    shift = call.type.scale - left.scale + right.scale
    up, down = 10 ** max(shift, 0), 10 ** max(-shift, 0)

    def run(a: int, b: int) -> int:
        if not b:
            raise ValueRangeError(f"{describe(call, a, b)}: division by zero")
        return fit(half_up(a * up, b * down), call.type, describe(call, a, b))

    return run


def _divide_to_double(call: Call, left: Type, right: Type) -> Function:
    if left.is_floating or right.is_floating:
        return in_doubles(call, lambda a, b: a / b)
    unit_left, unit_right = 10**left.scale, 10**right.scale

    def run(a: int, b: int) -> float:
        if not b:
            raise ValueRangeError(f"{describe(call, a, b)}: division by zero")
        ratio: float = (a * unit_right) / (b * unit_left)  # integers: one correct rounding, at the end
        return ratio

    return run


def _truncated(call: Call, quotient: bool) -> Function:
    """a div b without its fraction, or a - b * (a div b), whose sign is a's."""
    left, right = (arg.type for arg in call.args)
    if left.is_floating or right.is_floating:
        return in_doubles(call, math.fmod)
    scale = max(left.scale, right.scale)
    unit_left, unit_right = 10 ** (scale - left.scale), 10 ** (scale - right.scale)

    def run(a: int, b: int) -> int:
        if not b:
            raise ValueRangeError(f"{describe(call, a, b)}: division by zero")
        whole, rest = divmod(abs(a) * unit_left, abs(b) * unit_right)
        if quotient:
            return fit(whole if (a < 0) == (b < 0) else -whole, call.type, describe(call, a, b))
        return fit(rescale(-rest if a < 0 else rest, scale, call.type.scale), call.type, describe(call, a, b))

    return run


def _unary(compute: Callable[[Any], Any]) -> Builder:
    """Minus and absolute value: exact types check their range (there is no 2**63)."""

    def build(call: Call) -> Function:
        if call.type.is_floating:
            return in_doubles(call, compute)
        source = call.args[0].type.scale
        return lambda a: fit(rescale(compute(a), source, call.type.scale), call.type, describe(call, a))

    return build


def _rounding(halves: str, exact: Callable[[int, int], int]) -> Builder:
    """round(x, n): n digits after the point (before it, if negative); ``halves`` says where these go."""

    def build(call: Call) -> Function:
        source = call.args[0].type

        def exactly(a: int, digits: int = 0) -> int:
            drop = source.scale - digits
            kept = exact(a, 10**drop) if drop > 0 else a * 10**-drop
            what = f"{call.op}({show(a, source)}, {digits})"
            return fit(rescale(kept, digits, call.type.scale), call.type, what)

        def doubles(a: float, digits: int = 0) -> float:
            if digits > 400:
                return a
            step = Decimal(1).scaleb(-digits, EXACT)
            shown = repr(a) if call.type.kind is Kind.DOUBLE else show(a, source)
            kept = float(Decimal(shown).quantize(step, halves, EXACT)) + 0.0
            return kept if call.type.kind is Kind.DOUBLE else single(kept, call.op)

        return doubles if source.is_floating else exactly

    return build


def half_even(numerator: int, denominator: int) -> int:
    """numerator / denominator to the nearest integer, halves to the even one; the denominator is above 0.

    >>> half_even(5, 2), half_even(-5, 2), half_even(7, 2)
    (2, -2, 4)
    """
    quotient, rest = divmod(numerator, denominator)
    return quotient + (2 * rest > denominator or (2 * rest == denominator and quotient % 2))


def _tried(build: Builder) -> Builder:
    """The same function, NULL where it would be an error; of doubles, only where it divides by zero."""

    def build_tried(call: Call) -> Function:
        compute = build(call)

        def run(*values: Any) -> Any:
            if call.type.is_floating:
                return None if call.op == "try_divide" and not values[1] else compute(*values)
            try:
                return compute(*values)
            except ValueRangeError:
                return None

        return run

    return build_tried


def _plain_arithmetic(compute: Callable[[Any, Any], Any]) -> Builder:
    """+ - * as functions: exact at the natural scale of exact operands, then rounded and checked."""

    def build(call: Call) -> Function:
        left, right = (arg.type for arg in call.args)
        if not (left.is_exact and right.is_exact):
            return in_doubles(call, compute)
        product = call.op == "try_multiply"
        scale = left.scale + right.scale if product else max(left.scale, right.scale)
        up = (1, 1) if product else (10 ** (scale - left.scale), 10 ** (scale - right.scale))
        return lambda a, b: fit(
            rescale(compute(a * up[0], b * up[1]), scale, call.type.scale), call.type, call.op
        )

    return build


def _shift(compute: Callable[[int, int], int], unsigned: bool = False) -> Builder:
    """Shifts of 32 or 64 bits, by the distance modulo their number, as the JVM has them."""

    def build(call: Call) -> Function:
        bits = INTEGER_BITS[call.type.kind]
        low, size = 1 << (bits - 1), 1 << bits

        def run(a: int, distance: int) -> int:
            shifted = compute(a % size if unsigned else a, distance % bits)
            return (shifted + low) % size - low

        return run

    return build


def _whole(compute: Callable[[Any], int], sign: int) -> Builder:
    """floor and ceil to an integer or to a DECIMAL of scale 0."""

    def build(call: Call) -> Function:
        source = call.args[0].type
        unit = 10**source.scale
        if source.is_floating:
            return lambda a: fit(compute(a) * 10**call.type.scale, call.type, describe(call, a))
        return lambda a: fit(sign * (sign * a // unit) * 10**call.type.scale, call.type, describe(call, a))

    return build


def _sign(call: Call) -> Function:
    unit: float = 1.0 if call.type.is_floating else 10**call.type.scale
    return lambda a: unit * ((a > 0) - (a < 0))


def _natural_logarithm(call: Call) -> Function:
    """ln(x), NULL at zero and below as in Spark: the one function here that may answer NULL."""
    logarithm = in_doubles(call, math.log)
    return lambda a: logarithm(a) if a > 0 else None


def _spread(call: Call) -> Function:
    """Variance or deviation from count n, sum s and sum of squares q: ``(q - s*s / n)`` over n or n - 1.

    NULL where there is nothing to divide by. Exact until the last step for exact arguments.
    """
    unit = 10 ** call.args[1].type.scale
    sample, root = call.op.endswith("samp"), call.op.startswith("stddev")

    def spread(n: int, s: float, q: float) -> float | None:
        freedom = n - 1 if sample else n
        if freedom <= 0:
            return None
        squares = (Fraction(q) * n - Fraction(s) * Fraction(s)) / (n * freedom * unit * unit)
        variance = finite(float(max(squares, Fraction(0))), call.op)
        return math.sqrt(variance) if root else variance

    return spread


def between(low: float, high: float, part: float) -> float:
    """The number that lies so far from ``low`` to ``high``, never outside of them."""
    return low if low == high else (1.0 - part) * low + part * high


def _interpolate(call: Call) -> Function:
    """Between two neighbours of a place, by its digits behind the point."""
    unit = 10 ** call.args[2].type.scale
    return lambda low, high, place: between(low, high, place % unit / unit)


NUMBER_FUNCTIONS: Mapping[str, Builder] = {
    **dict.fromkeys(("var_pop", "var_samp", "stddev_pop", "stddev_samp"), _spread),
    "interpolate": _interpolate,
    "+": _floating_arithmetic(lambda a, b: a + b),
    "-": _floating_arithmetic(lambda a, b: a - b),
    "*": _floating_arithmetic(lambda a, b: a * b),
    "/": divide,
    "%": lambda call: _truncated(call, quotient=False),
    "div": lambda call: _truncated(call, quotient=True),
    "neg": _unary(lambda a: -a),
    "abs": _unary(abs),
    "sign": _sign,
    "round": _rounding(ROUND_HALF_UP, half_up),
    "bround": _rounding(ROUND_HALF_EVEN, half_even),
    "floor": _whole(math.floor, 1),
    "ceil": _whole(math.ceil, -1),
    "ln": _natural_logarithm,
    **{op: _floating_arithmetic(compute) for op, compute in REALS.items()},
    "width_bucket": lambda call: width_bucket,
    "try_divide": _tried(divide),
    "try_add": _tried(_plain_arithmetic(operator.add)),
    "try_subtract": _tried(_plain_arithmetic(operator.sub)),
    "try_multiply": _tried(_plain_arithmetic(operator.mul)),
    "bit_and": lambda call: operator.and_,
    "bit_or": lambda call: operator.or_,
    "bit_xor": lambda call: operator.xor,
    "bit_not": lambda call: operator.invert,
    "shift_left": _shift(operator.lshift),
    "shift_right": _shift(operator.rshift),
    "shift_right_unsigned": _shift(operator.rshift, unsigned=True),
}
