"""Tables of PostgreSQL, as they are and as they change: a snapshot, then logical replication.

The snapshot is read in the very state in which the replication slot begins, so a row that is committed in
between comes exactly once. A batch holds whole transactions; its position is where the log stands behind the
last of them, and the server is told that it may forget the log up to there only after the batch has been
committed here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import InvalidOperation
from typing import Any
from uuid import uuid4

import pyarrow as pa

from viewlet.changes import WEIGHT
from viewlet.connectors.base import Batch, ConnectorError, quoted, require
from viewlet.connectors.pgoutput import Commit, Relation, Row, Truncate, Values, decode
from viewlet.connectors.replication import Replication, lsn_number, lsn_text
from viewlet.connectors.text import arrow_types, reader
from viewlet.sql.catalog import Catalog, Table

PART = "log"
OWNER = "owner"  # whose slot it is, written down before there is one
FORGET_AFTER = 16 << 20  # bytes of log about other tables, until the server is told to forget them
LEAVING = 10.0  # seconds in which a reader of a slot that has gone is still leaving it


class PostgresSource:
    """Follows tables of a PostgreSQL server through a publication and a slot, which it makes.

    ``tables`` says which table of the server (``name`` or ``schema.name``) goes into which table here; the
    columns here are a part of those there. The server needs ``wal_level = logical``, and the tables
    ``REPLICA IDENTITY FULL``, so that old rows are sent whole. A slot that nobody reads keeps the server's
    log for ever: :meth:`drop` it when it is not needed any more.
    """

    def __init__(
        self,
        conninfo: str,
        tables: Mapping[str, str],
        *,
        name: str = "viewlet",
        batch_rows: int = 10_000,
    ) -> None:
        require("psycopg", "postgres")
        if not name.isidentifier() or name != name.lower() or not name.isascii():
            raise ConnectorError(f"{name!r} cannot name a slot: use lower-case letters, digits and _")
        self.name = name
        self._conninfo = conninfo
        self._tables = {(t if "." in t else f"public.{t}"): target for t, target in tables.items()}
        self._batch_rows = batch_rows
        self._stream: Replication | None = None
        self._sql: Any = None
        self._relations: dict[int, Relation] = {}

    def batches(self, catalog: Catalog, positions: Mapping[str, str]) -> Iterator[Batch]:
        """The snapshot first if there is no position; then what was committed until now."""
        owner = positions.get(OWNER) or uuid4().hex
        if OWNER not in positions:
            yield Batch({}, {OWNER: owner})
        if PART not in positions:
            with self._connect() as connection:
                batch = self._snapshot(connection, catalog, owner)
            yield batch
            return
        position = lsn_number(positions[PART])
        try:
            if self._stream is None:
                self._sql = self._connect()
                self._stream = self._resume(self._sql, position)
            [goal] = self._sql.execute("SELECT pg_current_wal_flush_lsn()::text").fetchone()
            yield from self._changes(self._stream, catalog, position, lsn_number(goal))
        except BaseException:
            self.close()  # what was received and not committed will be sent again
            raise

    def close(self) -> None:
        """End the replication connection; the slot stays and keeps the place."""
        if self._stream is not None:
            self._stream.close()
            self._stream = None
        if self._sql is not None:
            self._sql.close()
            self._sql = None

    def drop(self) -> None:
        """Remove the slot and the publication from the server."""
        self.close()
        with self._connect() as connection:
            _drop_slot(connection, self.name)
            connection.execute(f'DROP PUBLICATION IF EXISTS "{self.name}"')

    def _connect(self) -> Any:
        import psycopg

        try:
            return psycopg.connect(self._conninfo, autocommit=True)
        except psycopg.OperationalError as reason:
            raise ConnectorError(f"cannot connect to PostgreSQL: {reason}") from None

    # The snapshot.

    def _snapshot(self, connection: Any, catalog: Catalog, owner: str) -> Batch:
        """All rows, at the position where a new slot begins.

        A slot of our own is left from a run that ended before its snapshot was committed: it is made anew.
        """
        _check_settings(connection)
        self._refuse_slot_of_others(connection, owner)
        for source, target in self._tables.items():
            _check_table(connection, source, catalog[target])
        _drop_slot(connection, self.name)
        self._publish(connection, owner)
        with Replication(self._conninfo) as replication:
            position, snapshot = replication.create_slot(self.name)
            connection.autocommit = False
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            connection.execute(f"SET TRANSACTION SNAPSHOT '{snapshot}'")
            connection.execute("SET LOCAL datestyle = 'ISO'")
            connection.execute("SET LOCAL timezone = 'UTC'")
            changes = _Changes(catalog)
            for source, target in self._tables.items():
                names = catalog[target].column_names
                columns = ", ".join(f"{quoted(name)}::text" for name in names)
                rows = connection.execute(f"SELECT {columns} FROM {_qualified(source)}")
                for row in rows:
                    changes.add(target, names, row, 1)
            connection.rollback()
        return Batch(changes.tables(), {PART: lsn_text(position)})

    def _publish(self, connection: Any, owner: str) -> None:
        tables = ", ".join(map(_qualified, self._tables))
        connection.execute(f'DROP PUBLICATION IF EXISTS "{self.name}"')
        with connection.transaction():
            connection.execute(f'CREATE PUBLICATION "{self.name}" FOR TABLE {tables}')
            connection.execute(f"COMMENT ON PUBLICATION \"{self.name}\" IS 'viewlet {owner}'")

    def _refuse_slot_of_others(self, connection: Any, owner: str) -> None:
        """The slot of another database must not be taken away from it; the publication says whose it is."""
        publication = connection.execute(
            "SELECT obj_description(oid, 'pg_publication') FROM pg_publication WHERE pubname = %s",
            [self.name],
        ).fetchone()
        slot = connection.execute(
            "SELECT FROM pg_replication_slots WHERE slot_name = %s", [self.name]
        ).fetchone()
        if (publication or slot) is not None and publication != (f"viewlet {owner}",):
            raise ConnectorError(
                f"the server has a publication or slot {self.name!r} that this database did not make: "
                "choose another name=, or remove them with drop()"
            )

    # The stream.

    def _resume(self, connection: Any, position: int) -> Replication:
        query = "SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE slot_name = %s"
        slot = connection.execute(query, [self.name]).fetchone()
        if slot is None or slot[0] is None or lsn_number(slot[0]) > position:
            raise ConnectorError(
                f"the slot {self.name!r} is gone or ahead of {lsn_text(position)}, so changes are lost: "
                "delete the rows, viewlet.connectors.forget(database, source), and start over with a snapshot"
            )
        self._relations = {}
        replication = Replication(self._conninfo)
        try:
            replication.start(self.name, self.name, position)
            replication.confirm(position)
        except BaseException:
            replication.close()
            raise
        return replication

    def _changes(self, stream: Replication, catalog: Catalog, position: int, goal: int) -> Iterator[Batch]:
        changes, end = _Changes(catalog), position
        for message in map(decode, stream.messages(goal)):
            match message:
                case Relation():
                    self._relations[message.number] = message
                case Row():
                    self._row(changes, message)
                case Truncate(relations):
                    for number in relations:
                        changes.empty(self._target(self._relations[number]))
                case Commit() if message.end <= position:
                    changes = _Changes(catalog)  # it is in the database already
                case Commit():
                    end = message.end
                    if changes.rows >= self._batch_rows:
                        yield changes.batch(end)
                        stream.confirm(end)
                        changes, position = _Changes(catalog), end
        if changes or goal - position > FORGET_AFTER:
            end = max(end, goal)  # all that was committed before the goal has been seen
            yield changes.batch(end)
            stream.confirm(end)

    def _row(self, changes: _Changes, row: Row) -> None:
        relation = self._relations[row.relation]
        target = self._target(relation)
        for values, weight in ((row.old, -1), (row.new, 1)):
            if values is not None:
                changes.add(target, relation.columns, values, weight)

    def _target(self, relation: Relation) -> str:
        name = f"{relation.schema}.{relation.name}"
        if name not in self._tables:
            raise ConnectorError(f"PostgreSQL sends changes of {name}, which is not followed: renamed?")
        return self._tables[name]


@dataclass(slots=True)
class _Changes:
    """Rows with weights on their way to tables."""

    catalog: Catalog
    rows: int = 0
    emptied: set[str] = field(default_factory=set)
    _found: dict[str, list[tuple[tuple[Any, ...], int]]] = field(default_factory=dict)
    _readers: dict[tuple[str, tuple[str, ...]], list[tuple[int, Callable[[str], Any]]]] = field(
        default_factory=dict
    )

    def __bool__(self) -> bool:
        return bool(self.rows or self.emptied)

    def add(self, target: str, names: Sequence[str], values: Values | tuple[Any, ...], weight: int) -> None:
        """A row of text values under these names."""
        table = self.catalog[target]
        key = (table.name, tuple(names))
        if key not in self._readers:
            self._readers[key] = [(_place(names, c.name, table), reader(c.type)) for c in table.columns]
        try:
            row = tuple(
                None if (text := values[i]) is None else read(str(text)) for i, read in self._readers[key]
            )
        except (ValueError, KeyError, InvalidOperation) as reason:
            raise ConnectorError(f"a row of PostgreSQL does not fit table {table.name!r}: {reason}") from None
        self._found.setdefault(table.name, []).append((row, weight))
        self.rows += 1

    def empty(self, target: str) -> None:
        """All rows go, those that came before in this batch too."""
        name = self.catalog[target].name
        self.rows -= len(self._found.pop(name, ()))
        self.emptied.add(name)

    def tables(self) -> dict[str, pa.Table]:
        """Arrow data with ``_weight`` by table."""
        result = {}
        for name, rows in self._found.items():
            types = arrow_types(self.catalog[name])
            columns = {
                column: pa.array([row[i] for row, _ in rows], kind)
                for i, (column, kind) in enumerate(types.items())
            }
            result[name] = pa.table({**columns, WEIGHT: pa.array([weight for _, weight in rows], pa.int64())})
        return result

    def batch(self, end: int) -> Batch:
        """Everything, as one batch that leads up to a position."""
        return Batch(self.tables(), {PART: lsn_text(end)}, frozenset(self.emptied))


def _place(names: Sequence[str], name: str, table: Table) -> int:
    lower = [known.lower() for known in names]
    if name not in lower:
        raise ConnectorError(
            f"PostgreSQL sends no column {name!r} for table {table.name!r}: {', '.join(names)}"
        )
    return lower.index(name)


def _check_settings(connection: Any) -> None:
    [level] = connection.execute("SHOW wal_level").fetchone()
    if level != "logical":
        raise ConnectorError(f"the server's wal_level is {level}: set it to logical and restart the server")


def _check_table(connection: Any, source: str, target: Table) -> None:
    schema, _, name = source.partition(".")
    found = connection.execute(
        "SELECT c.relkind::text, c.relreplident::text, array_agg(a.attname::text) FROM pg_class c "
        "JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_attribute a ON a.attrelid = c.oid "
        "WHERE n.nspname = %s AND c.relname = %s AND a.attnum > 0 AND NOT a.attisdropped GROUP BY c.oid",
        [schema, name],
    ).fetchone()
    if found is None:
        raise ConnectorError(f"the server has no table {source}")
    kind, identity, columns = found
    if kind != "r":
        raise ConnectorError(f"{source} is not a plain table: follow the tables that it is made of")
    if identity != "f":
        raise ConnectorError(f"old rows would not be sent whole: ALTER TABLE {source} REPLICA IDENTITY FULL")
    for column in target.column_names:
        _place(columns, column, target)


def _drop_slot(connection: Any, slot: str) -> None:
    import psycopg

    query = "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = %s"
    given_up = time.monotonic() + LEAVING
    while True:
        try:
            connection.execute(query, [slot])
            return
        except psycopg.errors.ObjectInUse:
            if time.monotonic() > given_up:
                raise ConnectorError(
                    f"the slot {slot!r} is in use by another process: choose another name="
                ) from None
        time.sleep(0.1)


def _qualified(source: str) -> str:
    schema, _, name = source.partition(".")
    return f"{quoted(schema)}.{quoted(name)}"
