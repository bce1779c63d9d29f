"""Databases for asyncio: the same calls, awaited; each runs in a thread, so the event loop never waits.

Commits queue up as they do for threads. Cancelling an ``await`` does not undo the call behind it: give a
batch a token, and send it again if its fate is unknown.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pyarrow as pa

from viewlet.backends.base import Granularity
from viewlet.changes import Data
from viewlet.connecting import connect as connect_now
from viewlet.database import Database
from viewlet.kept import OnConflict
from viewlet.stats import Stats


async def connect(target: object = None, **options: Any) -> AsyncDatabase:
    """Open a database; the arguments are those of :func:`viewlet.connect`.

    >>> async def total() -> int:
    ...     async with await connect() as db:
    ...         await db.execute("CREATE TABLE bids (volume BIGINT)")
    ...         await db.execute("CREATE MATERIALIZED VIEW total AS SELECT sum(volume) AS v FROM bids")
    ...         await db.insert("bids", [(200,), (50,)])
    ...         return await db.value("total")
    >>> asyncio.run(total())
    250
    """
    return AsyncDatabase(await asyncio.to_thread(connect_now, target, **options))


class AsyncDatabase:
    """A database whose calls are awaited; ``database`` is the one behind it."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def execute(self, text: str) -> Any:
        """See :meth:`viewlet.Database.execute`."""
        return await asyncio.to_thread(self.database.execute, text)

    async def insert(self, table: str, data: Data, *, on_conflict: OnConflict | None = None) -> int:
        """See :meth:`viewlet.Database.insert`."""
        return await asyncio.to_thread(self.database.insert, table, data, on_conflict=on_conflict)

    async def delete(self, table: str, data: Data) -> int:
        """See :meth:`viewlet.Database.delete`."""
        return await asyncio.to_thread(self.database.delete, table, data)

    async def apply(
        self, batch: Mapping[str, Data], *, trigger: Granularity = "auto", token: str | None = None
    ) -> int:
        """See :meth:`viewlet.Database.apply`."""
        return await asyncio.to_thread(self.database.apply, batch, trigger=trigger, token=token)

    async def sql(self, text: str) -> pa.Table:
        """See :meth:`viewlet.Database.sql`."""
        return await asyncio.to_thread(self.database.sql, text)

    async def rows(self, view: str) -> list[tuple[Any, ...]]:
        """The present rows of a view."""
        return await asyncio.to_thread(lambda: self.database.view(view).rows())

    async def to_arrow(self, view: str) -> pa.Table:
        """The present rows of a view as Arrow."""
        return await asyncio.to_thread(lambda: self.database.view(view).to_arrow())

    async def value(self, view: str) -> Any:
        """The value of a view with one row and one column."""
        return await asyncio.to_thread(lambda: self.database.view(view).value)

    async def explain(self, target: str) -> str:
        """See :meth:`viewlet.Database.explain`."""
        return await asyncio.to_thread(self.database.explain, target)

    async def stats(self) -> Stats:
        """See :meth:`viewlet.Database.stats`."""
        return await asyncio.to_thread(self.database.stats)

    async def subscribe(self, view: str, *, snapshot: bool = False, weights: bool = False) -> Changes:
        """The changes of a view from now on, for ``async for``."""
        changes = Changes(asyncio.get_running_loop())
        handle = await asyncio.to_thread(self.database.view, view)
        changes.subscription = await asyncio.to_thread(
            handle.subscribe, changes.put, snapshot=snapshot, weights=weights
        )
        return changes

    async def checkpoint(self) -> None:
        """See :meth:`viewlet.Database.checkpoint`."""
        await asyncio.to_thread(self.database.checkpoint)

    async def compact(self) -> None:
        """See :meth:`viewlet.Database.compact`."""
        await asyncio.to_thread(self.database.compact)

    async def close(self) -> None:
        """See :meth:`viewlet.Database.close`."""
        await asyncio.to_thread(self.database.close)

    async def __aenter__(self) -> AsyncDatabase:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class Changes(AsyncIterator[pa.Table]):
    """The changes of a view, one Arrow table per commit, until it is closed; they wait, however many."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: asyncio.Queue[pa.Table | None] = asyncio.Queue()
        self.subscription: Any = None

    def put(self, change: pa.Table) -> None:
        """Take a change from the thread of a commit."""
        self._loop.call_soon_threadsafe(self._waiting.put_nowait, change)

    def close(self) -> None:
        """No more changes; those that have come can still be read."""
        self.subscription.close()
        self._loop.call_soon_threadsafe(self._waiting.put_nowait, None)

    async def __anext__(self) -> pa.Table:
        change = await self._waiting.get()
        if change is None:
            raise StopAsyncIteration
        return change
