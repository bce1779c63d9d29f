"""One SQLite file: a chained log, the newest checkpoint, the tokens of retried batches, and a head over them.

Every record carries a digest of itself and of the digest before it, and the head carries the last one: a
record that is changed, lost, repeated or out of order breaks the chain. The head has a digest of its own. The
file is never trusted: a schema other than ours, a trigger or a view in it, is refused before anything runs.

New steps are appended to a file beside it (``logfile.py``). They move into the SQLite file when it is closed,
or opened after a crash; those before a checkpoint never do.
"""

from __future__ import annotations

import ctypes
import json
import logging
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib.metadata import version as installed_version
from pathlib import Path

from viewlet.errors import StorageError
from viewlet.storage.chain import Entry, Head, Part, link, sealed
from viewlet.storage.encode import Piece, size_of
from viewlet.storage.logfile import LogFile, Record, Step

APPLICATION = 0x56494557  # "VIEW"
FORMAT = 3  # 1 knew no log beside the file, 2 no rows in JSON; such files are read, and become files of today
PAGE_BYTES = 1 << 14  # parts and batches are long: pages of 4 KB take twice the time
BODY_LIMIT = 1 << 26  # SQLite refuses values over a billion bytes: a long body is several records
YIELD_SECONDS = 0.001  # locks are not fair: who takes one again at once keeps all others waiting
DELETING_SECONDS = 0.005  # whoever looks for a token never waits long behind the removal of old records

log = logging.getLogger("viewlet.storage")

SCHEMA = (
    "CREATE TABLE head (one INTEGER PRIMARY KEY, sequence INTEGER, fields TEXT, digest BLOB)",
    "CREATE TABLE log (sequence INTEGER PRIMARY KEY, version INTEGER, kind TEXT, token TEXT, "
    "final INTEGER, body BLOB, digest BLOB)",
    "CREATE TABLE parts (id INTEGER PRIMARY KEY, generation INTEGER, kind TEXT, name TEXT, "
    "body BLOB, digest BLOB)",
    "CREATE TABLE tokens (token TEXT PRIMARY KEY, version INTEGER, digest BLOB) WITHOUT ROWID",
)

SYNCHRONOUS = {"full": "FULL", "batch": "NORMAL", "off": "OFF"}


