"""Every function over rows of edge values: the rows, the expressions, and what they give or why they fail."""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import date
from typing import Any

import pyarrow as pa

from viewlet.changes import read_changes
from viewlet.core.calendar import FIRST_DAY, LAST_DAY, MICROS_PER_DAY, date_of, datetime_of, days_of
from viewlet.core.casts import as_decimal
from viewlet.core.functions import compile_scalar
from viewlet.core.scalar import Scalar
from viewlet.core.types import Kind, Type, Value, bounds
from viewlet.errors import ValueRangeError
from viewlet.plan.from_sql import resolve
from viewlet.plan.nodes import Project
from viewlet.sql.catalog import Catalog
from viewlet.sql.parse import parse, parse_query
from viewlet.sql.statements import CreateTable

COLUMNS = {
    "id": "INT NOT NULL",
    "o": "BOOLEAN",
    "p": "BOOLEAN",
    "ti": "TINYINT",
    "si": "SMALLINT",
    "i": "INT",
    "j": "INT",
    "n": "INT",
    "k": "BIGINT",
    "l": "BIGINT",
    "a": "DECIMAL(5,2)",
    "b": "DECIMAL(18,6)",
    "c": "DECIMAL(38,10)",
    "e": "DECIMAL(9,0)",
    "h": "DECIMAL(38,0)",
    "f": "FLOAT",
    "g": "FLOAT",
    "x": "DOUBLE",
    "y": "DOUBLE",
    "z": "DOUBLE",
    "d": "DATE",
    "dd": "DATE",
    "m": "TIMESTAMP",
    "mm": "TIMESTAMP",
    "s": "VARCHAR",
    "t": "VARCHAR",
    "u": "VARCHAR",
    "num": "VARCHAR",
    "day": "VARCHAR",
    "bool": "VARCHAR",
}
DDL = f"CREATE TABLE v ({', '.join(f'{name} {kind}' for name, kind in COLUMNS.items())})"

TEXTS = [
    "", " ", "a", "A", "abc", "Abc abc", "ABCabc", "  padded  ", "a,b,,c", "a%b_c", "x\\y",
    "it's", "100", "naïve", "ÀÉß", "straße", "日本語", "😀 smile", "e\u0301", "\ttab\n", "zz", "ZZZ",
    "aaa", "İi", "ab12-34cd", "foo.bar.baz", "key=value; k2=v2", "Robert", "Rupert", "Tymczak",
    "Pfister", "kitten", "sitting", "1e3",
]  # fmt: skip
NUMBERS = [
    "0", "1", "-1", "+7", " 12 ", "12.5", "-0.005", "1e3", "-1E-2", ".5", "5.", "2147483648",
    "-9223372036854775808", "9223372036854775808", "99999999999999999999999999999999999999", "1e400", "abc",
    "", "1_000", "0x1F", "1.5e", "NaN", "Infinity", "1L", "1d", "1f", "--1", "1e1000", "127", "128",
    "3.4e38", "1.7976931348623157e308", "4.9e-324", "0.1",
]  # fmt: skip
DAYS = [
    "2024-02-29", "2023-02-29", "1969-12-31", "0001-01-01", "9999-12-31", "2024-1-5", " 2024-01-05 ",
    "2024", "2024-07", "2024-01-05 10:11:12", "2024-01-05T10:11:12.123456", "2024-01-05 10:11:12.1234567",
    "2024-01-05 1:2:3", "2024-13-01", "2024-01-05 24:00:00", "20240105", "2024-01-05 10:11", "01/05/2024",
    "", "abc", "2024-01-05 10:11:12Z", "2024-01-05 10:11:12+02:00", "1582-10-10", "2024-01-05x",
    "2024-01-05T", "2024-01-05 ", "2024-01-05 10:11:12.", "2024-01-05 10:60:12",
]  # fmt: skip
BOOLEANS = ["true", "false", "T", "f", "yes", "No", "1", "0", " true ", "on", "off", "y", "N", "2", "", "tru"]
DOUBLES = [
    0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 0.1, 1e-3, 9.99e-4, 1e7, 9999999.0, 12345678.9, 1e-300,
    5e-324, 1.7976931348623157e308, -1e300, 3.141592653589793, 2**53 + 0.0, 9e18, 9.3e18,
    -9.223372036854775808e18, 1e20, 2147483647.5, -2147483648.9, 127.5, -128.9, 1.005, 2.675, 1e22,
    123456789012345680.0, 100.0, 10.0, 2.0, 0.3,
]  # fmt: skip
FLOATS = [
    0.0, -0.0, 1.0, -1.5, 0.1, 3.4028235e38, 1.4e-45, 1e10, 16777216.0, 1.1, 123456.79, 1e-3, 33554432.0,
    2.5,
]  # fmt: skip
DATES = [
    date(1, 1, 1), date(9999, 12, 31), date(1970, 1, 1), date(1969, 12, 31), date(2024, 2, 29),
    date(2023, 2, 28), date(2000, 2, 29), date(1900, 2, 28), date(1582, 10, 10), date(2024, 12, 30),
    date(2021, 1, 3), date(2020, 12, 31), date(2024, 1, 31), date(1, 12, 31), date(9999, 1, 1),
    date(2016, 1, 1), date(2024, 3, 31), date(1899, 12, 31),
]  # fmt: skip
CLOCKS = [
    0, 1, 999_999, 86_399_999_999, 43_200_000_000, 3_600_000_000, 12_345_678_901, 59_000_000,
    36_000_123_000,
]  # fmt: skip

