"""Whatever is refused, by whomever, leaves no trace: in memory, in the file, or after opening it again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import viewlet
from viewlet.errors import (
    CatalogError,
    DataError,
    SqlError,
    StorageError,
    UnsupportedError,
    ValueRangeError,
    ViewletError,
)
from viewlet.kept import KeptRows
from viewlet.storage.container import Container
from viewlet.subscriptions import SubscriberError


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.viewlet"


@pytest.fixture
def db(path: Path) -> Iterator[viewlet.Database]:
    with viewlet.connect(path, backend="reference") as database:
        database.execute(
            """CREATE TABLE p (k BIGINT PRIMARY KEY, v BIGINT NOT NULL); CREATE TABLE r (a BIGINT, b VARCHAR);
            CREATE STREAM s (x BIGINT); CREATE STATIC TABLE fixed (a BIGINT);
            CREATE MATERIALIZED VIEW total AS SELECT sum(v) AS v FROM p;
            CREATE MATERIALIZED VIEW inverse AS SELECT a, sum(1 / a) AS i FROM r GROUP BY a;
            CREATE MATERIALIZED VIEW seen AS SELECT count(*) AS n, sum(x) AS x FROM s;
            CREATE MATERIALIZED VIEW above AS SELECT v + 1 AS w FROM total;
            CREATE MATERIALIZED VIEW uses AS SELECT count(*) AS n FROM fixed"""
        )
        database.apply({"p": [(1, 2**62)], "r": [(1, "x"), (1, "x"), (2, None)], "s": [(5,), (6,)]})
        yield database


def state(db: viewlet.Database) -> Any:
    kinds = {name: table.kind.value for name, table in db.catalog.items()}
    tables = {n: db.table(n).rows() for n, kind in kinds.items() if kind in ("TABLE", "STATIC TABLE")}
    views = {n: db.view(n).rows() for n, kind in kinds.items() if kind == "MATERIALIZED VIEW"}
    return kinds, tables, views, db.version


REFUSED_BATCHES: list[tuple[type[ViewletError], dict[str, Any]]] = [
    (DataError, {"r": [(7, "new")], "p": [(1, 5)]}),  # key taken
    (DataError, {"r": [(7, "new")], "p": [(2, None)]}),  # NULL
    (DataError, {"r": [(7, "new")], "p": [(2,)]}),  # width
    (DataError, {"r": [(7, "new")], "p": [(2, "text")]}),  # type
    (DataError, {"p": [(2, 1)], "r": [{"a": 9, "b": "absent", "_weight": -1}]}),
    (DataError, {"p": [(2, 1)], "r": [{"a": 1, "b": "x", "_change_type": "upsert"}]}),
    (DataError, {"p": [(2, 1)], "r": 7}),
    (DataError, {"p": [(2, 1)], "R": [], "r": []}),  # a table twice
    (DataError, {"p": [(2, 1)], "r": pa.table({"a": pa.array(["1"])})}),
    (ValueRangeError, {"r": [(7, "new")], "p": [(2, 2**63)]}),
    (ValueRangeError, {"s": [(1,)], "p": [(2, 2**62), (3, 2**62)]}),  # the sum, which a view reads
    (CatalogError, {"p": [(2, 1)], "nowhere": [(1,)]}),
    (CatalogError, {"p": [(2, 1)], "total": [(1,)]}),
    (CatalogError, {"p": [(2, 1)], "fixed": [(1,)]}),
]


@pytest.mark.parametrize(("error", "batch"), REFUSED_BATCHES)
@pytest.mark.parametrize("trigger", ["batch", "tuple"])
def test_refused_batches(
    db: viewlet.Database, path: Path, error: type[ViewletError], batch: dict[str, Any], trigger: Any
) -> None:
    before = state(db)
    with pytest.raises(error):
        db.apply(batch, trigger=trigger, token="t")
    assert state(db) == before
    assert db.apply({"r": [(3, "after")]}, token="t") == before[3] + 1
    after = state(db)
    db.close()
    with viewlet.connect(path, backend="reference") as again:
        assert state(again) == after


REFUSED_STATEMENTS: list[tuple[type[ViewletError], str]] = [
    (SqlError, "SELEC 1"),
    (SqlError, "CREATE MATERIALIZED VIEW bad AS SELECT nope FROM r"),
    (UnsupportedError, "UPDATE r SET a = SUM(a)"),
    (ValueRangeError, "UPDATE r SET a = a / 0"),
    (DataError, "UPDATE p SET v = NULL"),
    (
        ViewletError,
        "MERGE INTO r USING (VALUES (1), (1)) AS s(a) ON TRUE WHEN MATCHED THEN UPDATE SET a = s.a",
    ),
    (UnsupportedError, "ALTER TABLE r ADD COLUMN z BIGINT"),
    (CatalogError, "CREATE TABLE r (a BIGINT)"),
    (CatalogError, "CREATE MATERIALIZED VIEW total AS SELECT 1 AS one"),
    (CatalogError, "DROP TABLE r"),
    (CatalogError, "DROP MATERIALIZED VIEW total"),
    (CatalogError, "DROP TABLE nowhere"),
    (CatalogError, "CREATE OR REPLACE MATERIALIZED VIEW seen AS SELECT n FROM seen"),
    (ValueRangeError, "CREATE OR REPLACE MATERIALIZED VIEW above AS SELECT sum(k * v * 4) AS w FROM p"),
    (DataError, "INSERT INTO p VALUES (9, 9), (1, 1)"),
]


@pytest.mark.parametrize(("error", "statement"), REFUSED_STATEMENTS)
def test_refused_statements(
    db: viewlet.Database, path: Path, error: type[ViewletError], statement: str
) -> None:
    before = state(db)
    with pytest.raises(error):
        db.execute(statement)
    assert state(db) == before
    db.close()
    with viewlet.connect(path, backend="reference") as again:
        assert state(again) == before


UNWRITTEN = [
    "CREATE TABLE other (a BIGINT)",
    "CREATE MATERIALIZED VIEW other AS SELECT count(*) AS n FROM r",
    "CREATE OR REPLACE MATERIALIZED VIEW seen AS SELECT max(x) AS n FROM s",
    "CREATE OR REPLACE MATERIALIZED VIEW above AS SELECT v FROM total",
    "DROP MATERIALIZED VIEW seen",
    "INSERT INTO r VALUES (8, 'lost')",
    "DELETE FROM r",
]


def full(*_: Any) -> None:
    """Instead of appending to a container."""
    raise StorageError("the disk is full")


@pytest.mark.parametrize("statement", UNWRITTEN)
def test_what_cannot_be_written_down_did_not_happen(
    db: viewlet.Database, path: Path, statement: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = state(db)
    with monkeypatch.context() as patch:
        patch.setattr(Container, "append", full)
        with pytest.raises(StorageError, match="disk is full"):
            db.execute(statement)
    assert state(db) == before
    db.execute("CREATE MATERIALIZED VIEW fresh AS SELECT count(*) AS n, sum(x) AS x FROM s")
    db.apply({"s": [(1,)], "r": [(8, "kept")], "p": [(7, 7)]})
    assert (db.view("seen").rows(), db.view("fresh").rows()) == ([(3, 12)], [(1, 1)])
    after = state(db)
    db.close()
    with viewlet.connect(path, backend="reference") as again:
        assert state(again) == after


def test_a_subscriber_cannot_undo_a_commit(db: viewlet.Database, path: Path) -> None:
    def angry(_: pa.Table) -> None:
        raise RuntimeError("no")

    db.view("total").subscribe(angry)
    with pytest.raises(SubscriberError, match="applied and stays"):
        db.insert("p", [(2, 3)])
    after = state(db)
    assert after[1]["p"] == [(1, 2**62), (2, 3)]
    db.close()
    with viewlet.connect(path, backend="reference") as again:
        assert state(again) == after


@pytest.mark.parametrize("backend", ["reference", "native"])
def test_an_early_subscriber_knows_of_a_commit_before_it_is_written(
    backend: Any, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is told what others are told later, and may refuse the batch."""
    early: list[pa.Table] = []
    late: list[pa.Table] = []

    def note(change: pa.Table) -> None:
        if "refused" in change["b"].to_pylist():
            raise RuntimeError("no")
        early.append(change)

    with viewlet.connect(path, backend=backend) as db:
        db.execute(
            "CREATE TABLE r (a BIGINT, b VARCHAR);"
            "CREATE MATERIALIZED VIEW n AS SELECT b, count(*) AS n FROM r GROUP BY b"
        )
        db.subscribe("n", late.append, snapshot=False, weights=False)
        db.subscribe("n", note, snapshot=False, weights=False, early=True)
        db.insert("r", [(1, "x"), (2, "y")])
        db.delete("r", [(1, "x")])
        assert early == late
        assert [change["_commit_version"][0].as_py() for change in early] == [1, 2]
        before = state(db)
        with pytest.raises(RuntimeError, match="no"):
            db.insert("r", [(3, "refused")])
        with monkeypatch.context() as patch:
            patch.setattr(Container, "append", full)
            with pytest.raises(StorageError):
                db.insert("r", [(3, "unwritten")])
        assert state(db) == before
        assert (len(early), len(late)) == (3, 2), "it knows of a commit that did not happen"
    with viewlet.connect(path, backend=backend) as again:
        assert state(again) == before


