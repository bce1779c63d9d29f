"""The store: advice, several attributes, versions, saved states, errors."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from random import Random
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import viewlet
from sketches.databases import arrow_result, load, random_changes, random_data, result
from viewlet import sketches
from viewlet.errors import CatalogError, DataError
from viewlet.sketches.backends.duckdb import DuckDB
from viewlet.sketches.backends.duckdb_watch import HAS_TRIGGERS

HAVING = "SELECT a FROM r GROUP BY a HAVING sum(d) > 20"


def test_advice() -> None:
    store = sketches.open(load(random_data(Random(0), 40)))
    advice = {row.attribute: row for row in store.advise("SELECT a FROM r GROUP BY a HAVING avg(d) < 4")}
    assert [name for name, row in advice.items() if row.safe] == ["a"]
    assert advice["a"].estimated_fragments is not None
    assert advice["a"].estimated_gain >= 1
    assert "avg(d) can move either way" in advice["c"].reason


def test_several_attributes() -> None:
    """The restrictions of all attributes hold at once."""
    random = Random(3)
    for _ in range(3):
        data = random_data(random, 30)
        connection = load(data)
        store = sketches.open(connection)
        text = "SELECT a FROM r JOIN s ON b = x GROUP BY a HAVING sum(y) > 5"
        sketch = store.capture(text, on=["r.a", "r.c", "s.y"], ranges=[1, 2, 3], maintain="incremental")
        for _ in range(4):
            assert arrow_result(store.query(text, use="always")) == result(connection, text)
            incremental = [fragments for _, fragments in sketch.restrictions]
            sketch.recapture()
            assert incremental == [fragments for _, fragments in sketch.restrictions]
            store.apply(random_changes(random, data))
        assert sketch.fragments == sketch.fragments_of("r.a")


def test_free_capture_agrees() -> None:
    random = Random(4)
    for _ in range(5):
        connection = load(random_data(random, 30))
        store = sketches.open(connection)
        free = store.capture(HAVING, on="r.a", ranges=[1, 2, 3], way="free")
        assert free.fragments == store.capture(HAVING, on="r.a", ranges=[1, 2, 3]).fragments
    with pytest.raises(sketches.SketchError, match="column of the result"):
        store.capture(HAVING, on="r.c", ranges=[2], way="free")
    second = "SELECT a, count(*) AS n FROM r GROUP BY a ORDER BY n DESC, a NULLS LAST LIMIT 1 OFFSET 1"
    with pytest.raises(sketches.SketchError, match="column of the result"):  # rows are skipped that decide
        store.capture(second, on="r.a", ranges=[2], way="free")


def test_saved_and_restored(tmp_path) -> None:
    random = Random(6)
    data = random_data(random, 40)
    path = str(tmp_path / "data.duckdb")
    texts = {
        HAVING: "r.c",
        "SELECT a, max(d) AS m FROM r GROUP BY a ORDER BY m DESC NULLS LAST, a LIMIT 2": "r.a",
        "SELECT a FROM r GROUP BY a HAVING count(DISTINCT d) > 3": "r.b",
    }
    with duckdb.connect(path) as connection:
        load(data, connection)
        store = sketches.open(connection)
        for text, attribute in texts.items():
            options = {"eager": False, "bound": 2, "maintain": "incremental"}
            store.capture(text, on=attribute, ranges=[1, 2, 3], **options)
        store.apply(random_changes(random, data))
        store.refresh()
        store.save()
        store.apply(random_changes(random, data))
    with duckdb.connect(path) as connection:
        again = sketches.open(connection)
        again.apply(random_changes(random, data))
        for text in texts:
            assert arrow_result(again.query(text, use="always")) == result(connection, text)
        assert [sketch.costs.captures for sketch in again.sketches] == [0, 0, 0]
        restored = [sketch.fragments for sketch in again.sketches]
        for sketch in again.sketches:
            sketch.recapture()
        assert restored == [sketch.fragments for sketch in again.sketches]


def test_forgotten_changes_are_not_taken_for_none(tmp_path) -> None:
    """A sketch that was saved before the log was shortened is captured again."""
    with duckdb.connect(str(tmp_path / "data.duckdb")) as connection:
        load({"r": [(1, 1, 1, 30)], "s": []}, connection)
        store = sketches.open(connection)
        store.capture(HAVING, on="r.a", ranges=[2, 3], maintain="incremental")
        store.save()
        store.apply({"r": [(3, 1, 1, 99)]})
        again = sketches.open(connection)
        assert arrow_result(again.query(HAVING, use="always")) == result(connection, HAVING)
        assert again.sketches[0].costs.captures == 1


def test_changes_that_wait_are_saved_with_the_sketch(tmp_path) -> None:
    """Until a sketch is saved its changes are in this process alone; then a restart goes on from them."""
    path = str(tmp_path / "data.duckdb")
    with duckdb.connect(path) as connection:
        load({"r": [(1, 1, 1, 30), (2, 1, 1, 9)], "s": []}, connection)
        store = sketches.open(connection)
        options = {"on": "r.a", "ranges": [2, 3], "maintain": "incremental", "eager": False}
        store.capture(HAVING, **options)
        store.apply({"r": [(3, 1, 1, 99)]})
        store.apply({"r": [(2, 1, 1, 20)], "s": [(1, 1)]})
        assert connection.execute("SELECT count(*) FROM viewlet_sketches.changes_r").fetchall() == [(0,)]
        store.save()
        assert connection.execute("SELECT count(*) FROM viewlet_sketches.changes_r").fetchall() == [(2,)]
        store.apply({"r": [{"a": 1, "b": 1, "c": 1, "d": 30, "_weight": -1}]})
    with duckdb.connect(path) as connection:
        again = sketches.open(connection)
        assert arrow_result(again.query(HAVING, use="always")) == result(connection, HAVING)
        (sketch,) = again.sketches
        assert (sketch.fragments, sketch.costs.captures) == ({1, 2}, 0)


def test_saving_completes_logs_that_another_store_has_shortened() -> None:
    connection = load({"r": [(1, 1, 1, 30), (2, 1, 1, 9)], "s": []})
    store = sketches.open(connection)
    store.capture(HAVING, on="r.a", ranges=[2, 3], maintain="incremental", eager=False)
    store.save()
    store.apply({"r": [(3, 1, 1, 99)]})
    other = sketches.open(connection)
    other.sketches.clear()
    other.refresh()  # of no sketch: all logs are emptied
    store.apply({"r": [(2, 1, 1, 20)]})
    store.save()
    again = sketches.open(connection)
    assert arrow_result(again.query(HAVING, use="always")) == result(connection, HAVING)
    assert arrow_result(store.query(HAVING, use="always")) == result(connection, HAVING)


@pytest.mark.parametrize("keep", ["operators", "reference"])
@pytest.mark.parametrize("seed", range(6))
def test_stores_that_come_and_go(keep: Any, seed: int) -> None:
    """Whoever changes the data, saves, forgets or starts again: a query sees the data as it is."""
    random = Random(seed)
    data = random_data(random, 30)
    connection = load(data)
    text = "SELECT r.a FROM r, s WHERE r.b = s.x GROUP BY r.a HAVING sum(d) > 20"
    texts = (HAVING, text)
    triggers = HAS_TRIGGERS and seed % 3 > 0

    def opened() -> sketches.Store:
        store = sketches.open(connection, triggers=triggers)
        for query in texts if not store.sketches else ():
            options = {"eager": random.random() < 0.5, "maintain": "incremental", "keep": keep}
            store.capture(query, on="r.a", ranges=[1, 2, 3], **options)
        return store

    stores = [opened(), opened()]
    for _ in range(40):
        place = random.randrange(2)
        store = stores[place]
        match random.choice(["apply", "apply", "apply", "refresh", "save", "restart", "behind", "fail"]):
            case "apply":
                store.apply(random_changes(random, data))
            case "refresh":
                store.refresh()
            case "save":
                store.save()
            case "restart":
                stores[place] = opened()
            case "behind":
                statement = random.choice(BEHIND if triggers else BEHIND[:1])
                random.choice([connection, connection.cursor()]).execute(statement)
                data["r"] = connection.execute("FROM r").fetchall()
            case "fail":
                with pytest.raises(DataError, match="are not there"):
                    store.apply({"r": [{"a": 77, "b": 0, "c": 0, "d": 0, "_weight": -1}]})
        if random.random() < 0.5:
            query, store = random.choice(texts), random.choice(stores)
            assert arrow_result(store.query(query, use="always")) == result(connection, query)


def test_tables_that_others_alter() -> None:
    """A batch is read by the columns that its table has now."""
    connection = load({"r": [(1, 1, 1, 30)], "s": []})
    store = sketches.open(connection)
    store.capture(HAVING, on="r.a", ranges=[2, 3], maintain="incremental")
    store.apply({"r": [(2, 1, 1, 99)]})
    connection.execute("ALTER TABLE r ADD COLUMN e INT")
    with pytest.raises(DataError, match="'e' is missing"):
        store.apply({"r": [{"a": 2, "b": 1, "c": 1, "d": 9}]})
    store.apply({"r": [(3, 1, 1, 99, 5)]})
    assert result(connection, "SELECT * FROM r WHERE e = 5") == {(3, 1, 1, 99, 5): 1}
    assert arrow_result(store.query(HAVING, use="always")) == result(connection, HAVING)
    connection.execute("DROP TABLE r")
    with pytest.raises(CatalogError, match="r"):
        store.apply({"r": [(2, 1, 1, 99)]})


def test_changes_behind_the_back_are_noticed() -> None:
    connection = load({"r": [(1, 1, 1, 30)], "s": []})
    store = sketches.open(connection)
    sketch = store.capture(HAVING, on="r.a", ranges=[2, 3], maintain="incremental")
    connection.execute("INSERT INTO r VALUES (3, 1, 1, 99)")
    assert arrow_result(store.query(HAVING, use="always")) == result(connection, HAVING)
    assert sketch.costs.captures == 2
    store.apply({"r": [(2, 1, 1, 99)]})
    assert sketch.costs.captures == 2
    assert arrow_result(store.query(HAVING, use="always")) == result(connection, HAVING)


@pytest.mark.skipif(not HAS_TRIGGERS, reason="DuckDB has triggers since 2.0")
def test_transactions_of_others_are_noticed_when_they_commit() -> None:
    """A change that keeps the number of rows, open on another cursor while the store writes."""
    connection = load({"r": [(a, 1, 1, 30) for a in range(6)], "s": []})
    store = sketches.open(connection)
    sketch = store.capture(HAVING, on="r.a", ranges=[2, 3], maintain="incremental", eager=False)
    other = connection.cursor()
    other.begin()
    other.execute("UPDATE r SET d = 1 WHERE a > 2")
    for a in (7, 8):
        store.apply({"r": [(a, 1, 1, 30)]})
        assert arrow_result(store.query(HAVING, use="always")) == result(connection, HAVING)
    assert sketch.costs.captures == 1
    other.commit()
    sketch.refresh()
    assert sketch.costs.captures == 2
    assert arrow_result(store.query(HAVING, use="always")) == result(connection, HAVING)


@pytest.mark.skipif(not HAS_TRIGGERS, reason="DuckDB has triggers since 2.0")
def test_changes_are_noticed_after_others_have_rolled_back() -> None:
    """What was undone left a number drawn for good, before or after the store looked."""
    connection = load({"r": [(a, 1, 1, 30) for a in range(6)], "s": []})
    store = sketches.open(connection)
    sketch = store.capture(HAVING, on="r.a", ranges=[2, 3], maintain="incremental", eager=False)
    other = connection.cursor()
    for captures, d in ((2, 1), (3, 40)):
        other.begin()
        other.execute("UPDATE r SET d = 2")
        store.apply({"r": [(7, 1, 1, 30)]})
        sketch.refresh()
        other.rollback()
        store.apply({"r": [(8, 1, 1, 30)]})
        sketch.refresh()
        assert sketch.costs.captures == captures - 1
        other.execute(f"UPDATE r SET d = {d} WHERE a > 2")
        sketch.refresh()
        assert sketch.costs.captures == captures
        assert arrow_result(store.query(HAVING, use="always")) == result(connection, HAVING)


@pytest.mark.skipif(not HAS_TRIGGERS, reason="DuckDB has triggers since 2.0")
def test_what_was_seen_in_a_transaction_of_others_is_not_trusted() -> None:
    """A sketch that is asked within a transaction of the user's, which is then undone."""
    connection = load({"r": [(a, 1, 1, 30) for a in range(6)], "s": []})
    store = sketches.open(connection)
    sketch = store.capture(HAVING, on="r.a", ranges=[2, 3], maintain="incremental", eager=False)
    connection.begin()
    connection.execute("UPDATE r SET d = 2 WHERE a < 3")
    with pytest.raises(duckdb.TransactionException):
        sketch.refresh()
    connection.rollback()
    sketch.refresh()
    assert sketch.costs.captures == 1
    connection.execute("UPDATE r SET d = 1 WHERE a > 2")
    sketch.refresh()
    assert sketch.costs.captures == 2
    assert arrow_result(store.query(HAVING, use="always")) == result(connection, HAVING)


