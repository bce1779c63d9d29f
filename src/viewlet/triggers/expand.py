"""Polynomial expansion: a value over several components becomes a sum of products over one each.

With ``nz(e)`` = e or 0 where NULL, ``nn(e)`` = 1 or 0 where NULL::

    nz(a * b)  = nz(a) * nz(b)                       nn(a * b) = nn(a) * nn(b)
    nz(a + b)  = nz(a) * nn(b) + nn(a) * nz(b)       likewise for a - b
    nz(CASE WHEN c THEN a ELSE b) = [c] * nz(a) + [c not TRUE] * nz(b)

DECIMALs are integers at their scale, so aligning scales only changes integer coefficients. What rounds
(division, narrowing casts) or is opaque (other functions) stays whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import product

from viewlet.calculus.nodes import Factor, Query, Term, Value
from viewlet.calculus.nodes import product as factor_product
from viewlet.core.arithmetic import arithmetic_type
from viewlet.core.scalar import Call, Const, Scalar, call, is_null, nullable, variables
from viewlet.core.types import BIGINT, Type

Monomial = tuple[int, tuple[Scalar, ...]]
Polynomial = list[Monomial]
Place = Callable[[str], object]


def expand_values(term: Term, place: Place) -> Query:
    """Split every value whose variables live in several places; ``place`` tells where a variable lives."""
    choices: list[Polynomial] = []
    rest: list[Factor] = []
    for factor in term.factors:
        if isinstance(factor, Value) and len(_places(factor.scalar, place)) > 1:
            choices.append(_expand(factor.scalar, place))
        else:
            rest.append(factor)
    if not choices:
        return (term,)
    return tuple(
        new
        for choice in product(*choices)
        for new in factor_product(
            *rest,
            *(Value(scalar) for _, scalars in choice for scalar in _gathered(scalars, place)),
            coefficient=term.coefficient * _product(c for c, _ in choice),
        )
    )


def _gathered(scalars: Iterable[Scalar], place: Place) -> list[Scalar]:
    """``nz(a) * nz(b) -> nz(a * b)`` within one place, so that a sum is not kept a second time in pieces."""
    found: dict[object, Scalar] = {}
    rest: list[Scalar] = []
    for scalar in scalars:
        wrapper = scalar.op if isinstance(scalar, Call) and scalar.op in ("nz", "nn") else ""
        places = frozenset(_places(scalar, place))
        together = _multiplied(found.get((wrapper, places)), scalar, wrapper)
        if together is None:
            rest.append(scalar)
        else:
            found[wrapper, places] = together
    return [*found.values(), *rest]


def _multiplied(left: Scalar | None, right: Scalar, wrapper: str) -> Scalar | None:
    """The product of two values with the same wrapper as one value; ``None`` if it might round.

    It is at least a BIGINT: what stood around it before need not have been as narrow as its sides.
    """
    if left is None:
        return right
    a, b = (side.args[0] if wrapper and isinstance(side, Call) else side for side in (left, right))
    kind = arithmetic_type("*", a, b)
    kind = BIGINT if kind.is_integer else kind
    if not _exact_product(kind, a.type, b.type):
        return None
    whole = call("*", a, b, type=kind)
    return call(wrapper, whole, type=BIGINT if wrapper == "nn" else kind) if wrapper else whole


def _product(numbers: Iterable[int]) -> int:
    result = 1
    for n in numbers:
        result *= n
    return result


def _places(scalar: Scalar, place: Place) -> set[object]:
    return {place(var.name) for var in variables(scalar)}


def _expand(scalar: Scalar, place: Place) -> Polynomial:
    """The polynomial of a value factor, which is never NULL."""
    match scalar:
        case Call("nz", (inner,)):
            return _nz(inner, place)
        case Call("nn", (inner,)):
            return _nn(inner, place)
        case _:
            return _nz(scalar, place)


def _nz(e: Scalar, place: Place) -> Polynomial:
    if is_null(e):
        return []
    if isinstance(e, Const):
        return [(int(e.value), ())] if e.type.is_exact and e.value is not None else _leaf(call("nz", e))
    if len(_places(e, place)) <= 1:
        return _leaf(call("nz", e))
    match e:
        case Call("*", (a, b), type=kind) if _exact_product(kind, a.type, b.type):
            return _times(_nz(a, place), _nz(b, place))
        case Call("+" | "-" as op, (a, b), type=kind) if _aligned(kind, a.type, b.type):
            sign = 1 if op == "+" else -1
            left = _scaled(_times(_nz(a, place), _nn(b, place)), _shift(kind, a.type))
            right = _scaled(_times(_nn(a, place), _nz(b, place)), sign * _shift(kind, b.type))
            return left + right
        case Call("neg", (a,)):
            return _scaled(_nz(a, place), -1)
        case Call("cast", (a,), type=kind) if _widens(a.type, kind):
            return _scaled(_nz(a, place), _shift(kind, a.type))
        case Call("case", args, type=kind) if _same_scale(kind, args):
            return _case(args, lambda result: _nz(result, place), place) or _leaf(call("nz", e))
    return _leaf(call("nz", e))


def _nn(e: Scalar, place: Place) -> Polynomial:
    if not nullable(e):
        return [(1, ())]
    if len(_places(e, place)) > 1:
        match e:
            case Call("*" | "+" | "-" | "/" | "neg" | "cast", args):
                result: Polynomial = [(1, ())]
                for arg in args:
                    result = _times(result, _nn(arg, place))
                return result
            case Call("case", args):
                split = _case(args, lambda result: _nn(result, place), place)
                if split is not None:
                    return split
    return _leaf(call("nn", e, type=BIGINT))


def _case(args: tuple[Scalar, ...], part: Callable[[Scalar], Polynomial], place: Place) -> Polynomial | None:
    """``sum of [earlier conditions not TRUE] * [c] * part(result)``; ``None`` if a condition spans places."""
    total: Polynomial = []
    earlier: Polynomial = [(1, ())]
    for condition, result in zip(args[0:-1:2], args[1::2], strict=True):
        if len(_places(condition, place)) > 1:
            return None
        holds, fails = _indicator(condition, 1, 0), _indicator(condition, 0, 1)
        total += _times(_times(earlier, holds), part(result))
        earlier = _times(earlier, fails)
    return total + _times(earlier, part(args[-1]))


def _indicator(condition: Scalar, if_true: int, otherwise: int) -> Polynomial:
    return _leaf(call("case", condition, Const(if_true), Const(otherwise), type=BIGINT))


def _leaf(e: Scalar) -> Polynomial:
    if isinstance(e, Const) and e.type.is_exact and e.value is not None:
        return [(int(e.value), ())]
    return [(1, (e,))]


def _times(left: Polynomial, right: Polynomial) -> Polynomial:
    return [(c * d, (*xs, *ys)) for c, xs in left for d, ys in right if c * d]


def _scaled(polynomial: Polynomial, by: int) -> Polynomial:
    return [(c * by, scalars) for c, scalars in polynomial]


def _shift(target: Type, source: Type) -> int:
    return 1 if target.is_floating else int(10 ** (target.scale - source.scale))


def _exact_product(kind: Type, left: Type, right: Type) -> bool:
    """Is the product of the representations the representation of the product?"""
    if kind.is_floating:
        return all(side.is_floating or side.is_integer for side in (left, right))
    return kind.is_exact and kind.scale == left.scale + right.scale


def _aligned(kind: Type, left: Type, right: Type) -> bool:
    if kind.is_floating:
        return left.is_floating and right.is_floating
    return kind.is_exact and kind.scale >= max(left.scale, right.scale)


def _widens(source: Type, target: Type) -> bool:
    if source.is_exact and target.is_exact:
        return target.scale >= source.scale
    return source.is_floating and target.is_floating


def _same_scale(kind: Type, args: tuple[Scalar, ...]) -> bool:
    results = [r for r in (*args[1::2], args[-1]) if not is_null(r)]
    return all(r.type.is_floating == kind.is_floating and r.type.scale == kind.scale for r in results)
