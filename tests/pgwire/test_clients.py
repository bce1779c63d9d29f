"""Psycopg, asyncpg and SQLAlchemy read what the database holds."""

from __future__ import annotations

import asyncio
import csv
import datetime
import io
import threading
import time
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import viewlet
from pgwire.served import Served, serving
from viewlet.pgwire.parameters import literal_of
from viewlet.pgwire.types import DATE

psycopg = pytest.importorskip("psycopg", reason="needs psycopg")

ENDLESS = "SELECT count(*) FROM range(100000) a(x), range(100000) b(y), range(1000) c(z) WHERE x + y + z = 7"

TABLE = (
    "CREATE TABLE r (k BIGINT, b BOOLEAN, i INT, s SMALLINT, d DOUBLE, m DECIMAL(30,7), v VARCHAR, "
    "day DATE, at TIMESTAMP)"
)
ROWS = st.lists(
    st.tuples(
        st.integers(-(2**63), 2**63 - 1),
        st.none() | st.booleans(),
        st.none() | st.integers(-(2**31), 2**31 - 1),
        st.none() | st.integers(-(2**15), 2**15 - 1),
        st.none() | st.floats(allow_nan=False, allow_infinity=False),
        st.none() | st.decimals(-(10**22), 10**22, places=7),
        st.none() | st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])),
        st.none() | st.dates(datetime.date(1600, 1, 1), datetime.date(2600, 1, 1)),
        st.none() | st.datetimes(datetime.datetime(1600, 1, 1), datetime.datetime(2600, 1, 1)),
    ),
    max_size=8,
)


@pytest.fixture(scope="module")
def typed() -> Any:
    with viewlet.connect(backend="reference") as db, serving(db) as running:
        db.execute(TABLE)
        yield running


@settings(max_examples=25, deadline=None)
@given(rows=ROWS, binary=st.booleans())
def test_every_type_arrives_as_it_is(typed: Served, rows: list[tuple[Any, ...]], binary: bool) -> None:
    for row in typed.db.table("r").rows():
        typed.db.delete("r", [row])
    typed.db.insert("r", rows)
    with psycopg.connect(typed.dsn) as connection:
        got = connection.cursor(binary=binary).execute("SELECT * FROM r").fetchall()
    assert got == typed.db.table("r").rows()


@settings(max_examples=25, deadline=None)
@given(row=ROWS.filter(bool).map(lambda rows: rows[0]), binary=st.booleans())
@example(row=(0, *[None] * 4, Decimal("1000000000000000000000.0000001"), *[None] * 3), binary=False)
def test_every_type_goes_in_as_a_parameter(typed: Served, row: tuple[Any, ...], binary: bool) -> None:
    place = "%b" if binary else "%t"
    casts = [
        "bigint",
        "boolean",
        "int",
        "smallint",
        "double precision",
        "numeric",
        "text",
        "date",
        "timestamp",
    ]
    query = "SELECT " + ", ".join(f"{place}::{cast}" for cast in casts)
    with psycopg.connect(typed.dsn) as connection:
        (got,) = connection.execute(query, row).fetchall()
    assert got == row


def test_a_parameter_is_a_value_whatever_it_says(served: Served) -> None:
    with psycopg.connect(served.dsn) as connection:
        for hostile in "'; DROP TABLE bids; --", "\\", "$1", "%s", '"', "a''b", "/*":
            assert connection.execute("SELECT %s", (hostile,)).fetchone() == (hostile,)
            found = connection.execute("SELECT * FROM bids WHERE broker = %s", (hostile,)).fetchall()
            assert found == []


def test_reads_see_each_commit(served: Served) -> None:
    with psycopg.connect(served.dsn, autocommit=True) as connection:
        for number in range(10, 15):
            served.db.insert("bids", [(number, "Eve", Decimal(1), None)])
            query = "SELECT n FROM brokers WHERE broker = %s"
            assert connection.execute(query, ("Eve",)).fetchone() == (number - 9,)


def test_reads_see_each_definition(served: Served) -> None:
    with psycopg.connect(served.dsn, autocommit=True) as connection:
        for number in range(3):
            query = f"SELECT {number} AS n, max(price) AS p FROM bids"
            served.db.execute(f"CREATE OR REPLACE MATERIALIZED VIEW best AS {query}")
            for _ in range(2):
                assert connection.execute("SELECT n FROM best").fetchone() == (number,)


