"""The demo in small: it plays, agrees with DuckDB, and leaves a report."""

from __future__ import annotations

import builtins
import io
import json
from datetime import date
from decimal import Decimal
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

import viewlet
from viewlet.cli import main
from viewlet.demo import on_spark, reevaluation, show, sources
from viewlet.demo.play import Run, play, prepare
from viewlet.demo.reevaluation import reevaluate, same_rows
from viewlet.demo.scenes import SCENES, Scene
from viewlet.demo.screen import LiveScreen, Page, SnapshotScreen
from viewlet.errors import BackendError
from viewlet.workloads import nested, stream


def small_scene(_: object = None) -> Scene:
    tables = nested.tables(300, groups=5, values=9, seed=3)
    return Scene(
        "Small",
        "a table of two columns",
        "CREATE TABLE r (a BIGINT, b BIGINT)",
        {
            "sums": "SELECT a, SUM(b) AS s, AVG(b) AS m FROM r GROUP BY a",
            "late": "SELECT COUNT(*) AS n FROM r WHERE b > (SELECT AVG(b) FROM r)",
        },
        {"sums": "sums & averages", "late": "above the average"},
        lambda changes: (stream.load(tables), stream.churn(tables, seed=4)),
    )


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(show, "SCENES", (small_scene,))


