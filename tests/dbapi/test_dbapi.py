"""PEP 249, and that values go through it unchanged."""

from __future__ import annotations

import datetime
import threading
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import viewlet
from viewlet import dbapi

VALUES = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.decimals(-(10**15), 10**15, places=6)
    | st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))
    | st.dates()
    | st.datetimes(datetime.datetime(1600, 1, 1), datetime.datetime(2600, 1, 1))
)


def opened(**options: Any) -> dbapi.Connection:
    connection = dbapi.connect(backend="reference", **options)
    connection.execute("CREATE TABLE bids (id BIGINT PRIMARY KEY, broker VARCHAR, price DECIMAL(8,2))")
    return connection


def test_the_module_is_what_pep_249_wants() -> None:
    assert (dbapi.apilevel, dbapi.threadsafety, dbapi.paramstyle) == ("2.0", 2, "qmark")
    for name in ("InterfaceError", "DatabaseError"):
        assert issubclass(getattr(dbapi, name), dbapi.Error)
    for name in ("Data", "Operational", "Integrity", "Internal", "Programming", "NotSupported"):
        kind = getattr(dbapi, f"{name}Error")
        assert issubclass(kind, dbapi.DatabaseError)
        assert getattr(dbapi.Connection, f"{name}Error") is kind
    assert dbapi.Date(2024, 2, 3) == datetime.date(2024, 2, 3)
    assert dbapi.Time(4, 5, 6) == datetime.time(4, 5, 6)
    assert dbapi.Timestamp(2024, 2, 3, 4, 5, 6) == datetime.datetime(2024, 2, 3, 4, 5, 6)
    moment = 1_700_000_000
    assert datetime.datetime.combine(dbapi.DateFromTicks(moment), dbapi.TimeFromTicks(moment)) == (
        dbapi.TimestampFromTicks(moment)
    )
    assert dbapi.Binary(b"x") == b"x"


@pytest.mark.parametrize("dialect", ["spark", "postgres", "duckdb"])
@settings(max_examples=25, deadline=None)
@given(values=st.lists(VALUES, min_size=1, max_size=6))
def test_values_come_back_as_they_went_in(dialect: str, values: list[Any]) -> None:
    with dbapi.connect(backend="reference", dialect=dialect) as connection:
        cursor = connection.execute("SELECT " + ", ".join("?" * len(values)), values)
        (row,) = cursor.fetchall()
    assert list(row) == values
    assert [type(value) for value in row] == [type(value) for value in values]


@settings(max_examples=15, deadline=None)
@given(texts=st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])), max_size=5))
def test_inserted_texts_come_back(texts: list[str]) -> None:
    with opened() as connection:
        for number, text in enumerate(texts):
            connection.execute("INSERT INTO bids VALUES (?, ?, ?)", (number, text, Decimal("1.5")))
        rows = connection.execute("SELECT broker FROM bids ORDER BY id").fetchall()
    assert rows == [(text,) for text in texts]


def test_fetching() -> None:
    with opened() as connection:
        cursor = connection.cursor()
        cursor.executemany("INSERT INTO bids VALUES (?, ?, ?)", [(n, None, Decimal(n)) for n in range(7)])
        assert (cursor.rowcount, cursor.description) == (7, None)
        with pytest.raises(dbapi.ProgrammingError, match="no rows"):
            cursor.fetchone()
        cursor.execute("SELECT id, broker, price FROM bids ORDER BY id")
        assert cursor.description == [
            ("id", dbapi.NUMBER, None, None, None, None, True),
            ("broker", dbapi.STRING, None, None, None, None, True),
            ("price", dbapi.NUMBER, None, None, 8, 2, True),
        ]
        assert (cursor.rowcount, cursor.rownumber) == (7, 0)
        assert cursor.fetchone() == (0, None, Decimal("0.00"))
        assert [row[0] for row in cursor.fetchmany()] == [1]
        cursor.arraysize = 2
        assert [row[0] for row in cursor.fetchmany()] == [2, 3]
        assert [row[0] for row in cursor] == [4, 5, 6]
        assert cursor.fetchone() is None
        assert cursor.fetchall() == cursor.fetchmany(3) == []
        assert cursor.nextset() is None
        assert cursor.execute("EXPLAIN SELECT SUM(price) AS s FROM bids").fetchone() is not None


def test_rows_that_a_statement_touched_are_counted() -> None:
    with opened() as connection:
        cursor = connection.cursor()
        cursor.execute("INSERT INTO bids VALUES (1, 'Ann', 2), (2, 'Bob', 3), (3, 'Ann', 4)")
        assert (cursor.rowcount, cursor.description) == (3, None)
        assert cursor.execute("INSERT INTO bids SELECT id + 10, broker, price FROM bids").rowcount == 3
        assert cursor.execute("UPDATE bids SET price = price WHERE broker = ?", ["Ann"]).rowcount == 4
        assert cursor.execute("DELETE FROM bids WHERE id > ?", [11]).rowcount == 2
        cursor.executemany("UPDATE bids SET price = ? WHERE broker = ?", [(5, "Ann"), (6, "Bob"), (7, "Eve")])
        assert cursor.rowcount == 4
        with pytest.raises(dbapi.DataError, match="would occur twice"):
            cursor.execute("UPDATE bids SET id = 1")
        with pytest.raises(dbapi.NotSupportedError, match="RETURNING"):
            cursor.executemany("INSERT INTO bids VALUES (?, ?, ?) RETURNING id", [(9, None, None)])
        cursor.execute("CREATE TABLE others (a INT)")
        assert cursor.rowcount == -1


