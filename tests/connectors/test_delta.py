"""Delta Lake in and out, with real tables on disk."""

from __future__ import annotations

import datetime as dt
import random
import signal
import subprocess
import sys
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import viewlet
from viewlet.connectors import ConnectorError, DeltaSink, DeltaSource, Mirror, mirror, positions, run

deltalake = pytest.importorskip("deltalake")

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("name", pa.string()),
        ("price", pa.decimal128(12, 2)),
        ("day", pa.date32()),
        ("extra", pa.string()),
    ]
)
LOCAL = """
CREATE TABLE items (id BIGINT, name VARCHAR, price DECIMAL(12,2), day DATE);
CREATE MATERIALIZED VIEW totals AS SELECT name, sum(price) AS price, count(*) AS n FROM items GROUP BY name
"""
CDF = {"delta.enableChangeDataFeed": "true"}


def some_rows(chance: random.Random, count: int) -> pa.Table:
    days = [None, dt.date(2024, 2, 29)]
    rows = [
        {
            "id": chance.randrange(40),
            "name": chance.choice([None, "", "a", "ü", "b"]),
            "price": Decimal(chance.randrange(10_000)) / 100,
            "day": chance.choice(days),
            "extra": "x",
        }
        for _ in range(count)
    ]
    return pa.Table.from_pylist(rows, SCHEMA)


def random_version(chance: random.Random, path: Path) -> None:
    table = deltalake.DeltaTable(path)
    number = chance.randrange(40)
    match chance.randrange(6):
        case 0 | 1:
            deltalake.write_deltalake(path, some_rows(chance, 5), mode="append")
        case 2:
            table.update(predicate=f"id < {number}", updates={"price": "price + 1", "name": "'new'"})
        case 3:
            table.delete(f"id = {number}")
        case 4:
            source = some_rows(chance, 1)
            table.merge(
                source, "s.id = t.id", "s", "t"
            ).when_matched_update_all().when_not_matched_insert_all().execute()
        case 5:
            table.optimize.compact()


def open_database(path: Path | None = None) -> viewlet.Database:
    db = viewlet.connect(path, backend="reference")
    if "items" not in db.catalog:
        db.execute(LOCAL)
    return db


def assert_equal(db: viewlet.Database, path: Path) -> None:
    rows = deltalake.DeltaTable(path).to_pyarrow_table().to_pylist()
    expected = Counter((row["id"], row["name"], row["price"], row["day"]) for row in rows)
    assert Counter(db.table("items").rows()) == expected