@pytest.mark.skipif(not HAS_TRIGGERS, reason="DuckDB has triggers since 2.0")
def test_changes_are_noticed_after_a_batch_that_failed() -> None:
    """The failed batch has drawn numbers too; of a table without triggers none is expected."""
    connection = load({"r": [(a, 1, 1, 30) for a in range(6)], "s": []})
    store = sketches.open(connection)
    sketch = store.capture(HAVING, on="r.a", ranges=[2, 3], maintain="incremental", eager=False)
    store.apply({"s": [(1, 1)]})
    connection.execute("UPDATE r SET d = 1 WHERE a = 4")
    sketch.refresh()
    assert sketch.costs.captures == 2
    gone = pa.table({"a": [0, 9], "b": [1, 1], "c": [1, 1], "d": [30, 30], "_weight": [-1, -1]})
    with pytest.raises(DataError, match="1 of 2 rows to delete are not there"):
        store.apply({"r": gone})
    sketch.refresh()
    assert sketch.costs.captures == 2
    connection.execute("UPDATE r SET d = 1 WHERE a = 5")
    sketch.refresh()
    assert sketch.costs.captures == 3
    assert arrow_result(store.query(HAVING, use="always")) == result(connection, HAVING)


def test_tables_stay_without_triggers_where_that_is_asked() -> None:
    """MERGE works; numbers of rows are noticed; a store that watches otherwise trusts nothing."""
    connection = load({"r": [(1, 1, 1, 30), (3, 1, 1, 30)], "s": []})
    store = sketches.open(connection, triggers=False)
    sketch = store.capture(HAVING, on="r.a", ranges=[2, 3], maintain="incremental")
    store.apply({"r": [(2, 1, 1, 99)]})
    assert sketch.costs.captures == 1
    connection.execute(
        "MERGE INTO r USING (SELECT 5 AS a) s ON r.a = s.a WHEN NOT MATCHED THEN INSERT VALUES (5, 1, 1, 99)"
    )
    assert arrow_result(store.query(HAVING, use="always")) == result(connection, HAVING)
    assert sketch.costs.captures == 2
    store.apply({"r": [(3, 1, 1, 99), (1, 1, 1, 9)]})
    store.apply({"r": [{"a": 5, "b": 1, "c": 1, "d": 99, "_weight": -1}]})
    assert sketch.costs.captures == 2
    assert arrow_result(store.query(HAVING, use="always")) == result(connection, HAVING)
    other = sketches.open(connection)
    other.capture(HAVING, on="r.a", ranges=[2, 3], maintain="incremental")
    other.apply({"r": [(4, 1, 1, 99)]})
    for each in (store, other):
        assert arrow_result(each.query(HAVING, use="always")) == result(connection, HAVING)


