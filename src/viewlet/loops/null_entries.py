"""What an entry with NULL for its key adds to the sum of a search, since NULL has no place in its order.

It counts where the conditions hold for NULL, which is nearly always decided here: no comparison with NULL
holds, and a sum over none is 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from viewlet.calculus.monotone import Search
from viewlet.calculus.nodes import Cond, Factor, Let, Lift, Term
from viewlet.calculus.substitute import substitute_factor
from viewlet.core.functions import evaluate
from viewlet.core.scalar import Const, Scalar, substitute, variables
from viewlet.loops.ranges import can_fail

if TYPE_CHECKING:
    from viewlet.loops.lower import Lowering


def at_null(lowering: Lowering, search: Search) -> tuple[Factor, ...] | None:
    """The factors of the entry with NULL for its key; ``None`` if there is none that counts."""
    place = lowering.storage.place(search.atom)
    if not place.record.keys[place.arguments.index(search.key)].nullable:
        return None
    known: dict[str, Scalar] = {search.key.name: Const(None, search.key.type)}
    rest: list[Factor] = [substitute_factor(search.atom, known)]
    for factor in search.dependents:
        match substitute_factor(factor, known):
            case Lift(var, _, query) if not any(_can_count(term) for term in query):
                known[var.name] = Const(0, var.type)
            case Let(var, scalar) if not any(True for _ in variables(scalar)):
                known[var.name] = scalar
            case other:
                rest.append(other)
    for condition in (*search.rising, *search.falling):
        here = substitute(condition, known)
        if any(True for _ in variables(here)) or can_fail(here):
            rest.append(Cond(here))
        elif evaluate(here, {}) is not True:
            return None
    return tuple(rest)


def _can_count(term: Term) -> bool:
    """Is no condition of it a literal that is not TRUE?"""
    return not any(
        isinstance(f, Cond) and isinstance(f.scalar, Const) and f.scalar.value is not True
        for f in term.factors
    )
