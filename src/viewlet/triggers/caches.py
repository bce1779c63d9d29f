"""View caches: a sum for every value that is asked for, where no ordered index tells it.

A sum with input variables x, such as one over ``{x * y > 5}``, is no map: it has a value for every x there
may be. A statement that goes through A and asks for it at each x scans what is summed, over and over. Closed
by the values that are asked for (a magic set), the sum is a map like any other::

    A[x, ..] * (s := sum<x>(Q))  ->  A[x, ..] * (s := sum<x>(C[x]))        C[x] := E<x>(A(x, ..)) * Q

The usual rules keep C: a change of Q's tables goes through the x of A and through nothing else; a change of A
scans Q's tables only where it brings the first row with its x, or takes the last one. An increment may ask
for an x that A does not have yet, or has no more, so it reads::

    sum<x>(Q)  =  sum<x>(C[x] + N<x>(A(x, ..)) * Q)

The first equation needs that A holds no negative counts that cancel, which is so between the batches of two
tables, and that is when a recomputation counts; the second one always holds.

A cache is founded for a recomputation, if by the cost model it saves more steps there than it takes to keep.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeAlias

from viewlet.calculus.canonical import Canonical, canonical_form, strip_values
from viewlet.calculus.nodes import (
    Argument,
    Exists,
    Extremum,
    Factor,
    Lift,
    MapRef,
    Query,
    Rel,
    Term,
    add,
    is_parameter,
    nested_factors,
    product,
    tables,
    term_variables,
    times,
)
from viewlet.calculus.schedule import binds_all
from viewlet.calculus.simplify import drop_unused
from viewlet.calculus.substitute import freshen, substitute_factor, substitute_query
from viewlet.core.names import Names
from viewlet.core.scalar import Scalar, Var
from viewlet.sql.catalog import TableKind
from viewlet.triggers.components import Restrictions, mentions_event
from viewlet.triggers.cost import CostModel, Statistics
from viewlet.triggers.maps import MapRegistry, tables_in_order
from viewlet.triggers.program import MapDefinition
from viewlet.triggers.work import Ordered, scans

Asking: TypeAlias = tuple[str, tuple[int, ...]]
"""The map whose entries ask for values, and which of its keys they ask for."""


class Surroundings(Restrictions, Protocol):
    """What caches are decided by: the tables as far as they are known, and the engine's access paths."""

    names: Names
    statistics: Statistics
    searches: Ordered


@dataclass(frozen=True, slots=True)
class Cache:
    """A cache and the count of rows that ask for each of its values, both read at ``keys``."""

    keys: tuple[Var, ...]
    values: MapRef
    asked: MapRef


