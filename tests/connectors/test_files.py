"""Files into a database: exact values, whole records, and every record once however often it ends."""

from __future__ import annotations

import datetime as dt
import json
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import viewlet
from viewlet.connectors import Batch, ConnectorError, Files, following, forget, positions, run
from viewlet.errors import CatalogError
from viewlet.sql.catalog import Catalog

DDL = (
    "CREATE TABLE r (i BIGINT, d DECIMAL(20,3), f DOUBLE, b BOOLEAN, day DATE, at TIMESTAMP, s VARCHAR);"
    "CREATE MATERIALIZED VIEW n AS SELECT count(*) AS n, sum(d) AS d FROM r"
)
COLUMNS = ["i", "d", "f", "b", "day", "at", "s"]
TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\x00\r"), max_size=6) | st.sampled_from(
    ['"', '""', ",", "\n", 'a"\n,"b', "NULL", "", " ", "1"]
)
ROWS = st.tuples(
    st.none() | st.integers(-(2**63), 2**63 - 1),
    st.none() | st.decimals(-(10**16), 10**16, places=3),
    st.none() | st.floats(allow_nan=False, allow_infinity=False),
    st.none() | st.booleans(),
    st.none() | st.dates(dt.date(1900, 1, 1), dt.date(2100, 1, 1)),
    st.none() | st.datetimes(dt.datetime(1900, 1, 1), dt.datetime(2100, 1, 1)),
    st.none() | TEXTS,
)


def field(value: Any) -> str:
    match value:
        case None:
            return ""
        case bool():
            return str(value).lower()
        case str():
            return '"' + value.replace('"', '""') + '"'
        case float():
            return repr(value)
        case _:
            return str(value)


def as_csv(rows: list[tuple[Any, ...]]) -> str:
    return "".join(",".join(map(field, row)) + "\n" for row in rows)


def as_json(rows: list[tuple[Any, ...]]) -> str:
    lines = []
    for row in rows:
        parts = dict(zip(COLUMNS, row, strict=True))
        exact = parts.pop("d")
        text = json.dumps(parts, default=str)
        lines.append(text[:-1] + f', "d": {"null" if exact is None else exact}}}\n')
    return "".join(lines)


def open_database(path: Path | None = None) -> viewlet.Database:
    db = viewlet.connect(path, backend="reference")
    if "r" not in db.catalog:
        db.execute(DDL)
    return db