def test_many_inserts_are_one_commit_and_all_or_nothing() -> None:
    with opened() as connection:
        before = connection.database.version
        rows = [(n, "x", Decimal(n)) for n in range(50)]
        connection.cursor().executemany("INSERT INTO bids (id, broker, price) VALUES (?, ?, ?)", rows)
        assert connection.database.version == before + 1
        with pytest.raises(dbapi.DataError):
            connection.cursor().executemany(
                "INSERT INTO bids VALUES (?, ?, ?)", [(99, "", None), (1, "", None)]
            )
        with pytest.raises(dbapi.ProgrammingError, match="row 1"):
            connection.cursor().executemany("INSERT INTO bids VALUES (?, ?, ?)", [(99, "y", None), (98,)])
        assert connection.execute("SELECT count(*) FROM bids").fetchone() == (50,)
        connection.cursor().executemany("DELETE FROM bids WHERE id = ?", [(1,), (2,)])
        assert connection.execute("SELECT count(*) FROM bids").fetchone() == (48,)
        connection.cursor().executemany("INSERT INTO bids VALUES (?, ?, ?)", [])


@pytest.mark.parametrize(
    ("statement", "parameters", "kind"),
    [
        ("SELEC 1", (), dbapi.ProgrammingError),
        ("SELECT * FROM nowhere", (), dbapi.ProgrammingError),
        ("INSERT INTO bids VALUES (", (), dbapi.ProgrammingError),
        ("SELECT ?", (), dbapi.ProgrammingError),
        ("SELECT 1", (1,), dbapi.ProgrammingError),
        ("SELECT ?", "1", dbapi.InterfaceError),
        ("SELECT ?", {"a": 1}, dbapi.InterfaceError),
        ("SELECT ?", (object(),), dbapi.NotSupportedError),
        ("SELECT ?", (Decimal("1e39"),), dbapi.DataError),
        ("SELECT ?", (datetime.datetime.now(datetime.UTC),), dbapi.NotSupportedError),
        ("INSERT INTO bids VALUES (?, ?, ?)", (1, "x", Decimal("1e7")), dbapi.DataError),
        (
            "CREATE MATERIALIZED VIEW v AS SELECT id, NTILE(2) OVER (ORDER BY price) AS n FROM bids",
            (),
            dbapi.NotSupportedError,
        ),
    ],
)
def test_errors_are_those_of_pep_249(statement: str, parameters: Any, kind: type[dbapi.Error]) -> None:
    with opened() as connection, pytest.raises(kind):
        connection.execute(statement, parameters)


def test_transactions_are_honest() -> None:
    with opened() as connection:
        connection.commit()
        connection.rollback()
        connection.execute("INSERT INTO bids VALUES (1, 'a', 1)")
        with pytest.raises(dbapi.NotSupportedError, match="stay"):
            connection.rollback()
        connection.commit()
        connection.rollback()


def test_closing() -> None:
    connection = opened()
    cursor = connection.cursor()
    cursor.close()
    with pytest.raises(dbapi.InterfaceError, match="cursor"):
        cursor.execute("SELECT 1")
    connection.close()
    connection.close()
    for call in connection.cursor, connection.commit, connection.rollback:
        with pytest.raises(dbapi.InterfaceError, match="connection"):
            call()
    with viewlet.connect(backend="reference") as db:
        with dbapi.connect(db) as borrowed:
            borrowed.execute("CREATE TABLE t (a BIGINT)")
        assert db.table("t").rows() == []
        with pytest.raises(dbapi.InterfaceError, match="backend"):
            dbapi.connect(db, backend="native")


def test_a_file_is_opened_by_its_path(tmp_path: Path) -> None:
    path = tmp_path / "market.viewlet"
    with opened_file(path) as connection:
        connection.execute("INSERT INTO bids VALUES (?, ?, ?)", (1, "a", Decimal("2.5")))
    with dbapi.connect(path, backend="reference") as connection:
        assert connection.execute("SELECT * FROM bids").fetchall() == [(1, "a", Decimal("2.50"))]
    path.write_bytes(b"nonsense")
    with pytest.raises(dbapi.OperationalError):
        dbapi.connect(path)


def opened_file(path: Path) -> dbapi.Connection:
    connection = dbapi.connect(path, backend="reference")
    connection.execute("CREATE TABLE bids (id BIGINT PRIMARY KEY, broker VARCHAR, price DECIMAL(8,2))")
    return connection


def test_times_go_into_tables() -> None:
    with dbapi.connect(backend="reference") as connection:
        connection.execute("CREATE TABLE t (day DATE, at TIMESTAMP)")
        row = (datetime.date(2024, 2, 3), datetime.datetime(2024, 2, 3, 4, 5, 6, 7))
        connection.execute("INSERT INTO t VALUES (?, ?)", row)
        assert connection.execute("SELECT * FROM t WHERE at = ?", (row[1],)).fetchall() == [row]


def test_threads_may_share_a_connection() -> None:
    with opened() as connection:

        def work(start: int) -> None:
            for number in range(start, start + 20):
                connection.execute("INSERT INTO bids VALUES (?, ?, ?)", (number, None, None))

        threads = [threading.Thread(target=work, args=(20 * n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert connection.execute("SELECT count(*) FROM bids").fetchone() == (80,)


def test_pandas_reads_through_it() -> None:
    pandas = pytest.importorskip("pandas", reason="needs pandas")
    with opened() as connection:
        connection.execute("INSERT INTO bids VALUES (1, 'a', 1)")
        with pytest.warns(UserWarning, match="SQLAlchemy"):
            frame = pandas.read_sql("SELECT id, broker FROM bids", connection)
    assert frame.to_dict("records") == [{"id": 1, "broker": "a"}]
