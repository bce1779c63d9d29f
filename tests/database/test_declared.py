"""Batches that native code finds to be as declared are read as the long way reads them, and no others are."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import viewlet
from viewlet.changes import read_changes
from viewlet.core.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    SMALLINT,
    TIMESTAMP,
    VARCHAR,
    Column,
    decimal,
)
from viewlet.declared import Declared
from viewlet.errors import ViewletError
from viewlet.sql.catalog import Table

pytestmark = pytest.mark.native

TABLE = Table(
    "r",
    (
        Column("k", BIGINT, nullable=False),
        Column("s", VARCHAR),
        Column("n", decimal(5, 2)),
        Column("w", decimal(30, 2)),
        Column("f", FLOAT),
        Column("d", DOUBLE),
        Column("b", BOOLEAN),
        Column("day", DATE),
        Column("t", SMALLINT),
        Column("m", TIMESTAMP),
    ),
)
TYPES = {
    "k": pa.int64(),
    "s": pa.string(),
    "n": pa.decimal128(5, 2),
    "w": pa.decimal128(30, 2),
    "f": pa.float32(),
    "d": pa.float64(),
    "b": pa.bool_(),
    "day": pa.date32(),
    "t": pa.int16(),
    "m": pa.timestamp("us"),
    "_weight": pa.int64(),
}
WIDE = Decimal("9999999999999999999999999999.99")
ROW = st.tuples(
    st.integers(-(2**63), 2**63 - 1),
    st.sampled_from([None, "", "a", "straße", "日本", "🦆" * 9, "x" * 200]),
    st.sampled_from([None, Decimal("999.99"), Decimal("-999.99"), Decimal(0), Decimal("-0.01")]),
    st.sampled_from([None, WIDE, WIDE.copy_negate(), Decimal(0)]),
    st.sampled_from([None, 0.5, -1.5, 0.0]),
    st.sampled_from([None, 5e-324, -1.7e308, 0.0]),
    st.sampled_from([None, True, False]),
    st.sampled_from([None, date.min, date.max]),
    st.sampled_from([None, -32768, 7]),
    st.sampled_from([None, datetime.min, datetime.max]),
    st.sampled_from([1, 1, 1, -1, 2**31 - 1, -(2**31 - 1)]),
)


def arrow(rows: list[tuple[Any, ...]]) -> pa.Table:
    columns = zip(zip(*rows, strict=True), TYPES.values(), strict=True)
    return pa.table([pa.array(column, kind) for column, kind in columns], list(TYPES))


@settings(deadline=None)
@given(rows=st.lists(ROW, min_size=1, max_size=40), start=st.integers(0, 39), seed=st.integers(0, 99))
def test_sound_batches_are_told(rows: list[tuple[Any, ...]], start: int, seed: int) -> None:
    """Wherever a batch begins in its buffers, however its columns are ordered and spelled."""
    table = arrow(rows).slice(start % len(rows))
    order = np.random.default_rng(seed).permutation(table.num_columns)
    shuffled = table.select(order.tolist())
    shuffled = shuffled.rename_columns([name.upper() for name in shuffled.column_names])
    reader = Declared(TABLE)
    for data in (table, shuffled, table):
        found = reader.changes(data)
        assert found is not None
        assert found == read_changes(TABLE, data).changes
        assert found.batch.schema == read_changes(TABLE, table).changes.batch.schema  # type: ignore[attr-defined]
        assert reader.insertions(data) is None
    pieces = pa.concat_tables([table.slice(0, seed % 5), table.slice(seed % 5)])
    found = reader.changes(pieces)
    assert found is not None
    assert found == read_changes(TABLE, pieces).changes
    inserted = reader.insertions(table.drop_columns("_weight"))
    assert inserted is not None
    assert inserted.weights is None


def value(kind: pa.DataType, data: bytes) -> pa.Array:
    return pa.Array.from_buffers(kind, 2, [None, pa.py_buffer(data)])


def texts(offsets: list[int], data: bytes) -> pa.Array:
    buffers = [None, pa.py_buffer(np.array(offsets, np.int32)), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.string(), len(offsets) - 1, buffers)


def wide(*values: int) -> bytes:
    return b"".join(n.to_bytes(16, "little", signed=True) for n in values)


FIRST, END = -719162 * 86_400_000_000, 2932897 * 86_400_000_000
NULLS = pa.py_buffer(b"\x01")
WRONG: dict[str, Callable[[], dict[str, pa.Array]]] = {
    "NULL where none may be": lambda: {"k": pa.array([1, None])},
    "a count of NULLs that is not true": lambda: {
        "t": pa.Array.from_buffers(pa.int16(), 2, [NULLS, pa.py_buffer(bytes(4))], 2)
    },
    "too many digits": lambda: {"n": value(pa.decimal128(5, 2), wide(5, 100_000))},
    "too many digits below zero": lambda: {"n": value(pa.decimal128(5, 2), wide(-100_000, 5))},
    "digits in the high word": lambda: {"n": value(pa.decimal128(5, 2), wide(5, 1 << 64))},
    "digits in the high word alone, below zero": lambda: {
        "n": value(pa.decimal128(5, 2), wide(5, -(1 << 64)))
    },
    "the ends of the low word": lambda: {"n": value(pa.decimal128(5, 2), wide((1 << 63) - 1, -(1 << 63)))},
    "too many digits of many": lambda: {"w": value(pa.decimal128(30, 2), wide(0, 10**30))},
    "too many digits beside a NULL": lambda: {
        "n": pa.Array.from_buffers(pa.decimal128(5, 2), 2, [NULLS, pa.py_buffer(wide(100_000, 0))])
    },
    "not a number": lambda: {"d": pa.array([1.0, float("nan")])},
    "infinite": lambda: {"f": pa.array([1.0, float("-inf")], pa.float32())},
    "negative zero": lambda: {"d": pa.array([-0.0, 1.0])},
    "negative zero of FLOAT": lambda: {"f": pa.array([-0.0, 1.0], pa.float32())},
    "a day before the first": lambda: {"day": pa.array([-719163, 0], pa.int32()).view(pa.date32())},
    "a day after the last": lambda: {"day": pa.array([None, 2932897], pa.int32()).view(pa.date32())},
    "a moment before the first": lambda: {"m": pa.array([0, FIRST - 1]).view(pa.timestamp("us"))},
    "a moment after the last": lambda: {"m": pa.array([END, None]).view(pa.timestamp("us"))},
    "not UTF-8": lambda: {"s": texts([0, 1, 2], b"a\xff")},
    "half a character": lambda: {"s": texts([0, 1, 2], "ä".encode())},
    "a surrogate": lambda: {"s": texts([0, 3, 3], b"\xed\xa0\x80")},
    "offsets that fall": lambda: {"s": texts([0, 2, 1], b"abc")},
    "offsets that fall within many": lambda: {"s": texts([0, 1, 2, 3, 4, 3, 6, 7, 8, 9], b"abcdefghi")},
    "offsets below zero": lambda: {"s": texts([0, -1, 2], b"abc")},
    "offsets beyond the text": lambda: {"s": texts([0, 9, 2], b"abc")},
    "a weight of nothing": lambda: {"_weight": pa.array([1, 0])},
    "a weight that is NULL": lambda: {"_weight": pa.array([1, None])},
    "too many copies": lambda: {"_weight": pa.array([1, 1 << 31])},
    "too many copies that go": lambda: {"_weight": pa.array([1, -(1 << 31)])},
    "another type": lambda: {"k": pa.array([1, 2], pa.int32())},
    "another type of weights": lambda: {"_weight": pa.array([1, 1], pa.int32())},
    "other digits": lambda: {"n": pa.array([1, 2], pa.decimal128(6, 2))},
}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_not_as_declared_goes_the_long_way(what: str) -> None:
    changed = WRONG[what]()
    rows = max(map(len, changed.values()))
    sound = {name: pa.array([{"k": 1, "_weight": 1}.get(name)] * rows, kind) for name, kind in TYPES.items()}
    reader = Declared(TABLE)
    assert reader.changes(pa.table(sound)) is not None
    assert reader.changes(pa.table(sound | changed)) is None
    if "type" not in what and what != "other digits":
        both = pa.concat_tables([pa.table(sound), pa.table(sound | changed)])
        assert reader.changes(both) is None
    assert reader.changes(pa.table(sound)) is not None


@pytest.mark.parametrize(
    "other",
    [
        {"z": pa.array([1])},
        {"_change_type": pa.array(["insert"])},
        {"_commit_version": pa.array([1])},
        {"K": pa.array([1])},
    ],
)
def test_other_columns_go_the_long_way(other: dict[str, pa.Array]) -> None:
    columns = {name: pa.array([{"k": 1, "_weight": 1}.get(name)], kind) for name, kind in TYPES.items()}
    assert Declared(TABLE).changes(pa.table(columns | other)) is None
    del columns["s"]
    assert Declared(TABLE).changes(pa.table(columns)) is None


@pytest.mark.parametrize("kind", ["TABLE", "STREAM"])
def test_a_database_takes_and_refuses_by_either_way(kind: str) -> None:
    """A batch that native code tells to be sound may still be refused; what it does not tell may be taken."""
    db = viewlet.connect()
    db.execute(f"CREATE {kind} r (k BIGINT NOT NULL, f DOUBLE, s VARCHAR, t TINYINT)")
    db.execute("CREATE MATERIALIZED VIEW v AS SELECT k, s, sum(f) AS f, sum(t) AS t FROM r GROUP BY k, s")
    good = {
        "k": [1, 2, 2],
        "f": [0.5, None, 0.25],
        "s": ["a", "ä", "ä"],
        "t": pa.array([None, -3, 4], pa.int8()),
    }
    db.insert("r", pa.table(good).slice(1))
    db.insert("r", pa.table(good | {"f": [-0.0, 1.0, 2.0], "t": [7, 7, 7]}))
    db.apply({"r": pa.table(good | {"_weight": [2, 1, 1]})})
    expected = [(1, "a", 1.0, 7), (2, "ä", 3.5, 16)]
    assert db.view("v").rows() == expected
    for wrong in ({"k": [1, None, 2]}, {"f": [0.5, float("inf"), 1]}, {"_weight": [1, 1, 1 << 40]}):
        with pytest.raises(ViewletError):
            db.apply({"r": pa.table(good | wrong)})
    with pytest.raises(ViewletError, match="_weight belongs to apply"):
        db.insert("r", pa.table(good | {"_weight": [1, 1, 1]}))
    assert db.view("v").rows() == expected
    assert db.version == 3
