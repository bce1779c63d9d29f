"""The protocol itself, byte by byte, and clients that do not keep to it."""

from __future__ import annotations

import contextlib
import random
import re
import resource
import socket
import struct
from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgwire.served import Served, market, serving
from viewlet.errors import ViewletError
from viewlet.pgwire.described import Described
from viewlet.pgwire.errors import FatalError
from viewlet.pgwire.messages import read_first, read_message
from viewlet.pgwire.prepared import prepare
from viewlet.pgwire.reader import statement_of
from viewlet.pgwire.statements import Read
from viewlet.pgwire.to_duckdb import to_duckdb
from viewlet.sql.catalog import Catalog

LETTERS = b"QPBDECSHXpdcf"


class Client:
    """A client that sends what it is told to."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=10)

    def begin(self) -> Client:
        body = struct.pack("!i", 196608) + b"user\0ann\0database\0market\0\0"
        self.raw(struct.pack("!i", len(body) + 4) + body)
        assert self.until(b"Z")[-1] == (b"Z", b"I")
        return self

    def raw(self, data: bytes) -> None:
        self.socket.sendall(data)

    def send(self, letter: bytes, body: bytes = b"") -> None:
        self.raw(letter + struct.pack("!i", len(body) + 4) + body)

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            part = self.socket.recv(size - len(data))
            if not part:
                raise ConnectionError("the server has hung up")
            data += part
        return data

    def receive(self) -> tuple[bytes, bytes]:
        head = self._exactly(5)
        return head[:1], self._exactly(struct.unpack("!i", head[1:])[0] - 4)

    def until(self, letter: bytes) -> list[tuple[bytes, bytes]]:
        received = [self.receive()]
        while received[-1][0] != letter:
            received.append(self.receive())
        return received

    def letters(self) -> bytes:
        return b"".join(letter for letter, _ in self.until(b"Z"))

    def prepare(self, sql: str, name: str = "") -> None:
        self.send(b"P", f"{name}\0{sql}\0".encode() + b"\0\0")

    def bind(self, portal: str = "", statement: str = "") -> None:
        self.send(b"B", f"{portal}\0{statement}\0".encode() + b"\0\0\0\0\0\0")

    def execute(self, portal: str = "", limit: int = 0) -> None:
        self.send(b"E", f"{portal}\0".encode() + struct.pack("!i", limit))


@pytest.fixture
def client(served: Served) -> Iterator[Client]:
    connected = Client(served.server.port).begin()
    with connected.socket:
        yield connected


def test_simple_queries(client: Client) -> None:
    for sql, letters in [
        ("SELECT 1", b"TDCZ"),
        ("", b"IZ"),
        (" ; -- nothing", b"IZ"),
        ("SELECT 1; SELECT * FROM nowhere; SELECT 2", b"TDCEZ"),
        ("BEGIN; SELECT 1; COMMIT", b"CTDCCZ"),
        ("SET application_name = 'x'", b"SCZ"),
        ("COPY bids TO STDOUT", b"HddcCZ"),
        ("SELECT ';' AS \";\"", b"TDCZ"),
    ]:
        client.send(b"Q", sql.encode() + b"\0")
        assert client.letters() == letters, sql


def test_a_portal_gives_its_rows_in_parts(client: Client) -> None:
    client.send(b"Q", b"BEGIN\0")
    client.letters()
    client.prepare("SELECT x FROM generate_series(1, 7) t(x)", "s")
    client.bind("p", "s")
    client.send(b"D", b"Pp\0")
    for limit in 3, 3, 3:
        client.execute("p", limit)
    client.send(b"S")
    assert client.letters() == b"12TDDDsDDDsDCZ"
    client.execute("p", 1)
    client.send(b"S")
    assert client.letters() == b"CZ"


def test_portals_end_with_their_transaction(client: Client) -> None:
    client.prepare("SELECT 1", "s")
    client.bind("p", "s")
    client.send(b"S")
    assert client.letters() == b"12Z"
    client.execute("p")
    client.send(b"S")
    assert client.letters() == b"EZ"


def test_an_error_silences_until_sync(client: Client) -> None:
    client.prepare("SELECT * FROM nowhere")
    client.bind()
    client.execute()
    client.execute()
    client.prepare("SELECT 1", "never")
    client.send(b"S")
    assert client.letters() == b"12EZ"
    client.send(b"D", b"Snever\0")
    client.send(b"S")
    assert client.letters() == b"EZ"


def test_description_of_a_statement(client: Client) -> None:
    client.prepare("SELECT id, price FROM bids WHERE price < $1 AND id = $2", "s")
    client.send(b"D", b"Ss\0")
    client.send(b"S")
    received = client.until(b"Z")
    assert [letter for letter, _ in received] == [b"1", b"t", b"T", b"Z"]
    assert received[1][1] == struct.pack("!HII", 2, 1700, 20)
    assert received[2][1].startswith(b"\0\2id\0")


def test_statements_are_bounded(client: Client) -> None:
    text = "SELECT '" + "x" * 900_000 + "'"
    for number in range(12):
        client.prepare(text, f"s{number}")
    client.send(b"S")
    received = client.until(b"Z")
    assert [letter for letter, _ in received][-2:] == [b"E", b"Z"]
    assert b"C53400" in received[-2][1]
    client.send(b"Q", b"SELECT '" + b"x" * 1_100_000 + b"'\0")
    assert client.letters() == b"EZ"


def test_protocol_versions_are_negotiated(served: Served) -> None:
    client = Client(served.server.port)
    body = struct.pack("!i", 196610) + b"user\0ann\0_pq_.shiny\0yes\0\0"
    client.raw(struct.pack("!i", len(body) + 4) + body)
    letter, answer = client.receive()
    assert letter == b"v"
    assert answer == struct.pack("!ii", 0, 1) + b"_pq_.shiny\0"
    client.until(b"Z")
    client.socket.close()


def test_connections_are_bounded() -> None:
    with market() as db, serving(db, max_connections=3) as served:
        clients = [Client(served.server.port).begin() for _ in range(3)]
        late = Client(served.server.port)
        letter, body = late.receive()
        assert letter == b"E"
        assert b"C53300" in body
        for client in [*clients, late]:
            client.socket.close()


def _hostile(draw: random.Random) -> bytes:
    """A message that is wrong in some way, or a right one at the wrong time."""
    letter = bytes([draw.choice(LETTERS) if draw.random() < 0.8 else draw.randrange(256)])
    body = draw.choice(
        [
            draw.randbytes(draw.randrange(60)),
            b"SELECT " + draw.randbytes(10).replace(b"\0", b"") + b"\0",
            b"s\0SELECT $1\0" + struct.pack("!H", draw.randrange(4)) + draw.randbytes(8),
            b"\0\0"
            + struct.pack("!HHi", draw.randrange(3), draw.randrange(3), draw.randrange(-5, 2**31 - 1)),
            b"S\0",
            b"P" + draw.randbytes(3) + b"\0",
            b"",
        ]
    )
    size = draw.choice([len(body) + 4] * 6 + [0, 3, 2**31 - 1, len(body) + 50])
    return letter + struct.pack("!I", size) + body


@pytest.mark.parametrize("seed", range(60))
def test_hostile_messages_end_nobody_elses_session(served: Served, seed: int) -> None:
    draw = random.Random(seed)
    hostile = Client(served.server.port)
    hostile.socket.settimeout(0.3)
    with contextlib.suppress(ConnectionError, TimeoutError):
        if draw.random() < 0.8:
            hostile.begin()
        for _ in range(20):
            hostile.raw(_hostile(draw))
        hostile.send(b"S")
        while True:
            hostile.receive()
    polite = Client(served.server.port).begin()
    polite.send(b"Q", b"SELECT n FROM brokers\0")
    assert polite.letters() == b"TDDCZ"
    polite.socket.close()
    hostile.socket.close()


def test_announced_sizes_take_no_memory(served: Served) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    clients = [Client(served.server.port).begin() for _ in range(10)]
    for client in clients:
        client.raw(b"Q" + struct.pack("!I", 2**31 - 1) + b"x" * 1000)
        assert client.receive()[0] == b"E"
        client.socket.close()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # kilobytes


@settings(max_examples=300, deadline=None)
@given(
    letter=st.binary(min_size=1, max_size=1) | st.sampled_from([bytes([x]) for x in LETTERS]),
    body=st.binary(),
)
def test_reading_a_message_gives_one_or_refuses(letter: bytes, body: bytes) -> None:
    for read, arguments in (read_message, (letter, body)), (read_first, (body,)):
        with contextlib.suppress(FatalError):
            assert read(*arguments) is not None  # type: ignore[operator]


SCRAPS = """SELECT FROM WHERE bids brokers id price * , ( ) = ~ !~ 'x' '{1}' $1 $2 :: regclass oid ANY ARRAY
[ ] CASE WHEN THEN END AND OR NOT NULL 1 2.5 COUNT pg_catalog . pg_class GROUP BY ORDER LIMIT SUBSCRIBE COPY
TO STDOUT EXPLAIN SHOW SET FETCH DECLARE c CURSOR FOR WITH AS JOIN ON UNION ALL VALUES OPERATOR COLLATE " ;"""