def test_only_tables_of_duckdb_do_without_triggers() -> None:
    with pytest.raises(sketches.SketchError, match="triggers=False is for tables of DuckDB"):
        sketches.open(viewlet.connect(), triggers=False)


@pytest.mark.skipif(not HAS_TRIGGERS, reason="DuckDB has triggers since 2.0")
def test_marks_are_added_up() -> None:
    """What notices changes does not grow with their number, and forgets none."""
    connection = load({"r": [(1, 1, 1, 30)], "s": []})
    store = sketches.open(connection)
    sketch = store.capture(HAVING, on="r.a", ranges=[2, 3], maintain="incremental")
    for number in range(300):
        store.apply({"r": [(number % 4, 1, 1, 9)]})
    assert sketch.costs.captures == 1
    ((kept,),) = connection.execute("SELECT count(*) FROM viewlet_sketches.statements").fetchall()
    assert kept < 200
    connection.execute("UPDATE r SET d = 0 WHERE a = 3")
    assert arrow_result(store.query(HAVING, use="always")) == result(connection, HAVING)
    assert sketch.costs.captures == 2


def test_failed_batch_changes_nothing() -> None:
    connection = load({"r": [(1, 1, 1, 30), (1, 1, 1, 30)], "s": []})
    store = sketches.open(connection)
    sketch = store.capture(HAVING, on="r.a", ranges=[2, 3])
    before = sketch.version
    batch = pa.table({"a": [1, 2], "b": [1, 1], "c": [1, 1], "d": [30, 30], "_weight": [-3, 1]})
    with pytest.raises(DataError, match="1 of 3 rows to delete are not there"):
        store.apply({"r": batch})
    assert result(connection, "SELECT count(*) FROM r") == {(2,): 1}
    assert sketch.version == before
    assert sketch.fragments == {0}
    store.apply({"r": batch.set_column(4, "_weight", pa.array([-2, 1]))})
    assert sketch.fragments == {1}


