"""The views of a database and the engines that keep them fresh.

Views may read views: the change of a view that others read is applied to them as the change of a table, in
the order of creation, which is an order of dependency. A batch goes through all engines or through none: if
one refuses, or if the batch cannot be written down, those before are led back by the negated changes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeAlias, get_args

from viewlet.backends import Backend, engine_for, obstacles
from viewlet.backends.base import (
    ArrowChanges,
    Bag,
    Change,
    ColumnEngine,
    Engine,
    Granularity,
    MapStats,
    ProgramEngine,
    Strategy,
)
from viewlet.backends.native.engine import NativeEngine
from viewlet.backends.native.image import Frozen
from viewlet.core.types import Schema
from viewlet.errors import CompileError
from viewlet.kept import Image
from viewlet.plan.evaluate import evaluate_query
from viewlet.plan.nodes import Query
from viewlet.plan.scope import tables_of
from viewlet.refresh import Effect, Run, as_changes, changes_of, engines_of
from viewlet.sql.catalog import Catalog, TableKind
from viewlet.sql.parse import CreateView, Refresh
from viewlet.storage.checkpoint import FrozenView, ViewState
from viewlet.storage.streams import frozen_state_of, labels_of, load_state, state_of
from viewlet.triggers.program import Program
from viewlet.triggers.work import Ordered

STRATEGIES: tuple[Strategy, ...] = get_args(Strategy)

EngineFactory: TypeAlias = Callable[[Strategy], Engine]

Contents: TypeAlias = Mapping[str, Image]
"""The present rows of tables by name."""

VIEWS_PER_ENGINE = 32
FEW_ROWS = 100
FED = frozenset({TableKind.TABLE})
"""The kinds of tables that have triggers, through which rows can come at first."""


@dataclass(slots=True)
class MaintainedView:
    """A view, what it reads, the engine that keeps it, and the version at which it was created."""

    statement: CreateView
    query: Query
    engine: Engine
    reads: frozenset[str]
    birth: int
    refreshes: int = 0
    shown: Bag | None = None
    """The present rows, where somebody follows them from commit to commit."""

    @property
    def name(self) -> str:
        """The view's name."""
        return self.statement.name


