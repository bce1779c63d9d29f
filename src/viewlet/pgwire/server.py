"""The server: listens, lets clients in up to a number, and passes on their cancel requests."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import secrets
import ssl
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count
from typing import Any

from viewlet.database import Database
from viewlet.errors import BackendError, system_reason
from viewlet.pgwire import messages
from viewlet.pgwire.answers import Serving
from viewlet.pgwire.errors import FatalError, WireError
from viewlet.pgwire.login import Access, begin
from viewlet.pgwire.messages import CancelRequest
from viewlet.pgwire.reading import Copies, open_duckdb
from viewlet.pgwire.scram import verifier
from viewlet.pgwire.session import Session
from viewlet.pgwire.wire import Gone, Wire

DEFAULT_PORT = 5433
LOGIN_SECONDS = 15.0
THREADS = 8

_LOG = logging.getLogger(__name__)


async def start(
    database: Database,
    host: str = "127.0.0.1",
    port: int = DEFAULT_PORT,
    *,
    users: Mapping[str, str] | None = None,
    tls: ssl.SSLContext | None = None,
    max_connections: int = 100,
    name: str = "viewlet",
) -> PgServer:
    """Serve the tables and views of a database to PostgreSQL's clients, for reading.

    ``users`` are passwords by name (SCRAM-SHA-256); without them everybody is let in, which is refused unless
    ``host`` is this machine. With ``tls`` connections must be encrypted. A port of 0 is any free one.

    >>> import viewlet
    >>> async def served() -> bool:
    ...     async with await start(viewlet.connect(), port=0) as server:
    ...         return server.port > 0
    >>> asyncio.run(served())
    True
    """
    if users is None and not _is_local(host):
        raise BackendError(f"on {host!r} others can connect: give users with passwords, or use 127.0.0.1")
    keys = None if users is None else {user: verifier(password) for user, password in users.items()}
    server = PgServer(database, Access(keys, tls), max_connections, name)
    try:
        await server.listen(host, port)
    except (OSError, OverflowError) as reason:
        await server.close()
        raise BackendError(
            f"cannot listen at {host} port {port} for PostgreSQL's protocol: {system_reason(reason)}"
        ) from None
    return server


@contextmanager
def in_background(
    database: Database, host: str = "127.0.0.1", port: int = DEFAULT_PORT, **options: Any
) -> Iterator[PgServer]:
    """Serve from a thread of its own while the context lasts; the options are those of :func:`start`."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="viewlet-pgwire", daemon=True)
    thread.start()
    try:
        server = asyncio.run_coroutine_threadsafe(start(database, host, port, **options), loop).result()
        try:
            yield server
        finally:
            asyncio.run_coroutine_threadsafe(server.close(), loop).result()
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def _is_local(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class PgServer:
    """A server that listens; closing it ends every connection."""

    def __init__(self, database: Database, access: Access, max_connections: int, name: str) -> None:
        self._access = access
        pool = ThreadPoolExecutor(THREADS, "viewlet-pgwire")
        self._serving = Serving(database, Copies(database), open_duckdb(), pool, name)
        self._max = max_connections
        self._sessions: dict[tuple[int, int], Session] = {}
        self._connections: set[asyncio.Task[None]] = set()
        self._numbers = count(1)
        self._server: asyncio.Server | None = None
        self.port = 0

    async def listen(self, host: str, port: int) -> None:
        """Take connections from now on."""
        self._server = await asyncio.start_server(self._connected, host, port)
        self.port = self._server.sockets[0].getsockname()[1]

    @property
    def sessions(self) -> int:
        """How many clients there are."""
        return len(self._sessions)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        wire = Wire(reader, writer)
        try:
            await self._converse(wire)
        except WireError as reason:
            wire.write(messages.error(reason.state, str(reason), "FATAL"))
        except (Gone, TimeoutError):
            pass
        except asyncio.CancelledError:
            wire.write(messages.error("57P01", "the server is closing", "FATAL"))
        except Exception:
            _LOG.exception("a connection failed")
            wire.write(messages.error("XX000", "internal error; see the server's log", "FATAL"))
        finally:
            self._connections.discard(task)
            await wire.close()

    async def _converse(self, wire: Wire) -> None:
        if len(self._connections) > self._max:
            raise FatalError("53300", f"there are {self._max} connections already")
        async with asyncio.timeout(LOGIN_SECONDS):
            first = await begin(wire, self._access)
        if isinstance(first, CancelRequest):
            if session := self._sessions.get((first.process, first.key & 0xFFFFFFFF)):
                session.cancel()
            return
        process, key = next(self._numbers), secrets.randbits(32)
        session = Session(wire, self._serving, first, process)
        self._sessions[process, key] = session
        try:
            await session.serve(key)
        finally:
            del self._sessions[process, key]

    async def close(self) -> None:
        """End every connection and stop listening."""
        if self._server is not None:
            self._server.close()
        for task in list(self._connections):
            task.cancel()
        if self._connections:
            await asyncio.wait(self._connections)
        self._serving.pool.shutdown(wait=False)
        self._serving.engine.close()

    async def serve_forever(self) -> None:
        """Serve until cancelled."""
        assert self._server is not None
        await self._server.serve_forever()

    async def __aenter__(self) -> PgServer:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
