"""The real psql, as people use it."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from decimal import Decimal

import pytest

from pgwire.served import Served

pytestmark = pytest.mark.skipif(shutil.which("psql") is None, reason="needs psql")


def psql(served: Served, *commands: str) -> subprocess.CompletedProcess[str]:
    flags = [part for command in commands for part in ("-c", command)]
    return subprocess.run(
        [
            "psql",
            "-X",
            "-A",
            "-h",
            "127.0.0.1",
            "-p",
            str(served.server.port),
            "-U",
            "ann",
            "-d",
            "market",
            *flags,
        ],
        capture_output=True,
        text=True,
        timeout=30,
        env={**os.environ, "PGCONNECT_TIMEOUT": "10"},
    )


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (r"\d", ["public|bids|table|ann", "public|brokers|view|ann", "(2 rows)"]),
        (r"\dt", ["public|bids|table|ann", "(1 row)"]),
        (r"\dv", ["public|brokers|view|ann", "(1 row)"]),
        (r"\dt+", ["public|bids|table|ann|permanent|heap||"]),
        (r"\di", ["public|bids_pkey|index|ann|bids"]),
        (r"\d bids", ["id|bigint||not null|", "price|numeric(10,2)||not null|"]),
        (r"\d bids", ['"bids_pkey" PRIMARY KEY, btree (id)', "at|timestamp without time zone|||"]),
        (r"\d+ brokers", ["View definition:", "total|numeric(20,2)||not null||extended|"]),
        (r"\d b*", ['Table "public.bids"', 'View "public.brokers"']),
        (r"\l", ["market|ann|UTF8|C|C||libc|"]),
        (r"\du", ["ann||{}"]),
        (r"\dn", ["public|ann"]),
        (r"\df", ["(0 rows)"]),
        (r"\dp", ["public|bids|table|||"]),
        (r"\dx", ["(0 rows)"]),
        (r"\conninfo", ['You are connected to database "market" as user "ann"']),
        ("SELECT * FROM brokers", ["broker|total|n", "|-1.25|1", "Ann|2.50|1", "(2 rows)"]),
        ("TABLE brokers", ["Ann|2.50|1"]),
        ("SELECT count(*), sum(total) FROM public.brokers", ["count|sum", "2|1.25"]),
        ("SELECT 1; SELECT 2", ["?column?", "1", "2"]),
        ("EXPLAIN brokers", ["brokers: REFRESH AUTO, reads bids"]),
        ("EXPLAIN SELECT sum(price) FROM bids", ["QUERY PLAN"]),
        ("SHOW server_version", ["15.0"]),
    ],
)
def test_commands(served: Served, command: str, expected: list[str]) -> None:
    done = psql(served, command)
    assert done.stderr == ""
    for line in expected:
        assert any(shown.strip().startswith(line) for shown in done.stdout.splitlines()), done.stdout


def test_errors_are_shown_and_counted(served: Served) -> None:
    done = psql(served, "SELECT * FROM nowhere")
    assert done.returncode == 1
    assert "there is no table or view 'nowhere'; existing: bids, brokers" in done.stderr


def test_changes_as_they_come(served: Served) -> None:
    command = ["psql", "-X", "-h", "127.0.0.1", "-p", str(served.server.port), "-U", "ann", "-d", "market"]
    with subprocess.Popen(
        [*command, "-c", "COPY (SUBSCRIBE brokers WITH (SNAPSHOT)) TO STDOUT"],
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        watchdog = threading.Timer(30, process.kill)
        watchdog.start()
        try:
            # psql holds lines back when it writes to a pipe: enough of them come through.
            stop = threading.Event()

            def write() -> None:
                number = 10
                while not stop.is_set():
                    number += 1
                    served.db.insert("bids", [(number, "busy", Decimal(1), None)])

            writer = threading.Thread(target=write)
            writer.start()
            assert process.stdout is not None
            lines = [process.stdout.readline() for _ in range(20)]
            stop.set()
            writer.join()
        finally:
            watchdog.cancel()
            process.kill()
    assert lines[0].startswith("\\N\t-1.25\t1\tinsert\t")
    assert [line.split("\t")[3] for line in lines[-2:]] in (["delete", "insert"], ["insert", "delete"])
