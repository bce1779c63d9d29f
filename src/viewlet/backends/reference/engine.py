"""Runs trigger programs on dicts: the living definition that every other backend must agree with.

All increments of an event are computed from the state before it, then written: the order of statements never
matters here. Recomputations follow on the new state. Writes are journalled, so a failure leaves no trace.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Literal

from viewlet.backends.base import Bag, Change, Granularity, MapStats, Row, Strategy
from viewlet.backends.reference.check import TouchedKeys, compile_check
from viewlet.backends.reference.maps import ReferenceMap
from viewlet.calculus.evaluate import Compiler as QueryCompiler
from viewlet.calculus.evaluate import Env, Key, Number, Store, Tables, evaluate_query
from viewlet.calculus.events import WEIGHT, TupleEvent
from viewlet.calculus.nodes import Delta, MapRef, Rel
from viewlet.calculus.search import Ask, PrefixSums
from viewlet.core.scalar import Var
from viewlet.core.types import Value
from viewlet.errors import ValueRangeError
from viewlet.indexes import BestMap
from viewlet.plan.bags import consolidate, cut
from viewlet.plan.nodes import Query
from viewlet.sql.catalog import Catalog
from viewlet.triggers.compile import Compiler
from viewlet.triggers.cost import Statistics
from viewlet.triggers.preaggregate import preaggregate
from viewlet.triggers.program import MapDefinition, Program, Statement, Trigger, View
from viewlet.triggers.work import Ordered

Sums = Callable[[Env], dict[Key, Number]]
Given = dict[str, Value]


class ReferenceEngine:
    """An engine that interprets programs; see :class:`viewlet.backends.base.Engine`."""

    def __init__(self) -> None:
        self._compiler = Compiler(Catalog(), searches=True)
        self._queries: dict[str, Query] = {}
        self._maps: dict[str, ReferenceMap] = {}
        self._batch = Tables({}, {})
        self._runners: dict[tuple[str, str], TriggerRunner] = {}
        self._outputs: dict[str, Callable[[], Bag]] = {}
        self._checks: dict[str, Callable[[TouchedKeys], None]] = {}
        self._touched: dict[int, set[Key]] = {}

    @property
    def program(self) -> Program:
        """The program that is running."""
        return self._compiler.program()

    @property
    def searches(self) -> Ordered:
        """The ordered access paths that the program has."""
        return self._compiler.searches

    def create(
        self, name: str, query: Query, catalog: Catalog, contents: Mapping[str, Bag], strategy: Strategy
    ) -> None:
        """Compile a view, and fill its new maps from the present rows."""
        self._compiler.extend(catalog)
        self._compiler.statistics = Statistics({t: len(bag) for t, bag in contents.items() if bag})
        added = self._compiler.add(name, query, strategy)
        store = Tables({table: catalog[table].column_names for table in contents}, contents)
        try:
            filled = {m.name: self._filled(m, store) for m in added}
        except BaseException:
            self._compiler.drop(name)
            raise
        self._maps |= filled
        self._queries[name] = query
        self._link()

    def _filled(self, definition: MapDefinition, store: Tables) -> ReferenceMap:
        filled = ReferenceMap()
        for key, total in evaluate_query(definition.definition, definition.keys, store).items():
            filled.add(key, total)
        return filled

    def drop(self, name: str) -> None:
        """Forget a view, and the maps that only it needed."""
        del self._queries[name], self._outputs[name], self._checks[name]
        for gone in self._compiler.drop(name):
            del self._maps[gone]
        self._link()

    def apply(
        self, table: str, changes: Sequence[Change], granularity: Granularity, watched: frozenset[str]
    ) -> dict[str, Bag]:
        """Run the table's trigger: row by row, or once for the whole batch."""
        self._compiler.advance(table)
        before = {name: self._outputs[name]() for name in watched}
        journal: list[tuple[ReferenceMap, Key, Number]] = []
        try:
            if granularity == "tuple" or (granularity == "auto" and len(changes) == 1):
                self._apply_tuples(table, changes, journal)
            else:
                self._apply_batch(table, changes, journal)
            after = {name: self._outputs[name]() for name in watched}
        except BaseException as reason:
            for target, key, change in reversed(journal):
                target.add(key, -change)
            if isinstance(reason, ValueRangeError):
                raise ValueRangeError(f"table {table!r}: {reason}") from None
            raise
        for target, key, _ in journal:
            self._touched.setdefault(id(target), set()).add(key)
        return {name: difference(before[name], after[name]) for name in watched}

    def check(self, names: Collection[str]) -> None:
        """Compute the rows of views again where their maps were touched since the last check."""
        touched, self._touched = self._touched, {}
        keys = {name: touched[id(m)] for name, m in self._maps.items() if id(m) in touched}
        for name in names:
            try:
                self._checks[name](keys)
            except ValueRangeError as reason:
                raise ValueRangeError(f"view {name!r}: {reason}") from None

    def output(self, name: str) -> Bag:
        """Read a view's rows from its maps."""
        return self._outputs[name]()

    def explain(self, name: str) -> str:
        """What keeping the view takes, in words."""
        return self._compiler.explain(name)

    def obstacles(self, name: str) -> tuple[str, ...]:
        """Why the view is not incremental; nothing if it is."""
        return self._compiler.obstacles(name)

    def stats(self) -> list[MapStats]:
        """Records per map; a dict entry is counted as 100 bytes plus 30 per key column."""
        definitions = self._compiler.registry.maps
        return [
            MapStats(name, len(m.entries), len(m.entries) * (100 + 30 * len(definitions[name].keys)))
            for name, m in self._maps.items()
        ]

    def contents(self, name: str) -> Mapping[Key, Number]:
        """The entries of one map, for tests and the curious."""
        return self._maps[name].entries

    def load(self, name: str, entries: Mapping[Key, Number]) -> None:
        """Add entries to one map: how a view gets back what it held of streams."""
        for key, number in entries.items():
            self._maps[name].add(key, number)

    def lookup(
        self, atom: Rel | Delta | MapRef, bound: tuple[int, ...]
    ) -> Callable[[Key], Iterable[tuple[Key, Number]]]:
        """See :class:`viewlet.calculus.evaluate.Store`."""
        if isinstance(atom, MapRef):
            return self._maps[atom.name].lookup(bound, len(atom.keys))
        assert isinstance(atom, Delta), "statements read maps, never tables"
        return lambda values: self._batch.lookup(atom, bound)(values)

    def ordered(self, atom: MapRef, bound: tuple[int, ...]) -> Callable[[Key], PrefixSums | None]:
        """See :class:`viewlet.calculus.search.SearchStore`."""
        (position,) = set(range(len(atom.keys))) - set(bound)
        return self._maps[atom.name].ordered(position)

    def best(
        self, atom: MapRef, along: int, of: int, op: Literal["min", "max"]
    ) -> Callable[[Key], BestMap | None]:
        """See :class:`viewlet.calculus.search.SearchStore`."""
        return self._maps[atom.name].best(along, of, op)

    def between(
        self, atom: MapRef, bound: tuple[int, ...], position: int
    ) -> Callable[[Key, Ask, Ask], Iterable[tuple[Key, Number]]]:
        """See :class:`viewlet.calculus.search.SearchStore`."""
        return self._maps[atom.name].between(bound, position, len(atom.keys))

    def has_negative(self, name: str) -> bool:
        """See :class:`viewlet.calculus.search.SearchStore`."""
        return self._maps[name].negatives > 0

    def _apply_tuples(
        self, table: str, changes: Sequence[Change], journal: list[tuple[ReferenceMap, Key, Number]]
    ) -> None:
        runner = self._runners.get((table, "tuple"))
        if runner is not None:
            for change in changes:
                runner.run(change.row, change.weight, journal)
                runner.recompute(change.row, change.weight, journal)

    def _apply_batch(
        self, table: str, changes: Sequence[Change], journal: list[tuple[ReferenceMap, Key, Number]]
    ) -> None:
        runner = self._runners.get((table, "batch"))
        if runner is None:
            self._apply_tuples(table, changes, journal)
            return
        rows = consolidate((change.row, change.weight) for change in changes)
        columns = {table: self._compiler.catalog[table].column_names}
        self._batch = Tables(columns, {}, {table: rows})
        self._batch = Tables(columns | runner.summed_columns, {}, {table: rows, **runner.summed()})
        runner.run((), 1, journal)
        runner.recompute((), 1, journal)

    def _link(self) -> None:
        """Compile every statement and output against the maps as they are now."""
        program = self.program
        self._runners = {
            (table, "tuple"): TriggerRunner(self, trigger, self._maps)
            for table, trigger in program.triggers.items()
        }
        for table, trigger in program.batch_triggers.items():
            prepared = preaggregate(trigger, program.tables[table])
            self._runners[table, "batch"] = TriggerRunner(self, prepared.trigger, self._maps, prepared.sums)
        self._outputs = {
            name: self._output(view, self._queries[name]) for name, view in program.views.items()
        }
        self._checks = {name: compile_check(view, self) for name, view in program.views.items()}

    def _output(self, view: View, query: Query) -> Callable[[], Bag]:
        read = view_reader(view, self)
        names = tuple(column for column, _ in view.columns)
        return lambda: cut(query, names, consolidate(read()))


