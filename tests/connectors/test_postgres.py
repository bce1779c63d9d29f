"""PostgreSQL in and out, against a real server: equal at every rest, through restarts and kills."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import viewlet
from viewlet.connectors import (
    ConnectorError,
    Mirror,
    PostgresSink,
    PostgresSource,
    following,
    forget,
    mirror,
    positions,
    run,
)
from viewlet.connectors.pgoutput import decode

pytest.importorskip("psycopg")
pytestmark = pytest.mark.xdist_group("replication")  # one server for all

REMOTE = """
CREATE TABLE items (id int, name text, price numeric(12,2), weight double precision, sold boolean, day date,
  at timestamp, zoned timestamptz, unused int[]);
ALTER TABLE items REPLICA IDENTITY FULL;
CREATE TABLE notes (item int, body text);
ALTER TABLE notes REPLICA IDENTITY FULL;
CREATE TABLE other (a int);
"""
LOCAL = """
CREATE TABLE items (id INT, name VARCHAR, price DECIMAL(12,2), weight DOUBLE, sold BOOLEAN, day DATE,
  at TIMESTAMP, zoned TIMESTAMP);
CREATE TABLE remarks (item INT, body VARCHAR);
CREATE MATERIALIZED VIEW totals AS SELECT name, sum(price) AS price, count(*) AS n FROM items GROUP BY name;
"""
TABLES = {"items": "items", "public.notes": "remarks"}
COLUMNS = "id, name, price, weight, sold, day, at, zoned AT TIME ZONE 'UTC'"


def open_database(path: Path | None = None) -> viewlet.Database:
    db = viewlet.connect(path, backend="reference")
    if "items" not in db.catalog:
        db.execute(LOCAL)
    return db


def assert_equal(db: viewlet.Database, postgres: Any) -> None:
    items = postgres.execute(f"SELECT {COLUMNS} FROM items").fetchall()
    assert Counter(db.table("items").rows()) == Counter(items)
    assert Counter(db.table("remarks").rows()) == Counter(postgres.execute("SELECT * FROM notes").fetchall())
    totals = "SELECT name, sum(price), count(*) FROM items GROUP BY name"
    assert Counter(db.view("totals").rows()) == Counter(postgres.execute(totals).fetchall())


def random_transaction(chance: random.Random, postgres: Any) -> None:
    """Some statements on random rows: inserts, updates, deletes, with NULLs, large texts and duplicates."""
    with postgres.transaction():
        for _ in range(chance.randrange(1, 6)):
            number = chance.randrange(30)
            match chance.randrange(8):
                case 0 | 1 | 2:
                    postgres.execute(
                        "INSERT INTO items SELECT %s, %s, random() * 1000, %s, random() < 0.5, "
                        "date '1999-12-31' + %s, timestamp '2024-02-29 12:34:56.789', now(), '{1}'",
                        [number, chance.choice([None, "", "a", "ü\n'\"\\", "b"]), chance.gauss(0, 9), number],
                    )
                case 3:
                    postgres.execute(
                        "UPDATE items SET price = price + 1, name = NULL WHERE id = %s", [number]
                    )
                case 4:
                    postgres.execute("DELETE FROM items WHERE id = %s", [number])
                case 5:
                    text = "x" * chance.choice([1, 100, 20_000])
                    postgres.execute(
                        "INSERT INTO notes VALUES (%s, %s || md5(random()::text))", [number, text]
                    )
                case 6:
                    postgres.execute("UPDATE notes SET item = item + 1 WHERE item = %s", [number])
                case 7:
                    postgres.execute("DELETE FROM notes WHERE item = %s", [number])
                    postgres.execute("INSERT INTO other VALUES (1)")


@pytest.mark.parametrize("seed", range(2))
def test_random_transactions_arrive_through_restarts(
    replicating_server: str, postgres: Any, tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    postgres.execute(REMOTE)
    for _ in range(15):
        random_transaction(chance, postgres)
    path = tmp_path / "d.viewlet"
    db = open_database(path)
    source = PostgresSource(replicating_server, TABLES, batch_rows=chance.choice([1, 5, 10_000]))
    assert run(db, source) == 2  # whose slot it is, then the snapshot
    assert_equal(db, postgres)
    for _ in range(12):
        for _ in range(chance.randrange(8)):
            random_transaction(chance, postgres)
        if chance.random() < 0.4:
            source.close()
            db.close()
            db = open_database(path)
            source = PostgresSource(replicating_server, TABLES, batch_rows=chance.choice([1, 5, 10_000]))
        run(db, source)
        assert_equal(db, postgres)
    source.drop()
    db.close()
    assert postgres.execute("SELECT count(*) FROM pg_replication_slots").fetchone() == (0,)


FOLLOWER = """
import sys, viewlet
from viewlet.connectors import PostgresSource, run
class Telling(PostgresSource):
    def batches(self, catalog, positions):
        for batch in super().batches(catalog, positions):
            yield batch
            print("committed", flush=True)
