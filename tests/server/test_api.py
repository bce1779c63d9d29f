"""What the console says agrees with the database; hostile requests are refused."""

from __future__ import annotations

import json
import re
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pytest

import viewlet
from viewlet.calculus.nodes import Query
from viewlet.server import background, graph
from viewlet.server.graph import graph_of, view_bytes
from viewlet.server.meter import Meter
from viewlet.triggers.work import Access, accesses

pytest.importorskip("uvicorn")

SCHEMA = """
CREATE TABLE bids (price BIGINT, volume BIGINT, broker VARCHAR);
CREATE STREAM ticks (price BIGINT);
CREATE MATERIALIZED VIEW by_broker AS SELECT broker, sum(volume) AS volume FROM bids GROUP BY broker;
CREATE MATERIALIZED VIEW best AS SELECT max(volume) AS volume FROM by_broker;
CREATE MATERIALIZED VIEW levels REFRESH FULL AS
  SELECT price, count(*) AS n FROM bids GROUP BY price ORDER BY price DESC;
"""


@pytest.fixture(scope="module")
def database() -> Iterator[viewlet.Database]:
    with viewlet.connect(backend="reference") as db:
        db.execute(SCHEMA)
        db.insert("bids", [(9_000 + i % 600, i, f"b{i % 7}") for i in range(2_000)])
        yield db


@pytest.fixture(scope="module")
def url(database: viewlet.Database) -> Iterator[str]:
    with background(database) as address:
        wait_until(lambda: get(address, "ready")[0] == 200)
        yield address


def get(url: str, path: str, data: bytes | None = None) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url + path, data, timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code, refused.read().decode()


def get_json(url: str, path: str, body: object = None) -> Any:
    status, text = get(url, path, None if body is None else json.dumps(body).encode())
    assert status == 200, text
    return json.loads(text)


def wait_until(condition: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)


def test_the_overview_agrees_with_the_database(database: viewlet.Database, url: str) -> None:
    version = database.insert("bids", [(1, 1, "new")])
    wait_until(lambda: get_json(url, "api/overview")["tables"][0]["rows"] == 2_001)
    overview = get_json(url, "api/overview")
    assert overview["version"] == version
    assert [view["name"] for view in overview["views"]] == ["by_broker", "best", "levels"]
    assert [view["rows"] for view in overview["views"]] == [8, 1, 601]
    assert {table["name"]: table["kind"] for table in overview["tables"]} == {
        "bids": "table",
        "ticks": "stream",
    }
    database.delete("bids", [(1, 1, "new")])


def test_pages_of_a_view_together_are_the_view(database: viewlet.Database, url: str) -> None:
    rows: list[tuple[object, ...]] = []
    while len(rows) < 600:
        page = get_json(url, f"api/relations/levels/rows?offset={len(rows)}&limit=251")
        assert (page["total"], page["behind"]) == (600, 0)
        rows += map(tuple, page["rows"])
    assert rows == database.view("levels").rows()
    assert get_json(url, "api/relations/levels/rows?offset=600")["rows"] == []


def test_tables_have_pages_too(database: viewlet.Database, url: str) -> None:
    page = get_json(url, "api/relations/bids/rows?offset=1990&limit=100")
    assert [tuple(row) for row in page["rows"]] == database.table("bids").rows()[1990:]


def test_a_page_follows_the_database(database: viewlet.Database, url: str) -> None:
    before = database.view("best").value
    assert get_json(url, "api/relations/best/rows")["rows"] == [[before]]
    database.insert("bids", [(1, 1_000_000, "whale")])
    wait_until(lambda: get_json(url, "api/relations/best/rows")["rows"] == [[1_000_000]])
    database.delete("bids", [(1, 1_000_000, "whale")])
    wait_until(lambda: get_json(url, "api/relations/best/rows")["rows"] == [[before]])


