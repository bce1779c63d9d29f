"""A database in this process: tables, views, and the atomic step from one version to the next.

A batch is read and checked whole (``changes.py``, ``tables.py``), then run through the engines
(``views.py``), then written to the journal (``storage/``), then taken over by the tables: if anything fails
before that, the batch leaves no trace. Subscribers are told after the commit (``subscriptions.py``).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from viewlet import adhoc
from viewlet.assigned import Present
from viewlet.backends import Backend
from viewlet.backends.base import Bag, Change, Granularity, MapStats, Row, Strategy
from viewlet.backends.native.library import Gate
from viewlet.changes import Batch, Data, read_deletes, read_row
from viewlet.copies import Copy
from viewlet.core.types import Column, Schema
from viewlet.dml import Version, changes_of
from viewlet.errors import (
    BackendError,
    CatalogError,
    DataError,
    StorageError,
    UnsupportedError,
    ValueRangeError,
)
from viewlet.gates import INSIDE, VERSION, Gates
from viewlet.handles import TableHandle, View
from viewlet.kept import Image, OnConflict
from viewlet.listing import described, shown
from viewlet.notebook import Explanation, database_html
from viewlet.plan.bags import ordered_rows
from viewlet.plan.nodes import Query
from viewlet.plan.scope import tables_of
from viewlet.references import check_declared
from viewlet.sql import compile_query, parse
from viewlet.sql.catalog import Catalog, Table, TableKind
from viewlet.sql.dialects import known_dialect
from viewlet.stats import Stats
from viewlet.storage import Journal, Unlogged
from viewlet.storage.checkpoint import Snapshot, ViewState
from viewlet.storage.definitions import Definition
from viewlet.storage.encode import Commit
from viewlet.storage.limit import MemoryLimit
from viewlet.subscriptions import Subscription, Subscriptions
from viewlet.tables import Tables
from viewlet.triggers.program import Program
from viewlet.triggers.work import Ordered
from viewlet.views import Contents, EngineFactory, Views


@contextmanager
def _shallow() -> Iterator[None]:
    """Refuse statements that are deeper than this process's stack, wherever that is noticed."""
    try:
        yield
    except RecursionError:
        raise UnsupportedError("the statement is nested too deeply; split it into several views") from None


