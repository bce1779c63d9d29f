"""Products inside of nested queries that could be relations of their own.

What a nested query reads, it reads where the enclosing product is evaluated, so a map that is elsewhere would
have to be moved there as a whole. But the terms by which a nested query *changes* hold a change, and with it
they are small::

    min v<k>(m[k, v] + n[k, s, v] * dr(s))
        =  min v<k>(m[k, v] + t[k, v])    with t[k, v] := n[k, s, v] * dr(s)

So ``t`` is computed where ``n`` is, and moved instead of it. A nested query that does not change is asked for
the keys of a change outside of it, so that there is a small relation too::

    dr(k) * E<k>(n[k, s])  =  dr(k) * E<k>(t[k])    with t[k] := E<k>(|dr|(k)) * n[k, s]

Both need a product which binds its variables by itself: then it means the same outside of the query.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from viewlet.calculus.nodes import (
    Delta,
    Exists,
    Extremum,
    Factor,
    Lift,
    MapRef,
    Nested,
    Term,
    factor_variables,
    is_parameter,
)
from viewlet.calculus.schedule import schedule
from viewlet.core.scalar import Var
from viewlet.errors import CalculusError


@dataclass(frozen=True, slots=True)
class Product:
    """A term of a nested query, without its coefficient, and the variables by which the query reads it.

    It may be ``asked`` only for the keys of a change, instead of changing itself.
    """

    term: Term
    keys: tuple[Var, ...]
    asked: bool


def products(term: Term) -> Iterator[Product]:
    """The products of changes and maps in nested queries of a term that bind their variables themselves."""
    for factor in term.factors:
        if isinstance(factor, Lift | Extremum | Exists):
            for inner in factor.query:
                if (product := _product(inner, factor, term)) is not None:
                    yield product
                else:
                    yield from products(inner)


def with_relations(term: Term, relations: Mapping[Product, MapRef]) -> Term:
    """The term reading relations in the place of products."""

    def inside(factor: Factor) -> Factor:
        if not isinstance(factor, Lift | Extremum | Exists):
            return factor
        inner = []
        for own in factor.query:
            product = _product(own, factor, term)
            relation = relations.get(product) if product is not None else None
            whole = with_relations(own, relations) if relation is None else Term((relation,), own.coefficient)
            inner.append(whole)
        return replace(factor, query=tuple(inner))

    return Term(tuple(map(inside, term.factors)), term.coefficient)


def _product(inner: Term, nested: Nested, outer: Term) -> Product | None:
    """A term of a nested query in a product, if it could be a relation."""
    if not any(isinstance(factor, MapRef) for factor in inner.factors):
        return None
    changes = any(isinstance(factor, Delta) for factor in inner.factors)
    asked = () if changes else tuple(_changed_keys(nested, outer))
    factors = (*asked, *inner.factors)
    read = {key.name for key in nested.keys} | ({nested.of.name} if isinstance(nested, Extremum) else set())
    bound = {v.name: v for factor in factors for v in factor_variables(factor)}
    keys = tuple(v for name, v in bound.items() if name in read and not is_parameter(v))
    small = changes or bool(asked)
    return Product(Term(factors), keys, bool(asked)) if keys and small and _is_closed(factors) else None


def _changed_keys(nested: Nested, outer: Term) -> Iterator[Exists]:
    """For which keys of a nested query a change beside it asks."""
    names = {key.name for key in nested.keys}
    for change in outer.factors:
        if isinstance(change, Delta):
            binds = tuple((c, a) for c, a in change.binds if isinstance(a, Var) and a.name in names)
            keys = tuple(dict.fromkeys(a for _, a in binds if isinstance(a, Var)))
            if keys:
                yield Exists(keys, (Term((Delta(change.table, binds, absolute=True),)),))


def _is_closed(factors: tuple[Factor, ...]) -> bool:
    try:
        schedule(factors, set())
    except CalculusError:
        return False
    return True