def test_failure_while_following_undoes_all(monkeypatch) -> None:
    """If one sketch cannot follow a batch, the batch is undone, and no sketch believes in it."""
    connection = load({"r": [(1, 1, 1, 30)], "s": []})
    store = sketches.open(connection)
    first = store.capture(HAVING, on="r.a", ranges=[2, 3], maintain="incremental")
    second = store.capture(HAVING, on="r.c", ranges=[2, 3], maintain="incremental")

    def fail(changed: frozenset[str]) -> None:
        raise RuntimeError("no memory left")

    monkeypatch.setattr(second._state, "change", fail)
    with pytest.raises(RuntimeError, match="no memory left"):
        store.apply({"r": [(3, 1, 1, 99)]})
    assert result(connection, "SELECT count(*) FROM r") == {(1,): 1}
    store.apply({"r": [(2, 1, 1, 99)]})
    assert (first.fragments, second.fragments) == ({0, 1}, {0})
    assert arrow_result(store.query(HAVING, use="always")) == result(connection, HAVING)


def test_types_of_attributes() -> None:
    """Dates, decimals, doubles and text can be cut into ranges."""
    connection = duckdb.connect()
    connection.execute("CREATE TABLE t (k DATE, p DECIMAL(9,2), f DOUBLE, w VARCHAR, n INT)")
    connection.execute(
        "INSERT INTO t SELECT DATE '2020-01-01' + i::INT, i / 4, i / 8, 'w' || (i % 10), i % 7 "
        "FROM range(200) g(i)"
    )
    store = sketches.open(connection)
    for column in ("k", "p", "f", "w"):
        text = f"SELECT {column}, sum(n) AS s FROM t GROUP BY {column} HAVING sum(n) > 5"
        sketch = store.capture(text, on=f"t.{column}", ranges=16)
        assert len(sketch.fragments) > 0
        assert arrow_result(store.query(text, use="always")) == result(connection, text)
    store.apply({"t": [(None, Decimal("3.5"), 900.0, "zz", 50)]})
    for sketch in store.sketches:
        assert arrow_result(store.query(sketch.text, use="always")) == result(connection, sketch.text)


