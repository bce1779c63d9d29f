"""What tells that somebody else changed a DuckDB table: a mark that changes of the table move.

Where DuckDB has triggers (2.0), each statement that inserts, updates or deletes leaves a row in a table of
ours, in its own transaction: the mark is the number of statements so far. A table that was replaced has lost
its triggers, which the catalog tells. An older DuckDB, or one whose tables are to stay without triggers,
is asked for the number of rows, which an UPDATE does not move.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Protocol, TypeAlias

import duckdb

EVENTS = ("INSERT", "UPDATE", "DELETE")
HAS_TRIGGERS = int(duckdb.__version__.split(".")[0]) >= 2
MOST = 128
"""So many rows are kept before they become one per table."""
LOST = -1
"""The mark of a table whose triggers are gone."""
NUMBERS = "viewlet_statement_numbers"
"""The name of a sequence, and of the prepared statement that reads it."""
IS_TRIGGER = -1

Ask: TypeAlias = Callable[[str], list[Any]]


class Watch(Protocol):
    """The marks of a database's tables.

    No mark by statements is one by rows: a store that watches in one way takes nothing on trust that a store
    has left which watches in the other.
    """

    sees_every_change: ClassVar[bool]

    def begin(self, names: Iterable[str]) -> None:
        """From now on notice changes of these tables."""

    def marks(self, names: Sequence[str], ours: bool) -> Mapping[str, int]:
        """The marks of these tables, within a transaction of ours or of whomever."""

    def moved(self, moves: Mapping[str, int]) -> None:
        """A batch of the store's own has moved marks, and is to be committed."""

    def undone(self) -> None:
        """A transaction of ours was rolled back."""

    def tidy(self) -> None:
        """In a transaction: take less room. Marks stay what they are."""

    def moves(self, rows: int, inserted: bool, deleted: bool) -> int:
        """How far a batch of the store's own moves a mark."""


class Quiet(NamedTuple):
    """That no statement is under way: what the quick question answers as long as none begins, and marks."""

    drawn: int
    triggers: frozenset[str]
    statements: Counter[str]


class Statements:
    """Marks that count statements, which triggers write down.

    Each statement also draws a number from a sequence, for all to see at once, and for good. While as many
    were drawn as are written down, none is under way; and until the next one is drawn, what is written down
    stays what it is. So with every batch only the sequence is asked, which takes half of the time: by a
    prepared statement, while DuckDB plans anew whatever reads a table. A statement that is rolled back
    leaves its number drawn; from then on the table is read every time.
    """

    sees_every_change: ClassVar[bool] = True

    def __init__(self, fetch: Ask, ask: Ask, schema: str) -> None:
        """``ask`` remembers what it has parsed, for what is asked with every batch."""
        self._fetch, self._ask = fetch, ask
        self._written, self._numbers = f"{schema}.statements", f"{schema}.{NUMBERS}"
        self._read = f"SELECT name, statements FROM {self._written}"
        self._rows = 0
        self._quiet: Quiet | None = None
        fetch(f"CREATE SEQUENCE IF NOT EXISTS {self._numbers}")
        fetch(f"CREATE TABLE IF NOT EXISTS {self._written} (name VARCHAR, statements BIGINT, number BIGINT)")
        fetch(
            f"PREPARE {NUMBERS} AS SELECT trigger_name, {IS_TRIGGER} FROM duckdb_triggers() "
            "UNION ALL SELECT sequence_name, last_value FROM duckdb_sequences()"
        )

    def begin(self, names: Iterable[str]) -> None:
        """Create the triggers of these tables."""
        for name in names:
            for event in EVENTS:
                self._fetch(
                    f'CREATE OR REPLACE TRIGGER "{_trigger(event, name)}" AFTER {event} ON "{name}" '
                    f"FOR EACH STATEMENT INSERT INTO {self._written} "
                    f"VALUES ({_literal(name)}, 1, nextval('{self._numbers}'))"
                )

    def marks(self, names: Sequence[str], ours: bool) -> Mapping[str, int]:
        """What is known, if nothing has happened since; else what is written down."""
        quiet = self._quiet
        if quiet is None or self._drawn() != quiet[:2]:
            quiet = self._look(ours)
        return {
            name: quiet.statements[name]
            if all(_trigger(event, name) in quiet.triggers for event in EVENTS)
            else LOST
            for name in names
        }

    def _drawn(self) -> tuple[int, frozenset[str]]:
        """How many numbers were drawn, and which triggers there are.

        A sequence of the same name elsewhere makes it too many, which is noticed as a statement under way.
        """
        rows = self._ask(f"EXECUTE {NUMBERS}")
        drawn = sum(number or 0 for name, number in rows if name == NUMBERS)
        return drawn, frozenset(name for name, number in rows if number == IS_TRIGGER)

    def _look(self, ours: bool) -> Quiet:
        """Read the table, and then the sequence: a number that was drawn in between must not be missed."""
        rows = self._ask(self._read)
        statements: Counter[str] = Counter()
        for name, number in rows:
            statements[name] += number
        found = Quiet(*self._drawn(), statements)
        self._rows = len(rows)
        # Of a transaction that is not ours we would not hear if it was rolled back.
        self._quiet = found if ours and found.drawn == statements.total() else None
        return found

    def moved(self, moves: Mapping[str, int]) -> None:
        """So many numbers were drawn by ourselves; if there are more, that is noticed."""
        self._rows += sum(moves.values())
        if self._quiet is not None:
            drawn, triggers, statements = self._quiet
            self._quiet = Quiet(drawn + sum(moves.values()), triggers, statements + Counter(moves))

    def undone(self) -> None:
        """What was known may have been part of it."""
        self._quiet = None

    def tidy(self) -> None:
        """Where there are many rows, keep one per table."""
        if self._rows > MOST:
            table = f"{self._written.partition('.')[0]}.added_up"
            self._fetch(
                f"CREATE OR REPLACE TABLE {table} AS SELECT name, sum(statements)::BIGINT AS statements, "
                f"max(number) AS number FROM {self._written} GROUP BY name"
            )
            self._fetch(f"DELETE FROM {self._written}")
            self._fetch(f"INSERT INTO {self._written} FROM {table}")
            self._rows = 0

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

    def marks(self, names: Sequence[str], ours: bool) -> Mapping[str, int]:
        """-2 - n for n rows: neither a number of statements nor ``LOST``."""
        return {name: -2 - self._ask(f'SELECT count(*) FROM "{name}"')[0][0] for name in names}

    def moved(self, moves: Mapping[str, int]) -> None:
        """Rows are counted again."""

    def undone(self) -> None:
        """Nothing was remembered."""

    def tidy(self) -> None:
        """There is nothing to tidy."""

    def moves(self, rows: int, inserted: bool, deleted: bool) -> int:
        """Down by the rows that come, up by those that go."""
        return -rows


def _trigger(event: str, name: str) -> str:
    return f"viewlet_{event.lower()}_{name}"


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
