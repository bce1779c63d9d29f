"""Components: which factors of a term one map may hold together.

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

``materialize.py`` makes maps of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from viewlet.calculus.cyclic import is_cyclic
from viewlet.calculus.keys import determined
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
    factor_variables,
    is_parameter,
    tables,
)
from viewlet.calculus.ranges import as_range
from viewlet.calculus.schedule import binds_keys
from viewlet.core.scalar import variables
from viewlet.sql.catalog import Catalog

Depth: TypeAlias = Literal["component", "table", "rows"]


class Restrictions(Protocol):
    """Knows whether a nested factor has a restricted domain for every table it reads."""

    def restricted(self, factor: Nested) -> bool:
        """Can the factor be maintained inside a map?"""


@dataclass(frozen=True, slots=True)
class Component:
    """Atoms that share unbound variables; ``own`` are those variables."""

    own: frozenset[str]
    factors: tuple[Factor, ...]


@dataclass(frozen=True, slots=True)
class Components:
    """How the factors of a term fall into components.

    ``table`` is the event's table. ``depth`` says how much a map may hold: a component, with everything that
    can be computed inside it (higher-order maintenance); one table, filtered and projected (first-order); or
    one table as it is (re-evaluation). ``searches`` says whether there are ordered indexes: all maps are in
    one place then, and going from one to another is a lookup and not an exchange.
    """

    catalog: Catalog
    restrictions: Restrictions
    table: str
    depth: Depth
    searches: bool = False

    def of(self, term: Term, needed: frozenset[str], bound: frozenset[str]) -> list[Component]:
        """Rules 1 to 3. A nested factor whose keys its component does not hold is left out, and pulled."""
        kept = [f for f in term.factors if self.keeps(f, bound) or self._is_grouped(f, term, bound)]
        while True:
            atoms = [f for f in term.factors if isinstance(f, Rel) or any(f is k for k in kept)]
            components = [c for c in self._connect(atoms, bound) if _has_table(c) or _is_compared(c, term)]
            held = [_held(part, term.factors) for part in components]
            homeless = [
                f
                for part, names in zip(components, held, strict=True)
                for f in part.factors
                if not isinstance(f, Rel) and not is_generator(f) and not _keys(f) <= names
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
        return is_cyclic([*edges, closing]) and not has_root(part.factors, self.catalog)

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
        return determined(part.factors, given, self.catalog)

    def keeps(self, factor: Factor, bound: frozenset[str]) -> bool:
        """May a nested factor live inside a map here? Not with a bound key: then a lookup tells its value."""
        return self.keepable(factor) and not _has_bound_key(factor, bound)

    def _is_grouped(self, factor: Factor, term: Term, bound: frozenset[str]) -> bool:
        """Does it belong to groups that are gone through, by those of their keys that nothing else tells?

        Some of the keys may be bound then: the map has them first, and the others are found by the value.
        """
        if not self.keepable(factor):
            return False
        told = bound | {v.name for f in term.factors if isinstance(f, Rel) for v in factor_variables(f)}
        groups = [f for f in term.factors if is_generator(f) and unbound(f, told)]
        return any(_keys(factor) <= _keys(group) and _keys(factor) - told for group in groups)

    def keepable(self, factor: Factor) -> bool:
        """Can it be maintained inside a map at all: restricted for every table, and without the event?"""
        return (
            self.depth == "component"
            and isinstance(factor, Lift | Extremum | Exists)
            and not mentions_event(factor.query, parameters(factor))
            and self.restrictions.restricted(factor)
        )

    def _adopt(self, term: Term, components: list[Component], needed: frozenset[str]) -> list[Component]:
        """Rule 3: a kept nested factor with bound keys follows the condition that compares its value."""
        searched = {id(part) for part in components if self._is_searched(part, term, needed)}
        taken = {id(f) for c in components for f in c.factors}
        for factor in term.factors:
            if not isinstance(factor, Lift | Extremum) or id(factor) in taken:
                continue
            if not self.keepable(factor) or self.table in tables(factor.query):
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


def has_root(factors: Sequence[Factor], catalog: Catalog) -> bool:
    """Do the rows of one table find at most one row of each of the others by its primary key?"""
    return any(
        determined(
            [f for f in factors if f is not root],
            {v.name for v in factor_variables(root)},
            catalog,
        )
        for root in factors
        if isinstance(root, Rel)
    )


def _has_table(part: Component) -> bool:
    return any(isinstance(f, Rel) for f in part.factors)


def _is_compared(part: Component, term: Term) -> bool:
    """Does it enumerate groups, and does a condition compare a value of theirs with something outside?"""
    values = {f.var.name for f in part.factors if isinstance(f, Lift | Extremum)}
    if not any(is_generator(f) for f in part.factors):
        return False
    compared = ({v.name for v in factor_variables(f)} for f in term.factors if isinstance(f, Cond))
    return any(names & values and not names <= part.own for names in compared)


def is_generator(factor: Factor) -> bool:
    """Can it bind all of its keys by itself?"""
    return isinstance(factor, Exists) and not factor.negated and binds_keys(factor, frozenset())


def _keys(factor: Factor) -> set[str]:
    return {key.name for key in factor.keys} if isinstance(factor, Lift | Extremum | Exists) else set()


def _held(part: Component, factors: Iterable[Factor]) -> set[str]:
    """The variables that a component's tables bind, with what nested factors and lets add to them.

    A let that reads nothing, ``v := 2``, moves into no component, so it binds nothing there.
    """
    held = {
        v.name for f in part.factors if isinstance(f, Rel) or is_generator(f) for v in factor_variables(f)
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


def _has_bound_key(factor: Factor, bound: frozenset[str]) -> bool:
    return any(is_parameter(v) or v.name in bound for v in factor_variables(factor))


def parameters(factor: Factor) -> frozenset[str]:
    """The parameters among a factor's arguments or keys."""
    return frozenset(v.name for v in factor_variables(factor) if is_parameter(v))


def mentions_event(query: Query, keys: frozenset[str] = frozenset()) -> bool:
    """Does a query mention the change relation, or a parameter other than ``keys``, at any depth?"""
    for term in query:
        for factor in term.factors:
            if isinstance(factor, Delta) or not parameters(factor) <= keys:
                return True
            if isinstance(factor, Lift | Extremum | Exists) and mentions_event(factor.query, keys):
                return True
    return False