@pytest.mark.parametrize(
    ("query", "on", "ranges", "reason"),
    [
        (HAVING, "a", 4, "table.column"),
        (HAVING, "r.nope", 4, "no column nope"),
        (HAVING, "r.a", [3, 2], "must increase"),
        (HAVING, "r.a", 0, "at least 1"),
        ("SELECT a FROM r WHERE d / 3 > 1.5", "r.a", 4, None),
    ],
)
def test_errors(query: str, on: str, ranges: object, reason: str | None) -> None:
    connection = load(random_data(Random(1), 20))
    store = sketches.open(connection)
    if reason is None:
        store.capture(query, on=on, ranges=ranges)
        assert arrow_result(store.query(query, use="always")) == result(connection, query)
        return
    with pytest.raises(sketches.SketchError, match=reason):
        store.capture(query, on=on, ranges=ranges)


def test_unknown_connection_is_refused() -> None:
    with pytest.raises(sketches.SketchError, match="cannot keep sketches"):
        sketches.open(object())


def test_skew_gets_ranges_of_its_own() -> None:
    """Most-common values do not drag their neighbours along."""
    connection = load({"r": [(1 if i % 2 else i % 50, i, i, i) for i in range(400)], "s": []})
    store = sketches.open(connection)
    sketch = store.capture("SELECT a FROM r GROUP BY a HAVING count(*) > 100", on="r.a", ranges=8)
    (partition,) = sketch.partitions
    assert partition.intervals(sketch.fragments) == [(1, 2)]


