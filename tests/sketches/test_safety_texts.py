"""The safety table for queries without a model of their own: EXCEPT, windows, nested queries, refusals."""

from __future__ import annotations

from random import Random

import pytest

from sketches.databases import arrow_result, load, random_data, result
from viewlet import sketches
from viewlet.errors import ViewletError
from viewlet.sketches.state import Keep


def windowed(window: str, condition: str, source: str = "r") -> str:
    """The rows for whose partition a condition holds."""
    return f"SELECT a, b, d, w FROM (SELECT a, b, d, {window} FROM {source}) AS t WHERE {condition}"


REFUSED = {
    "S9 global aggregate": ("SELECT count(*) FROM r HAVING count(*) < 5", "r.a", "without GROUP BY"),
    "S9 limit without order": (
        "SELECT a, sum(d) FROM r GROUP BY a ORDER BY 2 DESC LIMIT 2",
        "r.a",
        "total order",
    ),
    "S9 nested query": ("SELECT a FROM r WHERE d > (SELECT avg(d) FROM r)", "r.a", "nested query reads r"),
    "S9 exists": (
        "SELECT x FROM s WHERE EXISTS (SELECT 1 FROM r WHERE b = x)",
        "r.a",
        "nested query reads r",
    ),
    "S6 except, right side": ("SELECT a FROM r EXCEPT SELECT x FROM s", "s.y", "EXCEPT"),
    "S6 not exists, inside": (
        "SELECT a FROM r WHERE NOT EXISTS (SELECT 1 FROM s WHERE x = b)",
        "s.y",
        "nested query reads s",
    ),
    "S6 full join": ("SELECT a, y FROM r FULL JOIN s ON b = x", "r.a", "pad rows"),
    "S5 distinct of values that move": (
        "SELECT DISTINCT n FROM (SELECT a, count(*) AS n FROM r GROUP BY a HAVING count(*) > 1) AS t",
        "r.c",
        "DISTINCT",
    ),
    "S5 groups by values that move": (
        "SELECT n, count(*) FROM (SELECT a, count(*) AS n FROM r GROUP BY a) AS t GROUP BY n",
        "r.c",
        "GROUP BY",
    ),
    "S6 except, not aligned": ("SELECT a FROM r EXCEPT SELECT a FROM r WHERE c > 3", "r.c", "EXCEPT"),
    "S1 missing table": ("SELECT a FROM r", "s.x", "does not read"),
    "S7 not the partition's attribute": (windowed("avg(d) OVER (PARTITION BY a) AS w", "w < 5"), "r.c", "S3"),
    "S7 not closed": (windowed("count(*) OVER (PARTITION BY a) AS w", "w < 4"), "r.c", "smaller"),
    "S7 ordered": (windowed("sum(d) OVER (PARTITION BY a ORDER BY d) AS w", "w < 5"), "r.a", "ORDER BY"),
    "S7 ranked": (windowed("row_number() OVER (PARTITION BY a) AS w", "w < 5"), "r.a", "aggregates"),
    "S7 one partition": (windowed("sum(d) OVER () AS w", "w < 5"), "r.a", "name the columns"),
    "S7 all columns": ("SELECT *, sum(d) OVER (PARTITION BY a) AS w FROM r", "r.a", "list the columns"),
    "S7 groups": ("SELECT a, sum(count(*)) OVER (PARTITION BY a) FROM r GROUP BY a", "r.a", "derived table"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    text, attribute, reason = REFUSED[name]
    store = sketches.open(load(random_data(Random(2), 20)))
    with pytest.raises(sketches.UnsafeError, match=reason):
        store.capture(text, on=attribute, ranges=[2])


NOT_UNDERSTOOD = {
    "S9 volatile function": "SELECT a FROM r WHERE random() < 0.5",
}


@pytest.mark.parametrize("name", NOT_UNDERSTOOD)
def test_not_understood(name: str) -> None:
    """Refused before any rule is asked: no view of Viewlet has volatile functions."""
    store = sketches.open(load(random_data(Random(2), 20)))
    with pytest.raises(ViewletError):
        store.capture(NOT_UNDERSTOOD[name], on="r.a", ranges=[2])


SAFE_TEXTS = {
    "S6 except, left side": ("SELECT a FROM r EXCEPT SELECT x FROM s", "r.a"),
    "S6 except, aligned": ("SELECT a FROM r EXCEPT SELECT a FROM r WHERE c > 3", "r.a"),
    "S6 except all": ("SELECT a, b FROM r EXCEPT ALL SELECT a, b FROM r WHERE c > 3", "r.a"),
    "S6 not exists, outside": ("SELECT a FROM r WHERE NOT EXISTS (SELECT 1 FROM s WHERE x = b)", "r.c"),
    "S6 intersect": ("SELECT a FROM r INTERSECT SELECT x FROM s", "r.c"),
    "S9 nested query of another table": ("SELECT a, b FROM r WHERE b IN (SELECT x FROM s)", "r.d"),
    "S9 nested value of another table": ("SELECT a FROM r WHERE d > (SELECT avg(y) FROM s)", "r.c"),
    "S9 limit with a total order": (
        "SELECT a, sum(d) AS t FROM r GROUP BY a ORDER BY t DESC NULLS LAST, a LIMIT 2",
        "r.a",
    ),
    "S9 groups, not a global aggregate": ("SELECT a, count(*) FROM r GROUP BY a HAVING count(*) < 5", "r.a"),
    "S7 average": (windowed("avg(d) OVER (PARTITION BY a) AS w", "w < 5"), "r.a"),
    "S7 each row and its partition": (windowed("min(d) OVER (PARTITION BY b, a) AS w", "d > w + 2"), "r.a"),
    "S7 closed": (windowed("max(d) OVER (PARTITION BY a) AS w", "w > 8"), "r.c"),
    "S7 of a join": (windowed("sum(y) OVER (PARTITION BY b) AS w", "w = 3", "r JOIN s ON b = x"), "s.x"),
    "S7 two windows": (
        "SELECT a, d FROM (SELECT a, d, sum(d) OVER (PARTITION BY a, b) AS s, "
        "count(*) OVER (PARTITION BY a) AS n FROM r WHERE c < 4) AS t WHERE s * 2 > n",
        "r.a",
    ),
    "S7 nested": (
        "SELECT a, w, avg(w) OVER (PARTITION BY a) AS m FROM "
        "(SELECT a, b, min(d) OVER (PARTITION BY a, b) AS w FROM r) AS t ORDER BY m, a, w LIMIT 3",
        "r.a",
    ),
}


@pytest.mark.parametrize("name", SAFE_TEXTS)
def test_safe_texts(name: str) -> None:
    text, attribute = SAFE_TEXTS[name]
    random = Random(text)
    for _ in range(5):
        connection = load(random_data(random, 20))
        store = sketches.open(connection)
        store.capture(text, on=attribute, ranges=[1, 2, 3])
        restricted = result(connection, store.rewrite(text))
        assert restricted == result(connection, text)


@pytest.mark.parametrize("keep", ["auto", "reference"])
def test_windows_follow_changes(keep: Keep) -> None:
    """S7: after every change the fragments are those of the partitions that the condition admits."""
    random = Random(7)
    connection = load(random_data(random, 30))
    store = sketches.open(connection)
    text = windowed("avg(d) OVER (PARTITION BY a) AS w", "w < 5")
    sketch = store.capture(text, on="r.a", ranges=[1, 2, 3], keep=keep, maintain="incremental")
    assert sketch.incremental == (keep == "reference")
    for _ in range(8):
        there = connection.execute("SELECT a, b, c, d FROM r").fetchall()
        gone = [(*row, -1) for row in random.sample(there, 4)]
        new = [(*row, 1) for row in random_data(random, 5)["r"]]
        store.apply(
            {"r": [dict(zip(("a", "b", "c", "d", "_weight"), row, strict=True)) for row in gone + new]}
        )
        answered = store.query(text, use="always").to_pylist()
        assert sorted(map(repr, answered)) == sorted(
            map(repr, connection.sql(text).to_arrow_table().to_pylist())
        )
        values = {a for (a,) in connection.execute("SELECT a FROM r GROUP BY a HAVING avg(d) < 5").fetchall()}
        assert sketch.fragments == {sketch.partitions[0].fragment_of(value) for value in values}


def test_global_aggregate_counterexample() -> None:
    """Why S9 refuses it: the accurate sketch is empty, and over nothing there is a row."""
    connection = load({"r": [(1, 1, 1, 1)] * 9, "s": []})
    text = "SELECT count(*) FROM r HAVING count(*) < 5"
    assert not result(connection, text)
    assert result(connection, text.replace("FROM r", "FROM (SELECT * FROM r WHERE FALSE)"))


def test_broken_assumption_retires() -> None:
    connection = load({"r": [(1, 1, 1, 9), (2, 1, 2, 9)], "s": []})
    store = sketches.open(connection)
    text = "SELECT a FROM r GROUP BY a HAVING sum(d) > 5"
    sketch = store.capture(text, on="r.c", ranges=[2])
    store.apply({"r": [(1, 1, 2, 3)]})
    assert sketch.retired is None
    store.apply({"r": [(1, 1, 2, -7)]})
    assert sketch.retired is not None
    assert "r.d >= 0" in sketch.retired
    with pytest.raises(sketches.SketchError, match="retired"):
        store.query(text, use="always")


@pytest.mark.parametrize(
    ("condition", "assumed"),
    [
        ("min(d + b) < 9", set()),
        ("sum(d) > 5", {"r.d >= 0"}),
        ("sum(d * (1 - b)) > 5", {"r.d >= 0", "0 <= r.b <= 1"}),
    ],
)
def test_no_more_is_assumed_than_needed(condition: str, assumed: set[str]) -> None:
    """A sketch is retired by a negative value, or one above 1, only if it rests on there being none."""
    connection = load({"r": [(1, 1, 1, 1), (2, 0, 2, 1), (2, 0, 1, 9)], "s": []})
    store = sketches.open(connection)
    text = f"SELECT a FROM r GROUP BY a HAVING {condition}"
    sketch = store.capture(text, on="r.c", ranges=[2])
    assert {str(assumption) for assumption in sketch.assumes} == assumed
    store.apply({"r": [(3, 2, 2, -7)]})
    assert (sketch.retired is None) == (not assumed)
    if not assumed:
        assert arrow_result(store.query(text, use="always")) == result(connection, text)


def test_unknown_changes_are_checked_too() -> None:
    """What came behind the store's back may break what the sketch rests on."""
    connection = load({"r": [(1, 1, 1, 9), (2, 1, 2, 9)], "s": []})
    store = sketches.open(connection)
    text = "SELECT a FROM r GROUP BY a HAVING sum(d) > 5"
    store.capture(text, on="r.c", ranges=[2])
    connection.execute("INSERT INTO r VALUES (1, 1, 2, -7)")
    with pytest.raises(sketches.SketchError, match=r"r\.d >= 0"):
        store.query(text, use="always")


@pytest.mark.parametrize(
    "condition",
    [
        "NOT (count(*) < 0 AND sum(d) < 3)",
        "NOT (count(*) > 2 OR sum(d) < 3)",
        "(count(*) > 2 AND sum(d) > 3) IS NULL",
        "(count(*) > 2 OR sum(d) > 9) = (min(d) > 1 AND max(d) < 5)",
        "CASE WHEN count(*) > 2 AND NOT (sum(d) > 3 AND min(d) > 0) THEN 1 ELSE 0 END = 1",
    ],
)
def test_nested_conditions_keep_their_meaning(condition: str) -> None:
    """What is written for a database says the same as the plan, however it is nested."""
    connection = load(random_data(Random(4), 20))
    text = f"SELECT a FROM r WHERE NOT (b = 1 AND c = 2) GROUP BY a HAVING {condition}"
    for way in ("two_pass", "instrumented"):
        store = sketches.open(connection)
        sketch = store.capture(text, on="r.a", ranges=[1, 2, 3, 4, 5], way=way, keep="reference")
        values = [row[0] for row in connection.execute(text).fetchall()]
        assert sketch.fragments == {-1 if a is None else min(max(a, 0), 5) for a in values}
        assert arrow_result(store.query(text, use="always")) == result(connection, text)
