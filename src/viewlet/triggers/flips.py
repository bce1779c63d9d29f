"""What appears and what disappears, instead of all that is there minus all that was.

The change of an ``E`` comes as a difference of two products over the same rest. Most events leave the ``E``
as it was, and both products are then gone through for nothing. Where that means a scan, and the ``E`` is told
by lookups::

    E(Q') * R - E(Q) * R  =  E(Q') * N(Q) * R - E(Q) * N(Q') * R        N likewise
"""

from __future__ import annotations

from dataclasses import replace

from viewlet.calculus.nodes import Exists, Factor, Query, Term
from viewlet.calculus.schedule import binds_all
from viewlet.triggers.work import Ordered, accesses, scans


def only_flips(query: Query, searches: Ordered) -> Query:
    """Guard each ``E`` of a difference by the other one, where that is a lookup and the rest scans a map.

    >>> from viewlet.calculus.nodes import MapRef, Value, product, add
    >>> from viewlet.calculus.text import show_query
    >>> from viewlet.core.scalar import Var
    >>> x, big, held = Var("@x"), MapRef("big", (Var("y"),)), product(MapRef("m", (Var("@x"),)))
    >>> now, then = Exists((x,), add(held, product(Value(Var("@W"))))), Exists((x,), held)
    >>> print(show_query(only_flips(add(product(now, big), product(then, big, coefficient=-1)), False)))
    E<@x>(m[@x] + <@W>) * big[y] * N<@x>(m[@x]) + -1 * E<@x>(m[@x]) * big[y] * N<@x>(m[@x] + <@W>)
    """
    terms = list(query)
    for i, new in enumerate(terms):
        for j, old in enumerate(terms):
            pair = _pair(new, old) if i < j else None
            if pair is not None and _are_cheap(pair, searches) and scans((new,), searches):
                now, then = pair
                terms[i] = Term((*new.factors, _opposite(then)), new.coefficient)
                terms[j] = Term((*old.factors, _opposite(now)), old.coefficient)
                break
    return tuple(terms)


def _pair(new: Term, old: Term) -> tuple[Exists, Exists] | None:
    """The two ``E`` in which two opposite products differ, if nothing but the rest binds their keys."""
    if new.coefficient != -old.coefficient or len(new.factors) != len(old.factors):
        return None
    now = [f for f in new.factors if f not in old.factors]
    then = [f for f in old.factors if f not in new.factors]
    match now, then:
        case [Exists() as a], [Exists() as b] if (a.keys, a.negated) == (b.keys, b.negated):
            return (a, b) if binds_all((Term(_without(new, a)),), a.keys) else None
    return None


def _are_cheap(pair: tuple[Exists, Exists], searches: Ordered) -> bool:
    given = frozenset(key.name for key in pair[0].keys)
    reads = (access for factor in pair for access in accesses((Term((factor,)),), searches, given))
    return all(access.path == "get" and not access.loops for access in reads)


def _without(term: Term, factor: Factor) -> tuple[Factor, ...]:
    return tuple(f for f in term.factors if f != factor)


def _opposite(factor: Exists) -> Exists:
    return replace(factor, negated=not factor.negated)
