"""A site in native code: the local program of ``local.py``, compiled where it runs.

The driver lowers and prints the program once; whoever opens a site compiles the text for its own processor,
into the cache that all processes of a machine share.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import pyarrow as pa

from viewlet.backends.base import Row
from viewlet.backends.native.build import DEFAULT_FLAGS, compile_library
from viewlet.backends.native.emit import Source, emit
from viewlet.backends.native.engine import first_rows, program_error
from viewlet.backends.native.library import open_program
from viewlet.backends.spark.exchange import Entries, decode, encode_entries, piece_of_runs, split
from viewlet.backends.spark.local import Event, LocalProgram, arrivals, emptying, local_program
from viewlet.backends.spark.nodes import DistProgram, Mode
from viewlet.backends.spark.site import NO_CHANGES, Changes, Piece, Pieces, ReferenceSite, Runs, Site
from viewlet.loops.from_triggers import triggers_to_loops
from viewlet.loops.nodes import Check, LoopProgram, Record
from viewlet.plan.nodes import Query
from viewlet.triggers.records import Place

MODES: tuple[Mode, Mode] = ("local", "distributed")

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class NativeCode:
    """Everything that a site of a program needs, wherever it runs."""

    local: LocalProgram
    records: Mapping[str, Record]
    places: Mapping[str, Place]
    source: Source
    flags: tuple[str, ...]
    checks: Mapping[str, Check]


def native_codes(program: DistProgram) -> tuple[NativeCode, NativeCode]:
    """The code of the driver and of a partition.

    Most views are read on the driver, so it is there that guards of sums are found; sums of partitioned maps
    are watched where they are kept.
    """
    driver, partition = (local_program(program, mode) for mode in MODES)
    here, there = (triggers_to_loops(local.program, batches="all") for local in (driver, partition))
    return _code(driver, here), _code(partition, _guarded(there, here, program))


def _code(local: LocalProgram, loops: LoopProgram) -> NativeCode:
    checks = {name: view.check for name, view in loops.views.items()}
    return NativeCode(local, loops.records, loops.places, emit(loops), tuple(DEFAULT_FLAGS), checks)


def _guarded(loops: LoopProgram, reading: LoopProgram, program: DistProgram) -> LoopProgram:
    """Watch the sums of partitioned maps that the driver's copies of them would watch."""
    guards: dict[tuple[str, str], int] = {}
    for name in program.maps.keys() & reading.places.keys() & loops.places.keys():
        copied, kept = reading.places[name], loops.places[name]
        guard = next(f.guard for f in reading.records[copied.record].fields if f.name == copied.field)
        if guard is not None:
            own = next(f.guard for f in loops.records[kept.record].fields if f.name == kept.field)
            guards[kept.record, kept.field] = guard if own is None else min(guard, own)
    records = {
        name: replace(
            r, fields=tuple(replace(f, guard=guards.get((name, f.name), f.guard)) for f in r.fields)
        )
        for name, r in loops.records.items()
    }
    return replace(loops, records=records)


