"""What a database promises: kept rows, keys, streams, views on views, atomic batches, subscriptions."""

from __future__ import annotations

import datetime
import threading
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import viewlet
from viewlet.errors import (
    BackendError,
    CatalogError,
    CompileError,
    DataError,
    SqlError,
    UnsupportedError,
    ValueRangeError,
    ViewletError,
)
from viewlet.subscriptions import SubscriberError


@pytest.fixture(params=["auto", "reevaluate"])
def db(request: pytest.FixtureRequest) -> Any:
    with viewlet.connect(backend="reference", strategy=request.param) as database:
        yield database


def state(db: Any) -> Any:
    """Everything that a refused batch must not change."""
    names = sorted(db.catalog)
    kept = {
        name: db.table(name).rows()
        for name in names
        if db.catalog[name].kind.value in ("TABLE", "STATIC TABLE")
    }
    views = {
        name: db.view(name).rows() for name in names if db.catalog[name].kind.value == "MATERIALIZED VIEW"
    }
    return kept, views, db.version, names


# Tables.


def test_a_table_is_a_bag(db: Any) -> None:
    db.execute("CREATE TABLE r (a BIGINT, b VARCHAR)")
    db.insert("R", [(1, "x"), (1, "x"), (None, None)])
    assert db.table("r").rows() == [(None, None), (1, "x"), (1, "x")]
    db.delete("r", [(1, "x")])
    assert db.table("r").rows() == [(None, None), (1, "x")]
    with pytest.raises(DataError, match=r"table 'r': cannot delete the row \(1, y\): it is not there"):
        db.delete("r", [(1, "y")])
    with pytest.raises(DataError, match="not there"):
        db.delete("r", [(1, "x"), (1, "x")])
    assert len(db.table("r")) == 2


def test_only_the_net_effect_of_a_batch_counts(db: Any) -> None:
    db.execute("CREATE TABLE r (a BIGINT); CREATE MATERIALIZED VIEW n AS SELECT count(*) AS n FROM r")
    db.apply({"r": [{"a": 1, "_weight": -1}, {"a": 1, "_weight": 1}, {"a": 2, "_weight": 3}]})
    assert db.table("r").rows() == [(2,)] * 3
    assert db.view("n").value == 3
    before = db.version
    assert db.apply({"r": []}) == before + 1


def test_primary_keys(db: Any) -> None:
    db.execute("CREATE TABLE p (k BIGINT PRIMARY KEY, v VARCHAR)")
    db.execute("CREATE MATERIALIZED VIEW w AS SELECT v, count(*) AS n FROM p GROUP BY v")
    db.insert("p", [(1, "a"), (2, "b")])
    with pytest.raises(DataError, match="key k = 1 would occur twice"):
        db.insert("p", [(3, "c"), (1, "z")])
    with pytest.raises(DataError, match="would occur twice"):
        db.insert("p", [(4, "c"), (4, "c")])
    db.insert("p", [(1, "z"), (3, "x"), (3, "y")], on_conflict="update")
    assert db.table("p").rows() == [(1, "z"), (2, "b"), (3, "y")]
    db.insert("p", [(1, "q"), (4, "m"), (4, "n")], on_conflict="nothing")
    assert db.table("p").rows() == [(1, "z"), (2, "b"), (3, "y"), (4, "m")]
    db.delete("p", [(2,)])
    db.delete("p", [{"k": 3}])
    db.delete("p", [(4, "m")])
    assert db.table("p").rows() == [(1, "z")]
    assert db.view("w").rows() == [("z", 1)]
    for absent in ([(2,)], [(1, "a")], [{"k": 9}]):
        with pytest.raises(DataError, match="not there"):
            db.delete("p", absent)
    with pytest.raises(DataError, match="NOT NULL"):
        db.insert("p", [(None, "a")])
    with pytest.raises(DataError, match="on_conflict='replace'"):
        db.insert("p", [(1, "a")], on_conflict="replace")


