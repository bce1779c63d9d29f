"""The live feed: everything is counted, little is sent, and a slow page holds up nobody."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

import viewlet
from viewlet.server import background
from viewlet.server.feed import SHOWN

pytest.importorskip("uvicorn")
client = pytest.importorskip("websockets.sync.client")


@pytest.fixture
def database() -> Iterator[viewlet.Database]:
    with viewlet.connect(backend="reference") as db:
        db.execute("CREATE TABLE r (a BIGINT, b VARCHAR)")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT a, count(*) AS n FROM r GROUP BY a")
        yield db


@pytest.fixture
def url(database: viewlet.Database) -> Iterator[str]:
    with background(database) as address:
        yield address.replace("http", "ws") + "api/live"


class Page:
    """What the console's script does: acknowledge, and keep what came."""

    def __init__(self, url: str, views: list[str]) -> None:
        self._open = ExitStack()
        self.socket = self._open.enter_context(client.connect(url))
        self._views = views
        self.changes: list[dict[str, Any]] = []
        self.overviews: list[dict[str, Any]] = []
        self.watching: list[str] | None = None

    def receive(self) -> None:
        self.take()
        self.answer()

    def answer(self) -> None:
        self.socket.send(json.dumps({"ack": 1}))

    def take(self, seconds: float = 20) -> None:
        """Keep what came, and do not answer."""
        for message in json.loads(self.socket.recv(timeout=seconds)):
            match message["type"]:
                case "changes":
                    self.changes.append(message)
                case "overview":
                    self.overviews.append(message)
                case "watching":
                    self.watching = message["views"]

    def receive_until(self, version: int) -> None:
        while not any(change["version"] >= version for change in self.changes):
            self.receive()

    def watch(self, views: list[str]) -> None:
        """Ask for views, and wait until they are watched."""
        self.socket.send(json.dumps({"watch": views}))
        self.watching = None
        while self.watching is None:
            self.receive()

    def __enter__(self) -> Page:
        self.watch(self._views)
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()


def test_every_change_is_counted_once(database: viewlet.Database, url: str) -> None:
    with Page(url, ["v"]) as page:
        for i in range(300):
            version = database.insert("r", [(i % 40, "x")])
        page.receive_until(version)
    assert sum(change["commits"] for change in page.changes) == 300
    assert sum(change["inserts"] for change in page.changes) == 300
    assert sum(change["deletes"] for change in page.changes) == 260
    assert len(page.changes) < 100, "changes are added up on their way"
    assert page.changes[-1]["latest"][-1] == ["+", 299 % 40, 8]
    assert page.changes[-1]["columns"] == ["a", "n"]


def test_a_large_change_is_counted_whole_and_shown_in_part(database: viewlet.Database, url: str) -> None:
    with Page(url, ["v"]) as page:
        version = database.insert("r", [(i, "x") for i in range(20_000)])
        page.receive_until(version)
    (change,) = page.changes
    assert (change["inserts"], change["deletes"]) == (20_000, 0)
    assert len(change["latest"]) == SHOWN
    assert change["latest"][-1] == ["+", 19_999, 1]


def test_a_page_that_does_not_answer_is_told_no_more_and_holds_up_nobody(
    database: viewlet.Database, url: str
) -> None:
    with Page(url, ["v"]) as page:
        page.receive_until(database.insert("r", [(0, "x")]))
        page.changes.clear()
        page.take()  # an overview, which the page leaves unanswered
        for i in range(500):  # each returns, though nobody takes the news
            database.insert("r", [(i % 10, "x")])
        with pytest.raises(TimeoutError):
            page.take(1.2)
        page.answer()
        page.receive_until(501)
    assert sum(change["commits"] for change in page.changes) == 500
    assert len(page.changes) == 1
    assert page.changes[0]["lag_ms"] > 1000


def test_a_page_watches_what_it_asks_for(database: viewlet.Database, url: str) -> None:
    database.execute("CREATE MATERIALIZED VIEW w AS SELECT count(*) AS n FROM r")
    with Page(url, ["w", "nowhere"]) as page:
        assert page.watching == ["w"]
        page.receive_until(database.insert("r", [(1, "x")]))
        assert {change["view"] for change in page.changes} == {"w"}
        page.watch(["v"])
        page.receive_until(database.insert("r", [(1, "x")]))
        assert page.changes[-1]["view"] == "v"


def test_the_overview_comes_by_itself(database: viewlet.Database, url: str) -> None:
    with Page(url, []) as page:
        database.insert("r", [(1, "x")])
        while page.overviews[-1]["views"][0]["rows"] != 1:
            page.receive()
    assert page.changes == []


HOSTILE = ["", "{", "[]", '{"watch": "v"}', '{"watch": [1]}', "[" * 20_000, '"x"', "NaN"]


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_what_is_not_understood_ends_the_connection(database: viewlet.Database, url: str, text: str) -> None:
    from websockets.exceptions import ConnectionClosed

    with client.connect(url) as socket:
        socket.send(text)
        with pytest.raises(ConnectionClosed):  # after the overview that is on its way
            [socket.recv(timeout=20) for _ in range(3)]
    with Page(url, ["v"]) as page:
        page.receive_until(database.insert("r", [(1, "x")]))


def test_a_page_that_leaves_ends_its_subscriptions(database: viewlet.Database, url: str) -> None:
    with Page(url, ["v"]):
        assert database._subscriptions.watched() == {"v"}
    end = time.monotonic() + 60
    while database._subscriptions.watched():
        assert time.monotonic() < end
        time.sleep(0.05)
