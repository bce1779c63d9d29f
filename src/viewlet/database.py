"""A database in this process: tables, views, and the atomic step from one version to the next.

A batch is read and checked whole (``changes.py``, ``kept.py``), then run through the engines (``views.py``),
then taken over by the tables: if anything fails before that, the batch leaves no trace. Subscribers are told
after the commit (``subscriptions.py``).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, assert_never

import pyarrow as pa
from sqlglot import exp

from viewlet import adhoc
from viewlet.backends import Backend
from viewlet.backends.base import Bag, Change, Granularity, MapStats, Row, Strategy
from viewlet.changes import Batch, Data, read_changes, read_deletes, read_inserts, read_row
from viewlet.core.functions import evaluate
from viewlet.core.scalar import Const, call
from viewlet.core.types import Column, Schema
from viewlet.errors import BackendError, CatalogError, DataError
from viewlet.handles import TableHandle, View
from viewlet.kept import KeptRows, OnConflict
from viewlet.plan.evaluate import evaluate_query, ordered_rows, sorted_rows
from viewlet.plan.nodes import Query
from viewlet.plan.scope import tables_of
from viewlet.sql import compile_query, parse
from viewlet.sql.catalog import Catalog, Table, TableKind
from viewlet.subscriptions import Subscription, Subscriptions
from viewlet.values import to_arrow, to_python
from viewlet.views import MaintainedView, Views

_CONFLICT_RULES: Mapping[parse.OnConflict, OnConflict] = {
    parse.OnConflict.ERROR: "error",
    parse.OnConflict.REPLACE: "update",
    parse.OnConflict.IGNORE: "nothing",
}


@dataclass(frozen=True, slots=True)
class Stats:
    """Sizes and counts at one version. ``seconds`` is the time that engines have spent on changes."""

    version: int
    tables: Mapping[str, int]
    views: Mapping[str, int]
    refreshes: Mapping[str, int]
    maps: Sequence[MapStats]
    seconds: float

    def __str__(self) -> str:
        lines = [f"version {self.version}, {self.seconds:.3f} s in engines"]
        lines += [f"table {name}: {rows} rows" for name, rows in self.tables.items()]
        lines += [
            f"view {name}: {rows} rows, {self.refreshes[name]} refreshes" for name, rows in self.views.items()
        ]
        lines += [f"map {stats.name}: {stats.records} records, {stats.bytes} bytes" for stats in self.maps]
        return "\n".join(lines)


def connect(
    target: object = None, *, backend: Backend = "auto", strategy: Strategy = "auto", dialect: str = "spark"
) -> Database:
    """A new database: in this process and in memory.

    >>> db = connect()
    >>> db.execute("CREATE TABLE bids (price BIGINT, volume BIGINT)")
    >>> db.execute("CREATE MATERIALIZED VIEW total AS SELECT sum(volume) AS volume FROM bids")
    >>> db.insert("bids", [(9_950, 200), (9_960, 50)])
    1
    >>> db.view("total").value
    250
    """
    if target is None:
        return Database(backend=backend, strategy=strategy, dialect=dialect)
    if isinstance(target, (str, os.PathLike)):
        raise BackendError(f"durable databases are not available yet: cannot open {os.fspath(target)!r}")
    raise BackendError(f"cannot connect to {type(target).__name__}: databases on Spark are not available yet")


class Database:
    """Tables and views over them; made by :func:`connect`. One lock: calls from several threads queue up."""

    def __init__(self, *, backend: Backend, strategy: Strategy, dialect: str) -> None:
        self.catalog = Catalog()
        self._dialect = dialect
        self._views = Views(backend, strategy)
        self._kept: dict[str, KeptRows] = {}
        self._conflict_rules: dict[str, OnConflict] = {}
        self._subscriptions = Subscriptions()
        self._version = 0
        self._lock = threading.RLock()
        self._closed = False

    # Statements.

    def execute(self, text: str) -> Any:
        """Run SQL statements in order; returns what the last one gives.

        A query gives an Arrow table, EXPLAIN a text, INSERT and DELETE the commit version, DDL ``None``. Each
        statement is atomic by itself.
        """
        with self._open():
            result = None
            for statement in parse.parse(text, self._dialect):
                result = self._execute(statement)
            return result

    def _execute(self, statement: parse.Statement) -> Any:
        match statement:
            case parse.CreateTable():
                return self._create_table(statement)
            case parse.CreateView():
                return self._create_view(statement)
            case parse.Drop():
                return self._drop(statement)
            case parse.RefreshView(name):
                self._view_name(name)  # always fresh; only the name can be wrong
                return None
            case parse.Explain(target):
                return self.explain(target if isinstance(target, str) else target.sql(self._dialect))
            case parse.Select(query):
                return adhoc.run(query, self._dialect, self._readable)
            case parse.Insert():
                return self._insert_literals(statement)
            case parse.Delete():
                return self._delete_where(statement)
            case _:
                assert_never(statement)

    def _create_table(self, statement: parse.CreateTable) -> None:
        table = statement.table
        if table.name in self.catalog:
            if not statement.if_not_exists:
                raise CatalogError(f"{self.catalog[table.name].kind.value} {table.name!r} exists already")
            return
        self.catalog = self.catalog.with_table(table)
        self._conflict_rules[table.name] = _CONFLICT_RULES[statement.on_conflict]
        if table.kind is not TableKind.STREAM:
            self._kept[table.name] = KeptRows(table)

    def _create_view(self, statement: parse.CreateView) -> None:
        name = statement.name
        if name in self.catalog:
            if statement.if_not_exists:
                return
            if not statement.or_replace or self.catalog[name].kind is not TableKind.VIEW:
                raise CatalogError(f"{self.catalog[name].kind.value} {name!r} exists already")
            self._refuse_if_read(name)
        query = compile_query(statement.query, self.catalog, self._dialect)
        if name in tables_of(query.plan):
            raise CatalogError(f"view {name!r} cannot read itself")
        ordered_rows(query, {})  # refuses an ORDER BY that the result cannot follow
        replaced = self._forget(name) if name in self._views else None
        try:
            self._start(statement, query)
        except BaseException:
            if replaced is not None:
                self._start(replaced.statement, replaced.query)
            raise
        if replaced is not None:
            self._subscriptions.close(name)

    def _start(self, statement: parse.CreateView, query: Query) -> None:
        contents = {table: self._bag(table) for table in tables_of(query.plan)}
        self._views.create(statement, query, self.catalog, contents)
        columns = tuple(Column(column, var.type, var.nullable) for column, var in query.columns)
        self.catalog = self.catalog.with_table(Table(statement.name, columns, TableKind.VIEW))

    def _forget(self, view: str) -> MaintainedView:
        self.catalog = self.catalog.without(view)
        return self._views.drop(view)

    def _drop(self, statement: parse.Drop) -> None:
        name = statement.name
        if name not in self.catalog and statement.if_exists:
            return
        table = self.catalog[name]
        if table.kind is not statement.kind:
            raise CatalogError(f"{name!r} is a {table.kind.value}: use DROP {table.kind.value} {name}")
        self._refuse_if_read(name)
        if table.kind is TableKind.VIEW:
            self._forget(name)
            self._subscriptions.close(name)
        else:
            self._kept.pop(name, None)
            del self._conflict_rules[name]
            self.catalog = self.catalog.without(name)

    def _refuse_if_read(self, name: str) -> None:
        readers = self._views.readers(name)
        if readers:
            kind = self.catalog[name].kind.value
            raise CatalogError(f"{kind} {name!r} is read by the views {', '.join(readers)}: drop these first")

    def _insert_literals(self, statement: parse.Insert) -> int:
        table = self.catalog[statement.table]
        given = statement.columns or table.column_names
        for name in given:
            if name not in table.column_names:
                known = ", ".join(map(str, table.columns))
                raise CatalogError(f"table {table.name!r} has no column {name!r}; its columns: {known}")
        columns = tuple(next(c for c in table.columns if c.name == name) for name in given)
        rows = []
        for number, literals in enumerate(statement.rows):
            if len(literals) != len(columns):
                width = f"{len(literals)} values for {len(columns)} columns"
                raise DataError(f"INSERT INTO {table.name}, row {number}: {width}")
            (row,) = to_python([self._values(literals, columns)], columns)
            rows.append(dict.fromkeys(table.column_names) | dict(zip(given, row, strict=True)))
        return self.insert(table.name, rows)

    def _values(self, literals: Sequence[exp.Expr], columns: Schema) -> Row:
        """Expressions without columns, cast to the types of the columns that they are for."""
        named = [exp.alias_(literal, column.name) for literal, column in zip(literals, columns, strict=True)]
        query = compile_query(exp.select(*named), self.catalog, self._dialect)
        (row,) = evaluate_query(query, {}, self.catalog)
        kinds = [var.type for _, var in query.columns]
        return tuple(
            evaluate(call("cast", Const(value, kind), type=column.type), {})
            for value, kind, column in zip(row, kinds, columns, strict=True)
        )

    def _delete_where(self, statement: parse.Delete) -> int:
        table = self._changeable(statement.table)
        select = exp.select("*").from_(table.name)
        if statement.where is not None:
            select = select.where(statement.where)
        query = compile_query(select, self.catalog, self._dialect)
        rows = evaluate_query(query, {table.name: self._bag(table.name)}, self.catalog)
        return self._commit({table.name: [Change(row, -n) for row, n in rows.items()]}, "auto")

    # Changes.

    def insert(self, table: str, data: Data, *, on_conflict: OnConflict | None = None) -> int:
        """Insert rows and return the commit version.

        ``data`` is a list of tuples (in column order) or dicts, or pyarrow, pandas or polars data. A row
        whose primary key exists already is an ``"error"``, replaces it (``"update"``) or is left out
        (``"nothing"``); without the argument the table's own ON CONFLICT rule holds.
        """
        with self._open():
            target = self._changeable(table)
            rule = on_conflict or self._conflict_rules[target.name]
            if rule not in _CONFLICT_RULES.values():
                raise DataError(f"on_conflict={rule!r}: use 'error', 'update' or 'nothing'")
            net = self._net(target, read_inserts(target, data), rule)
            return self._commit({target.name: net}, "auto")

    def delete(self, table: str, data: Data) -> int:
        """Delete rows, each of which must be there, and return the commit version.

        Of a table with a primary key the key alone may be given.
        """
        with self._open():
            target = self._changeable(table)
            return self._commit({target.name: self._net(target, read_deletes(target, data), "error")}, "auto")

    def apply(self, batch: Mapping[str, Data], *, trigger: Granularity = "auto") -> int:
        """Apply changes of several tables as one commit and return its version.

        The changes of a table carry ``_weight`` or ``_change_type``, or are inserts. ``trigger`` is
        ``"tuple"`` for a full refresh after every row, ``"batch"`` for one per batch, or ``"auto"``.
        """
        with self._open():
            if trigger not in ("auto", "tuple", "batch"):
                raise DataError(f"trigger={trigger!r}: use 'auto', 'tuple' or 'batch'")
            changes: dict[str, list[Change]] = {}
            for name, data in batch.items():
                table = self._changeable(name)
                if table.name in changes:
                    raise DataError(f"table {table.name!r} occurs twice in the batch")
                rule = self._conflict_rules[table.name]
                changes[table.name] = self._net(table, read_changes(table, data), rule)
            return self._commit(changes, trigger)

    def change_row(self, table: str, values: Sequence[Any], weight: int) -> int:
        """Insert or delete one row given in column order: what a table handle's lane uses."""
        with self._open():
            target = self._changeable(table)
            batch = Batch([Change(read_row(target, values), weight)])
            net = self._net(target, batch, self._conflict_rules[target.name])
            return self._commit({target.name: net}, "tuple")

    def _changeable(self, name: str) -> Table:
        table = self.catalog[name]
        if table.kind is TableKind.VIEW:
            raise CatalogError(f"{name!r} is a view: change the tables that it reads")
        if table.kind is TableKind.STATIC and self._views.readers(table.name):
            readers = ", ".join(self._views.readers(table.name))
            raise CatalogError(f"static table {name!r} cannot change any more: it is read by {readers}")
        return table

    def _net(self, table: Table, batch: Batch, on_conflict: OnConflict) -> list[Change]:
        if table.kind is not TableKind.STREAM:
            return self._kept[table.name].net(batch, on_conflict)
        if batch.keyed:
            raise DataError(f"stream {table.name!r} keeps no rows: a deletion must give all columns")
        return batch.changes

    def _commit(self, changes: Mapping[str, list[Change]], trigger: Granularity) -> int:
        effects = self._views.maintain(changes, trigger, self._subscriptions.watched())
        for name, part in changes.items():
            if name in self._kept:
                self._kept[name].commit(part)
        self._version += 1
        committed = self._version
        for name, effect in effects.items():
            self._subscriptions.announce(name, effect, self.catalog[name].columns, committed)
        self._subscriptions.deliver()
        return committed

    def subscribe(
        self, view: str, callback: Callable[[pa.Table], object], *, snapshot: bool, weights: bool
    ) -> Subscription:
        """See :meth:`viewlet.handles.View.subscribe`."""
        with self._open():
            name = self._view_name(view)
            subscription = Subscription(name, callback, weights)
            if snapshot:
                columns = self.catalog[name].columns
                self._subscriptions.tell(subscription, self._bag(name), columns, self._version)
                self._subscriptions.deliver()
            self._subscriptions.add(subscription)
            return subscription

    # Reading.

    def table(self, name: str) -> TableHandle:
        """A table, static table or stream by name."""
        with self._open():
            if self.catalog[name].kind is TableKind.VIEW:
                raise CatalogError(f"{name!r} is a view: use view({name!r})")
            return TableHandle(self, self.catalog[name].name)

    def view(self, name: str) -> View:
        """A materialized view by name."""
        with self._open():
            return View(self, self._view_name(name))

    def sql(self, text: str) -> pa.Table:
        """The result of an ad-hoc query over tables and views, as an Arrow table."""
        with self._open():
            return adhoc.run(parse.parse_query(text, self._dialect), self._dialect, self._readable)

    def ordered(self, name: str) -> tuple[list[Row], Schema]:
        """The present rows of a table or view in order, as physical values, with their columns."""
        with self._open():
            table, bag = self.catalog[name], self._bag(name)
            if table.kind is TableKind.STREAM:
                raise CatalogError(f"stream {name!r} keeps no rows: make it a TABLE, or read a view of it")
            if table.kind is TableKind.VIEW:
                return ordered_rows(self._views[table.name].query, bag), table.columns
            return sorted_rows(bag), table.columns

    def explain(self, target: str) -> str:
        """How a view is kept fresh, by its name; or how a query would be, by its text."""
        with self._open():
            if target.strip() in self.catalog:
                return self._views.explain(self._view_name(target.strip()))
            return self._views.explain_query(compile_query(target, self.catalog, self._dialect), self.catalog)

    def stats(self) -> Stats:
        """Rows per table and view, records and bytes per map, refreshes, time."""
        with self._open():
            return Stats(
                self._version,
                {name: sum(kept.bag.values()) for name, kept in self._kept.items()},
                {name: sum(self._bag(name).values()) for name in self._views},
                {name: view.refreshes for name, view in self._views.items()},
                self._views.stats(),
                self._views.seconds,
            )

    def _view_name(self, name: str) -> str:
        table = self.catalog[name]
        if table.kind is not TableKind.VIEW:
            raise CatalogError(f"{name!r} is a {table.kind.value.lower()}: use table({name!r})")
        return table.name

    def _bag(self, name: str) -> Bag:
        """The present rows of a table or view; of a stream there are none."""
        table = self.catalog[name]
        if table.kind is TableKind.VIEW:
            return self._views.output(table.name)
        return self._kept[table.name].bag if table.name in self._kept else {}

    def _readable(self, name: str) -> pa.Table:
        return to_arrow(*self.ordered(name))

    # Life.

    @property
    def version(self) -> int:
        """The number of the last commit."""
        return self._version

    def close(self) -> None:
        """Give up the data; every later call is refused."""
        with self._lock:
            if not self._closed:
                self._closed = True
                del self._kept, self._views, self._subscriptions

    @contextmanager
    def _open(self) -> Iterator[None]:
        with self._lock:
            if self._closed:
                raise BackendError("the database is closed")
            yield

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        if self._closed:
            return "<viewlet database, closed>"
        tables, views = ", ".join(self._conflict_rules) or "none", ", ".join(self._views) or "none"
        return f"<viewlet database, version {self._version}; tables: {tables}; views: {views}>"
