"""Sketches of PostgreSQL tables: the same laws, and changes by others, in any order of commits."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from datetime import date
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from sketches.databases import arrow_result, literal, random_changes, random_data
from sketches.model import COLUMNS, Data, fragments
from sketches.test_maintenance import BOUNDS, CASES
from viewlet import sketches

pytestmark = pytest.mark.xdist_group("postgres")
HAVING = "SELECT a FROM r GROUP BY a HAVING sum(d) > 10"
TEXTS = pa.schema(
    {"g": pa.string(), "m": pa.decimal128(10, 2), "n": pa.int32(), "day": pa.date32(), "_weight": pa.int64()}
)


def load(connection: Any, data: Data) -> None:
    connection.execute("CREATE TABLE r (a INT, b INT, c INT, d BIGINT)")
    connection.execute("CREATE TABLE s (x INT, y INT)")
    for name, rows in data.items():
        if rows:
            connection.execute(f"INSERT INTO {name} VALUES {', '.join(map(literal, rows))}")


def result(connection: Any, text: str) -> Counter[Any]:
    return Counter(connection.execute(text).fetchall())


@pytest.mark.parametrize("name", CASES)
def test_incremental(name: str, postgres: Any) -> None:
    spec, attribute = CASES[name]
    random = Random(name)
    data = random_data(random, 25)
    load(postgres, data)
    store = sketches.open(postgres)
    table, column = attribute.split(".")
    sketch = store.capture(spec.sql(), on=attribute, ranges=BOUNDS[column], maintain="incremental")
    for _ in range(3):
        accurate = fragments(spec.lineage(data), data, table, column, BOUNDS[column])
        assert sketch.fragments == accurate, f"{spec.sql()} over {data}"
        answered = arrow_result(store.query(spec.sql(), use="always"))
        assert answered == result(postgres, spec.sql()), f"{store.rewrite(spec.sql())} over {data}"
        store.apply(random_changes(random, data))


def rows_of(connection: Any) -> Data:
    return {name: connection.execute(f"SELECT * FROM {name}").fetchall() for name in COLUMNS}


def test_changes_by_statements(postgres: Any) -> None:
    """Triggers see what the store did not do."""
    load(postgres, random_data(Random(5), 30))
    store = sketches.open(postgres)
    spec, _ = CASES["sum by other attribute"]
    sketch = store.capture(spec.sql(), on="r.c", ranges=BOUNDS["c"], eager=False, maintain="incremental")
    for statement in (
        "UPDATE r SET d = d + 1 WHERE a = 2",
        "DELETE FROM r WHERE c = 3",
        "INSERT INTO r SELECT a, b, c + 1, d FROM r WHERE b = 1",
        "TRUNCATE r",
        "INSERT INTO r VALUES (1, 1, 1, 99), (2, 2, 2, 5)",
    ):
        postgres.execute(statement)
        sketch.refresh()
        data = rows_of(postgres)
        assert sketch.fragments == fragments(spec.lineage(data), data, "r", "c", BOUNDS["c"]), statement
        assert arrow_result(store.query(spec.sql(), use="always")) == result(postgres, spec.sql())
    assert sketch.costs.captures == 1


def test_commits_out_of_order(postgres: Any, server: str) -> None:
    """A transaction that began before the sketch was refreshed, and commits after, is not lost."""
    import psycopg

    load(postgres, {"r": [(1, 1, 1, 5)], "s": []})
    store = sketches.open(postgres)
    sketch = store.capture(HAVING, on="r.a", ranges=[2, 3, 4], eager=False, maintain="incremental")
    with psycopg.connect(server) as early, psycopg.connect(server) as late:
        early.execute("INSERT INTO r VALUES (3, 1, 1, 50)")
        late.execute("INSERT INTO r VALUES (2, 1, 1, 50)")
        late.commit()
        sketch.refresh()
        assert sketch.fragments == {1}
        assert arrow_result(store.query(HAVING, use="always")) == Counter([(2,)])
        early.commit()
        assert arrow_result(store.query(HAVING, use="always")) == Counter([(2,), (3,)])
        assert sketch.fragments == {1, 2}
    assert sketch.costs.captures == 1


def test_rolled_back_changes_leave_no_trace(postgres: Any) -> None:
    load(postgres, {"r": [(1, 1, 1, 50)], "s": []})
    store = sketches.open(postgres)
    sketch = store.capture(HAVING, on="r.a", ranges=[2, 3, 4])
    with postgres.transaction(force_rollback=True):
        postgres.execute("INSERT INTO r VALUES (3, 1, 1, 50)")
    sketch.refresh()
    assert sketch.fragments == {0}


def test_open_transaction_is_refused(postgres: Any) -> None:
    load(postgres, {"r": [], "s": []})
    store = sketches.open(postgres)
    with postgres.transaction(), pytest.raises(sketches.SketchError, match="commit it first"):
        store.capture(HAVING, on="r.a", ranges=[2])


def test_saved_and_restored(postgres: Any) -> None:
    load(postgres, random_data(Random(9), 30))
    store = sketches.open(postgres)
    store.capture(HAVING, on="r.a", ranges=[2, 3, 4])
    store.save()
    postgres.execute("INSERT INTO r VALUES (4, 1, 1, 1000)")
    again = sketches.open(postgres)
    (sketch,) = again.sketches
    assert arrow_result(again.query(HAVING, use="always")) == result(postgres, HAVING)
    assert 3 in sketch.fragments
    assert sketch.costs.captures == 0


def test_forgotten_changes_are_not_taken_for_none(postgres: Any) -> None:
    """A sketch that was saved before the log was shortened is captured again."""
    load(postgres, {"r": [(1, 1, 1, 50)], "s": []})
    store = sketches.open(postgres)
    store.capture(HAVING, on="r.a", ranges=[2, 3, 4], maintain="incremental")
    store.save()
    for a in (2, 3):
        store.apply({"r": [(a, 1, 1, 99)]})
    store._backend.forget([sketch.version for sketch in store.sketches])
    again = sketches.open(postgres)
    assert arrow_result(again.query(HAVING, use="always")) == result(postgres, HAVING)
    assert again.sketches[0].costs.captures == 1
    store.apply({"r": [(4, 1, 1, 99)]})
    assert store.sketches[0].fragments == {0, 1, 2, 3}
    assert store.sketches[0].costs.captures == 1


def test_many_forgotten_transactions_become_a_floor(postgres: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("viewlet.sketches.backends.postgres_log.MAX_FORGOTTEN", 3)
    load(postgres, {"r": [(1, 1, 1, 50)], "s": []})
    store = sketches.open(postgres)
    sketch = store.capture(HAVING, on="r.a", ranges=[2, 3, 4], maintain="incremental")
    store.save()
    for a in (2, 3, 4) * 4:
        store.apply({"r": [(a, 1, 1, 99)]})
    ((remembered,),) = postgres.execute("SELECT count(*) FROM viewlet_sketches.forgotten").fetchall()
    assert remembered <= 4
    assert sketch.costs.captures == 1
    again = sketches.open(postgres)
    assert arrow_result(again.query(HAVING, use="always")) == result(postgres, HAVING)
    assert again.sketches[0].costs.captures == 1


def test_text_ranges(postgres: Any) -> None:
    """Text is cut by bytes, whatever the collation of the database."""
    postgres.execute('CREATE TABLE t (name VARCHAR COLLATE "en-x-icu", n BIGINT)')
    postgres.execute("INSERT INTO t VALUES ('apple', 5), ('Zebra', 7), ('éclair', 9), (NULL, 1), ('b%d', 8)")
    store = sketches.open(postgres)
    text = "SELECT name FROM t GROUP BY name HAVING sum(n) > 6"
    sketch = store.capture(text, on="t.name", ranges=["a", "b", "z"])
    assert sketch.fragments == {0, 2, 3}
    assert arrow_result(store.query(text, use="always")) == Counter([("Zebra",), ("éclair",), ("b%d",)])


def test_changes_come_as_text(postgres: Any) -> None:
    """Changes sent as text mean the same as before: quotes, line ends, empty texts, NULLs, cents, dates."""
    random = Random(8)
    words = ["", None, 'a"b', "line\nend", "comma,", "\\.", "é", "NULL"]
    text = "SELECT g FROM t WHERE n >= 0 AND day < DATE '2020-01-05' GROUP BY g HAVING sum(m) > 1"

    def row() -> tuple[Any, ...]:
        day = random.choice([None, date(1960, 2, 29), date(2020, 1, 4), date(2020, 1, 5)])
        return random.choice(words), Decimal(random.randint(-200, 300)) / 100, random.randint(-1, 3), day

    postgres.execute("CREATE TABLE t (g TEXT, m NUMERIC(10, 2), n INT, day DATE)")
    store = sketches.open(postgres)
    sketch = store.capture(text, on="t.g", ranges=["b", "m"], keep="reference", maintain="incremental")
    rows: list[Any] = []
    for _ in range(8):
        gone = random.sample(rows, len(rows) // 3)
        added = [row() for _ in range(random.choice([0, 1, 12]))]
        for old in gone:
            rows.remove(old)
        rows += added
        batch = [(r, 1) for r in added] + [(r, -1) for r in gone]
        columns = {name: [r[place] for r, _ in batch] for place, name in enumerate(("g", "m", "n", "day"))}
        store.apply({"t": pa.table({**columns, "_weight": [weight for _, weight in batch]}, schema=TEXTS)})
        assert arrow_result(store.query(text, use="always")) == result(postgres, text)
        selected = [r for r in rows if r[2] >= 0 and r[3] is not None and r[3] < date(2020, 1, 5)]
        kept = {g for g in words if sum(r[1] for r in selected if r[0] == g) > 1}
        assert sketch.fragments == {-1 if g is None else bisect_right(["b", "m"], g) for g in kept}
    assert sketch.costs.captures == 1, sketch.explain()
