"""What statements answer: rows, as they come, and the columns that they will have."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any, TypeVar

import pyarrow as pa
from sqlglot import exp

from viewlet.changes import feed
from viewlet.database import Database
from viewlet.pgwire.described import Described
from viewlet.pgwire.errors import WireError
from viewlet.pgwire.reading import Copies, Reading, Reads
from viewlet.pgwire.rows import Feed, Fixed, Reader, Source, in_thread
from viewlet.pgwire.settings import Settings
from viewlet.pgwire.statements import Copy, Explain, Fetch, Read, Show, Statement, Subscribe
from viewlet.sql.catalog import TableKind

MAX_CURSORS = 50

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Serving:
    """What the sessions of a server share: the database and its copies, DuckDB, threads, a name."""

    database: Database
    copies: Copies
    engine: Any
    pool: Executor
    name: str


class Answers:
    """The answers for one session, which is known by its process number, user and database."""

    def __init__(
        self, serving: Serving, process: int, user: str, name: str, gone: Callable[[], Awaitable[None]]
    ) -> None:
        self._database, self._copies = serving.database, serving.copies
        self._engine, self._pool = serving.engine, serving.pool
        self._process, self._user, self._name, self._gone = process, user, name, gone
        self.settings = Settings(user)
        self._cursors: dict[str, Source] = {}
        self._rests: dict[str, pa.Table] = {}

    async def source(self, statement: Statement | None) -> Source | None:
        """Begin to answer; ``None`` if the statement gives no rows."""
        match statement:
            case Read(query) | Copy(Read(query)):
                return await self._read(query)
            case Subscribe() as subscribe:
                return await self._subscribe(subscribe)
            case Copy(Subscribe() as subscribe):
                return await self._subscribe(subscribe)
            case Explain(target):
                text = await self.call(lambda: self._explained(target))
                return Fixed(pa.table({"QUERY PLAN": text.splitlines()}))
            case Show("all"):
                rows = {"name": list(self.settings), "setting": list(self.settings.values())}
                return Fixed(pa.table({**rows, "description": [""] * len(self.settings)}))
            case Show(name):
                return Fixed(pa.table({name: [self.settings[name]]}))
            case Fetch(name, count):
                return Fixed(await self._fetch(name, count))
            case _:
                return None

    async def columns(self, statement: Statement | None) -> pa.Schema | None:
        """The columns that a statement will give, found without running it."""
        match statement:
            case Read(query):
                return await self.call(lambda: self._reads().columns(query))
            case Subscribe():
                return self._changes(statement)
            case Fetch(name):
                return self._cursor(name).schema
            case Explain():
                return pa.schema([("QUERY PLAN", pa.string())])
            case Show():
                source = await self.source(statement)
                return None if source is None else source.schema
            case _:
                return None

    async def _read(self, query: exp.Query) -> Source:
        reading = Reading(self._engine)
        try:
            await in_thread(self._pool, lambda: self._reads().start(reading, query), reading.interrupt)
        except BaseException:
            reading.close()
            raise
        return Reader(reading, self._pool)

    def _reads(self) -> Reads:
        relations = self._database.catalog
        views = [table.name for table in relations.values() if table.kind is TableKind.VIEW]
        definitions = {name: self._database.definition(name)[0] for name in views}
        described = Described(relations, definitions, self._user, self._name, self.settings)
        return Reads(self._engine, self._copies, described, self._process)

    def _changes(self, statement: Subscribe) -> pa.Schema:
        table = self._database.catalog[statement.view]
        if table.kind is not TableKind.VIEW:
            kind = table.kind.value.lower()
            raise WireError("42809", f"{table.name!r} is a {kind}: SUBSCRIBE tells the changes of a view")
        return feed({}, table.columns, 0, statement.weights).schema

    async def _subscribe(self, statement: Subscribe) -> Source:
        changes = Feed(self._gone)
        changes.schema = self._changes(statement)
        changes.subscription = await self.call(
            lambda: self._database.view(statement.view).subscribe(
                changes.put, snapshot=statement.snapshot, weights=statement.weights
            )
        )
        return changes

    def _explained(self, target: str | exp.Query) -> str:
        return self._database.explain(
            target if isinstance(target, str) else target.sql(self._database.dialect)
        )

    async def call(self, call: Callable[[], T]) -> T:
        """Run in a thread what may take its time or wait for the database."""
        return await in_thread(self._pool, call, lambda: None)

    # Cursors by SQL.

    async def declare(self, name: str, query: exp.Query) -> None:
        """Begin to read under a name."""
        if name in self._cursors:
            raise WireError("42P03", f"cursor {name!r} exists already")
        if len(self._cursors) >= MAX_CURSORS:
            raise WireError("53400", "too many cursors: close some")
        self._cursors[name] = await self._read(query)

    def cursor_columns(self, name: str) -> pa.Schema | None:
        """The columns of a cursor, ``None`` if there is none of that name."""
        return self._cursors[name].schema if name in self._cursors else None

    async def close_cursor(self, name: str) -> None:
        """Forget a cursor."""
        await self._cursor(name).close()
        del self._cursors[name]
        self._rests.pop(name, None)

    async def close_cursors(self) -> None:
        """Forget all cursors."""
        for name in list(self._cursors):
            await self.close_cursor(name)

    def _cursor(self, name: str) -> Source:
        if name not in self._cursors:
            raise WireError("34000", f"there is no cursor {name!r}")
        return self._cursors[name]

    async def _fetch(self, name: str, count: int) -> pa.Table:
        """The next ``count`` rows of a cursor, all for zero; what comes beyond them is kept."""
        source = self._cursor(name)
        rows = self._rests.pop(name, source.schema.empty_table())
        while not count or rows.num_rows < count:
            batch = await source.next()
            if batch is None:
                break
            rows = pa.concat_tables([rows, pa.Table.from_batches([batch])])
        if count and rows.num_rows > count:
            self._rests[name] = rows.slice(count)
        return rows.slice(0, count) if count else rows