def view_reader(view: View, store: Store) -> Callable[[], list[tuple[Row, int]]]:
    """A function that gives the rows of a view with their multiplicities, from a store that has its maps."""
    pairs: list[tuple[Row, int]] = []
    runners = []
    for part in view.output:
        compiler = QueryCompiler(store)
        readers = [compiler.scalar(scalar) for scalar in part.row]

        def emit(env: Env, weight: Number, readers: list[Callable[[Env], Value]] = readers) -> None:
            pairs.append((tuple([reader(env) for reader in readers]), int(weight)))

        runners.append((compiler, compiler.term(part.term, frozenset(), emit)))

    def run() -> list[tuple[Row, int]]:
        pairs.clear()
        for compiler, runner in runners:
            runner(compiler.environment({}), 1)
        return pairs

    return run


class TriggerRunner:
    """One compiled trigger."""

    def __init__(
        self,
        engine: ReferenceEngine,
        trigger: Trigger,
        maps: Mapping[str, ReferenceMap],
        sums: Iterable[MapDefinition] = (),
    ) -> None:
        self._parameters = tuple(
            var.name for var in TupleEvent(engine._compiler.catalog[trigger.table]).parameters
        )
        self._increments = [(maps[s.target], *_compile(engine, s)) for s in trigger.increments]
        self._recomputations = [
            (maps[s.target], *_compile(engine, s), _entry(s)) for s in trigger.recomputations
        ]
        self._sums = [
            (total.name, *_compile(engine, Statement(total.name, total.keys, ":=", total.definition)))
            for total in sums
        ]
        self.summed_columns = {total.name: tuple(key.name for key in total.keys) for total in sums}

    def summed(self) -> dict[str, dict[Key, Number]]:
        """The batch summed for its readers, see :mod:`viewlet.triggers.preaggregate`."""
        return {name: sums(compiler.environment({})) for name, compiler, sums in self._sums}

    def run(self, row: Row, weight: int, journal: list[tuple[ReferenceMap, Key, Number]]) -> None:
        """Compute every increment from the old state, then write them all."""
        given = self._given(row, weight)
        computed = [
            (target, sums(compiler.environment(given))) for target, compiler, sums in self._increments
        ]
        for target, changes in computed:
            for key, change in changes.items():
                target.add(key, change)
                journal.append((target, key, change))

    def recompute(self, row: Row, weight: int, journal: list[tuple[ReferenceMap, Key, Number]]) -> None:
        """Bring recomputed maps and entries up to date with the new state, in order."""
        given = self._given(row, weight)
        for target, compiler, sums, entry in self._recomputations:
            new = sums(compiler.environment(given))
            old = target.entries
            for key in [*(old.keys() | new.keys())] if entry is None else [entry(given)]:
                if change := new.get(key, 0) - old.get(key, 0):
                    target.add(key, change)
                    journal.append((target, key, change))

    def _given(self, row: Row, weight: int) -> Given:
        """What the event tells: nothing, if it is a batch."""
        return dict(zip(self._parameters, row, strict=False)) | {WEIGHT.name: weight}


def _entry(statement: Statement) -> Callable[[Given], Key] | None:
    """The one entry that a statement is about; ``None`` if it is about all."""
    if not statement.is_of_one_entry:
        return None
    return lambda given: tuple(
        given[key.name] if isinstance(key, Var) else key.value for key in statement.keys
    )


def _compile(engine: ReferenceEngine, statement: Statement) -> tuple[QueryCompiler, Sums]:
    compiler = QueryCompiler(engine)
    return compiler, compiler.totals(statement.query, statement.keys, frozenset())


def difference(before: Bag, after: Bag) -> Bag:
    """``after - before`` as signed weights, zeros dropped."""
    changed = {row: after.get(row, 0) - before.get(row, 0) for row in before.keys() | after.keys()}
    return {row: weight for row, weight in changed.items() if weight}
