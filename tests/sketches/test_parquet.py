"""Sketches of folders of Parquet files, queried by DuckDB and by Spark: the same laws, and skipped files."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sketches.databases import arrow_result, random_changes, random_data
from sketches.model import COLUMNS, Data, fragments
from sketches.test_maintenance import BOUNDS, CASES
from viewlet import sketches
from viewlet.errors import DataError
from viewlet.sketches.state import Keep

TYPES = {"a": pa.int32(), "b": pa.int32(), "c": pa.int32(), "d": pa.int64(), "x": pa.int32(), "y": pa.int32()}
ON_SPARK = ["join and groups", pytest.param("top of groups", marks=pytest.mark.slow)]


def write(folder: Path, data: Data) -> dict[str, Path]:
    tables = {}
    for name, rows in data.items():
        schema = pa.schema([(column, TYPES[column]) for column in COLUMNS[name]])
        (folder / name).mkdir()
        half = len(rows) // 2
        for number, part in enumerate((rows[:half], rows[half:])):
            columns = [list(column) for column in zip(*part, strict=True)] or [[] for _ in schema]
            content = pa.table(
                [pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema
            )
            pq.write_table(content, folder / name / f"{number}.parquet")
        tables[name] = folder / name
    return tables


def follow(name: str, engine: Any, folder: Path, batches: int) -> None:
    spec, attribute = CASES[name]
    random = Random(name)
    data = random_data(random, 20)
    store = sketches.open(engine, write(folder, data))
    table, column = attribute.split(".")
    sketch = store.capture(spec.sql(), on=attribute, ranges=BOUNDS[column], maintain="incremental")
    for _ in range(batches):
        accurate = fragments(spec.lineage(data), data, table, column, BOUNDS[column])
        assert sketch.fragments == accurate, f"{spec.sql()} over {data}"
        answered = arrow_result(store.query(spec.sql(), use="always"))
        assert answered == arrow_result(store._backend.run(spec.sql()))
        store.apply(random_changes(random, data))
    assert sketch.costs.captures == 1 or name in ("left join", "left join and groups")


@pytest.mark.parametrize("name", CASES)
def test_duckdb(name: str, tmp_path: Path) -> None:
    with duckdb.connect() as connection:
        follow(name, connection, tmp_path, 3)


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
@pytest.mark.parametrize("name", ON_SPARK)
def test_spark(name: str, tmp_path: Path, spark: Any) -> None:
    follow(name, spark, tmp_path, 2)


def test_files_are_skipped(tmp_path: Path) -> None:
    (tmp_path / "r").mkdir()
    for number in range(8):
        rows = pa.table({"a": list(range(number * 10, number * 10 + 10)) * 2, "d": [number] * 20})
        pq.write_table(rows, tmp_path / "r" / f"{number}.parquet")
    with duckdb.connect() as connection:
        store = sketches.open(connection, {"r": tmp_path / "r"})
        text = "SELECT a, sum(d) AS s FROM r GROUP BY a HAVING sum(d) BETWEEN 10 AND 11"
        sketch = store.capture(text, on="r.a", ranges=[10 * n for n in range(1, 8)])
        assert sketch.fragments == {5}
        (restriction,) = sketch.restrictions
        files = store._backend._files["r"]
        assert files.overlapping(files.manifest().files, *restriction) == ["5.parquet"]
        assert store._backend.skipping(*restriction).touched == 1 / 8
        assert store.query(text, use="always").num_rows == 10


def folders(folder: Path, rows: list[tuple[int | None, int, int]]) -> dict[str, Path]:
    """A table r(a, d) in folders by b, written as others do."""
    b, a, d = (list(column) for column in zip(*rows, strict=True))
    content = pa.table(
        {"a": pa.array(a, pa.int32()), "d": pa.array(d, pa.int64()), "b": pa.array(b, pa.int32())}
    )
    pq.write_to_dataset(content, folder / "r", partition_cols=["b"])
    return {"r": folder / "r"}


def follow_folders(engine: Any, folder: Path, batches: int, keep: Keep) -> None:
    """Folders name a column; a sketch on it reads only the folders that it needs, while rows come and go."""
    random = Random(5)

    def some(n: int) -> list[tuple[int | None, int, int]]:
        return [
            (random.choice((None, 0, 1, 2, 3)), random.randint(0, 9), random.randint(0, 5)) for _ in range(n)
        ]

    rows = some(20)
    store = sketches.open(engine, folders(folder, rows))
    text = "SELECT b, sum(d) AS s FROM r GROUP BY b HAVING sum(d) > 12"
    sketch = store.capture(text, on="r.b", ranges=[1, 2, 3], maintain="incremental", keep=keep)
    for _ in range(batches):
        totals: Counter[Any] = Counter()
        for b, _, d in rows:
            totals[b] += d
        wanted = {(b, s): 1 for b, s in totals.items() if s > 12}
        assert arrow_result(store.query(text, use="always")) == wanted
        assert sketch.fragments == {-1 if b is None else b for b, _ in wanted}
        kept = {Path(path).parent.name for path in store._backend._shown["_kept_r"]}
        if wanted:  # of no file there would be no schema
            assert kept == {f"b={'__HIVE_DEFAULT_PARTITION__' if b is None else b}" for b, _ in wanted}
        gone, new = random.sample(rows, 6), some(5)
        for row in gone:
            rows.remove(row)
        rows += new
        batch = [(row, -1) for row in gone] + [(row, 1) for row in new]
        store.apply({"r": [{"a": a, "d": d, "b": b, "_weight": weight} for (b, a, d), weight in batch]})


@pytest.mark.parametrize("keep", ["operators", "reference"])
def test_folders(tmp_path: Path, keep: Keep) -> None:
    with duckdb.connect() as connection:
        follow_folders(connection, tmp_path, 5, keep)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.xdist_group("spark")
def test_folders_on_spark(tmp_path: Path, spark: Any) -> None:
    follow_folders(spark, tmp_path, 3, "reference")


def test_folders_of_unclear_type_are_refused(tmp_path: Path) -> None:
    (tmp_path / "k=1.5").mkdir()
    pq.write_table(pa.table({"a": [1]}), tmp_path / "k=1.5" / "0.parquet")
    with duckdb.connect() as connection, pytest.raises(sketches.SketchError, match=r"k=1\.5"):
        sketches.open(connection, {"r": tmp_path})


def test_files_of_others_are_noticed(tmp_path: Path) -> None:
    tables = write(tmp_path, {"r": [(1, 1, 1, 9)], "s": []})
    text = "SELECT a FROM r GROUP BY a HAVING sum(d) > 5"
    with duckdb.connect() as connection:
        store = sketches.open(connection, tables)
        sketch = store.capture(text, on="r.a", ranges=[2, 3])
        content = pa.table({"a": [3], "b": [1], "c": [1], "d": [7]})
        pq.write_table(content.cast(pq.read_schema(tables["r"] / "0.parquet")), tables["r"] / "new.parquet")
        assert arrow_result(store.query(text, use="always")) == {(1,): 1, (3,): 1}
        assert (sketch.costs.captures, sketch.fragments) == (2, {0, 2})


def test_failed_batch_leaves_no_trace(tmp_path: Path) -> None:
    tables = write(tmp_path, {"r": [(1, 1, 1, 9), (1, 1, 1, 9)], "s": [(1, 1)]})
    with duckdb.connect() as connection:
        store = sketches.open(connection, tables)
        before = sorted(path.name for path in tmp_path.rglob("*.parquet"))
        gone = {"a": 1, "b": 1, "c": 1, "d": 9, "_weight": -3}
        with pytest.raises(DataError, match="1 of 3"):
            store.apply({"s": [{"x": 2, "y": 2, "_weight": 1}], "r": [gone]})
        assert sorted(path.name for path in tmp_path.rglob("*.parquet")) == before


def test_saved_and_restored(tmp_path: Path) -> None:
    data = random_data(Random(11), 20)
    tables = write(tmp_path, data)
    spec, _ = CASES["sum by other attribute"]
    with duckdb.connect() as connection:
        store = sketches.open(connection, tables)
        store.capture(spec.sql(), on="r.c", ranges=BOUNDS["c"])
        store.save()
        store._backend.apply({store._backend.catalog()["r"]: [sketches_change((3, 1, 5, 90))]}, lagging=False)
    with duckdb.connect() as connection:
        again = sketches.open(connection, tables)
        (sketch,) = again.sketches
        answered = arrow_result(again.query(spec.sql(), use="always"))
        assert answered == arrow_result(again._backend.run(spec.sql()))
        assert sketch.costs.captures == 0


def sketches_change(row: tuple[int, ...]) -> Any:
    from viewlet.backends.base import Change

    return Change(row, 1)
