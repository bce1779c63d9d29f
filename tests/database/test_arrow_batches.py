"""Arrow batches, which may never become Python rows, do what the same rows as tuples do."""

from __future__ import annotations

from collections import Counter
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import viewlet
from viewlet.errors import DataError, ValueRangeError, ViewletError
from viewlet.values import arrow_type

BACKENDS = ["reference", pytest.param("native", marks=pytest.mark.native)]
SCHEMA = pa.schema(
    {"k": pa.int16(), "s": pa.string(), "d": pa.decimal128(9, 2), "f": pa.float32(), "_weight": pa.int64()}
)
DDL = "(k SMALLINT NOT NULL, s VARCHAR, d DECIMAL(9, 2), f FLOAT{key})"
VIEWS = {
    "by_s": "SELECT s, sum(d) AS d, count(f) AS n, sum(k) AS k FROM r GROUP BY s",
    "total": "SELECT count(*) AS n, sum(f) AS f FROM r",
    "rows": "SELECT k, s FROM r WHERE d > 0 OR d IS NULL",
}

ROW = st.tuples(
    st.integers(-3, 3),
    st.sampled_from([None, "", "a", "ä\0b"]),
    st.sampled_from([None, Decimal("0.01"), Decimal("-1234567.89")]),
    st.sampled_from([None, -0.0, 0.5]),
    st.integers(-2, 2),
)
BATCHES = st.lists(st.lists(ROW, max_size=5), min_size=1, max_size=6)


def arrow(rows: list[tuple[Any, ...]]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [[] for _ in SCHEMA]
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)


