"""Keys that rise are not looked up, and nobody can tell; rows that are the same are found in either way."""

from __future__ import annotations

import random
from collections import Counter
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import viewlet
from viewlet import arrived, places
from viewlet import kept as kept_rows
from viewlet.backends import distinct
from viewlet.backends.native.library import bridge
from viewlet.core.types import BIGINT, DATE, TIMESTAMP, VARCHAR, Column
from viewlet.errors import DataError
from viewlet.rising import Rising

KEY = pa.schema({"a": "int64", "b": "date32"})
PAIR = st.tuples(st.integers(0, 3), st.integers(0, 3).map(lambda n: date(2024, 1, 1 + n)))


def keys_of(rows: list[tuple[int, date]]) -> pa.RecordBatch:
    columns = list(zip(*rows, strict=True)) or [[], []]
    return pa.record_batch([pa.array(c, f.type) for c, f in zip(columns, KEY, strict=True)], schema=KEY)


@given(batches=st.lists(st.lists(PAIR, max_size=3), max_size=5))
def test_keys_that_follow_are_new(batches: list[list[tuple[int, date]]]) -> None:
    """And while no batch came out of order, those that rise beyond all before them do follow."""
    rising = Rising((Column("a", BIGINT, False), Column("b", DATE, False)))
    seen: list[tuple[int, date]] = []
    always = True
    for batch in batches:
        follows = rising.follow(keys_of(batch))
        if follows:
            assert len({*batch}) == len(batch)
            assert {*batch}.isdisjoint(seen)
        if always:
            in_order = [*seen[-1:], *batch]
            assert follows == (in_order == sorted({*in_order}))
        always = always and follows
        rising.extend(keys_of(batch))
        seen += batch


def test_which_keys_have_an_order() -> None:
    texts = Rising((Column("a", VARCHAR, False),))
    assert not texts.follow(pa.record_batch({"a": ["a", "b"]}))
    times = Rising((Column("a", TIMESTAMP, False),))
    batch = pa.record_batch({"a": pa.array([datetime(1900, 1, 1), datetime(2000, 1, 1)], pa.timestamp("us"))})
    assert times.follow(batch)
    times.extend(batch)
    assert not times.follow(batch)
    empty = Rising((Column("a", BIGINT),))
    assert not empty.follow(pa.record_batch({"a": [1, None]}))
    assert empty.follow(pa.record_batch({"a": pa.array([], pa.int64())}))


def table(rows: list[tuple[int, int]], weights: list[int] | None = None) -> pa.Table:
    found = pa.table(
        {"a": [a for a, _ in rows], "b": [b for _, b in rows]}, pa.schema({"a": "int64", "b": "int64"})
    )
    return found if weights is None else found.append_column("_weight", pa.array(weights, pa.int64()))


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("backend", ["reference", pytest.param("native", marks=pytest.mark.native)])
def test_an_index_that_waits_is_as_good(seed: int, backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is asked between batches of keys that mostly rise: the rows are a dict by key."""
    monkeypatch.setattr(kept_rows, "MOST_BESIDE", 20)
    monkeypatch.setattr(places, "MANY_KEYS", 300)
    monkeypatch.setattr(arrived, "FEW_ROWS", 100)
    monkeypatch.setattr(arrived, "SLACK", 200)
    draw = random.Random(seed)
    db = viewlet.connect(backend=backend)
    db.execute("CREATE TABLE t (a BIGINT PRIMARY KEY, b BIGINT)")
    db.execute("CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n, sum(b) AS b FROM t")
    kept: dict[int, int] = {}
    top = 0
    for _ in range(80):
        size = draw.choice([1, 7, 40])
        new = [(top + 2 * i + draw.randrange(2), draw.randrange(9)) for i in range(1, size + 1)]
        match draw.choice(
            ["rise", "rise", "rise", "order", "twice", "taken", "single", "delete", "replace", "gap"]
        ):
            case "rise":
                db.insert("t", table(new))
                kept.update(new)
            case "order":
                db.insert("t", table(draw.sample(new, len(new))))
                kept.update(new)
            case "gap" if free := [key for key in range(top) if key not in kept]:
                db.insert("t", table([(key, 1) for key in sorted(draw.sample(free, min(5, len(free))))]))
                kept = {**kept, **{key: b for key, b in db.table("t").rows() if key not in kept}}
            case "twice":
                with pytest.raises(DataError, match="would occur twice"):
                    db.insert("t", table([*new, new[-1]]))
            case "taken" if kept:
                with pytest.raises(DataError, match="would occur twice"):
                    db.insert("t", table(sorted([*new, (draw.choice(list(kept)), 5)])))
            case "single":
                db.insert("t", new[:1])
                kept.update(new[:1])
            case "delete" if kept:
                going = draw.sample(sorted(kept.items()), min(len(kept), 25))
                db.apply({"t": table([*going, *new], [-1] * len(going) + [1] * len(new))})
                kept = {**{k: b for k, b in kept.items() if (k, b) not in going}, **dict(new)}
            case "replace" if kept:
                both = sorted(dict([(draw.choice(list(kept)), 77), *new]).items())
                db.insert("t", table(both), on_conflict="update")
                kept.update(both)
        top = max([top, *kept])
        assert db.view("v").rows() == [(len(kept), sum(kept.values()) if kept else None)]
        assert len(db.table("t")) == len(kept)
    assert db.table("t").rows() == sorted(kept.items())


TYPES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "i": (pa.int8(), [None, 0, -1]),
    "s": (pa.string(), [None, "", "ä", "a" * 20]),
    "l": (pa.large_string(), ["x", "y"]),
    "n": (pa.decimal128(38, 0), [None, Decimal(0), Decimal(1 << 64), Decimal(-1)]),
    "f": (pa.float32(), [None, 0.0, -0.0, 1.5]),
    "d": (pa.float64(), [0.0, -0.0]),
    "b": (pa.bool_(), [None, True, False]),
    "t": (pa.timestamp("us"), [None, datetime(1970, 1, 1), datetime(2024, 1, 1)]),
}


@pytest.mark.native
@pytest.mark.parametrize("seed", range(40))
def test_rows_that_are_the_same(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """By native code, by NumPy, and by a dict; wherever a batch begins in its buffers."""
    draw = random.Random(seed)
    chosen = draw.sample(sorted(TYPES), draw.randint(1, 3))
    rows = [
        tuple(draw.choice(TYPES[name][1]) for name in chosen) for _ in range(draw.choice([0, 1, 20, 200]))
    ]
    columns = list(zip(*rows, strict=True)) or [()] * len(chosen)
    arrays = [pa.array(c, TYPES[name][0]) for name, c in zip(chosen, columns, strict=True)]
    start = draw.randint(0, len(rows))
    batch, rows = pa.record_batch(arrays, chosen).slice(start), rows[start:]
    weights = np.array([draw.choice([1, 1, -1, 3]) for _ in rows], np.int64)
    expected: Counter[tuple[Any, ...]] = Counter()
    for row, weight in zip(rows, weights.tolist(), strict=True):
        expected[row] += weight
    first = [rows.index(row) for row in expected]
    bridge()
    assert distinct.distinct(batch.__arrow_c_array__(), batch.num_columns, weights) is not None
    for _ in range(2):
        found, sums = distinct.distinct_rows(batch, weights)
        assert found.tolist() == first
        assert sums.tolist() == list(expected.values())
        assert distinct.are_distinct(batch) == (len(expected) == len(rows))
        monkeypatch.setattr(distinct, "distinct", lambda *_: None)