def test_an_interruption_after_the_log_closes_the_database(
    db: viewlet.Database, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(KeptRows, "commit", interrupted)
        with pytest.raises(KeyboardInterrupt):
            db.insert("r", [(4, "logged")])
    with pytest.raises(viewlet.errors.BackendError, match="interrupted half way"):
        db.view("total").rows()
    db.close()
    with viewlet.connect(path, backend="reference") as again:
        assert (4, "logged") in again.table("r").rows()
        assert (4, 0.25) in again.view("inverse").rows()


def test_an_interruption_inside_the_log_is_noticed(
    db: viewlet.Database, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The batch is in the file, but the writer never heard of it: it must not write over it."""
    append = Container.append

    def interrupted(self: Container, *arguments: Any) -> None:
        before = self.head
        append(self, *arguments)
        self.head = before
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Container, "append", interrupted)
        with pytest.raises(KeyboardInterrupt):
            db.insert("r", [(4, "logged")])
    with pytest.raises(StorageError, match=r"close it and open it again|UNIQUE"):
        db.insert("r", [(5, "refused")])
    with pytest.raises(StorageError, match="close it and open it again"):
        db.checkpoint()
    db.close()
    with viewlet.connect(path, backend="reference") as again:
        assert [row for row in again.table("r").rows() if row[0] > 2] == [(4, "logged")]


@pytest.mark.parametrize("count", [20, pytest.param(100, marks=pytest.mark.slow)])
def test_many_views_over_one_table(path: Path, count: int) -> None:
    with viewlet.connect(path, backend="reference", durability="off") as db:
        db.execute("CREATE TABLE r (a BIGINT, b BIGINT)")
        for number in range(count):
            db.execute(f"CREATE MATERIALIZED VIEW v{number} AS SELECT sum(b) AS s FROM r WHERE a = {number}")
        db.insert("r", [(number % 10, number) for number in range(50)])
        expected = [(sum(n for n in range(50) if n % 10 == v) if v < 10 else None,) for v in range(count)]
        assert [db.view(f"v{number}").rows()[0] for number in range(count)] == expected
    with viewlet.connect(path, backend="reference") as db:
        assert [db.view(f"v{number}").rows()[0] for number in range(count)] == expected
