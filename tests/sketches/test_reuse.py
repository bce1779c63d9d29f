"""Which other queries a sketch serves: what the rules accept never fails, what they refuse can."""

from __future__ import annotations

from random import Random

import pytest

from sketches.databases import arrow_result, load, random_changes, random_data, result
from viewlet import sketches

AVG = "SELECT a FROM r GROUP BY a HAVING avg(d) < {}"
COUNT = "SELECT a FROM r WHERE c >= {} GROUP BY a HAVING count(*) > {}"
SUM = "SELECT a FROM r WHERE c >= {} GROUP BY a HAVING sum(d) > {}"
TOP = "SELECT a, sum(d) AS v FROM r {} GROUP BY a ORDER BY v DESC NULLS LAST, a LIMIT {}"

SERVED = {
    "R1 stricter threshold": (AVG.format(6), AVG.format(5), "r.a"),
    "R1 both sides": (
        "SELECT a FROM r GROUP BY a HAVING avg(d) BETWEEN 2 AND 8",
        "SELECT a FROM r GROUP BY a HAVING avg(d) > 3 AND avg(d) < 7",
        "r.a",
    ),
    "R1 other attribute": (SUM.format(1, 10), SUM.format(1, 20), "r.b"),
    "R1 or": (
        "SELECT a FROM r GROUP BY a HAVING max(d) > 7 OR min(c) < 1",
        "SELECT a FROM r GROUP BY a HAVING max(d) > 8",
        "r.b",
    ),
    "R2 stricter WHERE on groups": (
        AVG.format(6),
        "SELECT a FROM r WHERE a > 1 GROUP BY a HAVING avg(d) < 6",
        "r.a",
    ),
    "R2 beside another condition": (
        "SELECT a FROM r WHERE c > 1 GROUP BY a HAVING avg(d) < 6",
        "SELECT a FROM r WHERE c > 1 AND a > 1 GROUP BY a HAVING avg(d) < 6",
        "r.a",
    ),
    "R3 count": (COUNT.format(1, 2), COUNT.format(2, 2), "r.b"),
    "R3 sum": (SUM.format(1, 10), SUM.format(3, 12), "r.a"),
    "R4 fewer": (TOP.format("", 3), TOP.format("", 2), "r.a"),
    "R5 other columns": (
        AVG.format(6),
        "SELECT a, count(*), max(c) FROM r GROUP BY a HAVING avg(d) < 6",
        "r.a",
    ),
    "rows": ("SELECT a, b FROM r WHERE d > 3", "SELECT c FROM r WHERE d > 5 AND b = 1", "r.c"),
    "join": (
        "SELECT a, y FROM r JOIN s ON b = x WHERE y > 1",
        "SELECT a FROM r JOIN s ON b = x WHERE y > 2 AND a < 3",
        "s.y",
    ),
}

REFUSED = {
    "R1 wider threshold": (AVG.format(5), AVG.format(6), "r.a", "R1"),
    "R1 another aggregate": (AVG.format(5), "SELECT a FROM r GROUP BY a HAVING max(d) > 7", "r.a", "R1"),
    "R2 wider WHERE": (
        "SELECT a FROM r WHERE a > 1 GROUP BY a HAVING avg(d) < 6",
        AVG.format(6),
        "r.a",
        "R1",
    ),
    "R3 avg": (AVG.format(5), "SELECT a FROM r WHERE c > 2 GROUP BY a HAVING avg(d) < 5", "r.a", "R3"),
    "R3 count below": (
        "SELECT a FROM r GROUP BY a HAVING count(*) < 4",
        "SELECT a FROM r WHERE c > 2 GROUP BY a HAVING count(*) < 4",
        "r.a",
        "R3",
    ),
    "R3 lower threshold": (SUM.format(1, 20), SUM.format(2, 10), "r.a", "R1"),
    "R3 signed sum": (SUM.format(-6, 10), SUM.format(2, 10), "r.a", "R3"),
    "R4 more": (TOP.format("", 2), TOP.format("", 3), "r.a", "R4"),
    "R4 stricter WHERE": (TOP.format("", 2), TOP.format("WHERE a > 1", 2), "r.a", "R4"),
    "R4 another order": (TOP.format("", 2), TOP.format("", 2).replace("DESC", "ASC"), "r.a", "R4"),
    "other groups": (
        "SELECT a FROM r GROUP BY a HAVING count(*) > 5",
        "SELECT b FROM r GROUP BY b HAVING count(*) > 5",
        "r.a",
        "groups",
    ),
    "not safe": (AVG.format(6), "SELECT b FROM r GROUP BY b HAVING avg(d) < 6", "r.a", "not safe"),
}


@pytest.mark.parametrize("name", SERVED)
def test_served(name: str) -> None:
    old, new, attribute = SERVED[name]
    random = Random(name)
    for _ in range(2):
        data = random_data(random, 25)
        connection = load(data)
        store = sketches.open(connection)
        store.capture(old, on=attribute, ranges=[1, 2, 3, 4])
        for _ in range(2):
            assert arrow_result(store.query(new, use="always")) == result(connection, new), (
                f"{store.rewrite(new)} over {data}"
            )
            store.apply(random_changes(random, data))


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    old, new, attribute, reason = REFUSED[name]
    random = Random(name)
    wrong = 0
    for _ in range(60):
        connection = load(random_data(random, 20, -6 if "signed" in name else 0))
        store = sketches.open(connection)
        sketch = store.capture(old, on=attribute, ranges=[1, 2, 3, 4])
        with pytest.raises(sketches.SketchError, match=reason):
            store.query(new, use="always")
        restricted = store._restricted(new, sketch)
        wrong += result(connection, restricted) != result(connection, new)
        if wrong:
            return
    raise AssertionError("the refusal has no counterexample")


