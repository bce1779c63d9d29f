"""Late events that change results already given: the difference is returned with weights -1 and +1."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from viewlet.signals import checkpoint
from viewlet.signals.chunks import Ints
from viewlet.signals.clock import read_times
from viewlet.signals.errors import OrderError
from viewlet.signals.execute import Executor, require_bound
from viewlet.signals.specs import NEVER


class Revisions:
    """Keeps the events of the last ``horizon`` to two horizons, the state before them, and what was emitted.

    A late event is put in its place among the kept events and these are run again from that state; the result
    is what would have come had it been in time, and its difference to what did come is returned. Correct for
    every operator, at the cost of the kept events for each batch that holds late ones.
    """

    def __init__(self, query: Any, horizon: int) -> None:
        self.query, self.horizon = query, horizon
        self.bases = [_Base(NEVER, None)]  # states at ascending times; events and outputs since each
        self.executor = Executor(query)
        self.bound = NEVER

    def push(self, ready: pa.Table, late: pa.Table, bound: int) -> pa.Table:
        """Events in order, events late, and up to where events are complete; changes of the result."""
        ready, late = self._still_open(ready, late)
        changes = [self._revise(late)] if late.num_rows else []
        source = self.executor.sources[0]
        require_bound(source, ready)
        out = self.executor.feed(source, source.prepare(ready))
        if bound != NEVER:
            out += self.executor.advance(bound)
            self.bound = bound
        for base in self.bases:
            base.events.append(ready)
            base.outputs += out
        changes += [_weighted(table, 1) for table in out]
        self._move_base()
        changes = [table for table in changes if table.num_columns]
        return pa.concat_tables(changes) if changes else pa.table({})

    def flush(self, ready: pa.Table | None) -> pa.Table:
        """The rest of the result."""
        changes = [] if ready is None else [self.push(ready, ready.slice(0, 0), self.bound)]
        changes += [_weighted(table, 1) for table in self.executor.flush()]
        changes = [table for table in changes if table.num_columns]
        return pa.concat_tables(changes) if changes else pa.table({})

    def snapshot(self) -> dict[str, Any]:
        """All that later batches depend on: the running state, and the bases with what came since."""
        return {
            "bound": self.bound,
            "executor": self.executor.snapshot(),
            "bases": [
                {"time": base.time, "saved": base.saved, "events": base.events, "outputs": base.outputs}
                for base in self.bases
            ],
        }

    def restore(self, snapshot: dict[str, Any], schemas: dict[str, pa.Table]) -> None:
        """Go on from a snapshot of the same query."""
        self.bound = snapshot["bound"]
        self.executor.bind(schemas)
        self.executor.restore(snapshot["executor"])
        self.bases = [_Base.from_snapshot(base) for base in snapshot["bases"]]

    def _still_open(self, ready: pa.Table, late: pa.Table) -> tuple[pa.Table, pa.Table]:
        """Events late only within this batch join those in order; nothing was emitted past them yet."""
        times = self._times(late)
        merged = pa.concat_tables([ready, late.filter(pa.array(times >= self.bound))])
        order = np.argsort(self._times(merged), kind="stable")
        return merged.take(pa.array(order)), late.filter(pa.array(times < self.bound))

    def _times(self, table: pa.Table) -> Ints:
        node, clock = self.executor.sources[0].node, self.executor.clock
        return read_times(table.column(node.time).combine_chunks(), node.time, clock, node.unit)

    def _revise(self, late: pa.Table) -> pa.Table:
        node = self.executor.sources[0].node
        earliest = int(self._times(late).min())
        usable = [base for base in self.bases if base.time <= earliest]
        if not usable:
            raise OrderError(
                f"source {node.name!r}: an event at {earliest} is older than the horizon of {self.horizon}, "
                f"which reaches back to {self.bases[0].time}"
            )
        base = usable[-1]
        merged = pa.concat_tables([*base.events, late])
        merged = merged.take(pa.array(np.argsort(self._times(merged), kind="stable")))
        executor = base.resume(self.query, merged)
        source = executor.sources[0]
        outputs = executor.feed(source, source.prepare(merged))
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
            self.bases.append(_Base(self.bound, self.executor))
        while len(self.bases) > 1 and self.bases[1].time + self.horizon <= self.bound:
            self.bases.pop(0)


class _Base:
    """The state at a time, and what has happened since."""

    def __init__(self, time: int, executor: Executor | None) -> None:
        self.time = time
        self.saved: bytes | None = None if executor is None else checkpoint.dump(executor.snapshot())
        self.events: list[pa.Table] = []
        self.outputs: list[pa.Table] = []

    @classmethod
    def from_snapshot(cls, parts: dict[str, Any]) -> _Base:
        """A base that a checkpoint holds."""
        base = cls(parts["time"], None)
        base.saved, base.events, base.outputs = parts["saved"], parts["events"], parts["outputs"]
        return base

    def resume(self, query: Any, sample: pa.Table) -> Executor:
        """An executor in that state."""
        executor = Executor(query)
        require_bound(executor.sources[0], sample)
        if self.saved is not None:
            executor.restore(checkpoint.load(self.saved))
            executor.sources[0].advanced = NEVER  # late events are admitted from here on
        return executor


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
