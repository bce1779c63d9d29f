"""The cost model: how many steps a change takes, and how many entries are kept, under each strategy.

Sizes follow from the tables' rows and distinct values under the usual independence assumptions::

    |R join S on x|   = |R| * |S| / max(distinct x in R, distinct x in S)
    entries of a map  = min(size of its join, product of the distinct values of its keys)
    a lookup          = 1 step
    a slice           = entries / product of the distinct values of the known keys, at least 1
    a scan            = entries
    a search          = log2(entries), each step of which asks what the conditions compute
    a range           = log2(entries), and one entry in it

A statement costs the steps of its reads, each times the loops around it. Changes come per table at a rate,
by default in proportion to the tables' rows. Estimates rank strategies; they promise no time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import log2, prod

from viewlet.calculus.monotone import Search
from viewlet.calculus.nodes import (
    Delta,
    Exists,
    Extremum,
    Lift,
    MapRef,
    Query,
    Rel,
    Term,
    arguments,
    factor_variables,
    is_parameter,
)
from viewlet.calculus.ranges import as_range
from viewlet.calculus.schedule import schedule
from viewlet.core.scalar import Const, Var
from viewlet.sql.catalog import Table
from viewlet.triggers.program import MapDefinition, Program
from viewlet.triggers.work import Ordered, end_of, given_keys, has_order, search_of

DEFAULT_ROWS = 10_000
DEFAULT_SHARE = 0.1  # distinct values of a column that is no key, as a share of the rows
CONSTANT_SHARE = 0.04  # a comparison with a constant keeps at least this share of the rows


@dataclass(frozen=True, slots=True)
class Statistics:
    """What is known of the tables: rows, distinct values per column, and changes per unit of time."""

    rows: Mapping[str, int] = field(default_factory=dict)
    distinct: Mapping[tuple[str, str], int] = field(default_factory=dict)
    rates: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Estimate:
    """Steps per change, by table and on average over the rates, and the entries that are kept."""

    strategy: str
    steps: Mapping[str, float]
    average: float
    entries: float

    def __str__(self) -> str:
        return (
            f"{self.strategy}: {_round(self.average)} steps per change, {_round(self.entries)} entries kept"
        )


def _round(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.1f}"


def estimate(program: Program, strategy: str, statistics: Statistics, searches: Ordered = False) -> Estimate:
    """What a program costs on an engine with the given ordered access paths."""
    model = CostModel(program.tables, program.maps, statistics, searches)
    steps = {
        table: sum(model.steps(statement.query) for statement in trigger.statements)
        for table, trigger in program.triggers.items()
    }
    rates = {table: model.rate(table) for table in steps}
    total = sum(rates.values()) or 1.0
    average = sum(steps[table] * rates[table] / total for table in steps)
    return Estimate(strategy, steps, average, sum(model.entries(name) for name in program.maps))


class CostModel:
    """Estimates over some tables and maps, on an engine with the given ordered access paths."""

    def __init__(
        self,
        tables: Mapping[str, Table],
        maps: Mapping[str, MapDefinition],
        statistics: Statistics,
        searches: Ordered,
    ) -> None:
        self.tables = tables
        self.maps = maps
        self.statistics = statistics
        self.searches = searches
        self._entries: dict[str, float] = {}

    def rows(self, table: str) -> int:
        """The rows of a table, as known or by default."""
        return max(1, self.statistics.rows.get(table, DEFAULT_ROWS))

    def rate(self, table: str) -> float:
        """How often a table changes, in proportion to the others."""
        return self.statistics.rates.get(table, float(self.rows(table)))

    def distinct(self, table: str, column: str) -> float:
        """The distinct values of a column, as known or by default."""
        known = self.statistics.distinct.get((table, column))
        if known is not None:
            return max(1.0, known)
        key = self.tables[table].key if table in self.tables else ()
        rows = self.rows(table)
        return float(rows) if key == (column,) else max(1.0, rows * DEFAULT_SHARE)

    def entries(self, name: str) -> float:
        """The estimated number of entries of a map."""
        if name not in self._entries:
            definition = self.maps[name]
            self._entries[name] = self.groups(definition.definition, definition.keys)
        return self._entries[name]

    def groups(self, query: Query, keys: Sequence[Var]) -> float:
        """The estimated number of different keys of a query over tables."""
        size = sum(self._join_size(term) for term in query)
        return max(1.0, min(size, prod(self._key_distinct(query, key) for key in keys)))

    def _join_size(self, term: Term) -> float:
        size, seen = 1.0, dict[str, float]()
        for atom in (f for f in term.factors if isinstance(f, Rel)):
            size *= self.rows(atom.table)
            for column, argument in atom.binds:
                distinct = self.distinct(atom.table, column)
                if isinstance(argument, Const):
                    size *= max(1 / distinct, CONSTANT_SHARE)
                elif argument.name in seen:
                    size /= max(distinct, seen[argument.name])
                    seen[argument.name] = min(distinct, seen[argument.name])
                else:
                    seen[argument.name] = distinct
        return size

    def _key_distinct(self, query: Query, key: Var) -> float:
        found = [
            self.distinct(atom.table, column)
            for term in query
            for atom in term.factors
            if isinstance(atom, Rel)
            for column, argument in atom.binds
            if isinstance(argument, Var) and argument.name == key.name
        ]
        return min(found, default=float(DEFAULT_ROWS) * DEFAULT_SHARE)

    def steps(self, query: Query) -> float:
        """The steps of a statement: one for each write, and what its reads take."""
        return sum(1.0 + self.term_steps(term) for term in query)

    def term_steps(self, term: Term, given: frozenset[str] = frozenset()) -> float:
        """The steps of one term's reads, with some variables given."""
        return self._term_steps(term, given, 1.0)

    def _term_steps(self, term: Term, given: frozenset[str], around: float) -> float:
        known, steps = set(given), 0.0
        ordered = schedule(term.factors, given)
        for i, factor in enumerate(ordered):
            match factor:
                case MapRef(name):
                    matches = self._matches(factor, known)
                    if has_order(name, self.searches):
                        confined = as_range(factor, ordered[i + 1 :], frozenset(known))
                        if confined is not None and confined.is_closed:
                            steps += around * log2(matches + 1)
                            matches = 1.0
                    steps += around * matches
                    around *= matches
                case Lift() if (found := search_of(factor, known)) and has_order(
                    found.atom.name, self.searches
                ):
                    steps += self._search_steps(found, given_keys(factor, known), around)
                case Extremum() if (end := end_of(factor, known)) and has_order(
                    end.interval.atom.name, self.searches
                ):
                    inner = given_keys(factor, known)
                    steps += self._search_steps(end.interval, inner, around)
                    steps += sum(self._term_steps(t, inner, around) for t in end.points)
                case (
                    Lift(keys=keys, query=query)
                    | Extremum(keys=keys, query=query)
                    | Exists(keys=keys, query=query)
                ):
                    inner = frozenset(key.name for key in keys if key.name in known)
                    steps += sum(self._term_steps(t, inner, around) for t in query)
                case Delta():
                    steps += around
            known |= {var.name for var in factor_variables(factor)}
        return steps

    def _search_steps(self, search: Search, given: frozenset[str], around: float) -> float:
        around *= log2(self.entries(search.atom.name) + 1)
        asked = Term((*search.flat, *search.dependents))
        return around + self._term_steps(asked, given | {search.key.name}, around)

    def _matches(self, reference: MapRef, known: set[str]) -> float:
        definition = self.maps[reference.name]
        found = self.entries(reference.name)
        for key, argument in zip(definition.keys, arguments(reference), strict=True):
            if isinstance(argument, Const):
                found *= max(1 / self._key_distinct(definition.definition, key), CONSTANT_SHARE)
            elif is_parameter(argument) or argument.name in known:
                found /= self._key_distinct(definition.definition, key)
        return max(1.0, found)