RANGE = "SELECT a FROM r GROUP BY a HAVING avg(d) {}"
JOIN = "SELECT a, y FROM r JOIN s ON b = x WHERE c {}"
TOGETHER = {
    "R5 either side": (RANGE, ("< 3", "> 6"), "NOT BETWEEN 2 AND 7", "r.a"),
    "R5 adjacent ranges": (RANGE, ("BETWEEN 1 AND 4", "BETWEEN 4 AND 7"), "BETWEEN 2 AND 6", "r.a"),
    "R5 three of them": (
        RANGE,
        ("BETWEEN 1 AND 3", "BETWEEN 3 AND 5", "BETWEEN 5 AND 8"),
        "BETWEEN 2 AND 7",
        "r.a",
    ),
    "R5 listed values": (JOIN, ("< 2", "> 3"), "IN (1, 4)", "s.y"),
    "R5 rows of a join": (JOIN, ("< 2", "> 3"), "NOT BETWEEN 1 AND 4", "s.y"),
}
APART = {
    "R5 a gap": (RANGE, ("< 3", "> 5"), "BETWEEN 2 AND 6", "r.a"),
    "R5 below the groups": (
        "SELECT a FROM r WHERE c {} GROUP BY a HAVING count(*) > 2",
        ("< 3", ">= 3"),
        "IS NOT NULL",
        "r.b",
    ),
    "R5 other ranges": (RANGE, ("< 3", "> 3"), "<> 3", "r.a"),
}


@pytest.mark.parametrize("name", TOGETHER)
def test_served_together(name: str) -> None:
    """None of the sketches serves the query, but their union does, while the data changes."""
    template, olds, new, attribute = TOGETHER[name]
    random, text = Random(name), template.format(new)
    data = random_data(random, 30)
    connection = load(data)
    store = sketches.open(connection)
    for old in (*olds, "= 99"):
        store.capture(template.format(old), on=attribute, ranges=[1, 2, 3, 4], eager=False)
    for _ in range(4):
        assert arrow_result(store.query(text, use="always")) == result(connection, text), data
        assert len(store.find(text).sketches) == len(olds), "as few as possible"
        store.apply(random_changes(random, data))
    assert "usable together" in store.explain(text)
    store.sketches.pop(0)
    with pytest.raises(sketches.SketchError, match="no sketch serves"):
        store.query(text)


@pytest.mark.parametrize("name", APART)
def test_not_served_together(name: str) -> None:
    template, olds, new, attribute = APART[name]
    random, text = Random(name), template.format(new)
    for _ in range(60):
        connection = load(random_data(random, 20))
        store = sketches.open(connection)
        kept = set()
        for number, old in enumerate(olds):
            ranges = [1, 2, 3] if name == "R5 other ranges" and number else [1, 2, 3, 4]
            kept |= store.capture(template.format(old), on=attribute, ranges=ranges).fragments
        with pytest.raises(sketches.SketchError, match="no sketch serves"):
            store.query(text, use="always")
        if (
            name == "R5 other ranges"
        ):  # their fragments have different meanings: there is no union to be wrong
            return
        column = attribute.split(".")[1]
        number = " + ".join(f"({column} >= {bound})::INT" for bound in (1, 2, 3, 4))
        listed = ", ".join(map(str, kept)) or "NULL"
        part = f"(SELECT * FROM r WHERE coalesce({number}, -1) IN ({listed})) AS r"
        if result(connection, text.replace("FROM r", f"FROM {part}")) != result(connection, text):
            return
    raise AssertionError("the refusal has no counterexample")


def test_served_until_an_assumption_breaks() -> None:
    """R3 for a sum rests on values >= 0 although the sketch itself, on a group attribute, does not."""
    connection = load({"r": [(1, 1, 1, 9), (1, 1, 3, 9), (2, 1, 3, 9), (2, 1, 3, 9)], "s": []})
    store = sketches.open(connection)
    sketch = store.capture(SUM.format(0, 10), on="r.a", ranges=[2], maintain="incremental")
    stricter = SUM.format(2, 10)
    assert arrow_result(store.query(stricter, use="always")) == {(2,): 1}
    assert len(sketch.served) == 1
    store.apply({"r": [(3, 1, 3, 1)]})
    assert arrow_result(store.query(stricter, use="always")) == {(2,): 1}
    store.apply({"r": [(3, 1, 0, -50), (3, 1, 3, 40)]})
    assert not sketch.served
    assert sketch.retired is None
    with pytest.raises(sketches.SketchError, match="R3"):
        store.query(stricter, use="always")
    assert result(connection, stricter) == {(2,): 1, (3,): 1}
    assert sketch.fragments == {0, 1}
