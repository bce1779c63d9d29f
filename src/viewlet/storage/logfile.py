"""The newest steps of a container, in files beside it until the container takes them over.

SQLite writes everything twice, and one at a time: commits would wait behind a checkpoint. So a step is
appended to a plain file, once. A file begins where the container, or the file before it, ends: it names that
step and its digest. Every record carries a digest of itself and of the one before it, so that a log ends at
the first record that is torn, changed, or of another time; whether that is too early, the mark in the lock
file tells.

    container-log<step>:   line "viewlet log 1 after <step> digest <digest> check <crc>"
                           record, record, ...
    record:                <length of fields> <length of body> <digest>, fields as JSON, body

Behind long records there may be room for more, which reads as zeros, and zeros are no record.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import struct
import weakref
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from viewlet.errors import StorageError
from viewlet.storage.checksum import checksum
from viewlet.storage.encode import Piece, size_of

RECORD = struct.Struct("<IQ32s")
FIRST_LINE = re.compile(rb"(viewlet log 1 after (\d+) digest ([0-9a-f]*)) check ([0-9a-f]{8})\n")
LONGEST_FIRST_LINE = 512
MOST_FIELDS = 1 << 20
MOST_PIECES = 1 << 9  # the system takes twice as many at once
LONG_BYTES, RESERVED_BYTES = 1 << 17, 1 << 23
"""For a long record room on the disk is reserved, and for those after it: a quarter less time to write it."""
FLUSHED_BYTES = 1 << 24
"""With ``batch`` durability the disk is asked to write after so many bytes, in the background."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step of the log: what it is, the number of its last record in the container, and its digest."""

    sequence: int
    version: int
    kind: str
    token: str | None
    body: bytes
    digest: str


@dataclass(frozen=True, slots=True)
class Record:
    """A step that is to be written, with its body in pieces."""

    sequence: int
    version: int
    kind: str
    token: str | None
    body: Sequence[Piece]


def _link(previous: str, fields: bytes, body_digest: bytes) -> bytes:
    return hashlib.sha256(
        b"%d %d " % (len(previous), len(fields)) + previous.encode() + fields + body_digest
    ).digest()


