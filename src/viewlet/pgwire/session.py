"""One connection: messages in, messages out, one statement at a time.

In the extended protocol an error silences the server until the next Sync; in a transaction it refuses
everything until the rollback. Each statement runs as a task of its own: that is what a cancel request ends.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Literal, TypeAlias, assert_never

from viewlet.errors import SqlError
from viewlet.pgwire import messages
from viewlet.pgwire.answers import Answers, Serving
from viewlet.pgwire.copy_lines import csv_line, text_line
from viewlet.pgwire.errors import FatalError, WireError, sqlstate
from viewlet.pgwire.messages import (
    Bind,
    Close,
    CopyIn,
    Describe,
    Execute,
    Flush,
    Message,
    Parse,
    Password,
    Query,
    Startup,
    Sync,
    Terminate,
)
from viewlet.pgwire.prepared import Prepared, prepare
from viewlet.pgwire.reader import DIALECT, statement_of
from viewlet.pgwire.rows import Portal, fields_of
from viewlet.pgwire.settings import Settings
from viewlet.pgwire.statements import (
    CloseCursor,
    Copy,
    Deallocate,
    Declare,
    Discard,
    Explain,
    Fetch,
    Read,
    SetParameter,
    Show,
    Statement,
    Subscribe,
    Transaction,
    Unlisten,
)
from viewlet.pgwire.wire import Gone, Wire
from viewlet.sql.script import split

MAX_TEXT = 1 << 20
MAX_PREPARED_BYTES = 8 << 20
MAX_PREPARED = 1000
MAX_PORTALS = 50

Status: TypeAlias = Literal["I", "T", "E"]
"""Outside of a transaction, in one, in one that has failed."""


class Bound:
    """A statement with its values and formats; its rows, once somebody wants them."""

    def __init__(self, statement: Statement | None, formats: tuple[int, ...]) -> None:
        self.statement, self.formats = statement, formats
        self.portal: Portal | None = None

    async def close(self) -> None:
        """Give up the rows."""
        if self.portal is not None:
            await self.portal.close()


class Session:
    """A client that has begun, and all that the server remembers of it."""

    def __init__(self, wire: Wire, serving: Serving, startup: Startup, process: int) -> None:
        self._wire, self._process = wire, process
        self._user = startup.parameters["user"]
        name = startup.parameters.get("database", serving.name)
        self._database = serving.database
        self._answers = Answers(serving, process, self._user, name, wire.gone)
        self._status: Status = "I"
        self._silent = False
        self._prepared: dict[str, Prepared] = {}
        self._portals: dict[str, Bound] = {}
        self._running: asyncio.Task[None] | None = None
        self._answers.settings.begin(startup.parameters)

    def cancel(self) -> None:
        """End the statement that runs now, if any."""
        if self._running is not None:
            self._running.cancel()

    async def serve(self, key: int) -> None:
        """Answer messages until the client leaves."""
        for name, value in self._answers.settings.reported():
            self._wire.write(messages.parameter(name, value))
        self._wire.write(messages.key_data(self._process, key))
        await self._ready()
        try:
            while not isinstance(message := await self._wire.receive(), Terminate):
                await self._answer(message)
        finally:
            await self._forget_all()

    async def _answer(self, message: Message) -> None:
        if self._silent and not isinstance(message, Sync):
            return
        self._running = asyncio.create_task(self._handle(message))
        try:
            await self._running
        except (Gone, FatalError):
            raise
        except asyncio.CancelledError:
            if (own := asyncio.current_task()) is not None and own.cancelling():
                raise  # it is the session that ends, not the statement
            await self._fail(message, WireError("57014", "the statement was cancelled"))
        except Exception as reason:
            await self._fail(message, reason)
        finally:
            self._running = None

    async def _fail(self, message: Message, reason: Exception) -> None:
        if isinstance(reason, TimeoutError):
            reason = WireError("57014", "the statement took longer than statement_timeout")
        self._wire.write(messages.error(sqlstate(reason), str(reason) or type(reason).__name__))
        if self._status == "T":
            self._status = "E"
        if isinstance(message, Query):
            await self._ready()
        else:
            self._silent = not isinstance(message, Sync)

    async def _ready(self) -> None:
        if self._status == "I":
            await self._forget_rows()
        self._wire.write(messages.ready(self._status))
        await self._wire.drain()

    async def _handle(self, message: Message) -> None:
        async with asyncio.timeout(self._answers.settings.timeout):
            match message:
                case Query(text):
                    await self._query(text)
                case Parse():
                    await self._parse(message)
                case Bind():
                    await self._bind(message)
                case Describe():
                    await self._describe(message)
                case Execute(name, limit):
                    await self._execute(self._portal(name), limit)
                case Close(kind, name):
                    await self._close(kind, name)
                case Sync():
                    self._silent = False
                    await self._ready()
                case Flush():
                    await self._wire.drain()
                case Password() | CopyIn():
                    pass
                case Terminate():
                    raise Gone
                case _:
                    assert_never(message)

    async def _query(self, text: str) -> None:
        """Run statements given in one text; the first that fails ends them."""
        if len(text) > MAX_TEXT:
            raise WireError("54000", f"the text is longer than {MAX_TEXT} characters")
        parts = await self._answers.call(lambda: split(text, DIALECT))
        if not parts:
            self._wire.write(messages.EMPTY_QUERY)
        for part in parts:
            bound = Bound(await self._answers.call(partial(statement_of, part.text)), ())
            try:
                self._refuse_if_failed(bound.statement)
                await self._open(bound)
                if bound.portal is not None and not isinstance(bound.statement, Copy):
                    self._wire.write(messages.row_description(bound.portal.fields))
                await self._execute(bound, 0)
            finally:
                await bound.close()
        await self._ready()

    async def _parse(self, message: Parse) -> None:
        if len(message.text) > MAX_TEXT:
            raise WireError("54000", f"the text is longer than {MAX_TEXT} characters")
        if message.name in self._prepared and message.name:
            raise WireError("42P05", f"statement {message.name!r} exists already")
        size = sum(known.size for known in self._prepared.values())
        if len(self._prepared) >= MAX_PREPARED or size + len(message.text) > MAX_PREPARED_BYTES:
            raise WireError("53400", "too many prepared statements: close some")
        relations = self._database.catalog
        prepared = await self._answers.call(lambda: prepare(message.text, message.types, relations))
        self._prepared[message.name] = prepared
        self._wire.write(messages.PARSE_COMPLETE)

    async def _bind(self, message: Bind) -> None:
        prepared = self._statement(message.statement)
        self._refuse_if_failed(prepared.statement)
        if message.portal in self._portals:
            if message.portal:
                raise WireError("42P03", f"portal {message.portal!r} exists already")
            await self._portals.pop("").close()
        if len(self._portals) >= MAX_PORTALS:
            raise WireError("53400", "too many portals: close some")
        statement = prepared.bound(message.values, message.formats)
        self._portals[message.portal] = Bound(statement, message.result_formats)
        self._wire.write(messages.BIND_COMPLETE)

    async def _describe(self, message: Describe) -> None:
        declared = self._answers.cursor_columns(message.name) if message.kind == "P" else None
        if declared is not None:
            fields: list[messages.Field] | None = fields_of(declared, ())
        elif message.kind == "P":
            bound = self._portal(message.name)
            await self._open(bound)
            fields = None if bound.portal is None else bound.portal.fields
        else:
            prepared = self._statement(message.name)
            self._wire.write(messages.parameter_types([kind.oid for kind in prepared.types]))
            schema = await self._answers.columns(prepared.without_values())
            fields = None if schema is None else fields_of(schema, ())
        self._wire.write(messages.NO_DATA if fields is None else messages.row_description(fields))

    async def _close(self, kind: messages.Kind, name: str) -> None:
        if kind == "S":
            self._prepared.pop(name, None)
        elif name in self._portals:
            await self._portals.pop(name).close()
        self._wire.write(messages.CLOSE_COMPLETE)

    def _statement(self, name: str) -> Prepared:
        if name not in self._prepared:
            raise WireError("26000", f"there is no prepared statement {name!r}")
        return self._prepared[name]

    def _portal(self, name: str) -> Bound:
        if name not in self._portals:
            raise WireError("34000", f"there is no portal {name!r}")
        return self._portals[name]

    # Running statements.

    async def _execute(self, bound: Bound, limit: int) -> None:
        await self._open(bound)
        match bound.statement:
            case None:
                self._wire.write(messages.EMPTY_QUERY)
            case Copy():
                await self._copy(bound)
            case Read() | Subscribe() | Explain() | Show() | Fetch():
                await self._send(bound, limit)
            case command:
                self._wire.write(messages.complete(await self._command(command)))

    async def _send(self, bound: Bound, limit: int) -> None:
        portal, sent = bound.portal, 0
        assert portal is not None
        while rows := await portal.take(limit - sent if limit else 0):
            sent += len(rows)
            self._wire.write(b"".join(rows))
            await self._wire.drain()
            if sent == limit:
                self._wire.write(messages.PORTAL_SUSPENDED)
                return
        tag = {Show: "SHOW", Explain: "EXPLAIN", Fetch: f"FETCH {sent}"}
        self._wire.write(messages.complete(tag.get(type(bound.statement), f"SELECT {sent}")))

    async def _copy(self, bound: Bound) -> None:
        assert bound.portal is not None
        assert isinstance(bound.statement, Copy)
        line = csv_line if bound.statement.form == "csv" else text_line
        self._wire.write(messages.copy_out(len(bound.portal.fields)))
        if bound.statement.header:
            names = [field.name.encode() for field in bound.portal.fields]
            self._wire.write(messages.message(b"d", line(names)))
        await self._wire.drain()
        sent = 0
        while lines := await bound.portal.lines(line):
            sent += len(lines)
            self._wire.write(b"".join(lines))
            await self._wire.drain()
        self._wire.write(messages.COPY_DONE + messages.complete(f"COPY {sent}"))

    async def _open(self, bound: Bound) -> None:
        """Begin to read, if the statement gives rows."""
        if bound.portal is None:
            source = await self._answers.source(bound.statement)
            if source is not None:
                formats = () if isinstance(bound.statement, Copy) else bound.formats
                bound.portal = Portal(source, formats)

    # Commands, each with the tag that says that it is done.

    async def _command(self, statement: Statement) -> str:
        match statement:
            case Transaction():
                return self._transaction(statement)
            case SetParameter(name, value):
                if reported := self._answers.settings.set(name, value):
                    self._wire.write(messages.parameter(*reported))
                return "SET" if value is not None else "RESET"
            case Declare(name, query):
                await self._answers.declare(name, query)
                return "DECLARE CURSOR"
            case CloseCursor(name):
                await (self._answers.close_cursors() if name is None else self._answers.close_cursor(name))
                return "CLOSE CURSOR"
            case Deallocate(name):
                if name is not None:
                    self._statement(name)
                    del self._prepared[name]
                else:
                    self._prepared.clear()
                return "DEALLOCATE" if name is not None else "DEALLOCATE ALL"
            case Discard():
                await self._forget_all()
                self._answers.settings = Settings(self._user)
                return "DISCARD ALL"
            case Unlisten():
                return "UNLISTEN"
            case _:
                raise SqlError(f"{type(statement).__name__} cannot stand here")

    def _transaction(self, statement: Transaction) -> str:
        """Nothing to commit or to roll back; but the client's view of it is kept."""
        failed = self._status == "E"
        match statement.word:
            case "BEGIN":
                self._status = "T"
            case "COMMIT" | "ROLLBACK":
                self._status = "I"
            case "ROLLBACK TO":
                self._status = "T"
            case "SAVEPOINT" | "RELEASE":
                if self._status == "I":
                    raise WireError("25P01", f"{statement.word} is for transactions: BEGIN one")
            case _:
                assert_never(statement.word)
        if statement.word == "COMMIT" and failed:
            return "ROLLBACK"
        return statement.word.partition(" ")[0]

    def _refuse_if_failed(self, statement: Statement | None) -> None:
        if self._status != "E" or statement is None:
            return
        if not isinstance(statement, Transaction) or statement.word not in (
            "COMMIT",
            "ROLLBACK",
            "ROLLBACK TO",
        ):
            raise WireError("25P02", "the transaction has failed: everything is refused until ROLLBACK")

    # Forgetting.

    async def _forget_rows(self) -> None:
        """Rows under way live as long as their transaction."""
        for bound in self._portals.values():
            await bound.close()
        self._portals.clear()
        await self._answers.close_cursors()

    async def _forget_all(self) -> None:
        await self._forget_rows()
        self._prepared.clear()
