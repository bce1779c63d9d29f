"""Functions of doubles; what is not finite is an error, as everywhere."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

REALS: Mapping[str, Callable[..., float]] = {
    "sqrt": math.sqrt,
    "exp": math.exp,
    "expm1": math.expm1,
    "log10": math.log10,
    "log1p": math.log1p,
    "power": math.pow,
    "cbrt": math.cbrt,
    "rint": lambda a: float(round(a)),
    "degrees": math.degrees,
    "radians": math.radians,
    "sin": math.sin,
    "cos": math.cos,
    "tan": math.tan,
    "cot": lambda a: 1 / math.tan(a),
    "sec": lambda a: 1 / math.cos(a),
    "csc": lambda a: 1 / math.sin(a),
    "asin": math.asin,
    "acos": math.acos,
    "atan": math.atan,
    "atan2": math.atan2,
    "sinh": math.sinh,
    "cosh": math.cosh,
    "tanh": math.tanh,
    "hypot": math.hypot,
}


def width_bucket(value: float, low: float, high: float, count: int) -> int | None:
    """In which of ``count`` equal parts of a range a value lies, 0 before it; NULL where there is no range.

    >>> width_bucket(5.3, 0.2, 10.6, 5), width_bucket(-1.0, 0.0, 1.0, 4), width_bucket(9.0, 1.0, 0.0, 4)
    (3, 0, 0)
    """
    if count <= 0 or count == (1 << 63) - 1 or low == high:
        return None
    if low > high:
        value, low, high = -value, -low, -high
    if value < low:
        return 0
    if value >= high:
        return count + 1
    return int(count * (value - low) / (high - low)) + 1
