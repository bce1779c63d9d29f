"""Rows through a gate do what rows the long way do, and a gate is closed whenever it should be."""

from __future__ import annotations

import gc
import os
import threading
import weakref
from collections import Counter
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import viewlet
from viewlet import places
from viewlet.errors import BackendError, DataError, ValueRangeError, ViewletError

pytestmark = pytest.mark.native

DDL = "CREATE STREAM r (k INT NOT NULL, v BIGINT, s VARCHAR, f DOUBLE, b BOOLEAN)"
KINDS = {
    "stream": DDL,
    "table": DDL.replace("STREAM", "TABLE"),
    "keyed": "CREATE TABLE r (k INT NOT NULL, v BIGINT, s VARCHAR, f DOUBLE, b BOOLEAN, PRIMARY KEY (f, k))",
}
VIEWS = {
    "total": "SELECT sum(v) AS v FROM r",
    "by_s": "SELECT s, count(*) AS n, sum(f) AS f FROM r WHERE b OR k > 0 GROUP BY s",
}
LIMIT = 1 << 63

ROW = st.tuples(
    st.sampled_from([0, -5, 7, 1 << 31, None, "7", True]),
    st.sampled_from([None, 3, LIMIT - 1, -LIMIT, LIMIT, 1.5]),
    st.sampled_from([None, "", "plain", "ä", "\ud800", b"bytes"]),
    st.sampled_from([None, 0.25, -0.0, float("nan"), 3]),
    st.sampled_from([None, True, False, 1]),
)


def database(backend: str = "native", kind: str = "stream") -> viewlet.Database:
    db = viewlet.connect(backend=backend)
    db.execute(KINDS[kind])
    for name, query in VIEWS.items():
        db.execute(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    return db


def has_gate(handle: Any) -> bool:
    return type(handle.add).__name__ == "Gate"


def attempt(call: Any, row: tuple[Any, ...]) -> object:
    try:
        return call(*row)
    except ViewletError as refused:
        return type(refused)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=40, deadline=None)
@given(rows=st.lists(st.tuples(ROW, st.booleans()), max_size=12))
def test_gates_agree_with_the_reference(kind: str, rows: list[tuple[tuple[Any, ...], bool]]) -> None:
    native, reference = database(kind=kind), database("reference", kind)
    tables = native.table("r"), reference.table("r")
    for table in tables:
        table.add(1, 1, "s", 1.0, True)
        table.add(2, 1, "s", 1.0, True)
        table.remove(1, 1, "s", 1.0, True)
    assert has_gate(tables[0])
    for row, coming in rows:
        outcomes = [attempt(table.add if coming else table.remove, row) for table in tables]
        assert outcomes[0] == outcomes[1], row
    assert native.version == reference.version
    assert native.view("total").value == reference.view("total").value
    assert native.stats().refreshes == reference.stats().refreshes
    if kind != "stream":
        assert tables[0].rows() == tables[1].rows()


TYPED = st.tuples(
    st.sampled_from([None, Decimal("1.50"), Decimal("-0.25"), 7, Decimal("1.555"), Decimal("1e9"), 1.5]),
    st.sampled_from([None, date(2024, 2, 29), date(1, 1, 1), "2024-01-01", 3]),
    st.sampled_from([None, datetime(2024, 5, 6, 7, 8, 9, 10), "now"]),
    st.sampled_from([None, -0.0, 0.1, 1e300, 2]),
)


@pytest.mark.parametrize("kind", ["STREAM", "TABLE"])
@settings(max_examples=40, deadline=None)
@given(rows=st.lists(st.tuples(TYPED, st.booleans()), max_size=12))
def test_values_that_are_converted_go_through_gates(kind: str, rows: list[tuple[Any, bool]]) -> None:
    databases = viewlet.connect(backend="native"), viewlet.connect(backend="reference")
    for db in databases:
        db.execute(f"CREATE {kind} r (p DECIMAL(8, 2), d DATE NOT NULL, t TIMESTAMP, f FLOAT)")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT d, sum(p) AS p, max(t) AS t FROM r GROUP BY d")
        for _ in range(2):
            db.table("r").add(Decimal("1.50"), date(2024, 2, 29), None, 0.5)
        for _ in range(2):
            db.table("r").remove(Decimal("1.50"), date(2024, 2, 29), None, 0.5)
    tables = [db.table("r") for db in databases]
    for row, coming in [((7, date(2024, 2, 29), None, 0.5), True)] * 2 + rows:
        outcomes = [attempt(table.add if coming else table.remove, row) for table in tables]
        assert outcomes[0] == outcomes[1], row
    assert has_gate(tables[0])
    assert databases[0].view("v").rows() == databases[1].view("v").rows()
    assert databases[0].version == databases[1].version
    if kind == "TABLE":
        assert tables[0].rows() == tables[1].rows()