class Views(Mapping[str, MaintainedView]):
    """Views by name, in the order of their creation."""

    def __init__(self, backend: Backend | EngineFactory, strategy: Strategy) -> None:
        self._make: EngineFactory = backend if callable(backend) else partial(engine_for, backend)
        self._strategy = strategy
        self._engines: dict[Strategy, list[Engine]] = {strategy: [self._make(strategy)]}
        self._views: dict[str, MaintainedView] = {}
        self._readers: dict[str, dict[str, MaintainedView]] = {}
        self.seconds = 0.0

    def __getitem__(self, name: str) -> MaintainedView:
        return self._views[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._views)

    def __len__(self) -> int:
        return len(self._views)

    @property
    def native(self) -> bool:
        """Are views kept by native code?"""
        return _is_native(self._engines[self._strategy][0])

    def readers(self, name: str) -> list[str]:
        """The views that read a table or view."""
        return list(self._readers.get(name, ()))

    def reading(self, name: str) -> Collection[MaintainedView]:
        """The views that read a table or view, in the order of their creation."""
        return self._readers.get(name, {}).values()

    def affected(self, tables: Iterable[str]) -> list[MaintainedView]:
        """The views that read some tables, themselves or through other views, in the order of creation.

        A view is created after all that it reads, so one pass in that order finds them.
        """
        changed = set(tables)
        found = {view.name: view for table in changed for view in self.reading(table)}
        if len(changed) == 1 and self._readers.keys().isdisjoint(found):
            return list(found.values())
        for view in self._views.values():
            if not changed.isdisjoint(view.reads):
                changed.add(view.name)
        return [view for view in self._views.values() if view.name in changed]

    def create(
        self, statement: CreateView, query: Query, catalog: Catalog, contents: Contents, birth: int
    ) -> None:
        """Backfill a view from the present rows, and from now on keep it fresh."""
        self._create(statement, query, catalog, contents, birth, self._strategy)

    def _create(
        self,
        statement: CreateView,
        query: Query,
        catalog: Catalog,
        contents: Contents,
        birth: int,
        strategy: Strategy,
    ) -> None:
        engine = self._engine(statement)
        fed = _fed(contents, catalog) if _is_native(engine) else []
        if fed:
            engine = self._new_engine(statement)  # what is shared with other views has been fed already
        held = {table: {} if table in fed else rows.rows() for table, rows in contents.items()}
        engine.create(statement.name, query, catalog, held, strategy)
        try:
            for table in fed:
                for changes in contents[table].changes():
                    engine.apply(table, changes, "auto", frozenset())
            _require_readable(engine, statement.name, query, catalog, None if fed else held)
            if statement.refresh is Refresh.INCREMENTAL_STRICT:
                _require_incremental(engine, statement.name)
        except BaseException:
            engine.drop(statement.name)
            raise
        view = MaintainedView(statement, query, engine, tables_of(query.plan), birth)
        self._views[view.name] = view
        for table in view.reads:
            if table in self._views:
                self.follow(table)
            self._readers.setdefault(table, {})[view.name] = view

    def _engine(self, statement: CreateView) -> Engine:
        """The engine for a new view: views share maps within one, as long as it is quickly compiled."""
        engines = self._engines.get(self._strategy_of(statement))
        if not engines or sum(v.engine is engines[-1] for v in self._views.values()) >= VIEWS_PER_ENGINE:
            return self._new_engine(statement)
        return engines[-1]

    def _new_engine(self, statement: CreateView) -> Engine:
        strategy = self._strategy_of(statement)
        engine = self._make(strategy)
        self._engines.setdefault(strategy, []).append(engine)
        return engine

    def _strategy_of(self, statement: CreateView) -> Strategy:
        return "reevaluate" if statement.refresh is Refresh.FULL else self._strategy

    def resume(self, state: ViewState, query: Query, catalog: Catalog, contents: Contents) -> bool:
        """Create a view again with what it held of streams; false if no strategy makes the same maps.

        The strategy is not written down: it is the one whose maps are those that were, so not one that
        refuses the query. Maps over streams are shared only by views of the same birth, which have seen the
        same.
        """
        name, refusals = state.statement.name, list[CompileError]()
        last = next(reversed(self._views.values()), None)
        if last is not None and last.birth != state.birth:
            self.separate(catalog)
        for strategy in dict.fromkeys([self._strategy, *STRATEGIES]):
            try:
                self._create(state.statement, query, catalog, contents, state.birth, strategy)
            except CompileError as refusal:
                refusals.append(refusal)
                continue
            engine = self._views[name].engine
            if not state.streams:
                return True
            if labels_of(engine, name) == state.streams.keys():
                load_state(engine, name, state.streams)
                return True
            self.drop(name)
        if refusals and not state.streams:
            raise refusals[0]
        return False

    def separate(self, catalog: Catalog) -> None:
        """Let views that come from now on share no map over a stream with those before."""
        for view in self._views.values():
            for stream in (name for name in view.reads if catalog[name].kind is TableKind.STREAM):
                view.engine.apply(stream, [], "batch", frozenset())

    def state(self, name: str, catalog: Catalog) -> ViewState:
        """A view with what it holds of streams, copied."""
        view = self._views[name]
        reads_stream = any(catalog[table].kind is TableKind.STREAM for table in view.reads)
        return ViewState(view.statement, view.birth, state_of(view.engine, name) if reads_stream else {})

    def freeze(self, catalog: Catalog, folder: Path) -> tuple[tuple[FrozenView, ...], Frozen]:
        """All views with what they hold of streams, as of now; states of native programs go to ``folder``."""
        holding = [
            v for v in self._views.values() if any(catalog[t].kind is TableKind.STREAM for t in v.reads)
        ]
        native = [engine for engine in engines_of(holding) if isinstance(engine, NativeEngine)]
        frozen = Frozen(native, folder)
        try:
            states = {view.name: frozen_state_of(view.engine, view.name, frozen) for view in holding}
        except BaseException:
            frozen.close()
            raise
        views = [FrozenView(v.statement, v.birth, states.get(v.name, {})) for v in self._views.values()]
        return tuple(views), frozen

    def drop(self, name: str) -> MaintainedView:
        """Stop keeping a view."""
        view = self._views.pop(name)
        for table in view.reads:
            del self._readers[table][name]
            if not self._readers[table]:
                del self._readers[table]
        view.engine.drop(name)
        self._retire(view)
        return view

    def _retire(self, gone: MaintainedView) -> None:
        """Let an engine go with its last view, unless it is the only one."""
        engines = self._engines[self._strategy_of(gone.statement)]
        if len(engines) > 1 and not any(view.engine is gone.engine for view in self._views.values()):
            engines.remove(gone.engine)

    def output(self, name: str) -> Bag:
        """The present rows of a view."""
        return self._views[name].engine.output(name)

    def count(self, name: str) -> int:
        """The number of rows of a view."""
        engine = self._views[name].engine
        return engine.count(name) if isinstance(engine, ColumnEngine) else sum(engine.output(name).values())

    def follow(self, name: str) -> None:
        """Somebody follows a view from now on, of which nothing was remembered while nobody did."""
        if not self.readers(name):
            self._views[name].shown = None

    def output_arrow(self, name: str, columns: Schema) -> ArrowChanges | None:
        """The present rows of a view as Arrow, where native code keeps it and no order was asked for."""
        view = self._views[name]
        # The class first: to test for the protocol takes as long as to read a small view.
        if not isinstance(view.engine, (NativeEngine, ColumnEngine)):
            return None
        shown = view.engine.output_arrow(name)
        return None if shown is None else as_changes(*shown, columns)

    def explain(self, name: str) -> str:
        """How a view is kept fresh."""
        view = self._views[name]
        inputs = ", ".join(sorted(view.reads)) or "no table"
        return f"{name}: REFRESH {view.statement.refresh.value}, reads {inputs}\n{view.engine.explain(name)}"

    def explain_query(self, query: Query, catalog: Catalog) -> str:
        """How a query would be kept fresh, were it a view."""
        engine = self._make(self._strategy)
        empty: dict[str, Bag] = {table: {} for table in tables_of(query.plan)}
        engine.create("query", query, catalog, empty, self._strategy)
        return engine.explain("query")

    def programs(self) -> list[tuple[Program, Ordered]]:
        """The program of every engine that runs one, and which ordered access paths that engine has."""
        return [(engine.program, engine.searches) for engine in self._with_programs()]

    def _with_programs(self) -> list[ProgramEngine]:
        engines = [engine for engine in self._all_engines() if isinstance(engine, ProgramEngine)]
        return [engine for engine in engines if engine.program.views]

    def stats(self) -> list[MapStats]:
        """Every map of every engine, with the place of its program among :meth:`programs`."""
        numbers = {id(engine): number for number, engine in enumerate(self._with_programs())}
        return [
            replace(stats, program=numbers.get(id(engine)))
            for engine in self._all_engines()
            for stats in engine.stats()
        ]

    def sizes(self) -> list[MapStats]:
        """Every map, and what native programs hold beside their maps: texts, and records of one batch."""
        sizes = self.stats()
        for engine in self._native():
            beside = engine.running().opened.bytes() - sum(stats.bytes for stats in engine.stats())
            sizes.append(MapStats("texts and working memory", 0, beside))
        return sizes

    def sweep(self) -> None:
        """Give back the memory of texts that were in maps once; else that waits until they are many."""
        for engine in self._native():
            engine.running().opened.sweep()

    def _native(self) -> list[NativeEngine]:
        return [engine for engine in engines_of(self._views.values()) if isinstance(engine, NativeEngine)]

    def _all_engines(self) -> list[Engine]:
        return [engine for engines in self._engines.values() for engine in engines]

    @contextmanager
    def maintain(
        self,
        steps: Sequence[tuple[str, Sequence[Change]]],
        trigger: Granularity,
        watched: frozenset[str],
    ) -> Iterator[dict[str, Effect]]:
        """Run changes of tables through the engines, in order; gives the own changes of watched views.

        All or nothing: if the body of the ``with`` raises, the engines are led back too.
        """
        run = Run(self, trigger, {table for table, part in steps if part}, watched)
        began = time.perf_counter()
        try:
            for table, part in steps:
                run.propagate(table, part)
            for view in run.affected:
                if self.readers(view.name):
                    run.propagate(view.name, changes_of(run.effect(view.name)))
            run.check()
            effects = {view.name: run.effect(view.name) for view in run.affected if view.name in watched}
            self.seconds += time.perf_counter() - began
            yield effects
        except BaseException:
            run.undo()
            raise
        run.settle()


