"""Solve equalities for a map's key, so that a lookup finds the one entry that can satisfy them::

    M[k, x] * {e = cast(x)}  ->  M[k, x] * (x := e at the type of x) * {e = x}

where e is known without M. The condition stays: e may lie between two values of x's type, and then no entry
has it. A value beyond x's type becomes NULL, which equals no value.
"""

from __future__ import annotations

from collections.abc import Iterable

from viewlet.calculus.nodes import Cond, Extremum, Factor, Let, Lift, MapRef, Term, is_parameter
from viewlet.core.scalar import Call, Const, Scalar, Var, call, variables
from viewlet.core.types import Type, bounds


def solve_equalities(term: Term, bound: frozenset[str]) -> Term:
    """Solve every equality for a key that nothing else tells.

    >>> from viewlet.calculus.text import show_term
    >>> from viewlet.core.types import decimal
    >>> e, x = Var("e", decimal(5, 1)), Var("x", decimal(38, 0))
    >>> show_term(solve_equalities(Term((MapRef("m", (x,)), Cond(call("=", e, x)))), frozenset({"e"})))
    'm[x] * (x := cast(e as DECIMAL(38,0))) * {e = x}'
    """
    keys = {k.name for f in term.factors if isinstance(f, MapRef) for k in f.keys if isinstance(k, Var)}
    for factor in term.factors:
        known = computable(term.factors, bound)
        match factor:
            case Cond(Call("=" | "==" as op, (a, b))):
                for side, other in ((a, b), (b, a)):
                    x = _uncast(side)
                    if x is None or x.name not in keys - known or not _is_known(other, known):
                        continue
                    if op == "==" and x == side:  # that is a let already, wherever it is scheduled
                        continue
                    if not (other.type.is_exact and x.type.is_exact):
                        continue
                    solved = (Let(x, _at_type(other, x.type)), Cond(call(op, other, x)))
                    term = Term(_replaced(term.factors, factor, solved), term.coefficient)
                    break
    return term


def computable(factors: Iterable[Factor], bound: frozenset[str]) -> frozenset[str]:
    """The variables that lets and nested values compute from the bound ones, without any loop."""
    known = set(bound)
    pending = [f for f in factors if isinstance(f, Let | Lift | Extremum)]
    while True:
        ready = [
            f
            for f in pending
            if f.var.name not in known
            and all(
                v.name in known or is_parameter(v)
                for v in (variables(f.scalar) if isinstance(f, Let) else f.keys)
            )
        ]
        if not ready:
            return frozenset(known)
        known |= {f.var.name for f in ready}


def _is_known(scalar: Scalar, known: frozenset[str]) -> bool:
    return all(v.name in known or is_parameter(v) for v in variables(scalar))


def _uncast(scalar: Scalar) -> Var | None:
    """The variable under casts that keep every digit."""
    match scalar:
        case Var():
            return scalar
        case Call("cast", (inner,)) if (
            inner.type.is_exact and scalar.type.is_exact and inner.type.scale <= scalar.type.scale
        ):
            return _uncast(inner)
        case _:
            return None


def _at_type(scalar: Scalar, kind: Type) -> Scalar:
    """The scalar rounded to a type, or NULL where it is beyond its range."""
    limits, own = bounds(kind), bounds(scalar.type)
    rounded = call("cast", scalar, type=kind)
    if limits is None or own is None or _fits(own, scalar.type.scale, limits, kind.scale):
        return rounded
    low, high = (Const(limit, kind) for limit in limits)
    inside = call("and", call(">=", scalar, low), call("<=", scalar, high))
    return call("case", inside, rounded, Const(None, kind), type=kind)


def _fits(own: tuple[int, int], own_scale: int, limits: tuple[int, int], scale: int) -> bool:
    """Is every value of a type, rounded, within the limits at another scale?"""
    return all(limits[0] * 10**own_scale <= value * 10**scale <= limits[1] * 10**own_scale for value in own)


def _replaced(factors: tuple[Factor, ...], old: Factor, new: tuple[Factor, ...]) -> tuple[Factor, ...]:
    return tuple(f for factor in factors for f in (new if factor is old else (factor,)))
