"""What tells that somebody else changed a DuckDB table: a mark that changes of the table move.

Where DuckDB has triggers (2.0), each statement that inserts, updates or deletes leaves a row in a table of
ours, in its own transaction: the mark is the number of statements so far. A table that was replaced has lost
its triggers, which the same query tells. An older DuckDB, or one whose tables are to stay without triggers,
is asked for the number of rows, which an UPDATE does not move.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Protocol, TypeAlias

import duckdb

EVENTS = ("INSERT", "UPDATE", "DELETE")
HAS_TRIGGERS = int(duckdb.__version__.split(".")[0]) >= 2
MOST = 32
"""So many rows are kept before they become one per table."""
LOST = -1
"""The mark of a table whose triggers are gone."""

Ask: TypeAlias = Callable[[str], list[Any]]


class Watch(Protocol):
    """The marks of a database's tables.

    No mark by statements is one by rows: a store that watches in one way takes nothing on trust that a store
    has left which watches in the other.
    """

    sees_every_change: ClassVar[bool]

    def begin(self, names: Iterable[str]) -> None:
        """From now on notice changes of these tables."""

    def marks(self, names: Sequence[str]) -> Mapping[str, int]:
        """The marks of these tables."""

    def tidy(self) -> None:
        """In a transaction: take less room. Marks stay what they are."""

    def moves(self, rows: int, inserted: bool, deleted: bool) -> int:
        """How far a batch of the store's own moves a mark."""


class Statements:
    """Marks that count statements, which triggers write down."""

    sees_every_change: ClassVar[bool] = True

    def __init__(self, fetch: Ask, ask: Ask, schema: str) -> None:
        """``ask`` remembers what it has parsed, for what is asked with every batch."""
        self._fetch, self._ask, self._noticed = fetch, ask, f"{schema}.noticed"
        self._asked = f"SELECT trigger_name, 0 FROM duckdb_triggers() UNION ALL FROM {self._noticed}"
        self._rows = 0
        fetch(f"CREATE TABLE IF NOT EXISTS {self._noticed} (name VARCHAR, statements BIGINT)")

    def begin(self, names: Iterable[str]) -> None:
        """Create the triggers of these tables."""
        for name in names:
            text = "'" + name.replace("'", "''") + "'"
            for event in EVENTS:
                self._fetch(
                    f'CREATE OR REPLACE TRIGGER "{_trigger(event, name)}" AFTER {event} ON "{name}" '
                    f"FOR EACH STATEMENT INSERT INTO {self._noticed} VALUES ({text}, 1)"
                )

    def marks(self, names: Sequence[str]) -> Mapping[str, int]:
        """By one query for all tables."""
        rows = self._ask(self._asked)
        statements: Counter[str] = Counter()
        for name, number in rows:
            statements[name] += number
        self._rows = len(rows) - len(statements)
        watched = {name for name, number in statements.items() if not number}
        return {
            name: statements[name] if all(_trigger(event, name) in watched for event in EVENTS) else LOST
            for name in names
        }

    def tidy(self) -> None:
        """Where there are many rows, keep one per table."""
        if self._rows > MOST:
            table = f"{self._noticed.partition('.')[0]}.added_up"
            self._fetch(
                f"CREATE OR REPLACE TABLE {table} AS "
                f"SELECT name, sum(statements)::BIGINT AS statements FROM {self._noticed} GROUP BY name"
            )
            self._fetch(f"DELETE FROM {self._noticed}")
            self._fetch(f"INSERT INTO {self._noticed} FROM {table}")

    def moves(self, rows: int, inserted: bool, deleted: bool) -> int:
        """A statement each for what is inserted and what is deleted."""
        return inserted + deleted


class RowCounts:
    """Marks that tell the number of rows: nothing is left in the user's tables, and an UPDATE is not seen."""

    sees_every_change: ClassVar[bool] = False

    def __init__(self, ask: Ask) -> None:
        self._ask = ask

    def begin(self, names: Iterable[str]) -> None:
        """There is nothing to prepare."""

    def marks(self, names: Sequence[str]) -> Mapping[str, int]:
        """-2 - n for n rows: neither a number of statements nor ``LOST``."""
        return {name: -2 - self._ask(f'SELECT count(*) FROM "{name}"')[0][0] for name in names}

    def tidy(self) -> None:
        """There is nothing to tidy."""

    def moves(self, rows: int, inserted: bool, deleted: bool) -> int:
        """Down by the rows that come, up by those that go."""
        return -rows


def _trigger(event: str, name: str) -> str:
    return f"viewlet_{event.lower()}_{name}"
