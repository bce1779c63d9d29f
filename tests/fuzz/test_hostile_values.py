"""Values, rows and calls of every sort: taken as they are, or refused by an error of ours without a trace."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import viewlet
from viewlet.errors import ViewletError

backends = pytest.mark.parametrize(
    "backend", ["reference", pytest.param("native", marks=pytest.mark.native)], scope="module"
)
GOOD = {
    "i": 1,
    "n": 2,
    "d": Decimal("1.5"),
    "x": 1.0,
    "f": 0.5,
    "s": "a",
    "e": date(2020, 1, 1),
    "t": datetime(2020, 1, 1),
    "b": True,
}
ROW = tuple(GOOD.values())
TABLES = """
CREATE TABLE r (
    i BIGINT, n INT, d DECIMAL(6, 2), x DOUBLE, f FLOAT, s VARCHAR, e DATE, t TIMESTAMP, b BOOLEAN
);
CREATE TABLE k (id BIGINT PRIMARY KEY, v VARCHAR);
CREATE MATERIALIZED VIEW v AS SELECT *, count(*) AS copies FROM r GROUP BY ALL;
CREATE MATERIALIZED VIEW w AS SELECT count(*) AS n, max(v) AS m FROM k;
"""


class Unwritable:
    """A value whose text cannot be had."""

    def __repr__(self) -> str:
        raise RuntimeError


class Endless(list[Any]):
    """A row that holds itself."""


ENDLESS = Endless([1])
ENDLESS.append(ENDLESS)
VALUES: list[Any] = [
    None, True, 0, -1, 2**31, -(2**31) - 1, 2**53 + 1, 2**60, 2**63, -(2**63), 10**40, 10**5000,
    1.5, -0.0, float("nan"), float("inf"), 1e308, 3.5e38, 5e-324,
    "", "1", "2020-01-01", "\ud800", "a\0b", "😀", b"a", bytearray(b"\xff"),
    *map(Decimal, ("1.005", "99999.99", "NaN", "sNaN", "-Infinity", "-0", "1E-30", "1E+1000000", "1")),
    date.min, date.max, datetime.max, datetime(2020, 1, 1, tzinfo=UTC), time(1), timedelta(1),
    np.int8(-3), np.uint64(2**64 - 1), np.float32(0.1), np.float64("nan"), np.bool_(True), np.str_("ab"),
    np.datetime64("2020-01-01"), np.datetime64("NaT"), np.datetime64(2**60, "s"), np.timedelta64(1, "D"),
    np.array(3), np.array([3]), np.float16(1.5), np.complex128(1), pd.NaT, pd.NA, pd.Timestamp("2020-01-01"),
    pd.Timestamp("2020-01-01", tz="UTC"), pd.Timestamp("2020-01-01 00:00:00.000000001"), pa.scalar(1),
    [], {}, (1,), object(), Unwritable(), ENDLESS, 1j, print, range(3), Fraction(1, 2),
]  # fmt: skip


def shared(values: Any) -> Any:
    return pa.table({**{name: [value] * len(values) for name, value in GOOD.items()}})


def arrow(name: str, values: pa.Array) -> pa.Table:
    """A table of rows like ``GOOD`` with another column."""
    rows = shared(values)
    return rows.set_column(rows.column_names.index(name), name, values)


def days(*numbers: int) -> pa.Array:
    return pa.array(numbers, pa.int32()).cast(pa.date32())


def moments(number: int, unit: str, zone: str | None = None) -> pa.Array:
    return pa.array([number]).cast(pa.timestamp(unit, zone))


ARRAYS: list[tuple[str, pa.Array]] = [
    ("s", pa.array(["a", None, "a"]).dictionary_encode()),
    ("s", pa.DictionaryArray.from_arrays(pa.array([0, 1, None]), pa.array(["a", None]))),
    ("s", pa.DictionaryArray.from_arrays(pa.array([0, 1]), pa.array(["a", "b"], pa.string_view()))),
    ("i", pa.array([1, 2, 1]).dictionary_encode()),
    ("s", pa.array(["a", None], pa.large_string())),
    ("s", pa.array(["a", "x" * 30], pa.string_view())),
    ("s", pa.RunEndEncodedArray.from_arrays(pa.array([2, 3], pa.int32()), pa.array(["a", "b"]))),
    ("s", pa.array([b"a"])),
    ("s", pa.array([["a"], []])),
    ("s", pa.array([{"a": 1}])),
    ("s", pa.nulls(2)),
    ("e", pa.array([date(2020, 1, 1)], pa.date64())),
    *(("e", days(n)) for n in (2**31 - 1, -(2**31), -719_163, -719_162, 2_932_896, 2_932_897)),
    ("e", days(0, 2_932_897)),
    ("t", days(0)),
    ("e", moments(0, "us")),
    *(
        ("t", moments(n, "us"))
        for n in (2**63 - 1, -(2**63), 253_402_300_800_000_000, 253_402_300_799_999_999)
    ),
    ("t", moments(2**63 - 1, "s")),
    ("t", moments(1, "ns")),
    ("t", moments(1000, "ns")),
    ("t", moments(-1, "ms")),
    ("t", moments(0, "us", "UTC")),
    ("i", pa.array([2**64 - 1], pa.uint64())),
    ("i", pa.array([1.0])),
    ("i", pa.array([0]).cast(pa.duration("us"))),
    ("x", pa.array([np.float16(1.5)])),
    ("x", pa.array([None, float("nan")])),
    ("x", pa.array([2**60])),
    ("x", pa.array([2**53 + 1])),
    ("f", pa.array([0.1])),
    ("f", pa.array([1e300])),
    ("f", pa.array([16_777_217])),
    ("d", pa.array([Decimal("1e50")], pa.decimal256(76, 2))),
    ("d", pa.array([Decimal("1.25")], pa.decimal256(76, 10))),
    ("d", pa.array([Decimal("1.255")], pa.decimal128(10, 3))),
    ("d", pa.array([Decimal("10000.00")], pa.decimal128(10, 2))),
    ("d", pa.array([2**63 - 1])),
    ("b", pa.array([1], pa.int8())),
]
FRAMES: list[Callable[[], Any]] = [
    lambda: pd.Series([1, 2]),
    lambda: pd.Index([1]),
    pd.DataFrame,
    lambda: pd.DataFrame([[1, 2]], columns=["i", "i"]),
    lambda: pd.DataFrame([[1, 2]]),
    lambda: pd.DataFrame({**GOOD, "s": pd.Categorical(["a", "b", None])}),
    lambda: pd.DataFrame({**GOOD, "i": pd.array([1, None], dtype="Int64")}),
    lambda: pd.DataFrame({**GOOD, "i": pd.Series([2**63], dtype=object)}),
    lambda: pd.DataFrame({**GOOD, "i": pd.Series([1, pd.NA, "a"], dtype=object)}),
    lambda: pd.DataFrame({**GOOD, "t": pd.to_datetime(["2020-01-01", None])}),
    lambda: pd.DataFrame({**GOOD, "s": pd.Series(["\ud800"], dtype=object)}),
    lambda: pl.Series([1]),
    pl.DataFrame,
    lambda: pl.DataFrame(GOOD).lazy(),
    lambda: pl.DataFrame({**GOOD, "s": pl.Series(["a", None], dtype=pl.Categorical)}),
    lambda: pl.DataFrame({**GOOD, "s": pl.Series(["a"], dtype=pl.Enum(["a", "b"]))}),
    lambda: pl.DataFrame({**GOOD, "i": pl.Series([2**100], dtype=pl.Int128)}),
    lambda: (row for row in [ROW, ROW]),
    lambda: iter([]),
    lambda: None,
    lambda: "abc",
    lambda: GOOD,
    lambda: [None],
    lambda: [ROW, GOOD],
    lambda: [GOOD, ROW],
    lambda: [GOOD, Unwritable()],
    lambda: [Unwritable()],
    lambda: [ROW[:3]],
    lambda: [(*ROW, 1)],
    lambda: [GOOD, {**GOOD, "I": 2}],
    lambda: [{**GOOD, "more": 1}],
    lambda: [{name: value for name, value in GOOD.items() if name != "i"}],
    lambda: [ChainMap(GOOD)],
    lambda: [{None: 2}],
    lambda: [{"\ud800": 1}],
    lambda: np.array([ROW], dtype=object),
    lambda: np.array(1),
    lambda: pa.schema([]),
    lambda: pa.table({}),
    lambda: pa.table({name: pa.nulls(3) for name in GOOD}),
]
CALLS: list[Callable[[viewlet.Database], Any]] = [
    *(
        lambda db, n=n: db.apply({"r": [{**GOOD, "_weight": n}]})
        for n in (0, 1.0, None, True, 2**31, -(2**63))
    ),
    lambda db: db.apply({"r": [{**GOOD, "_change_type": "INSERT"}]}),
    lambda db: db.apply({1: []}),  # type: ignore[dict-item]
    lambda db: db.insert(None, []),  # type: ignore[arg-type]
    lambda db: db.table(1),  # type: ignore[arg-type]
    lambda db: db.view(None),  # type: ignore[arg-type]
    lambda db: db.execute(None),  # type: ignore[arg-type]
    lambda db: db.sql(1),  # type: ignore[arg-type]
    lambda db: db.explain(None),  # type: ignore[arg-type]
    lambda db: db.execute("SELECT '\ud800'"),
    lambda db: db.view("v").subscribe(None),  # type: ignore[arg-type]
    lambda db: db.insert("k", [(1, "a"), (1, "b")]),
    lambda db: db.delete("k", [(7,)]),
    lambda db: db.apply({"k": [(5, "x")], "r": [{**GOOD, "_weight": -1}]}),
    lambda db: db.execute("INSERT INTO r (x) VALUES (1e400)"),
    lambda db: db.execute("INSERT INTO r (e) VALUES (DATE '9999-12-31' + INTERVAL 1 DAY)"),
    lambda db: db.execute(f"INSERT INTO r (d) VALUES ({'9' * 5000})"),
]


@pytest.fixture(scope="module")
def db(backend: str) -> Iterator[viewlet.Database]:
    with viewlet.connect(backend=backend) as made:  # type: ignore[call-overload]
        made.execute(TABLES)
        yield made


def state(db: viewlet.Database) -> Any:
    return db.version, *([db.table(name).rows() for name in "rk"]), *([db.view(name).rows() for name in "vw"])


def attempt(db: viewlet.Database, call: Callable[[], Any]) -> bool:
    """Was it taken? Then the view has what the table has, and all of it can go again."""
    before = state(db)
    try:
        call()
    except ViewletError:
        assert state(db) == before
        return False
    rows = db.table("r").rows()
    assert rows == [row[:-1] for row in db.view("v").rows() for _ in range(row[-1])]
    db.execute("DELETE FROM r")
    db.execute("DELETE FROM k")
    assert db.view("v").rows() == []
    return True


@backends
@pytest.mark.parametrize("column", GOOD)
def test_values(db: viewlet.Database, column: str) -> None:
    taken = 0
    for value in VALUES:
        row = {**GOOD, column: value}
        as_tuple = tuple(row.values())
        ways: list[Callable[[], Any]] = [
            lambda row=as_tuple: db.insert("r", [row]),
            lambda row=row: db.insert("r", [row]),
            lambda row=as_tuple: db.table("r").add(*row),
        ]
        outcomes = {attempt(db, way) for way in ways}
        assert len(outcomes) == 1, f"{column}: {type(value)}"
        taken += outcomes.pop()
        assert not attempt(db, lambda row=as_tuple: db.table("r").remove(*row))
    assert taken >= 2


@backends
def test_columns_of_arrow(db: viewlet.Database) -> None:
    taken = []
    for name, values in ARRAYS:
        table = arrow(name, values)
        outcome = attempt(db, lambda table=table: db.insert("r", table))
        assert outcome == attempt(db, lambda table=table: db.insert("r", table.to_batches()[0]))
        assert not attempt(db, lambda table=table: db.delete("r", table))
        taken += [str(values.type)] * outcome
    assert {"dictionary<values=string_view, indices=int64, ordered=0>", "date32[day]", "int64"} <= set(taken)


@backends
def test_frames_and_rows(db: viewlet.Database) -> None:
    taken = sum(attempt(db, lambda made=made: db.insert("r", made())) for made in FRAMES)
    assert taken > 8
    for made in FRAMES:
        attempt(db, lambda made=made: db.delete("r", made()))
        attempt(db, lambda made=made: db.apply({"r": made()}))


@backends
@pytest.mark.parametrize("call", CALLS)
def test_calls(db: viewlet.Database, call: Callable[[viewlet.Database], Any]) -> None:
    attempt(db, lambda: call(db))


@backends
def test_years_that_there_are_not_name_their_row(db: viewlet.Database) -> None:
    with pytest.raises(ViewletError, match="column 'e', row 1: the value is outside the years 1 to 9999"):
        db.insert("r", arrow("e", days(0, 2_932_897)))
    with pytest.raises(ViewletError, match="column 't', row 0: the value is outside the years 1 to 9999"):
        db.insert("r", arrow("t", moments(2**63 - 1, "s")))
