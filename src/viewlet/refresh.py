"""One batch on its way through the engines: all of it or nothing, and what it changes in followed views.

A view is followed if somebody is told of its changes, or if views read it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from viewlet.backends.base import ArrowChanges, Bag, Change, Engine, Granularity, TellingEngine, opposite
from viewlet.backends.native.engine import NativeEngine
from viewlet.changes import rows_of
from viewlet.core.types import Column, Schema
from viewlet.values import arrow_schema

if TYPE_CHECKING:
    from viewlet.views import MaintainedView, Views

Effect: TypeAlias = "Bag | ArrowChanges"
"""What changes in a view: each row once, with its weight."""

MANY = 5_000
"""Where more keys of a view are touched, its changes come as Arrow."""


class Run:
    """One batch on its way through the engines."""

    def __init__(
        self,
        views: Views,
        trigger: Granularity,
        changed: Collection[str],
        watched: frozenset[str],
    ) -> None:
        self._views, self._trigger = views, trigger
        self.affected = views.affected(changed)
        followed = [v for v in self.affected if v.name in watched or views.readers(v.name)]
        self._telling = _telling(followed)
        told = {name for names in self._telling.values() for name in names}
        compared = [v for v in followed if v.name not in told]
        self._before = {v.name: views.output(v.name) if v.shown is None else v.shown for v in compared}
        self._after: dict[str, Bag] = {}
        self._told: dict[str, Effect] = {}
        self._done: list[tuple[Engine, str, Sequence[Change]]] = []
        native = (engine for engine in engines_of(self.affected) if isinstance(engine, NativeEngine))
        self._restoring = [engine for engine in native if engine.begin()]
        for engine, names in self._telling.items():
            engine.follow(names)

    def effect(self, view: str) -> Effect:
        """What the batch changes in a view that is followed; asked when all that it reads has changed.

        The engine tells, if it can; else all rows before are compared with all rows now.
        """
        engine = self._views[view].engine
        if isinstance(engine, TellingEngine) and view in self._telling.get(engine, ()):
            if view not in self._told:
                self._told[view] = _told(engine, self._views[view])
            return self._told[view]
        if view not in self._after:
            self._after[view] = self._views.output(view)
        before, after = self._before[view], self._after[view]
        changed = {row for row, _ in before.items() ^ after.items()}
        return {row: after.get(row, 0) - before.get(row, 0) for row in changed}

    def settle(self) -> None:
        """The batch is committed: count the refreshes, and remember rows that are followed."""
        self._stop_following()
        for engine in self._restoring:
            engine.end()
        for view in self.affected:
            view.refreshes += 1
            view.shown = self._after.get(view.name)

    def propagate(self, name: str, changes: Sequence[Change]) -> None:
        """Give the changes of one table or view to every engine with a view that reads it."""
        if not changes:
            return
        for engine in engines_of(self._views.reading(name)):
            engine.apply(name, changes, self._trigger, frozenset())
            self._done.append((engine, name, changes))

    def check(self) -> None:
        """Refuse a batch after which a row could not be read: also where nobody looks yet."""
        for engine in engines_of(self.affected):
            engine.check([view.name for view in self.affected if view.engine is engine])

    def undo(self) -> None:
        """Lead the engines back, the last step first."""
        self._stop_following()
        for native in self._restoring:
            native.restore()
            native.end()
        for engine, name, changes in reversed(self._done):
            if engine not in self._restoring:
                engine.apply(name, opposite(changes), "batch", frozenset())

    def _stop_following(self) -> None:
        for engine in self._telling:
            engine.follow(())


def _telling(views: Iterable[MaintainedView]) -> dict[TellingEngine, list[str]]:
    """The views of which their engines can tell what changes, by engine."""
    found: dict[TellingEngine, list[str]] = {}
    for view in views:
        if isinstance(view.engine, TellingEngine) and view.engine.tells(view.name):
            found.setdefault(view.engine, []).append(view.name)
    return found


def engines_of(views: Iterable[MaintainedView]) -> list[Engine]:
    """The engines of some views, each once."""
    return list({id(view.engine): view.engine for view in views}.values())


def _told(engine: TellingEngine, view: MaintainedView) -> Effect:
    """What an engine says has changed in a view."""
    if engine.touched(view.name) <= MANY:
        return engine.changes(view.name)
    columns = tuple(Column(name, var.type, var.nullable) for name, var in view.query.columns)
    return as_changes(*engine.changes_arrow(view.name), columns).net()


def as_changes(arrays: list[pa.Array], weights: NDArray[np.int64], columns: Schema) -> ArrowChanges:
    """Columns as native code gives them, with weights, as changes."""
    schema = arrow_schema(columns)
    typed = [
        array if array.type.equals(field.type) else array.cast(field.type)
        for array, field in zip(arrays, schema, strict=True)
    ]
    return ArrowChanges(pa.RecordBatch.from_arrays(typed, schema=schema), weights, partial(rows_of, columns))


def changes_of(effect: Effect) -> Sequence[Change]:
    """A view's own change as changes of a table."""
    return effect if isinstance(effect, ArrowChanges) else list(map(Change, effect.keys(), effect.values()))