class Database:
    """Tables and the views over them; :func:`viewlet.connect` opens one. Calls from threads take turns."""

    def __init__(self, *, backend: Backend | EngineFactory, strategy: Strategy, dialect: str) -> None:
        self.catalog = Catalog()
        self.dialect = known_dialect(dialect)
        self._views = Views(backend, strategy)
        self._tables = Tables()
        self._subscriptions = Subscriptions()
        self._journal: Journal = Unlogged()
        self.memory_limit: MemoryLimit | None = None
        self._gates = Gates()
        self._lock = threading.RLock()
        self._closed = False
        self._torn = False
        self._process = os.getpid()

    # Statements.

    def execute(self, text: str) -> Any:
        """Run SQL statements in order; returns what the last one gives.

        A query, SHOW and DESCRIBE give an Arrow table, EXPLAIN a text, what changes rows the commit version
        (its ``rows`` says how many there were), DDL ``None``. Each statement is atomic by itself.
        """
        with self._open(), _shallow():
            result = None
            for statement in parse.parse(text, self.dialect):
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
                return self.explain(target if isinstance(target, str) else target.sql(self.dialect))
            case parse.Select(query):
                return adhoc.run(query, self.dialect, lambda name: self.read([name])[name])
            case parse.Show():
                return shown(statement, self.catalog)
            case parse.Describe(name):
                return described(self.catalog[name])
            case _:
                return self._change(statement)

    def _create_table(self, statement: parse.CreateTable) -> None:
        table = statement.table
        if table.name in self.catalog:
            if not statement.if_not_exists:
                raise CatalogError(f"{self.catalog[table.name].kind.value} {table.name!r} exists already")
            return
        check_declared(table, self.catalog)
        self._journal.define(statement, self._version)
        self._tables.add(statement, self.catalog, native=self._views.native)
        self.catalog = self.catalog.with_table(table)

    def _create_view(self, statement: parse.CreateView) -> None:
        self._gates.settle(self._views, self.catalog)
        name = statement.name
        if name in self.catalog:
            if statement.if_not_exists:
                return
            if not statement.or_replace or self.catalog[name].kind is not TableKind.VIEW:
                raise CatalogError(f"{self.catalog[name].kind.value} {name!r} exists already")
            self._refuse_if_read(name)
        query = compile_query(statement.query, self.catalog, self.dialect)
        if name in tables_of(query.plan):
            raise CatalogError(f"view {name!r} cannot read itself")
        ordered_rows(query, {})  # refuses an ORDER BY that the result cannot follow
        replaced = self._views.state(name, self.catalog) if name in self._views else None
        if replaced is not None:
            self._forget(name)
        try:
            self._start(statement, query)
            self._journal.define(statement, self._version)
        except BaseException as reason:
            if name in self._views:
                self._forget(name)
            if replaced is not None:
                self.restore_view(replaced)
                self._views.separate(self.catalog)
            if isinstance(reason, ValueRangeError) and repr(name) not in str(reason):
                raise ValueRangeError(f"view {name!r}: {reason}") from None
            raise
        if replaced is not None:
            self._subscriptions.close(name)

    def _start(self, statement: parse.CreateView, query: Query) -> None:
        before = self._stored_bytes()
        self._views.create(statement, query, self.catalog, self._contents(query), self._version)
        try:
            self._refuse_over_limit(before)
        except BaseException:
            self._views.drop(statement.name)
            raise
        self._list_view(statement.name, query)

    def _contents(self, query: Query) -> Contents:
        held, views = self._tables, self._views
        return {t: Image(views.output(t)) if t in views else held.present(t) for t in tables_of(query.plan)}

    def _list_view(self, name: str, query: Query) -> None:
        self._gates.close()
        columns = tuple(Column(column, var.type, var.nullable) for column, var in query.columns)
        self.catalog = self.catalog.with_table(Table(name, columns, TableKind.VIEW))

    def _forget(self, view: str) -> None:
        self._gates.close()
        self.catalog = self.catalog.without(view)
        self._views.drop(view)

    def _drop(self, statement: parse.Drop) -> None:
        name = statement.name
        if name not in self.catalog and statement.if_exists:
            return
        table = self.catalog[name]
        if table.kind is not statement.kind:
            raise CatalogError(f"{name!r} is a {table.kind.value}: use DROP {table.kind.value} {name}")
        self._refuse_if_read(name, cascade=statement.cascade)
        self._tables.refuse_if_referred(name)
        self._journal.define(statement, self._version)
        if table.kind is TableKind.VIEW:
            self._forget(name)
            self._subscriptions.close(name)
        else:
            self._tables.drop(name)
            self.catalog = self.catalog.without(name)

    def _refuse_if_read(self, name: str, *, cascade: bool = False) -> None:
        readers = self._views.readers(name)
        if not readers:
            return
        kind = self.catalog[name].kind.value
        if cascade:  # several definitions would have to become durable as one
            first = [view.name for view in reversed(self._views.affected([name]))]
            raise UnsupportedError(
                f"CASCADE is not supported: {kind} {name!r} is read by views; "
                f"drop these first, in this order: {', '.join(first)}"
            )
        raise CatalogError(f"{kind} {name!r} is read by the views {', '.join(readers)}: drop these first")

    def _change(self, statement: parse.DataChange) -> Version:
        table = self._changeable(statement.table)
        changed = changes_of(statement, Present(self.catalog, self._kept_rows, self._tables.having))
        inserts = isinstance(statement, parse.Insert | parse.InsertQuery)
        # Which of two changed rows with one key comes last is not said, so neither replaces the other.
        net = self._tables.net(table, Batch(changed.changes), None if inserts else "error")
        rows = sum(max(change.weight, 0) for change in net) if inserts else changed.rows
        return Version(self._commit({table.name: net}, "auto"), rows)

    def _kept_rows(self, name: str) -> Bag:
        if self.catalog[name].kind is TableKind.STREAM:
            raise CatalogError(f"stream {name!r} keeps no rows: make it a TABLE, or read a view of it")
        return self._bag(name)

    # Changes.

    def insert(self, table: str, data: Data, *, on_conflict: OnConflict | None = None) -> int:
        """Insert rows and return the commit version.

        ``data`` is a list of tuples (in column order) or dicts, or pyarrow, pandas or polars data. A row
        whose primary key exists already is an ``"error"``, replaces it (``"update"``) or is left out
        (``"nothing"``); without the argument the table's own ON CONFLICT rule holds.
        """
        with self._open():
            target = self._changeable(table)
            net = self._tables.net(target, self._tables.insertions(target, data), on_conflict)
            return self._commit({target.name: net}, "auto")

    def delete(self, table: str, data: Data) -> int:
        """Delete rows, each of which must be there, and return the commit version.

        Of a table with a primary key the key alone may be given.
        """
        with self._open():
            target = self._changeable(table)
            net = self._tables.net(target, read_deletes(target, data), "error")
            return self._commit({target.name: net}, "auto")

    def apply(
        self, batch: Mapping[str, Data], *, trigger: Granularity = "auto", token: str | None = None
    ) -> int:
        """Apply changes of several tables as one commit and return its version.

        The changes of a table carry ``_weight`` or ``_change_type``, or are inserts. ``trigger`` is
        ``"tuple"`` for a full refresh after every row, ``"batch"`` for one per batch, or ``"auto"``. A batch
        whose ``token`` has come before is not applied again: the version that it made then is returned, so a
        producer that does not know whether its batch arrived sends it again.
        """
        with self._open():
            if token is not None and (known := self._journal.version_of(token)) is not None:
                return known
            if trigger not in ("auto", "tuple", "batch"):
                raise DataError(f"trigger={trigger!r}: use 'auto', 'tuple' or 'batch'")
            if not isinstance(batch, Mapping):
                raise DataError(
                    f"a batch is a mapping from tables to their changes, not {type(batch).__name__}"
                )
            changes: dict[str, Sequence[Change]] = {}
            for name, data in batch.items():
                table = self._changeable(name)
                if table.name in changes:
                    raise DataError(f"table {table.name!r} occurs twice in the batch")
                changes[table.name] = self._tables.net(table, self._tables.changes(table, data))
            return self._commit(changes, trigger, token)

    def change_row(self, table: str, values: Sequence[Any], weight: int) -> int:
        """Insert or delete one row given in column order: what a table handle's lane uses."""
        with self._open():
            target = self._changeable(table)
            net = self._tables.net(target, Batch([Change(read_row(target, values), weight)]))
            return self._commit({target.name: net}, "tuple")

    def row_gate(self, table: str, weight: int, present: Gate | None, add: Callable[..., int]) -> Gate | None:
        """The short way for rows of a table, if there is one; ``add`` is the long way."""
        with self._open():
            watched = self._subscriptions.watched()
            idle = watched.isdisjoint(view.name for view in self._views.affected([table]))
            if self._gates.is_current(present) or not self._journal.forgets or self.memory_limit or not idle:
                return None
            kept = self._tables.alone(table)
            return self._gates.for_rows(table, weight, self._views, self.catalog, kept, add)

    def value_gate(self, view: str, read: Callable[[], Any]) -> Gate | None:
        """The short way to the value of a view, if there is one; ``read`` is the long way."""
        with self._open():
            return self._gates.for_value(view, self._views, self.catalog, read)

    def _changeable(self, name: str) -> Table:
        table = self.catalog[name]
        if table.kind is TableKind.VIEW:
            raise CatalogError(f"{name!r} is a view: change the tables that it reads")
        if table.kind is TableKind.STATIC and self._views.readers(table.name):
            readers = ", ".join(self._views.readers(table.name))
            raise CatalogError(f"static table {name!r} cannot change any more: it is read by {readers}")
        return table

    def _commit(
        self, changes: Mapping[str, Sequence[Change]], trigger: Granularity, token: str | None = None
    ) -> int:
        steps = self._tables.steps(changes, self.catalog)
        commit = Commit(self._version + 1, changes, token)
        before = self._stored_bytes()
        with self._views.maintain(steps, trigger, self._subscriptions.watched()) as effects:
            self._refuse_over_limit(before, changes)
            for name, effect in effects.items():
                self._subscriptions.announce_early(name, effect, self.catalog[name].columns, commit.version)
            self._journal.commit(commit, self.catalog)
        self._torn = True  # until the tables have followed the journal, nobody may look
        self._tables.commit(changes)
        self._version = commit.version
        self._torn = False
        self._journal.checkpoint_if_due()
        for name, effect in effects.items():
            self._subscriptions.announce(name, effect, self.catalog[name].columns, commit.version)
        self._subscriptions.deliver()
        return commit.version

    # Memory.

    def _sizes(self) -> list[MapStats]:
        return [*self._tables.sizes(), *self._views.sizes()]

    def _stored_bytes(self) -> int:
        """What tables and maps take now; not counted unless there is a limit."""
        return 0 if self.memory_limit is None else sum(size.bytes for size in self._sizes_within(0))

    def _sizes_within(self, growth: int) -> list[MapStats]:
        """The sizes; where they would exceed the limit, without the texts that nothing holds any more."""
        sizes = self._sizes()
        if self.memory_limit is not None and not self.memory_limit.allows(sizes, growth):
            self._views.sweep()
            sizes = self._sizes()
        return sizes

    def _refuse_over_limit(self, before: int, changes: Mapping[str, Sequence[Change]] | None = None) -> None:
        if self.memory_limit is not None:
            growth = self._tables.growth(changes or {})
            self.memory_limit.check(self._sizes_within(growth), growth, before)

    def subscribe(
        self,
        view: str,
        callback: Callable[[pa.Table], object],
        *,
        snapshot: bool,
        weights: bool,
        early: bool = False,
    ) -> Subscription:
        """See :meth:`viewlet.handles.View.subscribe`, and ``subscriptions.py`` for early subscribers."""
        with self._open():
            name = self._view_name(view)
            if not callable(callback):
                raise DataError(f"a subscriber is called, and {type(callback).__name__} cannot be")
            subscription = Subscription(name, callback, weights, early)
            if snapshot:
                columns = self.catalog[name].columns
                self._subscriptions.tell(subscription, self._bag(name), columns, self._version)
                self._subscriptions.deliver()
            if name not in self._subscriptions.watched():
                self._views.follow(name)
            self._subscriptions.add(subscription)
            self._gates.close()
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
        """The result of an ad-hoc query over tables and views, as an Arrow table.

        All that it reads is copied between two commits; they go on while the query runs.
        """
        with _shallow():
            query = parse.parse_query(text, self.dialect)
            return adhoc.run(query, self.dialect, self.read(adhoc.named_relations(query)).__getitem__)

    def read(self, names: Iterable[str]) -> dict[str, pa.Table]:
        """The present rows of tables and views as Arrow tables, all as of the same commit."""
        with self._open():
            copies = {name: self._arrow_copy(name) for name in names}
        return {name: copied.to_arrow() for name, copied in copies.items()}

    def unordered(self, view: str) -> pa.Table:
        """The present rows of a view as a set: some may come twice, and in any order."""
        with self._open():
            table = self.catalog[view]
            shown = self._views.output_arrow(table.name, table.columns)
            if shown is None or not shown.inserts:
                return self._copy(view).to_arrow()
        return pa.Table.from_batches([shown.batch])

    def ordered(self, name: str) -> tuple[list[Row], Schema]:
        """The present rows of a table or view in order, as physical values, with their columns."""
        with self._open():
            copied = self._copy(name)
        return copied.ordered()  # sorting our copy holds nobody up

    def _copy(self, name: str) -> Copy:
        table = self.catalog[name]
        if table.kind is TableKind.VIEW:
            return Copy(Image(self._bag(name)), table.columns, self._views[table.name].query)
        image = self._tables.image(table.name)
        if image is None:
            raise CatalogError(f"stream {name!r} keeps no rows: make it a TABLE, or read a view of it")
        return Copy(image, table.columns, None)

    def _arrow_copy(self, name: str) -> Copy:
        """A copy of a relation that is to become Arrow: of most views none of it passes through Python."""
        table = self.catalog[name]
        if table.kind is TableKind.VIEW:
            shown = self._views.output_arrow(table.name, table.columns)
            if shown is not None:
                return Copy(Image({}, (shown,)), table.columns, None)
        return self._copy(name)

    def to_spark(self, name: str) -> Any:
        """See :meth:`viewlet.handles.Relation.to_spark`."""
        raise BackendError(f"{name!r} lives in this process: to_spark() needs a database on Spark")

    def explain(self, target: str) -> str:
        """How a view is maintained, given its name; or how a query would be, given its text."""
        if not isinstance(target, str):
            raise CatalogError(f"explain() takes a view's name or a query's text, not {target!r}")
        with self._open(), _shallow():
            name = target.strip()
            if (
                name in self.catalog or name.isidentifier()
            ):  # one word is no query: a name, perhaps misspelled
                return Explanation(self._views.explain(self._view_name(name)))
            query = compile_query(target, self.catalog, self.dialect)
            return Explanation(self._views.explain_query(query, self.catalog))

    def definition(self, view: str) -> tuple[str, frozenset[str]]:
        """The query of a view as SQL text, and the tables and views that it reads."""
        with self._open():
            maintained = self._views[self._view_name(view)]
            return maintained.statement.query.sql(self.dialect, pretty=True), maintained.reads

    def programs(self) -> list[tuple[Program, Ordered]]:
        """The programs that keep the views, one per engine, and its ordered access paths."""
        with self._open():
            return self._views.programs()

    def stats(self) -> Stats:
        """The rows of tables and views, the records and bytes of maps, refreshes and their time."""
        with self._open():
            self._gates.settle(self._views, self.catalog)
            return Stats(
                self._version,
                self._tables.counts(),
                {name: self._views.count(name) for name in self._views},
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
        return self._tables.bag(table.name)

    # What storage asks: to write a database down, and to make it again.

    def snapshot(self, folder: Path) -> Snapshot:
        """Everything that a checkpoint holds, as of the last commit; ``folder`` has room for files."""
        with self._open():
            held, tables = (
                self._tables,
                [table for table in self.catalog.values() if table.kind is not TableKind.VIEW],
            )
            images = tuple((held.definition(table), held.image(table.name)) for table in tables)
            return Snapshot(images, *self._views.freeze(self.catalog, folder))

    def define(self, definition: Definition) -> None:
        """Run a definition that was in the journal."""
        with self._open():
            self._execute(definition)

    def replay(self, commit: Commit) -> None:
        """Run a commit that was in the journal: its changes are net, and were allowed."""
        with self._open():
            made = self._commit(commit.changes, "auto")
            if made != commit.version:
                raise StorageError(f"commit {commit.version} follows on {made - 1}: the log has a gap")

    def restore_rows(self, table: str, rows: Sequence[Change]) -> None:
        """Give a table rows that it kept."""
        with self._open():
            self._tables.commit({table: rows})

    def restore_view(self, state: ViewState) -> None:
        """Create a view again with what it held of streams."""
        with self._open():
            statement = state.statement
            query = compile_query(statement.query, self.catalog, self.dialect)
            if not self._views.resume(state, query, self.catalog, self._contents(query)):
                streams = ", ".join(
                    t for t in tables_of(query.plan) if self.catalog[t].kind is TableKind.STREAM
                )
                raise StorageError(
                    f"view {statement.name!r} was kept by a program that this version and backend do not "
                    f"make, and what it holds of {streams} is nowhere else: open the file with those "
                    "that wrote it"
                )
            self._list_view(statement.name, query)

    def restore_version(self, version: int) -> None:
        """Go on from a version. Views that come from now on have seen nothing of the streams."""
        with self._open():
            self._version = version
            self._views.separate(self.catalog)

    def attach(self, journal: Journal) -> None:
        """Write to a journal from now on."""
        with self._open():
            self._gates.close()
            self._journal = journal

    # Life.

    def checkpoint(self) -> None:
        """Write a checkpoint of a durable database and drop the log up to it; commits go on meanwhile."""
        with self._open():
            writer = self._journal.checkpoint()
        writer.wait()

    def compact(self) -> None:
        """Write a checkpoint and return unused space to the file system; commits wait meanwhile."""
        self.checkpoint()
        self._journal.shrink()

    @property
    def version(self) -> int:
        """The number of the last commit."""
        return self._version

    def version_of(self, token: str) -> int | None:
        """The version of the batch that came with a token, if there was one; see :meth:`apply`."""
        with self._open():
            return self._journal.version_of(token)

    @property
    def _version(self) -> int:
        return self._gates.clock[VERSION]

    @_version.setter
    def _version(self, version: int) -> None:
        self._gates.clock[VERSION] = version

    def close(self) -> None:
        """Close the database; every later call is refused. A database file keeps its data."""
        self._refuse_in_child()
        with self._lock:
            if not self._closed:
                self._closed = True
                self._gates.close()
                self._journal.close()
                del self._tables, self._views, self._subscriptions

    @contextmanager
    def _open(self) -> Iterator[None]:
        self._refuse_in_child()
        with self._lock:
            if self._closed:
                raise BackendError("the database is closed")
            if self._torn:
                raise BackendError("a commit was interrupted half way: close the database and connect again")
            self._gates.clock[INSIDE] += 1
            try:
                yield
            finally:
                self._gates.clock[INSIDE] -= 1

    def _refuse_in_child(self) -> None:
        """Before any lock: in a forked child it may be held by a thread that is not there."""
        if os.getpid() != self._process:
            raise BackendError(
                f"the database belongs to process {self._process}, this is {os.getpid()}: "
                "a forked process must connect by itself"
            )

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _repr_html_(self) -> str:
        stats = self.stats()
        return database_html(self.catalog, {**stats.tables, **stats.views}, stats.version)

    def __repr__(self) -> str:
        if self._closed:
            return "<viewlet database, closed>"
        tables, views = ", ".join(self._tables) or "none", ", ".join(self._views) or "none"
        return f"<viewlet database, version {self._version}; tables: {tables}; views: {views}>"