BEHIND = (
    "INSERT INTO r VALUES (3, 1, 1, 7)",
    "UPDATE r SET d = coalesce(d, 0) + 9 WHERE a = 2",
    "UPDATE r SET d = 0",
    "BEGIN; DELETE FROM r WHERE a = 1; INSERT INTO r VALUES (1, 1, 1, 40); COMMIT",
    "BEGIN; UPDATE r SET d = 40; ROLLBACK",
    "CREATE OR REPLACE TABLE r AS SELECT b AS a, a AS b, c, d FROM r",
)


@pytest.mark.parametrize("keep", ["operators", "reference"])
def test_sketches_of_different_versions(keep: Any) -> None:
    """Changes that one sketch has yet to see are not seen twice by another."""
    store = sketches.open(load({"r": [(1, 1, 1, 9), (2, 1, 2, 9)], "s": []}))
    text = "SELECT a FROM r GROUP BY a HAVING count(*) = 2"
    lagging = store.capture(text, on="r.a", ranges=[2, 3], eager=False, keep=keep)
    prompt = store.capture(text, on="r.a", ranges=[2, 3], eager=False, keep=keep, maintain="incremental")
    store.apply({"r": [(1, 1, 1, 1)]})
    prompt.refresh()
    assert prompt.fragments == {0}
    store.apply({"r": [(3, 1, 1, 1)]})
    prompt.refresh()
    assert prompt.fragments == {0}
    store.apply({"r": [(3, 1, 1, 1)]})
    prompt.refresh()
    assert prompt.fragments == {0, 2}
    lagging.refresh()
    assert lagging.fragments == {0, 2}


