"""The same text as a view, as a read through ``db.sql`` and in the dialect's own engine: one value.

An expression may be narrower as a view than in its engine, so where one of the three fails there is nothing
to compare; but each expression must have values to compare, and what is refused for a dialect is listed.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable, Iterator, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import viewlet
from edge_values import FUNCTIONS, Failed, arrow_type
from postgres_server import server_or_skip
from viewlet import adhoc
from viewlet.changes import read_changes
from viewlet.core.calendar import date_of, datetime_of
from viewlet.core.functions import compile_scalar
from viewlet.core.types import Kind, Type, Value
from viewlet.errors import SqlError, UnsupportedError, ValueRangeError, ViewletError
from viewlet.plan.from_sql import resolve
from viewlet.plan.nodes import Project
from viewlet.sql.catalog import Catalog
from viewlet.sql.duckdb_text import duckdb_text
from viewlet.sql.parse import parse, parse_query
from viewlet.sql.statements import CreateTable

duckdb = pytest.importorskip("duckdb")

COLUMNS: dict[str, tuple[str, list[Any]]] = {
    "i": ("INT", [0, 1, -1, 7, -7, 2, 100, 2147483647]),
    "j": ("INT", [1, 2, -2, 3, -3, 5]),
    "n": ("INT", [0, 1, -1, 2, -2, 3, 5, -6]),
    "k": ("BIGINT", [0, 5, -5, 2**40, -(2**40)]),
    "a": ("DECIMAL(5,2)", [Decimal(t) for t in ("0.50", "1.50", "2.50", "-0.50", "-2.50", "12.34", "-9.99")]),
    "b": ("DECIMAL(18,6)", [Decimal(t) for t in ("0.500000", "-2.500000", "1.250000", "123.456789")]),
    "x": ("DOUBLE PRECISION", [0.0, 0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 0.1, 100.0, 1e6, 2.675, 1e17]),
    "y": ("DOUBLE PRECISION", [1.0, 2.0, -3.0, 0.25, 10.0]),
    "s": ("VARCHAR", ["", "a", "abc", "Abc abc", "  padded ", "a,b,,c", "a%b_c", "x\\y", "naïve", "😀 x"]),
    "t": ("VARCHAR", ["", "a", "b", "ab", "A", "x\\\\y", "x\\y", "a%"]),
    "d": ("DATE", [date(2024, 1, 31), date(2024, 2, 29), date(1969, 12, 31), date(2021, 1, 3)]),
    "dd": ("DATE", [date(2024, 3, 31), date(2023, 2, 28), date(2000, 1, 1)]),
    "m": (
        "TIMESTAMP",
        [datetime(2024, 1, 31, 10, 11, 12, 500000), datetime(1969, 12, 31, 23, 59, 59, 999999)],
    ),
    "mm": ("TIMESTAMP", [datetime(2023, 11, 30, 12), datetime(2024, 2, 29, 0, 0, 1)]),
    "o": ("BOOLEAN", [True, False]),
    "num": ("VARCHAR", ["0", "1", " 12 ", "12.5", "-1.5", "2.5", "abc", ""]),
}
DDL = f"CREATE TABLE v (id INT, {', '.join(f'{name} {kind}' for name, (kind, _) in COLUMNS.items())})"
COUNT = 48

EXPRESSIONS = r"""
x::int
a::int
b::bigint
1.5::int
(-2.5)::int
(x * 2.5)::bigint
(x / 2)::smallint
o::int
i::boolean
num::int
b::decimal(10,1)
a::varchar
o::varchar
m::varchar
m::date
left(s, n)
right(s, n)
left(s, -2)
right(s, -1)
left(right(s, n), n)
substring(s, 0, 2)
substring(s, n, 2)
substring(s, 2, 3)
substring(s from n for 2)
round(x)
round(a)
round(b, 1)
round(x * 3)
ceil(a)
floor(x)
extract(second from m)
extract(week from d)
extract(dow from d)
extract(dow from m)
extract(isodow from d)
extract(doy from d)
extract(quarter from m)
date_part('dow', d)
date_part('month', m)
s like 'x\y'
s like 'x\\y'
s like 'a\%b%'
s like t
s not like t || '%'
s like 'a!%b%' escape '!'
s ilike 'X\y'
i / j
i % j
a % j
x / y
mod(i, j)
-7 / 2
-7 % 3
greatest(i, j, n)
least(i, n)
s || t
concat(s, t)
concat(s, i, a)
concat_ws(',', s, t)
length(s)
bit_length(s)
2 ^ 3
-2 ^ 2
i & j
d + 1
d - n
m + interval '1 day'
d + interval '1 month'
m - interval '3 hours'
date_trunc('month', d)
date_trunc('week', m)
trim(s)
ltrim(s, 'a')
trim(both 'a' from s)
strpos(s, 'b')
position('b' in s)
log10(abs(y))
i is distinct from j
s is not distinct from t
nullif(i, j)
coalesce(i, j)
s < t
upper(s)
reverse(s)
repeat(s, n)
replace(s, 'a', 'b')
lpad(s, n, 'x')
split_part(s, ',', 2)
translate(s, 'abc', 'xy')
md5(s)
a * b
""".strip().splitlines()
OWN = {
    "postgres": [
        "substring(s, n)",
        "substring(s, -2, 4)",
        "substring(s, n, 3)",
        "i # j",
        "extract(year from d) / 10",
        "extract(dow from d) / 2",
        "floor(x) / 2",
        "1 + ceil(a) / j",
        "i / (1 + round(abs(x)))",
        "floor(y)::int / 2",
        "div(i, j)",
        "s ~ '^a'",
        "date_part('second', m)",
        "overlay(s placing 'XX' from 2 for 1)",
        "i is not null",
        "o is not unknown",
        "(s is not null) = o",
        "s is not null = o",
        "i notnull",
        "case when a is not null then i else j end",
        "s::varchar(2)",
        "i::varchar(2)",
        "m::timestamp(6)",
        "concat(s, o::text)",
        "chr(128512)",
        "to_char(m, 'yyyy-mm-dd hh24:mi:ss')",
        "to_char(m, 'YYYY-MM-DD HH:MI')",
        "to_char(m, 'YYYYMMDD hh12')",
        "to_char(m, 'HH24MISS.MS')",
        "to_char(m, 'SS us ms')",
    ],
    "duckdb": [
        "substring(s, -2)",
        "substring(s, -2, 2)",
        "substring(s, -5, 3)",
        "x::decimal",
        "try_cast(x as int)",
        "i // j",
        "weekday(d)",
        "dayofweek(m)",
        "isodow(d)",
        "dayname(d)",
        "monthname(m)",
        "date_part('second', m)",
        "date_diff('day', d, dd)",
        "last_day(d)",
        "log(2, abs(y))",
        "i is not null",
        "s::varchar(2)",
        "chr(233)",
        "concat(s, o)",
        "strftime(m, '%Y-%m-%d %H')",
    ],
}
REFUSED = [
    ("postgres", "x::varchar", "text of a DOUBLE"),
    ("postgres", "s || x", "text of a DOUBLE"),
    ("duckdb", "concat(s, x)", "text of a DOUBLE"),
    ("postgres", "x::numeric", "NUMERIC of any precision"),
    ("postgres", "to_hex(i)", "to_hex"),
    ("postgres", "s::char(3)", "CHAR"),
    ("postgres", "concat(s, o)", "BOOLEAN in PostgreSQL's concat"),
    ("postgres", "concat_ws(',', o, s)", "BOOLEAN in PostgreSQL's concat"),
    ("postgres", "concat_ws(',', s, x)", "text of a DOUBLE"),
    ("postgres", "substring(s from '2')", "regular expression"),
    ("postgres", "substring(s, num)", "regular expression"),
    ("postgres", "chr(i)", "letter's number"),
    ("postgres", "to_char(m, 'DDth')", "pattern of dates with 't', 'h'"),
    ("postgres", "m + interval '1 day 02:03:04'", "the INTERVAL"),
    ("postgres", "m + interval '1 day ago'", "the INTERVAL"),
    ("postgres", "m + interval '.5 day'", "the INTERVAL"),
    ("spark", "m + interval '- 1 day'", "the INTERVAL"),
    ("duckdb", "strftime(m, 'M%d')", "pattern of dates with 'M'"),
    ("duckdb", "chr(i)", "letter's number"),
    ("mysql", "cast(i as char(3))", "text of some length"),
    ("duckdb", "levenshtein(s, t)", "counts bytes"),
    ("duckdb", "substring(s, 2, n)", "may be negative"),
    ("postgres", "log(y)", "one argument"),
    ("duckdb", "regexp_replace(s, 'a', 'b')", "single_replace"),
    ("postgres", "regexp_replace(s, 'a', 'b')", "single_replace"),
    ("postgres", "d - dd", "difference of two dates"),
    ("mysql", "cast(x as signed)", "round or floor"),
    ("mysql", "cast(a as signed)", "round or floor"),
    ("mysql", "substring(s, n)", "count apart"),
    ("mysql", "substring(s, 0, 2)", "count apart"),
    ("mysql", "dayofweek(d)", "day of the week"),
    ("mysql", "greatest(i, j)", "NULL if any argument is"),
]

SPARK = [
    *("CAST(x AS INT)", "CAST(a AS INT)", "CAST(b AS BIGINT)", "CAST(1.5 AS INT)", "CAST(num AS INT)"),
    *("CAST(o AS INT)", "CAST(x AS STRING)", "CAST(a AS STRING)", "concat(s, x)", "concat(x, s)"),
    *(r"s LIKE 'a\\%b%'", r"s LIKE 'x\\\\y'", "s LIKE t", "s NOT LIKE t", "substring(s, 0, 2)"),
]
COARSER = ("a / 3",)
"""Quotients of DECIMALs, which DuckDB computes as doubles."""


def drawn() -> list[tuple[Any, ...]]:
    """Rows of values at which dialects differ, each with NULLs here and there."""
    rng = random.Random(5)
    choices = [[*values, None] for _, values in COLUMNS.values()]
    return [
        (row, *(some[row % len(some)] if rng.random() < 0.5 else rng.choice(some) for some in choices))
        for row in range(COUNT)
    ]


ROWS = drawn()
CATALOG = Catalog(made.table for made in parse(DDL, "duckdb") if isinstance(made, CreateTable))
(TABLE,) = CATALOG.values()
ARROW = pa.table(
    {column.name: [row[place] for row in ROWS] for place, column in enumerate(TABLE.columns)},
    schema=pa.schema([(column.name, arrow_type(column.type)) for column in TABLE.columns]),
)
PHYSICAL = tuple(change.row for change in read_changes(TABLE, ARROW).changes)

WHOLE = re.compile("Binder Error|Catalog Error|is not supported|cannot be written")
"""What is wrong with a query whatever the rows."""

Ask = Callable[[str], Sequence[Any]]


@pytest.fixture(scope="module")
def in_duckdb() -> Iterator[Ask]:
    with duckdb.connect() as connection:
        connection.register("rows", ARROW)
        connection.execute(DDL)
        connection.execute("INSERT INTO v SELECT * FROM rows")
        yield lambda text: [value for (value,) in connection.execute(text).fetchall()]


@pytest.fixture(scope="module")
def in_postgres() -> Iterator[Ask]:
    with server_or_skip() as server:
        import psycopg

        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute(DDL)
            marks = ", ".join(["%s"] * len(TABLE.columns))
            connection.cursor().executemany(f"INSERT INTO v VALUES ({marks})", ROWS)
            yield lambda text: [value for (value,) in connection.execute(text).fetchall()]


def answers(ask: Ask, expression: str) -> list[Any]:
    """The value for every row; where the query fails, each row is asked for by itself."""
    try:
        return list(ask(f"SELECT {expression} AS value FROM v ORDER BY id"))
    except Exception as reason:  # of whatever kind the engine raises
        found: list[Any] = []
        if WHOLE.search(str(reason)):
            return [Failed(reason)] * COUNT
        for row in range(COUNT):
            try:
                found += ask(f"SELECT {expression} AS value FROM v WHERE id = {row}")
            except Exception as error:
                found.append(Failed(error))
        return found


def read(dialect: str) -> Ask:
    """``db.sql``."""
    return lambda text: (
        adhoc.run(parse_query(text, dialect), dialect, lambda _: ARROW).column("value").to_pylist()
    )


def as_view(dialect: str, expression: str) -> list[Any]:
    plan = resolve(parse_query(f"SELECT {expression} AS value FROM v", dialect), CATALOG).plan
    assert isinstance(plan, Project)
    ((_, scalar),) = plan.columns
    run = compile_scalar(scalar, {column.name: slot for slot, column in enumerate(TABLE.columns)})
    found: list[Any] = []
    for row in PHYSICAL:
        try:
            found.append(shown(run(row), scalar.type))
        except ValueRangeError as error:
            found.append(Failed(error))
    return found


def shown(value: Value, kind: Type) -> Any:
    if value is None:
        return None
    match kind.kind:
        case Kind.DATE:
            return date_of(value)  # type: ignore[arg-type]
        case Kind.TIMESTAMP:
            return datetime_of(value)  # type: ignore[arg-type]
        case Kind.DECIMAL:
            return Decimal(value).scaleb(-kind.scale)
    return value


def same(one: Any, other: Any) -> bool:
    """Whether two values are one, whatever the types that engines give to them."""
    if one is None or other is None or isinstance(one, bool | str) or isinstance(other, bool | str):
        return type(one) is type(other) and bool(one == other)
    if isinstance(one, date):
        return moment(one) == moment(other)
    return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-12)


def moment(value: date) -> datetime:
    day = value if isinstance(value, datetime) else datetime(value.year, value.month, value.day)
    return day.replace(tzinfo=None)


def compare(expression: str, first: list[Any], second: list[Any]) -> None:
    """Wherever both have a value it is the same, and they have some."""
    pairs = [
        (row, one, other)
        for row, one, other in zip(ROWS, first, second, strict=True)
        if not isinstance(one, Failed) and not isinstance(other, Failed)
    ]
    assert pairs, (expression, first[0], second[0])
    assert [(row, one, other) for row, one, other in pairs if not same(one, other)] == []


@pytest.mark.parametrize("expression", [*EXPRESSIONS, *OWN["duckdb"]])
def test_a_view_a_read_and_duckdb_agree(expression: str, in_duckdb: Ask) -> None:
    view, engine = as_view("duckdb", expression), answers(in_duckdb, expression)
    compare(expression, view, engine)
    compare(expression, view, answers(read("duckdb"), expression))


@pytest.mark.parametrize("expression", [*EXPRESSIONS, *OWN["postgres"]])
def test_a_view_a_read_and_postgresql_agree(expression: str, in_postgres: Ask) -> None:
    view, engine = as_view("postgres", expression), answers(in_postgres, expression)
    compare(expression, view, engine)
    compare(expression, view, answers(read("postgres"), expression))


@pytest.mark.parametrize(("dialect", "expression", "reason"), REFUSED)
def test_what_a_dialect_means_otherwise_is_refused(dialect: str, expression: str, reason: str) -> None:
    with pytest.raises(UnsupportedError, match=reason):
        as_view(dialect, expression)


@pytest.mark.parametrize("part", range(8))
def test_a_view_and_a_read_agree_in_the_spark_dialect(part: int) -> None:
    """Every function that both have; DuckDB has fewer, and says so."""
    compared = 0
    for expression in [*FUNCTIONS, *SPARK][part::8]:
        try:
            view = as_view("spark", expression)
        except (SqlError, AssertionError):
            continue  # about a column that is not here
        found = answers(read("spark"), expression)
        known = [row for row, value in enumerate(found) if not isinstance(value, Failed)]
        if expression in COARSER or not known:
            continue
        compare(expression, view, found)
        compared += 1
    assert compared > 20


@pytest.mark.parametrize("expression", ["concat(s, o)", "concat_ws(',', s, o)", "concat_ws(',', s, x)"])
def test_reads_refuse_parts_of_texts_that_postgresql_writes_otherwise(expression: str) -> None:
    with pytest.raises(SqlError, match="cast it to VARCHAR or a DECIMAL"):
        read("postgres")(f"SELECT {expression} AS value FROM v")


def test_a_timestamp_has_six_digits_after_the_point() -> None:
    with pytest.raises(SqlError, match="six digits after the point, not 0"):
        as_view("postgres", "m::timestamp(0)")


def test_distinct_grouping_sets_count_once() -> None:
    """In PostgreSQL; the two ROLLUPs have (a, b) once and (a) twice, and () once."""
    with viewlet.connect(dialect="postgres") as db:
        db.execute("CREATE TABLE r (a INT, b INT)")
        for name, word in (("each", ""), ("once", "DISTINCT ")):
            query = f"SELECT a, b, COUNT(*) AS n FROM r GROUP BY {word}ROLLUP (a, b), ROLLUP (a)"
            db.execute(f"CREATE MATERIALIZED VIEW {name} AS {query}")
        db.insert("r", [(1, 2), (1, 3)])
        assert db.view("once").rows() == [(None, None, 2), (1, None, 2), (1, 2, 1), (1, 3, 1)]
        assert len(db.view("each").rows()) == 8


def test_reads_refuse_what_duckdb_cannot_say() -> None:
    for expression in (
        "levenshtein(s, t)",
        "months_between(m, mm)",
        "sha2(s, 512)",
        "datediff(MONTH, d, dd)",
    ):
        with pytest.raises(ViewletError, match="in a read"):
            read("spark")(f"SELECT {expression} AS value FROM v")


def test_columns_of_bare_decimals() -> None:
    """Any number in PostgreSQL, three digits after the point in DuckDB, none in Spark."""
    with pytest.raises(UnsupportedError, match="NUMERIC of any precision"):
        parse("CREATE TABLE w (a NUMERIC)", "postgres")
    for dialect, kind in (("duckdb", "DECIMAL(18,3)"), ("spark", "DECIMAL(10,0)")):
        (statement,) = parse("CREATE TABLE w (a DECIMAL)", dialect)
        assert isinstance(statement, CreateTable)
        assert str(statement.table.columns[0].type) == kind


def test_casts_within_casts_are_written_once_each() -> None:
    """Each is rewritten around the one inside of it: the text must not grow by a factor with every level."""
    deep = "a"
    for kind in ("INT", "BIGINT") * 8:
        deep = f"CAST(ROUND({deep} * 2) / 2 AS {kind})"
    assert len(duckdb_text(parse_query(f"SELECT {deep} AS x FROM r"), spark=True)) < 20_000
    with viewlet.connect() as db:
        db.execute("CREATE TABLE r (a DECIMAL(6, 2))")
        db.insert("r", [(Decimal("2.50"),), (Decimal("-7.00"),)])
        db.execute(f"CREATE MATERIALIZED VIEW v AS SELECT {deep} AS x FROM r")
        read = db.sql(f"SELECT {deep} AS x FROM r")["x"].to_pylist()
        assert sorted(read) == sorted(x for (x,) in db.view("v").rows())


def test_columns_of_reads_are_named_by_what_was_asked() -> None:
    with viewlet.connect() as db:
        db.execute("CREATE TABLE r (a DOUBLE)")
        names = db.sql(
            "SELECT a, CAST(a AS INT), SUM(CAST(a AS INT)) OVER (), COUNT(*) AS n FROM r GROUP BY a"
        )
        assert names.column_names == ["a", "CAST(a AS INT)", "SUM(CAST(a AS INT)) OVER ()", "n"]