def test_an_update_may_come_in_any_order(db: Any) -> None:
    db.execute("CREATE TABLE p (k BIGINT PRIMARY KEY, v VARCHAR)")
    db.insert("p", [(1, "a"), (2, "b")])
    swap = [(1, "b", 1), (2, "b", -1), (2, "a", 1), (1, "a", -1)]
    db.apply({"p": [{"k": k, "v": v, "_weight": w} for k, v, w in swap]}, trigger="tuple")
    assert db.table("p").rows() == [(1, "b"), (2, "a")]


def test_a_table_may_have_its_own_conflict_rule(db: Any) -> None:
    db.execute("CREATE TABLE p (k BIGINT PRIMARY KEY, v VARCHAR) ON CONFLICT REPLACE")
    db.insert("p", [(1, "a")])
    db.insert("p", [(1, "b")])
    db.table("p").add(1, "c")
    db.apply({"p": [(1, "d"), (2, "e")]})
    assert db.table("p").rows() == [(1, "d"), (2, "e")]


def test_streams_keep_no_rows_but_feed_views(db: Any) -> None:
    db.execute("CREATE STREAM e (a BIGINT); CREATE MATERIALIZED VIEW s AS SELECT sum(a) AS s FROM e")
    db.insert("e", [(1,), (2,)])
    db.delete("e", [(1,)])
    assert db.view("s").value == 2
    db.execute("CREATE MATERIALIZED VIEW late AS SELECT count(*) AS n FROM e")
    assert db.view("late").value == 0
    db.table("e").add(5)
    assert (db.view("s").value, db.view("late").value) == (7, 1)
    for read in (db.table("e").rows, db.table("e").to_arrow, lambda: db.sql("SELECT * FROM e")):
        with pytest.raises(CatalogError, match="stream 'e' keeps no rows"):
            read()


def test_static_tables_change_until_a_view_reads_them(db: Any) -> None:
    db.execute("CREATE STATIC TABLE st (a BIGINT); CREATE TABLE r (a BIGINT)")
    db.insert("st", [(1,), (2,)])
    db.execute("CREATE MATERIALIZED VIEW j AS SELECT r.a FROM r, st WHERE r.a = st.a")
    db.insert("r", [(1,), (3,)])
    assert db.view("j").rows() == [(1,)]
    with pytest.raises(CatalogError, match="static table 'st' cannot change any more: it is read by j"):
        db.insert("st", [(3,)])
    db.execute("DROP MATERIALIZED VIEW j")
    db.insert("st", [(3,)])


# SQL statements.


def test_insert_and_delete_statements(db: Any) -> None:
    db.execute("CREATE TABLE r (a BIGINT, d DECIMAL(6,2), day DATE, v VARCHAR)")
    version = db.execute("INSERT INTO r VALUES (1, 1.5, DATE '2024-02-29', 'it\\'s'), (-2, NULL, NULL, NULL)")
    assert version == 1
    db.execute("INSERT INTO r (v, a) VALUES ('only', 1 + 2)")
    assert db.table("r").rows() == [
        (-2, None, None, None),
        (1, Decimal("1.50"), datetime.date(2024, 2, 29), "it's"),
        (3, None, None, "only"),
    ]
    db.execute("DELETE FROM r WHERE a > 0 AND v LIKE 'o%'")
    assert [row[0] for row in db.table("r").rows()] == [-2, 1]
    db.execute("DELETE FROM r")
    assert db.table("r").rows() == []
    with pytest.raises(ViewletError, match="nope"):
        db.execute("INSERT INTO r (nope) VALUES (1)")
    with pytest.raises(ViewletError, match="values"):
        db.execute("INSERT INTO r VALUES (1)")


