"""Durable databases on Spark: a new driver goes on where the last one was, over any number of partitions."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import viewlet
from viewlet.database import Database
from viewlet.errors import StorageError

pytestmark = [
    pytest.mark.spark,
    pytest.mark.xdist_group("spark"),
    pytest.mark.filterwarnings("ignore"),  # PySpark warns about its own dependencies
]

DDL = """CREATE TABLE r (k BIGINT NOT NULL, g VARCHAR, v BIGINT, PRIMARY KEY (k));
         CREATE STREAM s (k BIGINT REFERENCES r (k), w BIGINT)"""
VIEWS = {
    "joined": "SELECT r.k, g, sum(w) AS w, count(*) AS n FROM r JOIN s ON r.k = s.k GROUP BY r.k, g",
    "most": "SELECT max(w) AS m FROM joined",
}

Open = Callable[..., Database]


@pytest.fixture
def opened(spark: Any, tmp_path: Path) -> Iterator[Open]:
    """Opens the database of a folder with so many partitions; drivers before are left as a crash does."""
    left: list[Database] = []

    def connect(partitions: int, folder: str | Path | None = tmp_path) -> Database:
        spark.conf.set("spark.viewlet.partitions", str(partitions))
        left.append(viewlet.connect(spark, folder))
        return left[-1]

    yield connect
    spark.conf.unset("spark.viewlet.partitions")
    for db in left:
        db.close()


def define(db: Database) -> None:
    db.execute(DDL)
    for name, sql in VIEWS.items():
        db.execute(f"CREATE MATERIALIZED VIEW {name} AS {sql}")


def batches(seed: int, count: int) -> list[dict[str, list[dict[str, Any]]]]:
    """Rows that come and go."""
    rng = random.Random(seed)
    there: dict[str, list[dict[str, Any]]] = {"r": [], "s": []}
    found = []
    for number in range(count):
        batch: dict[str, list[dict[str, Any]]] = {"r": [], "s": []}
        for i in range(4):
            key = 10 * number + i
            batch["r"].append({"k": key, "g": rng.choice(["a", None, "é"]), "v": key, "_weight": 1})
            batch["s"] += [
                {"k": rng.randrange(key + 1), "w": rng.randrange(-5, 50), "_weight": 1} for _ in "ab"
            ]
        for table, rows in there.items():
            gone = rng.sample(rows, len(rows) // 3)
            there[table] = [row for row in rows if row not in gone] + list(batch[table])
            batch[table] += [{**row, "_weight": -1} for row in gone if rows.count(row) == 1]
        found.append(batch)
    return found


def same(db: Database, oracle: Database) -> None:
    for name in VIEWS:
        assert db.view(name).rows() == oracle.view(name).rows(), name
    assert db.table("r").rows() == oracle.table("r").rows()
    assert db.version == oracle.version


def test_a_new_driver_goes_on(opened: Open) -> None:
    """By replay of the log, from a checkpoint, and from a checkpoint and the log; 2, 3, then 1 partitions."""
    oracle = viewlet.connect(backend="reference")
    stream = iter(batches(1, 8))
    db = opened(2)
    for each in (db, oracle):
        define(each)
    for _ in range(3):
        batch = next(stream)
        db.apply(batch, token=f"batch {db.version}")
        oracle.apply(batch)
    known = db.version
    db = opened(3)
    same(db, oracle)
    assert db.apply(batch, token=f"batch {known - 1}") == known, "a batch that was sent again"
    db.apply(batch := next(stream))
    oracle.apply(batch)
    db.checkpoint()
    db = opened(1)
    same(db, oracle)
    db.apply(batch := next(stream))
    oracle.apply(batch)
    db = opened(2)
    same(db, oracle)
    assert db.apply(batch, token=f"batch {known - 1}") == known, "tokens are in checkpoints too"


def test_a_driver_that_comes_back_is_stopped(opened: Open) -> None:
    first = opened(1)
    define(first)
    second = opened(1)
    second.apply({"r": [(1, "a", 1)]})
    before = first.version
    with pytest.raises(StorageError, match="another one is at work there"):
        first.apply({"r": [(2, "b", 1)]})
    assert (first.version, first.view("joined").rows()) == (before, [])
    assert opened(1).table("r").rows() == [(1, "a", 1)]


def test_a_torn_step_was_never_there_and_damage_is_noticed(opened: Open, tmp_path: Path) -> None:
    db = opened(1)
    define(db)
    db.apply({"r": [(1, "a", 1)], "s": [(1, 5)]})
    db.apply({"s": [(1, 6)]})
    *_, before, last = sorted(path for path in tmp_path.glob("log-*"))
    whole = last.read_bytes()
    forget_checksums(tmp_path)
    last.write_bytes(whole[: len(whole) // 2])
    assert opened(1).view("joined").rows() == [(1, "a", 5, 1)]
    last.write_bytes(whole)
    before.write_bytes(before.read_bytes()[:-1])
    forget_checksums(tmp_path)
    with pytest.raises(StorageError, match=f"damaged: {before.name}"):
        opened(1)


def forget_checksums(folder: Path) -> None:
    """Hadoop's local file system has checksums of its own, which would notice first."""
    for path in folder.glob(".*.crc"):
        path.unlink()


def test_any_file_system_that_hadoop_knows(spark: Any, opened: Open, tmp_path: Path) -> None:
    """The same folder by another scheme: a mount table of viewfs."""
    configuration = spark.sparkContext._jsc.hadoopConfiguration()
    configuration.set("fs.viewfs.mounttable.test.link./data", tmp_path.as_uri())
    db = opened(1, "viewfs://test/data/inner")
    define(db)
    db.apply({"r": [(1, "a", 1)], "s": [(1, 5)]})
    db.checkpoint()
    db.apply({"s": [(1, 6)]})
    assert list((tmp_path / "inner").glob("checkpoint-*"))
    spark.conf.set("spark.viewlet.database", (tmp_path / "inner").as_uri())
    try:
        assert opened(1, None).view("joined").rows() == [(1, "a", 11, 2)], "a setting of the session will do"
    finally:
        spark.conf.unset("spark.viewlet.database")
    with pytest.raises(StorageError, match="nonsense"):
        opened(1, "nonsense://x/y")
    with pytest.raises(StorageError, match="goes with a SparkSession"):
        viewlet.connect(tmp_path / "file.viewlet", tmp_path)
