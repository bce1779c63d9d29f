"""What an ordered index can serve: keys that have an order, and the best values of one key along another.

NULL has no place in an order: it is neither least nor greatest, and conditions that hold for it want a scan.
"""

from __future__ import annotations

from viewlet.calculus.monotone import Search
from viewlet.calculus.nodes import Extremum
from viewlet.core.scalar import COMPARISONS, Call, Scalar, Var
from viewlet.core.types import Kind, Type
from viewlet.loops.nodes import Axis
from viewlet.loops.ranges import I64, type_interval, within
from viewlet.loops.storage import AtomPlace

STRICT = frozenset({"+", "-", "*", "/", "neg", "cast"})
"""Functions that are NULL if an argument is."""


def is_ordered(kind: Type) -> bool:
    """Can an index order keys of a type?"""
    return kind.kind is not Kind.NULL


def is_floating(place: AtomPlace) -> bool:
    """Are the multiplicities of a map DOUBLE? Then what is 0 but for rounding would count."""
    return any(field.type.is_floating for field in place.record.fields if field.name == place.field)


def best_axis(place: AtomPlace, interval: Search, factor: Extremum) -> Axis | None:
    """The order by the key of an interval that holds the best of another key; ``None`` where there is none:
    both keys have to be of one word, and NULL along the order must not count."""
    along, of = (place.arguments.index(key) for key in (interval.key, factor.of))
    column, best = place.record.keys[along], place.record.keys[of]
    if is_floating(place) or not all(is_ordered(c.type) and _is_word(c.type) for c in (column, best)):
        return None
    if column.nullable and may_hold_at_null(interval):
        return None
    return Axis(along, tuple(i for i in range(len(place.arguments)) if i not in (along, of)), factor.op, of)


def _is_word(kind: Type) -> bool:
    return kind.is_floating or (kind.kind is not Kind.VARCHAR and within(type_interval(kind), I64))


def may_hold_at_null(interval: Search) -> bool:
    """Can all conditions hold where the key is NULL? Errs on the side of yes."""
    return not any(_is_strict(c, interval.key) for c in (*interval.rising, *interval.falling))


def _is_strict(condition: Scalar, key: Var) -> bool:
    """Is a condition not TRUE if a variable is NULL?

    >>> from viewlet.core.scalar import Const, call
    >>> x = Var("x")
    >>> above = call(">", x, Const(3))
    >>> _is_strict(above, x), _is_strict(call("not", call("is_true", above)), x)
    (True, False)
    """
    match condition:
        case Call("and", parts):
            return any(_is_strict(part, key) for part in parts)
        case Call(op, args) if op in COMPARISONS:
            return any(_is_null_with(arg, key) for arg in args)
        case _:
            return False


def _is_null_with(scalar: Scalar, key: Var) -> bool:
    match scalar:
        case Call(op, args) if op in STRICT:
            return any(_is_null_with(arg, key) for arg in args)
        case _:
            return scalar == key
