"""One writer, many readers; asyncio; forks."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import viewlet
from viewlet import aio
from viewlet.errors import BackendError, DataError


def test_readers_see_whole_batches(tmp_path: Path) -> None:
    """Money moves between two tables in every batch: whoever looks must find the same sum."""
    with viewlet.connect(tmp_path / "a.viewlet", durability="off", checkpoint_bytes=5_000) as db:
        db.execute("CREATE TABLE l (k BIGINT, v BIGINT); CREATE TABLE r (k BIGINT, v BIGINT)")
        db.execute(
            "CREATE MATERIALIZED VIEW total AS SELECT sum(v) AS v FROM "
            "(SELECT v FROM l UNION ALL SELECT v FROM r) AS both"
        )
        db.execute("CREATE MATERIALIZED VIEW left_side AS SELECT k, sum(v) AS v FROM l GROUP BY k")
        db.apply({"l": [(0, 1000)], "r": [(0, 0)]})
        stop, faults, looked = threading.Event(), [], []

        def read(how: Any) -> None:
            try:
                while not stop.is_set():
                    if (found := how()) != 1000:
                        faults.append(found)
                    looked.append(1)
            except BaseException as failure:
                faults.append(failure)

        both = "SELECT (SELECT sum(v) FROM l) + (SELECT sum(v) FROM r) AS v"
        readers = [
            threading.Thread(target=read, args=(how,))
            for how in (lambda: db.view("total").value, lambda: int(db.sql(both)["v"][0].as_py()))
            for _ in range(2)
        ]
        for reader in readers:
            reader.start()
        for k in range(1, 80):
            db.apply({"l": [(k, -k)], "r": [(k, k)]})
        stop.set()
        for reader in readers:
            reader.join()
        assert faults == []
        assert len(looked) > 4
        assert db.version == 80


def test_writers_queue_up(tmp_path: Path) -> None:
    with viewlet.connect(tmp_path / "a.viewlet", durability="off") as db:
        db.execute("CREATE TABLE r (a BIGINT); CREATE MATERIALIZED VIEW n AS SELECT count(*) AS n FROM r")
        versions: list[int] = []
        threads = [
            threading.Thread(target=lambda: versions.extend(db.insert("r", [(i,)]) for i in range(20)))
            for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(versions) == list(range(1, 81))
    with viewlet.connect(tmp_path / "a.viewlet") as db:
        assert db.view("n").value == 80


def test_a_subscriber_may_write_and_read() -> None:
    with viewlet.connect() as db:
        db.execute("CREATE TABLE r (a BIGINT); CREATE TABLE log (n BIGINT)")
        db.execute("CREATE MATERIALIZED VIEW n AS SELECT count(*) AS n FROM r")
        db.view("n").subscribe(lambda _: db.insert("log", [(db.view("n").value,)]))
        for i in range(3):
            db.insert("r", [(i,)])
        assert db.table("log").rows() == [(1,), (2,), (3,)]


# asyncio.


def test_asyncio(tmp_path: Path) -> None:
    async def work() -> None:
        async with await aio.connect(tmp_path / "a.viewlet", durability="off") as db:
            await db.execute("CREATE TABLE r (a BIGINT)")
            await db.execute("CREATE MATERIALIZED VIEW t AS SELECT sum(a) AS s FROM r")
            changes = await db.subscribe("t", weights=True)
            versions = await asyncio.gather(*(db.insert("r", [(i,)]) for i in range(10)))
            assert sorted(versions) == list(range(1, 11))
            assert await db.apply({"r": [(1,)]}, token="x") == await db.apply({"r": [(1,)]}, token="x") == 11
            assert await db.value("t") == 46
            assert await db.rows("t") == [(46,)]
            assert (await db.sql("SELECT count(*) AS n FROM r"))["n"].to_pylist() == [11]
            assert (await db.to_arrow("t")).to_pylist() == [{"s": 46}]
            assert "r" in await db.explain("t")
            assert (await db.stats()).version == 11
            await db.delete("r", [(9,)])
            with pytest.raises(DataError):
                await db.delete("r", [(9,)])
            await db.checkpoint()
            await db.compact()
            changes.close()
            seen: dict[Any, int] = {}
            async for change in changes:
                for row in change.to_pylist():
                    seen[row["s"]] = seen.get(row["s"], 0) + row["_weight"]
            assert {s: n for s, n in seen.items() if n} == {None: -1, 37: 1}

    asyncio.run(work())


def test_the_loop_goes_on_while_a_call_runs() -> None:
    async def work() -> int:
        ticks = 0
        async with await aio.connect() as db:
            held = threading.Event()
            db.database._lock.acquire()
            threading.Timer(0.2, held.set).start()
            waiting = asyncio.ensure_future(db.execute("CREATE TABLE r (a BIGINT)"))
            while not held.is_set():
                await asyncio.sleep(0.01)
                ticks += 1
            db.database._lock.release()
            await waiting
        return ticks

    assert asyncio.run(work()) > 3


# Forks.

FORKS = """
import os, sys, threading, viewlet
path = sys.argv[1]
db = viewlet.connect(path)
memory = viewlet.connect()
for each in (db, memory):
    each.execute("CREATE TABLE r (a BIGINT); CREATE MATERIALIZED VIEW n AS SELECT count(*) AS n FROM r")
    each.insert("r", [(1,)])
child = os.fork()
if child == 0:
    uses = [
        lambda d: d.view("n"), lambda d: d.insert("r", [(2,)]), lambda d: d.close(), lambda d: d.checkpoint()
    ]
    for each in (db, memory):
        for use in uses:
            try:
                use(each)
            except viewlet.errors.BackendError as reason:
                assert "a forked process must connect by itself" in str(reason), reason
            else:
                os._exit(3)
    try:
        viewlet.connect(path)
    except viewlet.errors.StorageError as reason:
        assert f"is open in process {os.getppid()}" in str(reason), reason
    else:
        os._exit(4)
    del db
    sys.exit(0)  # an orderly end, with everything that is collected then
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert os.path.getsize(path + "-log0") > 0, "the child moved the log into the file"
db.insert("r", [(3,)])
assert db.view("n").value == 2
sys.stdout.flush()
if sys.argv[2] == "killed":
    os.kill(os.getpid(), 9)
db.close()
"""


@pytest.mark.parametrize("end", ["closed", "killed"])
def test_a_forked_child_is_kept_out_and_harms_nobody(tmp_path: Path, end: str) -> None:
    path = tmp_path / "a.viewlet"
    command = [sys.executable, "-W", "error", "-c", FORKS, str(path), end]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == (-signal.SIGKILL if end == "killed" else 0), done.stderr
    with viewlet.connect(path) as db:
        assert db.table("r").rows() == [(1,), (3,)]


def test_a_closed_database_is_refused_in_threads() -> None:
    db = viewlet.connect()
    db.close()
    with pytest.raises(BackendError, match="closed"):
        db.execute("SELECT 1")
