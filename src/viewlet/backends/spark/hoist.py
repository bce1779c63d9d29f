"""Products inside of nested queries that could be relations of their own.

What a nested query reads, it reads where the enclosing product is evaluated, so a map that is elsewhere would
have to be moved there as a whole. But the terms by which a nested query *changes* hold a change, and with it
they are small::

    min v<k>(m[k, v] + n[k, s, v] * dr(s))
        =  min v<k>(m[k, v] + t[k, v])    with t[k, v] := n[k, s, v] * dr(s)

So ``t`` is computed where ``n`` is, and moved instead of it. That needs a product which binds its variables
by itself: then it means the same outside of the query.
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
    """A term of a nested query, without its coefficient, and the variables by which the query reads it."""

    term: Term
    keys: tuple[Var, ...]


def products(term: Term) -> Iterator[Product]:
    """The products of changes and maps in nested queries of a term that bind their variables themselves."""
    for factor in term.factors:
        if isinstance(factor, Lift | Extremum | Exists):
            for inner in factor.query:
                product = _product(inner, factor)
                if _has_both(inner) and _is_closed(inner) and product.keys:
                    yield product
                else:
                    yield from products(inner)


def with_relations(term: Term, relations: Mapping[Product, MapRef]) -> Term:
    """The term reading relations in the place of products."""

    def inside(factor: Factor) -> Factor:
        if not isinstance(factor, Lift | Extremum | Exists):
            return factor
        inner = (
            Term((relations[product],), own.coefficient)
            if (product := _product(own, factor)) in relations
            else with_relations(own, relations)
            for own in factor.query
        )
        return replace(factor, query=tuple(inner))

    return Term(tuple(map(inside, term.factors)), term.coefficient)


def _product(inner: Term, nested: Nested) -> Product:
    read = {key.name for key in nested.keys} | ({nested.of.name} if isinstance(nested, Extremum) else set())
    bound = {v.name: v for factor in inner.factors for v in factor_variables(factor)}
    keys = tuple(v for name, v in bound.items() if name in read and not is_parameter(v))
    return Product(Term(inner.factors), keys)


def _has_both(term: Term) -> bool:
    kinds = {type(factor) for factor in term.factors}
    return {Delta, MapRef} <= kinds


def _is_closed(term: Term) -> bool:
    try:
        schedule(term.factors, set())
    except CalculusError:
        return False
    return True