NUMERIC = ("ti", "si", "i", "k", "a", "b", "c", "e", "f", "x")
NUMERIC_TYPES = (
    *("BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "DECIMAL(5,2)", "DECIMAL(18,6)", "DECIMAL(38,10)"),
    *("DECIMAL(3,0)", "FLOAT", "DOUBLE", "STRING"),
)
ARITHMETIC = tuple(
    f"{left} {op} {right}"
    for shift, op in enumerate(("+", "-", "*", "/", "%", "<"))
    for place, left in enumerate(NUMERIC)
    for right in NUMERIC[(place + shift) % 4 :: 4]
)
CASTS = (
    *(f"CAST({column} AS {kind})" for column in ("o", *NUMERIC, "num") for kind in NUMERIC_TYPES),
    *(
        f"CAST({column} AS {kind})"
        for column in ("d", "m", "day")
        for kind in ("DATE", "TIMESTAMP", "STRING")
    ),
    "CAST(bool AS BOOLEAN)",
)
FUNCTIONS = tuple(
    r"""
-k
-a
-x
-ti
abs(k)
abs(a)
abs(x)
abs(f)
abs(ti)
sign(a)
sign(x)
sign(k)
sqrt(x)
exp(z)
ln(x)
power(z, y)
power(z, n)
pow(2, n)
round(a)
round(a, 1)
round(b, -3)
round(x)
round(z, 3)
round(x, 2)
round(k, -2)
round(i, -1)
round(f, 1)
round(h, -5)
floor(a)
floor(x)
floor(k)
floor(h)
floor(f)
ceil(a)
ceil(x)
ceil(b)
ceiling(c)
ceil(f)
greatest(i, j)
least(i, j, n)
greatest(a, b)
greatest(s, t)
least(d, m)
greatest(x, k)
s || t
concat(s, t, u)
concat(s, i)
s || i
concat(x, s)
substring(s, 2, 3)
substring(s, n)
substring(s, n, 2)
substring(s, 0)
substring(s, -3, 2)
substr(s, n, j)
substring(s FROM 2 FOR 3)
left(s, n)
right(s, n)
upper(s)
lower(s)
ucase(s)
lcase(s)
reverse(s)
length(s)
char_length(s)
len(s)
trim(s)
ltrim(s)
rtrim(s)
trim(BOTH 'a' FROM s)
trim(LEADING 'a' FROM s)
trim(TRAILING 'b' FROM s)
replace(s, t, u)
replace(s, 'a')
position(t IN s)
position('a', s)
instr(s, 'b')
locate('b', s)
startswith(s, t)
endswith(s, 'c')
contains(s, 'b')
lpad(s, n, 'xy')
rpad(s, n, t)
lpad(s, n)
repeat(s, n)
year(d)
quarter(d)
month(d)
weekofyear(d)
day(d)
dayofmonth(d)
dayofweek(d)
weekday(d)
dayofyear(d)
year(m)
hour(m)
minute(m)
second(m)
hour(d)
extract(SECOND FROM m)
extract(YEAR FROM d)
extract(DOY FROM d)
extract(DOW FROM d)
extract(DAYOFWEEK_ISO FROM d)
extract(WEEK FROM m)
date_part('month', d)
date_part('seconds', m)
datepart('week', m)
date_add(d, n)
date_sub(d, n)
d + n
d - n
d + INTERVAL '1' MONTH
m - INTERVAL '3' HOUR
m + INTERVAL '1' DAY
d + INTERVAL '2' HOUR
add_months(d, n)
add_months(m, n)
datediff(d, dd)
date_diff(d, dd)
datediff(m, d)
trunc(d, 'MM')
trunc(m, 'YEAR')
trunc(d, 'week')
trunc(d, 'QUARTER')
date_trunc('HOUR', m)
date_trunc('month', d)
date_trunc('WEEK', m)
date_trunc('quarter', m)
date_trunc('minute', m)
last_day(d)
last_day(m)
dateadd(MONTH, 2, d)
dateadd(HOUR, 5, m)
dateadd(DAY, n, d)
timestampadd(MINUTE, 7, m)
timestampadd(MONTH, -3, m)
to_date(day)
date(m)
date(day)
nullif(i, j)
nullif(a, b)
ifnull(i, j)
nvl(s, t)
nvl2(s, i, j)
coalesce(i, a, x)
CASE WHEN i > j THEN a ELSE b END
CASE i WHEN j THEN 1 WHEN n THEN 2 END
if(o, i, a)
s LIKE 'a%'
s LIKE '%b_c%'
s LIKE 'x\\y'
s NOT LIKE '%a%'
s ILIKE '%AB%'
s LIKE '%!%%' ESCAPE '!'
i BETWEEN j AND n
i IN (1, 2, NULL)
a IN (1, 2.5)
s IN ('a', 'abc')
s IS NULL
o IS TRUE
o IS NOT FALSE
o AND p
o OR p
NOT o
i <=> j
s <=> t
i IS DISTINCT FROM j
a IS NOT DISTINCT FROM b
d < m
d = dd
i = num
x < num
s < t
d = day
m < day
o = p
i + num
num + 1
num * 2.5
a || num
x + f
f * f
f / g
f % g
x % y
i + 1.5
a * 2
a / 3
k + 1
ti + 1Y
l - k
negative(i)
positive(a)
float(i)
int(a)
bigint(x)
string(x)
double(num)
boolean(i)
date_from_unix_date(n)
unix_date(d)
split_part(s, ',', 2)
split_part(s, ' ', -1)
split_part(s, 'a', n)
split_part(s, t, 1)
regexp_like(s, '^[a-z]+$')
s RLIKE 'b+'
s REGEXP '[0-9]{2}'
regexp_replace(s, '[a-c]+', 'X')
regexp_replace(s, '(a)(b)?', '$2-$1')
regexp_extract(s, '([a-z]+)([0-9]+)', 2)
regexp_extract(s, '(a)|(b)', 1)
regexp_extract(s, '[0-9]+', 0)
regexp_count(s, 'a')
unix_timestamp(m)
unix_timestamp(d)
to_unix_timestamp(m)
unix_timestamp('2024-01-02 03:04:05')
unix_timestamp(day, 'yyyy-MM-dd')
from_unixtime(i)
from_unixtime(n, 'yyyy-MM-dd HH:mm')
to_date(day, 'yyyy-MM-dd')
to_timestamp(day)
to_timestamp(day, 'yyyy-MM-dd HH:mm:ss')
to_date(day, 'MM/dd/yyyy')
to_date(day, 'yyyyMMdd')
date_format(m, 'yyyy-MM-dd HH:mm:ss')
date_format(d, 'yyyy/M/d')
date_format(m, 'HH:mm:ss.SSS')
date_format(d, 'yyyyMMdd')
date_format(m, 'EEE, d MMM yyyy')
date_format(m, 'EEEE MMMM')
date_format(m, 'yy h:mm a')
make_date(n + 2020, n, n)
make_date(2024, 2, n + 20)
timestampdiff(DAY, m, mm)
timestampdiff(MONTH, m, mm)
timestampdiff(YEAR, m, mm)
timestampdiff(HOUR, m, mm)
timestampdiff(SECOND, m, mm)
timestampdiff(QUARTER, m, mm)
timestampdiff(WEEK, d, mm)
datediff(MONTH, d, dd)
datediff(HOUR, m, mm)
datediff(DAY, d, dd)
datediff(YEAR, m, mm)
timestampadd(DAY, n, m)
timestampadd(MONTH, n, m)
dateadd(HOUR, n, m)
dateadd(YEAR, n, d)
date_add(MONTH, n, d)
months_between(d, dd)
months_between(m, mm)
months_between(m, mm, false)
next_day(d, 'MON')
next_day(d, 'Friday')
next_day(d, 'su')
dayname(d)
monthname(d)
timestamp_seconds(i)
timestamp_millis(k)
timestamp_micros(k)
unix_seconds(m)
unix_millis(m)
unix_micros(m)
try_cast(num AS INT)
try_cast(num AS DECIMAL(5,2))
try_cast(day AS DATE)
try_cast(x AS INT)
try_cast(i AS TINYINT)
try_divide(i, j)
try_divide(a, b)
try_divide(x, y)
try_add(i, j)
try_subtract(k, l)
try_multiply(k, l)
try_add(a, a)
decode(i, 1, 'one', 2, 'two')
decode(s, 'a', 1, NULL, 2, 3)
concat_ws(',', s, t, u)
concat_ws(s, t, i)
translate(s, 'abc', 'xy')
translate(s, t, u)
ascii(s)
chr(i)
chr(n + 64)
char(65)
md5(s)
sha1(s)
sha(s)
sha2(s, 256)
sha2(s, 512)
sha2(s, 0)
sha2(s, 224)
crc32(s)
hex(s)
hex(k)
hex(i)
bin(k)
i & j
k | l
i ^ n
~ k
ti & si
shiftleft(i, n)
shiftright(k, n)
shiftrightunsigned(i, n)
i << 3
k >> n
pmod(i, j)
pmod(a, b)
pmod(x, y)
mod(i, j)
i div j
div(i, j)
cbrt(x)
log2(x)
log10(x)
log(2, x)
log(x)
log(x, y)
log1p(z)
expm1(z)
degrees(z)
radians(x)
sin(z)
cos(z)
tan(z)
asin(z)
acos(z)
atan(x)
atan2(z, y)
cot(z)
sinh(z)
cosh(z)
tanh(z)
hypot(z, y)
hypot(x, y)
rint(x)
rint(z)
bround(a, 1)
bround(x, 1)
bround(b, 2)
bround(k, -1)
width_bucket(x, 0, 100, 10)
width_bucket(z, 1, -1, n)
pi()
e()
signum(a)
sec(z)
csc(z)
equal_null(i, j)
s LIKE ANY ('a%', '%c')
s LIKE ALL ('a%', '%c')
s NOT LIKE ALL ('a%', '%c')
s ILIKE ANY ('A%', '%C')
s NOT LIKE ANY ('a%', '%c')
overlay(s PLACING 'XX' FROM 2)
overlay(s, 'XX', 2, 1)
overlay(s PLACING t FROM n FOR 2)
levenshtein(s, t)
soundex(s)
initcap(s)
substring_index(s, ',', 2)
substring_index(s, ' ', -1)
substring_index(s, t, n)
locate('b', s, 3)
locate('a', s, n)
bit_length(s)
octet_length(s)
space(n)
btrim(s)
btrim(s, 'a ')
isnull(s)
isnotnull(s)
zeroifnull(i)
nullifzero(i)
""".strip().splitlines()
)


@dataclass(frozen=True)
class Rows:
    """Rows of edge values: as Arrow for Spark, as physical values for us."""

    table: pa.Table
    physical: tuple[tuple[Value, ...], ...]


def catalog() -> Catalog:
    """The one table."""
    return Catalog(statement.table for statement in parse(DDL) if isinstance(statement, CreateTable))


def drawn(kind: Type, name: str, rng: random.Random) -> Any:
    """A value of a column: mostly one from the edges of its type."""
    if name != "id" and rng.random() < 0.08:
        return None
    if name == "n":
        return rng.randint(-6, 12)
    match kind.kind:
        case Kind.BOOLEAN:
            return rng.random() < 0.5
        case Kind.DOUBLE if name == "z":
            return round(rng.uniform(-2, 2), rng.randint(0, 16))
        case Kind.DOUBLE:
            return rng.choice(DOUBLES) if rng.random() < 0.7 else rng.uniform(-1000, 1000)
        case Kind.FLOAT:
            return rng.choice(FLOATS)
        case Kind.DATE:
            return rng.choice(DATES) if rng.random() < 0.7 else date_of(rng.randint(FIRST_DAY, LAST_DAY))
        case Kind.TIMESTAMP:
            day = days_of(rng.choice(DATES)) if rng.random() < 0.7 else rng.randint(FIRST_DAY, LAST_DAY)
            return datetime_of(day * MICROS_PER_DAY + rng.choice(CLOCKS))
        case Kind.VARCHAR:
            return rng.choice({"num": NUMBERS, "day": DAYS, "bool": BOOLEANS}.get(name, TEXTS))
    low, high = bounds(kind) or (0, 0)
    small = rng.randint(max(low, -130), min(high, 130))
    edges = [
        low,
        high,
        low + 1,
        high - 1,
        0,
        1,
        -1,
        10**kind.scale,
        -(10**kind.scale),
        5 * 10**kind.scale // 2,
    ]
    edges += [rng.randint(low, high), rng.randint(low, high) // 10**6]
    value = small if rng.random() < 0.5 else rng.choice([edge for edge in edges if low <= edge <= high])
    return as_decimal(value, kind.scale) if kind.kind is Kind.DECIMAL else value


def rows(count: int, seed: int) -> Rows:
    """So many rows; those of texts that are numbers, days and truth values come in turn, so that all come."""
    rng = random.Random(seed)
    (table,) = catalog().values()
    columns = {
        column.name: [drawn(column.type, column.name, rng) for _ in range(count)] for column in table.columns
    }
    columns["id"] = list(range(count))
    for name, choices in {"num": NUMBERS, "day": DAYS, "bool": BOOLEANS}.items():
        columns[name] = [(*choices, None)[place % (len(choices) + 1)] for place in range(count)]
    schema = pa.schema([(column.name, arrow_type(column.type)) for column in table.columns])
    arrow = pa.table(columns, schema=schema)
    physical = tuple(change.row for change in read_changes(table, arrow).changes)
    return Rows(arrow, physical)


def arrow_type(kind: Type) -> pa.DataType:
    """A column type as Arrow's."""
    if kind.kind is Kind.DECIMAL:
        return pa.decimal128(kind.precision, kind.scale)
    return {
        Kind.BOOLEAN: pa.bool_(), Kind.TINYINT: pa.int8(), Kind.SMALLINT: pa.int16(), Kind.INT: pa.int32(),
        Kind.BIGINT: pa.int64(), Kind.FLOAT: pa.float32(), Kind.DOUBLE: pa.float64(), Kind.DATE: pa.date32(),
        Kind.TIMESTAMP: pa.timestamp("us"), Kind.VARCHAR: pa.string(),
    }[kind.kind]  # fmt: skip


def scalar_of(expression: str, tables: Catalog) -> Scalar:
    """What an expression over the table means."""
    plan = resolve(parse_query(f"SELECT {expression} AS value FROM v"), tables).plan
    if isinstance(plan, Project):
        ((_, scalar),) = plan.columns
        return scalar
    raise AssertionError(f"{expression} is a column")


class Failed(str):
    """Why an expression has no value."""


def values(scalar: Scalar, data: Rows) -> list[Value | Failed]:
    """The value of a scalar for every row, or why there is none."""
    run = compile_scalar(scalar, {name: slot for slot, name in enumerate(COLUMNS)})
    found: list[Value | Failed] = []
    for row in data.physical:
        try:
            found.append(run(row))
        except ValueRangeError as error:
            found.append(Failed(error))
    return found
