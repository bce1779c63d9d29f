"""Materialization: which parts of a term become maps, and what stays in the statement.

``components.py`` tells which tables and nested factors of a term one map may hold (rules 1 to 3). Then:

4. Conditions, values and lets move into the component that binds their variables; those that name a bound
   variable stay. What an extremum is tested by stays too, if an ordered index finds the first value that
   passes (``calculus/threshold.py``): the map is that of the values.
5. Each component becomes a map, keyed by those of its variables that are needed elsewhere; bound variables
   and parameters inside it become keys too.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from viewlet.calculus.canonical import collect_alike, named_text
from viewlet.calculus.nodes import (
    Argument,
    Cond,
    Delta,
    Exists,
    Extremum,
    Factor,
    Let,
    Lift,
    MapRef,
    Query,
    Rel,
    Term,
    Value,
    add,
    factor_variables,
    is_parameter,
    product,
    term_variables,
    times,
)
from viewlet.calculus.schedule import binds_all
from viewlet.calculus.substitute import substitute_query
from viewlet.calculus.threshold import as_threshold
from viewlet.core.names import Names
from viewlet.core.scalar import Scalar, Var
from viewlet.triggers.components import (
    Component,
    Components,
    has_root,
    is_generator,
    mentions_event,
    parameters,
    unbound,
)
from viewlet.triggers.expand import expand_values
from viewlet.triggers.maps import MapRegistry


@dataclass(slots=True)
class Materializer:
    """Turns terms over tables into terms over maps, founding the maps it needs."""

    registry: MapRegistry
    names: Names
    components: Components

    def query(self, query: Query, needed: Iterable[Var], bound: frozenset[str]) -> Query:
        """Materialize each term; ``needed`` variables are read by whoever uses the query."""
        keys = tuple(needed)
        wanted = frozenset(var.name for var in keys)
        return collect_alike(add(*(self.term(term, wanted, bound) for term in query)), keys)

    def term(self, term: Term, needed: frozenset[str], bound: frozenset[str]) -> Query:
        """Materialize one term; expansion of values may make several of it."""
        bound = bound | {v.name for f in term.factors if _enumerates_change(f) for v in factor_variables(f)}
        components = self.components.of(term, needed, bound)
        home = {name: i for i, part in enumerate(components) for name in part.own}
        expanded = expand_values(term, lambda name: home.get(name, -1))
        return add(*(self._split(each, components, needed, bound) for each in expanded))

    # Splitting a term into maps and the rest

    def _split(
        self, term: Term, components: list[Component], needed: frozenset[str], bound: frozenset[str]
    ) -> Query:
        placed: list[list[Factor]] = [list(part.factors) for part in components]
        own = [set(part.own) for part in components]
        inside = {id(f) for part in components for f in part.factors}
        rest = [f for f in term.factors if id(f) not in inside]
        rest = self._push(rest, placed, own)
        reads = needed | {v.name for f in rest for v in factor_variables(f)}
        defined = {f.var.name for f in rest if isinstance(f, Let | Lift | Extremum)}
        known = bound | _own_names(placed) | defined
        result: list[Factor] = []
        for i, factors in enumerate(placed):
            others = {
                v.name for j, fs in enumerate(placed) if j != i for f in fs for v in factor_variables(f)
            }
            result.append(self._as_map(factors, own[i] & (reads | others), bound))
        for factor in rest:
            result.append(self._pull(factor, known))
        return product(*result, coefficient=term.coefficient)

    def _push(self, rest: list[Factor], placed: list[list[Factor]], own: list[set[str]]) -> list[Factor]:
        """Rule 4, repeated because a let may complete what a condition needs."""
        moved = self.components.depth != "rows"
        while moved:
            moved = False
            for factor in list(rest):
                if not isinstance(factor, Cond | Value | Let):
                    continue
                names = {v.name for v in factor_variables(factor)}
                reads = names - ({factor.var.name} if isinstance(factor, Let) else set())
                for i, inside in enumerate(own):
                    joins = isinstance(factor, Let) and self._shared(factor, i, placed)
                    if reads and reads <= inside and not joins:
                        placed[i].append(factor)
                        inside |= names
                        rest.remove(factor)
                        moved = True
                        break
        return rest

    def _shared(self, let: Let, i: int, placed: list[list[Factor]]) -> bool:
        """Does another component bind the let's variable too, so that the let is a join condition?"""
        return any(
            let.var in list(factor_variables(f))
            for j, factors in enumerate(placed)
            if j != i
            for f in factors
        )

    def _as_map(self, factors: list[Factor], keys: set[str], bound: frozenset[str]) -> MapRef:
        """Rule 5: bound variables and parameters inside become keys under names of their own."""
        present = term_variables(factors)
        access: list[Argument] = []
        own_keys: list[Var] = []
        renaming: dict[str, Scalar] = {}
        for name, var in present.items():
            if is_parameter(var):
                key = Var(self.names.fresh(name.lstrip("@")), var.type, var.nullable)
                renaming[name] = key
                own_keys.append(key)
                access.append(var)
            elif name in bound or name in keys or self.components.depth == "rows":
                own_keys.append(var)
                access.append(var)
        definition = substitute_query(product(*factors), renaming)
        return self.registry.reference(tuple(own_keys), tuple(access), definition)

    # Pulled nested factors

    def _pull(self, factor: Factor, bound: frozenset[str]) -> Factor:
        match factor:
            case Lift(keys=keys, query=query):
                return replace(factor, query=self.nested(query, keys, keys, bound))
            case Extremum(of=of, keys=keys, query=query):
                sought = self.sought(factor)
                nested = self.nested(query, (*keys, of), keys, bound) if sought is None else sought
                return replace(factor, query=nested)
            case Exists(keys=keys, query=query):
                return replace(factor, query=self.nested(query, keys, keys, bound))
            case _:
                return factor

    def nested(
        self, query: Query, keys: tuple[Var, ...], given: tuple[Var, ...], bound: frozenset[str]
    ) -> Query:
        """The inner query of a pulled factor: one map for all its plain terms that match the same parameters.

        ``keys`` are shared with the outside; those of them that are ``given`` and bound connect nothing.
        """
        known = frozenset(key.name for key in given if key.name in bound)
        plain = tuple(t for t in query if self._is_plain(t, keys, known) or self._is_of_groups(t, keys))
        other = tuple(term for term in query if term not in plain)
        alike: dict[frozenset[str], list[Term]] = {}
        for term in plain:
            alike.setdefault(frozenset(n for f in term.factors for n in parameters(f)), []).append(term)
        wholes = [self.whole(tuple(terms), keys) for terms in alike.values()]
        rest = [self.term(term, frozenset(key.name for key in keys), known) for term in other]
        return add(*wholes, *rest)

    def sought(self, factor: Extremum, stem: str | None = None) -> Query | None:
        """The inner query of an extremum behind a threshold: the map of its values, and what tests them."""
        if (
            not self.components.searches
            or self.components.depth != "component"
            or mentions_event(factor.query)
        ):
            return None
        found, keys = as_threshold(factor), (*factor.keys, factor.of)
        if found is None or not binds_all(found.values, keys):
            return None
        known = frozenset(key.name for key in keys)
        tests = product(*(self._pull(test, known) for test in found.tests))
        return times(self.whole(found.values, keys, stem), tests)

    def _is_plain(self, term: Term, keys: tuple[Var, ...], known: frozenset[str]) -> bool:
        """Connected, restricted, and without the event but for parameters that are matched in atoms.

        Those become keys, so a condition on them is a condition on keys.
        """
        atoms = [f for f in term.factors if isinstance(f, Rel)]
        matched = frozenset(name for f in atoms for name in parameters(f))
        if not atoms or self.components.depth != "component" or mentions_event((term,), matched):
            return False
        kept = [f for f in term.factors if isinstance(f, Lift | Extremum | Exists)]
        if not all(self.components.keeps(f, known) for f in kept):
            return False
        parts = self.components.of(term, frozenset(key.name for key in keys), known)
        if len(parts) != 1 and not self._are_linked(parts, term):
            return False
        return binds_all((term,), keys)

    def _are_linked(self, parts: list[Component], term: Term) -> bool:
        """Do conditions link the components, and do primary keys find all rows from those of one table?

        Who reads them apart goes through pairs at every event; the join has no more rows than the one table.
        """
        names = [{v.name for v in factor_variables(f)} for f in term.factors if isinstance(f, Cond)]
        linked, waiting = set(parts[0].own), parts[1:]
        while found := [p for p in waiting if any(own & linked and own & p.own for own in names)]:
            linked |= frozenset().union(*(p.own for p in found))
            waiting = [p for p in waiting if p not in found]
        return not waiting and has_root([f for p in parts for f in p.factors], self.registry.catalog)

    def _is_of_groups(self, term: Term, keys: tuple[Var, ...]) -> bool:
        """Does it enumerate groups and compute with their values, all of which a map can follow?

        Such a map holds how many groups have a value: what a maximum of sums is taken of.
        """
        nested = [f for f in term.factors if isinstance(f, Lift | Extremum | Exists)]
        if not any(is_generator(f) for f in nested) or mentions_event((term,)):
            return False
        if not all(isinstance(f, Cond | Let) or self.components.keepable(f) for f in term.factors):
            return False
        return binds_all((term,), keys)

    def is_power(self, query: Query, keys: tuple[Var, ...]) -> bool:
        """Is it a product of parts that share no variable but the keys, and differ in their values alone?

        ``sum<k>(R(k, x) * R(k, y) * <f(x) * g(y)>) = sum<k>(R(k, x) * <f(x)>) * sum<k>(R(k, y) * <g(y)>)``:
        the maps on the right have the same groups, and maintaining the left would read them anyway.
        """
        if self.components.depth != "component" or len(query) != 1:
            return False
        (term,) = query
        known = frozenset(key.name for key in keys)
        parts = self.components.of(term, known, known)
        home = {name: i for i, part in enumerate(parts) for name in part.own}
        values = [f for each in expand_values(term, home.get) for f in each.factors if isinstance(f, Value)]
        others = [f for f in term.factors if not isinstance(f, Rel | Value)]
        return (
            len(parts) > 1
            and len(home) == sum(len(part.own) for part in parts)
            and len({named_text(product(*part.factors), keys) for part in parts}) == 1
            and all(isinstance(f, Cond) and not unbound(f, known) for f in others)
            and all(len({home[name] for name in unbound(f, known)}) <= 1 for f in values)
        )

    def whole(self, query: Query, keys: tuple[Var, ...], stem: str | None = None) -> Query:
        """A query as one map over its keys and over the parameters that its atoms are matched with."""
        present = {name: var for term in query for name, var in term_variables(term.factors).items()}
        wanted = {key.name for key in keys}
        own_keys: list[Var] = []
        access: list[Argument] = []
        renaming: dict[str, Scalar] = {}
        for name, var in present.items():
            if is_parameter(var):
                renaming[name] = Var(self.names.fresh(name.lstrip("@")), var.type, var.nullable)
                own_keys.append(renaming[name])  # type: ignore[arg-type]
                access.append(var)
            elif name in wanted:
                own_keys.append(var)
                access.append(var)
        definition = substitute_query(query, renaming)
        return product(self.registry.reference(tuple(own_keys), tuple(access), definition, stem))


def _enumerates_change(factor: Factor) -> bool:
    """Is it the change relation, or a domain of the event? Whatever it binds counts as bound."""
    if isinstance(factor, Exists) and not factor.negated:
        return all(mentions_event((term,)) for term in factor.query)
    return isinstance(factor, Delta)


def _own_names(placed: Iterable[Iterable[Factor]]) -> frozenset[str]:
    """Every variable of the components."""
    return frozenset(v.name for factors in placed for f in factors for v in factor_variables(f))