def measured(url: str, rows: int) -> None:
    """Wait until the console has counted the rows of ``by_broker``."""
    wait_until(lambda: get_json(url, "api/overview")["views"][0]["rows"] == rows)


def test_the_graph_leads_from_tables_through_maps_to_views(url: str) -> None:
    measured(url, 7)
    drawn = get_json(url, "api/graph")
    kinds = {node["id"]: node["kind"] for node in drawn["nodes"]}
    followers: dict[str, set[str]] = {}
    for start, end in drawn["edges"]:
        assert (kinds[start], kinds[end]) != ("table", "view") or end == "relation:levels"
        followers.setdefault(start, set()).add(end)
    reached, front = {"relation:bids"}, {"relation:bids"}
    while front:
        front = {end for start in front for end in followers.get(start, ())} - reached
        reached |= front
    assert {"relation:by_broker", "relation:best", "relation:levels"} <= reached
    assert "relation:ticks" not in reached
    kept = [node for node in drawn["nodes"] if node["kind"] == "map" and node["name"] == "by_broker"]
    assert len(kept) == 1
    assert kept[0]["indexes"] == ["unique (broker)"]
    assert kept[0]["records"] == 7
    assert {step["table"] for step in kept[0]["steps"]} == {"bids"}
    assert all(step["order"] == "O(1)" for step in kept[0]["steps"])


def test_explain_of_pasted_text_is_the_databases_own(database: viewlet.Database, url: str) -> None:
    sql = "SELECT broker, count(*) AS n FROM bids GROUP BY broker"
    assert get_json(url, "api/explain", {"sql": sql + " ;"})["text"] == database.explain(sql)
    assert get_json(url, "api/views/best/explain")["text"] == database.explain("best")
    assert get_json(url, "api/explain", {"sql": "best"})["text"] == database.explain("best")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{}",
        b"null",
        b'{"sql": 1}',
        b'{"sql": "  "}',
        b"\xff",
        b"[" * 5000,
        b'{"sql": "SELECT nothing FROM nowhere"}',
        b'{"sql": "DROP TABLE bids"}',
        b'{"sql": "SELECT * FROM read_csv(\'/etc/passwd\')"}',
        b'{"sql": "' + b"(" * 3000 + b'"}',
    ],
    ids=range(12),
)
def test_hostile_explanations_are_refused_with_a_reason(
    database: viewlet.Database, url: str, body: bytes
) -> None:
    status, text = get(url, "api/explain", body)
    assert status == 400
    assert json.loads(text)["error"]
    assert "bids" in database.catalog


def test_requests_have_a_largest_size(url: str) -> None:
    assert get(url, "api/explain", b'{"sql": "' + b" " * 70_000)[0] == 413


@pytest.mark.parametrize(
    "path",
    [
        "api/relations/nowhere/rows",
        "api/relations/ticks/rows",
        "api/views/bids/explain",
        "api/relations/levels/rows?offset=-1",
        "api/relations/levels/rows?limit=501",
        "api/relations/levels/rows?limit=many",
        f"api/relations/levels/rows?offset={10**40}",
        "api/views/nowhere/explain",
        "api/views/" + quote("'; DROP TABLE bids; --", safe="") + "/explain",
    ],
)
def test_wrong_names_and_numbers_are_refused(url: str, path: str) -> None:
    status, text = get(url, path)
    assert status == 400
    assert json.loads(text)["error"]


LINE = re.compile(r'viewlet_\w+(\{\w+="(\\.|[^"\\\n])*"\})? -?[0-9.e+-]+')


def test_metrics_follow_the_exposition_format(database: viewlet.Database, url: str) -> None:
    measured(url, 7)
    _, text = get(url, "metrics")
    families: dict[str, str] = {}
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split()
            assert name not in families
            families[name] = kind
        elif not line.startswith("# HELP "):
            assert LINE.fullmatch(line), line
            assert line.partition(" ")[0].partition("{")[0] in families
    assert all(name.endswith("_total") == (kind == "counter") for name, kind in families.items())
    assert 'viewlet_view_rows{view="by_broker"} 7' in text
    assert "viewlet_up 1" in text