@pytest.mark.parametrize("keep", ["operators", "reference"])
def test_selection_is_pushed_into_the_fetch(keep: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Changes that are in the database alone, and that the query does not select, never leave it."""
    store = sketches.open(load({"r": [(1, 1, 1, 9), (2, 1, 2, 9)], "s": []}))
    text = "SELECT a FROM r WHERE b > 5 GROUP BY a HAVING sum(d) > 3"
    sketch = store.capture(text, on="r.a", ranges=[2], keep=keep, maintain="incremental", eager=False)
    store.save()  # so changes are logged
    backend: Any = store._backend
    fetched: list[int] = []
    run = backend.run

    def counting(query: str) -> pa.Table:
        found = run(query)
        if "staged_r" in query:
            fetched.append(found.num_rows)
        return found

    monkeypatch.setattr(backend, "run", counting)
    for rows, selected in (([(1, b, 1, 9) for b in range(6)], 0), ([(1, 6, 1, 9)], 1)):
        store.apply({"r": rows})
        backend._memory = replace(backend._memory, applied=())  # as if another process had made them
        sketch.refresh()
        assert fetched
        assert sum(fetched) == selected
    assert sketch.fragments == {0}
    assert "5" in next(
        line for line in sketch.explain().splitlines() if "b" in line and "changes of r" in line
    )


@pytest.mark.native
def test_large_tables_are_kept_by_triggers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DuckDB, "large", 2)
    store = sketches.open(load({"r": [(1, 1, 1, 9), (2, 1, 2, 9)], "s": [(1, 1)]}))
    alone = store.capture(HAVING, on="r.a", ranges=[2])
    assert "triggers" in alone.explain()
    small = store.capture("SELECT x FROM s GROUP BY x HAVING count(*) > 1", on="s.x", ranges=[2])
    assert "operators" in small.explain()
    assert "changes are followed, 1000 in about" in alone.explain()
    first = "SELECT a FROM r ORDER BY a, b, c, d LIMIT 1"
    assert "summed up by triggers" in store.capture(first, on="r.a", ranges=[2]).explain()
    bounded = store.capture(first, on="r.a", ranges=[2], bound=10)
    assert "summed up in the database" in bounded.explain()


def test_triggers_follow_what_operators_cannot() -> None:
    """Outer joins and EXCEPT are views like others."""
    data = random_data(Random(8), 20)
    store = sketches.open(load(data))
    texts = {
        "SELECT a, b FROM r EXCEPT SELECT x, y FROM s": "r.a",
        "SELECT a, y FROM r LEFT JOIN s ON b = x WHERE c < 4": "r.a",
        "SELECT a, n FROM r JOIN (SELECT b AS k, count(*) AS n FROM r GROUP BY b HAVING count(*) > 2) AS t "
        "ON b = k": "r.b",
    }
    kept = [
        store.capture(text, on=on, ranges=[1, 2, 3], keep="reference", maintain="incremental")
        for text, on in texts.items()
    ]
    fresh = [store.capture(text, on=on, ranges=[1, 2, 3], maintain="recapture") for text, on in texts.items()]
    random = Random(9)
    for _ in range(4):
        store.apply(random_changes(random, data))
        assert [sketch.fragments for sketch in kept] == [sketch.fragments for sketch in fresh]
    assert [sketch.costs.captures for sketch in kept] == [1, 1, 1]


FIRST = {
    "SELECT a, sum(d) AS t FROM r JOIN s ON b = x GROUP BY a ORDER BY t DESC NULLS LAST, a LIMIT 2": "r.a",
    "SELECT a, b, max(d) AS m, min(d) AS l, count(DISTINCT c) AS n FROM r WHERE c < 5 GROUP BY a, b "
    "ORDER BY m DESC NULLS LAST, l NULLS LAST, n, a, b LIMIT 3": "r.b",
    "SELECT y, t FROM (SELECT a, y, sum(d) AS t FROM r JOIN s ON a = x GROUP BY a, y UNION ALL "
    "SELECT a, b, c FROM r) AS q ORDER BY t NULLS FIRST, y, a LIMIT 2 OFFSET 1": "r.a",
    "SELECT a, b, c, d FROM r WHERE d > 2 ORDER BY d, c, b, a LIMIT 4": "r.c",
}


@pytest.mark.parametrize("bound", [None, 1])
@pytest.mark.parametrize("text", FIRST)
def test_operators_above_views(text: str, bound: int | None) -> None:
    """Top-k is followed without a query: joins and sums by triggers, order by operators."""
    random = Random(10)
    data = random_data(random, 20)
    connection = load(data)
    store = sketches.open(connection)
    options: dict[str, Any] = {"on": FIRST[text], "ranges": [1, 2, 3]}
    kept = store.capture(text, keep="reference", maintain="incremental", bound=bound, **options)
    fresh = store.capture(text, maintain="recapture", **options)
    assert "summed up by triggers" in kept.explain()
    for _ in range(6):
        store.apply(random_changes(random, data))
        assert kept.fragments == fresh.fragments
        assert arrow_result(store.answer(text, kept)) == result(connection, text)
    assert kept.incremental
    assert (kept.costs.captures == 1) or bound is not None


@pytest.mark.parametrize(
    "keep", ["reference", pytest.param("native", marks=[pytest.mark.native, pytest.mark.slow])]
)
@pytest.mark.parametrize(
    "text", ["SELECT a FROM r JOIN s ON b = x GROUP BY a HAVING sum(d) > 20", next(iter(FIRST))]
)
def test_triggers_are_saved_and_restored(text: str, keep: Any) -> None:
    """The streams come back with what they hold, and go on from there; nothing is captured again."""
    random = Random(12)
    data = random_data(random, 25)
    connection = load(data)
    store = sketches.open(connection)
    store.capture(text, on="r.a", ranges=[1, 2, 3], keep=keep, maintain="incremental")
    store.apply(random_changes(random, data))
    store.save()
    again = sketches.open(connection)
    (sketch,) = again.sketches
    fresh = again.capture(text, on="r.a", ranges=[1, 2, 3], maintain="recapture")
    for _ in range(3):
        again.apply(random_changes(random, data))
        assert sketch.fragments == fresh.fragments
        assert arrow_result(again.query(text, use="always")) == result(connection, text)
    assert (sketch.costs.captures, sketch.costs.refreshes) == (0, 3)


def test_layout_advice() -> None:
    connection = duckdb.connect()
    connection.execute(
        "CREATE TABLE r AS SELECT (i * 7919 % 1000)::INT AS a, i::INT AS d FROM range(300000) t(i)"
    )
    text = "SELECT a FROM r WHERE a < 10 GROUP BY a HAVING sum(d) > 20"
    told = sketches.open(connection).capture(text, on="r.a", ranges=100).explain()
    assert "stored in the order of r.a" in told
