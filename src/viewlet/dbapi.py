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

import datetime
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from typing import Any, TypeAlias

import pyarrow as pa
import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError, TokenError
from sqlglot.tokenizer_core import TokenType

from viewlet import errors
from viewlet.database import Database
from viewlet.database import connect as open_database
from viewlet.dml import Version

apilevel = "2.0"
threadsafety = 2  # threads may share connections: calls queue up at the database's lock
paramstyle = "qmark"


class Warning(Exception):  # noqa: N818  the name that PEP 249 gives it
    """Something to know; never raised so far."""


class Error(errors.ViewletError):
    """Whatever goes wrong through this interface; its ``__cause__`` is Viewlet's own error."""


class InterfaceError(Error):
    """The interface is used wrongly, a closed connection for example."""


class DatabaseError(Error):
    """The database refuses."""


class DataError(DatabaseError):
    """A value does not fit."""


class OperationalError(DatabaseError):
    """The database cannot run: no compiler, no disk."""


class IntegrityError(DatabaseError):
    """A key would be violated."""


class InternalError(DatabaseError):
    """A fault of Viewlet."""


class ProgrammingError(DatabaseError):
    """The SQL text is wrong, or names what does not exist."""


class NotSupportedError(DatabaseError):
    """Valid, but refused."""


# The first class that fits, in order.
_TRANSLATED: tuple[tuple[type[errors.ViewletError], type[DatabaseError]], ...] = (
    (errors.UnsupportedError, NotSupportedError),
    (errors.CompileError, NotSupportedError),
    (errors.SqlError, ProgrammingError),
    (errors.CatalogError, ProgrammingError),
    (errors.DataError, DataError),
    (errors.BackendError, OperationalError),
    (errors.StorageError, OperationalError),
    (errors.PlanError, InternalError),
    (errors.CalculusError, InternalError),
)


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except Error:
        raise
    except errors.ViewletError as reason:
        for kind, own in _TRANSLATED:
            if isinstance(reason, kind):
                raise own(str(reason)) from reason
        raise DatabaseError(str(reason)) from reason


