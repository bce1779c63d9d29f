"""The native engine: generated C behind the protocol of every engine.

Views that are created in a row are compiled together, when one of them is first used. A view added later
makes a new program; maps that existed keep their contents. A batch that fails is undone inside the program by
the opposite batch (``runtime/program.h``), or from notes of how it was (``runtime/undo.h``): without a trace.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from viewlet.backends.base import ArrowChanges, Bag, Change, Granularity, MapStats, Strategy
from viewlet.backends.native.build import DEFAULT_FLAGS
from viewlet.backends.native.emit import Source, emit
from viewlet.backends.native.library import Gate, Keeper, OpenProgram, Takes, open_program
from viewlet.backends.native.remembered import key_of, recall, remember
from viewlet.backends.native.shown import view_columns
from viewlet.backends.reference.engine import difference
from viewlet.calculus.evaluate import Key, Number, Tables, evaluate_query
from viewlet.core.casts import show
from viewlet.core.scalar import Var
from viewlet.core.types import Value
from viewlet.errors import BackendError, ValueRangeError
from viewlet.loops.from_triggers import Batches, triggers_to_loops
from viewlet.loops.nodes import LoopProgram
from viewlet.loops.text import show_loops
from viewlet.plan.bags import consolidate, cut
from viewlet.plan.nodes import Query, Top
from viewlet.sql.catalog import Catalog, TableKind
from viewlet.triggers.compile import Compiler
from viewlet.triggers.cost import Statistics
from viewlet.triggers.program import MapDefinition, Program
from viewlet.triggers.reach import part_of
from viewlet.triggers.work import AllBut, Ordered

MEMORY, LOST = 1 << 8, 1 << 9

MESSAGES = {
    1 << 0: "an integer is out of range",
    1 << 1: "a DECIMAL is out of range",
    1 << 2: "division by zero",
    1 << 3: "a date is outside the years 1 to 9999",
    1 << 4: "malformed text",
    1 << 5: "more than one row returned by a subquery where one is needed; aggregate, or use IN",
    1 << 6: "the result of DOUBLE arithmetic is not a finite number",
    1 << 7: "a function has no value for its argument",
}
"""What the error bits of ``runtime/status.h`` and ``runtime/program.h`` mean."""

REMEMBERED_VIEWS = 24
"""Programs of so many views are remembered: each is written down with all views before it."""

MOST_FIRST = 10_000
"""Views that are cut to so many rows are not read whole."""

REPLAY_ROWS = 500
"""From so many rows on, a first fill runs through the triggers instead of the reference evaluation."""


@dataclass(slots=True)
class Running:
    """A program that has been compiled and opened."""

    program: Program
    loops: LoopProgram
    source: Source
    opened: OpenProgram

    def contents(self, name: str) -> dict[Key, Number]:
        """The entries of one map."""
        place = self.loops.places[name]
        record = self.loops.records[place.record]
        width = len(record.keys)
        at = width + next(i for i, f in enumerate(record.fields) if f.name == place.field)
        where = [place.order.index(i) for i in range(width)]
        found: dict[Key, Number] = {}
        for entry in self.opened.entries(self.source.records.index(place.record)):
            value = entry[at]
            number = value if isinstance(value, int) else Fraction(value[0]) + Fraction(value[1])
            if number:
                found[tuple([entry[i] for i in where])] = number
        return found

    def load(self, name: str, contents: Mapping[Key, Number]) -> None:
        """Add entries to one map."""
        place = self.loops.places[name]
        record = self.loops.records[place.record]
        zeros: list[Any] = [(0.0, 0.0) if f.type.is_floating else 0 for f in record.fields]
        at = next(i for i, f in enumerate(record.fields) if f.name == place.field)
        rows = []
        for key, number in contents.items():
            fields = list(zeros)
            fields[at] = _pair(number) if record.fields[at].type.is_floating else int(number)
            rows.append((*(key[i] for i in place.order), *fields))
        _check(self.opened.add(self.source.records.index(place.record), rows), "the first contents of a view")


@dataclass(slots=True)
class _Pending:
    """A view that waits to be compiled: what its new maps hold, and rows to run through the triggers then."""

    maps: dict[str, dict[Key, Number]]
    rows: dict[str, Bag]


class NativeEngine:
    """An engine that compiles programs to C; see :class:`viewlet.backends.base.Engine`.

    Triggers for whole batches are compiled where they are useful: where something is recomputed.
    With ``batches="all"`` every table has them. ``flags`` go to the C compiler;
    ``limit`` bounds the bytes of all state, 0 does not; with ``spill`` it lives in files of that folder.
    Without ``ordered`` indexes, what they would answer is scanned: for comparisons.
    """

    def __init__(
        self,
        *,
        batches: Batches = "useful",
        flags: Sequence[str] = DEFAULT_FLAGS,
        limit: int = 0,
        spill: Path | None = None,
        ordered: bool = True,
    ) -> None:
        self._compiler = Compiler(Catalog(), searches=ordered)
        self._program: Program | None = None
        self._limit, self._spill = limit, spill
        self._flags = tuple(flags)
        self._batches: Batches = batches
        self._ordered = ordered
        self._queries: dict[str, Query] = {}
        self._pending: list[_Pending] = []
        self._running: Running | None = None
        self._stale = True
        self._history = "" if ordered else "scans"

    def __repr__(self) -> str:
        return f"<NativeEngine: {', '.join(self._queries) or 'no views'}>"

    @property
    def native(self) -> bool:
        """Always."""
        return True

    @property
    def program(self) -> Program:
        """The trigger program of all views."""
        if self._program is None:
            self._program = self._compiler.program()
        return self._program

    @property
    def searches(self) -> Ordered:
        """The ordered access paths that the program has."""
        return self._compiler.searches

    def create(
        self, name: str, query: Query, catalog: Catalog, contents: Mapping[str, Bag], strategy: Strategy
    ) -> None:
        """Compile a view to triggers now, and to C when it is first used."""
        self._compiler.extend(catalog)
        self._compiler.statistics = Statistics({t: _about(len(bag)) for t, bag in contents.items() if bag})
        added = self._add(name, query, strategy)
        try:
            self._pending.append(self._first_contents(added, contents))
        except BaseException:
            self._forget(name)
            raise
        self._queries[name] = query
        self._stale = True

    def _add(self, name: str, query: Query, strategy: Strategy) -> list[MapDefinition]:
        """Compile a view to triggers, or recall what that came to the last time."""
        compiler = self._compiler
        tables = [compiler.catalog[table] for table in compiler.catalog]
        self._history = key_of(
            self._history, name, query, strategy, tables, compiler.statistics, compiler.registry.epochs
        )
        self._program = None
        known: tuple[Compiler, list[MapDefinition], Program] | None = recall(self._history)
        if known is None:
            known = compiler, compiler.add(name, query, strategy), compiler.program()
            if len(self._queries) < REMEMBERED_VIEWS:
                remember(self._history, known)
        self._compiler, added, self._program = known
        return added

    def _first_contents(self, added: list[MapDefinition], contents: Mapping[str, Bag]) -> _Pending:
        """What new maps hold at first: their definitions over the present rows.

        If rows are many and nothing has state yet, only static rows count here; the others run through the
        triggers of all views that wait, once per table.
        """
        catalog = self._compiler.catalog
        many = sum(map(len, contents.values())) >= REPLAY_ROWS
        replay = self._running is None and (many if not self._pending else bool(self._pending[0].rows))
        moving = {t: bag for t, bag in contents.items() if replay and catalog[t].kind is not TableKind.STATIC}
        columns = {table: catalog[table].column_names for table in contents}
        store = Tables(columns, {table: bag for table, bag in contents.items() if table not in moving})
        known = {table for pending in self._pending for table in pending.rows}
        rows = {table: dict(bag) for table, bag in moving.items() if table not in known}
        return _Pending({m.name: evaluate_query(m.definition, m.keys, store) for m in added}, rows)

    def drop(self, name: str) -> None:
        """Forget a view, and the maps that only it needed."""
        self._run()
        del self._queries[name]
        self._forget(name)
        self._stale = True

    def _forget(self, name: str) -> None:
        self._compiler.drop(name)
        self._program = None
        self._history = key_of(self._history, "drop", name)

    def apply(
        self, table: str, changes: Sequence[Change], granularity: Granularity, watched: frozenset[str]
    ) -> dict[str, Bag]:
        """Run the table's trigger in C: row by row, or once for the whole batch."""
        if isinstance(changes, ArrowChanges) and not watched:
            self._apply_capsules(table, changes.capsules, len(changes), changes.weights, granularity)
            return {}
        self._compiler.advance(table)
        kept = [change for change in changes if change.weight]
        rows = [change.row for change in kept]
        weights = [change.weight for change in kept]
        running = self._run()
        before = {name: self.output(name) for name in watched}
        if table not in running.source.tables:
            return {name: {} for name in watched}
        number = running.source.tables.index(table)
        batch = self._in_batch(running, table, granularity, len(rows))
        restores = bool(watched) and self.begin()
        self._apply(running.opened.apply(number, rows, weights, batch), table, rows)
        try:
            after = {name: self.output(name) for name in watched}
        except BaseException:
            if restores:
                self.restore()
            else:
                running.opened.apply(number, rows[::-1], [-weight for weight in reversed(weights)], batch)
            raise
        finally:
            if restores:
                self.end()
        return {name: difference(before[name], after[name]) for name in watched}

    def apply_arrow(
        self, table: str, batch: Any, weights: Any = None, granularity: Granularity = "auto"
    ) -> None:
        """Apply an Arrow record batch without copying it: all columns of the table, in its order and types.

        ``weights`` is a buffer of 64-bit integers, or nothing for insertions.
        """
        self._apply_capsules(table, batch.__arrow_c_array__(), batch.num_rows, weights, granularity)

    def _apply_capsules(
        self,
        table: str,
        capsules: tuple[object, object],
        rows: int,
        weights: object,
        granularity: Granularity,
    ) -> None:
        self._compiler.advance(table)
        running = self._run()
        if table not in running.source.tables:
            return
        chosen = self._in_batch(running, table, granularity, rows)
        number = running.source.tables.index(table)
        self._apply(running.opened.apply_arrow(number, *capsules, weights, chosen), table, None)

    def lane(self, table: str, weight: int) -> Callable[..., tuple[int, int] | None]:
        """A callable that applies one row of physical values; it stays valid until views change."""
        running = self._run()
        if table not in running.source.tables:
            return lambda *values: None
        lane: Callable[..., tuple[int, int] | None]
        lane = running.opened.lane(running.source.tables.index(table), weight)
        return lane

    def row_gate(
        self,
        table: str,
        views: Collection[str],
        weight: int,
        takes: Takes,
        keeper: Keeper | None,
        clock: array[int],
        otherwise: Callable[..., object],
    ) -> Gate | None:
        """A gate for rows of a table that some views read; none where they are checked after every change.

        They are kept by ``keeper``, if it is no stream.
        """
        running = self._run()
        checks = {running.loops.views[name].check for name in views}
        if table not in running.source.tables or "always" in checks:
            return None
        self._compiler.advance(table)
        number = running.source.tables.index(table)
        slots = b"" if keeper is None else keeper.slots
        gate: Gate = running.opened.row_gate(number, weight, *takes, keeper, slots, clock, otherwise)
        return gate

    def value_gate(self, name: str, clock: array[int], otherwise: Callable[[], object]) -> Gate | None:
        """A gate for the value of a view with one column; none for a view that is cut."""
        running = self._run()
        if isinstance(self._queries[name].plan, Top):
            return None
        gate: Gate = running.opened.value_gate(running.source.views.index(name), clock, otherwise)
        return gate

    def output(self, name: str) -> Bag:
        """Read a view's rows from its records."""
        running = self._run()
        names = tuple(column for column, _ in running.program.views[name].columns)
        number = running.source.views.index(name)
        wanted = first_rows(self._queries[name], names)
        found = running.opened.top(number, *wanted) if wanted is not None else None
        pairs, errors = running.opened.rows(number) if found is None else found
        if errors:
            raise program_error(errors, f"view {name!r}")
        return cut(self._queries[name], names, consolidate(pairs))

    def tells(self, name: str) -> bool:
        """Can the program tell what changes in a view? Not of one that is cut to a number of rows."""
        plan = self._queries[name].plan
        whole = not isinstance(plan, Top) or (plan.limit is None and not plan.offset)
        return whole and name in self._run().source.fed

    def follow(self, names: Iterable[str]) -> None:
        """Note from now on what changes in some views that can tell, and in no others."""
        running = self._run()
        running.opened.follow([running.source.views.index(name) for name in names])

    def changes(self, name: str) -> Bag:
        """What has changed in a view since it is followed: found from the entries that were touched."""
        running = self._run()
        pairs, errors = running.opened.changes(running.source.views.index(name))
        if errors:
            raise program_error(errors, f"view {name!r}")
        names = tuple(column for column, _ in running.program.views[name].columns)
        return cut(self._queries[name], names, consolidate(pairs))

    def touched(self, name: str) -> int:
        """Under how many keys a view that is followed may have changed."""
        running = self._run()
        return running.opened.touched(running.source.views.index(name))

    def changes_arrow(self, name: str) -> tuple[list[pa.Array], NDArray[np.int64]]:
        """What has changed in a followed view, as columns with weights; some rows may cancel out."""
        running = self._run()
        return self._columns(name, *running.opened.changes_columns(running.source.views.index(name)))

    def count(self, name: str) -> int:
        """The number of rows of a view."""
        if isinstance(self._queries[name].plan, Top):
            return sum(self.output(name).values())
        running = self._run()
        rows, errors = running.opened.count(running.source.views.index(name))
        if errors:
            raise program_error(errors, f"view {name!r}")
        return rows

    def output_arrow(self, name: str) -> tuple[list[pa.Array], NDArray[np.int64]] | None:
        """The columns of a view's rows with their weights, rows in any order, some of them to be added up.

        Nothing for a view that is cut (ORDER BY, LIMIT): that is done with its output.
        """
        if isinstance(self._queries[name].plan, Top):
            return None
        running = self._run()
        return self._columns(name, *running.opened.columns(running.source.views.index(name)))

    def _columns(self, name: str, runs: list[bytes], errors: int) -> tuple[list[pa.Array], NDArray[np.int64]]:
        """The columns of a view from the bytes of a program's, in the order of the query, and weights."""
        if errors:
            raise program_error(errors, f"view {name!r}")
        return view_columns(self._run().program.views[name], self._queries[name], runs)

    def begin(self) -> bool:
        """A step of several batches begins; can :meth:`restore` lead back, or must the opposite batches?"""
        return self._run().opened.begin()

    def restore(self) -> None:
        """Lead back to :meth:`begin`, to the last bit; nothing leads back from a state that was lost."""
        if self._running is not None:
            self._apply_errors(self._running.opened.restore(), "restoring the state before a batch")

    def end(self) -> None:
        """The step is over: forget how the state was before it."""
        if self._running is not None:
            self._running.opened.end()

    def check(self, names: Collection[str]) -> None:
        """Refuse if rows of some views cannot be published; reads those that may have become so."""
        running = self._run()
        suspect = running.opened.suspect()
        for name in names:
            when = running.loops.views[name].check
            if when == "always" or (when == "guarded" and suspect):
                errors = running.opened.check(running.source.views.index(name))
                if errors:
                    raise program_error(errors, f"view {name!r}")

    def value(self, name: str) -> Value:
        """The physical value of a view with one row and one column; LookupError for any other."""
        running = self._run()
        if isinstance(self._queries[name].plan, Top):
            raise LookupError(f"view {name!r} is cut: read its output")
        value: Value = running.opened.value(running.source.views.index(name))
        return value

    def explain(self, name: str) -> str:
        """What keeping the view takes, in words, then the loops that run: of several views, its own part."""
        loops = self._run().loops
        self._compiler.searches = AllBut(frozenset(loops.scanned))
        shown = show_loops(loops)
        if others := [other for other in loops.views if other != name]:
            own = part_of(self.program, name)
            shown = show_loops(triggers_to_loops(own, batches=self._batches, ordered=self._ordered))
            shown = f"for this view alone; {', '.join(others)} share its engine and what they can\n\n{shown}"
        return f"{self._compiler.explain(name)}\n\n{shown}"

    def obstacles(self, name: str) -> tuple[str, ...]:
        """Why the view is not incremental; nothing if it is."""
        loops = (
            triggers_to_loops(self.program, batches=self._batches, ordered=self._ordered)
            if self._stale
            else self._run().loops
        )
        self._compiler.searches = AllBut(frozenset(loops.scanned))
        return self._compiler.obstacles(name)

    def stats(self) -> list[MapStats]:
        """Every record with its entries and bytes."""
        running = self._run()
        sizes = running.opened.sizes()
        return [
            MapStats(name, records, size)
            for name, (records, size) in zip(running.source.records, sizes, strict=True)
            if running.loops.records[name].role == "map"
        ]

    def contents(self, name: str) -> Mapping[Key, Number]:
        """The entries of one map, for tests and the curious."""
        return self._run().contents(name)

    def load(self, name: str, entries: Mapping[Key, Number]) -> None:
        """Add entries to one map: how a view gets back what it held of streams."""
        self._run().load(name, entries)

    def running(self) -> Running:
        """The compiled program with its state, for those who write it down."""
        return self._run()

    def tables(self) -> tuple[str, ...]:
        """The tables whose changes matter; compiles what waits."""
        return self._run().source.tables

    def source(self) -> str:
        """The C text of the present program."""
        return self._run().source.text

    def _in_batch(self, running: Running, table: str, granularity: Granularity, rows: int) -> bool:
        """Should the batch trigger run? Where there is none, a row costs no more than its own effect."""
        if not running.loops.tables[table].batched:
            return False
        return granularity == "batch" or (granularity == "auto" and rows > 1)

    def _apply(self, failed: tuple[int, int] | None, table: str, rows: Sequence[Any] | None) -> None:
        if failed is None:
            return
        errors, at = failed
        where = f"table {table!r}"
        if rows is not None and 0 <= at < len(rows):
            columns = self._compiler.catalog[table].columns
            shown = (show(value, column.type) for value, column in zip(rows[at], columns, strict=True))
            where += f", row ({', '.join(shown)})"
        self._apply_errors(errors, where)

    def _apply_errors(self, errors: int, where: str) -> None:
        if errors & LOST:
            self._running, self._stale = None, True
        if errors:
            raise program_error(errors, where)

    # Building

    def _run(self) -> Running:
        """The present program, compiled if views came or went since."""
        if self._running is not None and not self._stale:
            return self._running
        program = self.program
        loops, source = self._in_c(program)
        fresh = Running(program, loops, source, self._open(source))
        new = {name for pending in self._pending for name in pending.maps}
        old = self._running
        if old is not None:
            for name in program.maps.keys() & old.program.maps.keys() - new:
                fresh.load(name, old.contents(name))
            old.opened.close()
        elif program.maps.keys() - new:
            raise BackendError("the state of the views was lost: create them again")
        for pending in self._pending:
            for name in pending.maps.keys() & program.maps.keys():
                fresh.load(name, pending.maps[name])
        rows = {table: bag for pending in self._pending for table, bag in pending.rows.items()}
        self._replay(fresh, {table: rows[table] for table in self._compiler.catalog.parents_first(rows)})
        self._running, self._pending, self._stale = fresh, [], False
        return fresh

    def _open(self, source: Source) -> OpenProgram:
        return open_program(source, flags=self._flags, limit=self._limit, spill=self._spill)

    def _in_c(self, program: Program) -> tuple[LoopProgram, Source]:
        """The program as loops and as C, or what that came to the last time."""
        key = key_of(self._history, self._batches)
        known: tuple[LoopProgram, Source] | None = recall(key)
        if known is None:
            loops = triggers_to_loops(program, batches=self._batches, ordered=self._ordered)
            known = loops, emit(loops)
            if len(self._queries) <= REMEMBERED_VIEWS:
                remember(key, known)
        return known

    def _replay(self, fresh: Running, contents: Mapping[str, Bag]) -> None:
        for table, bag in contents.items():
            if table in fresh.source.tables:
                batch = self._in_batch(fresh, table, "auto", len(bag))
                number = fresh.source.tables.index(table)
                failed = fresh.opened.apply(number, list(bag), list(bag.values()), batch)
                self._apply(failed, table, list(bag))