def test_tables_of_one_query_are_of_one_commit(served: Served) -> None:
    served.db.execute("CREATE TABLE mirror (id BIGINT)")
    stop = threading.Event()

    def write() -> None:
        number = 1000
        while not stop.is_set():
            number += 1
            served.db.apply({"bids": [(number, "x", Decimal(1), None)], "mirror": [(number,)]})

    writer = threading.Thread(target=write)
    writer.start()
    try:
        with psycopg.connect(served.dsn, autocommit=True) as connection:
            for _ in range(8):
                query = "SELECT (SELECT max(id) FROM bids), (SELECT max(id) FROM mirror)"
                left, right = connection.execute(query).fetchone()  # type: ignore[misc]
                assert left == right or right is None
    finally:
        stop.set()
        writer.join()


@pytest.mark.parametrize(
    ("statement", "state"),
    [
        ("SELEC 1", "42601"),
        ("SELECT 1 +", "42601"),
        ("SELECT * FROM nowhere", "42P01"),
        ("SELECT * FROM other.brokers", "3F000"),
        ("SELECT nothing FROM brokers", "42703"),
        ("SELECT nofunction(1)", "42883"),
        ("SELECT CAST('x' AS int)", "22P02"),
        ("INSERT INTO bids VALUES (9)", "25006"),
        ("DROP TABLE bids", "25006"),
        ("CREATE TABLE t (a int)", "25006"),
        ("COPY bids FROM STDIN", "0A000"),
        ("SHOW nothing", "42704"),
        ("SET client_encoding TO latin1", "22023"),
        ("SELECT * FROM read_csv('/etc/passwd')", "42501"),
        pytest.param("SELECT " + "(" * 3000 + "1" + ")" * 3000, "0A000", id="nested"),
        ("SUBSCRIBE nowhere", "42P01"),
        ("SUBSCRIBE bids", "42809"),
        ("FETCH 1 FROM nowhere", "34000"),
    ],
)
def test_errors_carry_their_sqlstate(served: Served, statement: str, state: str) -> None:
    with psycopg.connect(served.dsn, autocommit=True) as connection:
        with pytest.raises(psycopg.Error) as simple:
            connection.execute(statement)
        with pytest.raises(psycopg.Error) as extended:
            connection.execute(statement, prepare=True)
        assert simple.value.sqlstate == extended.value.sqlstate == state
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_a_failed_transaction_refuses_until_its_end(served: Served) -> None:
    with psycopg.connect(served.dsn) as connection:
        with pytest.raises(psycopg.errors.UndefinedTable):
            connection.execute("SELECT * FROM nowhere")
        with pytest.raises(psycopg.errors.InFailedSqlTransaction):
            connection.execute("SELECT 1")
        connection.rollback()
        assert connection.execute("SELECT 1").fetchone() == (1,)
        with connection.transaction(), pytest.raises(psycopg.errors.UndefinedTable), connection.transaction():
            connection.execute("SELECT * FROM nowhere")
        assert connection.execute("SELECT 2").fetchone() == (2,)


def test_pipelines_and_cursors(served: Served) -> None:
    with psycopg.connect(served.dsn) as connection:
        with connection.pipeline():
            cursors = [connection.execute("SELECT %s::int * 2", (n,)) for n in range(20)]
            assert [cursor.fetchone() for cursor in cursors] == [(2 * n,) for n in range(20)]
        with connection.cursor("named") as cursor:
            cursor.execute("SELECT x FROM generate_series(1, 5000) t(x)")
            assert cursor.fetchmany(2) == [(1,), (2,)]
            assert cursor.fetchall() == [(n,) for n in range(3, 5001)]


def test_copy_gives_lines(served: Served) -> None:
    served.db.insert("bids", [(3, "tab\there\\", Decimal(0), None)])
    with psycopg.connect(served.dsn) as connection:
        with connection.cursor().copy("COPY (SELECT id, broker FROM bids) TO STDOUT") as copy:
            assert list(copy.rows()) == [("1", "Ann"), ("2", None), ("3", "tab\there\\")]
        with connection.cursor().copy("COPY brokers TO STDOUT") as copy:
            assert len(list(copy.rows())) == 3
        with pytest.raises(psycopg.errors.FeatureNotSupported, match="DELIMITER"):
            connection.cursor().copy("COPY brokers TO STDOUT WITH (FORMAT csv, DELIMITER ';')").__enter__()


