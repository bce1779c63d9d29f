"""What a durable database promises while nothing goes wrong: it is there again, whole, and nobody else's."""

from __future__ import annotations

import datetime
import os
import sqlite3
import stat
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import viewlet
from storage import workload
from viewlet.errors import BackendError, StorageError
from viewlet.storage.container import BODY_LIMIT, FORMAT, Container


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "market.viewlet"


def state(db: viewlet.Database) -> Any:
    names = {name: table.kind.value for name, table in db.catalog.items()}
    tables = {n: db.table(n).rows() for n, kind in names.items() if kind in ("TABLE", "STATIC TABLE")}
    views = {n: db.view(n).rows() for n, kind in names.items() if kind == "MATERIALIZED VIEW"}
    return names, tables, views, db.version


def reopened(path: Path, **options: Any) -> Any:
    with viewlet.connect(path, **options) as db:
        return state(db)


ALL_TYPES = """CREATE TABLE every (b BOOLEAN, i TINYINT, j SMALLINT, k INT, l BIGINT, m DECIMAL(38,10),
    f FLOAT, d DOUBLE, day DATE, at TIMESTAMP, `the text` VARCHAR, `weight` BIGINT)"""
ROW = (
    *(True, -128, 32767, -(2**31), 2**63 - 1, Decimal("-9999999999999999999999999999.0123456789")),
    *(
        0.5,
        -1.7e300,
        datetime.date(1, 1, 1),
        datetime.datetime(9999, 12, 31, 23, 59, 59, 999999),
        "\0ß𝄞\n",
        5,
    ),
)


@pytest.mark.parametrize("checkpointed", [False, True])
def test_every_type_comes_back(path: Path, checkpointed: bool) -> None:
    with viewlet.connect(path) as db:
        db.execute(ALL_TYPES)
        db.execute(
            "CREATE MATERIALIZED VIEW g AS SELECT `the text`, max(m) AS m, sum(d) AS d FROM every GROUP BY 1"
        )
        db.insert("every", [ROW, ROW, (None,) * len(ROW)])
        if checkpointed:
            db.checkpoint()
        expected = state(db)
    assert reopened(path) == expected
    assert expected[1]["every"][1] == ROW


def test_definitions_come_back(path: Path) -> None:
    with viewlet.connect(path) as db:
        db.execute("CREATE TABLE p (k BIGINT PRIMARY KEY, v VARCHAR NOT NULL) ON CONFLICT REPLACE")
        db.execute(
            "CREATE TABLE c (a BIGINT, FOREIGN KEY (a) REFERENCES p (k)); CREATE STATIC TABLE z (a BIGINT)"
        )
        db.execute("CREATE TABLE gone (a BIGINT); CREATE MATERIALIZED VIEW old AS SELECT a FROM gone")
        db.execute("CREATE MATERIALIZED VIEW w AS SELECT v FROM p")
        db.execute(
            "CREATE OR REPLACE MATERIALIZED VIEW w REFRESH FULL AS SELECT v, count(*) AS n FROM p GROUP BY v"
        )
        db.execute("CREATE TABLE IF NOT EXISTS p (k INT); DROP MATERIALIZED VIEW old; DROP TABLE gone")
        db.insert("p", [(1, "a"), (2, "b")])
        db.insert("p", [(1, "c")])
        db.execute("DELETE FROM p WHERE k = 2")
        expected, catalog = state(db), dict(db.catalog)
    for _ in range(2):
        with viewlet.connect(path) as db:
            assert state(db) == expected
            assert dict(db.catalog) == catalog
            assert "REFRESH FULL" in db.explain("w")
            db.insert("p", [(1, "d")])
            db.insert("p", [(1, "c")])
            db.checkpoint()
            expected = state(db)


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 10**6), plan=st.lists(st.sampled_from("ssssscro"), min_size=3, max_size=12))
def test_any_steps_checkpoints_and_openings(tmp_path_factory: Any, seed: int, plan: list[str]) -> None:
    """s: a step, c: a checkpoint, r: compaction, o: close and open."""
    path = tmp_path_factory.mktemp("steps") / "a.viewlet"
    expected = workload.Expected()
    steps = workload.steps(seed, expected)
    db = viewlet.connect(path, backend="reference", durability="off")
    workload.create_schema(db)
    for word in [*plan, "o"]:
        match word:
            case "s":
                workload.take(db, next(steps))
            case "c":
                db.checkpoint()
            case "r":
                db.compact()
            case _:
                db.close()
                db = viewlet.connect(path, backend="reference", durability="off")
        assert workload.contents(db) == expected.contents(expected.late is not None)
    db.close()


