"""Delta Lake: a table's change data feed comes in, a view goes out as a table.

The position of a source is the version of the Delta table that has been read: first all its rows at one
version, then one batch for each later version. A sink notes the commit it has written as an application
transaction of the Delta table, in the same commit as the rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from viewlet.changes import CHANGE_TYPE
from viewlet.connectors.base import Batch, ConnectorError, quoted, require
from viewlet.connectors.keyed import by_key
from viewlet.sql.catalog import Catalog

PART = "version"
FRESH, UPDATED, GONE = "fresh", "updated", "gone"
ACTION = "_viewlet_action"


class DeltaSource:
    """Follows a Delta table; the columns of ``table`` are a part of its columns.

    Without the table property ``delta.enableChangeDataFeed`` an update comes as the rows of whole files, out
    and in again: right, but slower.
    """

    def __init__(
        self,
        path: str | Path,
        table: str,
        *,
        storage_options: Mapping[str, str] | None = None,
        name: str | None = None,
    ) -> None:
        require("deltalake", "delta")
        self._path, self._table = str(path), table
        self._storage_options = dict(storage_options or {})
        self.name = name or f"delta {path} into {table}"

    def batches(self, catalog: Catalog, positions: Mapping[str, str]) -> Iterator[Batch]:
        """All rows if there is no position, then the changes of each version in turn."""
        target = catalog[self._table]
        columns = list(target.column_names)
        remote = _open(self._path, self._storage_options)
        if PART not in positions:
            rows = self._read(remote.to_pyarrow_table, columns=columns)
            yield Batch({target.name: _plain(rows)}, {PART: str(remote.version())})
            return
        for version in range(int(positions[PART]) + 1, remote.version() + 1):
            changes = self._read(remote.load_cdf, version, version, columns=[*columns, CHANGE_TYPE])
            yield Batch({target.name: _plain(changes)}, {PART: str(version)})

    def close(self) -> None:
        """Nothing is kept open."""

    def _read(self, read: Any, *arguments: Any, **options: Any) -> Any:
        from deltalake.exceptions import DeltaError

        try:
            return pa.table(read(*arguments, **options))
        except (DeltaError, pa.ArrowException, ValueError, OSError, KeyError) as reason:
            raise ConnectorError(
                f"the Delta table {self._path} cannot be followed: {reason} (if it was vacuumed beyond the "
                "position, delete the rows, viewlet.connectors.forget(database, source), and start over)"
            ) from None


class DeltaSink:
    """Keeps a Delta table equal to a view with the given ``key``; creates the table if it does not exist."""

    def __init__(
        self,
        path: str | Path,
        key: Sequence[str],
        *,
        storage_options: Mapping[str, str] | None = None,
        name: str = "viewlet",
    ) -> None:
        require("deltalake", "delta")
        if not key:
            raise ConnectorError(f"{path}: a merge needs the columns of a key")
        self._path, self._key, self._name = str(path), tuple(key), name
        self._storage_options = dict(storage_options or {})

    def replace(self, rows: pa.Table, version: int) -> None:
        """Overwrite the table, unless it holds exactly these rows."""
        from deltalake import DeltaTable, write_deltalake

        by_key(rows.append_column(CHANGE_TYPE, pa.array(["insert"] * rows.num_rows, pa.string())), self._key)
        if DeltaTable.is_deltatable(self._path, self._storage_options):
            present = _plain(_open(self._path, self._storage_options).to_pyarrow_table())
            if _sorted(present, self._key) == _sorted(rows, self._key):
                return
        write_deltalake(
            self._path,
            rows,
            mode="overwrite",
            schema_mode="overwrite",
            configuration={"delta.enableChangeDataFeed": "true"},
            storage_options=self._storage_options,
            commit_properties=self._noted(version),
        )

    def write(self, changes: pa.Table, version: int) -> None:
        """One merge: rows with removed keys are deleted, with new keys inserted, others updated."""
        net = by_key(changes, self._key)
        parts = {FRESH: net.fresh, UPDATED: net.updated, GONE: _widened(net.gone, changes)}
        staged = pa.concat_tables(
            part.append_column(ACTION, pa.array([action] * part.num_rows, pa.string()))
            for action, part in parts.items()
        )
        if not staged.num_rows:
            return
        columns = {quoted(name): f"s.{quoted(name)}" for name in net.fresh.column_names}
        done = (
            _open(self._path, self._storage_options)
            .merge(
                staged,
                " AND ".join(f"t.{quoted(name)} = s.{quoted(name)}" for name in self._key),
                source_alias="s",
                target_alias="t",
                commit_properties=self._noted(version),
            )
            .when_matched_delete(f"s.{ACTION} = '{GONE}'")
            .when_matched_update(columns, f"s.{ACTION} = '{UPDATED}'")
            .when_not_matched_insert(columns, f"s.{ACTION} = '{FRESH}'")
            .execute()
        )
        expected = (net.fresh.num_rows, net.updated.num_rows, net.gone.num_rows)
        written = tuple(done[f"num_target_rows_{word}"] for word in ("inserted", "updated", "deleted"))
        if written != expected:
            raise ConnectorError(
                f"the Delta table {self._path} was not as the view had been: {written} rows inserted, "
                f"updated and deleted instead of {expected}; another writer, NULL in the key, or no key"
            )

    def close(self) -> None:
        """Nothing is kept open."""

    def version(self) -> int | None:
        """The commit of the database that the table holds."""
        found: int | None = _open(self._path, self._storage_options).transaction_version(self._name)
        return found

    def _noted(self, version: int) -> Any:
        from deltalake import CommitProperties, Transaction

        return CommitProperties(app_transactions=[Transaction(self._name, version)])


def _open(path: str, storage_options: dict[str, str]) -> Any:
    from deltalake import DeltaTable
    from deltalake.exceptions import TableNotFoundError

    try:
        return DeltaTable(path, storage_options=storage_options)
    except TableNotFoundError as reason:
        raise ConnectorError(f"there is no Delta table at {path}: {reason}") from None


def _plain(rows: pa.Table) -> pa.Table:
    """Views of text as text, which more of Arrow can work on."""
    fields = [f.with_type(pa.string()) if f.type == pa.string_view() else f for f in rows.schema]
    return rows.cast(pa.schema(fields))


def _widened(keys: pa.Table, like: pa.Table) -> pa.Table:
    """Keys with NULL in the other columns."""
    names = [name for name in like.column_names if name != CHANGE_TYPE]
    columns = [
        keys[name] if name in keys.column_names else pa.nulls(keys.num_rows, like.schema.field(name).type)
        for name in names
    ]
    return pa.table(columns, names=names)


def _sorted(rows: pa.Table, key: tuple[str, ...]) -> list[dict[str, Any]]:
    if not set(key) <= set(rows.column_names):
        return [{"other columns": rows.column_names}]
    found: list[dict[str, Any]] = rows.sort_by([(name, "ascending") for name in key]).to_pylist()
    return found
