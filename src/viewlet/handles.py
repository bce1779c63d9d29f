"""What a user holds: a table or a view, by name; both speak to their database."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from viewlet.changes import Data
from viewlet.core.types import Schema
from viewlet.errors import BackendError, DataError
from viewlet.kept import OnConflict
from viewlet.notebook import relation_html
from viewlet.sql.catalog import TableKind
from viewlet.subscriptions import Subscription
from viewlet.values import to_python

if TYPE_CHECKING:
    from viewlet.database import Database


class Relation:
    """Rows by name, readable in every form."""

    def __init__(self, database: Database, name: str) -> None:
        self._database = database
        self.name = name

    @property
    def columns(self) -> Schema:
        """The columns, with their types."""
        return self._database.catalog[self.name].columns

    def rows(self) -> list[tuple[Any, ...]]:
        """The present rows as tuples: in the view's ORDER BY, else by all columns with NULL first."""
        return to_python(*self._database.ordered(self.name))

    def to_arrow(self) -> pa.Table:
        """The present rows as an Arrow table of the declared types."""
        return self._database.read([self.name])[self.name]

    def to_pandas(self) -> Any:
        """The present rows as a pandas DataFrame."""
        try:
            return self.to_arrow().to_pandas()
        except ImportError:
            raise BackendError("to_pandas needs pandas: pip install 'viewlet[pandas]'") from None

    def to_polars(self) -> Any:
        """The present rows as a polars DataFrame."""
        try:
            import polars
        except ImportError:
            raise BackendError("to_polars needs polars: pip install 'viewlet[polars]'") from None
        return polars.from_arrow(self.to_arrow())

    def to_spark(self) -> Any:
        """The present rows as a Spark DataFrame: only of a database on Spark."""
        return self._database.to_spark(self.name)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return iter(self.rows())

    def __len__(self) -> int:
        return len(self._database.ordered(self.name)[0])

    def _repr_html_(self) -> str:
        kind = self._database.catalog[self.name].kind
        rows = [] if kind is TableKind.STREAM else self.rows()
        return relation_html(kind.value.lower(), self.name, self.columns, rows)

    def __repr__(self) -> str:
        kind = self._database.catalog[self.name].kind.value.lower()
        return f"<{kind} {self.name} ({', '.join(map(str, self.columns))})>"


class TableHandle(Relation):
    """A table, static table or stream. ``add`` and ``remove`` are the fast path for single rows."""

    def __init__(self, database: Database, name: str) -> None:
        super().__init__(database, name)
        self._used = False

    def add(self, *values: Any) -> int:
        """Insert one row, given in column order; returns the commit version."""
        return self._change("add", 1, values)

    def remove(self, *values: Any) -> int:
        """Delete one row, given in column order; returns the commit version."""
        return self._change("remove", -1, values)

    def _change(self, method: str, weight: int, values: tuple[Any, ...]) -> int:
        """By the gate that took the method's place, if the method itself was taken from the handle before."""
        gate = self.__dict__.get(method)
        if gate is None:
            return self._slowly(method, weight, *values)
        version: int = gate(*values)
        return version

    def _slowly(self, method: str, weight: int, *values: Any) -> int:
        version = self._database.change_row(self.name, values, weight)
        self._shorten(method, weight)
        return version

    def _shorten(self, method: str, weight: int) -> None:
        """Give a handle that is used again a gate in place of a method, where one can be (``gates.py``)."""
        if self._used:
            present = self.__dict__.get(method)
            gate = self._database.row_gate(
                self.name, weight, present, functools.partial(self._slowly, method, weight)
            )
            if gate is not None:
                self.__dict__[method] = gate
        self._used = True

    def insert(self, data: Data, *, on_conflict: OnConflict | None = None) -> int:
        """Insert rows; see :meth:`Database.insert`."""
        return self._database.insert(self.name, data, on_conflict=on_conflict)

    def delete(self, data: Data) -> int:
        """Delete rows; see :meth:`Database.delete`."""
        return self._database.delete(self.name, data)


class View(Relation):
    """A materialized view: after every commit, the result of its query over the current data."""

    def __init__(self, database: Database, name: str) -> None:
        super().__init__(database, name)
        self._used = False
        self._gate: Callable[[], Any] | None = None

    @property
    def value(self) -> Any:
        """The value of a view with one row and one column."""
        gate = self._gate
        return self._read_value() if gate is None else gate()

    def _read_value(self) -> Any:
        """The long way to the value; a handle that is used again then gets a gate (``gates.py``)."""
        if self._used:
            self._gate = self._database.value_gate(self.name, self._read_value)
        self._used = True
        rows = self.rows()
        if len(rows) != 1 or len(rows[0]) != 1:
            shape = f"{len(rows)} rows and {len(self.columns)} columns"
            raise DataError(f"view {self.name!r} has {shape}, value needs one of each: use rows()")
        return rows[0][0]

    def subscribe(
        self, callback: Callable[[pa.Table], object], *, snapshot: bool = False, weights: bool = False
    ) -> Subscription:
        """Call ``callback`` after each commit that changes the view, with the view's own changes.

        The changes come as an Arrow table with ``_change_type`` (insert, delete) and ``_commit_version``, or
        with ``_weight``; deletions first. With ``snapshot`` the present rows come first, at once.
        """
        return self._database.subscribe(self.name, callback, snapshot=snapshot, weights=weights)