class TypeCode:
    """A class of column types; the second item of a description is one of them."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


STRING, BINARY, NUMBER, DATETIME, ROWID = map(TypeCode, ("STRING", "BINARY", "NUMBER", "DATETIME", "ROWID"))
BOOLEAN, OTHER = TypeCode("BOOLEAN"), TypeCode("OTHER")

Date = datetime.date
Time = datetime.time
Timestamp = datetime.datetime
Binary = bytes


def DateFromTicks(ticks: float) -> datetime.date:  # noqa: N802  PEP 249
    """The local date of a time in seconds."""
    return datetime.date(*time.localtime(ticks)[:3])


def TimeFromTicks(ticks: float) -> datetime.time:  # noqa: N802  PEP 249
    """The local time of day of a time in seconds."""
    return datetime.time(*time.localtime(ticks)[3:6])


def TimestampFromTicks(ticks: float) -> datetime.datetime:  # noqa: N802  PEP 249
    """The local date and time of a time in seconds."""
    return datetime.datetime(*time.localtime(ticks)[:6])


Description: TypeAlias = tuple[str, TypeCode, None, None, int | None, int | None, bool]
Parameters: TypeAlias = Sequence[Any]


def connect(target: Database | object = None, **options: Any) -> Connection:
    """A connection to a path, to a new database in memory, or to a database that is open already.

    One that was open already stays open when the connection is closed. The options are those of
    :func:`viewlet.connect`.
    """
    if isinstance(target, Database):
        if options:
            raise InterfaceError(f"an open database takes no options: {', '.join(options)}")
        return Connection(target, owned=False)
    with _translated():
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
        with _translated():
            self._take(database.execute(bound(operation, parameters, database.dialect)))
        return self

    def executemany(self, operation: str, seq_of_parameters: Sequence[Parameters]) -> Cursor:
        """Run a statement for each of many values; an INSERT of nothing but them is one commit."""
        database = self._database()
        rows = [tuple(parameters) for parameters in seq_of_parameters]
        with _translated():
            target = _plain_insert(operation, database.dialect)
            if target is not None and rows:
                table, columns = target
                _refuse_ragged(rows, len(columns) if columns else len(database.catalog[table].columns))
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
            self.description = [_described(column) for column in result.schema]
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


def _described(column: pa.Field) -> Description:
    kind = column.type
    is_decimal = pa.types.is_decimal(kind)
    precision, scale = (kind.precision, kind.scale) if is_decimal else (None, None)
    return column.name, _type_code(kind), None, None, precision, scale, column.nullable


def _type_code(kind: pa.DataType) -> TypeCode:
    checks = (
        (pa.types.is_boolean, BOOLEAN),
        (pa.types.is_integer, NUMBER),
        (pa.types.is_floating, NUMBER),
        (pa.types.is_decimal, NUMBER),
        (pa.types.is_temporal, DATETIME),
        (pa.types.is_string, STRING),
        (pa.types.is_large_string, STRING),
        (pa.types.is_binary, BINARY),
    )
    return next((code for check, code in checks if check(kind)), OTHER)


def bound(operation: str, parameters: Parameters, dialect: str) -> str:
    """The statement with literals in place of its question marks; those in strings and comments stay.

    >>> bound("SELECT '?' AS a, ? AS b -- ?", ["it's"], "duckdb")
    "SELECT '?' AS a, 'it''s' AS b -- ?"
    """
    if isinstance(parameters, (str, bytes, Mapping)):
        raise InterfaceError("parameters are a sequence of values, one for each question mark")
    places = _places(operation, dialect)
    if len(places) != len(parameters):
        raise ProgrammingError(f"{len(places)} question marks, but {len(parameters)} values")
    parts, end = [], 0
    for place, value in zip(places, parameters, strict=True):
        parts += [operation[end:place], literal(value).sql(dialect)]
        end = place + 1
    return "".join([*parts, operation[end:]])


def _places(operation: str, dialect: str) -> list[int]:
    try:
        tokens = sqlglot.tokenize(operation, read=dialect)
    except TokenError as reason:
        raise ProgrammingError(f"the text cannot be read: {reason}") from None
    return [token.start for token in tokens if token.token_type is TokenType.PLACEHOLDER]


def literal(value: Any) -> exp.Expr:
    """A Python value as SQL."""
    match value:
        case None:
            return exp.null()
        case bool():
            return exp.Boolean(this=value)
        case int():
            return _signed(str(abs(value)), value < 0)
        case Decimal() if value.is_finite():
            return _decimal(value)
        case float():
            return exp.cast(exp.Literal.string(repr(value)), "double")
        case str():
            return exp.Literal.string(value)
        case datetime.datetime() if value.tzinfo is None:
            return exp.cast(exp.Literal.string(value.isoformat(" ")), exp.DType.TIMESTAMPNTZ)
        case datetime.date() if not isinstance(value, datetime.datetime):
            return exp.cast(exp.Literal.string(value.isoformat()), "date")
        case _:
            kinds = "None, bool, int, float, Decimal, str, date and datetime without time zone"
            what = f"a {type(value).__name__} cannot be a parameter: {value!r}"
            raise NotSupportedError(f"{what}; there are {kinds}")


def _signed(digits: str, negative: bool) -> exp.Expr:
    number = exp.Literal.number(digits)
    return exp.Paren(this=exp.Neg(this=number)) if negative else number


def _decimal(value: Decimal) -> exp.Expr:
    """A DECIMAL with as many digits as are written."""
    _, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    scale = max(0, -exponent)
    precision = max(len(digits) + max(0, exponent), scale, 1)
    if precision > 38:
        raise DataError(f"{value} has {precision} digits, DECIMAL has at most 38")
    return exp.cast(exp.Literal.string(format(value, "f")), f"decimal({precision}, {scale})")


def _plain_insert(operation: str, dialect: str) -> tuple[str, list[str]] | None:
    """Table and columns of ``INSERT INTO t [(columns)] VALUES (?, ?, ...)``, else ``None``."""
    words = operation.split(None, 1)
    if not words or words[0].upper() != "INSERT":
        return None
    try:
        tree = sqlglot.parse_one(operation, read=dialect)
    except SqlglotError:
        return None  # whatever is wrong with it, the database says it better
    match tree:
        case exp.Insert(this=target, expression=exp.Values(expressions=[exp.Tuple(expressions=cells)])):
            plain = all(isinstance(cell, exp.Placeholder) for cell in cells)
            if plain and not any(tree.args.get(part) for part in ("conflict", "overwrite", "returning")):
                if isinstance(target, exp.Schema):
                    return target.this.name, [column.name for column in target.expressions]
                return target.name, []
    return None


def _refuse_ragged(rows: Sequence[Sequence[Any]], width: int) -> None:
    for number, row in enumerate(rows):
        if len(row) != width:
            raise ProgrammingError(f"row {number} has {len(row)} values, {width} are needed")
