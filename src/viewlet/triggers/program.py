"""Maintenance programs: maps with their definitions, and the statements that keep them true.

The contract of a program: before and after every event each map equals its definition over the tables. The
``+=`` statements of a trigger all read the state before the event; ``:=`` statements run after them, in the
order given, on the new state. A ``:=`` whose keys are all told by the event replaces that one entry; any
other replaces the whole map.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from viewlet.calculus.nodes import Argument, Query, Term, is_parameter, tables
from viewlet.core.scalar import Scalar, Var
from viewlet.core.types import Type
from viewlet.sql.catalog import Table, TableKind

StatementOp: TypeAlias = Literal["+=", ":="]


@dataclass(frozen=True, slots=True)
class MapDefinition:
    """A materialized map: for each key, the sum of its definition over the tables; zeros are absent.

    One that is ``brief`` has what a batch brought, and is smaller than what it meets.
    """

    name: str
    keys: tuple[Var, ...]
    definition: Query
    type: Type
    brief: bool = False


@dataclass(frozen=True, slots=True)
class Statement:
    """``target[keys] op query``: add the query's sums to a map, or replace the map, or one entry, by them."""

    target: str
    keys: tuple[Argument, ...]
    op: StatementOp
    query: Query

    @property
    def is_of_one_entry(self) -> bool:
        """Does the event tell all keys?"""
        return not any(isinstance(key, Var) and not is_parameter(key) for key in self.keys)


@dataclass(frozen=True, slots=True)
class Trigger:
    """What one event on one table does; ``tuple`` for a single row, ``batch`` for a change relation."""

    table: str
    increments: tuple[Statement, ...]
    recomputations: tuple[Statement, ...]

    @property
    def statements(self) -> tuple[Statement, ...]:
        """All statements, in order."""
        return self.increments + self.recomputations

    def touches(self, maps: Collection[str]) -> bool:
        """Does it keep any of these maps?"""
        return any(statement.target in maps for statement in self.statements)

    def only(self, maps: Collection[str]) -> Trigger:
        """The part of it that keeps these maps."""
        return Trigger(
            self.table,
            tuple(statement for statement in self.increments if statement.target in maps),
            tuple(statement for statement in self.recomputations if statement.target in maps),
        )


@dataclass(frozen=True, slots=True)
class OutputTerm:
    """Rows of a view: one per assignment of the term over maps, as often as its multiplicity says."""

    term: Term
    row: tuple[Scalar, ...]


@dataclass(frozen=True, slots=True)
class View:
    """How a view's rows are read from maps."""

    name: str
    columns: tuple[tuple[str, Type], ...]
    output: tuple[OutputTerm, ...]


@dataclass(frozen=True, slots=True)
class Program:
    """Everything needed to keep some views fresh.

    A table without a batch trigger has its batches applied row by row.
    """

    tables: Mapping[str, Table]
    maps: Mapping[str, MapDefinition]
    triggers: Mapping[str, Trigger]
    batch_triggers: Mapping[str, Trigger]
    views: Mapping[str, View]

    def is_constant(self, name: str) -> bool:
        """Does a map read static tables alone? Then no event changes it."""
        read = tables(self.maps[name].definition)
        return bool(read) and all(self.tables[table].kind is TableKind.STATIC for table in read)