db = viewlet.connect(sys.argv[1], backend="reference", durability="off")
source = Telling(sys.argv[2], {"items": "items", "notes": "remarks"}, batch_rows=3)
run(db, source, follow=True, interval=0.01)
"""


def test_killed_followers_lose_nothing_and_count_nothing_twice(
    replicating_server: str, postgres: Any, tmp_path: Path
) -> None:
    chance = random.Random(9)
    postgres.execute(REMOTE)
    for _ in range(10):
        random_transaction(chance, postgres)
    path = tmp_path / "d.viewlet"
    open_database(path).close()
    for round_ in range(3):
        with subprocess.Popen(
            [sys.executable, "-c", FOLLOWER, path, replicating_server], stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            for _ in range(round_ * chance.randrange(1, 4) + 1):  # first in the middle of the snapshot
                for _ in range(10):
                    random_transaction(chance, postgres)
                postgres.execute("INSERT INTO notes VALUES (0, 'one more')")
                assert process.stdout.readline() == "committed\n"
            time.sleep(chance.uniform(0, 0.01))
            process.send_signal(signal.SIGKILL)
    with open_database(path) as db:
        source = PostgresSource(replicating_server, TABLES)
        wait_until(lambda: not postgres.execute("SELECT active FROM pg_replication_slots").fetchone()[0])
        run(db, source)
        assert_equal(db, postgres)
        source.close()


def wait_until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)


def test_rows_committed_while_the_snapshot_is_read_come_once(replicating_server: str, postgres: Any) -> None:
    import psycopg

    postgres.execute(REMOTE)
    stop = threading.Event()

    def write() -> None:
        chance = random.Random(3)
        with psycopg.connect(replicating_server, autocommit=True) as connection:
            while not stop.is_set():
                random_transaction(chance, connection)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        time.sleep(0.2)
        with open_database() as db, following(db, PostgresSource(replicating_server, TABLES), interval=0.01):
            wait_until(lambda: "log" in positions(db, "viewlet"))
            first = positions(db, "viewlet")
            wait_until(lambda: positions(db, "viewlet") != first)
            stop.set()
            writer.join()
            postgres.execute("INSERT INTO notes VALUES (0, 'end')")
            wait_until(lambda: (0, "end") in db.table("remarks").rows())
            assert_equal(db, postgres)
    finally:
        stop.set()
        writer.join()


def test_truncate_empties_the_table(replicating_server: str, postgres: Any) -> None:
    postgres.execute(REMOTE)
    postgres.execute("INSERT INTO notes VALUES (1, 'a'), (1, 'a'), (2, NULL)")
    source = PostgresSource(replicating_server, TABLES)
    with open_database() as db:
        run(db, source)
        with postgres.transaction():
            postgres.execute("INSERT INTO notes VALUES (3, 'gone')")
            postgres.execute("TRUNCATE notes, items")
            postgres.execute("INSERT INTO notes VALUES (4, 'stays'), (1, 'a')")
        run(db, source)
        assert db.table("remarks").rows() == [(1, "a"), (4, "stays")]
        assert_equal(db, postgres)
        postgres.execute("TRUNCATE notes")
        run(db, source)
        assert db.table("remarks").rows() == []
        source.close()


def test_the_server_may_forget_only_what_is_committed_here(replicating_server: str, postgres: Any) -> None:
    postgres.execute(REMOTE)
    source = PostgresSource(replicating_server, TABLES)
    with open_database() as db:
        run(db, source)

        def confirmed() -> Any:
            return postgres.execute("SELECT confirmed_flush_lsn::text FROM pg_replication_slots").fetchone()[
                0
            ]

        start = confirmed()
        assert positions(db, "viewlet")["log"] == start
        postgres.execute("INSERT INTO notes VALUES (1, 'a')")
        batches = source.batches(db.catalog, positions(db, "viewlet"))
        batch = next(batches)
        assert confirmed() == start
        batches.close()
        assert run(db, source) == 1
        assert batch.changes["remarks"].to_pylist() == [{"item": 1, "body": "a", "_weight": 1}]
        assert db.table("remarks").rows() == [(1, "a")]
        wait_until(lambda: confirmed() == positions(db, "viewlet")["log"])
        source.close()


def test_two_databases_do_not_take_each_others_slot(replicating_server: str, postgres: Any) -> None:
    postgres.execute(REMOTE)
    source = PostgresSource(replicating_server, TABLES)
    with open_database() as db, open_database() as other:
        run(db, source)
        source.close()
        with pytest.raises(ConnectorError, match="did not make"):
            run(other, PostgresSource(replicating_server, TABLES))
        second = PostgresSource(replicating_server, TABLES, name="second")
        run(other, second)
        postgres.execute("INSERT INTO notes VALUES (1, 'a')")
        for database, own in ((db, source), (other, second)):
            run(database, own)
            assert_equal(database, postgres)
            own.close()


def test_a_broken_connection_is_an_error_and_the_next_run_goes_on(
    replicating_server: str, postgres: Any
) -> None:
    postgres.execute(REMOTE)
    source = PostgresSource(replicating_server, TABLES)
    with open_database() as db:
        run(db, source)
        postgres.execute("INSERT INTO notes VALUES (1, 'a')")
        run(db, source)
        postgres.execute("SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots")
        postgres.execute("INSERT INTO notes VALUES (2, 'b')")
        wait_until(lambda: not postgres.execute("SELECT active FROM pg_replication_slots").fetchone()[0])
        with pytest.raises(ConnectorError, match=r"broke|ended"):
            run(db, source)
        assert run(db, source) == 1
        assert_equal(db, postgres)
        source.close()


def test_a_lost_slot_is_reported_and_forgetting_starts_over(replicating_server: str, postgres: Any) -> None:
    postgres.execute(REMOTE)
    source = PostgresSource(replicating_server, TABLES)
    with open_database() as db:
        run(db, source)
        source.drop()
        with pytest.raises(ConnectorError, match="changes are lost"):
            run(db, source)
        forget(db, source.name)
        assert run(db, source) == 2
        source.close()


@pytest.mark.parametrize(
    ("prepare", "tables", "reason"),
    [
        ("CREATE TABLE t (item int, body text)", {"t": "remarks"}, "REPLICA IDENTITY FULL"),
        (
            "CREATE TABLE t (item int); ALTER TABLE t REPLICA IDENTITY FULL",
            {"t": "remarks"},
            "no column 'body'",
        ),
        ("", {"t": "remarks"}, "no table public.t"),
        ("", {"t": "nowhere"}, "nowhere"),
        (
            "CREATE TABLE t (item text, body text); ALTER TABLE t REPLICA IDENTITY FULL;"
            "INSERT INTO t VALUES ('x', 'y')",
            {"t": "remarks"},
            "does not fit table 'remarks'",
        ),
    ],
)
def test_what_cannot_be_followed_is_refused_at_once(
    replicating_server: str, postgres: Any, prepare: str, tables: dict[str, str], reason: str
) -> None:
    if prepare:
        postgres.execute(prepare)
    with open_database() as db:
        with pytest.raises(viewlet.errors.ViewletError, match=reason):
            run(db, PostgresSource(replicating_server, tables))
        assert positions(db, "viewlet").keys() == {"owner"} or reason == "nowhere"
    with pytest.raises(ConnectorError, match="cannot name a slot"):
        PostgresSource(replicating_server, tables, name="A slot")


@pytest.mark.parametrize(
    "message", [b"Z", b"C", b"I\0\0\0\1N\0\1t\0\0\0\5abc", b"I\0\0\0\1N\0\1z", b"D\0\0\0\1K"]
)
def test_broken_messages_are_refused(message: bytes) -> None:
    with pytest.raises(ConnectorError):
        decode(message)


TARGET = "CREATE TABLE totals (name text, price numeric, n bigint NOT NULL, PRIMARY KEY (name))"


def target_rows(postgres: Any) -> list[Any]:
    rows: list[Any] = postgres.execute(
        'SELECT name, price, n FROM totals ORDER BY name COLLATE "C"'
    ).fetchall()
    return rows


def test_a_view_is_mirrored_whatever_the_target_held(replicating_server: str, postgres: Any) -> None:
    postgres.execute(TARGET)
    postgres.execute("INSERT INTO totals VALUES ('stale', 1, 1), ('a', 0, 0)")
    chance = random.Random(1)
    with open_database() as db:
        rows = [(i, chance.choice("abcdef"), i, None, None, None, None, None) for i in range(40)]
        db.insert("items", rows)
        for _ in range(2):  # the second mirror finds a target that is right
            with mirror(db, "totals", PostgresSink(replicating_server, "totals", ["name"])) as copy:
                for _ in range(10):
                    gone = chance.sample(rows, 3)
                    db.delete("items", gone)
                    copy.flush()
                    assert target_rows(postgres) == db.view("totals").rows()
                    db.insert("items", gone)
                db.insert("items", [(99, "z", 5, None, None, None, None, None)])
            assert target_rows(postgres) == db.view("totals").rows()
        version = postgres.execute("SELECT version FROM viewlet_versions WHERE target = 'totals'").fetchone()
        assert version == (db.version,)


def test_a_slow_target_is_reconciled_when_too_much_waits(replicating_server: str, postgres: Any) -> None:
    postgres.execute(TARGET)
    inserted = threading.Event()

    class Slow(PostgresSink):
        replaced = 0

        def replace(self, rows: Any, version: int) -> None:
            Slow.replaced += 1
            assert inserted.wait(60)
            super().replace(rows, version)

    with open_database() as db:
        with mirror(db, "totals", Slow(replicating_server, "totals", ["name"]), most_waiting=20) as copy:
            for i in range(60):
                db.insert("items", [(i, f"n{i:02}", i, None, None, None, None, None)])
            inserted.set()
            copy.flush()
            assert target_rows(postgres) == db.view("totals").rows()
        assert Slow.replaced > 1


def test_a_target_that_refuses_is_reported_and_holds_up_nobody(
    replicating_server: str, postgres: Any
) -> None:
    with open_database() as db:
        sink = PostgresSink(replicating_server, "nowhere", ["name"])
        with pytest.raises(ConnectorError, match="nowhere"), mirror(db, "totals", sink):
            db.insert("items", [(1, "a", 1, None, None, None, None, None)])
        assert db.view("totals").rows()
    with pytest.raises(ConnectorError, match="key"):
        PostgresSink(replicating_server, "totals", [])


MIRROR = """
import sys, viewlet
from viewlet.connectors import PostgresSink, mirror
db = viewlet.connect(sys.argv[1], backend="reference", durability="off")
with mirror(db, "totals", PostgresSink(sys.argv[2], "totals", ["name"])) as copy:
    print("ready", flush=True)
    for i in range(100_000):
        db.insert("items", [(db.version, f"n{db.version % 17}", 1, None, None, None, None, None)])
        if i % 10 == 9:
            copy.flush()
            print("written", flush=True)
