"""A replication connection to PostgreSQL: a slot, and the stream of messages behind it.

psycopg offers the protocol at the level of libpq. Positions in the log are integers here; ``lsn_text`` gives
PostgreSQL's way to write them.
"""

from __future__ import annotations

import select
import time
from collections.abc import Iterator
from types import TracebackType
from typing import Any

from viewlet.connectors.base import ConnectorError

ASK_AGAIN = 5.0  # seconds of silence after which the server is asked whether it is there
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
        result = self._run(f"CREATE_REPLICATION_SLOT {_name(slot)} LOGICAL pgoutput EXPORT_SNAPSHOT")
        return lsn_number(result.get_value(0, 1).decode()), result.get_value(0, 2).decode()

    def start(self, slot: str, publication: str, position: int) -> None:
        """Begin to receive what was committed behind a position."""
        options = f"proto_version '1', publication_names '{publication}'"
        self._run(f"START_REPLICATION SLOT {_name(slot)} LOGICAL {lsn_text(position)} ({options})")

    def _run(self, command: str) -> Any:
        from psycopg import pq

        result = self._connection.pgconn.exec_(command.encode())
        good = (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COPY_BOTH)
        if result.status not in good:
            raise ConnectorError(f"PostgreSQL refused {command.split(' LOGICAL')[0]}: {_reason(result)}")
        return result

    def messages(self, goal: int) -> Iterator[bytes]:
        """The messages of all transactions that were committed before ``goal``, whole, and maybe of more."""
        seen, inside = 0, False
        self._ask()
        while seen < goal or inside:
            data = self._receive()
            if data[:1] == b"w":
                inside = data[25:26] != b"C"
                yield data[25:]
            elif data[:1] == b"k":
                seen = max(seen, int.from_bytes(data[1:9], "big"))
                if seen < goal or inside:
                    time.sleep(0.002)  # not there yet
                    self._ask()

    def confirm(self, position: int) -> None:
        """Let the server forget what stands before a position."""
        self._confirmed = position
        self._ask(reply=False)

    def _ask(self, reply: bool = True) -> None:
        """Send our status; with ``reply`` the server answers with how far it has sent."""
        pgconn = self._connection.pgconn
        status = b"r" + self._confirmed.to_bytes(8, "big") * 3 + bytes(8) + bytes([reply])
        pgconn.put_copy_data(status)
        pgconn.flush()

    def _receive(self) -> bytes:
        import psycopg

        pgconn = self._connection.pgconn
        waited = time.monotonic()
        while True:
            try:
                size, data = pgconn.get_copy_data(1)
            except psycopg.Error as reason:
                raise ConnectorError(f"the connection to PostgreSQL broke: {reason}") from None
            if size > 0:
                return bytes(data)
            if size < 0:
                raise ConnectorError(f"PostgreSQL ended the replication: {_reason(pgconn.get_result())}")
            if not select.select([pgconn.socket], [], [], ASK_AGAIN)[0]:
                self._ask()
            if time.monotonic() - waited > GIVE_UP:
                raise ConnectorError(f"PostgreSQL has been silent for {GIVE_UP:.0f} seconds")
            pgconn.consume_input()

    def close(self) -> None:
        """End the connection."""
        self._connection.close()

    def __enter__(self) -> Replication:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _reason(result: Any) -> str:
    return str(result.error_message.decode(errors="replace").strip()) if result is not None else "no reason"


def _name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
