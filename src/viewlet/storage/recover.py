"""Opening: the newest checkpoint, then every step of the log after it.

While no stream exists, views are only noted, and made from the final rows at the end: replaying a row then
costs no more than keeping it. From the first stream on, views are maintained step by step, since what a view
holds of a stream cannot be had any other way.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from viewlet.calculus.evaluate import Key, Number
from viewlet.errors import StorageError
from viewlet.sql.catalog import TableKind
from viewlet.sql.parse import CreateTable, CreateView, Drop
from viewlet.storage.chain import Entry, Part
from viewlet.storage.checkpoint import ViewState
from viewlet.storage.container import SYNCHRONOUS, Container
from viewlet.storage.definitions import Definition, decode_definition
from viewlet.storage.encode import Commit, decode_block, decode_changes, decode_entries, decode_rows
from viewlet.storage.journal import Durability, Durable
from viewlet.storage.lockfile import LockFile, Mark, boot_id

if TYPE_CHECKING:
    from viewlet.database import Database

Progress: TypeAlias = Callable[[int, int], object]
"""Called with the records read so far and the records there are."""

QUIET_SECONDS = 0.5


class StorageWarning(UserWarning):
    """Batches that were acknowledged without a promise to survive a power failure did not survive one."""


def open_into(
    database: Database,
    path: Path,
    durability: Durability,
    checkpoint_bytes: int,
    progress: Progress | None,
) -> Durable:
    """Fill a new database from a container, which is created if there is none; returns its journal."""
    if durability not in SYNCHRONOUS:
        raise StorageError(f"durability={durability!r}: use {', '.join(map(repr, SYNCHRONOUS))}")
    path = path.resolve()
    if not path.parent.is_dir():
        raise StorageError(f"{path} cannot be created: there is no folder {path.parent}")
    if path.exists() and not path.is_file():
        raise StorageError(
            f"{path} cannot be opened: it is a {'folder' if path.is_dir() else 'device'}, not a file"
        )
    lock = LockFile(path, durability)
    container = None
    try:
        container = Container(path, durability, database.dialect)
        _check_complete(container, lock.left_behind)
        container.accept()
        Recovery(database, container, progress or _bar(path)).run()
        return Durable(container, lock, database.snapshot, checkpoint_bytes)
    except BaseException:
        if container is not None:
            container.close()
        (lock.leave if lock.left_behind else lock.release)()
        raise


def _check_complete(container: Container, mark: Mark | None) -> None:
    """Is everything there that the process before us has acknowledged?"""
    found, path = container.head.sequence, container.path
    if mark is None or mark.acknowledged <= found:
        return
    lost = f"steps {found + 1} to {mark.acknowledged} were acknowledged by process {mark.pid} and are missing"
    if mark.durability == "full" or mark.boot == boot_id():
        raise StorageError(
            f"{path} is damaged: {lost}; restore it from a copy, "
            f"or if it was replaced on purpose remove {path.name}-lock"
        )
    warnings.warn(
        f"{path}: {lost} since the machine went down ({mark.durability!r})", StorageWarning, stacklevel=4
    )


class Recovery:
    """One opening: what a container holds, made into a database again."""

    def __init__(self, database: Database, container: Container, progress: Progress) -> None:
        self._database, self._container = database, container
        self._later: dict[str, CreateView] | None = {}
        self._progress, self._done, self._total = progress, 0, container.count()
        written_in = container.head.dialect
        if database.dialect != written_in:
            raise StorageError(
                f"{container.path} was created with dialect={written_in!r}: open it with the same"
            )

    def run(self) -> None:
        """Checkpoint, log, then the views that were put off."""
        self._restore(self._counted(self._container.parts()))
        self._database.restore_version(self._container.head.log_start_version)
        for entry in self._counted(self._container.entries()):
            self._replay(entry)
        self._start_views()

    def _counted(self, items: Iterator[Any]) -> Iterator[Any]:
        for item in items:
            yield item
            self._done += 1
            self._progress(self._done, self._total)

    def _restore(self, parts: Iterator[Part]) -> None:
        births: dict[str, Any] = {}
        views: list[tuple[CreateView, list[dict[Key, Number]], list[list[pa.RecordBatch]]]] = []
        for part in parts:
            match part.kind.split():
                case ["table"]:
                    self._define(self._definition(part.body))
                case ["rows"]:
                    table = self._database.catalog[part.name]
                    self._database.restore_rows(part.name, decode_rows(part.body, table))
                case ["birth"]:
                    births[part.name] = json.loads(part.body)
                case ["view"]:
                    statement = self._definition(part.body)
                    assert isinstance(statement, CreateView)
                    labels = births[part.name]["labels"]
                    views.append((statement, [{} for _ in labels], [[] for _ in labels]))
                case ["entries", number]:
                    views[-1][1][int(number)].update(decode_entries(part.body))
                case ["amounts", number]:
                    views[-1][2][int(number)].extend(decode_block(part.body))
                case _:
                    raise StorageError(
                        f"{self._container.path}: the checkpoint holds an unknown {part.kind!r}"
                    )
        for statement, entries, blocks in views:
            if self._later is not None:
                self._define(statement)
            else:
                birth, labels = births[statement.name]["birth"], births[statement.name]["labels"]
                stored = [some or other for some, other in zip(blocks, entries, strict=True)]
                state = ViewState(statement, birth, dict(zip(labels, stored, strict=True)))
                self._database.restore_view(state)

    def _replay(self, entry: Entry) -> None:
        if entry.kind == "define":
            self._define(self._definition(entry.body))
            return
        changes = decode_changes(entry.body, self._database.catalog)
        self._database.replay(Commit(entry.version, changes))

    def _definition(self, body: bytes) -> Definition:
        return decode_definition(body, self._database.dialect)

    def _define(self, definition: Definition) -> None:
        if isinstance(definition, CreateTable) and definition.table.kind is TableKind.STREAM:
            self._start_views()
        if self._later is not None and isinstance(definition, CreateView):
            self._later.pop(definition.name, None)
            self._later[definition.name] = definition
        elif self._later is not None and isinstance(definition, Drop) and definition.kind is TableKind.VIEW:
            del self._later[definition.name]
        else:
            self._database.define(definition)

    def _start_views(self) -> None:
        """Make the views that were put off; those that follow are made at once."""
        later, self._later = self._later or {}, None
        for statement in later.values():
            self._database.define(statement)


def _bar(path: Path) -> Progress:
    """A bar on a terminal, once opening takes long enough to wonder."""
    if not sys.stderr.isatty():
        return lambda done, total: None
    began = time.monotonic()

    def show(done: int, total: int) -> None:
        if time.monotonic() - began > QUIET_SECONDS:
            filled = 30 * done // total
            end = "\n" if done == total else ""
            bar = "#" * filled + "." * (30 - filled)
            print(f"\ropening {path.name} [{bar}] {done}/{total}", end=end, file=sys.stderr, flush=True)

    return show
