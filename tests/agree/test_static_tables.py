"""Maps over static tables, which are arrays where their keys are dense: as the reference engine has them."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

import viewlet
from agree.agreement import Pair, catalog_of
from viewlet.backends.native.engine import NativeEngine
from viewlet.changes import read_changes
from viewlet.sql import compile_query

pytestmark = pytest.mark.native

TABLES = """CREATE STATIC TABLE d (k {kind} {key}, g BIGINT, p BIGINT);
    CREATE TABLE f (k {kind}, x BIGINT); CREATE STREAM s (k BIGINT NOT NULL, x BIGINT NOT NULL)"""
VIEWS = {
    "joined": "SELECT d.g, SUM(f.x) AS t FROM f JOIN d ON f.k = d.k GROUP BY d.g",
    "weighed": "SELECT SUM(f.x * d.p) AS t, COUNT(*) AS n FROM f JOIN d ON f.k = d.k",
    "present": "SELECT COUNT(*) AS n FROM f WHERE k IN (SELECT k FROM d WHERE p > 2)",
    "absent": "SELECT f.k, SUM(x) AS n FROM f WHERE NOT EXISTS (SELECT 1 FROM d WHERE d.k = f.k) GROUP BY k",
    "streamed": "SELECT d.p, SUM(s.x) AS t FROM s JOIN d ON s.k = d.k GROUP BY d.p",
    "alone": "SELECT g, COUNT(*) AS n FROM d GROUP BY g",
}
LATE = "SELECT d.p, d.g, COUNT(f.x) AS n FROM f JOIN d ON f.k = d.k WHERE d.g > 0 GROUP BY d.p, d.g"
KEYS = ("PRIMARY KEY", "NOT NULL", "")
DOMAINS = {
    "dense": lambda i: i,
    "negative": lambda i: i - 60,
    "some": lambda i: 3 * i,
    "sparse": lambda i: 1000 * i,
    "far": lambda i: i if i % 2 else (1 << 31) - 1 - i,
}


def rows_of(draw: random.Random, key: str, domain: str, size: int) -> list[tuple[Any, ...]]:
    """Each key once if it is a primary key, else with duplicates; NULL where it may be."""
    keys: list[int | None] = [DOMAINS[domain](i) for i in range(size)]
    if key != "PRIMARY KEY":
        keys += keys[: size // 2]
    if not key:
        keys += [None, None]
    draw.shuffle(keys)
    values = [None, 0, 1, 2, 3]
    rows = [(k, draw.choice(values), draw.choice(values)) for k in keys]
    return rows + (rows[:5] if key != "PRIMARY KEY" else [])


@pytest.mark.parametrize(
    ("domain", "size"), [("dense", 0), ("dense", 3), *((domain, 120) for domain in DOMAINS)]
)
@pytest.mark.parametrize(("kind", "key"), [("BIGINT", KEYS[0]), ("INT", KEYS[1]), ("INT", KEYS[2])])
def test_native_agrees(kind: str, key: str, domain: str, size: int, tmp_path: Path) -> None:
    """Any batches, views that come late, opened again: the rows are those of the reference engine."""
    draw = random.Random(f"{kind}{key}{domain}{size}")
    static = rows_of(draw, key, domain, size)
    asked = [row[0] for row in static] + [
        None,
        -1,
        0,
        7,
        size,
        DOMAINS[domain](size),
        (1 << 31) - 1,
        -(1 << 31),
    ]
    file = tmp_path / "v.db"
    options: dict[str, Any] = {"backend": "native", "spill": tmp_path if size > 3 else None}
    databases = [viewlet.connect(file, **options), viewlet.connect(backend="reference")]
    for db in databases:
        db.execute(TABLES.format(kind=kind, key=key))
        db.insert("d", static)
        for name, query in VIEWS.items():
            db.execute(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    present: list[tuple[Any, ...]] = []
    names = list(VIEWS)
    for turn in range(6):
        new = [(draw.choice(asked), draw.choice([None, 1, 2, -3])) for _ in range(draw.choice([1, 30]))]
        old = [
            present.pop(draw.randrange(len(present))) for _ in range(min(len(present), draw.choice([0, 9])))
        ]
        streamed = [(k, 2) for k, _ in new if k is not None]
        present += new
        for db in databases:
            db.insert("f", new)
            db.delete("f", old)
            db.insert("s", streamed)
            if turn == 2:
                db.execute(f"CREATE MATERIALIZED VIEW late AS {LATE}")
        if turn == 2:
            names.append("late")
        if turn == 3:
            databases[0].checkpoint()
        if turn >= 3:
            databases[0].close()
            databases[0] = viewlet.connect(file, **options)
        native, reference = databases
        for name in names:
            assert sorted(native.view(name).rows(), key=repr) == sorted(
                reference.view(name).rows(), key=repr
            ), name
    for db in databases:
        db.close()


@pytest.mark.parametrize(("key", "arrays"), [(KEYS[0], True), (KEYS[1], False), (KEYS[2], False)])
def test_loops_say_what_may_be_an_array(key: str, arrays: bool) -> None:
    """What a number finds alone; where rows of one number differ in another column there are slices."""
    pair = Pair(catalog_of(TABLES.format(kind="BIGINT", key=key)), {"joined": VIEWS["joined"]})
    assert ("as array by" in pair.native.explain("joined")) == arrays


def test_a_static_map_takes_less_than_a_hash_table() -> None:
    """Two words an entry and half again as wide at most; tables that change cannot be sure of dense keys."""
    catalog = catalog_of(TABLES.format(kind="BIGINT", key=KEYS[0]))
    rows = {"d": {(i, 1, i % 7): 1 for i in range(10_000)}}
    pair = Pair(catalog, {"present": VIEWS["present"]}, rows)
    pair.apply("f", read_changes(catalog["f"], [(5, 1), (7, 1)]).changes, "tuple")
    pair.check()
    (size,) = (s.bytes for s in pair.native.stats() if s.records > 1000)
    assert size < 10_000 * 16 * 1.6


@pytest.mark.parametrize("order", ["up", "random"])
def test_a_static_table_over_the_limit_is_refused(order: str) -> None:
    """As memory that is missing, not as a state that is lost."""
    catalog = catalog_of(TABLES.format(kind="BIGINT", key=KEYS[0]))
    keys = list(range(300_000))
    if order == "random":
        random.Random(0).shuffle(keys)
    rows = {"d": {(k, 1, k % 7): 1 for k in keys}, "f": {}, "s": {}}
    engine = NativeEngine(limit=4 << 20)
    engine.create("n", compile_query("SELECT COUNT(*) AS n FROM f", catalog), catalog, rows, "auto")
    engine.apply("f", read_changes(catalog["f"], [(5, 1)]).changes, "tuple", frozenset())
    engine.create("joined", compile_query(VIEWS["joined"], catalog), catalog, rows, "auto")
    with pytest.raises(MemoryError, match="the memory limit is reached"):
        engine.output("joined")
