"""What the console answers: a page, JSON about the database, a live feed, metrics, and probes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Mount, Route, WebSocketRoute
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp
from starlette.websockets import WebSocket, WebSocketDisconnect

from viewlet.database import Database
from viewlet.errors import ViewletError
from viewlet.server.access import Access
from viewlet.server.feed import Feed
from viewlet.server.graph import graph_of
from viewlet.server.meter import STARTING, Meter
from viewlet.server.metrics import CONTENT_TYPE, prometheus
from viewlet.server.pages import MOST_ROWS, Pages
from viewlet.sql.catalog import TableKind

STATIC = Path(__file__).parent / "static"
MOST_BYTES = 64 << 10  # of a request
PACE = 0.1  # seconds between two messages to a page, at least


class Api:
    """The answers about one database."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._meter = Meter(database)
        self._pages = Pages(database)
        self._clients = 0

    def app(self, token: str | None) -> ASGIApp:
        """The whole application, behind its access check."""
        routes = [
            Route("/", self.index),
            Route("/health", self.health),
            Route("/ready", self.ready),
            Route("/metrics", self.metrics),
            Route("/api/overview", self.overview),
            Route("/api/graph", self.graph),
            Route("/api/explain", self.explain, methods=["POST"]),
            Route("/api/relations/{name}/rows", self.rows),
            Route("/api/views/{name}/explain", self.explain_view),
            WebSocketRoute("/api/live", self.live),
            Mount("/static", StaticFiles(directory=STATIC)),
        ]
        return Access(Starlette(routes=routes, lifespan=self._lifespan), token)

    @asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncIterator[None]:
        measuring = asyncio.create_task(self._meter.run())
        try:
            yield
        finally:
            measuring.cancel()

    async def index(self, _: Request) -> Response:
        """The page."""
        return FileResponse(STATIC / "index.html")

    async def health(self, _: Request) -> Response:
        """Yes, for as long as the process answers at all."""
        return PlainTextResponse("ok\n")

    async def ready(self, _: Request) -> Response:
        """Yes, if the database could be read when it was last tried."""
        if self._meter.failure is None:
            return PlainTextResponse("ready\n")
        return PlainTextResponse("not ready\n", status_code=503)

    async def metrics(self, _: Request) -> Response:
        """What Prometheus reads."""
        sample = self._meter.last if self._meter.failure is None else None
        return Response(prometheus(sample, self._clients), media_type=CONTENT_TYPE)

    async def overview(self, _: Request) -> Response:
        """Every table and view with its columns, sizes and rates."""
        return JSONResponse(self._overview())

    def _overview(self) -> dict[str, Any]:
        sample, rates = self._meter.last, self._meter.rates()
        stats = sample.stats if sample else None
        relations = list(self._database.catalog.values())
        return {
            "type": "overview",
            "version": self._database.version,
            "failure": self._meter.failure,
            "starting": self._meter.failure is STARTING,
            "commit_rate": rates.commits,
            "busy": rates.busy,
            "tables": [
                {
                    "name": table.name,
                    "kind": table.kind.value.lower(),
                    "columns": list(map(str, table.columns)),
                    "rows": stats.tables.get(table.name) if stats else None,
                }
                for table in relations
                if table.kind is not TableKind.VIEW
            ],
            "views": [
                {
                    "name": view.name,
                    "columns": list(map(str, view.columns)),
                    "rows": stats.views.get(view.name) if stats else None,
                    "refreshes": stats.refreshes.get(view.name) if stats else None,
                    "rate": rates.refreshes.get(view.name, 0.0),
                    "bytes": sample.view_bytes.get(view.name) if sample else None,
                }
                for view in relations
                if view.kind is TableKind.VIEW
            ],
            "maps": [asdict(size) for size in stats.maps] if stats else [],
        }

    async def graph(self, _: Request) -> Response:
        """The trigger programs as nodes and edges."""

        def draw() -> dict[str, Any]:
            sizes = self._meter.last.stats.maps if self._meter.last else ()
            return asdict(graph_of(self._database, sizes))

        return await _answer(lambda: asyncio.to_thread(draw))

    async def rows(self, request: Request) -> Response:
        """A page of a view or table: ``?offset=`` and ``?limit=``."""
        try:
            offset = int(request.query_params.get("offset", 0))
            limit = int(request.query_params.get("limit", 50))
        except ValueError:
            return _bad("offset and limit are numbers")
        if not (0 <= offset < 1 << 62 and 0 <= limit <= MOST_ROWS):
            return _bad(f"offset is not negative, limit is 0 to {MOST_ROWS}")
        return await _answer(lambda: self._pages.page(request.path_params["name"], offset, limit))

    async def explain_view(self, request: Request) -> Response:
        """How a view is kept fresh."""
        return await self._explained(lambda: self._database.view(request.path_params["name"]).name)

    async def explain(self, request: Request) -> Response:
        """How a query would be kept fresh: ``{"sql": ...}``."""
        body = b""
        async for piece in request.stream():
            body += piece
            if len(body) > MOST_BYTES:
                return _bad(f"more than {MOST_BYTES} bytes", 413)
        try:
            sql = json.loads(body)["sql"]
        except (ValueError, KeyError, TypeError, RecursionError):
            sql = None
        if not isinstance(sql, str) or not sql.strip():
            return _bad('send {"sql": "SELECT ..."}')
        return await self._explained(lambda: sql.strip().rstrip(";"))

    async def _explained(self, target: Callable[[], str]) -> Response:
        async def work() -> dict[str, Any]:
            return {"text": await asyncio.to_thread(lambda: self._database.explain(target()))}

        return await _answer(work)

    async def live(self, socket: WebSocket) -> None:
        """The feed of one page: overviews as they are measured, changes of the views it watches."""
        await socket.accept()
        feed = Feed(self._database, asyncio.get_running_loop())
        self._clients += 1
        acknowledged = asyncio.Event()
        tasks = [
            asyncio.create_task(self._listen(socket, feed, acknowledged)),
            asyncio.create_task(self._tell(socket, feed, acknowledged)),
        ]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._clients -= 1
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await asyncio.to_thread(feed.close)

    async def _listen(self, socket: WebSocket, feed: Feed, acknowledged: asyncio.Event) -> None:
        try:
            while True:
                match json.loads(await socket.receive_text()):
                    case {"watch": [*names]} if all(isinstance(name, str) for name in names):
                        await asyncio.to_thread(feed.watch, names)
                    case {"ack": _}:
                        acknowledged.set()
                    case _:
                        break
        except (WebSocketDisconnect, ValueError, KeyError, RecursionError):
            return
        await socket.close(1003, "not understood")

    async def _tell(self, socket: WebSocket, feed: Feed, acknowledged: asyncio.Event) -> None:
        changes = asyncio.create_task(feed.arrived())
        measured = asyncio.create_task(self._meter.wait())
        messages = [self._overview()]
        try:
            while True:
                acknowledged.clear()
                await socket.send_text(json.dumps(messages))
                await asyncio.sleep(PACE)
                await acknowledged.wait()
                await asyncio.wait([changes, measured], return_when=asyncio.FIRST_COMPLETED)
                messages = []
                if measured.done():
                    measured = asyncio.create_task(self._meter.wait())
                    messages.append(self._overview())
                if changes.done():
                    messages += feed.take()
                    changes = asyncio.create_task(feed.arrived())
        except WebSocketDisconnect:
            return
        finally:
            changes.cancel()
            measured.cancel()


async def _answer(work: Callable[[], Awaitable[dict[str, Any]]]) -> Response:
    try:
        return JSONResponse(await work())
    except ViewletError as reason:
        return _bad(str(reason))


def _bad(reason: str, status: int = 400) -> Response:
    return JSONResponse({"error": reason}, status_code=status)