def test_queries_and_explain_statements(db: Any) -> None:
    db.execute("CREATE TABLE r (a BIGINT); INSERT INTO r VALUES (1), (2)")
    assert db.execute("SELECT sum(a) AS s FROM r").to_pylist() == [{"s": 3}]
    assert db.sql("WITH c AS (SELECT a FROM R) SELECT max(a) AS m FROM c").to_pylist() == [{"m": 2}]
    assert db.execute("EXPLAIN SELECT sum(a) AS s FROM r")
    db.execute("CREATE MATERIALIZED VIEW v AS SELECT a FROM r; REFRESH MATERIALIZED VIEW v")
    assert db.execute("EXPLAIN v") == db.explain("V")
    for bad in ("SELECT nope FROM r", "SELECT * FROM nowhere", "SELEC 1", "SELECT * FROM 'file.csv'"):
        with pytest.raises(ViewletError):
            db.sql(bad)
    with pytest.raises(SqlError):
        db.sql("CREATE TABLE t (a BIGINT)")


def test_ad_hoc_queries_cannot_leave_the_database(db: Any, tmp_path: Any) -> None:
    (tmp_path / "secret.csv").write_text("a\n1\n")
    with pytest.raises(ViewletError):
        db.sql(f"SELECT * FROM read_csv('{tmp_path}/secret.csv')")


def test_names_that_exist_or_do_not(db: Any) -> None:
    db.execute("CREATE TABLE r (a BIGINT); CREATE MATERIALIZED VIEW v AS SELECT a FROM r")
    db.execute("CREATE TABLE IF NOT EXISTS r (z BIGINT)")
    db.execute("CREATE MATERIALIZED VIEW IF NOT EXISTS v AS SELECT a + 1 AS b FROM r")
    assert [column.name for column in db.view("v").columns] == ["a"]
    before = state(db)
    refused = {
        "CREATE TABLE r (a BIGINT)": "'r' exists already",
        "CREATE TABLE v (a BIGINT)": "'v' exists already",
        "CREATE MATERIALIZED VIEW v AS SELECT a FROM r": "'v' exists already",
        "CREATE OR REPLACE MATERIALIZED VIEW r AS SELECT 1 AS a": "'r' exists already",
        "CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT a FROM v": "cannot read itself",
        "DROP TABLE nowhere": "no table or view 'nowhere'",
        "DROP TABLE v": "use DROP MATERIALIZED VIEW v",
        "DROP MATERIALIZED VIEW r": "use DROP TABLE r",
        "DROP TABLE r": "read by the views v",
        "REFRESH MATERIALIZED VIEW r": "is a table",
        "INSERT INTO v VALUES (1)": "'v' is a view",
    }
    for statement, message in refused.items():
        with pytest.raises(CatalogError, match=message):
            db.execute(statement)
    assert state(db) == before
    for call, message in (
        (lambda: db.table("v"), "'v' is a view"),
        (lambda: db.view("r"), "'r' is a table"),
        (lambda: db.insert("nowhere", []), "no table or view 'nowhere'; existing: r, v"),
        (lambda: db.apply({"v": [(1,)]}), "'v' is a view"),
    ):
        with pytest.raises(CatalogError, match=message):
            call()
    db.execute("DROP TABLE IF EXISTS nowhere; DROP MATERIALIZED VIEW v RESTRICT; DROP TABLE r CASCADE")
    assert db.catalog.keys() == set()


# Views.


def test_a_view_created_after_its_data_is_backfilled(db: Any) -> None:
    db.execute("CREATE TABLE r (a BIGINT, b BIGINT)")
    db.insert("r", [(1, 10), (1, 20), (2, None)])
    db.execute("CREATE MATERIALIZED VIEW v AS SELECT a, sum(b) AS s FROM r GROUP BY a")
    assert db.view("v").rows() == [(1, 30), (2, None)]


