"""Materialization: which parts of a term become maps, and what stays in the statement.

For a term over tables, with some variables *bound* (by the event, the batch's rows, or an enclosing query):

1. Tables are atoms, and so are nested factors that can be maintained inside a map: restricted for every table
   in them, free of parameters, and not over the event's table with a bound key. Other nested factors are
   *pulled*: they stay in the statement, over maps of their own.
2. Atoms that share an unbound variable are one component. A component without a table is pulled, unless it
   enumerates groups by a value that is compared with something outside: then it is a map by that value, also
   if some keys of the groups are bound.
3. A nested factor with bound keys joins a component that holds these keys, if a condition compares its value
   with one of the component's own variables. But where an ordered index of a map sums up to that value, or a
   key leads to the few entries that do, the sum is not kept for those who may never ask: to keep it takes as
   long at every change of the table.
4. Conditions, values and lets move into the component that binds their variables; those that name a bound
   variable stay. What an extremum is tested by stays too, if an ordered index finds the first value that
   passes (``calculus/threshold.py``): the map is that of the values.
5. Each component becomes a map, keyed by those of its variables that are needed elsewhere; bound variables
   and parameters inside it become keys too.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal, Protocol, TypeAlias

from viewlet.calculus.canonical import collect_alike, named_text
from viewlet.calculus.cyclic import is_cyclic
from viewlet.calculus.keys import determined
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
    Nested,
    Query,
    Rel,
    Term,
    Value,
    add,
    factor_variables,
    is_parameter,
    product,
    tables,
    term_variables,
    times,
)
from viewlet.calculus.ranges import as_range
from viewlet.calculus.schedule import binds_all, binds_keys
from viewlet.calculus.substitute import substitute_query
from viewlet.calculus.threshold import as_threshold
from viewlet.core.names import Names
from viewlet.core.scalar import Scalar, Var, variables
from viewlet.triggers.expand import expand_values
from viewlet.triggers.maps import MapRegistry

Depth: TypeAlias = Literal["component", "table", "rows"]


class Restrictions(Protocol):
    """Knows whether a nested factor has a restricted domain for every table it reads."""

    def restricted(self, factor: Nested) -> bool:
        """Can the factor be maintained inside a map?"""


@dataclass(slots=True)
class Materializer:
    """Turns terms over tables into terms over maps, founding the maps it needs.

    ``table`` is the event's table. ``depth`` says how much a map may hold: a component, with everything that
    can be computed inside it (higher-order maintenance); one table, filtered and projected (first-order); or
    one table as it is (re-evaluation). ``searches`` says whether there are ordered indexes: all maps are in
    one place then, and going from one to another is a lookup and not an exchange.
    """

    registry: MapRegistry
    restrictions: Restrictions
    names: Names
    table: str
    depth: Depth
    searches: bool = False

    def query(self, query: Query, needed: Iterable[Var], bound: frozenset[str]) -> Query:
        """Materialize each term; ``needed`` variables are read by whoever uses the query."""
        keys = tuple(needed)
        wanted = frozenset(var.name for var in keys)
        return collect_alike(add(*(self.term(term, wanted, bound) for term in query)), keys)

    def term(self, term: Term, needed: frozenset[str], bound: frozenset[str]) -> Query:
        """Materialize one term; expansion of values may make several of it."""
        bound = bound | {v.name for f in term.factors if _enumerates_change(f) for v in factor_variables(f)}
        components = self._components(term, needed, bound)
        home = {name: i for i, part in enumerate(components) for name in part.own}
        expanded = expand_values(term, lambda name: home.get(name, -1))
        return add(*(self._split(each, components, needed, bound) for each in expanded))

    # Components

    def _components(self, term: Term, needed: frozenset[str], bound: frozenset[str]) -> list[Component]:
        """Rules 1 to 3. A nested factor whose keys its component does not hold is left out, and pulled."""
        kept = [f for f in term.factors if self._kept(f, bound) or self._is_grouped(f, term, bound)]
        while True:
            atoms = [f for f in term.factors if isinstance(f, Rel) or any(f is k for k in kept)]
            components = [c for c in self._connect(atoms, bound) if _has_table(c) or _is_compared(c, term)]
            held = [_held(part, term.factors) for part in components]
            homeless = [
                f
                for part, names in zip(components, held, strict=True)
                for f in part.factors
                if not isinstance(f, Rel) and not _is_generator(f) and not _keys(f) <= names
            ]
            if not homeless:
                affordable = [own for part in components for own in self._affordable(part, term, bound)]
                return self._adopt(term, affordable, needed)
            kept = [f for f in kept if not any(f is h for h in homeless)]

    def _connect(self, atoms: list[Factor], bound: frozenset[str]) -> list[Component]:
        components: list[Component] = []
        for atom in atoms:
            own = frozenset(unbound(atom, bound))
            if not own and not isinstance(atom, Rel):
                continue
            linked = (
                [c for c in components if c.own & own]
                if self.depth == "component" or not isinstance(atom, Rel)
                else []
            )
            merged = Component(
                frozenset().union(own, *(c.own for c in linked)),
                (*(f for c in linked for f in c.factors), atom),
            )
            components = [c for c in components if c not in linked] + [merged]
        return components

    def _affordable(self, part: Component, term: Term, bound: frozenset[str]) -> list[Component]:
        """The component, or its tables one by one where keeping their join would not pay.

        The join could be larger than they are together if it is cyclic, closed by the event (the 2-paths of a
        triangle), unless from one of its tables the others are found by their primary keys. And it is seldom
        read if a threshold lets few events through to it: then primary keys find its rows as well, and nobody
        keeps a join for the events that stay below.
        """
        atoms = [f for f in part.factors if isinstance(f, Rel)]
        edges = [frozenset(v.name for v in factor_variables(atom)) for atom in atoms]
        if len(atoms) < 2 or not (
            self._explodes(part, edges, bound) or self._is_rarely_read(part, term, bound)
        ):
            return [part]
        return [Component(frozenset(unbound(atom, bound)), (atom,)) for atom in atoms]

    def _explodes(self, part: Component, edges: list[frozenset[str]], bound: frozenset[str]) -> bool:
        """Is it a cyclic join that primary keys do not bound by one of its tables?"""
        closing = frozenset(n for edge in edges for n in edge if n in bound or n.startswith("@"))
        return is_cyclic([*edges, closing]) and not self._has_root(list(part.factors))

    def _is_rarely_read(self, part: Component, term: Term, bound: frozenset[str]) -> bool:
        """Do primary keys find its rows, once a sum outside of it has passed a threshold?"""
        if not self.searches or self.depth != "component":
            return False
        if not all(isinstance(f, Rel) for f in part.factors):
            return False
        sums = {f.var.name for f in term.factors if isinstance(f, Lift)}
        read = ({v.name for v in factor_variables(f)} for f in term.factors if isinstance(f, Cond))
        if not any(names & sums and not names & part.own for names in read):
            return False
        given = {v.name for f in part.factors for v in factor_variables(f) if v.name not in part.own}
        return determined(part.factors, given, self.registry.catalog)

    def _kept(self, factor: Factor, bound: frozenset[str]) -> bool:
        """May a nested factor live inside a map here? Not with a bound key: then a lookup tells its value."""
        return self._keepable(factor) and not _has_bound_key(factor, bound)

    def _is_grouped(self, factor: Factor, term: Term, bound: frozenset[str]) -> bool:
        """Does it belong to groups that are gone through, by those of their keys that nothing else tells?

        Some of the keys may be bound then: the map has them first, and the others are found by the value.
        """
        if not self._keepable(factor):
            return False
        told = bound | {v.name for f in term.factors if isinstance(f, Rel) for v in factor_variables(f)}
        groups = [f for f in term.factors if _is_generator(f) and unbound(f, told)]
        return any(_keys(factor) <= _keys(group) and _keys(factor) - told for group in groups)

    def _keepable(self, factor: Factor) -> bool:
        return (
            self.depth == "component"
            and isinstance(factor, Lift | Extremum | Exists)
            and not mentions_event(factor.query, _parameters(factor))
            and self.restrictions.restricted(factor)
        )

    def _adopt(self, term: Term, components: list[Component], needed: frozenset[str]) -> list[Component]:
        """Rule 3: a kept nested factor with bound keys follows the condition that compares its value."""
        searched = {id(part) for part in components if self._is_searched(part, term, needed)}
        taken = {id(f) for c in components for f in c.factors}
        for factor in term.factors:
            if not isinstance(factor, Lift | Extremum) or id(factor) in taken:
                continue
            if not self._keepable(factor) or self.table in tables(factor.query):
                continue
            compared = {
                var.name
                for f in term.factors
                if isinstance(f, Cond) and factor.var in list(variables(f.scalar))
                for var in variables(f.scalar)
            }
            keys = {key.name for key in factor.keys}
            for i, part in enumerate(components):
                held = {v.name for f in part.factors for v in factor_variables(f)}
                if compared & part.own and keys <= held and id(part) not in searched:
                    components[i] = Component(part.own | {factor.var.name}, (*part.factors, factor))
                    break
        return components

    def _is_searched(self, part: Component, term: Term, needed: frozenset[str]) -> bool:
        """Is it one table, of which the rest of the term asks for sums along one column up to a value?

        By an ordered index, or else among the entries of one key.
        """
        if len(part.factors) != 1 or needed & part.own:
            return False
        keyed = self.depth == "component" and {v.name for v in factor_variables(part.factors[0])} - part.own
        if not (self.searches or keyed):
            return False
        names = [({v.name for v in factor_variables(f)}, f) for f in term.factors if f not in part.factors]
        mixed = [(own, f) for own, f in names if own & part.own and not own <= part.own]
        axes = {name for own, _ in mixed for name in own & part.own}
        if len(axes) != 1 or not all(isinstance(f, Cond) for _, f in mixed):
            return False
        axis = next(v for v in factor_variables(part.factors[0]) if v.name in axes)  # of two columns, perhaps
        known = frozenset(name for own, _ in mixed for name in own) - axes
        return axis.type.is_exact and all(as_range(MapRef("", (axis,)), [f], known) for _, f in mixed)

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
        known = bound | own_names(placed) | defined
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
        moved = self.depth != "rows"
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
            elif name in bound or name in keys or self.depth == "rows":
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
            alike.setdefault(frozenset(n for f in term.factors for n in _parameters(f)), []).append(term)
        wholes = [self.whole(tuple(terms), keys) for terms in alike.values()]
        rest = [self.term(term, frozenset(key.name for key in keys), known) for term in other]
        return add(*wholes, *rest)

    def sought(self, factor: Extremum, stem: str | None = None) -> Query | None:
        """The inner query of an extremum behind a threshold: the map of its values, and what tests them."""
        if not self.searches or self.depth != "component" or mentions_event(factor.query):
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
        matched = frozenset(name for f in atoms for name in _parameters(f))
        if not atoms or self.depth != "component" or mentions_event((term,), matched):
            return False
        kept = [f for f in term.factors if isinstance(f, Lift | Extremum | Exists)]
        if not all(self._kept(f, known) for f in kept):
            return False
        parts = self._components(term, frozenset(key.name for key in keys), known)
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
        return not waiting and self._has_root([f for p in parts for f in p.factors])

    def _has_root(self, factors: list[Factor]) -> bool:
        """Do the rows of one table find at most one row of each of the others by its primary key?"""
        return any(
            determined(
                [f for f in factors if f is not root],
                {v.name for v in factor_variables(root)},
                self.registry.catalog,
            )
            for root in factors
            if isinstance(root, Rel)
        )

    def _is_of_groups(self, term: Term, keys: tuple[Var, ...]) -> bool:
        """Does it enumerate groups and compute with their values, all of which a map can follow?

        Such a map holds how many groups have a value: what a maximum of sums is taken of.
        """
        nested = [f for f in term.factors if isinstance(f, Lift | Extremum | Exists)]
        if not any(_is_generator(f) for f in nested) or mentions_event((term,)):
            return False
        if not all(isinstance(f, Cond | Let) or self._keepable(f) for f in term.factors):
            return False
        return binds_all((term,), keys)

    def is_power(self, query: Query, keys: tuple[Var, ...]) -> bool:
        """Is it a product of parts that share no variable but the keys, and differ in their values alone?

        ``sum<k>(R(k, x) * R(k, y) * <f(x) * g(y)>) = sum<k>(R(k, x) * <f(x)>) * sum<k>(R(k, y) * <g(y)>)``:
        the maps on the right have the same groups, and maintaining the left would read them anyway.
        """
        if self.depth != "component" or len(query) != 1:
            return False
        (term,) = query
        known = frozenset(key.name for key in keys)
        parts = self._components(term, known, known)
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


@dataclass(frozen=True, slots=True)
class Component:
    """Atoms that share unbound variables; ``own`` are those variables."""

    own: frozenset[str]
    factors: tuple[Factor, ...]


def _has_table(part: Component) -> bool:
    return any(isinstance(f, Rel) for f in part.factors)


def _is_compared(part: Component, term: Term) -> bool:
    """Does it enumerate groups, and does a condition compare a value of theirs with something outside?"""
    values = {f.var.name for f in part.factors if isinstance(f, Lift | Extremum)}
    if not any(_is_generator(f) for f in part.factors):
        return False
    compared = ({v.name for v in factor_variables(f)} for f in term.factors if isinstance(f, Cond))
    return any(names & values and not names <= part.own for names in compared)


def _is_generator(factor: Factor) -> bool:
    """Can it bind all of its keys by itself?"""
    return isinstance(factor, Exists) and not factor.negated and binds_keys(factor, frozenset())


def _keys(factor: Factor) -> set[str]:
    return {key.name for key in factor.keys} if isinstance(factor, Lift | Extremum | Exists) else set()


def _held(part: Component, factors: Iterable[Factor]) -> set[str]:
    """The variables that a component's tables bind, with what nested factors and lets add to them.

    A let that reads nothing, ``v := 2``, moves into no component, so it binds nothing there.
    """
    held = {
        v.name for f in part.factors if isinstance(f, Rel) or _is_generator(f) for v in factor_variables(f)
    }
    held |= {f.var.name for f in part.factors if isinstance(f, Lift | Extremum)}
    lets = [(f.var.name, {v.name for v in variables(f.scalar)}) for f in factors if isinstance(f, Let)]
    while True:
        more = {name for name, reads in lets if reads and reads <= held} - held
        if not more:
            return held
        held |= more


def unbound(factor: Factor, bound: frozenset[str]) -> set[str]:
    """The variables of a factor that nothing has bound yet."""
    return {v.name for v in factor_variables(factor) if v.name not in bound and not is_parameter(v)}


def own_names(placed: Iterable[Iterable[Factor]]) -> frozenset[str]:
    """Every variable of the components."""
    return frozenset(v.name for factors in placed for f in factors for v in factor_variables(f))


def _enumerates_change(factor: Factor) -> bool:
    """Is it the change relation, or a domain of the event? Whatever it binds counts as bound."""
    if isinstance(factor, Exists) and not factor.negated:
        return all(mentions_event((term,)) for term in factor.query)
    return isinstance(factor, Delta)


def _has_bound_key(factor: Factor, bound: frozenset[str]) -> bool:
    return any(is_parameter(v) or v.name in bound for v in factor_variables(factor))


def _parameters(factor: Factor) -> frozenset[str]:
    """The parameters among a factor's arguments or keys."""
    return frozenset(v.name for v in factor_variables(factor) if is_parameter(v))


def mentions_event(query: Query, keys: frozenset[str] = frozenset()) -> bool:
    """Does a query mention the change relation, or a parameter other than ``keys``, at any depth?"""
    for term in query:
        for factor in term.factors:
            if isinstance(factor, Delta) or not _parameters(factor) <= keys:
                return True
            if isinstance(factor, Lift | Extremum | Exists) and mentions_event(factor.query, keys):
                return True
    return False