def first_rows(query: Query, names: tuple[str, ...]) -> tuple[bytes, bytes, int] | None:
    """How a query that is cut orders its rows, and how many it wants, for ``OpenProgram.top``.

    Nothing where it is not cut, wants many or none, or orders by what is no column.
    """
    plan = query.plan
    if not isinstance(plan, Top) or plan.limit is None or not 0 < plan.limit + plan.offset <= MOST_FIRST:
        return None
    ordered = bytearray()
    for key in plan.keys:
        if not isinstance(key.scalar, Var) or key.scalar.name not in names or len(names) > 255:
            return None
        ordered += bytes([names.index(key.scalar.name), key.descending | key.nulls_first << 1])
    return bytes(ordered), bytes(names.index(var.name) for _, var in query.columns), plan.limit + plan.offset


def _about(rows: int) -> int:
    """The next power of two: estimates want no more, and fewer programs differ by them."""
    return 1 << (rows - 1).bit_length()


def _pair(number: Number) -> tuple[float, float]:
    """A number as an unevaluated sum of two doubles."""
    high = float(number)
    return high, float(Fraction(number) - Fraction(high))


def _check(failed: tuple[int, int] | None, where: str) -> None:
    """Refuse what does not fit; a state that is lost while it is filled is nobody's yet."""
    if failed is not None:
        errors = failed[0] & ~LOST if failed[0] & MEMORY else failed[0]
        raise program_error(errors, where)


def program_error(errors: int, where: str) -> Exception:
    """The exception for some error bits."""
    if errors & LOST:
        return BackendError(f"{where}: memory ran out in the middle, the state of the views is lost")
    if errors & MEMORY:
        return MemoryError(f"{where}: the memory limit is reached")
    known: Iterable[str] = (text for bit, text in MESSAGES.items() if errors & bit)
    return ValueRangeError(f"{where}: {'; '.join(known)}")
