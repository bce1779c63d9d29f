"""The safety table, both ways: what is called safe never fails, what is refused has a counterexample."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import duckdb
import pytest

from sketches.databases import load, random_data, result
from sketches.model import Data, Having, Spec, Top, fragments
from viewlet import sketches
from viewlet.errors import ViewletError
from viewlet.sketches.backends.duckdb import DuckDB
from viewlet.sketches.safety import check
from viewlet.sketches.state import Keep
from viewlet.sketches.store import Store

BOUNDS = {
    "a": [1, 2, 3, 4],
    "b": [1, 2, 3],
    "c": [1, 2, 3, 4, 5],
    "d": [1, 3, 5, 7],
    "x": [1, 2],
    "y": [1, 2],
}


def by_a(aggregate: str, op: str, constant: int, column: str = "d") -> Spec:
    return Spec(groups=("a",), having=(Having(aggregate, column, op, constant),))


def top_a(aggregate: str, descending: bool, column: str = "d") -> Spec:
    return Spec(groups=("a",), top=Top(aggregate, column, descending, 2))


SAFE = {
    "S1 rows": (Spec(where=("c", "<", 4)), ("r.b",)),
    "S1 join": (Spec(join="s"), ("s.y",)),
    "S1 self join": (Spec(join="self"), ("r.c",)),
    "S1 distinct": (Spec(distinct=True), ("r.d",)),
    "S2 avg": (by_a("avg", "<", 5), ("r.a",)),
    "S2 equality": (by_a("count", "=", 3, "*"), ("r.a",)),
    "S2 joined attribute": (Spec(groups=("b",), join="s", having=(Having("avg", "d", "<", 5),)), ("s.x",)),
    "S2 top": (top_a("avg", False), ("r.a",)),
    "S3 count": (by_a("count", ">", 3, "*"), ("r.c",)),
    "S3 count distinct": (by_a("countd", ">=", 3), ("r.c",)),
    "S3 sum": (by_a("sum", ">", 20), ("r.c",)),
    "S3 max": (by_a("max", ">", 7), ("r.c",)),
    "S3 min": (by_a("min", "<", 2), ("r.c",)),
    "S3 either": (
        Spec(groups=("a",), having=(Having("max", "d", ">", 7), Having("min", "c", "<", 1)), connective="OR"),
        ("r.b",),
    ),
    "S4 sum": (top_a("sum", True), ("r.c",)),
    "S4 count": (top_a("count", True, "*"), ("r.c",)),
    "S4 max": (top_a("max", True), ("r.b",)),
    "S4 min": (top_a("min", False), ("r.c",)),
    "S4 rows": (Spec(top=Top("max", "a", True, 3)), ("r.c",)),
    "S5 nested": (
        Spec(
            groups=("a", "b"),
            having=(Having("count", "*", ">", 1),),
            outer=(("a",), Having("count", "*", ">", 1)),
        ),
        ("r.b",),
    ),
    "S5 nested sum": (
        Spec(
            groups=("a", "b"),
            having=(Having("sum", "d", ">", 3),),
            outer=(("a",), Having("sum", "v0", ">", 15)),
        ),
        ("r.c",),
    ),
    "S6 left join": (Spec(join="left"), ("r.a",)),
    "S8 both determined": (
        Spec(groups=("a", "b"), having=(Having("avg", "d", "<", 5),)),
        ("r.a", "r.b"),
    ),
    "S8 neither determined": (by_a("sum", ">", 20), ("r.b", "r.c")),
    "S8 one of each, closed": (by_a("sum", ">", 20), ("r.a", "r.c")),
}

UNSAFE = {
    "S2 not determined": (by_a("avg", "<", 5), ("r.b",), "either way"),
    "S3 avg": (by_a("avg", "<", 5), ("r.c",), "either way"),
    "S3 avg, other way": (by_a("avg", ">", 5), ("r.c",), "either way"),
    "S3 equality": (by_a("count", "=", 3, "*"), ("r.c",), "not closed"),
    "S3 count, wrong way": (by_a("count", "<", 4, "*"), ("r.c",), "smaller"),
    "S3 sum, wrong way": (by_a("sum", "<", 20), ("r.c",), "smaller"),
    "S3 max, wrong way": (by_a("max", "<", 8), ("r.c",), "smaller"),
    "S3 min, wrong way": (by_a("min", ">", 1), ("r.c",), "greater"),
    "S4 sum ascending": (top_a("sum", False), ("r.c",), "up in the order"),
    "S4 max ascending": (top_a("max", False), ("r.c",), "up in the order"),
    "S4 min descending": (top_a("min", True), ("r.c",), "up in the order"),
    "S4 avg": (top_a("avg", True), ("r.c",), "up in the order"),
    "S5 nested, not closed": (
        Spec(
            groups=("a", "b"),
            having=(Having("sum", "d", ">", 3),),
            outer=(("a",), Having("count", "*", "<", 3)),
        ),
        ("r.b",),
        "smaller",
    ),
    "S6 left join": (
        Spec(groups=("a",), join="left", having=(Having("count", "y", "<", 2),)),
        ("s.y",),
        "partners",
    ),
    "S8 mixed": (by_a("avg", "<", 5), ("r.a", "r.c"), "either way"),
}

CONNECTION = duckdb.connect()
# Sums of values of both signs can move either way.
SIGNED = {"S3 signed sum": (by_a("sum", ">", 3), ("r.c",), "either way")}


# Sums of values that are never positive move the other way.
NEGATIVE_SAFE = {
    "S3 sum of negatives": (by_a("sum", "<", -15), ("r.c",)),
    "S4 sum of negatives": (top_a("sum", False), ("r.c",)),
}
NEGATIVE_UNSAFE = {
    "S3 sum of negatives, wrong way": (by_a("sum", ">", -15), ("r.c",), "greater"),
    "S4 sum of negatives, wrong way": (top_a("sum", True), ("r.c",), "up in the order"),
}


def negative(data: Data) -> Data:
    """The same with d negated."""
    return {**data, "r": [(a, b, c, None if d is None else -d) for a, b, c, d in data["r"]]}


def verdict_of(spec: Spec, attributes: tuple[str, ...], low: int, of: Callable[[Data], Data] = dict):
    store = Store(DuckDB(load(of(random_data(Random(1), 40, low)))))
    query, catalog = store._compile(spec.sql())
    names = frozenset(tuple(attribute.split(".")) for attribute in attributes)
    return check(query, names, catalog, store._limits(catalog))


def fails(
    spec: Spec,
    attributes: tuple[str, ...],
    random: Random,
    low: int,
    superset: bool,
    of: Callable[[Data], Data] = dict,
) -> bool:
    """Does skipping all fragments but those of the lineage (and a few more) change the result?"""
    data = of(random_data(random, random.choice([3, 8, 20]), low))
    connection = load(data, CONNECTION)
    lineage = spec.lineage(data)
    text = result(connection, spec.sql())
    for attribute in attributes:
        table, column = attribute.split(".")
        kept = set(fragments(lineage, data, table, column, BOUNDS[column]))
        if superset:
            kept |= {f for f in range(-1, len(BOUNDS[column]) + 1) if random.random() < 0.3}
        number = " + ".join(f"({column} >= {bound})::INT" for bound in BOUNDS[column])
        inside = ", ".join(map(str, kept)) or "NULL"
        connection.execute(
            f"DELETE FROM {table} WHERE NOT coalesce(coalesce({number}, -1) IN ({inside}), FALSE)"
        )
    return result(connection, spec.sql()) != text


@pytest.mark.parametrize("name", SAFE)
def test_safe(name: str) -> None:
    spec, attributes = SAFE[name]
    verdict = verdict_of(spec, attributes, 0)
    assert verdict.safe, verdict.reason
    assert name[:2] in verdict.rules or name[:2] in ("S5", "S8"), verdict.rules
    random = Random(name)
    for turn in range(12):
        assert not fails(spec, attributes, random, 0, superset=turn % 2 == 1)


@pytest.mark.parametrize("name", [*UNSAFE, *SIGNED])
def test_unsafe(name: str) -> None:
    spec, attributes, reason = {**UNSAFE, **SIGNED}[name]
    low = -6 if name in SIGNED else 0
    verdict = verdict_of(spec, attributes, low)
    assert not verdict.safe
    assert reason in verdict.reason
    random = Random(name)
    assert any(fails(spec, attributes, random, low, superset=turn % 2 == 1) for turn in range(600))


@pytest.mark.parametrize("name", NEGATIVE_SAFE)
def test_safe_of_negatives(name: str) -> None:
    spec, attributes = NEGATIVE_SAFE[name]
    verdict = verdict_of(spec, attributes, 0, negative)
    assert verdict.safe, verdict.reason
    assert "r.d <= 0" in verdict.reason
    random = Random(name)
    assert not any(fails(spec, attributes, random, 0, turn % 2 == 1, negative) for turn in range(12))


@pytest.mark.parametrize("name", NEGATIVE_UNSAFE)
def test_unsafe_of_negatives(name: str) -> None:
    spec, attributes, reason = NEGATIVE_UNSAFE[name]
    verdict = verdict_of(spec, attributes, 0, negative)
    assert not verdict.safe
    assert reason in verdict.reason
    random = Random(name)
    assert any(fails(spec, attributes, random, 0, turn % 2 == 1, negative) for turn in range(600))


def test_key_determines() -> None:
    """S2: groups by a primary key determine every attribute of the table; without the key they do not."""
    text = "SELECT k FROM t GROUP BY k HAVING avg(v) < 5"
    for key, safe in ((", PRIMARY KEY (k)", True), ("", False)):
        connection = duckdb.connect()
        connection.execute(f"CREATE TABLE t (k INT, x INT, v INT{key})")
        connection.execute("INSERT INTO t SELECT i, i % 7, i % 11 FROM range(60) u(i)")
        store = sketches.open(connection)
        advice = {row.attribute: row for row in store.advise(text)}
        assert advice["x"].safe == safe, advice["x"].reason
        if safe:
            store.capture(text, on="t.x", ranges=[2, 4])
            assert result(connection, store.rewrite(text)) == result(connection, text)


@pytest.mark.slow
@pytest.mark.parametrize("name", SAFE)
def test_safe_long(name: str) -> None:
    spec, attributes = SAFE[name]
    random = Random(f"long {name}")
    for turn in range(600):
        assert not fails(spec, attributes, random, 0, superset=turn % 2 == 1)


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


def test_unknown_changes_are_checked_too() -> None:
    """What came behind the store's back may break what the sketch rests on."""
    connection = load({"r": [(1, 1, 1, 9), (2, 1, 2, 9)], "s": []})
    store = sketches.open(connection)
    text = "SELECT a FROM r GROUP BY a HAVING sum(d) > 5"
    store.capture(text, on="r.c", ranges=[2])
    connection.execute("INSERT INTO r VALUES (1, 1, 2, -7)")
    with pytest.raises(sketches.SketchError, match=r"r\.d >= 0"):
        store.query(text, use="always")
