"""Enforced foreign keys: what breaks them is refused without a trace; programs that rely on them hold."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pyarrow as pa
import pytest

import viewlet
from oracle.compare import difference
from oracle.harness import report
from oracle.mirror import Mirror, question
from viewlet.errors import CatalogError, DataError, ViewletError
from viewlet.workloads.ddl import arrow_schemas

HINTS = """
CREATE TABLE g (gk BIGINT PRIMARY KEY, region VARCHAR);
CREATE TABLE p (pk BIGINT PRIMARY KEY, pg BIGINT REFERENCES g (gk), size INT);
CREATE TABLE c (ck BIGINT PRIMARY KEY, cp BIGINT REFERENCES p (pk), cg BIGINT REFERENCES g (gk), amount INT);
"""
ENFORCED = HINTS.replace("),", ") ON DELETE RESTRICT,")
VIEWS = {
    "joined": "SELECT region, sum(amount * size) AS s FROM g, p, c WHERE gk = pg AND pk = cp GROUP BY region",
    "padded": "SELECT pk, size, amount FROM p LEFT JOIN c ON pk = cp",
    "counted": "SELECT size, count(*) AS n FROM p WHERE EXISTS (SELECT 1 FROM c WHERE cp = pk) GROUP BY size",
    "childless": "SELECT gk FROM g WHERE NOT EXISTS (SELECT 1 FROM p WHERE pg = gk)",
    "nested": "SELECT pk FROM p WHERE size < (SELECT sum(amount) FROM c WHERE cp = pk)",
    "greatest": "SELECT pk, (SELECT max(amount) FROM c WHERE cp = pk) AS m FROM p",
    "two_ways": "SELECT count(*) AS n FROM c JOIN g ON cg = gk LEFT JOIN p ON cp = pk AND pg = gk",
}
Rows = dict[str, dict[int, tuple[Any, ...]]]
Changes = dict[str, list[tuple[tuple[Any, ...], int]]]


def random_row(random: Random, table: str, key: int) -> tuple[Any, ...]:
    def reference() -> int | None:
        return None if random.random() < 0.1 else random.randrange(6)

    match table:
        case "g":
            return key, random.choice(["north", "south", None])
        case "p":
            return key, reference(), random.randrange(-2, 4)
        case _:
            return key, reference(), reference(), random.randrange(-2, 4)


def random_changes(random: Random, rows: Rows) -> Changes:
    """Deletions, insertions and updates of any table, sensible or not."""
    changes: Changes = {}
    for _ in range(random.choice((1, 1, 2, 3, 5, 8))):
        table = random.choice("gppccc")
        key = random.randrange(6 if table != "c" else 12)
        own = changes.setdefault(table, [])
        if any(row[0] == key for row, _ in own):
            continue
        if key in rows[table]:
            own.append((rows[table][key], -1))
        if key not in rows[table] or random.random() < 0.4:
            own.append((random_row(random, table, key), 1))
    return {table: own for table, own in changes.items() if own}


def is_allowed(rows: Rows, after: Rows) -> bool:
    """Has every child its parent, and has every parent with children of before and after stayed as it was?"""
    for child, place, parent in (("p", 1, "g"), ("c", 1, "p"), ("c", 2, "g")):
        if any(row[place] is not None and row[place] not in after[parent] for row in after[child].values()):
            return False
        for key, row in rows[parent].items():
            if after[parent].get(key) != row:
                stay = (r for k, r in rows[child].items() if after[child].get(k) == r)
                if any(r[place] == key for r in stay):
                    return False
    return True


def applied(rows: Rows, changes: Changes) -> Rows:
    after = {table: dict(own) for table, own in rows.items()}
    for table, own in changes.items():
        for row, weight in sorted(own, key=lambda change: change[1]):
            if weight < 0:
                del after[table][row[0]]
            else:
                after[table][row[0]] = row
    return after


def as_arrow(changes: Changes) -> dict[str, pa.Table]:
    schemas = arrow_schemas(ENFORCED)
    return {
        table: pa.Table.from_pylist(
            [dict(zip(schemas[table].names, row, strict=True)) | {"_weight": weight} for row, weight in own],
            schema=schemas[table].append(pa.field("_weight", pa.int64())),
        )
        for table, own in changes.items()
    }


@pytest.mark.parametrize(
    ("backend", "strategy", "trigger", "seed"),
    [
        ("reference", "higher_order", "tuple", 1),
        ("reference", "higher_order", "batch", 2),
        ("reference", "first_order", "auto", 3),
        ("native", "auto", "auto", 4),
        pytest.param("native", "auto", "tuple", 5, marks=pytest.mark.slow),
        *(pytest.param("reference", "auto", "auto", seed, marks=pytest.mark.slow) for seed in range(10, 40)),
    ],
)
def test_random_batches(backend: Any, strategy: Any, trigger: Any, seed: int) -> None:
    random = Random(seed)
    db = viewlet.connect(backend=backend, strategy=strategy)
    db.execute(ENFORCED)
    mirror, questions = Mirror(HINTS), {name: question(sql) for name, sql in VIEWS.items()}
    rows: Rows = {table: {} for table in "gpc"}
    verdicts: Counter[bool] = Counter()
    late = random.randrange(15)
    done = []
    for step in range(90):
        if step == late:
            for name, sql in VIEWS.items():
                db.execute(f"CREATE MATERIALIZED VIEW {name} AS {sql}")
        changes = random_changes(random, rows)
        after = applied(rows, changes)
        allowed = is_allowed(rows, after)
        verdicts[allowed] += 1
        version = db.version
        if allowed:
            db.apply(as_arrow(changes), trigger=trigger)
            mirror.apply(as_arrow(changes))
            rows = after
            done.append(as_arrow(changes))
        else:
            with pytest.raises(DataError, match="refer"):
                db.apply(as_arrow(changes), trigger=trigger)
            assert db.version == version
        if step >= late and step % 5 == 0:
            for name, sql in VIEWS.items():
                wrong = difference(db.view(name).to_arrow(), mirror.answer(questions[name]))
                assert not wrong, report(f"view {name}", sql, ENFORCED, done, wrong)
    assert min(verdicts[True], verdicts[False]) >= 5, "both kinds of batches must occur"
    for table in rows:
        assert Counter(db.table(table).rows()) == Counter(rows[table].values())


def test_a_refused_batch_names_the_row() -> None:
    db = viewlet.connect(backend="reference")
    db.execute(ENFORCED)
    db.insert("g", [(1, "north")])
    with pytest.raises(
        DataError, match=r"'p': a row refers to the row of 'g' with gk = 2, which is not there"
    ):
        db.insert("p", [(1, 2, 0)])
    db.insert("p", [(1, 1, 0), (2, None, 0)])
    with pytest.raises(DataError, match=r"'g': the row with gk = 1 can neither go nor change: 1 row of 'p'"):
        db.delete("g", [(1, "north")])
    with pytest.raises(CatalogError, match="'g' is referred to by 'p'"):
        db.execute("DROP TABLE g")
    db.apply(
        {
            "g": pa.table({"gk": [1], "region": ["north"], "_weight": [-1]}),
            "p": pa.table({"pk": [1], "pg": [1], "size": [0], "_weight": [-1]}),
        }
    )
    assert db.table("g").rows() == []


@pytest.mark.parametrize(
    ("ddl", "reason"),
    [
        ("CREATE STREAM s (a BIGINT REFERENCES g (gk) ON DELETE RESTRICT)", "a stream keeps no rows"),
        ("CREATE TABLE s (a BIGINT REFERENCES nobody (k) ON DELETE RESTRICT)", "no table 'nobody' yet"),
        ("CREATE TABLE s (a BIGINT REFERENCES e (x) ON DELETE RESTRICT)", "'e' is a stream"),
        ("CREATE STATIC TABLE s (a BIGINT REFERENCES g (gk) ON DELETE RESTRICT)", "are there before"),
        ("CREATE TABLE s (a VARCHAR REFERENCES g (region) ON DELETE RESTRICT)", "not the PRIMARY KEY of 'g'"),
        (
            "CREATE TABLE s (a VARCHAR REFERENCES g (gk) ON DELETE RESTRICT)",
            "a is VARCHAR and g.gk is BIGINT",
        ),
        (
            "CREATE TABLE s (a BIGINT PRIMARY KEY, b BIGINT REFERENCES s (a) ON DELETE RESTRICT)",
            "refers to itself",
        ),
    ],
)
def test_what_cannot_be_enforced_is_refused(ddl: str, reason: str) -> None:
    db = viewlet.connect(backend="reference")
    db.execute("CREATE STREAM e (x BIGINT);" + ENFORCED)
    with pytest.raises(CatalogError, match=reason):
        db.execute(ddl)
    db.execute(ddl.replace(" ON DELETE RESTRICT", ""))


def test_other_actions_are_refused_and_not_ignored() -> None:
    db = viewlet.connect(backend="reference")
    with pytest.raises(ViewletError, match="ON DELETE CASCADE"):
        db.execute(
            "CREATE TABLE g (gk BIGINT PRIMARY KEY); CREATE TABLE p (a BIGINT REFERENCES g ON DELETE CASCADE)"
        )


def test_keys_are_enforced_after_the_file_is_opened_again(tmp_path: Any) -> None:
    for checkpoint in (False, True):
        with viewlet.connect(tmp_path / f"{checkpoint}.viewlet", backend="reference") as db:
            db.execute(ENFORCED)
            db.apply({"p": [(1, 1, 5)], "g": [(1, "north")]})
            if checkpoint:
                db.checkpoint()
        with viewlet.connect(tmp_path / f"{checkpoint}.viewlet", backend="reference") as db:
            with pytest.raises(DataError, match="gk = 1 can neither go nor change"):
                db.delete("g", [(1, "north")])
            with pytest.raises(DataError, match="gk = 7, which is not there"):
                db.insert("p", [(2, 7, 5)])


@pytest.mark.parametrize("lines", ["arrow", "tuples"])
def test_many_rows_before_the_views(lines: str) -> None:
    """A first fill that runs through the triggers begins with the parents, however rows are kept."""
    db = viewlet.connect(backend="native")
    db.execute(ENFORCED)
    count = 3_000
    db.insert("g", pa.table({"gk": range(10), "region": [str(i % 3) for i in range(10)]}))
    db.insert("p", pa.table({"pk": range(count), "pg": [i % 10 for i in range(count)], "size": [2] * count}))
    db.insert(
        "c", pa.table({"ck": range(count), "cp": range(count), "cg": [1] * count, "amount": [3] * count})
    )
    if lines == "tuples":
        db.delete("c", [(0,)])
        db.insert("c", [(0, 0, 1, 3)])
    db.execute("CREATE MATERIALIZED VIEW total AS SELECT sum(amount) AS s FROM c")
    db.execute(f"CREATE MATERIALIZED VIEW joined AS {VIEWS['joined']}")
    assert db.view("total").value == 3 * count
    assert sorted(db.view("joined").rows()) == [("0", 2400 * 3), ("1", 1800 * 3), ("2", 1800 * 3)]
