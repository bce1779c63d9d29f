"""The safety table, both ways: what is called safe never fails, what is refused has a counterexample."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import duckdb
import pytest

from sketches.databases import load, random_data, result
from sketches.model import Data, Having, Spec, Top, fragments
from viewlet import sketches
from viewlet.sketches.backends.duckdb import DuckDB
from viewlet.sketches.safety import check
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
    "S1 union": (Spec(where=("c", "<", 2), union=("d", ">", 6)), ("r.b",)),
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
    "S3 both": (
        Spec(groups=("a",), having=(Having("max", "d", ">", 6), Having("min", "c", "<", 2))),
        ("r.b",),
    ),
    "S4 sum": (top_a("sum", True), ("r.c",)),
    "S4 count": (top_a("count", True, "*"), ("r.c",)),
    "S4 count distinct": (top_a("countd", True), ("r.c",)),
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
    "S2 joined with another attribute": (
        Spec(groups=("a",), join="s", having=(Having("avg", "d", "<", 5),)),
        ("s.x",),
        "either way",
    ),
    "S3 avg": (by_a("avg", "<", 5), ("r.c",), "either way"),
    "S3 avg, other way": (by_a("avg", ">", 5), ("r.c",), "either way"),
    "S3 equality": (by_a("count", "=", 3, "*"), ("r.c",), "not closed"),
    "S3 count, wrong way": (by_a("count", "<", 4, "*"), ("r.c",), "smaller"),
    "S3 sum, wrong way": (by_a("sum", "<", 20), ("r.c",), "smaller"),
    "S3 max, wrong way": (by_a("max", "<", 8), ("r.c",), "smaller"),
    "S3 min, wrong way": (by_a("min", ">", 1), ("r.c",), "greater"),
    "S3 count distinct, wrong way": (by_a("countd", "<", 3), ("r.c",), "smaller"),
    "S3 both, one the wrong way": (
        Spec(groups=("a",), having=(Having("max", "d", ">", 4), Having("count", "*", "<", 4))),
        ("r.c",),
        "smaller",
    ),
    "S3 either, one the wrong way": (
        Spec(
            groups=("a",), having=(Having("max", "d", ">", 8), Having("count", "*", "<", 4)), connective="OR"
        ),
        ("r.c",),
        "smaller",
    ),
    "S4 sum ascending": (top_a("sum", False), ("r.c",), "up in the order"),
    "S4 count ascending": (top_a("count", False, "*"), ("r.c",), "up in the order"),
    "S4 count distinct ascending": (top_a("countd", False), ("r.c",), "up in the order"),
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