@dataclass(slots=True)
class ViewCaches:
    """The caches of a program: by the canonical text of the sums that they hold, and by who asks for them."""

    registry: MapRegistry
    surroundings: Surroundings
    founded: dict[str, dict[Asking, Cache]] = field(default_factory=dict)

    def forget(self, maps: Collection[str]) -> None:
        """Drop the caches that are no more."""
        for text, caches in self.founded.items():
            self.founded[text] = {by: c for by, c in caches.items() if c.values.name not in maps}

    # Recomputations: found caches

    def recomputation(self, query: Query, table: str, given: frozenset[str] = frozenset()) -> Query:
        """The query of a recomputation on changes of ``table``, with caches where they pay."""
        return tuple(self._recomputed(term, table, given) for term in query)

    def _recomputed(self, term: Term, table: str, given: frozenset[str]) -> Term:
        factors = tuple(self._inside(factor, table) for factor in term.factors)
        for factor in factors:
            if isinstance(factor, Lift | Exists) and (cache := self._cache(factor, factors, table, given)):
                cached = replace(factor, query=product(cache))
                factors = tuple(cached if f is factor else f for f in factors)
        return Term(factors, term.coefficient)

    def _inside(self, factor: Factor, table: str) -> Factor:
        if not isinstance(factor, Lift | Extremum | Exists):
            return factor
        given = frozenset(key.name for key in factor.keys)
        return replace(factor, query=self.recomputation(factor.query, table, given))

    def _cache(
        self, factor: Lift | Exists, beside: tuple[Factor, ...], table: str, given: frozenset[str]
    ) -> MapRef | None:
        """The cache of a nested sum; ``None`` where it needs none, can have none, or is dearer with it."""
        asking = next((f for f in beside if isinstance(f, MapRef) and set(factor.keys) <= set(f.keys)), None)
        known = frozenset(key.name for key in factor.keys)
        if not known or asking is None or mentions_event(factor.query):
            return None
        if not scans((Term((factor,)),), self.surroundings.searches, known):
            return None
        form = canonical_form(factor.query, factor.keys)
        domain = self._domain(asking, factor.keys)
        summed = self._over_tables(factor.query, factor.keys)
        closed = times(product(Exists(factor.keys, domain)), summed)
        if not all(self.surroundings.restricted(f) for f in nested_factors(closed)):
            return None
        caches = self.founded.setdefault(_name(form), {})
        by = (asking.name, tuple(asking.keys.index(key) for key in form.keys))
        if by not in caches:
            if not self._pays(factor, beside, table, given, domain, summed):
                return None
            stem = "_".join([*tables_in_order(summed), "cache"])
            values = self.registry.reference(form.keys, form.keys, closed, stem)
            asked = self.registry.reference(form.keys, form.keys, domain)
            caches[by] = Cache(form.keys, values, asked)
        return _read(caches[by], form.keys)[0]

    def _domain(self, asking: MapRef, keys: tuple[Var, ...]) -> Query:
        """The rows that ask for values at ``keys``, over tables."""
        rows = strip_values(self._over_tables((Term((asking,)),), keys))
        wanted = frozenset(key.name for key in keys)
        return tuple(dict.fromkeys(drop_unused(term, wanted) for term in rows))

    def _over_tables(self, query: Query, keys: tuple[Var, ...]) -> Query:
        """The query with maps replaced by their definitions, and names of its own for all but ``keys``."""
        return freshen(add(*(self._term_over_tables(term) for term in query)), keys, self.surroundings.names)

    def _term_over_tables(self, term: Term) -> Query:
        parts: list[Query] = [(Term((), term.coefficient),)]
        for factor in term.factors:
            match factor:
                case MapRef(name, arguments):
                    definition = self.registry.maps[name]
                    own = freshen(definition.definition, definition.keys, self.surroundings.names)
                    by: dict[str, Scalar] = {
                        key.name: argument for key, argument in zip(definition.keys, arguments, strict=True)
                    }
                    parts.append(substitute_query(own, by))
                case Lift() | Extremum() | Exists():
                    inner = add(*(self._term_over_tables(t) for t in factor.query))
                    parts.append(product(replace(factor, query=inner)))
                case _:
                    parts.append(product(factor))
        return times(*parts)

    def _pays(
        self,
        factor: Lift | Exists,
        beside: tuple[Factor, ...],
        table: str,
        given: frozenset[str],
        domain: Query,
        summed: Query,
    ) -> bool:
        """Does a cache save more steps of one recomputation than it takes to keep, by the tables' rates?"""
        model = CostModel(
            self.registry.catalog,
            self.registry.maps,
            self.surroundings.statistics,
            self.surroundings.searches,
        )
        known = frozenset(key.name for key in factor.keys)
        without = tuple(replace(factor, query=()) if f is factor else f for f in beside)
        saved = model.term_steps(Term(beside), given) - model.term_steps(Term(without), given)
        scanned = sum(model.term_steps(term, known) for term in factor.query)
        asked = model.groups(domain, factor.keys)
        kept = sum(model.rate(t) * asked for t in self._changing(summed))
        kept += sum(model.rate(t) * min(1.0, asked / model.rows(t)) * scanned for t in self._changing(domain))
        return saved * model.rate(table) > kept

    def _changing(self, query: Query) -> Iterator[str]:
        catalog = self.registry.catalog
        return (table for table in sorted(tables(query)) if catalog[table].kind is not TableKind.STATIC)

    # Increments: read the caches there are

    def increment(self, query: Query) -> Query:
        """The query of an increment, with every sum that a cache holds read from it where it can be."""
        return tuple(
            Term(tuple(self._incremented(factor) for factor in term.factors), term.coefficient)
            for term in query
        )

    def _incremented(self, factor: Factor) -> Factor:
        if not isinstance(factor, Lift | Extremum | Exists):
            return factor
        factor = replace(factor, query=self.increment(factor.query))
        if isinstance(factor, Extremum):
            return factor
        keys = {key.name: key for key in factor.keys} | _parameters(factor.query)
        plain: dict[str, Scalar] = {
            name: Var(name.replace("@", "event "), key.type, key.nullable)
            for name, key in keys.items()
            if is_parameter(key)
        }
        named = tuple(v for key in keys.values() if isinstance(v := plain.get(key.name, key), Var))
        form = canonical_form(substitute_query(factor.query, plain), named)
        caches = self.founded.get(_name(form))
        if not caches:
            return factor
        cache = next(iter(caches.values()))
        given = {var.name: key for var, key in zip(named, keys.values(), strict=True)}
        values, asked = _read(cache, tuple(given[key.name] for key in form.keys))
        unasked = Exists(tuple(keys.values()), product(asked), negated=True)
        return replace(factor, query=add(product(values), times(product(unasked), factor.query)))


def _name(form: Canonical) -> str:
    return f"{len(form.keys)}: {form.text}"


def _read(cache: Cache, keys: tuple[Argument, ...]) -> tuple[MapRef, MapRef]:
    """A cache, and what asks for it, at other keys."""
    by: dict[str, Scalar] = {own.name: key for own, key in zip(cache.keys, keys, strict=True)}
    values, asked = (substitute_factor(reference, by) for reference in (cache.values, cache.asked))
    assert isinstance(values, MapRef)
    assert isinstance(asked, MapRef)
    return values, asked


def _parameters(query: Query) -> dict[str, Var]:
    """The parameters of the event in a query, at any depth."""
    found: dict[str, Var] = {}
    for term in query:
        found |= {name: var for name, var in term_variables(term.factors).items() if is_parameter(var)}
        for factor in nested_factors((term,)):
            found |= _parameters(factor.query)
    return found


def cached_domain(definition: MapDefinition) -> Exists | None:
    """The ``E`` that alone gives a view cache its keys; ``None`` for any other map."""
    found = {_closing(term, definition.keys) for term in definition.definition}
    return found.pop() if len(found) == 1 else None


def _closing(term: Term, keys: tuple[Var, ...]) -> Exists | None:
    for factor in term.factors:
        rest = Term(tuple(f for f in term.factors if f is not factor))
        if isinstance(factor, Exists) and set(factor.keys) == set(keys) and not factor.negated:
            bound = binds_all((rest,), (), frozenset(key.name for key in keys))
            if any(isinstance(f, Rel) for f in rest.factors) and bound and not binds_all((rest,), keys):
                return factor
    return None