ROWS = st.tuples(st.sampled_from([0, 1, 2, 10, 11]), st.sampled_from(["x", "y", None]))
STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["add", "add", "remove"]), ROWS),
        st.tuples(st.sampled_from(["load", "unload"]), st.lists(ROWS, min_size=1, max_size=3)),
        st.tuples(st.just("read"), st.none()),
    ),
    max_size=40,
)
MANY = [(i, "y") for i in range(10, 1_500)]
"""Enough rows that they stay as the Arrow batch that they came in."""


def allowed(held: Counter[Any], rows: list[Any], going: bool, keyed: bool) -> bool:
    if going:
        return Counter(rows) <= held
    taken = [a for a, _ in held.elements()]
    return not keyed or len({*taken, *(a for a, _ in rows)}) == len(taken) + len(rows)


@pytest.mark.parametrize("keyed", [False, True])
@settings(max_examples=80, deadline=None)
@given(steps=STEPS, loaded=st.booleans(), many=st.sampled_from([1_000, 1_000_000]))
def test_rows_of_a_table_come_and_go_by_gates_and_in_batches(
    keyed: bool, steps: list[tuple[str, Any]], loaded: bool, many: int
) -> None:
    """Keys of the rows that came as Arrow are in a native map from ``many`` on."""
    with mock.patch.object(places, "MANY_KEYS", many):
        come_and_go(keyed, steps, loaded)


def come_and_go(keyed: bool, steps: list[tuple[str, Any]], loaded: bool) -> None:
    db = viewlet.connect()
    db.execute(f"CREATE TABLE r (a BIGINT, b VARCHAR{', PRIMARY KEY (a)' if keyed else ''})")
    db.execute("CREATE MATERIALIZED VIEW n AS SELECT b, count(*) AS n FROM r GROUP BY b")
    table, held = db.table("r"), Counter[Any]()
    for what, given_rows in [("load", MANY if loaded else [(9, "x")]), *steps, ("read", None)]:
        if what == "read":
            assert Counter(table.rows()) == held
            continue
        single = what in ("add", "remove")
        rows, going = [given_rows] if single else given_rows, what in ("remove", "unload")
        columns = pa.table([[a for a, _ in rows], pa.array([b for _, b in rows], pa.string())], ["a", "b"])
        change = getattr(table, what) if single else table.delete if going else table.insert
        arguments = given_rows if single else [columns]
        if allowed(held, rows, going, keyed):
            change(*arguments)
            held = held - Counter(rows) if going else held + Counter(rows)
        else:
            with pytest.raises(DataError):
                change(*arguments)
    expected = Counter(b for _, b in held.elements())
    assert dict(db.view("n").rows()) == dict(expected)
    db.close()