@settings(max_examples=40, deadline=None)
@given(
    rows=st.lists(ROWS, max_size=12), batch_bytes=st.integers(1, 400), form=st.sampled_from(["csv", "json"])
)
def test_every_value_arrives_as_it_was_whatever_the_batches(
    rows: list[tuple[Any, ...]], batch_bytes: int, form: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("files") / f"x.{form}"
    text = ",".join(COLUMNS) + "\n" + as_csv(rows) if form == "csv" else as_json(rows)
    path.write_text(text, encoding="utf-8", newline="")
    with open_database() as db:
        run(db, Files(path, "r", batch_bytes=batch_bytes))
        assert Counter(db.table("r").rows()) == Counter(rows)
        assert run(db, Files(path, "r", batch_bytes=batch_bytes)) == 0


class Ending:
    """A source that asks to be stopped after so many batches."""

    def __init__(self, source: Files, batches: int, stop: threading.Event) -> None:
        self.name, self._source, self._left, self._stop = source.name, source, batches, stop

    def batches(self, catalog: Catalog, positions: Mapping[str, str]) -> Iterator[Batch]:
        for batch in self._source.batches(catalog, positions):
            self._left -= 1
            if not self._left:
                self._stop.set()
            yield batch

    def close(self) -> None:
        self._source.close()


@pytest.mark.parametrize("form", ["csv", "json", "parquet"])
@pytest.mark.parametrize("seed", range(2))
def test_a_durable_database_that_is_reopened_after_any_batch_has_every_record_once(
    tmp_path: Path, form: str, seed: int
) -> None:
    chance = random.Random(seed)
    rows = [(i, Decimal(i) / 8, i / 3, i % 2 == 0, dt.date(2024, 1, 1), None, f"{i}") for i in range(200)]
    folder = tmp_path / "in"
    folder.mkdir()
    for number in range(4):
        part = rows[number * 50 : number * 50 + 50]
        path = folder / f"{number}.{form}"
        if form == "parquet":
            with open_database() as scratch:
                scratch.insert("r", part)
                pyarrow.parquet.write_table(scratch.table("r").to_arrow(), path, row_group_size=7)
        else:
            path.write_text(",".join(COLUMNS) + "\n" + as_csv(part) if form == "csv" else as_json(part))
    rounds = 0
    while True:
        with open_database(tmp_path / "d.viewlet") as db:
            stop = threading.Event()
            source = Ending(Files(folder, "r", batch_bytes=300, name="in"), chance.randrange(1, 9), stop)
            if not run(db, source, stop=stop):
                break
            rounds += 1
    assert rounds > 3
    with open_database(tmp_path / "d.viewlet") as db:
        assert Counter(db.table("r").rows()) == Counter(rows)
        assert db.view("n").rows() == [(200, sum((row[1] for row in rows), Decimal(0)))]
        assert len(positions(db, "in")) == 4
        forget(db, "in")
        assert positions(db, "in") == {}


def test_changes_come_as_words_or_weights(tmp_path: Path) -> None:
    with viewlet.connect(backend="reference") as db:
        db.execute("CREATE TABLE t (a BIGINT, s VARCHAR)")
        (tmp_path / "1.csv").write_text("a,s,_change_type\n1,x,insert\n2,y,insert\n")
        (tmp_path / "2.csv").write_text("S,A,_weight\nx,1,-1\ny,2,2\n")
        (tmp_path / "3.json").write_text(
            '{"a": 2, "s": "y", "_change_type": "delete"}\n\n{"a": 9, "_change_type": "insert"}\n'
        )
        assert run(db, Files(tmp_path, "t")) == 3
        assert db.table("t").rows() == [(2, "y"), (2, "y"), (9, None)]


def test_a_growing_file_is_read_by_whole_lines(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    source = Files(path, "t", growing=True)
    with viewlet.connect(backend="reference") as db:
        db.execute("CREATE TABLE t (a BIGINT, s VARCHAR)")
        for text, expected in [
            ("a,", []),
            ("s\n", []),
            ("1,x\n2", [(1, "x")]),
            ("3,y", [(1, "x")]),
            ('\n4,"two\n', [(1, "x"), (23, "y")]),
            ('lines"\n', [(1, "x"), (23, "y"), (4, "two\nlines")]),
        ]:
            with path.open("a") as file:
                file.write(text)
            run(db, source)
            assert Counter(db.table("t").rows()) == Counter(expected)
        path.write_text("a,s\n")
        with pytest.raises(ConnectorError, match="shorter"):
            run(db, source)


def test_new_files_are_followed(tmp_path: Path) -> None:
    with viewlet.connect(backend="reference") as db:
        db.execute("CREATE TABLE t (a BIGINT)")
        with following(db, Files(tmp_path, "t"), interval=0.01):
            for number in range(5):
                (tmp_path / "new").write_text(f"a\n{number}\n")
                (tmp_path / "new").rename(tmp_path / f"{9 - number}.csv")
                end = time.monotonic() + 20
                while len(db.table("t")) <= number:
                    assert time.monotonic() < end
                    time.sleep(0.01)
        assert db.table("t").rows() == [(number,) for number in range(5)]


def test_a_table_that_is_missing_is_named_with_the_tables_that_exist(tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_text("a\n1\n")
    with viewlet.connect(backend="reference") as db:
        db.execute("CREATE TABLE t (a BIGINT)")
        with pytest.raises(CatalogError, match=r"there is no table or view 'nix'; existing: t$"):
            run(db, Files(tmp_path, "nix"))
        assert list(db.catalog) == ["t"]


def test_a_failure_while_following_is_raised(tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_text("a\nx\n")
    with viewlet.connect(backend="reference") as db:
        db.execute("CREATE TABLE t (a BIGINT)")
        with (
            pytest.raises(ConnectorError, match=r"1.csv.*'x'"),
            following(db, Files(tmp_path, "t")) as thread,
        ):
            thread.join(20)
        assert positions(db, Files(tmp_path, "t").name) == {}


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("1.csv", "a\n1\nx\n", "'x'"),
        ("1.csv", "a,b\n1,2\n", "no column 'b'"),
        ("1.csv", "b\n1\n", "no column 'b'"),
        ("1.csv", "a\n1,2\n", "Expected 1 columns, got 2"),
        ("1.csv", "a\n99999999999999999999\n", "99999999999999999999"),
        ("1.json", '{"a": "x"}\n', "'x'"),
        ("1.json", '{"a": 1.5}\n', "1.5"),
        ("1.json", '{"a": true}\n', "True"),
        ("1.json", '{"a": [1]}\n', "does not fit"),
        ("1.json", '{"a": 1, "c": 2}\n', "no column 'c'"),
        ("1.json", "[1]\n", "one object per line"),
        ("1.json", '{"a": 1\n', "1.json"),
        ("1.parquet", "PAR1", "Parquet"),
    ],
)
def test_what_does_not_fit_is_refused_and_leaves_no_trace(
    tmp_path: Path, name: str, text: str, reason: str
) -> None:
    (tmp_path / name).write_text(text)
    with viewlet.connect(backend="reference") as db:
        db.execute("CREATE TABLE t (a BIGINT)")
        with pytest.raises(viewlet.errors.ViewletError, match=reason):
            run(db, Files(tmp_path, "t"))
        assert db.table("t").rows() == []
        assert positions(db, Files(tmp_path, "t").name) == {}


def test_a_file_that_was_changed_after_it_was_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "1.csv"
    path.write_text("a\n1\n")
    with viewlet.connect(backend="reference") as db:
        db.execute("CREATE TABLE t (a BIGINT)")
        run(db, Files(path, "t"))
        path.write_text("a\n1\n2\n")
        with pytest.raises(ConnectorError, match="growing=True"):
            run(db, Files(path, "t"))
    with pytest.raises(ConnectorError, match="no file or folder"):
        next(Files(tmp_path / "nowhere", "t").batches(db.catalog, {}))


FOLLOWER = """
import sys, viewlet
from viewlet.connectors import Files, run
class Telling(Files):
    def batches(self, catalog, positions):
        for batch in super().batches(catalog, positions):
            yield batch
            print("committed", flush=True)
            sys.stdin.readline()
db = viewlet.connect(sys.argv[1], backend="reference", durability="off")
db.execute("CREATE TABLE IF NOT EXISTS t (a BIGINT, s VARCHAR)")
run(db, Telling(sys.argv[2], "t", growing=True, batch_bytes=64, name="log"), follow=True, interval=0.005)
"""


def test_killed_followers_lose_nothing_and_count_nothing_twice(tmp_path: Path) -> None:
    log, path = tmp_path / "log.csv", tmp_path / "d.viewlet"
    chance = random.Random(5)
    log.write_text("a,s\n")
    written = 0
    for _ in range(3):
        with log.open("a") as file:
            for _ in range(100):
                file.write(f'{written},"row\n{written}"\n')
                written += 1
        with subprocess.Popen(
            [sys.executable, "-c", FOLLOWER, path, log],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            for _ in range(chance.randrange(1, 15)):
                assert process.stdout.readline() == "committed\n"
                process.stdin.write("on\n")
                process.stdin.flush()
            time.sleep(chance.uniform(0, 0.005))
            process.send_signal(signal.SIGKILL)
    with viewlet.connect(path, backend="reference") as db:
        before = len(db.table("t"))
        run(db, Files(log, "t", growing=True, name="log"))
        assert 0 < before < written
        assert db.table("t").rows() == [(i, f"row\n{i}") for i in range(written)]


def test_arrow_pandas_and_polars_need_no_connector(tmp_path: Path) -> None:
    table = pa.table({"a": [1, 2]})
    with viewlet.connect(backend="reference") as db:
        db.execute("CREATE TABLE t (a BIGINT)")
        for data in (table, table.to_pandas(), pytest.importorskip("polars").from_arrow(table)):
            db.insert("t", data)
        assert len(db.table("t")) == 6


def test_files_that_are_not_finished_are_passed_over(tmp_path: Path) -> None:
    """Spark writes below ``_temporary``, rsync to ``.name``; the name of the folder itself does not count."""
    folder = tmp_path / "_landing"
    (folder / "_temporary" / "0").mkdir(parents=True)
    for name in ("_temporary/0/part-0.csv", ".1.csv", "_2.csv"):
        (folder / name).write_text("half,a li")
    (folder / "3.csv").write_text("a\n1\n")
    with viewlet.connect(backend="reference") as db:
        db.execute("CREATE TABLE r (a BIGINT)")
        assert run(db, Files(folder, "r")) == 1
        assert db.table("r").rows() == [(1,)]
        (folder / ".1.csv").write_text("a\n2\n")
        (folder / ".1.csv").rename(folder / "1.csv")
        assert run(db, Files(folder, "r")) == 1
        assert db.table("r").rows() == [(1,), (2,)]
