"""Python's database interface (PEP 249), for tools that know no other: ``dbapi.connect("market.viewlet")``.

Every statement is a commit of its own, so ``commit()`` has nothing left to do and ``rollback()`` refuses once
something has changed. Parameters are ``?``; their values become literals of the database's dialect.

>>> connection = connect()
>>> cursor = connection.cursor()
>>> _ = cursor.execute("CREATE TABLE bids (broker VARCHAR, volume BIGINT)")
>>> _ = cursor.executemany("INSERT INTO bids VALUES (?, ?)", [("Ann", 200), ("it's Bob", 50)])
>>> cursor.execute("SELECT volume FROM bids WHERE broker = ?", ["it's Bob"]).fetchall()
[(50,)]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from viewlet.connecting import connect as open_database
from viewlet.database import Database
from viewlet.dbapi.errors import (
    DatabaseError,
    DataError,
    Error,
    IntegrityError,
    InterfaceError,
    InternalError,
    NotSupportedError,
    OperationalError,
    ProgrammingError,
    Warning,
    translated,
)
from viewlet.dbapi.parameters import Parameters, bound, literal, plain_insert, refuse_ragged
from viewlet.dbapi.types import (
    BINARY,
    BOOLEAN,
    DATETIME,
    NUMBER,
    OTHER,
    ROWID,
    STRING,
    Binary,
    Date,
    DateFromTicks,
    Description,
    Time,
    TimeFromTicks,
    Timestamp,
    TimestampFromTicks,
    TypeCode,
    described,
)
from viewlet.dml import Version

__all__ = [
    "BINARY",
    "BOOLEAN",
    "DATETIME",
    "NUMBER",
    "OTHER",
    "ROWID",
    "STRING",
    "Binary",
    "Connection",
    "Cursor",
    "DataError",
    "DatabaseError",
    "Date",
    "DateFromTicks",
    "Description",
    "Error",
    "IntegrityError",
    "InterfaceError",
    "InternalError",
    "NotSupportedError",
    "OperationalError",
    "Parameters",
    "ProgrammingError",
    "Time",
    "TimeFromTicks",
    "Timestamp",
    "TimestampFromTicks",
    "TypeCode",
    "Warning",
    "apilevel",
    "bound",
    "connect",
    "literal",
    "paramstyle",
    "threadsafety",
]

apilevel = "2.0"
threadsafety = 2  # threads may share connections: calls queue up at the database's lock
paramstyle = "qmark"


def connect(target: Database | object = None, **options: Any) -> Connection:
    """A connection to a path, to a new database in memory, or to a database that is open already.

    One that was open already stays open when the connection is closed. The options are those of
    :func:`viewlet.connect`.
    """
    if isinstance(target, Database):
        if options:
            raise InterfaceError(f"an open database takes no options: {', '.join(options)}")
        return Connection(target, owned=False)
    with translated():
        return Connection(open_database(target, **options), owned=True)


class Connection:
    """A database as PEP 249 has it; ``database`` is the one behind it."""

    Warning = Warning
    Error = Error
    InterfaceError = InterfaceError
    DatabaseError = DatabaseError
    DataError = DataError
    OperationalError = OperationalError
    IntegrityError = IntegrityError
    InternalError = InternalError
    ProgrammingError = ProgrammingError
    NotSupportedError = NotSupportedError

    def __init__(self, database: Database, *, owned: bool) -> None:
        self.database = database
        self._owned = owned
        self._closed = False
        self._committed = database.version

    def cursor(self) -> Cursor:
        """A new cursor."""
        self.refuse_if_closed()
        return Cursor(self)

    def execute(self, operation: str, parameters: Parameters = ()) -> Cursor:
        """A new cursor, executed."""
        return self.cursor().execute(operation, parameters)

    def commit(self) -> None:
        """Nothing is left to do: each statement was committed by itself."""
        self.refuse_if_closed()
        self._committed = self.database.version

    def rollback(self) -> None:
        """Nothing to undo, or refused: what has been committed stays."""
        self.refuse_if_closed()
        if self.database.version != self._committed:
            changes = f"versions {self._committed + 1} to {self.database.version}"
            raise NotSupportedError(f"each statement is committed by itself: {changes} stay")

    def close(self) -> None:
        """Close the connection, and its database if it was opened for it."""
        if not self._closed:
            self._closed = True
            if self._owned:
                self.database.close()

    def refuse_if_closed(self) -> None:
        """Refuse what a closed connection cannot do."""
        if self._closed:
            raise InterfaceError("the connection is closed")

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Cursor:
    """One statement at a time, and its rows."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.arraysize = 1
        self.description: list[Description] | None = None
        self.rowcount = -1
        self.lastrowid: None = None
        self._rows: list[tuple[Any, ...]] | None = None
        self._at = 0
        self._closed = False

    @property
    def rownumber(self) -> int | None:
        """The number of the next row, from 0; ``None`` without rows."""
        return None if self._rows is None else self._at

    def execute(self, operation: str, parameters: Parameters = ()) -> Cursor:
        """Run a statement with values in place of its question marks."""
        database = self._database()
        with translated():
            self._take(database.execute(bound(operation, parameters, database.dialect)))
        return self

    def executemany(self, operation: str, seq_of_parameters: Sequence[Parameters]) -> Cursor:
        """Run a statement for each of many values; an INSERT of nothing but them is one commit."""
        database = self._database()
        rows = [tuple(parameters) for parameters in seq_of_parameters]
        with translated():
            target = plain_insert(operation, database.dialect)
            if target is not None and rows:
                table, columns = target
                refuse_ragged(rows, len(columns) if columns else len(database.catalog[table].columns))
                data = [dict(zip(columns, row, strict=True)) for row in rows] if columns else rows
                database.insert(table, data)
                self._take(None)
                self.rowcount = len(rows)
            else:
                results = [database.execute(bound(operation, row, database.dialect)) for row in rows]
                self._take(None)
                counts = [result.rows for result in results if isinstance(result, Version)]
                self.rowcount = sum(counts) if len(counts) == len(rows) else -1
        return self

    def fetchone(self) -> tuple[Any, ...] | None:
        """The next row."""
        return next(iter(self.fetchmany(1)), None)

    def fetchmany(self, size: int | None = None) -> list[tuple[Any, ...]]:
        """The next rows, ``arraysize`` of them without a number."""
        rows = self._fetchable()
        taken = rows[self._at : self._at + (self.arraysize if size is None else size)]
        self._at += len(taken)
        return taken

    def fetchall(self) -> list[tuple[Any, ...]]:
        """The rows that are left."""
        return self.fetchmany(len(self._fetchable()))

    def nextset(self) -> None:
        """There is never a second set of rows."""
        self._database()

    def setinputsizes(self, sizes: Sequence[Any]) -> None:
        """Nothing to prepare."""

    def setoutputsize(self, size: int, column: int | None = None) -> None:
        """Nothing to prepare."""

    def close(self) -> None:
        """Forget the rows; the cursor is of no more use."""
        self._closed, self._rows = True, None

    def _database(self) -> Database:
        self.connection.refuse_if_closed()
        if self._closed:
            raise InterfaceError("the cursor is closed")
        return self.connection.database

    def _take(self, result: Any) -> None:
        self._at, self._rows, self.description, self.rowcount = 0, None, None, -1
        if isinstance(result, Version):
            self.rowcount = result.rows
        if isinstance(result, str):
            result = pa.table({"explain": result.splitlines()})
        if isinstance(result, pa.Table):
            columns = [column.to_pylist() for column in result.columns]
            self._rows = list(zip(*columns, strict=True)) if columns else []
            self.description = [described(column) for column in result.schema]
            self.rowcount = len(self._rows)

    def _fetchable(self) -> list[tuple[Any, ...]]:
        self._database()
        if self._rows is None:
            raise ProgrammingError("there are no rows to fetch: execute a query first")
        return self._rows

    def __iter__(self) -> Cursor:
        return self

    def __next__(self) -> tuple[Any, ...]:
        row = self.fetchone()
        if row is None:
            raise StopIteration
        return row

    def __enter__(self) -> Cursor:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