def test_until_the_first_measurement_the_console_is_starting(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled, real = threading.Event(), Meter.measure
    monkeypatch.setattr(Meter, "measure", lambda meter: compiled.wait(10) and real(meter))
    with viewlet.connect(backend="reference") as db, background(db) as url:
        before = get_json(url, "api/overview")
        assert (before["starting"], before["failure"]) == (True, "starting: views are being compiled")
        assert get(url, "ready")[0] == 503
        compiled.set()
        wait_until(lambda: get(url, "ready")[0] == 200)
        after = get_json(url, "api/overview")
        assert (after["starting"], after["failure"]) == (False, None)


def test_a_closed_database_is_alive_but_not_ready() -> None:
    db = viewlet.connect(backend="reference")
    with background(db) as url:
        wait_until(lambda: get(url, "ready")[0] == 200)
        db.close()
        wait_until(lambda: get(url, "ready")[0] == 503)
        assert get(url, "health")[0] == 200
        assert "viewlet_up 0" in get(url, "metrics")[1]
        assert not get_json(url, "api/overview")["starting"]
        assert get(url, "api/graph")[0] == 400


def test_a_statement_is_looked_at_as_often_as_it_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not once for every record: the graph of a database with many views would take half a minute."""
    asked: Counter[str] = Counter()

    def counted(query: Query, *rest: Any) -> list[Access]:
        asked[str(query)] += 1
        return accesses(query, *rest)

    monkeypatch.setattr(graph, "accesses", counted)
    with viewlet.connect(backend="reference") as db:
        db.execute("CREATE TABLE r (a BIGINT, b BIGINT)")
        for number in range(20):
            query = (
                f"SELECT SUM(b) AS s FROM r WHERE a > {number} * (SELECT AVG(a) FROM r WHERE b <> {number})"
            )
            db.execute(f"CREATE MATERIALIZED VIEW v{number} AS {query}")
        shown = sum(len(node.steps) for node in graph.graph_of(db).nodes)
    assert shown > 40
    assert sum(asked.values()) == 2 * shown  # for its own paths, and for the indexes that it asks of others


@pytest.mark.native
def test_maps_of_one_name_in_two_programs_are_told_apart() -> None:
    """Views that are filled from rows that are there have programs of their own, and name maps alike."""
    with viewlet.connect(backend="native") as db:
        db.execute("CREATE TABLE r (a BIGINT, b BIGINT)")
        db.insert("r", pa.table({"a": [i % 700 for i in range(3_000)], "b": list(range(3_000))}))
        for name, key in (("wide", "b"), ("narrow", "a")):
            query = f"SELECT SUM(b) AS s FROM r WHERE {key} > (SELECT AVG({key}) FROM r)"
            db.execute(f"CREATE MATERIALIZED VIEW {name} AS {query}")
        maps = db.stats().maps
        programs = db.programs()
        assert len(programs) == 2
        assert len({found.name for found in maps}) < len(maps)
        assert len({(found.program, found.name) for found in maps}) == len(maps)
        shown = [node for node in graph_of(db, maps).nodes if node.kind == "map"]
        assert sum(node.bytes or 0 for node in shown) == sum(found.bytes for found in maps)
        sizes = view_bytes(programs, maps)
        assert sizes == {
            name: sum(found.bytes for found in maps if found.program == number)
            for number, name in enumerate(("wide", "narrow"))
        }
        with background(db) as url:
            wait_until(lambda: get(url, "ready")[0] == 200)
            text = get(url, "metrics")[1]
        told = {line.split(" ")[0]: line.split(" ")[1] for line in text.splitlines() if "map_bytes{" in line}
        assert sum(map(int, told.values())) == sum(found.bytes for found in maps)
