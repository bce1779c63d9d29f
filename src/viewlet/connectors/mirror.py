"""Keeping a copy of a view in a sink, behind the commits but never holding them up.

The copy begins with a reconciliation: the sink is given all rows and makes its target hold exactly these,
whatever it held before. So it does not matter how the last run ended. From then on it is given changes; what
commits while it writes is added up for its next step. If more piles up than ``most_waiting`` rows, the pile
is dropped and the sink is reconciled again.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import pyarrow as pa

from viewlet.changes import CHANGE_TYPE, COMMIT_VERSION
from viewlet.connectors.base import Sink
from viewlet.database import Database
from viewlet.subscriptions import Subscription


class Mirror:
    """A view on its way to a sink; made by :func:`mirror`."""

    def __init__(self, database: Database, view: str, sink: Sink, most_waiting: int) -> None:
        self._database, self._view, self._sink = database, view, sink
        self._most_waiting = most_waiting
        self._changed = threading.Condition()
        self._waiting: list[pa.Table] = []
        self._rows_waiting = 0
        self._is_first = True
        self._beginnings = 0
        self._overrun = False
        self._busy = False
        self._leave = False
        self._failure: BaseException | None = None
        self._subscription = self._subscribe()
        self._thread = threading.Thread(target=self._run, name=f"viewlet mirror of {view}", daemon=True)
        self._thread.start()

    def flush(self) -> None:
        """Wait until everything that was committed before is in the target; raises what the sink raised."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._failure or not (self._waiting or self._busy or self._overrun)
            )
            if self._failure:
                raise self._failure

    def close(self) -> None:
        """Write what waits, and end."""
        self._subscription.close()
        with self._changed:
            self._leave = True
            self._changed.notify_all()
        self._thread.join()
        self._sink.close()
        if self._failure:
            raise self._failure

    def _subscribe(self) -> Subscription:
        """From now on: all rows, then changes."""
        with self._changed:
            self._is_first, self._overrun = True, False
            self._beginnings += 1
            news = partial(self._put, self._beginnings)
        return self._database.view(self._view).subscribe(news, snapshot=True)

    def _put(self, beginning: int, change: pa.Table) -> None:
        """Take a change from the thread of a commit; a subscription from before an overrun may be late."""
        with self._changed:
            if self._failure or self._overrun or beginning != self._beginnings:
                return
            self._rows_waiting += change.num_rows
            if self._rows_waiting > self._most_waiting and self._waiting:
                self._overrun, self._waiting, self._rows_waiting = True, [], 0
            else:
                self._waiting.append(change)
            self._changed.notify_all()

    def _run(self) -> None:
        try:
            while self._step():
                pass
        except BaseException as failure:
            with self._changed:
                self._failure = failure
                self._waiting = []
                self._changed.notify_all()

    def _step(self) -> bool:
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._overrun or self._leave)
            if not self._waiting and not self._overrun:
                return False
            self._busy = True
            overrun, taken, first = self._overrun, self._waiting, self._is_first
            self._waiting, self._rows_waiting = [], 0
        if overrun:
            self._subscription.close()
            self._subscription = self._subscribe()
        else:
            self._write(taken, first)
        with self._changed:
            self._busy = False
            self._changed.notify_all()
        return True

    def _write(self, taken: list[pa.Table], first: bool) -> None:
        if first:
            rows = taken.pop(0)
            self._is_first = False
            version = rows[COMMIT_VERSION][0].as_py() if rows.num_rows else self._database.version
            self._sink.replace(rows.drop_columns([CHANGE_TYPE, COMMIT_VERSION]), version)
        if taken:
            version = taken[-1][COMMIT_VERSION][-1].as_py()
            self._sink.write(pa.concat_tables(taken).drop_columns([COMMIT_VERSION]), version)


@contextmanager
def mirror(database: Database, view: str, sink: Sink, *, most_waiting: int = 1_000_000) -> Iterator[Mirror]:
    """Keep the target of a sink equal to a view while the ``with`` lasts.

    At its end everything that was committed before is written; a failure of the sink is raised there, or by
    :meth:`Mirror.flush`.
    """
    running = Mirror(database, view, sink, most_waiting)
    try:
        yield running
    finally:
        running.close()
