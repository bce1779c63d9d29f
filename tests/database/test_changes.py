"""Data of every accepted kind becomes the same changes, and comes back as it went in; bad data is named."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from viewlet.backends.base import Change
from viewlet.changes import feed, read_changes, read_deletes, read_inserts, read_row
from viewlet.core.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    SMALLINT,
    TIMESTAMP,
    TINYINT,
    VARCHAR,
    Column,
    Type,
    decimal,
)
from viewlet.errors import DataError, ValueRangeError
from viewlet.sql.catalog import Table
from viewlet.values import arrow_schema, to_arrow, to_python

R = Table(
    "r",
    (
        Column("b", BOOLEAN),
        Column("t", TINYINT),
        Column("s", SMALLINT),
        Column("i", INT),
        Column("l", BIGINT),
        Column("d", decimal(12, 2)),
        Column("w", decimal(38, 10)),
        Column("f", FLOAT),
        Column("x", DOUBLE),
        Column("day", DATE),
        Column("at", TIMESTAMP),
        Column("v", VARCHAR),
    ),
)
KEYED = Table("k", (Column("a", BIGINT, nullable=False), Column("v", VARCHAR)), key=("a",))


def integers(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def decimals(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    limit = 10**precision - 1
    return st.integers(-limit, limit).map(lambda n: Decimal(n).scaleb(-scale))


VALUES = (
    st.booleans(),
    integers(8),
    integers(16),
    integers(32),
    integers(64),
    decimals(12, 2),
    st.integers(-(10**28), 10**28).map(lambda n: Decimal(n).scaleb(-10)),
    st.floats(width=32, allow_nan=False, allow_infinity=False),
    st.floats(allow_nan=False, allow_infinity=False),
    st.dates(),
    st.datetimes(),
    st.text(st.characters(codec="utf-8"), max_size=5),
)
ROWS = st.lists(st.tuples(*(st.none() | value for value in VALUES)), max_size=6)


def as_arrow(rows: list[tuple[Any, ...]]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [() for _ in R.columns]
    fields = arrow_schema(R.columns)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, fields, strict=True)]
    return pa.Table.from_arrays(arrays, schema=fields)


KINDS: dict[str, Callable[[list[tuple[Any, ...]]], Any]] = {
    "dicts": lambda rows: [dict(zip(R.column_names, row, strict=True)) for row in rows],
    "dicts in another order": lambda rows: [
        dict(zip(R.column_names[::-1], row[::-1], strict=True)) for row in rows
    ],
    "generator": lambda rows: (row for row in rows),
    "arrow": as_arrow,
    "sliced arrow": lambda rows: pa.concat_tables([as_arrow(rows), as_arrow(rows)]).slice(len(rows)),
    "record batch": lambda rows: as_arrow(rows).combine_chunks().to_batches()[0] if rows else [],
    "reader": lambda rows: as_arrow(rows).to_reader(max_chunksize=2),
    "polars": lambda rows: pl.from_arrow(as_arrow(rows)),
    "upper case": lambda rows: as_arrow(rows).rename_columns([name.upper() for name in R.column_names]),
}


@settings(max_examples=40, deadline=None)
@given(ROWS)
def test_every_kind_of_data_gives_the_same_changes_and_comes_back(rows: list[tuple[Any, ...]]) -> None:
    batch = read_inserts(R, rows)
    assert [change.weight for change in batch.changes] == [1] * len(rows)
    physical = [change.row for change in batch.changes]
    assert to_python(physical, R.columns) == rows
    assert to_arrow(physical, R.columns).equals(as_arrow(rows))
    assert [read_row(R, row) for row in rows] == physical
    for kind, convert in KINDS.items():
        assert read_inserts(R, convert(rows)) == batch, kind


def test_pandas() -> None:
    frame = pd.DataFrame(
        {
            "a": pd.array([1, None], dtype="Int64"),
            "x": [1.5, np.nan],
            "s": ["p", None],
            "day": [datetime.date(2024, 1, 1), None],
            "at": pd.to_datetime(["2024-01-01 10:00:00.000001", None]),
            "d": [Decimal("1.50"), None],
        },
        index=[7, 9],
    )
    columns = (
        Column("a", BIGINT),
        Column("x", DOUBLE),
        Column("s", VARCHAR),
        Column("day", DATE),
        Column("at", TIMESTAMP),
        Column("d", decimal(8, 3)),
    )
    first, second = read_inserts(Table("p", columns), frame).changes
    moment = datetime.datetime(2024, 1, 1, 10, 0, 0, 1)
    (row,) = to_python([first.row], columns)
    assert row == (1, 1.5, "p", datetime.date(2024, 1, 1), moment, Decimal("1.500"))
    assert second.row == (None,) * 6


def test_columns_without_a_value_have_any_type() -> None:
    """What pandas makes of an empty frame, or of a column of None, is no statement about its type."""
    assert read_inserts(column(BIGINT), pd.DataFrame({"a": []})).changes == []
    (change,) = read_inserts(column(VARCHAR), pd.DataFrame({"a": [None]}, dtype=float)).changes
    assert change.row == (None,)


def test_values_of_numpy_and_dictionary_columns() -> None:
    table = Table("n", (Column("a", BIGINT), Column("x", DOUBLE), Column("b", BOOLEAN), Column("v", VARCHAR)))
    rows = [(np.int32(3), np.float32(0.5), np.bool_(True), np.str_("q"))]
    assert read_inserts(table, rows).changes == [Change((3, 0.5, True, "q"), 1)]
    arrow = pa.table({"a": [3], "x": [0.5], "b": [True], "v": pa.array(["q"]).dictionary_encode()})
    assert read_inserts(table, arrow) == read_inserts(table, rows)
    for text in (pa.large_string(), pa.string_view()):
        assert read_inserts(table, arrow.set_column(3, "v", pa.array(["q"], text))) == read_inserts(
            table, rows
        )


def test_negative_zero_becomes_zero_everywhere() -> None:
    table = Table("n", (Column("x", DOUBLE),))
    for data in ([(-0.0,)], pa.table({"x": [-0.0]})):
        (change,) = read_inserts(table, data).changes
        assert str(change.row[0]) == "0.0"


def test_weights_and_change_types() -> None:
    table = Table("r", (Column("a", BIGINT),))
    weighted = pa.table({"a": [1, 2, 3], "_weight": pa.array([2, 0, -1], pa.int32())})
    assert read_changes(table, weighted).changes == [Change((1,), 2), Change((3,), -1)]
    words = ["insert", "delete", "update_preimage", "update_postimage"]
    typed = [{"a": i, "_change_type": word, "_commit_version": 3} for i, word in enumerate(words)]
    assert [change.weight for change in read_changes(table, typed).changes] == [1, -1, -1, 1]
    assert read_changes(table, [(5,)]).changes == [Change((5,), 1)]
    assert read_changes(table, pa.table({"a": pa.array([], pa.int64())})).changes == []


def test_deletions_may_name_only_the_key() -> None:
    for data in ([(1,)], [{"a": 1}], pa.table({"a": [1]})):
        batch = read_deletes(KEYED, data)
        assert batch.keyed
        assert batch.changes == [Change((1,), -1)]
    assert not read_deletes(KEYED, [(1, "x")]).keyed
    assert read_changes(KEYED, [{"a": 1, "_change_type": "delete"}]).keyed
    for insertion in ([{"a": 1}], [{"a": 1, "_weight": 1}]):
        with pytest.raises(DataError, match="column 'v' is missing"):
            read_changes(KEYED, insertion)


@given(st.dictionaries(st.tuples(integers(64)), st.integers(-3, 3).filter(bool), max_size=6))
def test_a_feed_reads_back_as_the_change_it_was(changes: dict[tuple[int], int]) -> None:
    table = Table("r", (Column("a", BIGINT),))
    for weights in (False, True):
        back: dict[Any, int] = {}
        for change in read_changes(table, feed(changes, table.columns, 4, weights)).changes:
            back[change.row] = back.get(change.row, 0) + change.weight
        assert back == changes


def column(kind: Type, nullable: bool = True) -> Table:
    return Table("r", (Column("a", kind, nullable),))


BAD_VALUES = [
    (column(BIGINT), "7", "BIGINT is expected"),
    (column(BIGINT), True, "BIGINT is expected"),
    (column(BIGINT), 7.0, "BIGINT is expected"),
    (column(BIGINT), 2**63, "out of range for BIGINT"),
    (column(TINYINT), -129, "out of range for TINYINT"),
    (column(BIGINT, nullable=False), None, "NULL in a NOT NULL column"),
    (column(BOOLEAN), 1, "BOOLEAN is expected"),
    (column(decimal(4, 2)), Decimal("1.005"), "more than 2 digits after the point"),
    (column(decimal(4, 2)), Decimal("100"), r"out of range for DECIMAL\(4,2\)"),
    (column(decimal(4, 2)), Decimal("NaN"), "use NULL"),
    (column(decimal(4, 2)), Decimal("1e999999"), "out of range"),
    (column(decimal(4, 2)), 1.5, r"use decimal\.Decimal"),
    (column(DOUBLE), float("nan"), "use NULL"),
    (column(DOUBLE), float("-inf"), "use NULL"),
    (column(DOUBLE), 2**53 + 1, "not exactly"),
    (column(DOUBLE), "1.5", "DOUBLE is expected"),
    (column(FLOAT), 1e300, "FLOAT"),
    (column(DATE), datetime.datetime(2024, 1, 1), "DATE is expected"),
    (column(DATE), "2024-01-01", r"use datetime\.date"),
    (column(TIMESTAMP), datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC), "time zone"),
    (column(TIMESTAMP), pd.Timestamp("2024-01-01 00:00:00.000000001"), "nanoseconds"),
    (column(VARCHAR), b"abc", "decode the bytes"),
    (column(VARCHAR), 5, "VARCHAR is expected"),
    (column(VARCHAR), "\ud800", "UTF-8"),
]


@pytest.mark.parametrize(("table", "value", "message"), BAD_VALUES)
def test_bad_values_are_refused_with_table_column_and_row(table: Table, value: Any, message: str) -> None:
    good = None if table.columns[0].nullable else 1
    with pytest.raises(DataError, match=message) as caught:
        read_inserts(table, [(good,), (value,)])
    assert "table 'r', column 'a', row 1" in str(caught.value)
    with pytest.raises(DataError, match=message):
        read_row(table, (value,))


BAD_ARROW = [
    (column(INT), pa.array([1, 2**31]), "row 1.*out of range for INT"),
    (column(INT), pa.array(["1"]), "the data is string where INT is expected"),
    (column(INT), pa.array([1.0]), "the data is double where INT is expected"),
    (column(BIGINT, nullable=False), pa.array([1, None]), "row 1: NULL in a NOT NULL column"),
    (column(BIGINT), pa.array([2**63], pa.uint64()), "row 0.*out of range"),
    (column(decimal(4, 2)), pa.array([Decimal("1.000"), Decimal("1.005")]), "row 1.*more than 2 digits"),
    (column(decimal(4, 2)), pa.array([100]), "row 0.*out of range"),
    (column(decimal(4, 2)), pa.array([0.5]), "the data is double"),
    (column(DOUBLE), pa.array([1.0, float("nan")]), "row 1.*use NULL"),
    (column(FLOAT), pa.array([1e300]), "FLOAT"),
    (column(DATE), pa.array([datetime.datetime(2024, 1, 1)]), "the data is timestamp"),
    (column(TIMESTAMP), pa.array([1], pa.timestamp("us", "UTC")), "drop the zone"),
    (column(TIMESTAMP), pa.array([1], pa.timestamp("ns")), "nanoseconds|lose"),
    (column(VARCHAR), pa.array([b"a"]), "the data is binary"),
    (column(VARCHAR), pa.array([b"\xff"]).view(pa.string()), "column 'a': invalid Arrow data"),
]


@pytest.mark.parametrize(("table", "values", "message"), BAD_ARROW)
def test_bad_arrow_is_refused(table: Table, values: pa.Array, message: str) -> None:
    with pytest.raises(DataError, match=message) as caught:
        read_inserts(table, pa.table({"a": values}))
    assert "table 'r'" in str(caught.value)


def test_range_errors_are_range_errors() -> None:
    with pytest.raises(ValueRangeError):
        read_inserts(column(INT), pa.table({"a": [2**40]}))


AB = Table("r", (Column("a", BIGINT), Column("b", BIGINT)))
BAD_SHAPES = [
    ([(1,)], "row 0 has 1 values"),
    ([(1, 2), (1, 2, 3)], "row 1 has 3 values"),
    ([{"a": 1}], "column 'b' is missing"),
    ([{"a": 1, "b": 2, "c": 3}], "no column 'c'"),
    ([{"a": 1, "b": 2}, {"a": 1}], "row 1: the columns are a, in row 0 they are a, b"),
    ([{"a": 1, "b": 2}, (1, 2)], "row 1.*not a dict"),
    ([(1, 2), {"a": 1, "b": 2}], "row 1.*neither a tuple nor a dict"),
    ([{"a": 1, "A": 2, "b": 3}], "'a' is given twice"),
    ([5], "row 0: 5 is neither a tuple nor a dict"),
    ({"a": [1], "b": [2]}, "cannot read rows from builtins.dict"),
    ("text", "cannot read rows"),
    (7, "cannot read rows"),
    (pa.table({"a": [1]}), "column 'b' is missing"),
    (pa.table({"a": [1], "b": [1], "z": [1]}), "no column 'z'"),
    (pd.DataFrame({"a": [1, "x"], "b": [1, 2]}), "cannot be read as Arrow"),
    ([{"a": 1, "b": 2, "_weight": 1}], "_weight belongs to apply"),
]


@pytest.mark.parametrize(("data", "message"), BAD_SHAPES)
def test_bad_shapes_are_refused(data: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_inserts(AB, data)


BAD_DIRECTIONS = [
    ({"_weight": 1.5}, "_weight"),
    ({"_weight": None}, "NULL in a NOT NULL column"),
    ({"_change_type": "upsert"}, "row 0: _change_type is 'upsert', not one of insert"),
    ({"_change_type": None}, "NULL"),
    ({"_weight": 1, "_change_type": "insert"}, "not both"),
    ({"_commit_version": 1}, "no column '_commit_version'"),
]


@pytest.mark.parametrize(("extra", "message"), BAD_DIRECTIONS)
def test_bad_directions_are_refused(extra: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_changes(AB, [{"a": 1, "b": 2, **extra}])
