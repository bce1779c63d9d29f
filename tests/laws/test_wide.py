"""Tables and views of many columns that may be NULL: native code agrees with the reference."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import viewlet
from viewlet.backends.base import Change, Engine
from viewlet.backends.native.emit import emit
from viewlet.backends.native.flags import flag, masks, set_flags
from viewlet.backends.reference.engine import ReferenceEngine
from viewlet.backends.spark.cluster import SimulatedCluster
from viewlet.backends.spark.engine import SparkEngine
from viewlet.core.types import INT
from viewlet.loops.from_triggers import triggers_to_loops
from viewlet.loops.nodes import KeyColumn, Record
from viewlet.sql import compile_query
from viewlet.sql.catalog import Catalog
from viewlet.sql.parse import parse
from viewlet.triggers.compile import compile_views

KINDS = {
    "INT": (-1, 0, 7),
    "BIGINT": (0, 10**12),
    "DOUBLE": (-0.5, 0.0, 2.25),
    "VARCHAR": ("", "a", "longer than eight bytes"),
    "DATE": (date(1970, 1, 1), date(2024, 2, 29)),
    "DECIMAL(12, 2)": (Decimal("-1.25"), Decimal(0)),
    "DECIMAL(30, 4)": (Decimal(0), Decimal(10**20)),
    "BOOLEAN": (False, True),
    "TIMESTAMP": (datetime(1970, 1, 1), datetime(2024, 2, 29, 1, 2, 3)),
}


def kinds(width: int) -> list[str]:
    return [list(KINDS)[i % len(KINDS)] for i in range(width)]


def declared(name: str, width: int) -> str:
    return f"CREATE TABLE {name} ({', '.join(f'c{i} {kind}' for i, kind in enumerate(kinds(width)))})"


def some_rows(width: int, seed: int = 0) -> list[tuple[Any, ...]]:
    """Any values, then rows with NULL in one column, then with NULL in all but one."""
    rng = random.Random(seed)
    row = [rng.choice(KINDS[kind]) for kind in kinds(width)]
    rows = [
        tuple(None if rng.random() < 0.3 else rng.choice(KINDS[kind]) for kind in kinds(width))
        for _ in range(9)
    ]
    rows += [tuple(None if i == at else value for i, value in enumerate(row)) for at in range(width)]
    rows += [tuple(None if i != at else value for i, value in enumerate(row)) for at in range(width)]
    return [*rows, (None,) * width, tuple(row)]


class Both:
    """The same on the native backend and on the reference; every read compares them."""

    def __init__(self, *ddl: str) -> None:
        self.databases = [viewlet.connect(backend=backend) for backend in ("native", "reference")]
        for statement in ddl:
            self.execute(statement)

    def execute(self, sql: str) -> None:
        for database in self.databases:
            database.execute(sql)

    def change(self, table: str, rows: list[tuple[Any, ...]], *, insert: bool = True) -> None:
        for database in self.databases:
            (database.insert if insert else database.delete)(table, rows)

    def rows(self, view: str = "v") -> Counter[tuple[Any, ...]]:
        own, expected = (Counter(database.view(view).rows()) for database in self.databases)
        assert own == expected
        return own

    def close(self) -> None:
        for database in self.databases:
            database.close()


@pytest.fixture
def both() -> Iterator[Both]:
    made = Both()
    yield made
    made.close()


def churn(both: Both, width: int, *views: str, table: str = "w") -> None:
    """Rows come in batches and alone, some twice, and go again."""
    rows = some_rows(width)
    both.change(table, rows)
    both.change(table, rows[::3])
    for view in views:
        both.rows(view)
    for database in both.databases:
        for row in rows[5:20]:
            database.table(table).add(*row)
    both.change(table, rows[::2], insert=False)
    for view in views:
        both.rows(view)
    for database in both.databases:
        for row in rows[6:16:3]:
            database.table(table).remove(*row)
    for view in views:
        both.rows(view)


def test_where_flags_are() -> None:
    """The words of a record, not of the columns that a key of it has."""

    def record(*nullable: int, width: int) -> Record:
        keys = tuple(KeyColumn(f"k{i}", INT, nullable=i in nullable) for i in range(width))
        return Record("r", "map", keys, (), None)

    narrow, wide = record(0, 31, width=40), record(0, 64, width=65)
    assert flag(narrow, 31, "e->key.") == "e->key.nulls >> 31 & 1"
    assert flag(wide, 64, "e->key.") == "e->key.nulls[2] >> 0 & 1"
    assert masks(wide, (0, 1, 64)) == {"nulls[0]": 1, "nulls[2]": 1}
    assert masks(narrow, range(40)) == {"nulls": 1 | 1 << 31}
    assert set_flags(wide, [(0, "x"), (64, "y")]) == [
        ".nulls[0] = (uint32_t)(x) << 0",
        ".nulls[2] = (uint32_t)(y) << 0",
    ]


@pytest.mark.native
@pytest.mark.parametrize("width", [32, 33, 64, 65, pytest.param(100, marks=pytest.mark.slow)])
def test_null_in_any_column(both: Both, width: int) -> None:
    both.execute(declared("w", width))
    both.execute("CREATE MATERIALIZED VIEW v AS SELECT * FROM w")
    churn(both, width, "v")


def test_wide_rows_compile_to_small_code() -> None:
    """Long keys, hashed and compared in line at every place, keep the C compiler busy for minutes."""

    def effort(width: int) -> str:
        catalog = Catalog(statement.table for statement in parse(declared("w", width)))
        program = compile_views({"v": compile_query("SELECT * FROM w", catalog)}, catalog)
        return emit(triggers_to_loops(program)).effort

    assert effort(64) == "speed"
    assert effort(65) == "small"


@pytest.mark.native
def test_flags_end_before_the_columns_do(both: Both) -> None:
    """Column 32 has the place of column 0 in a word of which there is no second."""
    columns = ", ".join(f"c{i} INT{' NOT NULL' * (i > 3)}" for i in range(40))
    both.execute(f"CREATE TABLE w ({columns})")
    both.execute("CREATE MATERIALIZED VIEW v AS SELECT * FROM w")
    both.change("w", [(None, 1, None, 3, *range(36)), (0, None, 2, None, *range(36))])
    both.execute(
        "CREATE MATERIALIZED VIEW u AS SELECT c0, COUNT(*) AS n FROM w GROUP BY c0"
    )  # a program made anew
    assert sum(both.rows().values()) == 2
    both.change("w", [(None, 1, None, 3, *range(36))], insert=False)
    assert both.rows() == {(0, None, 2, None, *range(36)): 1}


@pytest.mark.native
def test_groups_by_forty_columns(both: Both) -> None:
    keys = ", ".join(f"c{i}" for i in range(40))
    both.execute(declared("w", 42))
    both.execute(
        f"CREATE MATERIALIZED VIEW v AS SELECT {keys}, COUNT(*) AS n, SUM(c41) AS s, MAX(c40) AS m FROM w "
        f"GROUP BY {keys}"
    )
    both.execute(
        "CREATE MATERIALIZED VIEW u AS SELECT c33, c38, SUM(n) AS n, MIN(m) AS m FROM v GROUP BY c33, c38"
    )
    churn(both, 42, "v", "u")


@pytest.mark.native
def test_fifty_sums(both: Both) -> None:
    sums = ", ".join(f"SUM(c{i}) AS s{i}" for i in range(1, 51))
    both.execute(f"CREATE TABLE w ({', '.join(f'c{i} INT' for i in range(51))})")
    both.execute(f"CREATE MATERIALIZED VIEW v AS SELECT c0, {sums} FROM w GROUP BY c0")
    rng = random.Random(0)
    rows = [tuple(rng.choice((None, None, 1, 2)) for _ in range(51)) for _ in range(20)]
    both.change("w", rows)
    both.rows()
    both.change("w", rows[::2], insert=False)
    both.rows()
    both.change("w", rows[1::2], insert=False)
    assert not both.rows()


@pytest.mark.native
@pytest.mark.parametrize("kind", ["JOIN", "LEFT JOIN"])
def test_joins_of_wide_tables(both: Both, kind: str) -> None:
    """The index by c38 holds keys whose flag is in the second word."""
    both.execute(declared("w", 40))
    both.execute(declared("x", 36))
    shown = ", ".join([*(f"w.c{i} AS w{i}" for i in range(40)), *(f"x.c{i} AS x{i}" for i in range(36))])
    both.execute(
        f"CREATE MATERIALIZED VIEW v AS SELECT {shown} FROM w {kind} x ON w.c38 = x.c2 AND w.c36 = x.c27"
    )
    both.change("x", some_rows(36, 1)[:12])
    both.change("w", some_rows(40)[:30])
    assert both.rows()
    both.change("x", some_rows(36, 1)[1:12:2], insert=False)
    both.rows()
    both.change("w", some_rows(40)[:30:2], insert=False)
    both.rows()


@pytest.mark.native
def test_extremes_along_late_columns(both: Both) -> None:
    """Ordered indexes: what is ordered, and what it is ordered apart by, have late flags."""
    both.execute(f"CREATE TABLE w ({', '.join(f'c{i} INT' for i in range(40))})")
    both.execute("CREATE MATERIALIZED VIEW a AS SELECT * FROM w")
    both.execute(
        "CREATE MATERIALIZED VIEW v AS SELECT x.* FROM w AS x "
        "WHERE x.c37 >= (SELECT MAX(y.c38) FROM w AS y WHERE y.c36 = x.c35)"
    )
    both.execute(
        "CREATE MATERIALIZED VIEW m AS SELECT c39, MIN(c38) AS lo, MAX(c37) AS hi FROM w GROUP BY c39"
    )
    rng = random.Random(1)
    rows = [(*(None,) * 35, *(rng.choice((None, 0, 1, 2)) for _ in range(5))) for _ in range(40)]
    both.change("w", rows)
    for view in "avm":
        both.rows(view)
    both.change("w", rows[::3], insert=False)
    for view in "avm":
        both.rows(view)


@pytest.mark.native
def test_subscriptions_to_wide_views(both: Both) -> None:
    """What is told, added up, is the view."""
    both.execute(declared("w", 45))
    both.execute(
        "CREATE MATERIALIZED VIEW v AS SELECT DISTINCT * FROM w WHERE c44 IS NULL OR c0 IS NULL OR c0 < 5"
    )
    told: Counter[tuple[Any, ...]] = Counter()

    def add(changes: Any) -> None:
        for *row, weight in zip(*(column.to_pylist() for column in changes.columns), strict=True):
            told[tuple(row)] += weight

    both.databases[0].view("v").subscribe(add, weights=True)
    churn(both, 45, "v")
    assert {row: n for row, n in told.items() if n} == both.rows()


@pytest.mark.native
def test_wide_views_are_reopened(tmp_path: Path) -> None:
    rows = some_rows(40)
    path = tmp_path / "wide.db"
    with viewlet.connect(path, backend="native") as database:
        database.execute(declared("w", 40))
        database.execute("CREATE MATERIALIZED VIEW v AS SELECT * FROM w")
        database.insert("w", rows)
        database.checkpoint()
        database.delete("w", rows[:20])
    with viewlet.connect(path, backend="native") as database:
        assert Counter(database.view("v").rows()) == Counter(rows[20:])
        database.delete("w", rows[20:])
        assert database.view("v").rows() == []


@pytest.mark.native
def test_few_columns_of_three_hundred(both: Both) -> None:
    both.execute(declared("w", 300))
    both.execute("CREATE MATERIALIZED VIEW v AS SELECT c290, c3, SUM(c299) AS s FROM w GROUP BY c290, c3")
    both.execute("CREATE MATERIALIZED VIEW u AS SELECT c280, c281 FROM w WHERE c0 IS NULL OR c297 = 7")
    churn(both, 300, "v", "u")


@pytest.mark.native
def test_partitions_of_wide_rows() -> None:
    """Partitions of a Spark session run native code, too, and rows go from one to the other."""
    columns = ", ".join(f"c{i} INT" for i in range(40))
    catalog = Catalog(statement.table for statement in parse(f"CREATE TABLE w ({columns})"))
    by = ", ".join(f"c{i}" for i in range(40))
    query = compile_query(f"SELECT {by}, COUNT(*) AS n FROM w GROUP BY {by}", catalog)
    engines: list[Engine] = [
        ReferenceEngine(),
        SparkEngine(lambda code: SimulatedCluster(code, 3), {"w": "c38"}, native=True),
    ]
    for engine in engines:
        engine.create("v", query, catalog, {"w": {}}, "auto")
    rows = [tuple(None if i in (at, 39) else i % 3 for i in range(40)) for at in range(40)]
    for own, weight in ((rows, 1), (rows[::3], 1), (rows[::2], -1)):
        for engine in engines:
            engine.apply("w", [Change(row, weight) for row in own], "batch", frozenset())
        expected, spread = (engine.output("v") for engine in engines)
        assert spread == expected
        assert expected
