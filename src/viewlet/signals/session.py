"""Running queries: sessions that take batches, and whole tables as one session."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from viewlet.signals import checkpoint
from viewlet.signals.clock import parse_duration, read_times
from viewlet.signals.errors import SessionError, SignalError, SignalTypeError, UnitError
from viewlet.signals.execute import Executor, require_bound
from viewlet.signals.reorder import Reorder
from viewlet.signals.revise import Revisions
from viewlet.signals.runnable import named_inputs
from viewlet.signals.specs import NEVER
from viewlet.signals.text import describe


class Session:
    """A query that takes batches; every call returns what it made final.

    A batch that is refused (order, types, a late event) changes nothing. If an operator fails half-way, for
    instance in a function of yours, the session refuses to go on: restore a checkpoint.

    >>> from viewlet.signals import source
    >>> s = source(time="t", value="v").sample(10).sum(2).start()
    >>> s.push({"t": [0, 10], "v": [1.0, 2.0]}).to_pydict()
    {'t': [10], 'v': [3.0]}
    """

    def __init__(
        self,
        query: Any,
        lateness: Any = None,
        late: str = "error",
        horizon: Any = None,
        into: Callable[[pa.Table], Any] | None = None,
    ) -> None:
        if late not in ("error", "drop", "adjust", "revise"):
            raise SignalTypeError(f"late must be 'error', 'drop', 'adjust' or 'revise', not {late!r}")
        if late != "error" and lateness is None:
            raise SignalTypeError(
                f"late={late!r} needs lateness: how long to wait for events, 0 for not at all"
            )
        self.query, self.into = query, into
        self.executor = Executor(query)
        self.finished = False
        self.failed: str | None = None
        self.reorder = self._reorder(lateness, late)
        self.revisions = Revisions(query, _ticks(horizon, query, "horizon")) if late == "revise" else None

    def _reorder(self, lateness: Any, late: str) -> dict[str, Reorder]:
        if lateness is None:
            return {}
        wait = _ticks(lateness, self.query, "lateness")
        clock = self.executor.clock
        return {s.node.name: Reorder(s.node, clock, wait, late) for s in self.executor.sources}

    # -- the four verbs -----------------------------------------------------------------------------------

    def push(self, data: Any) -> pa.Table:
        """Take a batch, or several by source name; the rows that became final."""
        self._check_open()
        names = [source.node.name for source in self.executor.sources]
        tables = {name: to_table(part) for name, part in named_inputs(data, names).items()}
        if self.revisions is not None:
            return self._deliver([self._push_revisable(self.revisions, tables)])
        ready, commits = dict(tables), {}
        for name, table in tables.items():
            self._bind(name, table)
            if name in self.reorder:
                ready[name], _, commits[name] = self.reorder[name].take(table)
        out = self._feed(ready)
        for name, state in commits.items():
            self.reorder[name].commit(state)
        return self._deliver(out + self._advance_to_bounds())

    def advance(self, time: Any) -> pa.Table:
        """Declare that no event before ``time`` will come: an integer, or a datetime for such columns."""
        self._check_open()
        tick = self._instant(time)
        if self.revisions is not None:
            raise SessionError("a session that revises late events keeps its own time; do not advance it")
        ready = {name: table for name, r in self.reorder.items() if (table := r.advance(tick)) is not None}
        return self._deliver(self._feed(ready) + self._guarded(lambda: self.executor.advance(tick)))

    def flush(self) -> pa.Table:
        """Declare that no event will come any more; the rest of the result. The session is then over."""
        self._check_open()
        ready = {name: table for name, r in self.reorder.items() if (table := r.flush()) is not None}
        if (revisions := self.revisions) is not None:
            return self._finish(lambda: [revisions.flush(ready)])
        return self._finish(lambda: self._feed(ready) + self.executor.flush())

    def checkpoint(self, path: str | os.PathLike[str] | None = None) -> bytes:
        """All that later batches depend on, as bytes, and written to ``path`` if given."""
        self._check_open()
        snapshot = self.snapshot()
        if path is not None:
            checkpoint.write(path, snapshot)
        return checkpoint.dump(snapshot)

    def restore(self, saved: str | os.PathLike[str] | bytes) -> Session:
        """Go on from a checkpoint of the same query; this session must be new."""
        data = saved if isinstance(saved, bytes) else Path(saved).read_bytes()
        snapshot = checkpoint.load(data)
        if snapshot["query"] != describe(self.query.node):
            raise SessionError(f"this checkpoint belongs to another query:\n{snapshot['query']}")
        self.restore_snapshot(snapshot)
        return self

    # -- state ----------------------------------------------------------------------------------------------

    def snapshot(self) -> dict[str, Any]:
        """The checkpoint as nested values; arrays are shared with the running session."""
        return {
            "query": describe(self.query.node),
            "schemas": self.executor.schemas(),
            "executor": self.executor.snapshot(),
            "reorder": {name: [r.latest, r.held] for name, r in self.reorder.items()},
            "revisions": None if self.revisions is None else self.revisions.snapshot(),
        }

    def restore_snapshot(self, snapshot: dict[str, Any]) -> None:
        """Go on from a snapshot."""
        if (snapshot["revisions"] is None) != (self.revisions is None):
            raise SessionError("the checkpoint and this session differ in late='revise'; start it as it was")
        self.executor.bind(snapshot["schemas"])
        self.executor.restore(snapshot["executor"])
        for name, (latest, held) in snapshot["reorder"].items():
            if name not in self.reorder:
                raise SessionError("the checkpoint was taken with lateness; start this session with it too")
            self.reorder[name].commit({"latest": latest, "held": held})
        if self.revisions is not None:
            self.revisions.restore(snapshot["revisions"], snapshot["schemas"])

    # -- helpers --------------------------------------------------------------------------------------------

    def _bind(self, name: str, table: pa.Table) -> None:
        for source in self.executor.sources:
            if source.node.name == name:
                require_bound(source, table)

    def _feed(self, tables: Mapping[str, pa.Table]) -> list[pa.Table]:
        """Check every batch before any operator sees one."""
        prepared = []
        for source in self.executor.sources:
            if source.node.name in tables:
                require_bound(source, tables[source.node.name])
                prepared.append((source, source.prepare(tables[source.node.name])))
        return self._guarded(
            lambda: [t for source, events in prepared for t in self.executor.feed(source, events)]
        )

    def _advance_to_bounds(self) -> list[pa.Table]:
        bound = min((r.bound for r in self.reorder.values()), default=NEVER)
        return [] if bound == NEVER else self._guarded(lambda: self.executor.advance(bound))

    def _guarded(self, action: Callable[[], list[pa.Table]]) -> list[pa.Table]:
        try:
            return action()
        except BaseException as error:
            self.failed = f"{type(error).__name__}: {error}"
            raise

    def _finish(self, action: Callable[[], list[pa.Table]]) -> pa.Table:
        out = self._guarded(action)
        self.finished = True
        return self._deliver(out)

    def _deliver(self, tables: list[pa.Table]) -> pa.Table:
        result = self.executor.collect([table for table in tables if table.num_columns])
        if self.into is not None and result.num_rows:
            self.into(result)
        return result

    def _check_open(self) -> None:
        if self.finished:
            raise SessionError("this session was flushed; start a new one")
        if self.failed:
            raise SessionError(
                f"this session failed half-way through a batch ({self.failed}); restore a checkpoint"
            )

    def _instant(self, time: Any) -> int:
        source = self.executor.sources[0]
        if isinstance(time, int | np.integer) and self.executor.clock == "ticks":
            return int(time)
        column = pa.array([time], type=None if isinstance(time, int) else source.time_type)
        return int(read_times(column, source.node.time, self.executor.clock, source.node.unit)[0])

    def _push_revisable(self, revisions: Revisions, tables: dict[str, pa.Table]) -> pa.Table:
        taken = {}
        for name, table in tables.items():
            self._bind(name, table)
            taken[name] = self.reorder[name].take(table)
        ready, late = ({name: parts[i] for name, parts in taken.items()} for i in (0, 1))
        latest = {name: state["latest"] for name, (_, _, state) in taken.items()}
        bounds = {n: t if t == NEVER else t - self.reorder[n].lateness for n, t in latest.items()}
        result = revisions.push(ready, late, bounds)
        for name, (_, _, state) in taken.items():
            self.reorder[name].commit(state)
        return result


def run(query: Any, data: Any, lateness: Any, late: str) -> pa.Table:
    """A whole table as one session: pieces of it in turn from each source, then flush."""
    session = Session(query, lateness, late)
    names = [source.node.name for source in session.executor.sources]
    tables = {name: to_table(part) for name, part in named_inputs(data, names).items()}
    missing = set(names) - set(tables)
    if missing:
        raise SignalError(f"no data for source {', '.join(sorted(missing))}; give a mapping by source name")
    total = sum(table.num_rows for table in tables.values())
    done = 0.0
    out: list[pa.Table] = []
    while total and done < 1.0:
        upto = min(1.0, done + _piece(session) / total)
        piece = {name: _between(table, done, upto) for name, table in tables.items()}
        out.append(session.push(piece))
        done = upto
    if total == 0:
        out.append(session.push(tables))
    out.append(session.flush())
    return session.executor.collect([table for table in out if table.num_rows])


def _piece(session: Session) -> int:
    """Rows to take at once: few enough for the cache, many enough that each key has a stretch of them."""
    return max(1 << 20, 32 * session.executor.spaces.most())


def _between(table: pa.Table, low: float, high: float) -> pa.Table:
    begin, end = round(low * table.num_rows), round(high * table.num_rows)
    return table.slice(begin, end - begin)


def to_table(data: Any) -> pa.Table:
    """Any accepted data as an Arrow table."""
    if isinstance(data, pa.Table):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    if isinstance(data, Mapping):
        return pa.table(dict(data))
    if hasattr(data, "to_arrow"):
        return data.to_arrow()
    if type(data).__module__.partition(".")[0] == "pandas":
        return pa.Table.from_pandas(data, preserve_index=False)
    if hasattr(data, "__arrow_c_stream__"):
        return pa.table(data)
    raise SignalTypeError(
        f"cannot read a {type(data).__name__}; give Arrow, pandas, polars or a mapping of columns"
    )


def _ticks(duration: Any, query: Any, what: str) -> int:
    if duration is None:
        raise SignalTypeError(f"{what} is needed here, as a duration")
    if isinstance(duration, str):
        if query.clock == "ticks":
            raise UnitError(f"{what}={duration!r} has units, but the query's durations are integers")
        return parse_duration(duration)
    if query.clock == "ns" and duration:
        raise UnitError(f"{what}={duration!r} has no unit, but the query's durations have; write e.g. '5s'")
    return int(duration)