def database(backend: str, kind: str, key: str) -> viewlet.Database:
    db = viewlet.connect(backend=backend)
    db.execute(f"CREATE {kind} r {DDL.format(key=key)}")
    for name, query in VIEWS.items():
        db.execute(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    return db


def outcome(db: viewlet.Database, batch: Any, kind: str) -> object:
    try:
        db.apply({"r": batch})
        refused = None
    except ViewletError as reason:
        refused = str(reason)
    rows = db.table("r").rows() if kind == "TABLE" else None
    return refused, db.version, rows, [db.view(name).rows() for name in VIEWS]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("key", ["", ", PRIMARY KEY (k)"])
@settings(max_examples=10, deadline=None)
@given(batches=BATCHES)
def test_tables(backend: str, key: str, batches: list[list[tuple[Any, ...]]]) -> None:
    as_arrow, as_rows = database(backend, "TABLE", key), database(backend, "TABLE", key)
    for batch in batches:
        rows = [dict(zip(SCHEMA.names, row, strict=True)) for row in batch]
        assert outcome(as_arrow, arrow(batch), "TABLE") == outcome(as_rows, rows, "TABLE")


@pytest.mark.parametrize("backend", BACKENDS)
@settings(max_examples=10, deadline=None)
@given(batches=BATCHES)
def test_streams(backend: str, batches: list[list[tuple[Any, ...]]]) -> None:
    """Rows go only after they came: a stream believes what it is told."""
    as_arrow, as_rows = database(backend, "STREAM", ""), database(backend, "STREAM", "")
    for batch in batches:
        inserts = [(*row[:-1], abs(row[-1])) for row in batch]
        for signed in (inserts, [(*row[:-1], -row[-1]) for row in inserts[::2]]):
            rows = [dict(zip(SCHEMA.names, row, strict=True)) for row in signed]
            assert outcome(as_arrow, arrow(signed), "STREAM") == outcome(as_rows, rows, "STREAM")


@pytest.mark.native
@pytest.mark.parametrize("key", [False, True])
@settings(max_examples=6, deadline=None)
@given(seed=st.integers(0, 1 << 30))
def test_many_rows_come_and_go(key: bool, seed: int) -> None:
    """Deletions, also of rows that are not there, against a log that is checked and rewritten natively."""
    rng = np.random.default_rng(seed)
    db = viewlet.connect()
    db.execute(f"CREATE TABLE r (k BIGINT{' PRIMARY KEY' if key else ''}, s VARCHAR, d DECIMAL(5, 1))")
    db.execute("CREATE MATERIALIZED VIEW n AS SELECT s, count(*) AS n, sum(d) AS d FROM r GROUP BY s")
    present: list[tuple[Any, ...]] = [(-100, "first", Decimal("0.5"))]
    db.insert("r", present)

    def table(rows: list[tuple[Any, ...]], weights: list[int]) -> pa.Table:
        k, s, d = zip(*rows, strict=True)
        kinds = (pa.int64(), pa.string(), pa.decimal128(5, 1), pa.int64())
        columns = zip((k, s, d, weights), kinds, strict=True)
        return pa.table([pa.array(c, kind) for c, kind in columns], ["k", "s", "d", "_weight"])

    fresh = 0
    for step in range(8):
        new = [
            (fresh + i if key else int(rng.integers(0, 50)), [None, "a", "ö"][i % 3], Decimal(i % 7) / 2)
            for i in range(1_500)
        ]
        fresh += len(new)
        going = [present[i] for i in rng.permutation(len(present))[: len(present) // 2]]
        batch = table([*going, *new], [-1] * len(going) + [1] * len(new))
        if step % 3 == 2:
            bad = table([*going, going[0]], [-1] * len(going) + [-2000])
            with pytest.raises(DataError, match="it is not there"):
                db.apply({"r": bad})
            if key:
                with pytest.raises(DataError, match="would occur twice"):
                    db.apply({"r": table([new[0], new[0]], [1, 1])})
        db.apply({"r": batch})
        left = Counter(present)
        left.subtract(going)
        present = [*left.elements(), *new]
        single = (-1 - step if key else step, "single", None)
        db.insert("r", [single])
        db.delete("r", [present[0]])
        present = [*present[1:], single]
    expected = sorted(present, key=lambda row: [(v is not None, v) for v in row])
    assert db.table("r").rows() == expected
    assert list(zip(*db.table("r").to_arrow().to_pydict().values(), strict=True)) == expected
    counted = Counter(s for _, s, _ in present)
    assert {s: n for s, n, _ in db.view("n").rows()} == dict(counted)
    db.delete("r", [(expected[0][0],)] if key else [expected[0]])
    assert db.table("r").rows() == expected[1:]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM r",
        "SELECT s, sum(d) AS d, max(t) AS t, min(day) AS day, avg(f) AS f FROM r GROUP BY s",
        "SELECT a.k, b.s, b.b FROM r AS a LEFT JOIN r AS b ON a.k = b.k AND b.b",
        "SELECT k, i FROM r ORDER BY k DESC LIMIT 2",
        "SELECT count(*) AS n FROM r WHERE k > 100",
    ],
)
def test_views_as_arrow_are_their_rows(backend: str, query: str) -> None:
    """Every type, NULL, duplicates, and an outer join, whose terms have rows to subtract."""
    db = viewlet.connect(backend=backend)
    db.execute(
        "CREATE TABLE r (k BIGINT, s VARCHAR, d DECIMAL(20, 2), f FLOAT, b BOOLEAN, "
        "t TIMESTAMP, day DATE, i SMALLINT)"
    )
    db.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
    assert db.view("v").to_arrow().to_pylist() == [
        dict(zip(db.view("v").to_arrow().column_names, row, strict=True)) for row in db.view("v").rows()
    ]
    noon, day = datetime(1960, 2, 29, 12), date(2020, 1, 2)
    one = (1, "ä", Decimal("123456789012345678.50"), 0.5, True, noon, day, -3)
    db.insert("r", [one, one, (1, "", Decimal("-1.5"), -0.25, False, noon, day, 3), (2, *[None] * 7)])
    shown = db.view("v").to_arrow()
    assert shown.schema.types == [arrow_type(column.type) for column in db.view("v").columns]
    assert [tuple(row.values()) for row in shown.to_pylist()] == db.view("v").rows()


@pytest.mark.parametrize("backend", BACKENDS)
def test_keys_alone_find_rows_of_arrow_batches(backend: str) -> None:
    db = viewlet.connect(backend=backend)
    db.execute("CREATE TABLE r (k BIGINT PRIMARY KEY, v BIGINT)")
    db.insert("r", pa.table({"k": [1, 2, 3], "v": [10, 20, 30]}))
    db.insert("r", pa.table({"k": [2, 4], "v": [21, 40]}), on_conflict="update")
    db.delete("r", [(1,)])
    assert db.table("r").rows() == [(2, 21), (3, 30), (4, 40)]
    with pytest.raises(DataError, match="would occur twice"):
        db.insert("r", pa.table({"k": [5, 3], "v": [0, 0]}))
    assert len(db.table("r")) == 3


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_view_created_after_arrow_batches_sees_them(backend: str) -> None:
    db = viewlet.connect(backend=backend)
    db.execute("CREATE TABLE r (k BIGINT, v BIGINT)")
    rng = np.random.default_rng(5)
    data = [pa.table({"k": rng.integers(0, 9, 700), "v": rng.integers(-9, 9, 700)}) for _ in range(3)]
    for batch in data:
        db.insert("r", batch)
    db.execute("CREATE MATERIALIZED VIEW s AS SELECT k, sum(v) AS v, count(*) AS n FROM r GROUP BY k")
    frame = pa.concat_tables(data).to_pandas().groupby("k")["v"]
    expected = [(int(k), int(v.sum()), len(v)) for k, v in frame]
    assert db.view("s").rows() == expected
    db.delete("r", data[0])
    assert sum(n for _, _, n in db.view("s").rows()) == 1400 == len(db.table("r"))


def test_arrays_that_change_later_do_not_change_the_table() -> None:
    db = viewlet.connect()
    db.execute("CREATE TABLE r (k BIGINT)")
    mine = np.arange(5)
    db.insert("r", pa.table({"k": mine}))
    db.insert("r", pd.DataFrame({"k": mine}))
    mine += 100
    assert db.table("r").rows() == [(k,) for k in range(5) for _ in range(2)]


@pytest.mark.parametrize("kind", ["TABLE", "STREAM"])
def test_refused_values_are_named(kind: str) -> None:
    db = viewlet.connect()
    db.execute(f"CREATE {kind} r (k INT NOT NULL, f DOUBLE, s VARCHAR)")
    good = {"k": [1, 2], "f": [0.5, 1.5], "s": ["a", "b"]}
    bad: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
        "null": ({"k": [1, None]}, DataError, "column 'k', row 1: NULL in a NOT NULL column"),
        "range": ({"k": [1, 1 << 40]}, ValueRangeError, "column 'k', row 1: .* out of range for INT"),
        "infinite": ({"f": [0.5, float("inf")]}, ValueRangeError, "column 'f', row 1"),
        "type": ({"s": [1, 2]}, DataError, "column 's': the data is int64"),
        "weight": ({"_weight": [1, 1 << 31]}, ValueRangeError, "row 1: _weight is 2147483648"),
    }
    for change, error, message in bad.values():
        with pytest.raises(error, match=message):
            db.apply({"r": pa.table(good | change)})
    not_text = pa.Array.from_buffers(
        pa.string(), 2, [None, pa.py_buffer(np.array([0, 1, 2], np.int32)), pa.py_buffer(b"a\xff")]
    )
    with pytest.raises(DataError, match="invalid Arrow data"):
        db.apply({"r": pa.table(good | {"s": not_text})})
    assert db.version == 0


@pytest.mark.parametrize("rows", [0, 1, 100_000])
def test_batches_of_any_size(rows: int) -> None:
    db = viewlet.connect()
    db.execute("CREATE STREAM r (k BIGINT)")
    db.execute("CREATE MATERIALIZED VIEW n AS SELECT count(*) AS n, sum(k) AS k FROM r")
    assert db.insert("r", pa.table({"k": np.arange(rows)})) == 1
    assert db.view("n").rows() == [(rows, rows * (rows - 1) // 2 if rows else None)]


@pytest.mark.slow
def test_a_batch_of_ten_million_rows() -> None:
    test_batches_of_any_size(10_000_000)