@settings(max_examples=20, deadline=None)
@given(texts=st.lists(st.none() | st.text(st.sampled_from('a,"\n\r\\. ')), min_size=1, max_size=5))
def test_copied_csv_is_read_as_it_was(typed: Served, texts: list[str | None]) -> None:
    for row in typed.db.table("r").rows():
        typed.db.delete("r", [row])
    blank = dict.fromkeys(typed.db.catalog["r"].column_names)
    typed.db.insert("r", [{**blank, "k": number, "v": text} for number, text in enumerate(texts)])
    for options in "CSV HEADER", "WITH (FORMAT csv, HEADER true)":
        query = f"COPY (SELECT k, v FROM r ORDER BY k) TO STDOUT {options}"
        with psycopg.connect(typed.dsn) as connection, connection.cursor().copy(query) as copy:
            head, body = b"".join(map(bytes, copy)).decode().split("\n", 1)
        assert head == "k,v"
        read = list(csv.reader(io.StringIO(body, newline=""), strict=True))
        assert read == [[str(number), text or ""] for number, text in enumerate(texts)]
        quoted = [line for line in body.split("\n") if line.endswith(',""')]
        assert len(quoted) >= texts.count(""), "an empty text is not NULL"


def _seconds(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def test_cancel_ends_a_query_and_the_connection_lives(served: Served) -> None:
    with psycopg.connect(served.dsn, autocommit=True) as connection:
        timer = threading.Timer(0.3, connection.cancel_safe)
        timer.start()
        with pytest.raises(psycopg.errors.QueryCanceled):
            connection.execute(ENDLESS)
        timer.join()
        assert _seconds(lambda: connection.execute("SELECT 1")) < 5
        connection.execute("SET statement_timeout TO '200ms'")
        with pytest.raises(psycopg.errors.QueryCanceled, match="statement_timeout"):
            connection.execute(ENDLESS)


def test_many_clients_at_once(served: Served) -> None:
    answers: list[object] = []

    def work(number: int) -> None:
        with psycopg.connect(served.dsn, autocommit=True) as connection:
            for _ in range(3):
                answers.append(connection.execute("SELECT %s::int", (number,)).fetchone() == (number,))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [True] * 36


def test_asyncpg_reads_and_infers_parameters(served: Served) -> None:
    asyncpg = pytest.importorskip("asyncpg", reason="needs asyncpg")

    async def talk() -> None:
        connection = await asyncpg.connect(f"postgresql://{served.url}")
        query = "SELECT id, price FROM bids WHERE price BETWEEN $1 AND $2 AND id = $3"
        rows = await connection.fetch(query, Decimal(2), Decimal(3), 1)
        assert [tuple(row) for row in rows] == [(1, Decimal("2.50"))]
        async with connection.transaction():
            cursor = connection.cursor("SELECT x FROM generate_series(1, 120) t(x)", prefetch=50)
            assert [row["x"] async for row in cursor] == list(range(1, 121))
        with pytest.raises(asyncpg.UndefinedTableError):
            await connection.fetch("SELECT * FROM nowhere")
        with pytest.raises(asyncio.TimeoutError):
            await connection.fetch(ENDLESS, timeout=0.3)
        assert await connection.fetchval("SELECT 7") == 7
        await connection.close()

    asyncio.run(talk())


def test_a_pool_of_asyncpg_takes_its_connections_back(served: Served) -> None:
    asyncpg = pytest.importorskip("asyncpg", reason="needs asyncpg")

    async def talk() -> None:
        async with asyncpg.create_pool(f"postgresql://{served.url}", min_size=1, max_size=1) as pool:
            for _ in range(3):
                assert await pool.fetchval("SELECT count(*) FROM bids") == 2

    asyncio.run(talk())


def test_sqlalchemy_reflects_and_reads(served: Served) -> None:
    sa = pytest.importorskip("sqlalchemy", reason="needs SQLAlchemy")
    engine = sa.create_engine(f"postgresql+psycopg://{served.url}")
    inspector = sa.inspect(engine)
    assert inspector.get_table_names() == ["bids"]
    assert inspector.get_view_names() == ["brokers"]
    assert inspector.get_pk_constraint("bids")["constrained_columns"] == ["id"]
    assert inspector.get_foreign_keys("bids") == inspector.get_indexes("bids") == []
    kinds = {column["name"]: str(column["type"]) for column in inspector.get_columns("bids")}
    assert kinds == {"id": "BIGINT", "broker": "TEXT", "price": "NUMERIC(10, 2)", "at": "TIMESTAMP"}
    bids = sa.Table("bids", sa.MetaData(), autoload_with=engine)
    with engine.connect() as connection:
        query = sa.select(sa.func.count(), sa.func.max(bids.c.price)).where(bids.c.id < 3)
        assert connection.execute(query).fetchall() == [(2, Decimal("2.50"))]
    engine.dispose()


ARRAYS: list[tuple[str, st.SearchStrategy[Any]]] = [
    ("bigint", st.integers(-(2**63), 2**63 - 1)),
    ("text", st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))),
    ("numeric", st.decimals(-(10**12), 10**12, places=7)),
    ("double precision", st.floats(allow_nan=False, allow_infinity=False)),
    ("date", st.dates(datetime.date(1600, 1, 1), datetime.date(2600, 1, 1))),
    ("boolean", st.booleans()),
]


