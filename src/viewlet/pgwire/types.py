"""The types of the wire protocol: how a value is written, as text and as bytes, and how a parameter is read.

Every type is known by its object identifier (OID), a number that PostgreSQL's clients have built in.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa

from viewlet.pgwire.errors import WireError

EPOCH_DAY = date(2000, 1, 1)
EPOCH = datetime(2000, 1, 1)
MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class WireType:
    """A type: ``sql`` is its name in DuckDB, ``size`` its length in bytes or -1."""

    name: str
    oid: int
    array_oid: int
    size: int
    sql: str
    to_text: Callable[[Any], str]
    to_binary: Callable[[Any], bytes]
    from_binary: Callable[[bytes], Any]


@dataclass(frozen=True, slots=True)
class ArrayType:
    """An array of one dimension."""

    element: WireType
    size: int = -1

    @property
    def oid(self) -> int:
        """The OID of the array type."""
        return self.element.array_oid

    @property
    def name(self) -> str:
        """The name of the type, as in ``int8[]``."""
        return f"{self.element.name}[]"

    @property
    def sql(self) -> str:
        """The type in DuckDB."""
        return f"{self.element.sql}[]"

    def to_text(self, values: Sequence[Any]) -> str:
        """The values in braces.

        >>> ArrayType(TEXT).to_text(["a", None, 'say "b"'])
        '{"a",NULL,"say \\\\"b\\\\""}'
        """
        return "{" + ",".join("NULL" if v is None else self._quoted(v) for v in values) + "}"

    def _quoted(self, value: Any) -> str:
        text = self.element.to_text(value)
        if self.element.size > 0:
            return text
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'

    def to_binary(self, values: Sequence[Any]) -> bytes:
        """Dimensions, then each element with its length."""
        head = struct.pack("!iiI", 1 if values else 0, any(v is None for v in values), self.element.oid)
        if not values:
            return head
        cells = [b"\xff\xff\xff\xff" if v is None else sized(self.element.to_binary(v)) for v in values]
        return head + struct.pack("!ii", len(values), 1) + b"".join(cells)


def sized(data: bytes) -> bytes:
    """Data behind its length."""
    return struct.pack("!i", len(data)) + data


def _packed(layout: str) -> tuple[Callable[[Any], bytes], Callable[[bytes], Any]]:
    codec = struct.Struct(layout)
    return codec.pack, lambda data: codec.unpack(data)[0]


def _float_text(value: float) -> str:
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    return repr(value)


def _timestamp_text(value: datetime) -> str:
    text = value.replace(tzinfo=None).isoformat(" ")
    return text.rstrip("0") if "." in text else text


def _zoned_text(value: datetime) -> str:
    return _timestamp_text(value.astimezone(UTC)) + "+00"


def _microseconds(value: datetime) -> bytes:
    return struct.pack("!q", (value.replace(tzinfo=None) - EPOCH) // MICROSECOND)


def _moment(data: bytes) -> datetime:
    try:
        (microseconds,) = struct.unpack("!q", data)
        return EPOCH + timedelta(microseconds=microseconds)
    except OverflowError:
        raise WireError("22008", "a timestamp is out of range") from None


def _day(data: bytes) -> date:
    try:
        return EPOCH_DAY + timedelta(days=struct.unpack("!i", data)[0])
    except OverflowError:
        raise WireError("22008", "a date is out of range") from None


def _time_to_binary(value: time) -> bytes:
    return struct.pack("!q", (datetime.combine(EPOCH_DAY, value) - EPOCH) // MICROSECOND)


def _interval_text(value: pa.MonthDayNano) -> str:
    """Months, days and a clock time, as PostgreSQL prints intervals.

    >>> _interval_text(pa.MonthDayNano([14, 3, -1_500_000_000]))
    '1 year 2 mons 3 days -00:00:01.5'
    """
    sign, total = ("-", -value.nanoseconds) if value.nanoseconds < 0 else ("", value.nanoseconds)
    seconds, nanoseconds = divmod(total, 10**9)
    years, months = divmod(abs(value.months), 12)
    flip = "-" if value.months < 0 else ""
    parts = [f"{flip}{years} year{'s' if years != 1 else ''}"] if years else []
    parts += [f"{flip}{months} mon{'s' if months != 1 else ''}"] if months else []
    parts += [f"{value.days} day{'s' if value.days != 1 else ''}"] if value.days else []
    if total or not parts:
        clock = f"{sign}{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
        fraction = f".{nanoseconds // 1000:06}".rstrip("0") if nanoseconds >= 1000 else ""
        parts.append(clock + fraction)
    return " ".join(parts)


def _interval_to_binary(value: pa.MonthDayNano) -> bytes:
    return struct.pack("!qii", value.nanoseconds // 1000, value.days, value.months)


def _interval_from_binary(data: bytes) -> str:
    microseconds, days, months = struct.unpack("!qii", data)
    return f"{months} months {days} days {microseconds} microseconds"


def numeric_to_binary(value: Decimal) -> bytes:
    """Digits to the base 10000, the weight of the first, a sign, and how many decimals are shown.

    >>> numeric_from_binary(numeric_to_binary(Decimal("-12345.670")))
    Decimal('-12345.670')
    """
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int), "NaN and infinities do not come out of exact columns"
    scale = max(0, -exponent)
    number = int("".join(map(str, digits))) * 10 ** max(0, exponent)
    shift = -scale % 4
    number *= 10**shift
    groups: list[int] = []
    while number:
        number, group = divmod(number, 10_000)
        groups.append(group)
    weight = len(groups) - (scale + shift) // 4 - 1 if groups else 0
    while groups and groups[0] == 0:
        groups.pop(0)
    groups.reverse()
    return struct.pack(
        f"!HhHH{len(groups)}H", len(groups), weight, 0x4000 if sign and groups else 0, scale, *groups
    )


def numeric_from_binary(data: bytes) -> Decimal:
    """See :func:`numeric_to_binary`; NaN and infinities are refused."""
    count, weight, sign, scale = struct.unpack_from("!HhHH", data)
    if sign not in (0, 0x4000):
        raise WireError("22003", "a NUMERIC parameter is not finite")
    groups = struct.unpack_from(f"!{count}H", data, 8)
    number = 0
    for group in groups:
        number = number * 10_000 + group
    power = 4 * (weight - count + 1)
    scaled = number * 10 ** max(0, power + scale) // 10 ** max(0, -power - scale)
    text = str(scaled).rjust(scale + 1, "0")
    whole, decimals = (text[:-scale], text[-scale:]) if scale else (text, "")
    return Decimal(f"{'-' if sign else ''}{whole}{'.' if scale else ''}{decimals}")


def _text_bytes(value: Any) -> bytes:
    return str(value).encode()


def _bytes_text(value: bytes) -> str:
    return "\\x" + value.hex()


def _bool_text(value: bool) -> str:
    return "t" if value else "f"


def _number_text(value: Decimal) -> str:
    return format(value, "f")


def _date_to_binary(value: date) -> bytes:
    return struct.pack("!i", (value - EPOCH_DAY).days)


def _json_text(value: Any) -> str:
    return json.dumps(value, default=str)


def _json_bytes(value: Any) -> bytes:
    return _json_text(value).encode()


BOOL = WireType("bool", 16, 1000, 1, "BOOLEAN", _bool_text, *_packed("!?"))
BYTEA = WireType("bytea", 17, 1001, -1, "BLOB", _bytes_text, bytes, bytes)
INT8 = WireType("int8", 20, 1016, 8, "BIGINT", str, *_packed("!q"))
INT2 = WireType("int2", 21, 1005, 2, "SMALLINT", str, *_packed("!h"))
INT4 = WireType("int4", 23, 1007, 4, "INTEGER", str, *_packed("!i"))
TEXT = WireType("text", 25, 1009, -1, "VARCHAR", str, _text_bytes, bytes.decode)
OID = WireType("oid", 26, 1028, 4, "UINTEGER", str, *_packed("!I"))
JSON = WireType("json", 114, 199, -1, "VARCHAR", _json_text, _json_bytes, bytes.decode)
FLOAT4 = WireType("float4", 700, 1021, 4, "FLOAT", _float_text, *_packed("!f"))
FLOAT8 = WireType("float8", 701, 1022, 8, "DOUBLE", _float_text, *_packed("!d"))
VARCHAR = WireType("varchar", 1043, 1015, -1, "VARCHAR", str, _text_bytes, bytes.decode)
BPCHAR = WireType("bpchar", 1042, 1014, -1, "VARCHAR", str, _text_bytes, bytes.decode)
NAME = WireType("name", 19, 1003, 64, "VARCHAR", str, _text_bytes, bytes.decode)
CHAR = WireType("char", 18, 1002, 1, "VARCHAR", str, _text_bytes, bytes.decode)
DATE = WireType("date", 1082, 1182, 4, "DATE", date.isoformat, _date_to_binary, _day)
TIME = WireType("time", 1083, 1183, 8, "TIME", time.isoformat, _time_to_binary, lambda b: _moment(b).time())
TIMESTAMP = WireType("timestamp", 1114, 1115, 8, "TIMESTAMP", _timestamp_text, _microseconds, _moment)
TIMESTAMPTZ = WireType(
    "timestamptz",
    1184,
    1185,
    8,
    "TIMESTAMPTZ",
    _zoned_text,
    lambda value: _microseconds(value.astimezone(UTC)),
    lambda data: _moment(data).replace(tzinfo=UTC),
)
INTERVAL = WireType(
    "interval", 1186, 1187, 16, "INTERVAL", _interval_text, _interval_to_binary, _interval_from_binary
)
NUMERIC = WireType(
    "numeric", 1700, 1231, -1, "DECIMAL(38, 15)", _number_text, numeric_to_binary, numeric_from_binary
)
UNKNOWN = WireType("unknown", 705, 1009, -2, "VARCHAR", str, _text_bytes, bytes.decode)

TYPES = (
    BOOL, BYTEA, CHAR, NAME, INT8, INT2, INT4, TEXT, OID, JSON, FLOAT4, FLOAT8, BPCHAR, VARCHAR, DATE, TIME,
    TIMESTAMP, TIMESTAMPTZ, INTERVAL, NUMERIC, UNKNOWN,
)  # fmt: skip
BY_OID = {kind.oid: kind for kind in TYPES}
ARRAYS = {kind.array_oid: ArrayType(kind) for kind in TYPES if kind is not UNKNOWN}
BY_NAME = {kind.name: kind for kind in TYPES}


def of_arrow(kind: pa.DataType) -> WireType | ArrayType:
    """The type in which an Arrow column travels; what has no counterpart travels as JSON.

    Unsigned integers of 32 bits are OIDs: only the system catalog has them.

    >>> of_arrow(pa.decimal128(10, 2)).name, of_arrow(pa.list_(pa.int64())).oid
    ('numeric', 1016)
    """
    if pa.types.is_decimal(kind) or kind == pa.uint64():
        return NUMERIC
    if pa.types.is_timestamp(kind):
        return TIMESTAMP if kind.tz is None else TIMESTAMPTZ
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        element = of_arrow(kind.value_type)
        return JSON if isinstance(element, ArrayType) or element is JSON else ArrayType(element)
    if pa.types.is_time(kind):
        return TIME
    return _BY_ARROW.get(kind, JSON)


_BY_ARROW = {
    pa.bool_(): BOOL,
    pa.int8(): INT2,
    pa.uint8(): INT2,
    pa.int16(): INT2,
    pa.uint16(): INT4,
    pa.int32(): INT4,
    pa.uint32(): OID,
    pa.int64(): INT8,
    pa.float32(): FLOAT4,
    pa.float64(): FLOAT8,
    pa.date32(): DATE,
    pa.string(): TEXT,
    pa.large_string(): TEXT,
    pa.binary(): BYTEA,
    pa.large_binary(): BYTEA,
    pa.month_day_nano_interval(): INTERVAL,
    pa.null(): TEXT,
}


def modifier(kind: pa.DataType) -> int:
    """The type modifier: precision and scale of a DECIMAL, as PostgreSQL packs them; -1 for the others."""
    return ((kind.precision << 16) | kind.scale) + 4 if pa.types.is_decimal(kind) else -1
