"""The messages of PostgreSQL's logical decoding plugin ``pgoutput``, protocol version 1, read from bytes.

One transaction is Begin, then Relation (before the first change of a table in a session), Insert, Update,
Delete and Truncate messages, then Commit. Values come as text.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TypeAlias

from viewlet.connectors.base import ConnectorError

UNCHANGED = object()  # a large value that an update has left alone and that is not sent again
Values: TypeAlias = list[str | object | None]


@dataclass(frozen=True, slots=True)
class Relation:
    """A table by its number, with the names of its columns."""

    number: int
    schema: str
    name: str
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Row:
    """A row that goes (``old``), comes (``new``), or both."""

    relation: int
    old: Values | None
    new: Values | None


@dataclass(frozen=True, slots=True)
class Truncate:
    """All rows of these tables go."""

    relations: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Commit:
    """The end of a transaction; the log has been read up to ``end``."""

    end: int


Message: TypeAlias = Relation | Row | Truncate | Commit | None


def decode(message: bytes) -> Message:
    """One message; ``None`` for those that say nothing about rows.

    >>> decode(b"C" + bytes(9) + (0x1_0000_0002).to_bytes(8, "big") + bytes(8))
    Commit(end=4294967298)
    """
    reader = _Reader(message[1:])
    match message[:1]:
        case b"C":
            reader.skip(9)  # flags, and where the commit record itself is
            return Commit(reader.number("Q"))
        case b"R":
            return _relation(reader)
        case b"I":
            number = reader.number("I")
            reader.skip(1)
            return Row(number, None, reader.values())
        case b"U":
            return _update(reader)
        case b"D":
            number = reader.number("I")
            return Row(number, _whole_old_row(reader), None)
        case b"T":
            count = reader.number("I")
            reader.skip(1)  # options: cascade, restart identity
            return Truncate(tuple(reader.number("I") for _ in range(count)))
        case b"B" | b"O" | b"Y" | b"M":  # begin, origin, type, message
            return None
        case kind:
            raise ConnectorError(f"PostgreSQL sent a message of an unknown kind {kind!r}")


def _relation(reader: _Reader) -> Relation:
    number, schema, name = reader.number("I"), reader.text(), reader.text()
    reader.skip(1)  # replica identity
    columns = []
    for _ in range(reader.number("H")):
        reader.skip(1)  # whether it is of the key
        columns.append(reader.text())
        reader.skip(8)  # type and its modifier
    return Relation(number, schema, name, tuple(columns))


def _update(reader: _Reader) -> Row:
    """Both rows; what the new one leaves unchanged is taken from the old one."""
    number = reader.number("I")
    old = _whole_old_row(reader)
    reader.skip(1)
    new = reader.values()
    if len(old) != len(new):
        raise ConnectorError("PostgreSQL sent an update from and to rows of different widths")
    return Row(number, old, [o if n is UNCHANGED else n for o, n in zip(old, new, strict=True)])


def _whole_old_row(reader: _Reader) -> Values:
    if reader.take(1) != b"O":
        raise ConnectorError(
            "PostgreSQL does not send old rows whole: ALTER TABLE ... REPLICA IDENTITY FULL, then start over"
        )
    return reader.values()


class _Reader:
    """Bytes that are read from front to back."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def take(self, count: int) -> bytes:
        taken = self._data[self._at : self._at + count]
        if len(taken) != count:
            raise ConnectorError("PostgreSQL sent a message that ends too soon")
        self._at += count
        return taken

    def skip(self, count: int) -> None:
        self.take(count)

    def number(self, form: str) -> int:
        value: int = struct.unpack(f"!{form}", self.take(struct.calcsize(f"!{form}")))[0]
        return value

    def text(self) -> str:
        end = self._data.find(b"\0", self._at)
        if end < 0:
            raise ConnectorError("PostgreSQL sent a message that ends too soon")
        text = _decoded(self._data[self._at : end])
        self._at = end + 1
        return text

    def values(self) -> Values:
        found: Values = []
        for _ in range(self.number("H")):
            match self.take(1):
                case b"n":
                    found.append(None)
                case b"u":
                    found.append(UNCHANGED)
                case b"t":
                    found.append(_decoded(self.take(self.number("I"))))
                case kind:
                    raise ConnectorError(f"PostgreSQL sent a value of an unknown kind {kind!r}")
        return found


def _decoded(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as reason:
        raise ConnectorError(f"PostgreSQL sent text that is not UTF-8: {reason}") from None