@settings(max_examples=400, deadline=None)
@given(words=st.lists(st.sampled_from(re.split(r"\s+", SCRAPS)), max_size=14))
def test_any_text_is_a_statement_or_refused(words: list[str]) -> None:
    described = Described(Catalog(), {}, "ann", "market", {})
    with contextlib.suppress(ViewletError):
        statement = statement_of(" ".join(words))
        if isinstance(statement, Read):
            bound = prepare(" ".join(words), [], Catalog()).without_values()
            assert isinstance(bound, Read)
            assert to_duckdb(bound.query, described).text


BI_QUERIES: Sequence[tuple[str, int]] = [
    # In the manner of JDBC's metadata.
    (
        "SELECT NULL AS TABLE_CAT, n.nspname AS TABLE_SCHEM, c.relname AS TABLE_NAME, "
        "CASE n.nspname ~ '^pg_' OR n.nspname = 'information_schema' WHEN true THEN 'SYSTEM' WHEN false THEN "
        "CASE c.relkind WHEN 'r' THEN 'TABLE' WHEN 'v' THEN 'VIEW' ELSE NULL END END AS TABLE_TYPE, "
        "d.description AS REMARKS FROM pg_catalog.pg_namespace n, pg_catalog.pg_class c "
        "LEFT JOIN pg_catalog.pg_description d ON (c.oid = d.objoid AND d.objsubid = 0 "
        "AND d.classoid = 'pg_class'::regclass) "
        "WHERE c.relnamespace = n.oid AND c.relname LIKE '%' AND c.relkind IN ('r', 'v') ORDER BY 4, 2, 3",
        2,
    ),
    (
        "SELECT a.attname, t.typname, a.attnum, a.attnotnull, pg_catalog.pg_get_expr(def.adbin, def.adrelid) "
        "FROM pg_catalog.pg_class c JOIN pg_catalog.pg_attribute a ON (a.attrelid = c.oid) "
        "JOIN pg_catalog.pg_type t ON (a.atttypid = t.oid) LEFT JOIN pg_catalog.pg_attrdef def "
        "ON (a.attrelid = def.adrelid AND a.attnum = def.adnum) WHERE c.relname = 'bids' AND a.attnum > 0",
        4,
    ),
    (
        "SELECT a.attname AS COLUMN_NAME, (i.keys).n AS KEY_SEQ FROM (SELECT ct.oid, i.indrelid, "
        "information_schema._pg_expandarray(i.indkey) AS keys FROM pg_catalog.pg_class ct "
        "JOIN pg_catalog.pg_index i ON (ct.oid = i.indrelid) WHERE i.indisprimary) i "
        "JOIN pg_catalog.pg_attribute a ON (a.attrelid = i.oid AND a.attnum = (i.keys).x)",
        1,
    ),
    # In the manner of ODBC, dashboards and notebooks.
    ("SELECT table_schema, table_name, table_type FROM information_schema.tables ORDER BY 2", 2),
    (
        "SELECT column_name, data_type, is_nullable FROM information_schema.columns "
        "WHERE table_schema = 'public' AND table_name = 'brokers' ORDER BY ordinal_position",
        3,
    ),
    ("SELECT schema_name FROM information_schema.schemata WHERE schema_name NOT LIKE 'pg_%'", 2),
    ("SELECT oid, typname, typarray FROM pg_type WHERE typname = ANY (ARRAY['int8', 'text'])", 2),
    ("SELECT relname FROM pg_class WHERE oid = 'public.bids'::regclass", 1),
    ("SELECT current_setting('server_version_num')::int >= 90000, current_schemas(true)", 1),
    ("SELECT has_table_privilege('brokers', 'SELECT'), pg_is_in_recovery(), pg_backend_pid() > 0", 1),
    ("SELECT kcu.column_name FROM information_schema.table_constraints tc JOIN "
     "information_schema.key_column_usage kcu USING (constraint_name, table_name) "
     "WHERE tc.constraint_type = 'PRIMARY KEY'", 1),
    (
        "SELECT typinput = 'pg_catalog.array_in'::regproc AS is_array, typtype, typname, pg_type.oid "
        "FROM pg_catalog.pg_type LEFT JOIN (SELECT ns.oid AS nspoid, ns.nspname, r.r FROM pg_namespace AS ns "
        "JOIN (SELECT s.r, (current_schemas(false))[s.r] AS nspname "
        "FROM generate_series(1, array_upper(current_schemas(false), 1)) AS s(r)) AS r USING (nspname)) "
        "AS sp ON sp.nspoid = typnamespace WHERE typname = '_int8' ORDER BY sp.r, pg_type.oid DESC",
        1,
    ),
    # In the manner of .NET's loading of types.
    (
        "SELECT t.oid, t.typname, CASE WHEN p.proname = 'array_recv' THEN 'a' ELSE t.typtype END AS typtype "
        "FROM pg_type AS t LEFT JOIN pg_class AS c ON c.oid = t.typrelid LEFT JOIN pg_proc AS p "
        "ON p.oid = t.typreceive LEFT JOIN pg_range ON pg_range.rngtypid = t.oid "
        "WHERE p.proname = 'array_recv' AND t.typname IN ('_text', '_int4', 'int4')",
        2,
    ),
    ("SELECT typinput::regproc::text FROM pg_type WHERE typname = 'int8'", 1),
    ("SELECT viewname, definition FROM pg_catalog.pg_views WHERE schemaname = 'public'", 1),
]  # fmt: skip


@pytest.mark.parametrize(("sql", "rows"), BI_QUERIES, ids=range(len(BI_QUERIES)))
def test_what_tools_ask_about_the_catalog(client: Client, sql: str, rows: int) -> None:
    client.send(b"Q", sql.encode() + b"\0")
    assert client.letters() == b"T" + b"D" * rows + b"CZ"
    client.prepare(sql, "s")
    client.send(b"D", b"Ss\0")
    client.send(b"S")
    assert client.letters() == b"1tTZ"