@pytest.mark.parametrize("seed", range(2))
def test_every_version_arrives_through_restarts(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    lake, path = tmp_path / "lake", tmp_path / "d.viewlet"
    deltalake.write_deltalake(lake, some_rows(chance, 30), configuration=CDF)
    random_version(chance, lake)
    for _ in range(8):
        with open_database(path) as db:
            run(db, DeltaSource(lake, "items", name="lake"))
            assert_equal(db, lake)
            assert positions(db, "lake") == {"version": str(deltalake.DeltaTable(lake).version())}
            assert run(db, DeltaSource(lake, "items", name="lake")) == 0
        for _ in range(chance.randrange(4)):
            random_version(chance, lake)


FOLLOWER = """
import sys, viewlet
from viewlet.connectors import DeltaSource, run
class Telling(DeltaSource):
    def batches(self, catalog, positions):
        for batch in super().batches(catalog, positions):
            yield batch
            print("committed", flush=True)
db = viewlet.connect(sys.argv[1], backend="reference", durability="off")
run(db, Telling(sys.argv[2], "items", name="lake"), follow=True, interval=0.01)
"""


def test_a_killed_follower_goes_on_where_it_was(tmp_path: Path) -> None:
    chance = random.Random(4)
    lake, path = tmp_path / "lake", tmp_path / "d.viewlet"
    deltalake.write_deltalake(lake, some_rows(chance, 30), configuration=CDF)
    open_database(path).close()
    for _ in range(2):
        for _ in range(6):
            random_version(chance, lake)
        with subprocess.Popen(
            [sys.executable, "-c", FOLLOWER, path, lake], stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "committed\n"
            process.send_signal(signal.SIGKILL)
    with open_database(path) as db:
        run(db, DeltaSource(lake, "items", name="lake"))
        assert_equal(db, lake)


def test_a_table_without_the_property_is_followed_too(tmp_path: Path) -> None:
    chance = random.Random(3)
    deltalake.write_deltalake(tmp_path / "lake", some_rows(chance, 30))
    with open_database() as db:
        source = DeltaSource(tmp_path / "lake", "items")
        for _ in range(10):
            run(db, source)
            assert_equal(db, tmp_path / "lake")
            random_version(chance, tmp_path / "lake")


def test_what_cannot_be_followed_is_refused_with_what_would_help(tmp_path: Path) -> None:
    chance = random.Random(2)
    lake = tmp_path / "lake"
    with open_database() as db:
        with pytest.raises(ConnectorError, match="no Delta table"):
            run(db, DeltaSource(tmp_path / "nowhere", "items"))
        deltalake.write_deltalake(lake, some_rows(chance, 3))
        db.execute("CREATE TABLE wider (id BIGINT, missing BIGINT)")
        with pytest.raises(ConnectorError, match="missing"):
            run(db, DeltaSource(lake, "wider"))
        source = DeltaSource(lake, "items")
        run(db, source)
        deltalake.DeltaTable(lake).delete("id >= 0")
        deltalake.DeltaTable(lake).vacuum(0, dry_run=False, enforce_retention_duration=False)
        before = positions(db, source.name)
        with pytest.raises(ConnectorError, match="vacuumed"):
            run(db, source)
        assert positions(db, source.name) == before


def written(path: Path) -> Any:
    rows = deltalake.DeltaTable(path).to_pyarrow_table().to_pylist()
    return Counter(tuple(row.values()) for row in rows)


def test_a_view_is_mirrored(tmp_path: Path) -> None:
    chance = random.Random(7)
    out = tmp_path / "out"
    with open_database() as db:
        rows = [(i, chance.choice("abcde"), i, None) for i in range(30)]
        db.insert("items", rows)
        sink = DeltaSink(out, ["name"])
        for _ in range(2):
            with mirror(db, "totals", sink) as copy:
                for _ in range(4):
                    gone = chance.sample(rows, 8)
                    db.delete("items", gone)
                    copy.flush()
                    assert written(out) == Counter(db.view("totals").rows())
                    db.insert("items", gone)
                copy.flush()
                assert sink.version() == db.version
            before = deltalake.DeltaTable(out).version()
        with mirror(db, "totals", sink) as copy:
            copy.flush()
        assert deltalake.DeltaTable(out).version() == before, "a target that is right is not written again"
        deltalake.write_deltalake(
            out, deltalake.DeltaTable(out).to_pyarrow_table().slice(2), mode="overwrite"
        )
        with mirror(db, "totals", sink) as copy:
            copy.flush()
        assert written(out) == Counter(db.view("totals").rows())


def test_a_view_of_one_database_is_a_table_of_another(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with open_database() as db, viewlet.connect(backend="reference") as other:
        other.execute("CREATE TABLE totals (name VARCHAR, n BIGINT)")
        other.execute("CREATE MATERIALIZED VIEW items AS SELECT sum(n) AS n FROM totals")
        source = DeltaSource(out, "totals")
        with mirror(db, "totals", DeltaSink(out, ["name"])) as copy:
            for i in range(4):
                db.insert("items", [(i, "a", 1, None), (i, f"{i}", 1, None)])
                copy.flush()
                run(other, source)
                assert other.view("items").value == 2 * (i + 1)


def test_another_writer_is_noticed(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with open_database() as db:
        db.insert("items", [(1, "a", 1, None)])
        copy = Mirror(db, "totals", DeltaSink(out, ["name"]), 100)
        copy.flush()
        deltalake.DeltaTable(out).delete("name = 'a'")
        db.insert("items", [(2, "a", 1, None)])
        with pytest.raises(ConnectorError, match="another writer"):
            copy.flush()
        with pytest.raises(ConnectorError):
            copy.close()
    with pytest.raises(ConnectorError, match="key"):
        DeltaSink(out, [])
