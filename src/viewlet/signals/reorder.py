"""Events out of order: held back until time has passed them by the lateness, then released in order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from viewlet.signals.chunks import Ints
from viewlet.signals.clock import describe_time, read_times, write_times
from viewlet.signals.errors import OrderError
from viewlet.signals.nodes import Source
from viewlet.signals.specs import NEVER


class Reorder:
    """The lateness buffer of one source.

    Time is the latest start seen so far. An event is late when it starts more than ``lateness`` before the
    latest of the events *before it*, so what is late does not depend on how the input was cut into batches.
    """

    def __init__(self, source: Source, clock: str, lateness: int, late: str) -> None:
        self.source, self.clock, self.lateness, self.late = source, clock, lateness, late
        self.latest = NEVER
        self.held: pa.Table | None = None

    @property
    def bound(self) -> int:
        """No event before this will be released any more."""
        return NEVER if self.latest == NEVER else self.latest - self.lateness

    def take(self, table: pa.Table) -> tuple[pa.Table, pa.Table, dict[str, Any]]:
        """Rows ready in order, rows that were late (for revision), and the state to commit."""
        times = self._times(table)
        before = np.maximum.accumulate(np.concatenate(([self.latest], times)))
        bounds = np.where(before[:-1] == NEVER, NEVER, before[:-1] - self.lateness)
        is_late = times < bounds
        late = table.slice(0, 0)
        if is_late.any():
            table, times, late = self._handled(table, times, bounds, is_late)
        latest = int(before[-1])
        merged = table if self.held is None else pa.concat_tables([self.held, table])
        all_times = times if self.held is None else np.concatenate((self._times(self.held), times))
        ready, held = self._cut(merged, all_times, latest - self.lateness if latest != NEVER else NEVER)
        return ready, late, {"latest": latest, "held": held}

    def commit(self, state: dict[str, Any]) -> None:
        """Accept what ``take`` found."""
        self.latest, self.held = state["latest"], state["held"]

    def advance(self, time: int) -> pa.Table | None:
        """Release rows before ``time``."""
        self.latest = max(self.latest, time + self.lateness)
        if self.held is None:
            return None
        ready, self.held = self._cut(self.held, self._times(self.held), self.bound)
        return ready

    def flush(self) -> pa.Table | None:
        """Release everything."""
        if self.held is None:
            return None
        ready, self.held = self._cut(self.held, self._times(self.held), np.iinfo(np.int64).max)
        return ready

    def _handled(
        self, table: pa.Table, times: Ints, bounds: Ints, is_late: Any
    ) -> tuple[pa.Table, Ints, pa.Table]:
        """Late rows by policy."""
        row = int(np.flatnonzero(is_late)[0])
        if self.late == "error":
            keys = ", ".join(f"{name}={table.column(name)[row].as_py()!r}" for name in self.source.key)
            raise OrderError(
                f"source {self.source.name!r}, {keys or 'event'} at {describe_time(times[row], self.clock)} "
                f"is late: everything before {describe_time(bounds[row], self.clock)} was final; "
                f"allow more lateness, or choose late='drop', 'adjust' or 'revise'"
            )
        if self.late == "adjust":
            times = np.where(is_late, bounds, times)
            name = self.source.time
            column = write_times(times, table.schema.field(name).type, name, self.clock, self.source.unit)
            return (
                table.set_column(table.schema.get_field_index(name), name, column),
                times,
                table.slice(0, 0),
            )
        on_time = pa.array(~is_late)
        return table.filter(on_time), times[~is_late], table.filter(pa.array(is_late))

    def _cut(self, table: pa.Table, times: Ints, bound: int) -> tuple[pa.Table, pa.Table | None]:
        ready = np.flatnonzero(times < bound)
        rest = np.flatnonzero(times >= bound)
        in_order = ready[np.argsort(times[ready], kind="stable")]
        return table.take(pa.array(in_order)), table.take(pa.array(rest)) if len(rest) else None

    def _times(self, table: pa.Table) -> Ints:
        column = table.column(self.source.time).combine_chunks()
        return read_times(column, self.source.time, self.clock, self.source.unit)
