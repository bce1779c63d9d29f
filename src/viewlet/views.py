"""The views of a database and the engines that keep them fresh.

Views may read views: the change of a view that others read is applied to them as the change of a table, in
the order of creation, which is an order of dependency. A batch goes through all engines or through none: if
one refuses, those before it are led back by the negated changes.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from viewlet.backends import Backend, engine_for, obstacles
from viewlet.backends.base import Bag, Change, Engine, Granularity, MapStats, Row, Strategy
from viewlet.errors import CompileError
from viewlet.plan.evaluate import consolidate
from viewlet.plan.nodes import Query
from viewlet.plan.scope import tables_of
from viewlet.sql.catalog import Catalog
from viewlet.sql.parse import CreateView, Refresh


@dataclass(slots=True)
class MaintainedView:
    """A view, what it reads, and the engine that keeps it."""

    statement: CreateView
    query: Query
    engine: Engine
    reads: frozenset[str]
    refreshes: int = 0

    @property
    def name(self) -> str:
        """The view's name."""
        return self.statement.name


class Views(Mapping[str, MaintainedView]):
    """Views by name, in the order of their creation."""

    def __init__(self, backend: Backend, strategy: Strategy) -> None:
        self._backend, self._strategy = backend, strategy
        self._engines: dict[Strategy, Engine] = {strategy: engine_for(backend, strategy)}
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
        self, statement: CreateView, query: Query, catalog: Catalog, contents: Mapping[str, Bag]
    ) -> None:
        """Backfill a view from the present rows, and from now on keep it fresh."""
        strategy: Strategy = "reevaluate" if statement.refresh is Refresh.FULL else self._strategy
        if strategy not in self._engines:
            self._engines[strategy] = engine_for(self._backend, strategy)
        engine = self._engines[strategy]
        engine.create(statement.name, query, catalog, contents, strategy)
        try:
            engine.output(statement.name)  # a view that cannot be read is refused now, not when it is read
            if statement.refresh is Refresh.INCREMENTAL_STRICT:
                _require_incremental(engine, statement.name)
        except BaseException:
            engine.drop(statement.name)
            raise
        self._views[statement.name] = MaintainedView(statement, query, engine, tables_of(query.plan))

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
        engine = engine_for(self._backend, self._strategy)
        empty: dict[str, Bag] = {table: {} for table in tables_of(query.plan)}
        engine.create("query", query, catalog, empty, self._strategy)
        return engine.explain("query")

    def stats(self) -> list[MapStats]:
        """Every map of every engine."""
        return [stats for engine in self._engines.values() for stats in engine.stats()]

    def maintain(
        self, changes: Mapping[str, list[Change]], trigger: Granularity, watched: frozenset[str]
    ) -> dict[str, Bag]:
        """Run changes of tables through the engines, all or nothing; the own changes of watched views."""
        run = _Run(self._views, trigger, watched | {name for name in self._views if self.readers(name)})
        began = time.perf_counter()
        try:
            for table, part in changes.items():
                run.propagate(table, part)
            for name in self._views:
                run.propagate(name, [Change(row, weight) for row, weight in run.effect(name).items()])
        except BaseException:
            run.undo()
            raise
        finally:
            self.seconds += time.perf_counter() - began
        for view in run.refreshed.values():
            view.refreshes += 1
        return {name: run.effect(name) for name in watched}


class _Run:
    """One batch on its way through the engines."""

    def __init__(
        self, views: Mapping[str, MaintainedView], trigger: Granularity, watched: frozenset[str]
    ) -> None:
        self._views, self._trigger, self._watched = views, trigger, watched
        self._effects: dict[str, list[tuple[Row, int]]] = {}
        self._done: list[tuple[Engine, str, list[Change]]] = []
        self.refreshed: dict[str, MaintainedView] = {}

    def effect(self, view: str) -> Bag:
        """What the batch has changed in a watched view so far."""
        return consolidate(self._effects.get(view, ()))

    def propagate(self, name: str, changes: list[Change]) -> None:
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
