"""The changes of views on their way to one page, which sets the pace.

Commits are faster than pages. Between two messages all changes of a view are added up into counts and the
last :data:`SHOWN` rows, so what waits for a slow page is bounded, and no commit ever waits for it. The next
message is sent when the page has acknowledged the one before.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from viewlet.changes import CHANGE_TYPE, COMMIT_VERSION
from viewlet.database import Database
from viewlet.errors import ViewletError
from viewlet.server.pages import Json, json_rows
from viewlet.subscriptions import Subscription

SHOWN = 50
UNREAD = 10_000
MOST_VIEWS = 16


@dataclass(slots=True)
class Coalesced:
    """What has happened to a view since the page was told last.

    A commit only leaves its change here; they are read when the page is told, or when :data:`UNREAD` rows
    have come together.
    """

    view: str
    commits: int = 0
    inserts: int = 0
    deletes: int = 0
    version: int = 0
    since: float = field(default_factory=time.monotonic)
    columns: list[str] = field(default_factory=list)
    latest: deque[tuple[str, list[Json]]] = field(default_factory=lambda: deque(maxlen=SHOWN))
    _unread: list[pa.Table] = field(default_factory=list)
    _rows_unread: int = 0

    def add(self, change: pa.Table) -> None:
        """Take over the change of one commit.

        >>> coalesced = Coalesced("v")
        >>> words = {"_change_type": ["delete", "insert"], "_commit_version": [7, 7]}
        >>> coalesced.add(pa.table({"a": [1, 2], **words}))
        >>> message = coalesced.message()
        >>> message["inserts"], message["deletes"], message["latest"]
        (1, 1, [['-', 1], ['+', 2]])
        """
        self._unread.append(change)
        self._rows_unread += change.num_rows
        if self._rows_unread > UNREAD:
            self._read()

    def _read(self) -> None:
        """Count what is unread, and keep its end."""
        if not self._unread:
            return
        changes = pa.concat_tables(self._unread)
        self.commits += len(self._unread)
        self._unread, self._rows_unread = [], 0
        inserted = pc.sum(pc.equal(changes[CHANGE_TYPE], "insert")).as_py()
        self.inserts += inserted
        self.deletes += changes.num_rows - inserted
        self.version = changes[COMMIT_VERSION][-1].as_py()
        tail = changes.slice(max(0, changes.num_rows - SHOWN))
        signs = ["+" if word == "insert" else "-" for word in tail[CHANGE_TYPE].to_pylist()]
        rows = tail.drop_columns([CHANGE_TYPE, COMMIT_VERSION])
        self.columns = rows.column_names
        self.latest.extend(zip(signs, json_rows(rows), strict=True))

    def message(self) -> dict[str, Any]:
        """The change as the page is told, with how long its oldest part has waited."""
        self._read()
        return {
            "type": "changes",
            "view": self.view,
            "commits": self.commits,
            "inserts": self.inserts,
            "deletes": self.deletes,
            "version": self.version,
            "columns": self.columns,
            "latest": [[sign, *row] for sign, row in self.latest],
            "lag_ms": round((time.monotonic() - self.since) * 1000, 1),
        }


class Feed:
    """The subscriptions of one page. Commits add from their threads, the page's task takes."""

    def __init__(self, database: Database, loop: asyncio.AbstractEventLoop) -> None:
        self._database, self._loop = database, loop
        self._subscriptions: dict[str, Subscription] = {}
        self._waiting: dict[str, Coalesced] = {}
        self._watching: dict[str, Any] | None = None
        self._lock = threading.Lock()
        self._arrived = asyncio.Event()
        self._is_awake = False

    def watch(self, views: Iterable[str]) -> None:
        """Listen to exactly these views, as far as there are such; the page is told which."""
        wanted = set(list(views)[:MOST_VIEWS])
        for name in self._subscriptions.keys() - wanted:
            self._subscriptions.pop(name).close()
        for name in sorted(wanted - self._subscriptions.keys()):
            try:
                view = self._database.view(name)
            except ViewletError:
                continue  # dropped since the page was told about it
            self._subscriptions[name] = view.subscribe(partial(self._put, view.name))
        with self._lock:
            self._watching = {"type": "watching", "views": sorted(self._subscriptions)}
        self._wake()

    def _put(self, view: str, change: pa.Table) -> None:
        with self._lock:
            self._waiting.setdefault(view, Coalesced(view)).add(change)
        self._wake()

    def _wake(self) -> None:
        if self._is_awake:  # one call is enough until the page takes what there is
            return
        self._is_awake = True
        with suppress(RuntimeError):  # the server has just stopped: that must not fail the commit
            self._loop.call_soon_threadsafe(self._arrived.set)

    async def arrived(self) -> None:
        """Wait until there is something to take."""
        await self._arrived.wait()

    def take(self) -> list[dict[str, Any]]:
        """What is watched, if that is new; then the changes that have come, one message per view."""
        self._arrived.clear()
        self._is_awake = False
        with self._lock:
            watching, self._watching = self._watching, None
            waiting, self._waiting = self._waiting, {}
        return [*([watching] if watching else []), *(coalesced.message() for coalesced in waiting.values())]

    def close(self) -> None:
        """Listen to nothing any more."""
        for subscription in self._subscriptions.values():
            subscription.close()
        self._subscriptions.clear()
