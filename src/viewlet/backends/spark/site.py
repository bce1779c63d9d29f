"""A site: one place that holds maps and runs blocks, the driver or a partition.

A site is deterministic: the same operations give the same state and the same results, which is what recovery
by replay rests on. A site whose batch has failed is of no use any more; whoever owns it makes it again.

What travels between sites are *pieces* of relations. Only sites look into them: :class:`ReferenceSite` on
dicts, which defines what is right, and :class:`viewlet.backends.spark.native.NativeSite`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from viewlet.backends.base import Bag, Row
from viewlet.backends.reference.engine import view_reader
from viewlet.backends.reference.maps import ReferenceMap
from viewlet.backends.spark.exchange import Entries, partition_of
from viewlet.backends.spark.nodes import (
    Compute,
    Dist,
    DistProgram,
    DistTrigger,
    Local,
    Mode,
    Replicated,
    Transfer,
    segments,
)
from viewlet.backends.spark.top import first_rows
from viewlet.calculus.evaluate import Compiler as QueryCompiler
from viewlet.calculus.evaluate import Env, Key, Number, Tables
from viewlet.calculus.events import WEIGHT, TupleEvent
from viewlet.calculus.nodes import Delta, MapRef, Rel
from viewlet.core.types import Value
from viewlet.errors import ViewletError
from viewlet.plan.bags import consolidate
from viewlet.plan.nodes import Query

Piece: TypeAlias = Any
Pieces: TypeAlias = Mapping[str, Sequence[Piece]]
Sent: TypeAlias = dict[tuple[str, int | None], list[Piece]]
Sums: TypeAlias = Callable[[Env], Entries]
Runs: TypeAlias = list[bytes]

NUMBER = "#"
"""A column that tells rows of a share apart: they may differ in what was left out, and then |dR| has both."""


@dataclass(frozen=True, slots=True)
class Changes:
    """Changed rows of a table: physical values, or Arrow columns that native code reads in place.

    ``weights`` has a number per row; with Arrow it is an array, or nothing for insertions. A share of a batch
    has other rows at the same places, so nobody is told of them by number.
    """

    rows: Sequence[Row] | pa.RecordBatch
    weights: Sequence[int] | NDArray[np.int64] | None
    is_share: bool = False

    def __len__(self) -> int:
        return len(self.rows)

    def negated(self) -> Changes:
        """The opposite changes."""
        weights = np.ones(len(self), np.int64) if self.weights is None else self.weights
        if isinstance(weights, np.ndarray):
            return Changes(self.rows, -weights)
        return Changes(self.rows, [-weight for weight in weights])

    def is_opposite(self, other: Changes) -> bool:
        """Do these rows go where the others come? In Arrow, the last first; else each once, in any order."""
        mine, theirs = (np.asarray(changes.negated().weights) for changes in (self, other))
        if isinstance(self.rows, pa.RecordBatch) or isinstance(other.rows, pa.RecordBatch):
            if not (isinstance(self.rows, pa.RecordBatch) and isinstance(other.rows, pa.RecordBatch)):
                return False
            backwards = self.rows.take(pa.array(np.arange(len(self) - 1, -1, -1)))
            return bool(backwards == other.rows) and np.array_equal(mine[::-1], -theirs)
        own, opposite = zip(self.rows, mine, strict=True), zip(other.rows, -theirs, strict=True)
        return dict(own) == dict(opposite)


NO_CHANGES = Changes((), ())


@dataclass(frozen=True, slots=True)
class Step:
    """Run one block of a trigger.

    ``received`` are the relations that have arrived. The first step of a trigger has ``changes``, the part of
    the batch that is here; a trigger for single rows has its row there.
    """

    batch: int
    table: str
    block: int
    received: Pieces
    changes: Changes | None


class Site(Protocol):
    """Maps somewhere, and the relations of the present batch."""

    def begin(self, table: str, changes: Changes) -> None:
        """A trigger begins: its relations are empty."""

    def receive(self, table: str, relation: str, pieces: Sequence[Piece]) -> None:
        """Add pieces to a relation."""

    def compute(self, table: str, block: int, segment: int) -> None:
        """Run some computations of a block."""

    def send(self, table: str, relation: str, position: int | None, partitions: int) -> list[Piece]:
        """A relation or map, cut by the key at a position, or in one piece."""

    def load(self, contents: Pieces) -> None:
        """Hold these entries; only a site that holds nothing can be loaded."""

    def contents(self, names: Sequence[str] | None) -> dict[str, Piece]:
        """The entries of some maps, or of all."""

    def rows(self, view: str, copies: Pieces) -> list[tuple[Row, int]]:
        """The rows of a view with their multiplicities; ``copies`` are maps from elsewhere."""

    def first(self, view: str, query: Query) -> list[tuple[Row, int]]:
        """Rows of a view among which are those that a query finds first."""

    def check(self, view: str, copies: Pieces) -> None:
        """Raise what reading a view would raise."""

    def suspect(self) -> bool:
        """May a sum have grown, since this was asked last, beyond what every view can show?"""


class ColumnSite(Site, Protocol):
    """A site whose native code gives rows in columns: runs of bytes, see ``runtime/shown.h``."""

    def columns(self, view: str, copies: Pieces) -> Runs:
        """The rows of a view with their multiplicities."""

    def follow(self, views: Collection[str]) -> None:
        """Note what changes in these views from now on, and forget what was noted."""

    def changes(self, view: str) -> Runs:
        """The rows that came and went in a view since it is followed; some may cancel out."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to be read in a partition: entries of maps, and of views that are spread.

    Of these their ``rows`` (the first, where only they count), the same as ``columns``, what has changed in
    followed ones since then (``changes``), or whether they can be read at all (``checks``).
    """

    maps: tuple[str, ...] = ()
    rows: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()
    checks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Held:
    """What was read in a partition."""

    maps: dict[str, Piece] = field(default_factory=dict)
    rows: dict[str, Bag] = field(default_factory=dict)
    columns: dict[str, Runs] = field(default_factory=dict)
    changes: dict[str, Runs] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Given:
    """What a partition gives after some steps: what each hands over, and what was to be read.

    ``suspect`` says that some view had better be read before the batch counts.
    """

    sent: tuple[Sent, ...]
    held: Held
    suspect: bool


def run_steps(
    site: Site,
    program: DistProgram,
    steps: Sequence[Step],
    partitions: int,
    wanted: Wanted,
    follow: Collection[str] | None = None,
) -> Given:
    """Run blocks in a partition, one after the other, then read what is wanted.

    A view that cannot be read is left out: whether that matters is not for the partition to say. ``follow``
    are the views that are followed from here on; without it they stay what they are.
    """
    if follow is not None:
        _in_columns(site).follow(follow)
    sent = tuple(_run_step(site, program, step, partitions) for step in steps)
    return Given(sent, _read(site, program, wanted, suppress(ViewletError)), site.suspect())


def read_site(site: Site, program: DistProgram, wanted: Wanted) -> Held:
    """Read in a partition; raises what a view that cannot be read raises."""
    for view in wanted.checks:
        site.check(view, {})
    return _read(site, program, wanted, nullcontext())


def _read(site: Site, program: DistProgram, wanted: Wanted, trying: AbstractContextManager[object]) -> Held:
    held = Held(site.contents(wanted.maps))
    for view in wanted.rows:
        with trying:
            held.rows[view] = _rows(site, program, view)
    for view in wanted.columns:
        with trying:
            held.columns[view] = _in_columns(site).columns(view, {})
    for view in wanted.changes:
        with trying:
            held.changes[view] = _in_columns(site).changes(view)
    return held


def _rows(site: Site, program: DistProgram, view: str) -> Bag:
    if view in program.tops:
        return first_rows(program, view, site.first(view, program.tops[view]))
    return consolidate(site.rows(view, {}))


def _in_columns(site: Site) -> ColumnSite:
    """A site that is asked for columns, which is asked of native code only."""
    return cast(ColumnSite, site)


def _run_step(site: Site, program: DistProgram, step: Step, partitions: int) -> Sent:
    trigger = program.trigger(step.table)
    if step.changes is not None:
        site.begin(step.table, step.changes)
    for name, pieces in step.received.items():
        site.receive(step.table, name, pieces)
    for number in range(len(segments(trigger.blocks[step.block], program.maps))):
        site.compute(step.table, step.block, number)
    return {
        (name, position): site.send(step.table, name, position, partitions)
        for name, position in trigger.sent(step.block)
    }


class ReferenceSite:
    """Maps on dicts; see :class:`Site`."""

    def __init__(self, program: DistProgram, mode: Mode) -> None:
        self._program, self._mode = program, mode
        here = (Local, Replicated) if mode == "local" else (Dist, Replicated)
        self.maps = {n: ReferenceMap() for n, where in program.placement.items() if isinstance(where, here)}
        self._scopes: dict[str, _Scope] = {}

    def begin(self, table: str, changes: Changes) -> None:
        """A trigger begins: its relations are empty."""
        rows, weights = changes.rows, changes.weights
        assert isinstance(rows, Sequence), "rows are physical values"
        assert isinstance(weights, Sequence)
        dealt = self._program.trigger(table).dealt if self._mode == "distributed" else None
        columns = self._program.tables[table].column_names
        if dealt is not None:
            columns = (*dealt.columns, NUMBER)
            rows = [(*row, number) for number, row in enumerate(rows)]
        bag: dict[Row, int] = {}
        for row, weight in zip(rows, weights, strict=True):
            bag[row] = bag.get(row, 0) + weight
        given: dict[str, Value] = {}
        if table in self._program.tuple:
            names = [var.name for var in TupleEvent(self._program.tables[table]).parameters]
            given = dict(zip(names, rows[0], strict=True)) | {WEIGHT.name: weights[0]}
        self._scope(table).begin(Tables({table: columns}, {}, {table: bag}), given)

    def receive(self, table: str, relation: str, pieces: Sequence[Piece]) -> None:
        """Add pieces to a relation."""
        target = self._scope(table).relation(relation)
        for piece in pieces:
            for key, number in piece.items():
                target.add(key, number)

    def compute(self, table: str, block: int, segment: int) -> None:
        """Run some computations of a block."""
        scope = self._scope(table)
        found = segments(self._program.trigger(table).blocks[block], self._program.maps)[segment]
        assert not isinstance(found, Transfer)
        for statement in found:
            compiler, sums = scope.compiled(statement)
            totals = sums(compiler.environment(scope.given))
            target = self.maps.get(statement.target)
            if target is None:
                scope.relation(statement.target).replace(totals)
            elif statement.op == ":=":
                target.replace(totals)
            else:
                for key, change in totals.items():
                    target.add(key, change)

    def send(self, table: str, relation: str, position: int | None, partitions: int) -> list[Piece]:
        """A relation or map, cut by the key at a position, or in one piece."""
        found = self.maps.get(relation)
        entries = (self._scope(table).relation(relation) if found is None else found).entries
        if position is None:
            return [dict(entries)]
        parts: list[Entries] = [{} for _ in range(partitions)]
        for key, number in entries.items():
            parts[partition_of(key[position], partitions)][key] = number
        return parts

    def load(self, contents: Pieces) -> None:
        """Hold these entries."""
        for name, target in self.maps.items():
            for piece in contents.get(name, ()):
                for key, number in piece.items():
                    target.add(key, number)

    def contents(self, names: Sequence[str] | None) -> dict[str, Piece]:
        """The entries of some maps, or of all."""
        return {name: dict(self.maps[name].entries) for name in (self.maps if names is None else names)}

    def rows(self, view: str, copies: Pieces) -> list[tuple[Row, int]]:
        """The rows of a view with their multiplicities."""
        found = self._program.views[view]
        store = _Scope(dict(self.maps), None)
        for name, pieces in copies.items():
            for piece in pieces:
                for key, number in piece.items():
                    store.relation(name).add(key, number)
        return list(view_reader(found, store)())

    def first(self, view: str, query: Query) -> list[tuple[Row, int]]:
        """All rows: what is first among them is for others to say."""
        return self.rows(view, {})

    def check(self, view: str, copies: Pieces) -> None:
        """Reads it."""
        self.rows(view, copies)

    def suspect(self) -> bool:
        """Nobody has looked."""
        return True

    def _scope(self, table: str) -> _Scope:
        found = self._scopes.get(table)
        if found is None:
            found = self._scopes[table] = _Scope(self.maps, self._program.trigger(table))
        return found


class _Scope:
    """The relations and compiled statements of one trigger at one site."""

    def __init__(self, maps: Mapping[str, ReferenceMap], trigger: DistTrigger | None) -> None:
        self._maps = maps
        self._trigger = trigger
        self._relations: dict[str, ReferenceMap] = {}
        self._compiled: dict[Compute, tuple[QueryCompiler, Sums]] = {}
        self._batch = Tables({}, {})
        self.given: Mapping[str, Value] = {}

    def begin(self, batch: Tables, given: Mapping[str, Value]) -> None:
        """Empty all relations."""
        self._batch, self.given = batch, given
        for relation in self._relations.values():
            relation.replace({})

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
        return lambda values: self._batch.lookup(atom, bound)(values)

    def compiled(self, statement: Compute) -> tuple[QueryCompiler, Sums]:
        """A statement ready to run."""
        if statement not in self._compiled:
            compiler = QueryCompiler(self)
            sums = compiler.totals(statement.query, statement.keys, frozenset())
            self._compiled[statement] = compiler, sums
        return self._compiled[statement]