"""


def test_a_mirror_that_is_killed_leaves_whole_commits_and_goes_on(
    replicating_server: str, postgres: Any, tmp_path: Path
) -> None:
    chance = random.Random(2)
    postgres.execute(TARGET)
    path = tmp_path / "d.viewlet"
    open_database(path).close()
    for _ in range(3):
        with subprocess.Popen(
            [sys.executable, "-c", MIRROR, path, replicating_server], stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            for _ in range(chance.randrange(1, 6)):
                assert process.stdout.readline() == "written\n"
            time.sleep(chance.uniform(0, 0.02))
            process.send_signal(signal.SIGKILL)
        found = postgres.execute(
            "SELECT version, (SELECT sum(n) FROM totals) FROM viewlet_versions"
        ).fetchone()
        assert found[0] == found[1], "one row comes with each commit"
    with open_database(path) as db:
        with mirror(db, "totals", PostgresSink(replicating_server, "totals", ["name"])):
            pass
        assert target_rows(postgres) == db.view("totals").rows()
        assert len(db.table("items")) == db.version > 0


@pytest.mark.parametrize("batches", [[[1, 2]], [[1], [2]]], ids=["at once", "one after the other"])
def test_a_key_that_is_none_is_reported(
    replicating_server: str, postgres: Any, batches: list[list[int]]
) -> None:
    postgres.execute("CREATE TABLE copies (name text PRIMARY KEY, id int)")
    with open_database() as db:
        db.execute("CREATE MATERIALIZED VIEW names AS SELECT name, id FROM items")
        copy = Mirror(db, "names", PostgresSink(replicating_server, "copies", ["name"]), 100)
        copy.flush()
        for numbers in batches[:-1]:
            db.insert("items", [(number, "a", *[None] * 6) for number in numbers])
            copy.flush()
        db.insert("items", [(number, "a", *[None] * 6) for number in batches[-1]])
        with pytest.raises(ConnectorError, match=r"no key of the view|already exists"):
            copy.flush()
        with pytest.raises(ConnectorError):
            copy.close()