def test_views_on_views_are_one_commit(db: Any) -> None:
    db.execute("CREATE TABLE r (g BIGINT, v BIGINT)")
    db.execute("CREATE MATERIALIZED VIEW a AS SELECT g, sum(v) AS s FROM r GROUP BY g")
    db.execute("CREATE MATERIALIZED VIEW b AS SELECT max(s) AS m FROM a")
    db.execute("CREATE MATERIALIZED VIEW c AS SELECT r.v, b.m FROM r, b WHERE r.v < b.m")
    seen: list[pa.Table] = []
    db.view("c").subscribe(seen.append)
    db.insert("r", [(1, 5), (1, 6), (2, 7)])
    assert db.view("b").value == 11
    assert db.view("c").rows() == [(5, 11), (6, 11), (7, 11)]
    db.delete("r", [(1, 6)])
    assert db.view("b").value == 7
    assert db.view("c").rows() == [(5, 7)]
    assert [set(table["_commit_version"].to_pylist()) for table in seen] == [{1}, {2}]
    with pytest.raises(CatalogError, match="MATERIALIZED VIEW 'b' is read by the views c"):
        db.execute("DROP MATERIALIZED VIEW b")
    with pytest.raises(CatalogError, match="TABLE 'r' is read by the views a, c"):
        db.execute("DROP TABLE r")
    for statement, first in (("DROP TABLE r CASCADE", "c, b, a"), ("DROP MATERIALIZED VIEW b CASCADE", "c")):
        with pytest.raises(UnsupportedError, match=f"drop these first, in this order: {first}$"):
            db.execute(statement)
    with pytest.raises(CatalogError, match="TABLE 'r' is read by the views a, c"):
        db.execute("DROP TABLE r RESTRICT")
    with pytest.raises(CatalogError, match="read by the views b"):
        db.execute("CREATE OR REPLACE MATERIALIZED VIEW a AS SELECT g, 1 AS s FROM r")


def test_order_and_limit(db: Any) -> None:
    db.execute("CREATE TABLE r (a BIGINT, b VARCHAR)")
    db.execute("CREATE MATERIALIZED VIEW o AS SELECT a, b FROM r ORDER BY a DESC NULLS LAST, b")
    db.execute("CREATE MATERIALIZED VIEW t AS SELECT a, b FROM r ORDER BY a DESC NULLS LAST LIMIT 2")
    db.insert("r", [(1, "x"), (3, "y"), (None, "n"), (3, "x")])
    assert db.view("o").rows() == [(3, "x"), (3, "y"), (1, "x"), (None, "n")]
    assert db.view("t").rows() == [(3, "x"), (3, "y")]
    db.delete("r", [(3, "x")])
    assert db.view("t").rows() == [(3, "y"), (1, "x")]
    assert db.view("t").to_arrow()["b"].to_pylist() == ["y", "x"]


def test_refresh_policies(db: Any) -> None:
    db.execute("CREATE TABLE r (a BIGINT)")
    for policy in ("AUTO", "INCREMENTAL", "FULL"):
        db.execute(f"CREATE MATERIALIZED VIEW v_{policy} REFRESH {policy} AS SELECT sum(a) AS s FROM r")
    db.insert("r", [(1,), (2,)])
    assert [db.view(f"v_{policy}").value for policy in ("auto", "incremental", "full")] == [3, 3, 3]
    assert "recomputed from scratch" in db.explain("v_full")
    before = state(db)
    strict = "CREATE MATERIALIZED VIEW strict REFRESH INCREMENTAL STRICT AS SELECT sum(a) AS s FROM r"
    if "recomputed from scratch" in db.explain("v_auto"):
        with pytest.raises(CompileError, match="'strict' is not incremental: the strategy is reevaluate"):
            db.execute(strict)
        assert state(db) == before
    else:
        db.execute(strict)
        assert db.view("strict").value == 3
    db.insert("r", [(3,)])
    db.execute("CREATE MATERIALIZED VIEW on_full AS SELECT s + 1 AS t FROM v_full")
    db.insert("r", [(10,)])
    assert db.view("on_full").value == db.view("v_full").value + 1


def test_replacing_a_view(db: Any) -> None:
    db.execute("CREATE TABLE r (a BIGINT); CREATE MATERIALIZED VIEW v AS SELECT sum(a) AS s FROM r")
    subscription = db.view("v").subscribe(lambda table: None)
    db.insert("r", [(1,), (2,)])
    with pytest.raises(ViewletError):
        db.execute("CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT 1 / (count(*) - 2) AS x FROM r")
    assert db.view("v").value == 3
    db.execute("CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT max(a) AS m, min(a) AS n FROM r")
    assert db.view("v").rows() == [(2, 1)]
    assert not subscription.active
    db.insert("r", [(7,)])
    assert db.view("v").rows() == [(7, 1)]