class NativeSite:
    """Maps in native code; see :class:`viewlet.backends.spark.site.Site`."""

    def __init__(self, code: NativeCode) -> None:
        self._code = code
        self._opened = open_program(code.source, flags=code.flags)
        self._tables = {name: number for number, name in enumerate(code.source.tables)}
        self._records = {name: number for number, name in enumerate(code.source.records)}
        self._changes: dict[str, Changes] = {}

    def begin(self, table: str, changes: Changes) -> None:
        """A trigger begins: its relations are empty."""
        self._changes[table] = changes
        self._once(emptying(table))

    def receive(self, table: str, relation: str, pieces: Sequence[Piece]) -> None:
        """Add pieces to a relation."""
        self._fill(self._code.local.scopes[table][relation], pieces)

    def compute(self, table: str, block: int, segment: int) -> None:
        """Run some computations of a block."""
        for event in self._code.local.events[table, block, segment]:
            self._run(event, table)

    def send(self, table: str, relation: str, position: int | None, partitions: int) -> list[Piece]:
        """A relation or map, cut by the key at a position, or in one piece."""
        piece = self._piece(self._code.local.scopes[table].get(relation, relation))
        return [piece] if position is None else split(piece, position, partitions)

    def load(self, contents: Pieces) -> None:
        """Hold these entries; only a site that holds nothing can be loaded."""
        for name in self._held():
            self._fill(name, contents.get(name, ()))

    def contents(self, names: Sequence[str] | None) -> dict[str, Piece]:
        """The entries of some maps, or of all."""
        return {name: self._piece(name) for name in (self._held() if names is None else names)}

    def rows(self, view: str, copies: Pieces) -> list[tuple[Row, int]]:
        """The rows of a view with their multiplicities."""
        self._copy(view, copies)
        return _readable(view, *self._opened.rows(self._number(view)))

    def columns(self, view: str, copies: Pieces) -> Runs:
        """The rows of a view with their multiplicities, in columns."""
        self._copy(view, copies)
        return _readable(view, *self._opened.columns(self._number(view)))

    def check(self, view: str, copies: Pieces) -> None:
        """Raise what reading a view would raise; no row is made for it."""
        self._copy(view, copies)
        _readable(view, None, self._opened.check(self._number(view)))

    def follow(self, views: Collection[str]) -> None:
        """Note what changes in these views from now on, and forget what was noted."""
        self._opened.follow([self._number(view) for view in sorted(views)])

    def changes(self, view: str) -> Runs:
        """The rows that came and went in a view since it is followed, in columns."""
        return _readable(view, *self._opened.changes_columns(self._number(view)))

    def _copy(self, view: str, copies: Pieces) -> None:
        """Hold copies of maps from elsewhere, to read a view from."""
        if copies:
            self._once(emptying(view))
        for name, pieces in copies.items():
            self._fill(name, pieces)

    def _number(self, view: str) -> int:
        return self._code.source.views.index(view)

    def first(self, view: str, query: Query) -> list[tuple[Row, int]]:
        """Rows of a view among which are those that a query finds first; all, if only all can tell."""
        names = tuple(column for column, _ in self._code.local.program.views[view].columns)
        wanted = first_rows(query, names)
        found = None
        if wanted is not None:
            found = self._opened.top(self._number(view), *wanted)
        return self.rows(view, {}) if found is None else _readable(view, *found)

    def suspect(self) -> bool:
        """Has a watched sum grown beyond its guard since this was asked last?"""
        return self._opened.suspect()

    def close(self) -> None:
        """Give the state back."""
        self._opened.close()

    def _held(self) -> list[str]:
        """The maps, without the relations of batches."""
        relations = {name for scope in self._code.local.scopes.values() for name in scope.values()}
        return [name for name in self._code.local.shapes if name not in relations]

    def _run(self, event: Event, table: str) -> None:
        match event.feed:
            case "once":
                self._once(event.table)
            case "rows" | "batch":
                self._feed(self._tables[event.table], table, event.feed == "batch")

    def _feed(self, number: int, table: str, batch: bool) -> None:
        changes = self._changes[table]
        rows, weights = changes.rows, changes.weights
        if isinstance(rows, pa.RecordBatch):
            schema, array = rows.__arrow_c_array__()
            failed = self._opened.apply_arrow(number, schema, array, weights, batch)
        else:
            assert isinstance(weights, Sequence)
            failed = self._opened.apply(number, list(rows), list(weights), batch)
        self._check(failed, table, changes)

    def _check(self, failed: tuple[int, int] | None, table: str, changes: Changes) -> None:
        if failed is None:
            return
        errors, at = failed
        where = f"table {table!r}"
        if 0 <= at < len(changes) and not changes.is_share:
            where += f", row {at}"
        raise program_error(errors, where)

    def _once(self, table: str) -> None:
        """An event without rows."""
        self._check(self._opened.apply(self._tables[table], [()], [1], False), table, NO_CHANGES)

    def _fill(self, name: str, pieces: Sequence[Any]) -> None:
        number = self._tables[arrivals(name)]
        for piece in pieces:
            schema, array = piece.__arrow_c_array__()
            failed = self._opened.apply_arrow(number, schema, array, None, False)
            if failed is not None:
                raise program_error(failed[0], f"entries of {name!r}")

    def _piece(self, name: str) -> pa.RecordBatch:
        """The entries of a map or relation."""
        place, shape = self._code.places[name], self._code.local.shapes[name]
        record = self._code.records[place.record]
        field = next(i for i, f in enumerate(record.fields) if f.name == place.field)
        _, runs = self._opened.amounts(self._records[place.record], field, 0, sys.maxsize)
        order = [place.order.index(i) for i in range(len(record.keys))]
        return piece_of_runs(shape, order, [key.type for key in record.keys], runs)


def _readable(view: str, found: _T, errors: int) -> _T:
    """What was found in a view, unless there were errors."""
    if errors:
        raise program_error(errors, f"view {view!r}")
    return found


@dataclass(frozen=True, slots=True)
class SiteCode:
    """How to open the sites of one kind of a program: in native code, or on dicts."""

    program: DistProgram
    mode: Mode
    native: NativeCode | None

    def compile(self) -> None:
        """Compile native code into the cache of this machine, if it is not there."""
        if self.native is not None:
            compile_library(self.native.source.text, flags=self.native.flags)

    def open(self) -> Site:
        """An empty site in this process."""
        return ReferenceSite(self.program, self.mode) if self.native is None else NativeSite(self.native)

    def tells(self, view: str) -> bool:
        """Can these sites tell what changes in a view that they read?"""
        return self.native is not None and view in self.native.source.fed

    def check_of(self, view: str) -> Check:
        """When a view must be read before a batch counts; on dicts nothing tells, so always."""
        return "always" if self.native is None else self.native.checks[view]

    def piece(self, name: str, entries: Entries) -> Piece:
        """Entries of a map as these sites take them."""
        return entries if self.native is None else encode_entries(self.native.local.shapes[name], entries)

    def entries(self, name: str, piece: Piece) -> Entries:
        """The entries of a piece of a map."""
        return dict(piece) if self.native is None else decode(self.native.local.shapes[name], piece)


def site_codes(program: DistProgram, native: bool) -> tuple[SiteCode, SiteCode]:
    """The code of the driver's site and of the partitions."""
    codes = native_codes(program) if native else (None, None)
    driver, partition = (SiteCode(program, mode, code) for mode, code in zip(MODES, codes, strict=True))
    return driver, partition