def test_views_of_streams_keep_apart_what_they_have_seen(path: Path) -> None:
    count = "SELECT count(*) AS n, sum(x) AS x FROM s"
    with viewlet.connect(path, backend="reference") as db:
        db.execute(f"CREATE STREAM s (x BIGINT); CREATE MATERIALIZED VIEW a AS {count}")
        db.execute(f"CREATE MATERIALIZED VIEW twin AS {count}")
        db.insert("s", [(1,)])
        db.execute(f"CREATE MATERIALIZED VIEW b AS {count}")
        db.insert("s", [(10,)])
        db.checkpoint()
        maps = len(db.stats().maps)
    with viewlet.connect(path, backend="reference") as db:
        assert len(db.stats().maps) == maps, "twins share their maps again"
        db.execute(f"CREATE MATERIALIZED VIEW c AS {count}")
        db.insert("s", [(100,)])
        rows = {name: db.view(name).rows() for name in ("a", "twin", "b", "c")}
    assert rows == {"a": [(3, 111)], "twin": [(3, 111)], "b": [(2, 110)], "c": [(1, 100)]}


def test_a_view_of_a_stream_needs_the_program_that_kept_it(path: Path) -> None:
    with viewlet.connect(path, backend="reference") as db:
        db.execute("CREATE STREAM s (x BIGINT); CREATE MATERIALIZED VIEW a AS SELECT sum(x) AS x FROM s")
        db.checkpoint()
    with pytest.raises(
        StorageError, match=r"view 'a' was kept by a program .* what it holds of s is nowhere else"
    ):
        viewlet.connect(path, backend="reference", strategy="reevaluate")
    viewlet.connect(path, backend="reference").close()


