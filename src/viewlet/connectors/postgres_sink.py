"""A view as a table of a PostgreSQL server, by upserts and deletes on its key, one transaction per step."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from viewlet.changes import CHANGE_TYPE
from viewlet.connectors.base import ConnectorError, quoted, require
from viewlet.connectors.keyed import by_key

VERSIONS = "viewlet_versions"


class PostgresSink:
    """Keeps a table, which must exist with a unique index on ``key``.

    Beside it the table ``viewlet_versions`` (made if missing) says of which commit the rows are: the same
    transaction writes both.
    """

    def __init__(self, conninfo: str, table: str, key: Sequence[str]) -> None:
        require("psycopg", "postgres")
        if not key:
            raise ConnectorError(f"{table}: upserts need the columns of a key")
        self._conninfo, self._name, self._key = conninfo, table, tuple(key)
        self._table = ".".join(quoted(part) for part in table.split("."))
        self._connection: Any = None

    def replace(self, rows: pa.Table, version: int) -> None:
        """Make the table hold exactly these rows; rows that are there already are not written again."""

        def step(cursor: Any) -> None:
            self._stage(cursor, rows)
            cursor.execute(
                f"DELETE FROM {self._table} t WHERE NOT EXISTS (SELECT FROM stage s WHERE {self._same_key()})"
            )
            cursor.execute(self._upsert(rows))

        self._transaction(step, version)

    def write(self, changes: pa.Table, version: int) -> None:
        """Delete keys that went, insert those that came, and update the others."""
        net = by_key(changes, self._key)

        def step(cursor: Any) -> None:
            for rows, action in (
                (net.gone, f"DELETE FROM {self._table} t USING stage s WHERE {self._same_key()}"),
                (net.updated, self._upsert(changes)),
                (net.fresh, self._insert(changes)),  # a key that is there already is refused by the server
            ):
                if rows.num_rows:
                    self._stage(cursor, rows)
                    cursor.execute(action)
                    cursor.execute("DROP TABLE stage")

        self._transaction(step, version)

    def close(self) -> None:
        """End the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _transaction(self, step: Any, version: int) -> None:
        import psycopg

        try:
            if self._connection is None:
                self._connection = psycopg.connect(self._conninfo)
            with self._connection.transaction(), self._connection.cursor() as cursor:
                cursor.execute(
                    f"CREATE TABLE IF NOT EXISTS {VERSIONS} (target text PRIMARY KEY, version bigint)"
                )
                step(cursor)
                cursor.execute(
                    f"INSERT INTO {VERSIONS} VALUES (%s, %s) "
                    "ON CONFLICT (target) DO UPDATE SET version = excluded.version",
                    [self._name, version],
                )
        except psycopg.Error as reason:
            raise ConnectorError(f"table {self._name} of PostgreSQL: {reason}") from None

    def _stage(self, cursor: Any, rows: pa.Table) -> None:
        """Bring rows into a temporary table with the types of the target."""
        columns = _list(rows.column_names)
        cursor.execute(
            f"CREATE TEMPORARY TABLE stage ON COMMIT DROP AS SELECT {columns} FROM {self._table} WHERE false"
        )
        with cursor.copy(f"COPY stage ({columns}) FROM STDIN") as copy:
            for row in zip(*(column.to_pylist() for column in rows.columns), strict=True):
                copy.write_row(row)

    def _insert(self, rows: pa.Table) -> str:
        names = _list(name for name in rows.column_names if name != CHANGE_TYPE)
        return f"INSERT INTO {self._table} AS t ({names}) SELECT {names} FROM stage"

    def _upsert(self, rows: pa.Table) -> str:
        others = [quoted(name) for name in rows.column_names if name not in (*self._key, CHANGE_TYPE)]
        update = ", ".join(f"{name} = excluded.{name}" for name in others)
        differs = " OR ".join(f"t.{name} IS DISTINCT FROM excluded.{name}" for name in others)
        action = f"DO UPDATE SET {update} WHERE {differs}" if others else "DO NOTHING"
        return f"{self._insert(rows)} ON CONFLICT ({_list(self._key)}) {action}"

    def _same_key(self) -> str:
        return " AND ".join(f"t.{quoted(name)} = s.{quoted(name)}" for name in self._key)


def _list(names: Iterable[str]) -> str:
    return ", ".join(map(quoted, names))