def _is_native(engine: Engine) -> bool:
    return isinstance(engine, ColumnEngine) and engine.native


def _fed(contents: Contents, catalog: Catalog) -> list[str]:
    """The tables whose rows run through the triggers: those that came as Arrow, parents first.

    What refers to such a table by an enforced key runs after it: its rows may not be there before.
    """
    fed: list[str] = []
    for table in catalog.parents_first(contents):
        follows = any(key.enforced and key.target in fed for key in catalog[table].references)
        if (contents[table].arrived or follows) and catalog[table].kind in FED:
            fed.append(table)
    return fed


def _require_readable(
    engine: Engine, name: str, query: Query, catalog: Catalog, contents: Mapping[str, Bag] | None
) -> None:
    """Refuse a view that cannot be read now, not when it is read.

    Over few rows the query itself tells: the engine may then put its compilation off, and do it for all views
    that are created in a row at once. Over rows that came as changes (no ``contents``) it has noticed.
    """
    if contents is None:
        engine.check([name])
    elif sum(map(len, contents.values())) <= FEW_ROWS:
        evaluate_query(query, contents, catalog)
    else:
        engine.output(name)


def _require_incremental(engine: Engine, name: str) -> None:
    reasons = obstacles(engine, name)
    if reasons:
        raise CompileError(f"view {name!r} is not incremental: {'; '.join(reasons)}")
