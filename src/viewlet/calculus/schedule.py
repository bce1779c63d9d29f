"""The order in which the factors of a term are evaluated.

Factor order has no meaning, so any order in which every factor finds what it needs is right. The choice here
is greedy: what is ready and cheap first (conditions, values, lets, lookups), then the atom with the fewest
unknown arguments among those of which some are known, then nested factors that find their keys from what is
known, scans, and nested factors that go through all of their keys last. An atom that is told to have one
entry at most for what is known counts as a lookup, before nested factors that are more than that; one that is
told to be brief, as a change, which is smaller than what it meets.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import TypeAlias

from viewlet.calculus.nodes import (
    Cond,
    Delta,
    Exists,
    Extremum,
    Factor,
    Let,
    Lift,
    MapRef,
    Nested,
    Query,
    Rel,
    Term,
    Value,
    arguments,
    factor_variables,
    is_parameter,
)
from viewlet.core.scalar import Call, Const, Scalar, Var, variables
from viewlet.errors import CalculusError

NEVER = sys.maxsize  # more than the widest table costs

Single: TypeAlias = Callable[[MapRef, set[str]], bool]
"""Has a map one entry at most that agrees with the arguments that are known?"""
Brief: TypeAlias = Callable[[MapRef], bool]
"""Has a map what a batch brought?"""


def schedule(
    factors: Iterable[Factor], bound: Iterable[str], single: Single | None = None, brief: Brief | None = None
) -> list[Factor]:
    """The factors in an order that binds every variable before it is read.

    A condition ``{x == e}`` with x unknown and e known comes out as the let ``x := e``.
    """
    known = set(bound)
    pending = list(factors)
    costs = [_cost(factor, known, single, brief) for factor in pending]
    ordered: list[Factor] = []
    while pending:
        best = costs.index(min(costs))
        if costs[best] >= NEVER:
            names = sorted({v.name for f in pending for v in factor_variables(f)} - known)
            raise CalculusError(
                f"nothing binds {', '.join(names)} in a product of {len(ordered) + len(pending)} factors"
            )
        factor = _as_let(pending.pop(best), known)
        del costs[best]
        ordered.append(factor)
        new = {var.name for var in factor_variables(factor)} - known
        known |= new
        for i, other in enumerate(pending):
            if new and (isinstance(other, Exists) or any(v.name in new for v in factor_variables(other))):
                costs[i] = _cost(other, known, single, brief)
    return ordered


def _cost(factor: Factor, known: set[str], single: Single | None, brief: Brief | None) -> int:
    """How much later a factor should come; ``NEVER`` while it lacks something."""
    match factor:
        case Cond(scalar) | Value(scalar):
            if _is_known(scalar, known):
                return 0
            return 1 if _as_let(factor, known) is not factor else NEVER
        case Let(_, scalar):
            return 1 if _is_known(scalar, known) else NEVER
        case Rel() | Delta() | MapRef():
            unknown = {v.name for v in factor_variables(factor) if not _has(v, known)}
            if not unknown:
                return 2
            if _is_change(factor, brief):
                return 4  # a change is smaller than what it changes
            scanned = len(arguments(factor)) == len(unknown)
            if single is not None and isinstance(factor, MapRef) and not scanned and single(factor, known):
                return 4
            return (600 if scanned else 10) + 10 * len(unknown)
        case Lift(_, keys) | Extremum(_, _, _, keys):
            if not all(_has(key, known) for key in keys):
                return NEVER
            return 3 if single is None or _is_lookup(factor) else 5
        case Exists(keys, _, negated):
            if all(_has(key, known) for key in keys):
                return 3 if single is None or _is_lookup(factor) else 5
            if negated or not binds_keys(factor, frozenset(known)):
                return NEVER
            if all(is_computed(term) for term in factor.query):
                return 6  # a few values, whatever the tables hold
            begins = 500 if all(_starts_known(term.factors, known, brief) for term in factor.query) else 700
            return begins + sum(not _has(key, known) for key in keys)


def _is_lookup(factor: Nested) -> bool:
    """Do the keys of a nested factor tell every entry that it reads?"""
    given = {key.name for key in factor.keys}
    atoms = [f for term in factor.query for f in term.factors if not isinstance(f, Cond | Value | Let)]
    return all(isinstance(f, MapRef) and all(_has(v, given) for v in factor_variables(f)) for f in atoms)


def _is_change(factor: Factor, brief: Brief | None) -> bool:
    return isinstance(factor, Delta) or (brief is not None and isinstance(factor, MapRef) and brief(factor))


def _starts_known(factors: Iterable[Factor], known: set[str], brief: Brief | None) -> bool:
    """Is there an atom to begin with that is a change, or of which some argument is known?"""
    return any(
        _is_change(f, brief) or any(isinstance(a, Const) or _has(a, known) for a in arguments(f))
        for f in factors
    )


def is_computed(term: Term) -> bool:
    """Is it about computed values alone, without any row?"""
    return all(isinstance(f, Cond | Let | Value) for f in term.factors)


def binds_keys(factor: Exists, known: frozenset[str]) -> bool:
    """Does every term of an ``E`` bind those of its keys that are not known yet?"""
    given = frozenset(key.name for key in factor.keys if _has(key, set(known)))
    return binds_all(factor.query, factor.keys, given)


@lru_cache(maxsize=20_000)
def binds_all(query: Query, keys: tuple[Var, ...], given: frozenset[str] = frozenset()) -> bool:
    """Can every term be evaluated from the given variables alone, and does it bind all keys then?"""
    for term in query:
        try:
            ordered = schedule(term.factors, given)
        except CalculusError:
            return False
        bound = given | {
            v.name for f in ordered if not isinstance(f, Cond | Value) for v in factor_variables(f)
        }
        if not all(_has(key, set(bound)) for key in keys):
            return False
    return True


def _as_let(factor: Factor, known: set[str]) -> Factor:
    match factor:
        case Cond(Call("==", (Var() as x, e))) if not _has(x, known) and _is_known(e, known):
            return Let(x, e)
        case Cond(Call("==", (e, Var() as x))) if not _has(x, known) and _is_known(e, known):
            return Let(x, e)
        case _:
            return factor


def _is_known(scalar: Scalar, known: set[str]) -> bool:
    return all(_has(var, known) for var in variables(scalar))


def _has(var: Var, known: set[str]) -> bool:
    return var.name in known or is_parameter(var)