def test_value_needs_one_row_and_one_column(db: Any) -> None:
    db.execute("CREATE TABLE r (a BIGINT); CREATE MATERIALIZED VIEW v AS SELECT a FROM r")
    with pytest.raises(DataError, match="'v' has 0 rows and 1 columns"):
        _ = db.view("v").value
    db.insert("r", [(1,)])
    assert db.view("v").value == 1
    with pytest.raises(BackendError, match="to_spark"):
        db.view("v").to_spark()


def test_logical_types_come_out(db: Any) -> None:
    db.execute("CREATE TABLE r (d DECIMAL(6,2), day DATE, at TIMESTAMP)")
    db.execute("CREATE MATERIALIZED VIEW v AS SELECT sum(d) AS d, max(day) AS day, min(at) AS at FROM r")
    moment = datetime.datetime(2024, 1, 1, 12, 30)
    db.insert("r", [(Decimal("1.10"), datetime.date(2024, 1, 1), moment), (Decimal("2.20"), None, None)])
    assert db.view("v").rows() == [(Decimal("3.30"), datetime.date(2024, 1, 1), moment)]
    schema = db.view("v").to_arrow().schema
    assert schema.types == [pa.decimal128(16, 2), pa.date32(), pa.timestamp("us")]
    assert db.view("v").to_pandas()["d"][0] == db.view("v").to_polars()["d"][0] == Decimal("3.30")


# Atomicity.


BAD_BATCHES = [
    ({"r": [(1, 1)], "s": [(2, "x")]}, DataError, "BIGINT is expected"),
    ({"s": [(1, 2)], "r": [(1,)]}, DataError, "row 0 has 1 values"),
    ({"r": [(1, 1)], "nowhere": [(1,)]}, CatalogError, "nowhere"),
    ({"r": [(1, 1)], "R": [(1, 1)]}, DataError, "occurs twice"),
    ({"s": [(5, 5)], "r": [{"a": 77, "b": 1, "_weight": -1}]}, DataError, "not there"),
    ({"r": [(None, 1)]}, DataError, "NULL in a NOT NULL column"),
    ({"s": [(5, 0)], "r": [(9, 9)]}, ValueRangeError, "division by zero"),
]


@pytest.mark.parametrize(("batch", "error", "message"), BAD_BATCHES)
def test_a_refused_batch_leaves_no_trace(db: Any, batch: Any, error: type[Exception], message: str) -> None:
    db.execute("CREATE TABLE r (a BIGINT NOT NULL, b BIGINT); CREATE TABLE s (c BIGINT, d BIGINT)")
    db.execute("CREATE MATERIALIZED VIEW j AS SELECT a, sum(b) AS s FROM r GROUP BY a")
    db.execute("CREATE MATERIALIZED VIEW q AS SELECT sum(c / d) AS q FROM s")
    db.execute("CREATE MATERIALIZED VIEW up AS SELECT max(s) AS m FROM j")
    db.apply({"r": [(1, 2), (1, 3)], "s": [(4, 2)]})
    seen: list[pa.Table] = []
    for name in ("j", "q", "up"):
        db.view(name).subscribe(seen.append)
    before = state(db)
    for trigger in ("auto", "tuple", "batch"):
        with pytest.raises(error, match=message):
            db.apply(batch, trigger=trigger)
        assert state(db) == before
    assert seen == []
    db.apply({"r": [(2, 9)], "s": [(1, 1)]})
    assert db.view("up").value == 9
    assert db.view("q").value == 3.0


def test_a_batch_that_is_no_mapping_is_refused(db: Any) -> None:
    with pytest.raises(DataError, match="mapping from tables to their changes, not list"):
        db.apply([(1, 2)])