@pytest.mark.parametrize("many", [1_000, 1_000_000])
@pytest.mark.parametrize("key", ["a", "b, a", "d"])
def test_rows_beside_those_that_came_as_arrow_go_through_gates(
    key: str, many: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(places, "MANY_KEYS", many)
    db = viewlet.connect()
    db.execute(f"CREATE TABLE r (a BIGINT, b VARCHAR, d DATE, PRIMARY KEY ({key}))")
    db.execute("CREATE MATERIALIZED VIEW n AS SELECT count(*) AS n, max(a) AS a FROM r")
    days = [date(2020, 1, 1) + timedelta(i) for i in range(3_000)]
    db.insert("r", pa.table({"a": range(1_500), "b": ["x"] * 1_500, "d": days[:1_500]}))
    table = db.table("r")
    for i in range(1_500, 1_510):
        table.add(i, "x", days[i])
    gate: Any = table.add
    assert gate.count == 8, "all but the two that made it"
    for row in [(7, "x", days[7]), (1_505, "x", days[1_505])]:
        with pytest.raises(DataError, match="would occur twice"):
            table.add(*row)
    for i in range(1_500, 1_510):
        table.remove(i, "x", days[i])
    for i in (3, 7):
        table.remove(i, "x", days[i])
    with pytest.raises(DataError, match="not there"):
        table.remove(3, "x", days[3])
    table.add(7, "x", days[7])
    assert db.view("n").rows() == [(1_499, 1_499)]
    assert len(table.rows()) == 1_499


@pytest.mark.parametrize("kind", ["stream", "table"])
def test_a_total_out_of_range_is_refused_and_leaves_no_trace(kind: str) -> None:
    db = database(kind=kind)
    r, total = db.table("r"), db.view("total")
    for _ in range(3):
        r.add(1, 1, None, None, None)
        r.add(1, -1, None, None, None)
        assert total.value == 0
    r.add(1, LIMIT - 1, None, None, None)
    before = db.version
    with pytest.raises(ValueRangeError, match="view 'total'"):
        r.add(1, 1, None, None, None)
    assert has_gate(r)
    assert (total.value, db.version) == (LIMIT - 1, before)
    assert kind == "stream" or len(r) == 7
    r.add(1, -1, None, None, None)
    assert total.value == LIMIT - 2


def test_tables_that_refer_to_one_another_have_no_gates() -> None:
    db = viewlet.connect()
    db.execute(
        "CREATE TABLE p (a BIGINT PRIMARY KEY);"
        "CREATE TABLE r (a BIGINT NOT NULL REFERENCES p (a) ON DELETE RESTRICT);"
        "CREATE MATERIALIZED VIEW n AS SELECT count(*) AS n FROM r JOIN p ON r.a = p.a"
    )
    p, r = db.table("p"), db.table("r")
    for a in range(4):
        p.add(a)
        r.add(a)
    assert not has_gate(p)
    assert not has_gate(r)
    with pytest.raises(DataError):
        r.add(9)
    with pytest.raises(DataError):
        p.remove(0)


def test_subscribers_are_told() -> None:
    db = database()
    r = db.table("r")
    for _ in range(3):
        r.add(1, 2, "x", 0.5, True)
    assert has_gate(r)
    seen: list[Any] = []
    subscription = db.view("total").subscribe(lambda change: seen.append(change.to_pylist()), weights=True)
    r.add(1, 2, "x", 0.5, True)
    assert seen == [[{"v": 6, "_weight": -1}, {"v": 8, "_weight": 1}]]
    subscription.close()
    r.add(1, 2, "x", 0.5, True)
    assert (db.view("total").value, len(seen)) == (10, 1)


def test_rows_that_nobody_followed_are_not_told_later() -> None:
    """What a view showed last is remembered for its followers; rows through a gate pass that memory by."""
    db = database()
    r, seen = db.table("r"), list[Any]()
    for _ in range(2):
        subscription = db.view("total").subscribe(
            lambda change: seen.append(change.to_pylist()), weights=True
        )
        r.add(1, 2, "x", 0.5, True)
        subscription.close()
        db.execute("CREATE MATERIALIZED VIEW above AS SELECT v + 1 AS v FROM total")
        r.add(1, 2, "x", 0.5, True)
        assert db.view("above").value == db.view("total").value + 1
        db.execute("DROP MATERIALIZED VIEW above")
        for _ in range(4):
            r.add(1, 2, "x", 0.5, True)
        assert has_gate(r)
    inserted = [change[-1] for change in seen]
    assert inserted == [{"v": 2, "_weight": 1}, {"v": 14, "_weight": 1}]
    assert [change[0] for change in seen] == [{"v": None, "_weight": -1}, {"v": 12, "_weight": -1}]


def test_a_view_that_comes_later_starts_with_what_comes_later() -> None:
    db = database()
    r = db.table("r")
    for _ in range(4):
        r.add(1, 2, "x", 0.5, True)
    db.execute("CREATE MATERIALIZED VIEW later AS SELECT sum(v) AS v FROM r")
    for _ in range(4):
        r.add(1, 3, "x", 0.5, True)
    assert (db.view("later").value, db.view("total").value) == (12, 20)


def test_no_gate_where_more_is_to_be_done(tmp_path: Any) -> None:
    durable = viewlet.connect(tmp_path / "d.viewlet")
    limited = viewlet.connect(memory_limit="1GB")
    dividing = viewlet.connect()
    for db in (durable, limited):
        db.execute("CREATE STREAM r (v BIGINT); CREATE MATERIALIZED VIEW s AS SELECT sum(v) AS v FROM r")
    dividing.execute("CREATE STREAM r (v BIGINT)")
    dividing.execute("CREATE MATERIALIZED VIEW s AS SELECT 1 / sum(v) AS v FROM r")
    for db in (durable, limited, dividing):
        r = db.table("r")
        for _ in range(4):
            r.add(1)
        assert not has_gate(r)
    with pytest.raises(ValueRangeError, match="view 's'"):
        dividing.apply({"r": [{"v": 1, "_weight": -4}, {"v": 0, "_weight": 1}]})
    durable.close()


def test_after_close_and_in_a_child_nothing_goes_through() -> None:
    db = database()
    r, total = db.table("r"), db.view("total")
    for _ in range(3):
        r.add(1, 2, "x", 0.5, True)
        assert total.value
    child = os.fork()
    if child == 0:
        try:
            r.add(1, 2, "x", 0.5, True)
        except BackendError:
            os._exit(7)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    r.add(1, 2, "x", 0.5, True)
    assert total.value == 8
    db.close()
    with pytest.raises(BackendError, match="closed"):
        r.add(1, 2, "x", 0.5, True)
    with pytest.raises(BackendError, match="closed"):
        _ = total.value


@pytest.mark.parametrize("kind", ["stream", "table"])
def test_threads_at_gates_and_inside(kind: str) -> None:
    """Rows one by one and batches at once: nothing is lost, and every version is given once."""
    db = database(kind=kind)
    versions: list[list[int]] = [[] for _ in range(3)]

    def rows(mine: list[int]) -> None:
        r = db.table("r")
        mine += [r.add(1, 1, "x", 0.5, True) for _ in range(2_000)]

    def batches(mine: list[int]) -> None:
        mine += [db.insert("r", [(1, 1, "y", 0.5, True)] * 10) for _ in range(50)]

    threads = [
        threading.Thread(target=work, args=(mine,))
        for work, mine in zip((rows, rows, batches), versions, strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(v for mine in versions for v in mine) == list(range(1, 4_051))
    assert db.view("total").value == 4_500
    assert db.view("by_s").rows() == [("x", 4_000, 2_000.0), ("y", 500, 250.0)]
    assert kind == "stream" or len(db.table("r")) == 4_500


def test_handles_with_gates_can_be_forgotten() -> None:
    db = database()
    r = db.table("r")
    for _ in range(3):
        r.add(1, 1, "x", 0.5, True)
    assert has_gate(r)
    forgotten = weakref.ref(db)
    del db, r
    gc.collect()
    assert forgotten() is None


def test_wrong_rows_are_named() -> None:
    db = database()
    r = db.table("r")
    for _ in range(3):
        r.add(1, 1, "x", 0.5, True)
    with pytest.raises(DataError, match="has 2 values"):
        r.add(1, 2)
    with pytest.raises(DataError, match="column 'k': NULL in a NOT NULL column"):
        r.add(None, 1, "x", 0.5, True)


def test_a_method_taken_before_there_was_a_gate_goes_through_it() -> None:
    db = database()
    r = db.table("r")
    add, slowly = r.add, r._slowly
    add(1, 2, "x", 0.5, True)
    add(1, 2, "x", 0.5, True)
    assert has_gate(r)
    asked: list[Any] = []
    r._slowly = lambda *values: asked.append(values) or slowly(*values)  # type: ignore[method-assign,func-returns-value]
    add(1, 2, "x", 0.5, True)
    assert (db.view("total").value, asked) == (6, [])