class Container:
    """An open container. Its methods may be called from several threads: each is one transaction."""

    compresses = False
    """Are batches to be compressed? Here that takes longer than writing what it saves."""

    def __init__(self, path: Path, durability: str, dialect: str) -> None:
        self.path = path
        self._mutex, self._changing = threading.Lock(), threading.Lock()
        self._tokens: dict[str, int] = {}
        self._accepted = False
        self._log = LogFile(path, durability)
        self._new = not path.exists() or path.stat().st_size == 0
        if self._new:
            _create(path)
        with self._errors("cannot be opened"):
            self._connection = sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)
        try:
            with self._errors("cannot be opened"):
                self._prepare(durability)
                self._stored = self._first_head(dialect) if self._is_empty() else self._checked_head()
            self._absorb()
        except BaseException:
            self._connection.close()
            raise
        self.head = self._stored

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
        elif written < FORMAT:
            run(f"PRAGMA user_version = {FORMAT}")
        run("PRAGMA journal_mode = WAL")
        run(f"PRAGMA synchronous = {SYNCHRONOUS[durability]}")
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
            run("INSERT INTO head VALUES (1, 0, ?, ?)", sealed(head))
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

    def append(self, kind: str, version: int, token: str | None, body: Sequence[Piece]) -> None:
        """Write one step to the end of the log; then it is as safe as the durability promises.

        No lock of the SQLite file is taken.
        """
        after = self.head.sequence
        sequence = after + max(1, -(-size_of(body) // BODY_LIMIT))
        linked = self._log.append(after, Record(sequence, version, kind, token, body))
        if token is not None:
            self._tokens[token] = version
        with self._changing:
            self.head = replace(self.head, sequence=sequence, version=version, digest=linked)

    def mark(self) -> Head:
        """The head now, for a checkpoint of this moment: later steps go to a file of their own."""
        self._log.rotate(self.head.sequence)
        return self.head

    def _absorb(self) -> None:
        """Copy the steps of the log beside the file into it, all at once."""
        before = self._stored
        with self._errors("cannot be written"), self._transaction() as run:
            self._insert(run, self._log.steps(before.sequence, before.digest), before)
        if self._stored is not before:
            self._flush()
        self._log.start(self._stored.sequence, self._stored.digest)

    def accept(self) -> None:
        """What was found is all that there was: the log beside the file, which is in it now, may go."""
        self._log.remove()
        self._accepted = True

    def _flush(self) -> None:
        """What was written is on the disk, unless it was asked never to be: now what it replaces may go."""
        with self._mutex, self._errors("cannot be written"):
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def _insert(self, run: Callable[..., sqlite3.Cursor], steps: Iterable[Step], head: Head) -> None:
        for step in steps:
            body = step.body
            bodies = [body[at : at + BODY_LIMIT] for at in range(0, len(body), BODY_LIMIT)] or [b""]
            sequence, digest = head.sequence, head.digest
            for number, piece in enumerate(bodies, 1):
                sequence, final = sequence + 1, int(number == len(bodies))
                linked = link(digest, sequence, step.version, step.kind, step.token, final, piece)
                row = (sequence, step.version, step.kind, step.token, final, piece, linked)
                run("INSERT INTO log VALUES (?, ?, ?, ?, ?, ?, ?)", row)
                digest = linked.hex()
            tokens = {} if step.token is None else {step.token: step.version}
            head = self._with_tokens(run, tokens, head)
            head = replace(head, sequence=sequence, version=step.version, digest=digest)
        if head is not self._stored:
            self._replace_head(head)

    @staticmethod
    def _with_tokens(run: Callable[..., sqlite3.Cursor], tokens: dict[str, int], head: Head) -> Head:
        for token, version in tokens.items():
            run("INSERT INTO tokens VALUES (?, ?, ?)", (token, version, link("", token, version)))
        return replace(head, tokens=head.tokens + len(tokens))

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
        if (known := self._tokens.get(token)) is not None:
            return known
        with self._mutex, self._errors("cannot be read"):
            row = self._connection.execute("SELECT version FROM tokens WHERE token = ?", (token,)).fetchone()
            return None if row is None else int(row[0])

    # The checkpoint.

    def write_part(self, generation: int, part: Part, previous: str) -> str:
        """Write a piece of a checkpoint that does not count yet; returns its digest, for the next piece."""
        linked = link(previous, generation, part.kind, part.name, part.body)
        with self._errors("cannot be written"), self._transaction() as run:
            row = (generation, part.kind, part.name, part.body, linked)
            run("INSERT INTO parts (generation, kind, name, body, digest) VALUES (?, ?, ?, ?, ?)", row)
        return linked.hex()

    def adopt(self, generation: int, parts_digest: str, start: Head) -> None:
        """From now on open from this checkpoint, which was taken when ``start`` was the head."""
        tokens = {token: n for token, n in list(self._tokens.items()) if n <= start.version}
        with self._errors("cannot be written"), self._transaction() as run:
            head = self._with_tokens(run, tokens, self._stored)
            head = replace(head, sequence=start.sequence, version=start.version, digest=start.digest)
            adopted = head.from_checkpoint(generation, parts_digest, start)
            self._replace_head(replace(adopted, written_by=installed_version("viewlet")))
        self._flush()
        self._log.remove(before=start.sequence)
        for token in tokens:
            del self._tokens[token]
        with self._changing:
            self.head = self.head.from_checkpoint(generation, parts_digest, start)

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
            run, before = self._connection.execute, getattr(self, "_stored", None)
            run("BEGIN IMMEDIATE")
            try:
                yield run
                run("COMMIT")
            except BaseException:
                if before is not None:
                    self._stored = before
                if self._connection.in_transaction:
                    run("ROLLBACK")
                raise

    def _replace_head(self, head: Head) -> None:
        """Only the head that we know is replaced: if the file has moved on without us, nothing is written."""
        update = "UPDATE head SET sequence = ?, fields = ?, digest = ? WHERE one = 1 AND sequence = ?"
        values = (head.sequence, *sealed(head), self._stored.sequence)
        if self._connection.execute(update, values).rowcount != 1:
            raise StorageError(f"{self.path} was changed by another process: close it and open it again")
        self._stored = head

    @contextmanager
    def _errors(self, what: str) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as reason:
            if "locked" in str(reason):
                raise StorageError(f"{self.path} {what}: it is open in another process") from reason
            raise StorageError(f"{self.path} {what}: {reason}") from reason
        except OSError as reason:
            raise StorageError(f"{self.path} {what}: {reason.strerror}") from reason

    def _broken(self, reason: str) -> StorageError:
        return StorageError(f"{self.path} is damaged: {reason}; restore it from a copy")

    def close(self) -> None:
        """Move the log into the file and close it; SQLite folds its write-ahead log into it.

        Without room the log stays beside the file, to be moved when it is opened again.
        """
        self._log.close()
        if self._accepted:
            try:
                self._absorb()
                self._log.remove()
            except StorageError as reason:
                log.warning("the log stays beside the file: %s", reason)
        with self._mutex, self._errors("cannot be closed"):
            self._connection.close()

    def leave(self) -> None:
        """Never touch the file again, not even to close it: what a forked child does.

        Closing would fold the write-ahead log into the file under the parent's hands, so the connection is
        made immortal in this process.
        """
        self._log.leave()
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._connection))


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