@settings(max_examples=60, deadline=None)
@given(data=st.data(), binary=st.booleans())
def test_arrays_go_in_and_come_back(typed: Served, data: st.DataObject, binary: bool) -> None:
    name, items = data.draw(st.sampled_from(ARRAYS))
    array = data.draw(st.lists(st.none() | items, max_size=5))
    place = "%b" if binary else "%t"
    with psycopg.connect(typed.dsn) as connection:
        (got,) = connection.cursor(binary=binary).execute(f"SELECT {place}::{name}[]", (array,)).fetchone()
    assert got == array


def test_any_takes_a_list(served: Served) -> None:
    """As drivers write ``IN`` with a list: psycopg says its type, asyncpg asks for it, pgJDBC sends text."""
    with psycopg.connect(served.dsn) as connection:
        for query, values in (
            ("SELECT id FROM bids WHERE id = ANY(%s)", [2, 3]),
            ("SELECT id FROM bids WHERE coalesce(broker, '') <> ALL(%s)", ["Ann"]),
            ("SELECT id FROM bids WHERE id = ANY('{2, 3}')", None),
            ("""SELECT id FROM bids WHERE coalesce(broker, 'NULL') = ANY('{"NULL", "a, b"}')""", None),
        ):
            found = connection.execute(query, values and (values,)).fetchall()
            assert found == [(2,)], query
        with pytest.raises(psycopg.Error, match="malformed array literal") as refused:
            connection.execute("SELECT id FROM bids WHERE id = ANY('2, 3')")
        assert refused.value.sqlstate == "22P02"


def test_asyncpg_learns_that_any_takes_a_list(served: Served) -> None:
    asyncpg = pytest.importorskip("asyncpg")

    async def body() -> list[Any]:
        connection = await asyncpg.connect(f"postgresql://{served.url}", ssl=False)
        try:
            ids = await connection.fetch("SELECT id FROM bids WHERE id = ANY($1)", [2, 3])
            names = await connection.fetch(
                "SELECT id FROM bids WHERE broker = ANY($1::text[])", ["Ann", None]
            )
            return [ids[0]["id"], names[0]["id"]]
        finally:
            await connection.close()

    assert asyncio.run(body()) == [2, 1]


@pytest.mark.parametrize("sent", [b"2026-01-31 +00", b"2026-01-31 00:00:00+00", b"2026-01-31"])
def test_a_date_may_have_a_zone_behind_it(sent: bytes) -> None:
    """pgJDBC sends ``setDate`` and ``setTimestamp`` as text of no type, with a zone."""
    assert literal_of(DATE, sent, binary=False).sql("duckdb") == "CAST('2026-01-31' AS DATE)"


@pytest.mark.parametrize(
    ("expression", "name"),
    [
        ("now()", "now"),
        ("current_timestamp", "current_timestamp"),
        ("date_trunc('hour', at)", "date_trunc"),
        ("count(*) FILTER (WHERE id > 1)", "count"),
        ("to_char(at, 'YYYY')", "to_char"),
        ("to_timestamp(0)", "to_timestamp"),
        ("extract(year FROM at)", "extract"),
        ("at AT TIME ZONE 'UTC'", "timezone"),
        ("count(*)", "count"),
        ("price::int", "price"),
    ],
)
def test_columns_have_the_names_that_postgresql_gives(served: Served, expression: str, name: str) -> None:
    with psycopg.connect(served.dsn) as connection:
        group = " GROUP BY at, price" if "count" not in expression else ""
        cursor = connection.execute(f"SELECT {expression} FROM bids{group}")
        assert [column.name for column in cursor.description] == [name]


def test_whole_numbers_are_divided_as_in_postgresql(served: Served) -> None:
    with psycopg.connect(served.dsn, autocommit=True) as connection:
        query = (
            "SELECT 7 / 2, -7 / 2, 7.5 / 2, id / 2 AS h, CAST(id AS BIGINT) * 7 / 2 FROM bids WHERE id = 1"
        )
        assert connection.execute(query).fetchone() == (3, -3, 3.75, 0, 3)
        for zero in ("1 / 0", "1.5 / 0", "id / (id - id)"):
            with pytest.raises(psycopg.Error, match=r"[Dd]ivision by zero"):
                connection.execute(f"SELECT {zero} FROM bids")
