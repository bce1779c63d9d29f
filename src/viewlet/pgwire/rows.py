"""Where rows come from, and how they are written for the wire."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from typing import Any, Protocol, TypeVar

import pyarrow as pa

from viewlet.pgwire import messages
from viewlet.pgwire.errors import WireError
from viewlet.pgwire.messages import Field, data_row, format_of
from viewlet.pgwire.reading import Reading
from viewlet.pgwire.types import modifier, of_arrow
from viewlet.pgwire.wire import Gone
from viewlet.subscriptions import Subscription

MAX_WAITING = 1_000_000
POLL_SECONDS = 0.5

T = TypeVar("T")


class Source(Protocol):
    """Batches of rows, one after the other."""

    schema: pa.Schema

    async def next(self) -> pa.RecordBatch | None:
        """The next rows, ``None`` after the last."""

    async def close(self) -> None:
        """Give up the rest."""


class Fixed:
    """Rows that are there already."""

    def __init__(self, table: pa.Table) -> None:
        self.schema: pa.Schema = table.schema
        self._batches = deque(table.to_batches())

    async def next(self) -> pa.RecordBatch | None:
        """The next rows."""
        return self._batches.popleft() if self._batches else None

    async def close(self) -> None:
        """Nothing to give up."""


async def in_thread(pool: Executor, call: Callable[[], T], interrupt: Callable[[], object]) -> T:
    """Await a call in a thread; if we are cancelled, interrupt it and wait for its end."""
    future = asyncio.get_running_loop().run_in_executor(pool, call)
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        # Repeatedly: an interrupt between two steps of the call would be lost.
        while not future.done():
            interrupt()
            await asyncio.wait({future}, timeout=0.1)
        future.exception()  # expected, and of no more interest
        raise


class Reader:
    """The rows of a query that DuckDB runs in a thread."""

    def __init__(self, reading: Reading, pool: Executor) -> None:
        self.schema = reading.schema
        self._reading, self._pool = reading, pool

    async def next(self) -> pa.RecordBatch | None:
        """The next rows; cancelling interrupts the query."""
        return await in_thread(self._pool, self._reading.next, self._reading.interrupt)

    async def close(self) -> None:
        """Give up the query."""
        await in_thread(self._pool, self._reading.close, lambda: None)


class Feed:
    """The changes of a view as they come; without end, until the client cancels or leaves.

    Changes wait for a slow client up to a bound; beyond it the subscription ends with an error: memory must
    not depend on who reads.
    """

    def __init__(self, gone: Callable[[], Awaitable[None]]) -> None:
        self.schema: pa.Schema = pa.schema([])
        self.subscription: Subscription | None = None
        self._gone = gone
        self._loop = asyncio.get_running_loop()
        self._tables: deque[pa.Table] = deque()
        self._arrived = asyncio.Event()
        self._waiting = 0

    def put(self, change: pa.Table) -> None:
        """Take a change from the thread of a commit."""
        with suppress(RuntimeError):  # the loop is closed: nobody reads any more, the writer need not know
            self._loop.call_soon_threadsafe(self._take, change)

    def _take(self, change: pa.Table) -> None:
        self._waiting += change.num_rows
        if self._waiting > MAX_WAITING:
            self._end()
            self._tables.clear()
        else:
            self._tables.append(change)
        self._arrived.set()

    async def next(self) -> pa.RecordBatch | None:
        """The next changes."""
        gone = asyncio.ensure_future(self._gone())
        try:
            while not self._tables:
                self._refuse_if_over()
                self._arrived.clear()
                arrived = asyncio.ensure_future(self._arrived.wait())
                try:
                    await asyncio.wait({gone, arrived}, timeout=POLL_SECONDS, return_when="FIRST_COMPLETED")
                finally:
                    arrived.cancel()
                if gone.done():
                    raise Gone
        finally:
            gone.cancel()
        table = self._tables.popleft()
        self._waiting -= table.num_rows
        (batch,) = table.combine_chunks().to_batches()
        return batch

    def _refuse_if_over(self) -> None:
        if self._waiting > MAX_WAITING:
            raise WireError("53400", f"more than {MAX_WAITING} changes wait: the client reads too slowly")
        if self.subscription is not None and not self.subscription.active:
            raise WireError("42P01", f"view {self.subscription.view!r} is no longer there")

    def _end(self) -> None:
        if self.subscription is not None:
            self.subscription.close()

    async def close(self) -> None:
        """No more changes."""
        self._end()


class Portal:
    """Rows under way to a client, in the formats that it asked for."""

    def __init__(self, source: Source, formats: Sequence[int] = ()) -> None:
        self._source = source
        self.fields = fields_of(source.schema, formats)
        self._encode = [
            _encoder(field.type, shown.format)
            for field, shown in zip(source.schema, self.fields, strict=True)
        ]
        self._encoded: deque[bytes] = deque()

    async def take(self, limit: int) -> list[bytes]:
        """Up to ``limit`` rows as messages (0: as many as come at once); none after the last."""
        while not self._encoded:
            batch = await self._source.next()
            if batch is None:
                return []
            self._encoded.extend(data_row(cells, len(self.fields)) for cells in self._cells(batch))
        count = min(limit or len(self._encoded), len(self._encoded))
        return [self._encoded.popleft() for _ in range(count)]

    async def lines(self, line: Callable[[Sequence[bytes | None]], bytes]) -> list[bytes]:
        """The next rows as lines of COPY; none after the last."""
        batch = await self._source.next()
        while batch is not None and not batch.num_rows:
            batch = await self._source.next()
        return [] if batch is None else [messages.message(b"d", line(cells)) for cells in self._cells(batch)]

    def _cells(self, batch: pa.RecordBatch) -> Iterable[Sequence[bytes | None]]:
        if not self.fields:
            return [()] * batch.num_rows
        columns = [
            _encoded(column, encode) for column, encode in zip(batch.columns, self._encode, strict=True)
        ]
        return zip(*columns, strict=True)

    async def close(self) -> None:
        """Give up the rest."""
        await self._source.close()


def fields_of(schema: pa.Schema, formats: Sequence[int]) -> list[Field]:
    """How columns are announced."""
    fields = []
    for place, column in enumerate(schema):
        kind = of_arrow(column.type)
        fields.append(
            Field(column.name, kind.oid, kind.size, modifier(column.type), format_of(formats, place))
        )
    return fields


def _encoder(kind: pa.DataType, format: int) -> Callable[[Any], bytes]:
    wire = of_arrow(kind)
    if format:
        return wire.to_binary
    text = wire.to_text
    return lambda value: text(value).encode()


def _encoded(column: pa.Array, encode: Callable[[Any], bytes]) -> list[bytes | None]:
    if column.type == pa.uint64():
        column = column.cast(pa.decimal128(20, 0))
    return [None if value is None else encode(value) for value in column.to_pylist()]
