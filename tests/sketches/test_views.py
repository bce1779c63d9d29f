"""Sketches of a viewlet Database: views that its own trigger programs keep fresh."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

import viewlet
from sketches.databases import arrow_result, random_changes, random_data
from sketches.model import fragments
from sketches.test_maintenance import BOUNDS, CASES
from viewlet import sketches

COMPILED = frozenset({"join and groups", "nested", "top of groups"})
"""Cases kept by native code: a C compiler takes longer than all the rest."""


@pytest.mark.parametrize("name", CASES)
def test_incremental(name: str) -> None:
    spec, attribute = CASES[name]
    random = Random(name)
    data = random_data(random, 20)
    database = viewlet.connect(backend="auto" if name in COMPILED else "reference")
    database.execute("CREATE TABLE r (a INT, b INT, c INT, d BIGINT); CREATE TABLE s (x INT, y INT)")
    for table, rows in data.items():
        database.insert(table, rows)
    store = sketches.open(database)
    table, column = attribute.split(".")
    sketch = store.capture(spec.sql(), on=attribute, ranges=BOUNDS[column])
    assert sketch.incremental == (spec.top is None), sketch.explain()
    for _ in range(3):
        accurate = fragments(spec.lineage(data), data, table, column, BOUNDS[column])
        assert sketch.fragments == accurate, f"{spec.sql()} over {data}"
        assert arrow_result(store.query(spec.sql(), use="always")) == arrow_result(database.sql(spec.sql()))
        store.apply(random_changes(random, data))


def test_changes_to_the_database_itself() -> None:
    database = viewlet.connect()
    database.execute("CREATE TABLE r (a INT, c INT, d BIGINT)")
    database.insert("r", [(1, 1, 30), (2, 2, 3)])
    store = sketches.open(database)
    text = "SELECT a FROM r GROUP BY a HAVING sum(d) > 20"
    sketch = store.capture(text, on="r.c", ranges=[2])
    database.insert("r", [(2, 2, 40)])
    assert arrow_result(store.query(text, use="always")) == Counter([(1,), (2,)])
    assert sketch.fragments == {0, 1}
    database.insert("r", [(1, 1, -1)])
    with pytest.raises(sketches.SketchError, match=r"r\.d >= 0"):
        store.query(text, use="always")
