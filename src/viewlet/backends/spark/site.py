"""A site: one place that holds maps and runs blocks, the driver or a partition.

Whatever a batch has written is journalled, so that a batch which fails somewhere can be taken back
everywhere. A site is deterministic: the same operations give the same state and the same results, which is
what recovery by replay rests on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from viewlet.backends.base import Row
from viewlet.backends.reference.maps import ReferenceMap
from viewlet.backends.spark.nodes import (
    Block,
    Compute,
    Dist,
    DistProgram,
    DistTrigger,
    Local,
    Mode,
    Replicated,
    Transfer,
)
from viewlet.calculus.evaluate import Compiler as QueryCompiler
from viewlet.calculus.evaluate import Env, Key, Number, Tables
from viewlet.calculus.nodes import Delta, MapRef, Rel
from viewlet.core.types import Value

Entries: TypeAlias = dict[Key, Number]
Relations: TypeAlias = dict[str, Entries]
Sums: TypeAlias = Callable[[Env], Entries]


@dataclass(frozen=True, slots=True)
class Step:
    """Run one block of a trigger. ``given`` are the parameters of a trigger for single rows.

    ``received`` are the relations that have arrived, ``changes`` the part of the batch that is here, which
    comes with its first step.
    """

    batch: int
    table: str
    by_row: bool
    block: int
    received: Relations
    changes: Mapping[Row, int] = field(default_factory=dict)
    given: Mapping[str, Value] = field(default_factory=dict)


class PartitionEngine(Protocol):
    """What runs inside a partition; :class:`Site` is the one there is, compiled code may be another."""

    def run(self, step: Step) -> Relations:
        """Run one block; the relations that others are to get."""

    def abort(self, batch: int) -> None:
        """Take back what a batch has written, if it has come this far."""

    def load(self, contents: Mapping[str, Entries]) -> None:
        """Hold exactly these entries."""

    def contents(self) -> dict[str, Entries]:
        """The entries of all maps that are here."""


class Site:
    """Maps on dicts; see :class:`PartitionEngine`."""

    def __init__(self, program: DistProgram, mode: Mode) -> None:
        self._program = program
        self._mode: Mode = mode
        here = (Local, Replicated) if mode == "local" else (Dist, Replicated)
        self.maps = {n: ReferenceMap() for n, where in program.placement.items() if isinstance(where, here)}
        self._scopes: dict[tuple[str, bool], _Scope] = {}
        self.batch = -1
        self._journal: list[tuple[ReferenceMap, Key, Number]] = []

    def run(self, step: Step) -> Relations:
        """Run one block; what it has written is taken back if it fails."""
        scope = self._scope(step.table, step.by_row)
        if step.batch != self.batch:
            self.begin(step)
        for name, entries in step.received.items():
            scope.relation(name).replace(entries)
        mark = len(self._journal)
        try:
            for statement, compiler, sums in scope.block(step.block):
                self._write(scope, statement, sums(compiler.environment(step.given)))
        except BaseException:
            self._undo(mark)
            raise
        return {name: dict(scope.relation(name).entries) for name in scope.sent(step.block)}

    def begin(self, step: Step) -> None:
        """A batch begins: the one before can no longer be taken back."""
        self.batch = step.batch
        self._journal.clear()
        columns = {step.table: self._program.tables[step.table].column_names}
        self._scope(step.table, step.by_row).batch = Tables(columns, {}, {step.table: step.changes})

    def abort(self, batch: int) -> None:
        """Take back what a batch has written, if it has come this far."""
        if batch == self.batch:
            self._undo(0)

    def load(self, contents: Mapping[str, Entries]) -> None:
        """Hold exactly these entries."""
        self._journal.clear()
        for name, target in self.maps.items():
            target.replace(dict(contents.get(name, {})))

    def contents(self) -> dict[str, Entries]:
        """The entries of all maps that are here."""
        return {name: dict(found.entries) for name, found in self.maps.items()}

    def relation(self, table: str, by_row: bool, name: str) -> Entries:
        """The entries of a relation of the present batch, or of a map."""
        found = self.maps.get(name)
        return (self._scope(table, by_row).relation(name) if found is None else found).entries

    def receive(self, table: str, by_row: bool, name: str, entries: Entries) -> None:
        """Take in a relation that has arrived."""
        self._scope(table, by_row).relation(name).replace(entries)

    def compute(self, step: Step, statement: Compute) -> None:
        """Run one statement of a block: the driver has transfers in between."""
        scope = self._scope(step.table, step.by_row)
        compiler, sums = scope.compiled(statement)
        self._write(scope, statement, sums(compiler.environment(step.given)))

    def _scope(self, table: str, by_row: bool) -> _Scope:
        found = self._scopes.get((table, by_row))
        if found is None:
            trigger = (self._program.tuple if by_row else self._program.batch)[table]
            found = self._scopes[table, by_row] = _Scope(self.maps, trigger)
        return found

    def _write(self, scope: _Scope, statement: Compute, totals: Entries) -> None:
        target = self.maps.get(statement.target)
        if target is None:
            scope.relation(statement.target).replace(totals)
            return
        changes: Iterable[tuple[Key, Number]] = totals.items()
        if statement.op == ":=":
            old = dict(target.entries)
            changes = [(key, totals.get(key, 0) - old.get(key, 0)) for key in old.keys() | totals.keys()]
        for key, change in changes:
            if change:
                target.add(key, change)
                self._journal.append((target, key, change))

    def _undo(self, mark: int) -> None:
        while len(self._journal) > mark:
            target, key, change = self._journal.pop()
            target.add(key, -change)


class _Scope:
    """The relations and compiled statements of one trigger at one site."""

    def __init__(self, maps: Mapping[str, ReferenceMap], trigger: DistTrigger) -> None:
        self._maps = maps
        self._trigger = trigger
        self._relations: dict[str, ReferenceMap] = {}
        self._compiled: dict[int, list[tuple[Compute, QueryCompiler, Sums]]] = {}
        self._single: dict[Compute, tuple[QueryCompiler, Sums]] = {}
        self.batch = Tables({}, {})

    def relation(self, name: str) -> ReferenceMap:
        """A relation of this trigger; empty before it is first computed."""
        return self._relations.setdefault(name, ReferenceMap())

    def lookup(
        self, atom: Rel | Delta | MapRef, bound: tuple[int, ...]
    ) -> Callable[[Key], Iterable[tuple[Key, Number]]]:
        """See :class:`viewlet.calculus.evaluate.Store`."""
        if isinstance(atom, MapRef):
            found = self._maps.get(atom.name)
            return (self.relation(atom.name) if found is None else found).lookup(bound, len(atom.keys))
        assert isinstance(atom, Delta), "statements read maps, never tables"
        return lambda values: self.batch.lookup(atom, bound)(values)

    def compiled(self, statement: Compute) -> tuple[QueryCompiler, Sums]:
        """A statement ready to run."""
        if statement not in self._single:
            compiler = QueryCompiler(self)
            sums = compiler.totals(statement.query, statement.keys, frozenset())
            self._single[statement] = compiler, sums
        return self._single[statement]

    def block(self, index: int) -> list[tuple[Compute, QueryCompiler, Sums]]:
        """The statements of a block, ready to run."""
        if index not in self._compiled:
            self._compiled[index] = [
                (statement, *self.compiled(statement))
                for statement in self._trigger.blocks[index].statements
                if isinstance(statement, Compute)
            ]
        return self._compiled[index]

    def sent(self, index: int) -> list[str]:
        """The relations of a block of the partitions that some later transfer takes away."""
        made = {statement.target for statement in self._trigger.blocks[index].statements}
        return sorted(made & sources(self._trigger.blocks[index + 1 :]))


def sources(blocks: Iterable[Block]) -> set[str]:
    """What the transfers of some blocks take from the partitions."""
    return {
        statement.source
        for block in blocks
        for statement in block.statements
        if isinstance(statement, Transfer) and statement.origin == "distributed"
    }
