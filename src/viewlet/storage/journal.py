"""Where a database writes what it is about to acknowledge: nowhere, or to a container.

A durable journal also decides when a checkpoint is due: when the log has grown by a given number of bytes and
by as much as the last checkpoint, so that all checkpoints together write no more than the log did.
"""

from __future__ import annotations

import logging
import os
import threading
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, Protocol, TypeAlias

from viewlet.errors import StorageError
from viewlet.sql.catalog import Catalog
from viewlet.storage.checkpoint import Snapshot, write_checkpoint
from viewlet.storage.container import Container
from viewlet.storage.definitions import Definition, encode_definition
from viewlet.storage.encode import Commit, Piece, encode_changes, size_of
from viewlet.storage.lockfile import LockFile

Durability: TypeAlias = Literal["full", "batch", "off"]
log = logging.getLogger("viewlet.storage")


class Journal(Protocol):
    """What a database asks of its journal. If a call raises, the step is not in the log.

    ``forgets`` says that batches without a token need not be told to it at all.
    """

    forgets: bool

    def commit(self, commit: Commit, catalog: Catalog) -> None:
        """Write a batch; only then may it be acknowledged."""

    def define(self, definition: Definition, version: int) -> None:
        """Write a definition."""

    def version_of(self, token: str) -> int | None:
        """The version of the batch that came with a token before."""

    def checkpoint(self) -> CheckpointWriter:
        """Freeze the database and start to write a checkpoint; ``wait`` for it outside of any lock."""

    def checkpoint_if_due(self) -> None:
        """Start a checkpoint if the log has grown enough; called after a commit, never raises for it."""

    def shrink(self) -> None:
        """Give unused space back."""

    def close(self) -> None:
        """Nothing more will come."""


class Unlogged:
    """The journal of a database in memory: it remembers tokens, nothing else."""

    forgets = True

    def __init__(self) -> None:
        self._tokens: dict[str, int] = {}

    def commit(self, commit: Commit, catalog: Catalog) -> None:
        """Remember the token, if there is one."""
        if commit.token is not None:
            self._tokens[commit.token] = commit.version

    def define(self, definition: Definition, version: int) -> None:
        """Nothing is written."""

    def version_of(self, token: str) -> int | None:
        """The version of the batch that came with a token before."""
        return self._tokens.get(token)

    def checkpoint(self) -> CheckpointWriter:
        """Refused: there is no file."""
        raise StorageError("the database is in memory: connect to a path to have checkpoints")

    def checkpoint_if_due(self) -> None:
        """Never due."""

    def shrink(self) -> None:
        """Nothing to do."""

    def close(self) -> None:
        """Nothing to do."""


class CheckpointWriter(threading.Thread):
    """Writes one snapshot; made while no commit is under way, so the head of that moment belongs to it."""

    def __init__(self, container: Container, snapshot: Snapshot) -> None:
        super().__init__(name="viewlet checkpoint", daemon=True)
        self._container, self._start_at = container, container.mark()
        self._snapshot: Snapshot | None = snapshot
        self._failure: Exception | None = None
        self.size = 0

    def run(self) -> None:
        """Write the checkpoint, and let the snapshot go."""
        snapshot, self._snapshot = self._snapshot, None
        assert snapshot is not None, "a thread runs once"
        try:
            self.size = write_checkpoint(self._container, snapshot, self._start_at)
        except Exception as failure:  # whoever waits gets it; nothing is lost, as the log is whole
            self._failure = failure
            log.warning("the checkpoint was not written, the log goes on: %s", failure)
        finally:
            snapshot.frozen.close()

    def wait(self) -> None:
        """Return when the checkpoint is in the file; raises if it could not be written."""
        self.join()
        if self._failure is not None:
            raise self._failure


class Durable:
    """The journal of a database in a container.

    ``snapshot`` freezes the database; it is called while no commit is under way, with a folder that has room.
    """

    forgets = False

    def __init__(
        self,
        container: Container,
        lock: LockFile,
        snapshot: Callable[[Path], Snapshot],
        checkpoint_bytes: int,
    ) -> None:
        self._container, self._lock, self._snapshot = container, lock, snapshot
        self._written, checkpoint = container.sizes()
        self._interval, self._due = checkpoint_bytes, max(checkpoint_bytes, checkpoint)
        self._writer: CheckpointWriter | None = None
        lock.acknowledge(container.head.sequence)
        _OPEN.add(self)

    def commit(self, commit: Commit, catalog: Catalog) -> None:
        """Write a batch; only then may it be acknowledged."""
        body = encode_changes(commit.changes, catalog, compress=self._container.compresses)
        self._append("commit", commit.version, commit.token, body)

    def define(self, definition: Definition, version: int) -> None:
        """Write a definition."""
        self._append("define", version, None, [encode_definition(definition)])

    def _append(self, kind: str, version: int, token: str | None, body: Sequence[Piece]) -> None:
        self._container.append(kind, version, token, body)
        self._lock.acknowledge(self._container.head.sequence)
        self._written += size_of(body)

    def version_of(self, token: str) -> int | None:
        """The version of the batch that came with a token before."""
        return self._container.version_of(token)

    def checkpoint(self) -> CheckpointWriter:
        """Freeze the database and write it in a thread of its own, one at a time."""
        if self._writer is not None:
            self._writer.join()
        self._writer = CheckpointWriter(self._container, self._snapshot(self._container.path.parent))
        self._written = 0
        self._writer.start()
        return self._writer

    def checkpoint_if_due(self) -> None:
        """Start a checkpoint if the log has grown enough; a failure is logged, the log simply goes on."""
        if self._writer is not None and not self._writer.is_alive():
            self._due, self._writer = max(self._interval, self._writer.size), None
        if self._written >= self._due and self._writer is None:
            try:
                self.checkpoint()
            except StorageError as failure:
                self._written = 0
                log.warning("no checkpoint was made, the log goes on: %s", failure)

    def shrink(self) -> None:
        """Give unused space back; commits wait meanwhile."""
        self._container.shrink()

    def close(self) -> None:
        """Wait for a checkpoint under way, then close the file and give the lock up."""
        _OPEN.discard(self)
        if self._writer is not None:
            self._writer.join()
        self._container.close()
        self._lock.release()

    def leave(self) -> None:
        """Forget the files, which belong to the parent: called in a forked child."""
        self._container.leave()
        self._lock.leave()


_OPEN: weakref.WeakSet[Durable] = weakref.WeakSet()


def _leave_all() -> None:
    for journal in list(_OPEN):
        journal.leave()
    _OPEN.clear()


os.register_at_fork(after_in_child=_leave_all)
