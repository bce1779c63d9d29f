"""UPDATE and DELETE that name rows by their primary key look these up, and do what they would do anyway."""

import random

import pyarrow as pa
import pytest

import viewlet
from viewlet.tables import Tables

CONDITIONS = (
    "a = {x} AND b = {y}",
    "{x} = a AND b IN ({x}, {y}) AND v > 1",
    "a IN ({x}, {y}, {y}) AND b IN (0, 1, 2)",
    "a = {x} AND b = {y} AND a = {y}",
    "a = {x}.0 AND b = {y}",
    "a = {x} OR b = {y}",
    "a = {x} AND b = NULL",
    "a = {x} AND b <> {y}",
    "a = {x} AND b = {y} AND v < (SELECT MAX(v) FROM t)",
    "a = {x} AND b = (SELECT MIN(b) FROM t WHERE a = {y})",
)
STATEMENTS = ("UPDATE t SET v = v + 10", "UPDATE t SET a = a + 5, b = b - 1", "DELETE FROM t")
ROWS = [(a, b, a * b) for a in range(4) for b in range(4)]


def table(rows: list[tuple[int, int, int]], arrow: bool) -> viewlet.Database:
    db = viewlet.connect(backend="reference")
    db.execute("CREATE TABLE t (a BIGINT, b INT, v BIGINT, PRIMARY KEY (a, b))")
    db.execute("CREATE MATERIALIZED VIEW all_t AS SELECT a, b, v FROM t")
    columns = dict(zip("abv", zip(*rows, strict=True), strict=True))
    db.insert("t", pa.table(columns) if arrow else rows)
    return db


@pytest.mark.parametrize("arrow", [False, True])
@pytest.mark.parametrize("condition", CONDITIONS)
def test_same_as_by_looking_at_all_rows(condition: str, arrow: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(condition)
    for statement in STATEMENTS:
        text = f"{statement} WHERE {condition.format(x=rng.randrange(4), y=rng.randrange(4))}"
        looked_up, scanned = table(ROWS, arrow), table(ROWS, arrow)
        found = looked_up.execute(text).rows
        with monkeypatch.context() as patched:
            patched.setattr("viewlet.assigned.asked_keys", lambda plan, of: None)
            assert scanned.execute(text).rows == found
        assert looked_up.view("all_t").rows() == scanned.view("all_t").rows() == looked_up.table("t").rows()


@pytest.mark.parametrize("arrow", [False, True])
def test_rows_that_are_not_asked_for_stay_where_they_are(
    arrow: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    db = table(ROWS, arrow)

    def refuse(tables: Tables, name: str) -> None:
        raise AssertionError("all rows are read")

    monkeypatch.setattr(Tables, "bag", refuse)
    assert db.execute("UPDATE t SET v = -1 WHERE a = 2 AND b IN (1, 9)").rows == 1
    with pytest.raises(AssertionError, match="all rows are read"):
        db.execute("UPDATE t SET v = -1 WHERE a = 2")