class LogFile:
    """The files beside a container. The one that is written to is created with its first step."""

    def __init__(self, container: Path, durability: str) -> None:
        self._container, self._durability = container, durability
        self._descriptor: int | None = None
        self._end = self._reserved = self._unflushed = 0
        self._sequence, self._digest = 0, ""
        self._flusher = ThreadPoolExecutor(1, "viewlet log")
        self._flushing: Future[None] | None = None
        self._release: Callable[[], object] = _nothing

    # Reading what a process left behind.

    def steps(self, sequence: int, digest: str) -> Iterator[Step]:
        """The steps that follow on the last one of the container, as far as they are whole."""
        files = dict(self._files())
        while sequence in files:
            before = sequence
            with files[sequence].open("rb") as file:
                if _start(file) == (sequence, digest):
                    for step in _steps(file, digest):
                        yield step
                        sequence, digest = step.sequence, step.digest
            if sequence == before:
                return

    def _files(self) -> Iterator[tuple[int, Path]]:
        prefix = f"{self._container.name}-log"
        for path in self._container.parent.glob(f"{_escaped(prefix)}*"):
            if path.name[len(prefix) :].isdigit():
                yield int(path.name[len(prefix) :]), path

    def remove(self, before: int | None = None) -> None:
        """Remove the files that begin before a step; all of them without one."""
        for start, path in list(self._files()):
            if before is None or start < before:
                path.unlink(missing_ok=True)

    def size(self) -> int:
        """The bytes of all files."""
        return sum(path.stat().st_size for _, path in self._files())

    # Writing.

    def start(self, sequence: int, digest: str) -> None:
        """Let the next step begin a new file, which follows on a step."""
        self._release()
        self._release, self._descriptor = _nothing, None
        self._sequence, self._digest = sequence, digest

    def rotate(self, after: int) -> None:
        """Let the next step, which follows on ``after``, begin a new file."""
        self._check_end(after)
        self.start(self._sequence, self._digest)

    def _check_end(self, after: int) -> None:
        if after != self._sequence:
            raise StorageError(
                f"{self._container} holds a batch that this process was interrupted in: "
                "close it and open it again"
            )

    def append(self, after: int, record: Record) -> str:
        """Write a step that follows on ``after`` to the end, as safe as the durability promises.

        Returns its digest in the chain. If it raises, the step is not in the log.
        """
        self._check_end(after)
        fields = json.dumps([record.sequence, record.version, record.kind, record.token]).encode()
        linked = _link(self._digest, fields, checksum(record.body))
        head = RECORD.pack(len(fields), size_of(record.body), linked) + fields
        try:
            self._check_flushed()
            descriptor = self._descriptor if self._descriptor is not None else self._create()
            self._write(descriptor, [head, *record.body])
        except OSError as reason:
            raise StorageError(f"{self._container} cannot be written: {reason.strerror}") from reason
        self._sequence, self._digest = record.sequence, linked.hex()
        return self._digest

    def _create(self) -> int:
        line = f"viewlet log 1 after {self._sequence} digest {self._digest}".encode()
        path = self._container.with_name(f"{self._container.name}-log{self._sequence}")
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            written = os.pwrite(descriptor, line + b" check %08x\n" % zlib.crc32(line), 0)
            if self._durability != "off":
                _flush_folder(path.parent)
        except BaseException:
            os.close(descriptor)
            raise
        self._release = weakref.finalize(self, os.close, descriptor)
        self._descriptor, self._end, self._reserved, self._unflushed = descriptor, written, 0, 0
        return descriptor

    def _write(self, descriptor: int, pieces: Sequence[Piece]) -> None:
        """All pieces after each other, or nothing."""
        end, size = self._end, size_of(pieces)
        if size >= LONG_BYTES and end + size > self._reserved:
            self._reserve(descriptor, size + RESERVED_BYTES)
        try:
            views = [memoryview(piece) for piece in pieces if len(piece)]
            while views:
                written = os.pwritev(descriptor, views[:MOST_PIECES], end)
                end += written
                while views and written >= len(views[0]):
                    written -= len(views.pop(0))
                if views:
                    views[0] = views[0][written:]
            if self._durability == "full":
                os.fdatasync(descriptor)
        except BaseException:
            self._cut(descriptor)
            raise
        self._unflushed += end - self._end
        self._end = end
        if self._durability == "batch" and self._unflushed >= FLUSHED_BYTES and self._flushing is None:
            self._unflushed, self._flushing = 0, self._flusher.submit(_flush, os.dup(descriptor))

    def _reserve(self, descriptor: int, size: int) -> None:
        """Reserve room at the end; where there is none, whoever writes will notice."""
        try:
            os.posix_fallocate(descriptor, self._end, size)
            self._reserved = self._end + size
        except OSError:
            self._cut(descriptor)

    def _cut(self, descriptor: int) -> None:
        """Give back what is behind the end."""
        with suppress(OSError):
            os.ftruncate(descriptor, self._end)
        self._reserved = 0

    def _check_flushed(self) -> None:
        """A disk that could not write what it was given is told with the next step."""
        if self._flushing is not None and self._flushing.done():
            flushing, self._flushing = self._flushing, None
            flushing.result()

    def close(self) -> None:
        """Write no more."""
        self._flusher.shutdown()
        self._release()

    def leave(self) -> None:
        """Forget the file, which belongs to the parent: called in a forked child."""
        self._release()


def _start(file: BinaryIO) -> tuple[int, str] | None:
    """The step and digest that a file follows on; nothing if that cannot be read."""
    line = file.readline(LONGEST_FIRST_LINE)
    found = FIRST_LINE.fullmatch(line)
    if found is None or int(found[4], 16) != zlib.crc32(found[1]):
        return None
    return int(found[2]), found[3].decode()


def _steps(file: BinaryIO, previous: str) -> Iterator[Step]:
    """The records of a file up to the first that is not whole."""
    while len(head := file.read(RECORD.size)) == RECORD.size:
        fields_size, body_size, digest = RECORD.unpack(head)
        left = os.fstat(file.fileno()).st_size - file.tell()
        if fields_size > MOST_FIELDS or fields_size + body_size > left:
            return
        fields, body = file.read(fields_size), file.read(body_size)
        if _link(previous, fields, checksum([body])) != digest:
            return
        previous = digest.hex()
        sequence, version, kind, token = json.loads(fields)
        yield Step(sequence, version, kind, token, body, previous)


def _escaped(name: str) -> str:
    """A file name as a pattern that only it matches."""
    return re.sub(r"([*?[])", r"[\1]", name)


def _nothing() -> None:
    """What there is to close where no file is open."""


def _flush(descriptor: int) -> None:
    try:
        os.fdatasync(descriptor)
    finally:
        os.close(descriptor)


def _flush_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
