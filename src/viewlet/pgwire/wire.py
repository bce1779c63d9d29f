"""The stream of one connection, as messages: sizes are bounded, and a client that leaves is noticed."""

from __future__ import annotations

import asyncio
import ssl
from collections import deque

from viewlet.pgwire.errors import FatalError
from viewlet.pgwire.messages import First, Message, Terminate, read_first, read_message

MAX_FIRST = 10_000
MAX_LOGIN = 10_000
MAX_MESSAGE = 16 << 20
MAX_AHEAD = 16


class Gone(Exception):  # noqa: N818  not an error: clients leave
    """The client has left."""


class Wire:
    """Messages from and to one client."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._ahead: deque[Message] = deque()
        self._reading: asyncio.Task[Message] | None = None
        self.limit = MAX_LOGIN
        self.encrypted = False

    async def first(self) -> First:
        """The first message, which has no letter."""
        size = int.from_bytes(await self._exactly(4), "big")
        if not 8 <= size <= MAX_FIRST:
            raise FatalError("08P01", f"a first message of {size} bytes")
        return read_first(await self._exactly(size - 4))

    async def receive(self) -> Message:
        """The next message."""
        if self._ahead:
            return self._ahead.popleft()
        reading, self._reading = self._reading, None
        return await (reading or self._read())

    async def gone(self) -> None:
        """Come back when the client has left; what it sends meanwhile is kept for :meth:`receive`."""
        while len(self._ahead) < MAX_AHEAD:
            if self._reading is None:
                self._reading = asyncio.create_task(self._read())
            # Not awaited directly: whoever cancels us must not cancel a message that is half read.
            await asyncio.wait({self._reading})
            if self._reading.exception() is not None or isinstance(self._reading.result(), Terminate):
                return
            self._ahead.append(self._reading.result())
            self._reading = None
        await asyncio.Event().wait()  # more than we keep: a client that sends has not left

    async def _read(self) -> Message:
        head = await self._exactly(5)
        size = int.from_bytes(head[1:], "big")
        if not 4 <= size <= self.limit:
            raise FatalError("08P01", f"a message of {size} bytes; at most {self.limit} are taken")
        return read_message(head[:1], await self._exactly(size - 4))

    async def _exactly(self, size: int) -> bytes:
        try:
            return await self._reader.readexactly(size)
        except (asyncio.IncompleteReadError, ConnectionError, ssl.SSLError):
            raise Gone from None

    def write(self, data: bytes) -> None:
        """Send, some time."""
        self._writer.write(data)

    async def drain(self) -> None:
        """Wait until the client takes what was written."""
        try:
            await self._writer.drain()
        except (ConnectionError, ssl.SSLError):
            raise Gone from None

    async def encrypt(self, context: ssl.SSLContext) -> None:
        """Agree to TLS."""
        # What came in clear behind the request would pass for encrypted, whoever on the way has added it.
        if len(getattr(self._reader, "_buffer", b"")):
            raise FatalError("08P01", "data in clear follows the request to encrypt")
        self.write(b"S")
        await self.drain()
        try:
            await self._writer.start_tls(context)
        except (ConnectionError, ssl.SSLError):
            raise Gone from None
        self.encrypted = True

    async def close(self) -> None:
        """Hang up."""
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait({self._reading})
        self._writer.close()
        try:
            async with asyncio.timeout(1):
                await self._writer.wait_closed()
        except (OSError, TimeoutError, ssl.SSLError):
            self._writer.transport.abort()
