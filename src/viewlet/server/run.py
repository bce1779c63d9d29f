"""Starting the console: inside a running event loop, or in a thread beside a program's own work."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from viewlet.database import Database
from viewlet.errors import ViewletError, system_reason

LONG_ENOUGH = 16


class ServerError(ViewletError):
    """The console cannot be started as asked."""


@dataclass(frozen=True, slots=True)
class Running:
    """A console that answers, at ``url``; ``await stop()`` finishes the requests that run, and ends it."""

    url: str
    stop: Callable[[], Awaitable[None]]


async def start(
    database: Database,
    host: str = "127.0.0.1",
    port: int = 8080,
    *,
    token: str | None = None,
    certificate: Path | None = None,
    key: Path | None = None,
) -> Running:
    """Serve the console of a database from the running event loop; port 0 takes any that is free.

    Anything but this machine is refused without a ``token`` of 16 characters or more. ``certificate`` and
    ``key`` are PEM files, for HTTPS.
    """
    try:
        import uvicorn

        from viewlet.server.api import Api
    except ImportError as missing:
        raise ServerError(f"the console needs {missing.name}: pip install 'viewlet[serve]'") from None
    _refuse_open_doors(host, token)

    class Server(uvicorn.Server):
        """One that leaves signals to its host program."""

        def capture_signals(self) -> nullcontext[None]:  # type: ignore[override]
            return nullcontext()

    listening = _listen(host, port)
    config = uvicorn.Config(
        Api(database).app(token),
        log_level="warning",
        access_log=False,  # addresses carry tokens
        ws="websockets-sansio",
        ws_max_size=64 << 10,
        ws_ping_timeout=60,  # a large commit may keep the interpreter busy
        server_header=False,
        limit_concurrency=256,
        timeout_graceful_shutdown=2,
        ssl_certfile=certificate,
        ssl_keyfile=key,
    )
    server = Server(config)
    task = asyncio.create_task(server.serve(sockets=[listening]))
    while not server.started:
        if task.done():
            listening.close()
            await task
            raise ServerError(f"the console did not start at {host} port {port}")
        await asyncio.sleep(0.01)
    scheme = "https" if certificate else "http"
    shown = f"[{host}]" if ":" in host else host

    async def stop() -> None:
        server.should_exit = True
        await task

    return Running(f"{scheme}://{shown}:{listening.getsockname()[1]}/", stop)


@contextmanager
def background(
    database: Database, host: str = "127.0.0.1", port: int = 0, *, token: str | None = None
) -> Iterator[str]:
    """Serve the console from a thread of its own while the ``with`` lasts; gives its address.

    >>> import urllib.request, viewlet
    >>> with viewlet.connect() as db, background(db) as url:
    ...     urllib.request.urlopen(url + "health").read()
    b'ok\\n'
    """
    started: list[str | BaseException] = []
    ready, leave = threading.Event(), []

    async def main() -> None:
        running = await start(database, host, port, token=token)
        stop = asyncio.Event()
        leave.append((asyncio.get_running_loop(), stop))
        started.append(running.url)
        ready.set()
        await stop.wait()
        await running.stop()

    def body() -> None:
        try:
            asyncio.run(main())
        except BaseException as failure:
            started.append(failure)
            ready.set()

    thread = threading.Thread(target=body, name="viewlet console", daemon=True)
    thread.start()
    ready.wait()
    if isinstance(started[0], BaseException):
        raise started[0]
    try:
        yield started[0]
    finally:
        loop, stop = leave[0]
        loop.call_soon_threadsafe(stop.set)
        thread.join()


def _refuse_open_doors(host: str, token: str | None) -> None:
    if token is not None and len(token) < LONG_ENOUGH:
        raise ServerError(f"the token has {len(token)} characters: give it {LONG_ENOUGH} or more")
    if token is None and not is_this_machine(host):
        raise ServerError(
            f"{host} can be reached from other machines, so a token is needed: give one, "
            "for viewlet serve with --token-file or in VIEWLET_TOKEN"
        )


def is_this_machine(host: str) -> bool:
    """Is it an address that only this machine reaches?

    >>> is_this_machine("localhost"), is_this_machine("::1"), is_this_machine("0.0.0.0")
    (True, True, False)
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _listen(host: str, port: int) -> socket.socket:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        listening = socket.create_server(found[0][4][:2], family=found[0][0])
    except OSError as reason:
        raise ServerError(f"cannot listen at {host} port {port}: {system_reason(reason)}") from None
    listening.setblocking(False)
    return listening
