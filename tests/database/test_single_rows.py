"""Single rows come to and go from a table whose rows came as Arrow batches."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
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


KEYED = st.tuples(st.integers(0, 5), st.sampled_from(["x", "y", None]))
KEYED_STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["error", "update", "nothing"]), st.lists(KEYED, min_size=1, max_size=3)),
        st.tuples(st.sampled_from(["load", "load update"]), st.lists(KEYED, min_size=1, max_size=3)),
        st.tuples(st.sampled_from(["remove", "remove key"]), KEYED),
        st.tuples(st.sampled_from(["swap", "read"]), KEYED),
    ),
    max_size=25,
)


def keyed_after(held: dict[int, Any], what: str, rows: list[Any]) -> dict[int, Any] | None:
    """What a table with a key holds after one step; ``None`` if the step must be refused."""
    after = dict(held)
    if what.startswith("remove"):
        ((key, value),) = rows
        if key not in held or (what == "remove" and held[key] != value):
            return None
        del after[key]
        return after
    for key, value in rows:
        if key not in after or what.endswith("update"):
            after[key] = value
        elif what != "nothing":
            return None
    return after


def keyed_step(db: viewlet.Database, what: str, rows: list[Any]) -> None:
    match what:
        case "remove":
            db.table("r").remove(*rows[0])
        case "remove key":
            db.delete("r", [{"a": rows[0][0]}])
        case "load":
            db.insert("r", arrow(rows))
        case "load update":
            db.insert("r", arrow(rows), on_conflict="update")
        case _:
            db.insert("r", rows, on_conflict=what)  # type: ignore[arg-type]


@settings(max_examples=100, deadline=None)
@given(steps=KEYED_STEPS)
@example(steps=[("update", [(1, "y"), (1, "x"), (1, "y")])])
@example(
    steps=[("update", [(1, "y")]), ("remove key", (1, None)), ("error", [(1, "x")]), ("read", (0, None))]
)
def test_rows_with_a_key_are_what_came_and_did_not_go(steps: list[tuple[str, Any]]) -> None:
    db = viewlet.connect()
    db.execute(
        "CREATE TABLE r (a BIGINT, b VARCHAR, PRIMARY KEY (a));"
        "CREATE MATERIALIZED VIEW n AS SELECT b, count(*) AS n FROM r GROUP BY b"
    )
    db.insert("r", arrow([(i, "x") for i in range(LOADED)]))
    held: dict[int, Any] = dict.fromkeys(range(LOADED), "x")
    for what, given_rows in steps:
        if what == "read":
            assert content(db) == Counter(held.items())
            continue
        rows = given_rows if isinstance(given_rows, list) else [given_rows]
        if what == "swap":  # delete a row and insert another one of its key, in one batch
            ((key, value),) = rows
            if key in held:
                weights = pa.array([-1, 1])
                batch = arrow([(key, held[key]), (key, value)]).append_column("_weight", weights)
                db.apply({"r": batch.to_pylist() if value else batch})
                held[key] = value
            continue
        after = keyed_after(held, what, rows)
        if after is None:
            with pytest.raises(DataError):
                keyed_step(db, what, rows)
        else:
            keyed_step(db, what, rows)
            held = after
    assert content(db) == Counter(held.items())
    assert Counter(dict(db.view("n").rows())) == Counter(held.values())
    db.close()