class Tags(HTMLParser):
    """Checks that tags close in order, and counts them."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.count: dict[str, int] = {}

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.count[tag] = self.count.get(tag, 0) + 1
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: Any) -> None:
        self.count[tag] = self.count.get(tag, 0) + 1

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.mark.usefixtures("small")
def test_the_demo_plays_compares_and_reports(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "made" / "report.html"
    assert (
        main(["demo", "--no-spark", "--seconds", "0.3", "--batch", "20", "--json", "--report", str(file)])
        == 0
    )
    said = capsys.readouterr()
    (scene,) = json.loads(said.out)["scenes"]
    assert scene["changes"] > 0
    assert scene["views"] == {"sums": 5, "late": 1}
    assert [(found["view"], found["agrees"]) for found in scene["duckdb"]] == [("sums", True), ("late", True)]
    assert "above the average" in said.err
    assert "ratio" in said.err
    tags = Tags()
    tags.feed(file.read_text())
    assert tags.open == []
    assert tags.count["svg"] == 3
    assert "Sums &amp; averages" in file.read_text()


@pytest.mark.usefixtures("small")
def test_a_wrong_view_fails_the_demo(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(reevaluation, "same_rows", lambda left, right: False)
    assert main(["demo", "--no-spark", "--seconds", "0.1", "--report", str(tmp_path / "r.html")]) == 1
    assert "DIFFERENT ROWS" in capsys.readouterr().out


@pytest.mark.usefixtures("small")
def test_without_duckdb_the_demo_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real = builtins.__import__

    def without_duckdb(name: str, *rest: Any) -> Any:
        if name == "duckdb":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without_duckdb)
    assert main(["demo", "--no-spark", "--seconds", "0.1", "--report", str(tmp_path / "r.html")]) == 0
    assert "No comparison with re-evaluation: DuckDB is not installed" in capsys.readouterr().out
    assert "DuckDB is not installed" in (tmp_path / "r.html").read_text()


@pytest.mark.usefixtures("small")
def test_a_report_that_cannot_be_written_is_known_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(show, "show", lambda *_: pytest.fail("it played first"))
    (tmp_path / "file").touch()
    assert main(["demo", "--report", str(tmp_path / "file" / "r.html")]) == 1
    assert "file" in capsys.readouterr().err


def test_without_a_native_backend_the_reason_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_compiler(**_: Any) -> Any:
        raise BackendError("no C compiler was found")

    monkeypatch.setattr(show, "connect", no_compiler)
    assert show.best_backend() == ("reference", "no C compiler was found")


def test_a_query_that_takes_too_long_is_stopped() -> None:
    scene = small_scene()
    slow = "SELECT COUNT(*) AS n FROM r a, r b, r c, r d, r e WHERE a.a + b.a + c.a + d.a = e.b"
    with viewlet.connect(strategy="reevaluate") as db:
        db.execute(scene.schema)
        db.execute("CREATE MATERIALIZED VIEW slow AS SELECT COUNT(*) AS n FROM r")
        db.apply(scene.stream(0)[0].whole())
        hard = Scene(scene.title, "", scene.schema, {"slow": slow}, {"slow": ""}, scene.stream)
        (found,) = reevaluate(db, hard, limit=0.05)
    assert (found.seconds, found.agrees) == (None, None)


@pytest.mark.parametrize("make", SCENES)
def test_every_scene_agrees_with_duckdb_from_the_start(make: Any) -> None:
    scene = make()
    with viewlet.connect() as db:
        start, changes = scene.stream(4_000)
        prepare(db, scene, start)
        run = Run()
        for _ in play(db, changes.first(600), 200, 60, run):
            pass
        assert run.changes == 600
        rival = reevaluate(db, scene, 10)
        assert [found.agrees for found in rival] == [True] * len(scene.views)
        assert all(len(db.view(name)) > 0 for name in scene.views)
        page = Page(scene.title, scene, db, run, 0.5, rival)
        full, short = page.full(), page.short()
    assert set(scene.captions) == set(scene.views)
    assert "[###############               ] 600 changes" in full[1]
    assert "from scratch" in full[3]
    assert "ratio" in full[3]
    assert len(short) == 5 + 2 * len(scene.views) < 24
    assert all(f"{name}: {caption}" in short for name, caption in scene.captions.items())


def test_the_book_never_crosses() -> None:
    changes = sources.orders_and_cancellations(2_000, None).changes
    assert max(changes["bids"]["price"].to_pylist()) < min(changes["asks"]["price"].to_pylist())


@pytest.mark.parametrize(("height", "shown"), [(24, "s 12"), (60, "--")])
def test_screens(height: int, shown: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.get_terminal_size", lambda: (40, height))
    live, still = LiveScreen(drawn := io.StringIO()), SnapshotScreen(printed := io.StringIO())
    names = [f"view{i}" for i in range(6)]
    query = "SELECT SUM(b) AS s, 'a value that is wider than the screen' AS t FROM r"
    with viewlet.connect(backend="reference") as db:
        db.execute("CREATE TABLE r (b BIGINT)")
        for name in names:
            db.execute(f"CREATE MATERIALIZED VIEW {name} AS {query}")
        db.insert("r", [(12,)])
        scene = Scene("Many", "", "", dict.fromkeys(names, query), dict.fromkeys(names, ""), lambda _: ...)
        page = Page("Many", scene, db, Run(), 0.0)
        assert live.due(0.0)
        live.draw(page)
        assert not live.due(0.1)
        assert still.due(0.0)
        still.draw(page)
        assert not still.due(0.9)
    lines = drawn.getvalue().removeprefix("\x1b[H\x1b[J").splitlines()
    assert "view5: " in lines
    assert max(map(len, lines)) == 40
    assert any(line.strip().startswith(shown) for line in lines)
    assert "a value that is wider than the screen" in printed.getvalue()


def test_same_rows_is_exact_for_exact_values() -> None:
    assert same_rows([(1, "a"), (2, "b")], [(2, "b"), (1, "a")])
    assert not same_rows([(1, "a")], [(2, "a")])
    assert not same_rows([(Decimal("1.00"),)], [(Decimal("1.01"),)])
    assert same_rows([(Decimal("0.333333"),)], [(1 / 3,)])
    assert not same_rows([(Decimal("0.333"),)], [(0.335,)])
    assert not same_rows([(None,)], [(0.0,)])
    assert same_rows([(date(2020, 1, 1), None)], [(date(2020, 1, 1), None)])


def test_without_java_the_demo_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr("shutil.which", lambda name: None)
    assert sources.spark_session() == (None, "there is no Java")


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_spark_makes_the_same_order_book_and_the_tables_of_tpch(
    spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, reason = sources.spark_session()
    assert (found, reason) == (spark, None)
    ours, theirs = (sources.orders_and_cancellations(2_000, session) for session in (None, spark))
    assert list(ours.rows()) == list(theirs.rows())
    monkeypatch.setattr(sources, "SCALE", 0.001)
    tables = sources.order_tables(0, spark)
    assert tables["orders"].num_rows == 1_500
    assert len(set(tables["lineitem"]["l_orderkey"].to_pylist())) == 1_500


@pytest.mark.spark
@pytest.mark.native
@pytest.mark.xdist_group("spark")
@pytest.mark.parametrize("make", [SCENES[0], pytest.param(SCENES[1], marks=pytest.mark.slow)])
def test_a_scene_runs_as_a_pipeline_on_spark(make: Any, spark: Any) -> None:
    scene = make()
    start, later = scene.stream(6_000)
    with viewlet.connect(backend="reference") as db:
        db.execute(scene.schema)
        catalog = db.catalog
    told: list[int] = []
    found = on_spark.pipe(spark, scene, catalog, (start, later), lambda db, run: told.append(run.changes))
    assert sum(found.run.sizes) == found.run.changes == told[-1] <= len(later)
    assert len(found.run.sizes) > on_spark.FILES
    assert [verdict.agrees for verdict in found.rival] == [True] * len(scene.views)
