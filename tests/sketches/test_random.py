"""Random databases, queries and updates: the laws of sketches on every kind of database.

For a query and a safe attribute, after any updates: the sketch holds the fragments of the lineage and no
others, and the restricted query gives the result of the whole one. What is not called safe is not tried.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pytest

import viewlet
from sketches import databases
from sketches.databases import DDL, arrow_result, random_changes, random_data
from sketches.generator import Generator, features, lineage_of, rows_of
from sketches.model import COLUMNS, Data, fragments
from sketches.test_parquet import write
from viewlet import sketches
from viewlet.sketches.backends.duckdb import DuckDB
from viewlet.sketches.backends.parquet import Parquet
from viewlet.sketches.backends.postgres import Postgres
from viewlet.sketches.cost import Line
from viewlet.sketches.state import Keep

BOUNDS = {"a": [1, 3], "b": [1, 2], "c": [2, 4], "d": [3, 6], "x": [1, 2], "y": [1, 3]}
ATTRIBUTES = [f"{table}.{column}" for table, columns in COLUMNS.items() for column in columns]


@pytest.fixture(autouse=True)
def filters_for_small_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    for backend in (DuckDB, Parquet, Postgres):
        monkeypatch.setattr(backend, "small", 0)


def follow(
    seed: int,
    open_store: Callable[[Data], sketches.Store],
    rows: int,
    batches: int,
    keep: Keep = "operators",
) -> str:
    """Capture a sketch of a random query on a random attribute and follow updates: what came of it."""
    random = Random(seed)
    low = random.choice((0, 0, -3))
    data = random_data(random, rows, low)
    query, attribute = Generator(random).query(), random.choice(ATTRIBUTES)
    table, column = attribute.split(".")
    text, bounds = query.sql(), BOUNDS[column]
    store = open_store(data)
    options = {"eager": random.random() < 0.5, "bound": random.choice((None, None, 2)), "keep": keep}
    maintain = random.choice(("incremental", "incremental", "auto"))
    try:
        sketch = store.capture(text, on=attribute, ranges=bounds, maintain=maintain, **options)
        if random.random() < 0.3:  # a sketch that serves nothing, for which changes have to be remembered
            store.capture("SELECT a FROM r WHERE a > 99", on="r.a", ranges=[1], eager=False)
    except sketches.UnsafeError:
        return "refused"
    for _ in range(batches):
        told = f"seed {seed}: {text} on {attribute} over {data}"
        sketch.refresh()
        if sketch.retired is not None:
            assert low < 0, told
            with pytest.raises(sketches.SketchError, match="retired"):
                store.query(text, use="always")
            return "retired"
        accurate = fragments(lineage_of(query, data), data, table, column, bounds)
        assert sketch.fragments >= accurate, f"the sketch misses fragments, {told}"
        assert sketch.fragments == accurate, f"the sketch has too many fragments, {told}"
        whole = rows_of(query, data)
        assert rounded(store.query(text, use="never")) == rounded(whole), f"the oracle disagrees, {told}"
        assert rounded(store.query(text, use="always")) == rounded(whole), f"the sketch is unsafe, {told}"
        expensive = random.random() < 0.5  # then, by itself, it is captured lightly and the state lags behind
        sketch.costs.refresh = Line(1, 1.0, 1e9 if expensive else 1e-9, 1.0, 1e9)
        store.apply(random_changes(random, data, low))
    return "followed" if sketch.incremental else "captured again"


def rounded(result: Any) -> Counter[Any]:
    """Rows without the last bits of averages."""
    rows = result if isinstance(result, Counter) else arrow_result(result)
    shown: Counter[Any] = Counter()
    for row, copies in rows.items():
        shown[tuple(v if v is None else round(float(v), 9) for v in row)] += copies
    return shown


CONNECTION = duckdb.connect()


def in_duckdb(data: Data) -> sketches.Store:
    CONNECTION.execute("DROP SCHEMA IF EXISTS viewlet_sketches CASCADE")
    return sketches.open(databases.load(data, CONNECTION))


def test_the_generator_draws_every_operator() -> None:
    drawn = Counter(f for seed in range(300) for f in set(features(Generator(Random(seed)).query())))
    kinds = ["Access", "Selected", "Projected", "Joined", "United", "Unique", "Grouped", "First", "HAVING"]
    for kind in [*kinds, "nested aggregation", "sum", "count", "countd", "avg", "min", "max"]:
        assert drawn[kind] > 20, drawn


def test_duckdb() -> None:
    outcomes = Counter(follow(seed, in_duckdb, 14, 3) for seed in range(40))
    assert outcomes["followed"] > 8, outcomes
    assert outcomes["refused"] > 3, outcomes


def test_triggers() -> None:
    """The same laws where the sketch is a view of streams."""
    outcomes = Counter(follow(seed, in_duckdb, 10, 3, "reference") for seed in range(200, 216))
    assert outcomes["followed"] > 2, outcomes


@pytest.mark.native
def test_native_triggers() -> None:
    outcomes = Counter(follow(seed, in_duckdb, 14, 3, "native") for seed in range(300, 306))
    assert outcomes["followed"] > 1, outcomes


@pytest.mark.slow
@pytest.mark.parametrize("start", range(1000, 5000, 500))
def test_duckdb_long(start: int) -> None:
    for seed in range(start, start + 500):
        follow(seed, in_duckdb, 25, 5, "reference" if seed % 5 == 0 else "operators")


def in_viewlet(data: Data) -> sketches.Store:
    database = viewlet.connect(backend="reference")
    database.execute(DDL)
    for table, rows in data.items():
        database.insert(table, rows)
    return sketches.open(database)


def test_viewlet() -> None:
    outcomes = Counter(follow(seed, in_viewlet, 10, 3) for seed in range(5000, 5014))
    assert outcomes["followed"] > 2, outcomes


@pytest.mark.slow
@pytest.mark.parametrize("start", range(20000, 20400, 50))
def test_viewlet_long(start: int) -> None:
    for seed in range(start, start + 50):
        follow(seed, in_viewlet, 12, 4)


def in_files(folder: Path, engine: Callable[[], Any]) -> Callable[[Data], sketches.Store]:
    """Opens stores over Parquet files, each in a folder of its own."""

    def opened(data: Data) -> sketches.Store:
        own = folder / str(len(list(folder.iterdir())))
        own.mkdir()
        return sketches.open(engine(), write(own, data))

    return opened


def test_parquet(tmp_path: Path) -> None:
    files = in_files(tmp_path, duckdb.connect)
    outcomes = Counter(follow(seed, files, 10, 3) for seed in range(8000, 8012))
    assert outcomes["followed"] > 2, outcomes
    outcomes = Counter(follow(seed, files, 6, 3, "reference") for seed in range(8100, 8107))
    assert outcomes["followed"] > 0, outcomes


@pytest.mark.slow
@pytest.mark.parametrize("start", range(30000, 31000, 100))
def test_parquet_long(start: int, tmp_path: Path) -> None:
    for seed in range(start, start + 100):
        follow(seed, in_files(tmp_path, duckdb.connect), 12, 4, "reference" if seed % 4 == 0 else "operators")


@pytest.mark.xdist_group("postgres")
def test_postgres(postgres: Any) -> None:
    def in_postgres(data: Data) -> sketches.Store:
        postgres.execute("DROP SCHEMA IF EXISTS viewlet_sketches CASCADE")
        postgres.execute(f"DROP TABLE IF EXISTS r; DROP TABLE IF EXISTS s; {DDL}")
        for name, rows in data.items():
            values = ", ".join(map(databases.literal, rows))
            postgres.execute(f"INSERT INTO {name} VALUES {values}")
        return sketches.open(postgres)

    outcomes = Counter(follow(seed, in_postgres, 14, 3) for seed in range(6000, 6020))
    assert outcomes["followed"] > 5, outcomes
    outcomes = Counter(follow(seed, in_postgres, 6, 3, "reference") for seed in range(6100, 6110))
    assert outcomes["followed"] > 1, outcomes


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
@pytest.mark.parametrize(
    "seeds", [range(7000, 7002), pytest.param(range(7002, 7040), marks=pytest.mark.slow)]
)
def test_spark(spark: Any, tmp_path: Path, seeds: range) -> None:
    files = in_files(tmp_path, lambda: spark)
    outcomes = Counter(
        follow(seed, files, 10, 2, "reference" if seed % 3 == 0 else "operators") for seed in seeds
    )
    assert outcomes["followed"] > 0, outcomes
