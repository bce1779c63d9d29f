"""What can be done with a finished query, whatever its form."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import pyarrow as pa

if TYPE_CHECKING:
    from viewlet.signals.clock import Duration
    from viewlet.signals.session import Session

Late: TypeAlias = Literal["error", "drop", "adjust", "revise"]


class Runnable:
    """Run a query: over a whole table, batch by batch, or on Spark. The definition is the same."""

    def run(self, data: Any, *, lateness: Duration | None = None, late: Late = "error") -> pa.Table:
        """The result over all of ``data``: Arrow, pandas, polars, columns by name; or these by source name.

        Rows of one key come in time order; rows of different keys are not ordered. Equal to pushing the data
        in any pieces and flushing.
        """
        from viewlet.signals.session import run

        return run(self, data, lateness, late)

    def start(
        self,
        *,
        lateness: Duration | None = None,
        late: Late = "error",
        horizon: Duration | None = None,
        into: Callable[[pa.Table], Any] | None = None,
    ) -> Session:
        """A running query that takes batches and returns what has become final.

        Without ``lateness`` the events of each key must come in time order. With it, events wait until time
        (the latest event seen) has passed them by ``lateness``, and leave in order; later ones are handled by
        ``late``: an error, dropped, adjusted to the earliest time still open, or, with ``revise``, accepted
        as far back as ``horizon``, the changes of the result being rows with a ``_weight`` of -1 and +1.
        ``into`` is called with each non-empty result, for example to insert it into a table.
        """
        from viewlet.signals.session import Session

        return Session(self, lateness, late, horizon, into)

    def spark(
        self, data: Any, buckets: int = 8, *, lateness: Duration | None = None, late: Late = "error"
    ) -> Any:
        """The result as a Spark DataFrame; ``data`` is a DataFrame, batch or streaming.

        A query with several sources takes batch DataFrames by source name, whose keys have the same types.

        A stream keeps one session for each of ``buckets`` sets of keys. Across micro-batches the events of a
        key must come in time order, or with ``lateness`` no later than that, as for ``start``; time is that
        of the bucket. A batch is sorted, so nothing in it is late.
        """
        from viewlet.signals.spark import run_on_spark

        return run_on_spark(self, data, buckets, lateness, late)

    def explain(self) -> str:
        """The operators, innermost last, one per line."""
        from viewlet.signals.text import describe

        return describe(self.node)  # type: ignore[attr-defined]


def named_inputs(data: Any, names: list[str]) -> Mapping[str, Any]:
    """Data by source name: a mapping of names, or the data of the only source."""
    if isinstance(data, Mapping) and data and set(data) <= set(names):
        return data
    return {names[0]: data}