def test_a_strategy_that_refuses_a_view_is_passed_over(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with viewlet.connect(path, backend="reference", strategy="first_order") as db:
        db.execute("CREATE STREAM s (a BIGINT, b BIGINT)")
        db.execute(
            "CREATE MATERIALIZED VIEW a AS SELECT x.a, COUNT(*) AS n "
            "FROM (SELECT a, SUM(b) AS t FROM s GROUP BY a) AS x "
            "LEFT JOIN (SELECT a, MAX(b) AS t FROM s GROUP BY a) AS y ON x.t = y.t GROUP BY x.a"
        )
        db.insert("s", [(1, 2), (2, 2), (3, 5)])
        db.checkpoint()
        expected = state(db)
    monkeypatch.setattr("viewlet.calculus.from_plan.MOST_NAMES", 80)  # fewer than the deltas of deltas take
    assert reopened(path, backend="reference", strategy="higher_order") == expected


def test_views_are_made_anew_for_another_strategy(path: Path) -> None:
    with viewlet.connect(path, backend="reference") as db:
        db.execute("CREATE TABLE r (a BIGINT); CREATE MATERIALIZED VIEW t AS SELECT sum(a) AS s FROM r")
        db.insert("r", [(1,), (2,)])
        db.checkpoint()
        expected = state(db)
    for strategy in ("first_order", "higher_order", "reevaluate"):
        assert reopened(path, strategy=strategy) == expected


def test_a_token_counts_once(path: Path) -> None:
    with viewlet.connect(path, backend="reference") as db:
        db.execute("CREATE TABLE r (a BIGINT PRIMARY KEY)")
        assert db.apply({"r": [(1,)]}, token="one") == 1
        assert db.apply({"r": [(1,)]}, token="one") == 1
        assert db.apply({"r": [(2,)]}, token="two") == 2
        with pytest.raises(viewlet.errors.DataError):
            db.apply({"r": [(2,)]}, token="refused")
        assert db.version_of("refused") is None
        assert db.apply({"r": [(3,)]}, token="refused") == 3, "a refused batch leaves its token free"
        db.checkpoint()
    with viewlet.connect(path) as db:
        assert db.apply({"r": [(1,)]}, token="one") == 1
        assert db.version == 3
        db.compact()
        assert db.apply({"r": [(2,)]}, token="two") == 2
        assert [db.version_of(token) for token in ("one", "two", "three")] == [1, 2, None]


def test_tokens_in_memory() -> None:
    with viewlet.connect() as db:
        db.execute("CREATE TABLE r (a BIGINT)")
        assert db.apply({"r": [(1,)]}, token="x") == db.apply({"r": [(1,)]}, token="x") == 1
        assert db.table("r").rows() == [(1,)]


def test_empty_batches_and_empty_databases(path: Path) -> None:
    viewlet.connect(path).close()
    with viewlet.connect(path) as db:
        assert db.version == 0
        db.checkpoint()
        db.execute("CREATE TABLE r (a BIGINT)")
        assert [db.apply({}), db.apply({"r": []}), db.insert("r", [])] == [1, 2, 3]
        db.checkpoint()
    with viewlet.connect(path) as db:
        assert (db.version, db.table("r").rows()) == (3, [])


def test_the_log_is_dropped_behind_a_checkpoint(path: Path) -> None:
    with viewlet.connect(path, durability="off", checkpoint_bytes=100_000) as db:
        db.execute("CREATE TABLE r (a BIGINT, b VARCHAR)")
        for number in range(60):
            rows = [(number, "x" * 50)] * 100 + [(number * 1000 + i, "y" * 50) for i in range(100)]
            db.insert("r", rows)
            db.delete("r", rows)
        db.checkpoint()
        db.compact()
    assert path.stat().st_size < 100_000
    assert reopened(path)[1] == {"r": []}


def test_commits_go_on_while_a_checkpoint_is_written(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write, committed = Container.write_part, threading.Event()
    with viewlet.connect(path) as db:
        db.execute("CREATE TABLE r (a BIGINT)")

        def late(self: Container, *part: Any) -> str:
            assert committed.wait(60)
            return write(self, *part)

        monkeypatch.setattr(Container, "write_part", late)
        db.insert("r", [(0,)])
        writer = db._journal.checkpoint()  # type: ignore[attr-defined]
        for number in range(1, 6):
            db.insert("r", [(number,)])
        assert writer.is_alive(), "the commits did not wait for it"
        committed.set()
        writer.wait()
    assert reopened(path)[1] == {"r": [(n,) for n in range(6)]}


def test_commits_do_not_wait_for_the_file(path: Path) -> None:
    """Who writes a checkpoint holds the file; new steps go to the log beside it."""
    with viewlet.connect(path) as db:
        db.execute("CREATE TABLE r (a BIGINT)")
        with db._journal._container._mutex, ThreadPoolExecutor(1) as other:  # type: ignore[attr-defined]
            assert other.submit(db.insert, "r", [(1,)]).result(timeout=60) == 1
    assert reopened(path)[1] == {"r": [(1,)]}


def test_the_log_behind_a_checkpoint_goes(path: Path) -> None:
    def logs() -> list[str]:
        return [file.name.partition("-log")[2] for file in path.parent.glob("*-log*")]

    with viewlet.connect(path) as db:
        db.execute("CREATE TABLE r (a BIGINT)")
        for number in range(3):
            db.insert("r", [(number,)])
            assert logs() == [["0"], ["2"], ["3"]][number]
            db.checkpoint()
            assert logs() == []
        db.insert("r", [(3,)])
        assert logs() == ["4"]
    assert logs() == []
    assert reopened(path)[1] == {"r": [(n,) for n in range(4)]}


def test_bodies_over_the_limit_are_split(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("viewlet.storage.container.BODY_LIMIT", 1000)
    assert BODY_LIMIT > 1000
    rows = [(i, "text" * 10) for i in range(200)]
    with viewlet.connect(path) as db:
        db.execute("CREATE TABLE r (a BIGINT, b VARCHAR)")
        db.insert("r", rows)
        db.insert("r", [(1000, None)])
        expected = state(db)
    with closing(sqlite3.connect(path)) as file:
        assert file.execute("SELECT count(*) FROM log WHERE final = 0").fetchone()[0] > 5
    assert reopened(path) == expected


def test_a_clock_that_goes_backwards_changes_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter(range(10**9, 0, -1000))
    monkeypatch.setattr(time, "time", lambda: float(next(now)))
    with viewlet.connect(path) as db:
        db.execute("CREATE TABLE r (a BIGINT)")
        versions = [db.insert("r", [(i,)]) for i in range(5)]
        db.checkpoint()
        os.utime(path, (0, 0))
        versions.append(db.insert("r", [(5,)]))
    assert versions == [1, 2, 3, 4, 5, 6]
    assert reopened(path)[1] == {"r": [(i,) for i in range(6)]}


def test_progress_is_told(path: Path) -> None:
    with viewlet.connect(path) as db:
        db.execute("CREATE TABLE r (a BIGINT)")
        for i in range(4):
            db.insert("r", [(i,)])
    calls: list[tuple[int, int]] = []
    viewlet.connect(path, progress=lambda done, total: calls.append((done, total))).close()
    assert calls == [(1, 5), (2, 5), (3, 5), (4, 5), (5, 5)]


# Whose file it is.


def test_only_the_owner_may_read(path: Path) -> None:
    mask = os.umask(0)
    try:
        with viewlet.connect(path) as db:
            db.execute("CREATE TABLE r (a BIGINT)")
            found = sorted(path.parent.iterdir())
            assert [p.name.removeprefix("market.viewlet") for p in found] == ["", "-lock", "-log0", "-wal"]
            assert {stat.S_IMODE(p.stat().st_mode) for p in found} == {0o600}
    finally:
        os.umask(mask)
    assert [p.name for p in path.parent.iterdir()] == ["market.viewlet"]


def test_one_process_at_a_time(path: Path) -> None:
    script = "import sys, viewlet; viewlet.connect(sys.argv[1])"
    with viewlet.connect(path) as db:
        with pytest.raises(StorageError, match="open in this process already"):
            viewlet.connect(path)
        shut = subprocess.run(
            [sys.executable, "-c", script, path], capture_output=True, text=True, check=False
        )
        assert f"is open in process {os.getpid()}: one process at a time" in shut.stderr
        db.execute("CREATE TABLE r (a BIGINT)")
    subprocess.run([sys.executable, "-c", script, path], check=True)
    assert reopened(path)[1] == {"r": []}


def test_a_forgotten_database_gives_its_file_up(path: Path) -> None:
    import gc

    viewlet.connect(path).execute("CREATE TABLE r (a BIGINT)")
    gc.collect()
    assert reopened(path)[1] == {"r": []}


def test_newer_formats_are_refused(path: Path) -> None:
    viewlet.connect(path).close()
    with closing(sqlite3.connect(path)) as file:
        file.execute(f"PRAGMA user_version = {FORMAT + 1}")
    before = path.read_bytes()
    with pytest.raises(
        StorageError, match=f"has format {FORMAT + 1}, this Viewlet reads up to {FORMAT}: upgrade"
    ):
        viewlet.connect(path)
    assert path.read_bytes() == before


def test_files_of_the_format_before_are_read(path: Path) -> None:
    with viewlet.connect(path) as db:
        db.execute("CREATE TABLE r (a BIGINT)")
        db.insert("r", [(1,)])
    with closing(sqlite3.connect(path)) as file:
        file.execute(f"PRAGMA user_version = {FORMAT - 1}")
    assert reopened(path)[1] == {"r": [(1,)]}
    with closing(sqlite3.connect(path)) as file:
        assert file.execute("PRAGMA user_version").fetchone() == (FORMAT,)


def test_files_of_others_are_refused_and_left_alone(path: Path) -> None:
    with closing(sqlite3.connect(path)) as file:
        file.execute("CREATE TABLE theirs (a)")
        file.commit()
    before = path.read_bytes()
    with pytest.raises(StorageError, match="not a Viewlet database"):
        viewlet.connect(path)
    assert path.read_bytes() == before
    path.write_text("price,volume\n1,2\n" * 100)
    with pytest.raises(StorageError, match="file is not a database"):
        viewlet.connect(path)
    assert [p.name for p in path.parent.iterdir()] == ["market.viewlet"]


def test_a_planted_trigger_is_refused(path: Path) -> None:
    viewlet.connect(path).close()
    with closing(sqlite3.connect(path)) as file:
        file.execute("CREATE TRIGGER evil AFTER INSERT ON log BEGIN DELETE FROM log; END")
        file.commit()
    with pytest.raises(StorageError, match="tables are not those of a Viewlet database"):
        viewlet.connect(path)


def test_wrong_targets_and_options(path: Path) -> None:
    with pytest.raises(StorageError, match="there is no folder"):
        viewlet.connect(path / "deeper.viewlet")
    with pytest.raises(StorageError, match="durability='maybe': use 'full', 'batch', 'off'"):
        viewlet.connect(path, durability="maybe")  # type: ignore[arg-type]
    with pytest.raises(StorageError, match="needs a path"):
        viewlet.connect(durability="full")
    with viewlet.connect() as db, pytest.raises(StorageError, match="in memory"):
        db.checkpoint()
    viewlet.connect(path, dialect="postgres").close()
    with pytest.raises(StorageError, match="created with dialect='postgres'"):
        viewlet.connect(path)
    db = viewlet.connect(path, dialect="postgres")
    db.close()
    db.close()
    with pytest.raises(BackendError, match="closed"):
        db.checkpoint()


def test_places_where_nothing_can_be_written(tmp_path: Path) -> None:
    for place, kind in ((tmp_path, "folder"), ("/dev/null", "device")):
        with pytest.raises(StorageError, match=f"it is a {kind}, not a file"):
            viewlet.connect(place)
    with pytest.raises(StorageError, match=r"cannot be opened: .*x\.viewlet-lock must be written beside it"):
        viewlet.connect("/proc/x.viewlet")  # as in a folder that is read-only, for any user


@pytest.mark.parametrize("checkpoint", [False, True])
def test_rows_replaced_by_key_among_many(
    tmp_path: Path, checkpoint: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Arrow rows, rows that replace some of them, and single rows beside them come back as they were."""

    def rows(keys: range, value: int) -> pa.Table:
        return pa.table({"k": pa.array(keys, pa.int64()), "v": pa.array([value] * len(keys), pa.int64())})

    path = tmp_path / "a.viewlet"
    with viewlet.connect(path, backend="reference", durability="off") as db:
        db.execute("CREATE TABLE t (k BIGINT PRIMARY KEY, v BIGINT)")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT v, count(*) AS n FROM t GROUP BY v")
        db.insert("t", rows(range(2_000), 1))
        db.insert("t", rows(range(1_500, 2_500), 2), on_conflict="update")
        db.insert("t", [(9_000, 3), (9_001, 3)])
        if checkpoint:
            db.checkpoint()
        db.insert("t", [(9_001, 4), (0, 4), (9_002, 4)], on_conflict="update")
        db.delete("t", [{"k": 1}, {"k": 9_000}, {"k": 2_400}])
        expected = db.table("t").rows(), db.view("v").rows()
    assert expected[1] == [(1, 1_498), (2, 999), (4, 3)]
    with viewlet.connect(path, backend="reference") as db:
        assert (db.table("t").rows(), db.view("v").rows()) == expected
