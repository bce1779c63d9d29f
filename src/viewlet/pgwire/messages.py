"""The messages of protocol version 3: what clients may send, read strictly, and what the server answers.

A message is a letter, its length, and its body; the very first one has no letter. Nothing is taken on trust:
a length that does not fit, a text without its end or a number out of bounds is a :class:`FatalError`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from viewlet.pgwire.errors import FatalError
from viewlet.pgwire.types import sized

PROTOCOL_3 = 196608
SSL_REQUEST = 80877103
GSS_REQUEST = 80877104
CANCEL_REQUEST = 80877102

Kind: TypeAlias = Literal["S", "P"]
"""What Describe and Close mean: a prepared statement or a portal."""


@dataclass(frozen=True, slots=True)
class Startup:
    """The client wants to begin; ``parameters`` has at least its user."""

    minor: int
    parameters: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class TlsRequest:
    """The client wants to encrypt first."""


@dataclass(frozen=True, slots=True)
class GssRequest:
    """The client wants Kerberos, which is not spoken here."""


@dataclass(frozen=True, slots=True)
class CancelRequest:
    """Another connection's statement shall end; ``key`` was given to that connection."""

    process: int
    key: int


First: TypeAlias = Startup | TlsRequest | GssRequest | CancelRequest


@dataclass(frozen=True, slots=True)
class Query:
    """Run statements, all in text."""

    text: str


@dataclass(frozen=True, slots=True)
class Parse:
    """Prepare a statement; types of zero are to be inferred."""

    name: str
    text: str
    types: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Bind:
    """Make a portal from a prepared statement and values. Formats: 0 is text, 1 is binary."""

    portal: str
    statement: str
    formats: tuple[int, ...]
    values: tuple[bytes | None, ...]
    result_formats: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Describe:
    """What columns does it give?"""

    kind: Kind
    name: str


@dataclass(frozen=True, slots=True)
class Execute:
    """Run a portal, for at most ``limit`` rows; zero is no limit."""

    portal: str
    limit: int


@dataclass(frozen=True, slots=True)
class Close:
    """Forget a statement or portal."""

    kind: Kind
    name: str


@dataclass(frozen=True, slots=True)
class Sync:
    """The end of a series: errors are over, and the server says that it is ready."""


@dataclass(frozen=True, slots=True)
class Flush:
    """Send what has been held back."""


@dataclass(frozen=True, slots=True)
class Terminate:
    """Goodbye."""


@dataclass(frozen=True, slots=True)
class Password:
    """A step of the authentication."""

    data: bytes


@dataclass(frozen=True, slots=True)
class CopyIn:
    """Data for a COPY FROM, which is never asked for, so it is ignored."""


Message: TypeAlias = (
    Query | Parse | Bind | Describe | Execute | Close | Sync | Flush | Terminate | Password | CopyIn
)


