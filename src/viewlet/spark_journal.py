"""A durable database on Spark: its log and checkpoints in a folder of any file system that Hadoop knows.

=========================  ===========================================================================
file                       what it holds
=========================  ===========================================================================
``log-000000000017``       one step: a definition or a commit, chained to the step before by its digest
``checkpoint-000003``      the pieces of a checkpoint, one after the other
``head-000003``            which checkpoint counts and where the log goes on after it, with all tokens
=========================  ===========================================================================

A file is only ever created, never changed, and a name is taken once: a driver that was thought dead and comes
back finds the next step taken, and stops. The last step of a log may be torn by a crash; it was never
acknowledged, and is dropped. How safe a closed file is, is a matter of the file system.

What a partition held is nowhere in particular: maps are written whole and spread anew when the database is
opened, over as many partitions as there are then.
"""

from __future__ import annotations

import json
import tempfile
import threading
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from viewlet.errors import StorageError
from viewlet.storage.chain import Entry, Head, Part, link
from viewlet.storage.container import Container
from viewlet.storage.encode import Piece
from viewlet.storage.journal import Durable
from viewlet.storage.lockfile import LockFile
from viewlet.storage.recover import Recovery

if TYPE_CHECKING:
    from viewlet.spark_database import SparkDatabase


def attach_folder(database: SparkDatabase, spark: Any, uri: str, checkpoint_bytes: int) -> None:
    """Fill a new database from a folder, which is created if there is none, and write there from now on."""
    container = FolderContainer(Folder(spark, uri), database.dialect)
    Recovery(database, container, lambda done, total: None).run()
    database.attach(Durable(container, Unlocked(), database.snapshot, checkpoint_bytes))


class Folder:
    """A folder of a file system that the session's Hadoop configuration knows."""

    def __init__(self, spark: Any, uri: str) -> None:
        from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]

        self.uri = uri
        self._java = spark.sparkContext._jvm.org.apache.hadoop.fs
        self._failure = Py4JJavaError
        try:
            self._path = self._java.Path(uri)
            self._files = self._path.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration())
            self._files.mkdirs(self._path)
        except Py4JJavaError as reason:
            raise StorageError(f"{uri} cannot be opened: {reason.java_exception.getMessage()}") from None

    def names(self) -> dict[str, int]:
        """The files there are, with their sizes."""
        found = self._files.listStatus(self._path)
        return {status.getPath().getName(): int(status.getLen()) for status in found}

    def put(self, name: str, local: str) -> None:
        """Create a file with what a local one holds; refuses if there is one of the name."""
        source, target = self._java.Path(f"file://{local}"), self._java.Path(self._path, name)
        if self._files.exists(target):
            raise StorageError(
                f"{self.uri} has a file {name} that this driver has not written: another one is at work "
                "there; close this database and open it again"
            )
        try:
            self._files.copyFromLocalFile(False, False, source, target)
        except self._failure as reason:
            self.remove(name)
            raise StorageError(
                f"{self.uri}/{name} cannot be written: {reason.java_exception.getMessage()}"
            ) from None

    def get(self, name: str, local: str) -> None:
        """Copy a file to a local one."""
        try:
            self._files.copyToLocalFile(
                False, self._java.Path(self._path, name), self._java.Path(f"file://{local}"), True
            )
        except self._failure as reason:
            raise StorageError(
                f"{self.uri}/{name} cannot be read: {reason.java_exception.getMessage()}"
            ) from None

    def write(self, name: str, body: bytes) -> None:
        """Create a file."""
        with tempfile.NamedTemporaryFile(prefix="viewlet-") as file:
            file.write(body)
            file.flush()
            self.put(name, file.name)

    def read(self, name: str) -> bytes:
        """All that a file holds."""
        with tempfile.NamedTemporaryFile(prefix="viewlet-") as file:
            self.get(name, file.name)
            return Path(file.name).read_bytes()

    def rename(self, name: str, other: str) -> None:
        """Give a file another name, under which it is there whole or not at all."""
        try:
            done = self._files.rename(self._java.Path(self._path, name), self._java.Path(self._path, other))
        except self._failure:
            done = False
        if not done:
            raise StorageError(f"{self.uri}/{name} cannot be renamed to {other}")

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        self._files.delete(self._java.Path(self._path, name), False)


