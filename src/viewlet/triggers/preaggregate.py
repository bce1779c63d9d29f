"""Batch pre-aggregation: the change relation is filtered and summed before anything else reads it.

A batch trigger reads its change ``dR`` once per occurrence. Sums distribute over products::

    sum over z of  Q(x) * dR(x, z) * f(z)  =  Q(x) * dR_2(x)       dR_2(x) := sum of dR(x, z) * f(z)

so each occurrence becomes a *summed change*: it takes the conditions, values and lets over its own columns
along and keeps only the columns that something else reads. Equal summed changes are one. Rows with equal keys
meet before they touch a large map, and a product of two changes joins sums instead of rows: it is no longer
quadratic in the batch.

An occurrence of which a primary key, or every column of the table, is read elsewhere has nothing to sum.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from viewlet.calculus.canonical import canonical_form
from viewlet.calculus.nodes import (
    Cond,
    Delta,
    Exists,
    Extremum,
    Factor,
    Let,
    Lift,
    Query,
    Term,
    Value,
    add,
    factor_variables,
    product,
    term_variables,
)
from viewlet.core.scalar import Var, call, variables
from viewlet.sql.catalog import Table
from viewlet.triggers.expand import expand_values
from viewlet.triggers.maps import value_type
from viewlet.triggers.program import MapDefinition, Statement, Trigger


@dataclass(frozen=True, slots=True)
class Prepared:
    """A batch trigger over summed changes, each computed from the batch before the trigger runs.

    A change ``dR_2(x: v)`` in the trigger is the map ``R_2`` of ``sums``: its columns are the map's keys.
    """

    sums: tuple[MapDefinition, ...]
    trigger: Trigger


def preaggregate(trigger: Trigger, table: Table) -> Prepared:
    """The batch trigger of ``table`` with its changes pre-aggregated."""
    changes = _SummedChanges(table)
    increments = tuple(changes.statement(statement) for statement in trigger.increments)
    return Prepared(tuple(changes.sums.values()), Trigger(trigger.table, increments, trigger.recomputations))


@dataclass(slots=True)
class _SummedChanges:
    table: Table
    sums: dict[str, MapDefinition] = field(default_factory=dict)

    def statement(self, statement: Statement) -> Statement:
        """The statement over summed changes."""
        keys = {key.name for key in statement.keys if isinstance(key, Var)}
        return replace(statement, query=self.query(statement.query, keys))

    def query(self, query: Query, needed: set[str]) -> Query:
        """The query over summed changes; ``needed`` variables are read by whoever uses it."""
        return add(*(self.term(part, needed) for term in query for part in _split_values(term)))

    def term(self, term: Term, needed: set[str]) -> Query:
        """Each occurrence of the change takes what is about it alone; nested factors likewise."""
        rest: list[Factor] = [f for f in term.factors if not isinstance(f, Delta)]
        changes = [f for f in term.factors if isinstance(f, Delta)]
        taken = [(change, *_take(change, rest)) for change in changes]
        result = [self._nested(f) for f in rest]
        for i, (change, own) in enumerate(zip(changes, taken, strict=True)):
            others = (f for j, factors in enumerate(taken) if j != i for f in factors)
            outside = needed | set(term_variables((*rest, *others)))
            keys = tuple(var for name, var in term_variables(own).items() if name in outside)
            result.extend(own if self._is_whole(change, keys) else self._summed(own, keys))
        return product(*result, coefficient=term.coefficient)

    def _is_whole(self, change: Delta, keys: tuple[Var, ...]) -> bool:
        """Is every row of the batch a group of its own?"""
        columns = {column for column, argument in change.binds if argument in keys}
        return set(self.table.key or self.table.column_names) <= columns

    def _summed(self, own: tuple[Factor, ...], keys: tuple[Var, ...]) -> tuple[Factor, ...]:
        """The sum; that a key is not NULL is left to be tested on it, so that more sums are equal."""
        tests = tuple(Cond(call("not", call("is_null", key))) for key in keys)
        query = product(*(f for f in own if f not in tests))
        form = canonical_form(query, keys)
        known = self.sums.get(form.text)
        if known is None:
            name = f"{self.table.name}_{len(self.sums) + 2}"
            known = self.sums[form.text] = MapDefinition(name, form.keys, query, value_type(query))
        change = Delta(known.name, tuple(zip((key.name for key in known.keys), form.keys, strict=True)))
        return (change, *(test for test in tests if test in own))

    def _nested(self, factor: Factor) -> Factor:
        match factor:
            case Lift(keys=keys) | Exists(keys=keys):
                return replace(factor, query=self.query(factor.query, _names(keys)))
            case Extremum(of=of, keys=keys):
                return replace(factor, query=self.query(factor.query, _names((of, *keys))))
            case _:
                return factor


def _names(found: Iterable[Var]) -> set[str]:
    return {var.name for var in found}


def _take(change: Delta, rest: list[Factor]) -> list[Factor]:
    """Move out of ``rest`` what reads the change's columns alone; a let may complete what another needs."""
    known = _names(factor_variables(change))
    own: list[Factor] = []
    while True:
        taken = next((f for f in rest if _is_about(f, known, rest)), None)
        if taken is None:
            return own
        rest.remove(taken)
        own.append(taken)
        known |= _names(factor_variables(taken))


def _is_about(factor: Factor, known: set[str], rest: list[Factor]) -> bool:
    match factor:
        case Cond(scalar) | Value(scalar):
            return _names(variables(scalar)) <= known and any(variables(scalar))
        case Let(var, scalar):
            elsewhere = any(_binds(f, var) for f in rest if f is not factor)
            return _names(variables(scalar)) <= known and not elsewhere
        case _:
            return False


def _binds(factor: Factor, var: Var) -> bool:
    """Might it bind the variable, so that a let of it is a join condition?"""
    return not isinstance(factor, Cond | Value) and var in list(factor_variables(factor))


def _split_values(term: Term) -> Query:
    """Values over several changes as sums of products over one each."""
    changes = [_names(factor_variables(f)) for f in term.factors if isinstance(f, Delta)]
    if len(changes) < 2:
        return (term,)
    home = {name: i for i, names in enumerate(changes) for name in names}
    whole = [f for f in term.factors if any(_names(factor_variables(f)) <= names for names in changes)]
    split = tuple(f for f in term.factors if not any(f is w for w in whole))
    return tuple(
        new
        for part in expand_values(Term(split, term.coefficient), lambda name: home.get(name, -1))
        for new in product(*whole, *part.factors, coefficient=part.coefficient)
    )
