"""Single rows come to and go from a table whose rows came as Arrow batches."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import viewlet
from viewlet.errors import DataError

LOADED = 1_200
"""Enough rows that they stay as they came."""

ROWS = st.tuples(st.integers(0, 3), st.sampled_from(["x", None]))
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), ROWS),
        st.tuples(st.just("remove"), ROWS),
        st.tuples(st.just("load"), st.lists(ROWS, min_size=1, max_size=4)),
        st.tuples(st.just("unload"), st.lists(ROWS, min_size=1, max_size=4)),
        st.tuples(st.just("clear"), ROWS),
        st.tuples(st.just("read"), st.none()),
    ),
    max_size=25,
)


def arrow(rows: list[Any]) -> pa.Table:
    types = (("a", pa.int64()), ("b", pa.string()))
    return pa.table({name: pa.array([row[i] for row in rows], kind) for i, (name, kind) in enumerate(types)})


def content(db: viewlet.Database) -> Counter[Any]:
    found = db.table("r").to_arrow()
    return Counter(zip(*(column.to_pylist() for column in found.columns), strict=True))


@settings(max_examples=60, deadline=None)
@given(steps=STEPS, spread=st.integers(2, 4))
def test_rows_are_what_came_and_did_not_go(steps: list[tuple[str, Any]], spread: int) -> None:
    db = viewlet.connect()
    db.execute(
        "CREATE TABLE r (a BIGINT, b VARCHAR); CREATE MATERIALIZED VIEW n AS SELECT count(*) AS n FROM r"
    )
    start = [(i % spread, "x" if i % 2 else None) for i in range(LOADED)]
    db.insert("r", arrow(start))
    held, table = Counter(start), db.table("r")
    for what, rows in steps:
        if what == "read":
            assert content(db) == +held
            continue
        if what == "clear":  # all copies but one, so that what is beside the loaded rows is felt
            rows = [rows] * (held[rows] - 1)
        changes = Counter([rows] if what in ("add", "remove") else rows)
        going = what in ("remove", "unload", "clear")
        if going and not changes <= held:
            with pytest.raises(DataError, match="not there"):
                table.remove(*rows) if what == "remove" else table.delete(arrow(rows))
            continue
        if what in ("add", "remove"):
            (table.remove if going else table.add)(*rows)
        elif rows:
            (table.delete if going else table.insert)(arrow(rows))
        held = held - changes if going else held + changes
    assert db.view("n").value == held.total()
    assert content(db) == +held
    db.close()


def test_rows_that_went_are_gone_after_a_restart(tmp_path: Any) -> None:
    with viewlet.connect(tmp_path / "rows.viewlet") as db:
        db.execute("CREATE TABLE r (a BIGINT, b VARCHAR)")
        db.insert("r", arrow([(i, "x") for i in range(LOADED)]))
        db.table("r").remove(7, "x")
        db.checkpoint()
        db.table("r").remove(8, "x")
        held = content(db)
    with viewlet.connect(tmp_path / "rows.viewlet") as db:
        assert content(db) == held
        assert held.total() == LOADED - 2
        with pytest.raises(DataError, match="not there"):
            db.table("r").remove(7, "x")