def test_a_view_that_cannot_be_filled_is_refused_by_name(db: Any) -> None:
    db.execute("CREATE TABLE q (a BIGINT)")
    db.insert("q", [(0,)])
    before = state(db)
    with pytest.raises(ValueRangeError, match="view 'w': 1 / 0: division by zero"):
        db.execute("CREATE MATERIALIZED VIEW w AS SELECT 1 / a AS x FROM q")
    assert state(db) == before


def test_a_sum_out_of_range_is_refused_where_the_view_is_watched(db: Any) -> None:
    db.execute("CREATE TABLE r (a BIGINT); CREATE MATERIALIZED VIEW t AS SELECT sum(a) AS s FROM r")
    db.execute("CREATE MATERIALIZED VIEW u AS SELECT s FROM t")
    db.insert("r", [(2**63 - 1,)])
    before = state(db)
    with pytest.raises(ValueRangeError, match="out of range"):
        db.insert("r", [(1,)])
    assert state(db) == before
    db.insert("r", [(-1,), (1,)])
    assert db.view("u").value == 2**63 - 1


def test_unknown_triggers_backends_strategies_and_targets() -> None:
    with viewlet.connect() as db, pytest.raises(DataError, match="trigger='row'"):
        db.apply({}, trigger="row")
    for wrong in ({"backend": "gpu"}, {"strategy": "magic"}, {"target": 7}):
        with pytest.raises(BackendError):
            viewlet.connect(**wrong)


# Subscriptions.


def test_subscribers_get_the_views_own_changes(db: Any) -> None:
    db.execute("CREATE TABLE r (g VARCHAR, v BIGINT)")
    db.execute("CREATE MATERIALIZED VIEW a AS SELECT g, sum(v) AS s FROM r GROUP BY g")
    db.insert("r", [("x", 1)])
    words: list[pa.Table] = []
    weights: list[pa.Table] = []
    whole: list[pa.Table] = []
    db.view("a").subscribe(words.append)
    subscription = db.view("a").subscribe(weights.append, weights=True)
    db.view("a").subscribe(whole.append, snapshot=True)
    assert [table.to_pylist() for table in whole] == [
        [{"g": "x", "s": 1, "_change_type": "insert", "_commit_version": 1}]
    ]
    db.apply({"r": [("x", 4), ("y", 2)]})
    assert [(row["g"], row["s"], row["_change_type"]) for row in words[0].to_pylist()] == [
        ("x", 1, "delete"),
        ("x", 5, "insert"),
        ("y", 2, "insert"),
    ]
    assert {(row["g"], row["s"], row["_weight"]) for row in weights[0].to_pylist()} == {
        ("x", 1, -1),
        ("x", 5, 1),
        ("y", 2, 1),
    }
    db.apply({"r": [{"g": "x", "v": 3, "_weight": 1}, {"g": "x", "v": 3, "_weight": -1}]})
    db.insert("r", [("x", 0)])
    assert len(words) == len(weights) == 1, "no call when the view did not change"
    subscription.close()
    db.insert("r", [("y", 1)])
    assert (len(words), len(weights), len(whole)) == (2, 1, 3)


def test_a_subscriber_that_raises_does_not_undo_the_commit(db: Any) -> None:
    db.execute("CREATE TABLE r (a BIGINT); CREATE MATERIALIZED VIEW s AS SELECT sum(a) AS s FROM r")

    def fail(_: pa.Table) -> None:
        raise KeyError("lost")

    seen: list[pa.Table] = []
    bad = db.view("s").subscribe(fail)
    db.view("s").subscribe(seen.append)
    with pytest.raises(
        SubscriberError, match="commit 1 is applied and stays, but a subscriber of view 's' raised"
    ) as e:
        db.insert("r", [(1,)])
    assert e.value.version == db.version == 1
    assert isinstance(e.value.__cause__, KeyError)
    assert db.view("s").value == 1
    assert len(seen) == 1
    bad.close()
    db.insert("r", [(1,)])
    assert db.view("s").value == 2


