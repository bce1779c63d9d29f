"""The views of a database and the engines that keep them fresh.

Views may read views: the change of a view that others read is applied to them as the change of a table, in
the order of creation, which is an order of dependency. A batch goes through all engines or through none: if
one refuses, or if the batch cannot be written down, those before are led back by the negated changes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias, get_args

from viewlet.backends import Backend, engine_for, obstacles
from viewlet.backends.base import Bag, Change, Engine, Granularity, MapStats, Row, Strategy
from viewlet.errors import CompileError
from viewlet.plan.evaluate import consolidate
from viewlet.plan.nodes import Query
from viewlet.plan.scope import tables_of
from viewlet.sql.catalog import Catalog, TableKind
from viewlet.sql.parse import CreateView, Refresh
from viewlet.storage.checkpoint import ViewState
from viewlet.storage.streams import labels_of, load_state, state_of
from viewlet.triggers.compile import Compiler
from viewlet.triggers.program import Program

STRATEGIES: tuple[Strategy, ...] = get_args(Strategy)

EngineFactory: TypeAlias = Callable[[Strategy], Engine]


@dataclass(slots=True)
class MaintainedView:
    """A view, what it reads, the engine that keeps it, and the version at which it was created."""

    statement: CreateView
    query: Query
    engine: Engine
    reads: frozenset[str]
    birth: int
    refreshes: int = 0

    @property
    def name(self) -> str:
        """The view's name."""
        return self.statement.name


class Views(Mapping[str, MaintainedView]):
    """Views by name, in the order of their creation."""

    def __init__(self, backend: Backend | EngineFactory, strategy: Strategy) -> None:
        self._make: EngineFactory = backend if callable(backend) else partial(engine_for, backend)
        self._strategy = strategy
        self._engines: dict[Strategy, Engine] = {strategy: self._make(strategy)}
        self._views: dict[str, MaintainedView] = {}
        self.seconds = 0.0

    def __getitem__(self, name: str) -> MaintainedView:
        return self._views[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._views)

    def __len__(self) -> int:
        return len(self._views)

    def readers(self, name: str) -> list[str]:
        """The views that read a table or view."""
        return [view.name for view in self._views.values() if name in view.reads]

    def create(
        self, statement: CreateView, query: Query, catalog: Catalog, contents: Mapping[str, Bag], birth: int
    ) -> None:
        """Backfill a view from the present rows, and from now on keep it fresh."""
        self._create(statement, query, catalog, contents, birth, self._strategy)

    def _create(
        self,
        statement: CreateView,
        query: Query,
        catalog: Catalog,
        contents: Mapping[str, Bag],
        birth: int,
        strategy: Strategy,
    ) -> None:
        engine = self._engine(statement)
        engine.create(statement.name, query, catalog, contents, strategy)
        try:
            engine.output(statement.name)  # a view that cannot be read is refused now, not when it is read
            if statement.refresh is Refresh.INCREMENTAL_STRICT:
                _require_incremental(engine, statement.name)
        except BaseException:
            engine.drop(statement.name)
            raise
        self._views[statement.name] = MaintainedView(statement, query, engine, tables_of(query.plan), birth)

    def _engine(self, statement: CreateView) -> Engine:
        strategy: Strategy = "reevaluate" if statement.refresh is Refresh.FULL else self._strategy
        if strategy not in self._engines:
            self._engines[strategy] = self._make(strategy)
        return self._engines[strategy]

    def resume(self, state: ViewState, query: Query, catalog: Catalog, contents: Mapping[str, Bag]) -> bool:
        """Create a view again with what it held of streams; false if no strategy makes the same maps.

        The strategy is not written down: it is the one whose maps are those that were. Maps over streams are
        shared only by views of the same birth, which have seen the same.
        """
        name = state.statement.name
        last = next(reversed(self._views.values()), None)
        if last is not None and last.birth != state.birth:
            self.separate(catalog)
        for strategy in dict.fromkeys([self._strategy, *STRATEGIES]):
            self._create(state.statement, query, catalog, contents, state.birth, strategy)
            engine = self._views[name].engine
            if not state.streams:
                return True
            if labels_of(engine, name) == state.streams.keys():
                load_state(engine, name, state.streams)
                return True
            self.drop(name)
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

    def drop(self, name: str) -> MaintainedView:
        """Stop keeping a view."""
        view = self._views.pop(name)
        view.engine.drop(name)
        return view

    def output(self, name: str) -> Bag:
        """The present rows of a view."""
        return self._views[name].engine.output(name)

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

    def programs(self) -> list[tuple[Program, bool]]:
        """The program of every engine that runs one, and whether that engine keeps ordered indexes."""
        compilers = [getattr(engine, "_compiler", None) for engine in self._engines.values()]
        return [(c.program(), c.searches) for c in compilers if isinstance(c, Compiler) and c.program().views]

    def stats(self) -> list[MapStats]:
        """Every map of every engine."""
        return [stats for engine in self._engines.values() for stats in engine.stats()]

    @contextmanager
    def maintain(
        self, changes: Mapping[str, Sequence[Change]], trigger: Granularity, watched: frozenset[str]
    ) -> Iterator[dict[str, Bag]]:
        """Run changes of tables through the engines; gives the own changes of watched views.

        All or nothing: if the body of the ``with`` raises, the engines are led back too.
        """
        run = _Run(self._views, trigger, watched | {name for name in self._views if self.readers(name)})
        began = time.perf_counter()
        try:
            for table, part in changes.items():
                run.propagate(table, part)
            for name in self._views:
                run.propagate(name, [Change(row, weight) for row, weight in run.effect(name).items()])
            self.seconds += time.perf_counter() - began
            yield {name: run.effect(name) for name in watched}
        except BaseException:
            run.undo()
            raise
        for view in run.refreshed.values():
            view.refreshes += 1


class _Run:
    """One batch on its way through the engines."""

    def __init__(
        self, views: Mapping[str, MaintainedView], trigger: Granularity, watched: frozenset[str]
    ) -> None:
        self._views, self._trigger, self._watched = views, trigger, watched
        self._effects: dict[str, list[tuple[Row, int]]] = {}
        self._done: list[tuple[Engine, str, Sequence[Change]]] = []
        self.refreshed: dict[str, MaintainedView] = {}

    def effect(self, view: str) -> Bag:
        """What the batch has changed in a watched view so far."""
        return consolidate(self._effects.get(view, ()))

    def propagate(self, name: str, changes: Sequence[Change]) -> None:
        """Give the changes of one table or view to every engine with a view that reads it."""
        if not changes:
            return
        readers = {view.name: view for view in self._views.values() if name in view.reads}
        self.refreshed.update(readers)
        for engine in {id(view.engine): view.engine for view in readers.values()}.values():
            watched = frozenset(v.name for v in readers.values() if v.engine is engine) & self._watched
            effects = engine.apply(name, changes, self._trigger, watched)
            self._done.append((engine, name, changes))
            for view, effect in effects.items():
                self._effects.setdefault(view, []).extend(effect.items())

    def undo(self) -> None:
        """Lead the engines back, the last step first."""
        for engine, name, changes in reversed(self._done):
            engine.apply(name, [Change(c.row, -c.weight) for c in changes], "batch", frozenset())


def _require_incremental(engine: Engine, name: str) -> None:
    reasons = obstacles(engine, name)
    if reasons:
        raise CompileError(f"view {name!r} is not incremental: {'; '.join(reasons)}")
