"""What appears and what disappears, instead of all that is there minus all that was.

The change of a nested query comes as a difference of two products over the same rest. Most events leave it as
it was, and both products are then gone through for nothing. So what the change of the nested query itself is
a product of becomes a guard of both; and where the rest has a loop, each side is guarded by the other::

    f(Q + c * M[k] * D) * R - f(Q) * R    =  ( .. ) * c * E<k>(M[k])                         k known

    E(Q') * R - E(Q) * R                  =  E(Q') * N(Q) * R - E(Q) * N(Q') * R             N likewise

    (x := min Q') * R - (x := min Q) * R  =    (x := min Q') * (y := min Q) * {not x == y} * R
                                             - (x := min Q) * (y := min Q') * {not x == y} * R
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from viewlet.calculus.nodes import (
    Cond,
    Exists,
    Extremum,
    Factor,
    Lift,
    MapRef,
    Nested,
    Query,
    Term,
    factor_variables,
    is_parameter,
)
from viewlet.calculus.schedule import binds_all
from viewlet.core.names import Names
from viewlet.core.scalar import Var, call
from viewlet.triggers.work import Ordered, accesses


def only_flips(query: Query, names: Names, searches: Ordered) -> Query:
    """Guard the two sides of every difference, where that is a lookup.

    >>> from viewlet.calculus.nodes import Value, product, add
    >>> from viewlet.calculus.text import show_query
    >>> x, big, held = Var("@x"), MapRef("big", (Var("y"),)), product(MapRef("m", (Var("@x"),)))
    >>> now, then = Exists((x,), add(held, product(Value(Var("@W"))))), Exists((x,), held)
    >>> change = add(product(now, big), product(then, big, coefficient=-1))
    >>> print(show_query(only_flips(change, Names(), False)))
    E<@x>(m[@x] + <@W>) * big[y] * N<@x>(m[@x]) + -1 * E<@x>(m[@x]) * big[y] * N<@x>(m[@x] + <@W>)
    """
    terms = list(query)
    for i, new in enumerate(terms):
        for j, old in enumerate(terms):
            pairs = _pairs(new, old) if i < j else []
            if not pairs:
                continue
            guards = [guard for guard in _guards(*pairs[0]) if all(guard in _guards(*p) for p in pairs)]
            guards = [guard for guard in guards if guard not in new.factors]
            now, then = pairs[0]
            flips = len(pairs) == 1 and _has_loop(new) and _can_flip(new, now, then, searches)
            unlike = (_unlike(now, then, names), _unlike(then, now, names)) if flips else ((), ())
            terms[i] = Term((*guards, *new.factors, *unlike[0]), new.coefficient)
            terms[j] = Term((*guards, *old.factors, *unlike[1]), old.coefficient)
            break
    return tuple(terms)


def _pairs(new: Term, old: Term) -> list[tuple[Nested, Nested]]:
    """The nested factors in which two opposite products differ, if they differ in nothing else."""
    if new.coefficient != -old.coefficient or len(new.factors) != len(old.factors):
        return []
    now = [f for f in new.factors if f not in old.factors]
    then = [f for f in old.factors if f not in new.factors]
    pairs: list[tuple[Nested, Nested]] = []
    for a, b in zip(now, then, strict=False):
        if not isinstance(a, Nested) or not isinstance(b, Nested) or replace(a, query=b.query) != b:
            return []
        pairs.append((a, b))
    return pairs if len(now) == len(then) else []


def _guards(now: Nested, then: Nested) -> list[Factor]:
    """Conditions on the event, and lookups by it, that are factors of all that one query has more."""
    more = [term for term in now.query if term not in then.query]
    if not more or any(term not in now.query for term in then.query):
        return []
    common = [f for f in more[0].factors if all(f in term.factors for term in more)]
    return [_there(f) for f in common if _is_told(f)]


def _is_told(factor: Factor) -> bool:
    """Is it a condition on the event alone, or a lookup by the event alone?"""
    return isinstance(factor, Cond | MapRef) and all(is_parameter(v) for v in factor_variables(factor))


def _there(factor: Factor) -> Factor:
    """A factor that is 1 where a factor is not 0."""
    if isinstance(factor, MapRef):
        keys = tuple(dict.fromkeys(key for key in factor.keys if isinstance(key, Var)))
        return Exists(keys, (Term((factor,)),))
    return factor


def _has_loop(term: Term) -> bool:
    """Goes it through entries of a map that the event alone does not name?"""
    return any(
        isinstance(f, MapRef) and not all(map(is_parameter, factor_variables(f))) for f in term.factors
    )


def _can_flip(new: Term, now: Nested, then: Nested, searches: Ordered) -> bool:
    """Is it an extremum; or an ``E`` told by lookups, whose keys something else binds?"""
    match now:
        case Extremum():
            return True
        case Exists(keys):
            rest = Term(tuple(f for f in new.factors if f != now))
            given = frozenset(key.name for key in keys)
            reads = (a for factor in (now, then) for a in accesses((Term((factor,)),), searches, given))
            return binds_all((rest,), keys) and all(a.path == "get" and not a.loops for a in reads)
        case Lift():
            return False


def _unlike(factor: Nested, other: Nested, names: Names) -> Sequence[Factor]:
    """Factors that are 1 where the other one differs from this."""
    match factor, other:
        case Extremum(var), Extremum():
            was = Var(names.fresh(var.name), var.type, var.nullable)
            return replace(other, var=was), Cond(call("not", call("==", var, was)))
        case Exists(), Exists():
            return (replace(other, negated=not other.negated),)
        case _:
            return ()
