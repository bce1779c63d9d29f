"""A replication connection to PostgreSQL: a slot, and the stream of messages behind it.

psycopg offers the protocol at the level of libpq. Positions in the log are integers here; ``lsn_text`` gives
PostgreSQL's way to write them.
"""

from __future__ import annotations

import select
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any

from viewlet.connectors.base import ConnectorError, quoted

FIRST_PATIENCE = 0.02  # seconds of silence after which the server is asked again
GIVE_UP = 60.0


def lsn_text(lsn: int) -> str:
    """A position as PostgreSQL writes it.

    >>> lsn_text(0x16_0000_00FF), lsn_number("16/FF")
    ('16/FF', 94489280767)
    """
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


def lsn_number(text: str) -> int:
    """A position from its text."""
    high, _, low = text.partition("/")
    return (int(high, 16) << 32) + int(low, 16)


class Replication:
    """One connection in replication mode."""

    def __init__(self, conninfo: str) -> None:
        import psycopg

        self._confirmed = 0
        self._connection: Any = psycopg.connect(
            conninfo, autocommit=True, replication="database", options="-c datestyle=ISO -c timezone=UTC"
        )

    def create_slot(self, slot: str) -> tuple[int, str]:
        """Make a slot; gives the position where it begins and the name of the snapshot at that position."""
        result = self._run(f"CREATE_REPLICATION_SLOT {quoted(slot)} LOGICAL pgoutput EXPORT_SNAPSHOT")
        return lsn_number(result.get_value(0, 1).decode()), result.get_value(0, 2).decode()

    def start(self, slot: str, publication: str, position: int) -> None:
        """Begin to receive what was committed behind a position."""
        options = f"proto_version '1', publication_names '{publication}'"
        self._run(f"START_REPLICATION SLOT {quoted(slot)} LOGICAL {lsn_text(position)} ({options})")

    def _run(self, command: str) -> Any:
        from psycopg import pq

        result = self._connection.pgconn.exec_(command.encode())
        good = (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COPY_BOTH)
        if result.status not in good:
            raise ConnectorError(f"PostgreSQL refused {command.split(' LOGICAL')[0]}: {_reason(result)}")
        return result

    def messages(self, goal: int) -> Iterator[bytes]:
        """The messages of all transactions that were committed before ``goal``, whole, and maybe of more.

        The server is asked how far it has sent, and asked again only when it is silent: answers to questions
        of before may still be on their way, and must not call forth more.
        """
        seen, inside, silence, patience = 0, False, 0.0, FIRST_PATIENCE
        self._ask()
        while seen < goal or inside:
            data = self._receive(patience)
            if data is None:
                silence += patience
                if silence > GIVE_UP:
                    raise ConnectorError(f"PostgreSQL has been silent for {GIVE_UP:.0f} seconds")
                patience = min(1.0, 2 * patience)
                self._ask()
                continue
            silence, patience = 0.0, FIRST_PATIENCE
            if data[:1] == b"w":
                inside = data[25:26] != b"C"
                yield data[25:]
            elif data[:1] == b"k":
                seen = max(seen, int.from_bytes(data[1:9], "big"))

    def confirm(self, position: int) -> None:
        """Let the server forget what stands before a position."""
        self._confirmed = position
        self._ask(reply=False)

    def _ask(self, reply: bool = True) -> None:
        """Send our status; with ``reply`` the server answers with how far it has sent."""
        pgconn = self._connection.pgconn
        status = b"r" + self._confirmed.to_bytes(8, "big") * 3 + bytes(8) + bytes([reply])
        with _broken():
            pgconn.put_copy_data(status)
            pgconn.flush()

    def _receive(self, patience: float) -> bytes | None:
        """The next piece of the stream, or ``None`` if there is none for so many seconds."""
        pgconn = self._connection.pgconn
        with _broken():
            size, data = pgconn.get_copy_data(1)
            if size == 0 and select.select([pgconn.socket], [], [], patience)[0]:
                pgconn.consume_input()
                size, data = pgconn.get_copy_data(1)
        if size < 0:
            raise ConnectorError(f"PostgreSQL ended the replication: {_reason(pgconn.get_result())}")
        return bytes(data) if size else None

    def close(self) -> None:
        """End the connection."""
        self._connection.close()

    def __enter__(self) -> Replication:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


@contextmanager
def _broken() -> Iterator[None]:
    import psycopg

    try:
        yield
    except psycopg.Error as reason:
        raise ConnectorError(f"the connection to PostgreSQL broke: {reason}") from None


def _reason(result: Any) -> str:
    return str(result.error_message.decode(errors="replace").strip()) if result is not None else "no reason"
