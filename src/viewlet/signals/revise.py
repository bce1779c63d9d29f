"""Late events that change results already given: the difference is returned with weights -1 and +1."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from viewlet.signals import checkpoint
from viewlet.signals.chunks import Ints
from viewlet.signals.clock import read_times
from viewlet.signals.errors import OrderError
from viewlet.signals.execute import Executor, require_bound
from viewlet.signals.specs import NEVER

Batch: TypeAlias = dict[str, pa.Table]  # by source name


class Revisions:
    """Keeps the events of the last ``horizon`` to two horizons, the state before them, and what was emitted.

    A late event is put in its place among the kept events and these are run again from that state; the result
    is what would have come had it been in time, and its difference to what did come is returned. Correct for
    every operator, at the cost of the kept events for each batch that holds late ones.
    """

    def __init__(self, query: Any, horizon: int) -> None:
        self.query, self.horizon = query, horizon
        self.executor = Executor(query)
        self.bounds = {source.node.name: NEVER for source in self.executor.sources}
        self.bases = [_Base(dict(self.bounds), None)]  # states at ascending times; what came since each

    @property
    def bound(self) -> int:
        """Up to where the events of all sources are complete."""
        return min(self.bounds.values())

    def push(self, ready: Batch, late: Batch, bounds: dict[str, int]) -> pa.Table:
        """Events in order, events late, and up to where each source is complete; changes of the result."""
        parts = {name: self._still_open(name, ready[name], late[name]) for name in ready}
        ready, late = ({name: part[i] for name, part in parts.items()} for i in (0, 1))
        late = {name: table for name, table in late.items() if table.num_rows}
        changes = [self._revise(late)] if late else []
        out = _fed(self.executor, ready)
        self.bounds |= bounds
        if self.bound != NEVER:
            out += self.executor.advance(self.bound)
        for base in self.bases:
            base.events.append(ready)
            base.outputs += out
        changes += [_weighted(table, 1) for table in out]
        self._move_base()
        changes = [table for table in changes if table.num_columns]
        return pa.concat_tables(changes) if changes else pa.table({})

    def flush(self, ready: Batch) -> pa.Table:
        """The rest of the result."""
        none = {name: table.slice(0, 0) for name, table in ready.items()}
        changes = [self.push(ready, none, {})] if ready else []
        changes += [_weighted(table, 1) for table in self.executor.flush()]
        changes = [table for table in changes if table.num_columns]
        return pa.concat_tables(changes) if changes else pa.table({})

    def snapshot(self) -> dict[str, Any]:
        """All that later batches depend on: the running state, and the bases with what came since."""
        return {
            "bounds": self.bounds,
            "executor": self.executor.snapshot(),
            "bases": [
                {"bounds": base.bounds, "saved": base.saved, "events": base.events, "outputs": base.outputs}
                for base in self.bases
            ],
        }

    def restore(self, snapshot: dict[str, Any], schemas: dict[str, pa.Table]) -> None:
        """Go on from a snapshot of the same query."""
        self.bounds = snapshot["bounds"]
        self.executor.bind(schemas)
        self.executor.restore(snapshot["executor"])
        self.bases = [_Base.from_snapshot(base) for base in snapshot["bases"]]

    def _still_open(self, name: str, ready: pa.Table, late: pa.Table) -> tuple[pa.Table, pa.Table]:
        """Events late only within this batch join those in order; nothing of their source went past them."""
        times = self._times(name, late)
        merged = pa.concat_tables([ready, late.filter(pa.array(times >= self.bounds[name]))])
        return self._ordered(name, merged), late.filter(pa.array(times < self.bounds[name]))

    def _ordered(self, name: str, table: pa.Table) -> pa.Table:
        return table.take(pa.array(np.argsort(self._times(name, table), kind="stable")))

    def _times(self, name: str, table: pa.Table) -> Ints:
        node = next(source.node for source in self.executor.sources if source.node.name == name)
        column = table.column(node.time).combine_chunks()
        return read_times(column, node.time, self.executor.clock, node.unit)

    def _revise(self, late: Batch) -> pa.Table:
        earliest = {name: int(self._times(name, table).min()) for name, table in late.items()}
        usable = [b for b in self.bases if all(b.bounds[name] <= time for name, time in earliest.items())]
        if not usable:
            name = max(earliest, key=lambda name: self.bases[0].bounds[name] - earliest[name])
            raise OrderError(
                f"source {name!r}: an event at {earliest[name]} is older than the horizon of {self.horizon}, "
                f"which reaches back to {self.bases[0].bounds[name]}"
            )
        base = usable[-1]
        came = [*base.events, late]
        parts = {name: [batch[name] for batch in came if name in batch] for name in self.bounds}
        merged = {n: self._ordered(n, pa.concat_tables(tables)) for n, tables in parts.items() if tables}
        executor = base.resume(self.query, self.executor.schemas())
        outputs = _fed(executor, merged)
        if self.bound != NEVER:
            outputs += executor.advance(self.bound)
        change = _difference(base.outputs, outputs)
        keep = self.bases.index(base)
        self.bases = self.bases[: keep + 1]
        for older in self.bases[:keep]:  # they saw the same outputs, before and after
            older.events.append(late)
            older.outputs = [*older.outputs[: len(older.outputs) - len(base.outputs)], *outputs]
        base.events, base.outputs = [merged], outputs
        self.executor = executor
        return change

    def _move_base(self) -> None:
        """Start a new base each horizon; forget those that no late event can need."""
        last = self.bases[-1].time
        if self.bound != NEVER and (last == NEVER or self.bound >= last + self.horizon):
            self.bases.append(_Base(dict(self.bounds), self.executor))
        while len(self.bases) > 1 and self.bases[1].time + self.horizon <= self.bound:
            self.bases.pop(0)


class _Base:
    """The state at a time, and what has happened since."""

    def __init__(self, bounds: dict[str, int], executor: Executor | None) -> None:
        self.bounds = bounds  # up to where the events of each source had come
        self.saved: bytes | None = None if executor is None else checkpoint.dump(executor.snapshot())
        self.events: list[Batch] = []
        self.outputs: list[pa.Table] = []

    @property
    def time(self) -> int:
        """Up to where all sources had come."""
        return min(self.bounds.values())

    @classmethod
    def from_snapshot(cls, parts: dict[str, Any]) -> _Base:
        """A base that a checkpoint holds."""
        base = cls(parts["bounds"], None)
        base.saved, base.events, base.outputs = parts["saved"], parts["events"], parts["outputs"]
        return base

    def resume(self, query: Any, schemas: Batch) -> Executor:
        """An executor in that state."""
        executor = Executor(query)
        executor.bind(schemas)
        if self.saved is not None:
            executor.restore(checkpoint.load(self.saved))
            for source in executor.sources:
                source.advanced = NEVER  # late events are admitted from here on
        return executor


def _fed(executor: Executor, batch: Batch) -> list[pa.Table]:
    """What a batch in order makes final."""
    prepared = []
    for source in executor.sources:
        if source.node.name in batch:
            require_bound(source, batch[source.node.name])
            prepared.append((source, source.prepare(batch[source.node.name])))
    return [table for source, events in prepared for table in executor.feed(source, events)]


def _weighted(table: pa.Table, weight: int) -> pa.Table:
    return table.append_column("_weight", pa.array(np.full(table.num_rows, weight, np.int64)))


def _difference(old: list[pa.Table], new: list[pa.Table]) -> pa.Table:
    """Rows that vanished with weight -1, rows that appeared with weight +1; equal rows cancel."""
    counts: dict[tuple[Any, ...], int] = {}
    for tables, weight in ((old, -1), (new, 1)):
        for table in tables:
            for row in zip(*(map(_hashable, column.to_pylist()) for column in table.columns), strict=True):
                counts[row] = counts.get(row, 0) + weight
    schema = next((table.schema for table in (*new, *old)), None)
    if schema is None:
        return pa.table({})
    rows = [(row, np.sign(count)) for row, count in counts.items() for _ in range(abs(count))]
    rows.sort(key=lambda item: item[1])
    columns = {f.name: pa.array([row[i] for row, _ in rows], type=f.type) for i, f in enumerate(schema)}
    return _weighted(pa.table(columns), 1).set_column(
        len(columns), "_weight", pa.array([int(sign) for _, sign in rows], pa.int64())
    )


def _hashable(value: Any) -> Any:
    return tuple(map(_hashable, value)) if isinstance(value, list) else value
