"""One SQLite file: a chained log, the newest checkpoint, the tokens of retried batches, and a head over them.

Every record carries a digest of itself and of the digest before it, and the head carries the last one: a
record that is changed, lost, repeated or out of order breaks the chain. The head has a digest of its own. The
file is never trusted: a schema other than ours, a trigger or a view in it, is refused before anything runs.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.metadata import version as installed_version
from pathlib import Path

from viewlet.errors import StorageError

APPLICATION = 0x56494557  # "VIEW"
FORMAT = 1
PAGE_BYTES = (
    1 << 14
)  # batches are long: pages of 4 KB take twice the time, longer ones slow short batches down
BODY_LIMIT = 1 << 26  # SQLite refuses values over a billion bytes: a long body is several records
YIELD_SECONDS = 0.001  # locks are not fair: who takes one again at once keeps all others waiting
DELETING_SECONDS = 0.005  # a commit never waits long behind the removal of old records
# SQLite folds its write-ahead log into the file when it has so many pages, and somebody waits for the disk:
# 100 ms for 16 MB, its default. To fold less at a time takes more time in all: checkpoints fold very little.
FOLDED_PAGES, FEW_FOLDED_PAGES = 256, 64

SCHEMA = (
    "CREATE TABLE head (one INTEGER PRIMARY KEY, sequence INTEGER, fields TEXT, digest BLOB)",
    "CREATE TABLE log (sequence INTEGER PRIMARY KEY, version INTEGER, kind TEXT, token TEXT, "
    "final INTEGER, body BLOB, digest BLOB)",
    "CREATE TABLE parts (id INTEGER PRIMARY KEY, generation INTEGER, kind TEXT, name TEXT, "
    "body BLOB, digest BLOB)",
    "CREATE TABLE tokens (token TEXT PRIMARY KEY, version INTEGER, digest BLOB) WITHOUT ROWID",
)

SYNCHRONOUS = {"full": "FULL", "batch": "NORMAL", "off": "OFF"}


@dataclass(frozen=True, slots=True)
class Head:
    """What the container holds: the ends of both chains, and where the log begins."""

    dialect: str
    written_by: str
    sequence: int = 0
    version: int = 0
    digest: str = ""
    generation: int = 0
    parts_digest: str = ""
    log_start: int = 0
    log_start_digest: str = ""
    log_start_version: int = 0
    tokens: int = 0

    def from_checkpoint(self, generation: int, parts_digest: str, start: Head) -> Head:
        """The head once a checkpoint counts that was taken when ``start`` was the head."""
        return replace(
            self,
            generation=generation,
            parts_digest=parts_digest,
            log_start=start.sequence,
            log_start_digest=start.digest,
            log_start_version=start.version,
        )


@dataclass(frozen=True, slots=True)
class Entry:
    """One step of the log: a definition or a commit, with the version of the database after it."""

    sequence: int
    version: int
    kind: str
    token: str | None
    body: bytes


@dataclass(frozen=True, slots=True)
class Part:
    """One piece of a checkpoint."""

    kind: str
    name: str
    body: bytes


def link(previous: str, *fields: object) -> bytes:
    """The digest of a record in a chain: of the one before it and of each field with its length.

    >>> link("", "ab", "c") == link("", "a", "bc")
    False
    """
    state = hashlib.blake2b(digest_size=16)
    for field in (previous, *fields):
        data = field if isinstance(field, bytes) else b"-" if field is None else f"+{field}".encode()
        state.update(len(data).to_bytes(8, "little"))
        state.update(data)
    return state.digest()


class Container:
    """An open container. Its methods may be called from several threads: each is one transaction."""

    def __init__(self, path: Path, durability: str, dialect: str) -> None:
        self.path = path
        self._mutex = threading.Lock()
        self._new = not path.exists() or path.stat().st_size == 0
        if self._new:
            _create(path)
        self._connection = sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)
        try:
            with self._errors("cannot be opened"):
                self._prepare(durability)
                self.head = self._first_head(dialect) if self._is_empty() else self._checked_head()
        except BaseException:
            self._connection.close()
            raise

    # Opening.

    def _prepare(self, durability: str) -> None:
        run = self._connection.execute
        for pragma in ("locking_mode = EXCLUSIVE", "trusted_schema = OFF", "cell_size_check = ON"):
            run(f"PRAGMA {pragma}")
        (application,), (written,) = (
            run("PRAGMA application_id").fetchone(),
            run("PRAGMA user_version").fetchone(),
        )
        if not self._is_empty():
            if application != APPLICATION:
                raise StorageError(
                    f"{self.path} is not a Viewlet database: it is an SQLite file of another program"
                )
            if written > FORMAT:
                raise StorageError(
                    f"{self.path} has format {written}, this Viewlet reads up to {FORMAT}: upgrade Viewlet"
                )
        if self._is_empty():
            run(f"PRAGMA page_size = {PAGE_BYTES}")
        run("PRAGMA journal_mode = WAL")
        run(f"PRAGMA synchronous = {SYNCHRONOUS[durability]}")
        run(f"PRAGMA wal_autocheckpoint = {FOLDED_PAGES}")
        found = [sql for (sql,) in run("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY rowid")]
        if found and found != list(SCHEMA):
            raise StorageError(f"{self.path} is damaged: its tables are not those of a Viewlet database")
        faults = [text for (text,) in run("PRAGMA quick_check(3)")]
        if faults != ["ok"]:
            raise StorageError(f"{self.path} is damaged: {'; '.join(faults)}")

    def _is_empty(self) -> bool:
        (count,) = self._connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        return not count

    def _first_head(self, dialect: str) -> Head:
        head = Head(dialect, installed_version("viewlet"))
        with self._transaction() as run:
            run(f"PRAGMA application_id = {APPLICATION}")
            run(f"PRAGMA user_version = {FORMAT}")
            for statement in SCHEMA:
                run(statement)
            run("INSERT INTO head VALUES (1, 0, ?, ?)", _sealed(head))
        return head

    def _checked_head(self) -> Head:
        rows = self._connection.execute("SELECT sequence, fields, digest FROM head").fetchall()
        if len(rows) != 1 or rows[0][2] != link("", rows[0][1]):
            raise StorageError(f"{self.path} is damaged: its head does not match its checksum")
        head = Head(**json.loads(rows[0][1]))
        if head.sequence != rows[0][0]:
            raise StorageError(f"{self.path} is damaged: its head contradicts itself")
        self._check_tokens(head)
        return head

    def _check_tokens(self, head: Head) -> None:
        count = 0
        for token, version, digest in self._connection.execute("SELECT token, version, digest FROM tokens"):
            count += 1
            if digest != link("", token, version):
                raise StorageError(f"{self.path} is damaged: the token {token!r} does not match its checksum")
        if count != head.tokens:
            raise StorageError(f"{self.path} is damaged: it holds {count} tokens instead of {head.tokens}")

    # The log.

    def append(self, kind: str, version: int, token: str | None, body: bytes) -> None:
        """Write one step to the end of the log; then it is as safe as the durability promises."""
        with self._errors("cannot be written"), self._transaction() as run:
            head = self.head
            bodies = [body[at : at + BODY_LIMIT] for at in range(0, len(body), BODY_LIMIT)] or [b""]
            sequence, digest = head.sequence, head.digest
            for number, piece in enumerate(bodies, 1):
                sequence, final = sequence + 1, int(number == len(bodies))
                linked = link(digest, sequence, version, kind, token, final, piece)
                row = (sequence, version, kind, token, final, piece, linked)
                run("INSERT INTO log VALUES (?, ?, ?, ?, ?, ?, ?)", row)
                digest = linked.hex()
            if token is not None:
                run("INSERT INTO tokens VALUES (?, ?, ?)", (token, version, link("", token, version)))
            tokens = head.tokens + (token is not None)
            self._replace_head(
                replace(head, sequence=sequence, version=version, digest=digest, tokens=tokens)
            )

    def entries(self) -> Iterator[Entry]:
        """The steps after the checkpoint, in order, each checked against the chain."""
        head, digest, expected = self.head, self.head.log_start_digest, self.head.log_start
        pieces: list[bytes] = []
        with self._errors("cannot be read"):
            rows = self._connection.execute(
                "SELECT sequence, version, kind, token, final, body, digest FROM log "
                "WHERE sequence > ? ORDER BY sequence",
                (head.log_start,),
            )
            for sequence, version, kind, token, final, piece, linked in rows:
                expected += 1
                correct = link(digest, sequence, version, kind, token, final, piece)
                if sequence != expected or linked != correct:
                    raise self._broken(f"the log does not match its checksum at step {expected}")
                digest = linked.hex()
                pieces.append(piece)
                if final:
                    yield Entry(sequence, version, kind, token, b"".join(pieces))
                    pieces = []
        if (expected, digest) != (head.sequence, head.digest):
            raise self._broken(f"the log ends at step {expected} instead of {head.sequence}")

    def count(self) -> int:
        """How many records opening has to read."""
        with self._errors("cannot be read"):
            query = (
                "SELECT (SELECT count(*) FROM log WHERE sequence > ?) + "
                "(SELECT count(*) FROM parts WHERE generation = ?)"
            )
            return int(
                self._connection.execute(query, (self.head.log_start, self.head.generation)).fetchone()[0]
            )

    def sizes(self) -> tuple[int, int]:
        """The bytes of the log after the checkpoint, and of the checkpoint."""
        with self._errors("cannot be read"):
            query = (
                "SELECT (SELECT total(length(body)) FROM log WHERE sequence > ?), "
                "(SELECT total(length(body)) FROM parts WHERE generation = ?)"
            )
            bounds = (self.head.log_start, self.head.generation)
            log, checkpoint = self._connection.execute(query, bounds).fetchone()
            return int(log), int(checkpoint)

    def version_of(self, token: str) -> int | None:
        """The version that the batch with a token made; ``None`` if there was none."""
        with self._mutex, self._errors("cannot be read"):
            row = self._connection.execute("SELECT version FROM tokens WHERE token = ?", (token,)).fetchone()
            return None if row is None else int(row[0])

    # The checkpoint.

    @contextmanager
    def writing_much(self) -> Iterator[None]:
        """Much will be written in the background: nobody shall wait long for the disk because of it."""
        self._fold(FEW_FOLDED_PAGES)
        try:
            yield
        finally:
            self._fold(FOLDED_PAGES)

    def _fold(self, pages: int) -> None:
        with self._mutex, self._errors("cannot be written"):
            self._connection.execute(f"PRAGMA wal_autocheckpoint = {pages}")

    def write_part(self, generation: int, part: Part, previous: str) -> str:
        """Write a piece of a checkpoint that does not count yet; returns its digest, for the next piece."""
        linked = link(previous, generation, part.kind, part.name, part.body)
        with self._errors("cannot be written"), self._transaction() as run:
            row = (generation, part.kind, part.name, part.body, linked)
            run("INSERT INTO parts (generation, kind, name, body, digest) VALUES (?, ?, ?, ?, ?)", row)
        return linked.hex()

    def adopt(self, generation: int, parts_digest: str, start: Head) -> None:
        """From now on open from this checkpoint, which was taken when ``start`` was the head."""
        with self._errors("cannot be written"), self._transaction():
            adopted = self.head.from_checkpoint(generation, parts_digest, start)
            self._replace_head(replace(adopted, written_by=installed_version("viewlet")))

    def discard(self) -> None:
        """Remove the log before the checkpoint, and other checkpoints, a little at a time."""
        old_log = "sequence = (SELECT sequence FROM log WHERE sequence <= ? LIMIT 1)"
        while self._delete_some(f"DELETE FROM log WHERE {old_log}", self.head.log_start):
            time.sleep(YIELD_SECONDS)
        old_part = "id = (SELECT id FROM parts WHERE generation <> ? LIMIT 1)"
        while self._delete_some(f"DELETE FROM parts WHERE {old_part}", self.head.generation):
            time.sleep(YIELD_SECONDS)

    def _delete_some(self, delete_one: str, bound: int) -> bool:
        """Delete one record after the other, but not for long; true if there may be more."""
        with self._errors("cannot be written"), self._transaction() as run:
            end = time.monotonic() + DELETING_SECONDS
            while time.monotonic() < end:
                if not run(delete_one, (bound,)).rowcount:
                    return False
        return True

    def parts(self) -> Iterator[Part]:
        """The pieces of the checkpoint in order, each checked against the chain."""
        digest = ""
        with self._errors("cannot be read"):
            rows = self._connection.execute(
                "SELECT kind, name, body, digest FROM parts WHERE generation = ? ORDER BY id",
                (self.head.generation,),
            )
            for kind, name, body, linked in rows:
                if linked != link(digest, self.head.generation, kind, name, body):
                    raise self._broken("the checkpoint does not match its checksum")
                digest = linked.hex()
                yield Part(kind, name, body)
        if digest != self.head.parts_digest:
            raise self._broken("the checkpoint is incomplete")

    def shrink(self) -> None:
        """Give unused space back to the file system."""
        with self._mutex, self._errors("cannot be compacted"):
            self._connection.execute("VACUUM")
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    # Transactions.

    @contextmanager
    def _transaction(self) -> Iterator[Callable[..., sqlite3.Cursor]]:
        with self._mutex:
            run, before = self._connection.execute, getattr(self, "head", None)
            run("BEGIN IMMEDIATE")
            try:
                yield run
                run("COMMIT")
            except BaseException:
                if before is not None:
                    self.head = before
                if self._connection.in_transaction:
                    run("ROLLBACK")
                raise

    def _replace_head(self, head: Head) -> None:
        """Only the head that we know is replaced: if the file has moved on without us, nothing is written."""
        update = "UPDATE head SET sequence = ?, fields = ?, digest = ? WHERE one = 1 AND sequence = ?"
        values = (head.sequence, *_sealed(head), self.head.sequence)
        if self._connection.execute(update, values).rowcount != 1:
            raise StorageError(
                f"{self.path} holds a batch that this process was interrupted in: close it and open it again"
            )
        self.head = head

    @contextmanager
    def _errors(self, what: str) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as reason:
            if "locked" in str(reason):
                raise StorageError(f"{self.path} {what}: it is open in another process") from reason
            raise StorageError(f"{self.path} {what}: {reason}") from reason

    def _broken(self, reason: str) -> StorageError:
        return StorageError(f"{self.path} is damaged: {reason}; restore it from a copy")

    def close(self) -> None:
        """Close the file; SQLite folds its write-ahead log into it."""
        with self._mutex, self._errors("cannot be closed"):
            self._connection.close()

    def leave(self) -> None:
        """Never touch the file again, not even to close it: what a forked child does.

        Closing would fold the write-ahead log into the file under the parent's hands, so the connection is
        made immortal in this process.
        """
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._connection))


def _sealed(head: Head) -> tuple[str, bytes]:
    fields = json.dumps({name: getattr(head, name) for name in Head.__slots__})
    return fields, link("", fields)


def _create(path: Path) -> None:
    """An empty file that only its owner may read, and whose name survives a power failure."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
        folder = os.open(path.parent, os.O_RDONLY)
    except OSError as reason:
        raise StorageError(f"{path} cannot be created: {reason.strerror}") from None
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
