"""What a pipeline consists of, and the decorators that say so.

Nothing happens when something is defined: functions are called when the pipeline runs, with a Spark session
active.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, overload

from viewlet.errors import ViewletError

Function: TypeAlias = Callable[[], Any]
Kind: TypeAlias = Literal["STREAM", "TABLE", "STATIC TABLE"]
Emits: TypeAlias = Literal["rows", "changes"]


class PipelineError(ViewletError):
    """A pipeline that cannot be run as it is stated."""


@dataclass(frozen=True, slots=True)
class TableDefinition:
    """A table that flows write to.

    ``unique`` are columns that tell a row which was sent again; ``late`` is a column with the time of a row
    and how far behind the latest it may be.
    """

    name: str
    schema: str
    kind: Kind
    unique: tuple[str, ...]
    late: tuple[str, str] | None


@dataclass(frozen=True, slots=True)
class FlowDefinition:
    """A DataFrame, streaming or not, whose rows are changes of a table."""

    name: str
    target: str
    function: Function


@dataclass(frozen=True, slots=True)
class ViewDefinition:
    """A view: SQL text, or a DataFrame over the pipeline's tables."""

    name: str
    function: Function


@dataclass(frozen=True, slots=True)
class SinkDefinition:
    """Where a view is written, by a Spark writer: all its rows, or its own changes.

    ``select`` are expressions of Spark over them, if the writer wants other columns.
    """

    name: str
    view: str
    format: str
    options: Mapping[str, str]
    emits: Emits
    select: tuple[str, ...]


@dataclass(slots=True)
class Pipeline:
    """Tables, flows, views and sinks, in the order of their definition.

    >>> pipeline = Pipeline("demo")
    >>> @pipeline.table(schema="a BIGINT")
    ... def numbers():
    ...     return None
    >>> pipeline.flows
    {'numbers': FlowDefinition(name='numbers', target='numbers', function=<function numbers at ...>)}
    """

    name: str
    tables: dict[str, TableDefinition] = field(default_factory=dict)
    flows: dict[str, FlowDefinition] = field(default_factory=dict)
    views: dict[str, ViewDefinition] = field(default_factory=dict)
    sinks: dict[str, SinkDefinition] = field(default_factory=dict)

    def table(
        self,
        *,
        schema: str,
        name: str | None = None,
        kind: Kind = "STREAM",
        unique: Sequence[str] = (),
        late: tuple[str, str] | None = None,
    ) -> Callable[[Function], Function]:
        """A table, fed by the DataFrame that the function returns.

        ``schema`` lists columns as CREATE TABLE does. A ``STREAM`` keeps no rows; a ``TABLE`` keeps them, so
        that its PRIMARY KEY holds. Of the rows of a batch that agree in the columns ``unique``, one counts.
        With ``late=("time", "10 minutes")`` a row goes to quarantine whose time is that far behind the latest
        of the batches before.
        """

        def define(function: Function) -> Function:
            own = name or function.__name__
            self._refuse_twice(own)
            self.tables[own] = TableDefinition(own, schema, kind, tuple(unique), late)
            self.flows[own] = FlowDefinition(own, own, function)
            return function

        return define

    def append_flow(self, *, target: str, name: str | None = None) -> Callable[[Function], Function]:
        """A further source of a table."""

        def define(function: Function) -> Function:
            own = name or function.__name__
            if own in self.flows:
                raise PipelineError(f"there are two flows {own!r}")
            self.flows[own] = FlowDefinition(own, target, function)
            return function

        return define

    @overload
    def materialized_view(self, function: Function) -> Function: ...
    @overload
    def materialized_view(self, *, name: str) -> Callable[[Function], Function]: ...
    def materialized_view(self, function: Function | None = None, *, name: str | None = None) -> Any:
        """A view: the function returns SQL text, or a DataFrame over the pipeline's tables."""

        def define(function: Function) -> Function:
            own = name or function.__name__
            self._refuse_twice(own)
            self.views[own] = ViewDefinition(own, function)
            return function

        return define if function is None else define(function)

    def create_sink(
        self,
        name: str,
        *,
        view: str,
        format: str,
        options: Mapping[str, str] | None = None,
        emits: Emits = "rows",
        select: Sequence[str] = (),
    ) -> None:
        """Write a view by a Spark writer after every batch: all its rows anew, or its own ``"changes"``.

        ``select`` are expressions of Spark over what is written, as a topic of Kafka needs them:
        ``["customer AS key", "to_json(struct(*)) AS value"]``.
        """
        if name in self.sinks:
            raise PipelineError(f"there are two sinks {name!r}")
        if emits not in ("rows", "changes"):
            raise PipelineError(f"sink {name!r}: emits={emits!r}; use 'rows' or 'changes'")
        if isinstance(select, str):
            raise PipelineError(f"sink {name!r}: select is a list of expressions, not one text")
        if format == "kafka" and emits == "rows":
            raise PipelineError(f"sink {name!r}: a topic cannot be written anew; use emits='changes'")
        self.sinks[name] = SinkDefinition(name, view, format, dict(options or {}), emits, tuple(select))

    def check(self) -> None:
        """Refuse flows and sinks of what does not exist."""
        for flow in self.flows.values():
            if flow.target not in self.tables:
                known = ", ".join(self.tables) or "none"
                raise PipelineError(f"flow {flow.name!r}: there is no table {flow.target!r}; tables: {known}")
        for sink in self.sinks.values():
            if sink.view not in self.views:
                known = ", ".join(self.views) or "none"
                raise PipelineError(f"sink {sink.name!r}: there is no view {sink.view!r}; views: {known}")

    def _refuse_twice(self, name: str) -> None:
        if name in self.tables or name in self.views:
            raise PipelineError(f"{name!r} is defined twice")


_PRESENT: ContextVar[Pipeline | None] = ContextVar("pipeline", default=None)


@contextmanager
def defining(pipeline: Pipeline) -> Iterator[Pipeline]:
    """Decorators of this module belong to this pipeline meanwhile."""
    token = _PRESENT.set(pipeline)
    try:
        yield pipeline
    finally:
        _PRESENT.reset(token)


def _present() -> Pipeline:
    found = _PRESENT.get()
    if found is None:
        raise PipelineError("no pipeline is being defined: run the file by `viewlet run`, or use a Pipeline")
    return found


def table(
    *,
    schema: str,
    name: str | None = None,
    kind: Kind = "STREAM",
    unique: Sequence[str] = (),
    late: tuple[str, str] | None = None,
) -> Callable[[Function], Function]:
    """See :meth:`Pipeline.table`."""
    return _present().table(schema=schema, name=name, kind=kind, unique=unique, late=late)


def append_flow(*, target: str, name: str | None = None) -> Callable[[Function], Function]:
    """See :meth:`Pipeline.append_flow`."""
    return _present().append_flow(target=target, name=name)


def materialized_view(function: Function | None = None, *, name: str | None = None) -> Any:
    """See :meth:`Pipeline.materialized_view`."""
    if function is not None:
        return _present().materialized_view(function)
    return _present().materialized_view(name=name) if name else _present().materialized_view


def create_sink(
    name: str,
    *,
    view: str,
    format: str,
    options: Mapping[str, str] | None = None,
    emits: Emits = "rows",
    select: Sequence[str] = (),
) -> None:
    """See :meth:`Pipeline.create_sink`."""
    _present().create_sink(name, view=view, format=format, options=options, emits=emits, select=select)