class Body:
    """The rest of a message, read from left to right."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def text(self) -> str:
        """A text with a zero at its end."""
        end = self._data.find(b"\0", self._at)
        if end < 0:
            raise FatalError("08P01", "a text in the message does not end")
        raw, self._at = self._data[self._at : end], end + 1
        try:
            return raw.decode()
        except UnicodeDecodeError:
            raise FatalError("22021", "a text in the message is not UTF-8") from None

    def take(self, size: int) -> bytes:
        """So many bytes."""
        if size < 0 or self._at + size > len(self._data):
            raise FatalError("08P01", "the message is shorter than it says")
        self._at += size
        return self._data[self._at - size : self._at]

    def int16(self) -> int:
        """A number of two bytes, which counts something."""
        return int.from_bytes(self.take(2), "big")

    def int32(self) -> int:
        """A number of four bytes."""
        return int.from_bytes(self.take(4), "big", signed=True)

    def counted(self) -> range:
        """As many steps as the next number says."""
        return range(self.int16())

    def kind(self) -> Kind:
        """Statement or portal."""
        match self.take(1):
            case b"S":
                return "S"
            case b"P":
                return "P"
            case other:
                raise FatalError("08P01", f"neither a statement nor a portal: {other!r}")

    def rest(self) -> bytes:
        """All that is left."""
        return self.take(len(self._data) - self._at)

    def end(self) -> None:
        """Refuse what is left over."""
        if self._at != len(self._data):
            raise FatalError("08P01", f"{len(self._data) - self._at} bytes too many in the message")


def read_first(data: bytes) -> First:
    """The first message of a connection, without its length.

    >>> read_first(struct.pack("!i", PROTOCOL_3) + b"user\\0ann\\0\\0")
    Startup(minor=0, parameters={'user': 'ann'})
    """
    body = Body(data)
    match body.int32():
        case 80877103:
            return TlsRequest()
        case 80877104:
            return GssRequest()
        case 80877102:
            request = CancelRequest(body.int32(), body.int32())
            body.end()
            return request
        case version if version >> 16 == 3:
            parameters: dict[str, str] = {}
            while name := body.text():
                parameters[name] = body.text()
            body.end()
            return Startup(version & 0xFFFF, parameters)
        case version:
            raise FatalError("0A000", f"protocol {version >> 16}.{version & 0xFFFF} is not spoken, only 3.0")


def read_message(letter: bytes, data: bytes) -> Message:
    """A message of a client that has begun.

    >>> read_message(b"E", b"\\0\\0\\0\\0\\5")
    Execute(portal='', limit=5)
    """
    body = Body(data)
    message = _read(letter, body)
    body.end()
    return message


def _read(letter: bytes, body: Body) -> Message:
    match letter:
        case b"Q":
            return Query(body.text())
        case b"P":
            return Parse(body.text(), body.text(), tuple(body.int32() for _ in body.counted()))
        case b"B":
            return _read_bind(body)
        case b"D":
            return Describe(body.kind(), body.text())
        case b"E":
            return Execute(body.text(), max(0, body.int32()))
        case b"C":
            return Close(body.kind(), body.text())
        case b"S":
            return Sync()
        case b"H":
            return Flush()
        case b"X":
            return Terminate()
        case b"p":
            return Password(body.rest())
        case b"d" | b"c" | b"f":
            body.rest()
            return CopyIn()
        case _:
            raise FatalError("08P01", f"a message with the letter {letter!r} is not known")


def _read_bind(body: Body) -> Bind:
    portal, statement = body.text(), body.text()
    formats = _formats(body)
    values = []
    for _ in body.counted():
        size = body.int32()
        values.append(None if size == -1 else body.take(size))
    return Bind(portal, statement, formats, tuple(values), _formats(body))


def _formats(body: Body) -> tuple[int, ...]:
    formats = tuple(body.int16() for _ in body.counted())
    if not set(formats) <= {0, 1}:
        raise FatalError("08P01", f"formats are 0 and 1, not {formats}")
    return formats


def format_of(formats: Sequence[int], place: int) -> int:
    """The format of a value: none given is text, one given is for all."""
    if not formats:
        return 0
    if len(formats) == 1:
        return formats[0]
    if place >= len(formats):
        raise FatalError("08P01", f"{len(formats)} formats for more than {place} values")
    return formats[place]


# What the server says.


def message(letter: bytes, body: bytes = b"") -> bytes:
    """A message of the server."""
    return letter + struct.pack("!i", len(body) + 4) + body


def text(value: str) -> bytes:
    """A text with its end; a zero within would be one too early."""
    return value.replace("\0", "").encode() + b"\0"


def error(state: str, reason: str, severity: Literal["ERROR", "FATAL"] = "ERROR") -> bytes:
    """Something is refused."""
    fields = (b"S", severity), (b"V", severity), (b"C", state), (b"M", reason)
    return message(b"E", b"".join(letter + text(value) for letter, value in fields) + b"\0")


def parameter(name: str, value: str) -> bytes:
    """A setting that clients want to know."""
    return message(b"S", text(name) + text(value))


def ready(status: Literal["I", "T", "E"]) -> bytes:
    """Ready for the next statement: idle, in a transaction, or in one that has failed."""
    return message(b"Z", status.encode())


def complete(tag: str) -> bytes:
    """A statement is done."""
    return message(b"C", text(tag))


def key_data(process: int, key: int) -> bytes:
    """What the client must show to cancel."""
    return message(b"K", struct.pack("!II", process, key))


def negotiate(options: Sequence[str]) -> bytes:
    """Version 3.0 it is, and these options are not known."""
    return message(b"v", struct.pack("!ii", 0, len(options)) + b"".join(map(text, options)))


def parameter_types(types: Sequence[int]) -> bytes:
    """The types of a statement's parameters."""
    return message(b"t", struct.pack(f"!H{len(types)}I", len(types), *types))


@dataclass(frozen=True, slots=True)
class Field:
    """A column of a result."""

    name: str
    oid: int
    size: int
    modifier: int
    format: int


def row_description(fields: Sequence[Field]) -> bytes:
    """The columns that rows will have."""
    body = struct.pack("!H", len(fields))
    for field in fields:
        place = struct.pack("!IHIhih", 0, 0, field.oid, field.size, field.modifier, field.format)
        body += text(field.name) + place
    return message(b"T", body)


def data_row(cells: Iterable[bytes | None], width: int) -> bytes:
    """One row."""
    body = b"".join(b"\xff\xff\xff\xff" if cell is None else sized(cell) for cell in cells)
    return b"D" + struct.pack("!iH", len(body) + 6, width) + body


def copy_out(width: int) -> bytes:
    """Rows follow as text."""
    return message(b"H", struct.pack(f"!bH{width}H", 0, width, *[0] * width))


NO_DATA = message(b"n")
PARSE_COMPLETE = message(b"1")
BIND_COMPLETE = message(b"2")
CLOSE_COMPLETE = message(b"3")
PORTAL_SUSPENDED = message(b"s")
EMPTY_QUERY = message(b"I")
COPY_DONE = message(b"c")
AUTHENTICATED = message(b"R", struct.pack("!i", 0))
SCRAM_OFFER = message(b"R", struct.pack("!i", 10) + b"SCRAM-SHA-256\0\0")


def scram_continue(data: bytes) -> bytes:
    """The server's challenge."""
    return message(b"R", struct.pack("!i", 11) + data)


def scram_final(data: bytes) -> bytes:
    """The server's own proof."""
    return message(b"R", struct.pack("!i", 12) + data)