class Unlocked(LockFile):
    """The lock of a folder: there is none, since names are taken once."""

    def __init__(self) -> None:
        self.left_behind = None

    def acknowledge(self, sequence: int) -> None:
        """Nothing is noted."""

    def release(self) -> None:
        """Nothing was held."""

    def leave(self) -> None:
        """Nothing was held."""


@dataclass(slots=True)
class _Writing:
    """A checkpoint on its way."""

    file: IO[bytes]
    size: int = 0


class FolderContainer(Container):
    """Log and checkpoints as files of a folder; see :class:`viewlet.storage.container.Container`.

    A checkpoint is written while commits go on: head and tokens change under a lock.
    """

    compresses = True

    def __init__(self, folder: Folder, dialect: str) -> None:
        self.path = Path(folder.uri)
        self._folder = folder
        self._writing: _Writing | None = None
        self._tokens: dict[str, int] = {}
        self._changing = threading.Lock()
        self._sizes = (0, 0)
        self.head = Head(dialect, installed_version("viewlet"))
        self._pending = self._open()

    def _open(self) -> list[Entry]:
        """The newest head, and the steps after its checkpoint."""
        names = self._folder.names()
        for name in sorted((n for n in names if n.startswith("head-")), reverse=True):
            head = _unsealed(self._folder.read(name))
            if head is not None:
                self.head, self._tokens = head
                break
        log = sorted(n for n in names if n.startswith("log-") and int(n[4:]) > self.head.log_start)
        self._sizes = (sum(names[n] for n in log), names.get(_checkpoint(self.head.generation), 0))
        return list(self._steps(log))

    def _steps(self, log: list[str]) -> Iterator[Entry]:
        for name in log:
            head = self.head
            found = _entry(self._folder.read(name), head.digest)
            if found is None and name == log[-1]:
                self._folder.remove(name)  # torn by a crash, never acknowledged
                return
            if found is None or found[0].sequence != head.sequence + 1 or int(name[4:]) != found[0].sequence:
                raise self._broken(f"{name} does not follow on step {head.sequence}")
            entry, digest = found
            self.head = replace(head, sequence=entry.sequence, version=entry.version, digest=digest)
            if entry.token is not None:
                self._tokens[entry.token] = entry.version
            yield entry

    def append(self, kind: str, version: int, token: str | None, body: Sequence[Piece]) -> None:
        """Write one step to the end of the log; it has a digest of its own."""
        sequence, whole = self.head.sequence + 1, b"".join(body)
        linked = link(self.head.digest, sequence, version, kind, token, whole).hex()
        header = {"sequence": sequence, "version": version, "kind": kind, "token": token, "digest": linked}
        self._folder.write(f"log-{sequence:012}", json.dumps(header).encode() + b"\n" + whole)
        with self._changing:
            self.head = replace(self.head, sequence=sequence, version=version, digest=linked)
            if token is not None:
                self._tokens[token] = version

    def mark(self) -> Head:
        """The head now; every step has a file of its own anyway."""
        return self.head

    def entries(self) -> Iterator[Entry]:
        """The steps after the checkpoint, in order; they were checked when the folder was opened."""
        pending, self._pending = self._pending, []
        yield from pending

    def count(self) -> int:
        """How many steps opening has to take."""
        return len(self._pending)

    def sizes(self) -> tuple[int, int]:
        """The bytes of the log after the checkpoint, and of the checkpoint, when the folder was opened."""
        return self._sizes

    def version_of(self, token: str) -> int | None:
        """The version that the batch with a token made."""
        return self._tokens.get(token)

    def write_part(self, generation: int, part: Part, previous: str) -> str:
        """Write a piece of a checkpoint, to a local file at first."""
        if self._writing is None:
            self._writing = _Writing(tempfile.NamedTemporaryFile(prefix="viewlet-"))  # noqa: SIM115
        digest = link(previous, generation, part.kind, part.name, part.body).hex()
        header = {"kind": part.kind, "name": part.name, "bytes": len(part.body), "digest": digest}
        self._writing.file.write(json.dumps(header).encode() + b"\n" + part.body)
        return digest

    def adopt(self, generation: int, parts_digest: str, start: Head) -> None:
        """From now on open from this checkpoint, which was taken when ``start`` was the head."""
        if self._writing is not None:
            self._writing.file.flush()
            self._folder.put(_checkpoint(generation), self._writing.file.name)
            self._drop_writing()
        with self._changing:
            head, tokens = self.head.from_checkpoint(generation, parts_digest, start), dict(self._tokens)
        at_start = replace(head, sequence=start.sequence, version=start.version, digest=start.digest)
        self._folder.write(f"head-{generation:06}", _sealed(at_start, tokens))
        with self._changing:  # commits may have gone on while that was written
            self.head = self.head.from_checkpoint(generation, parts_digest, start)

    def discard(self) -> None:
        """Remove the log before the checkpoint, and other checkpoints."""
        self._drop_writing()
        kept = self.head.generation
        for name in self._folder.names():
            stem, _, number = name.partition("-")
            old = int(number) <= self.head.log_start if stem == "log" else int(number) != kept
            if stem in ("log", "checkpoint", "head") and old:
                self._folder.remove(name)

    def _drop_writing(self) -> None:
        if self._writing is not None:
            self._writing.file.close()
            self._writing = None

    def parts(self) -> Iterator[Part]:
        """The pieces of the checkpoint in order, each checked against the chain."""
        digest = ""
        if self.head.generation and self.head.parts_digest:
            with tempfile.NamedTemporaryFile(prefix="viewlet-") as file:
                self._folder.get(_checkpoint(self.head.generation), file.name)
                with Path(file.name).open("rb") as copied:
                    while line := copied.readline():
                        header = json.loads(line)
                        part = Part(header["kind"], header["name"], copied.read(header["bytes"]))
                        digest = link(digest, self.head.generation, part.kind, part.name, part.body).hex()
                        if digest != header["digest"]:
                            raise self._broken("the checkpoint does not match its checksum")
                        yield part
        if digest != self.head.parts_digest:
            raise self._broken("the checkpoint is incomplete")

    def shrink(self) -> None:
        """Nothing is left unused."""

    def close(self) -> None:
        """Nothing is open."""
        self._drop_writing()

    def leave(self) -> None:
        """Nothing is open."""


def _checkpoint(generation: int) -> str:
    return f"checkpoint-{generation:06}"


def _sealed(head: Head, tokens: dict[str, int]) -> bytes:
    body = json.dumps({"head": asdict(head), "tokens": tokens})
    return link("", body).hex().encode() + b"\n" + body.encode()


def _unsealed(data: bytes) -> tuple[Head, dict[str, int]] | None:
    """A head with its tokens; nothing if it was not written whole."""
    digest, _, body = data.partition(b"\n")
    if digest.decode("ascii", "replace") != link("", body.decode("utf-8", "replace")).hex():
        return None
    written = json.loads(body)
    return Head(**written["head"]), dict(written["tokens"])


def _entry(data: bytes, previous: str) -> tuple[Entry, str] | None:
    """A step with its digest; nothing if it was not written whole, or does not follow on the step before."""
    line, _, body = data.partition(b"\n")
    try:
        header = json.loads(line)
        entry = Entry(header["sequence"], header["version"], header["kind"], header["token"], body)
    except (ValueError, KeyError):
        return None
    digest = link(previous, entry.sequence, entry.version, entry.kind, entry.token, body).hex()
    return (entry, digest) if digest == header.get("digest") else None