def test_a_subscriber_may_commit_and_order_is_kept(db: Any) -> None:
    db.execute("CREATE TABLE r (a BIGINT); CREATE TABLE log (n BIGINT)")
    db.execute("CREATE MATERIALIZED VIEW s AS SELECT count(*) AS n FROM r")
    versions: list[int] = []

    def chain(table: pa.Table) -> None:
        if len(db.table("r")) < 4:
            db.insert("r", [(len(db.table("r")),)])

    db.view("s").subscribe(chain)
    db.view("s").subscribe(lambda table: versions.append(table["_commit_version"][0].as_py()))
    assert db.insert("r", [(0,)]) == 1
    assert versions == [1, 2, 3, 4]


# Life.


def test_threads_take_turns() -> None:
    with viewlet.connect() as db:
        db.execute("CREATE TABLE r (a BIGINT); CREATE MATERIALIZED VIEW s AS SELECT sum(a) AS s FROM r")
        lane = db.table("r")
        threads = [threading.Thread(target=lambda: [lane.add(1) for _ in range(50)]) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert db.view("s").value == db.version == 200


def test_reprs_stats_and_close(db: Any) -> None:
    db.execute("CREATE TABLE r (a BIGINT NOT NULL); CREATE MATERIALIZED VIEW s AS SELECT sum(a) AS s FROM r")
    db.insert("r", [(1,), (1,)])
    assert repr(db) == "<viewlet database, version 1; tables: r; views: s>"
    assert repr(db.table("r")) == "<table r (a BIGINT NOT NULL)>"
    assert repr(db.view("s")) == "<materialized view s (s BIGINT)>"
    assert repr(db.view("s").subscribe(print)) == "<subscription to s, active>"
    stats = db.stats()
    assert (stats.version, stats.tables, stats.views, stats.refreshes) == (1, {"r": 2}, {"s": 1}, {"s": 1})
    assert stats.maps
    assert "table r: 2 rows" in str(stats)
    view = db.view("s")
    db.close()
    db.close()
    assert repr(db) == "<viewlet database, closed>"
    for call in (view.rows, lambda: db.execute("SELECT 1"), lambda: db.insert("r", [(1,)]), db.stats):
        with pytest.raises(BackendError, match="closed"):
            call()


def test_order_by_needs_its_columns_in_the_result(db: Any) -> None:
    db.execute("CREATE TABLE r (a BIGINT, b BIGINT)")
    with pytest.raises(UnsupportedError, match="ORDER BY"):
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT a FROM r ORDER BY b")
    assert "v" not in db.catalog


@pytest.mark.parametrize("dialect", ["spark", "postgres", "mysql", "duckdb"])
def test_reads_divide_as_views_do(dialect: str) -> None:
    """``7 / 2`` is 3 in PostgreSQL and 3.5 elsewhere, and division by zero is an error everywhere."""
    db = viewlet.connect(dialect=dialect)
    db.execute("CREATE TABLE t (a BIGINT, b BIGINT, d DOUBLE)")
    db.insert("t", [(-7, 2, 2.0), (7, 2, 2.0), (7, -2, 4.0), (6, 3, 0.5), (None, 2, 1.0)])
    for number, expression in enumerate(["a / b", "a / d", "d / b", "-a / b / b", "a % b"]):
        query = f"SELECT {expression} AS q FROM t"
        db.execute(f"CREATE MATERIALIZED VIEW v{number} AS {query}")
        found = db.sql(f"{query} ORDER BY q NULLS FIRST")["q"].to_pylist()
        assert found == [q for (q,) in db.view(f"v{number}").rows()], expression
    for zero in ("a / (b - b)", "d / (d - d)"):
        if dialect == "mysql":  # where it is NULL
            assert set(db.sql(f"SELECT {zero} AS q FROM t")["q"].to_pylist()) == {None}
            continue
        with pytest.raises(ViewletError, match=r"[Dd]ivision by zero"):
            db.sql(f"SELECT {zero} AS q FROM t")
