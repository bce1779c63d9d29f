"""The state of one partition on an executor: an append-only log that any worker process can attach to.

Spark may run the tasks of one partition in several Python processes, so no process owns the state. The file
does: every operation is appended with its result, under a lock, and a process that holds the partition in
memory catches up by replaying what others have appended. So an operation takes effect once, however often its
task runs::

    log ends with n       the operation is done: return the stored result
    log ends with n - 1   run it, append it, return the result
    otherwise             the log is not the one the driver speaks of: say so, and be restored

A process that dies before the append leaves nothing; one that dies in the middle of it leaves a torn tail,
which the next one cuts off. Long logs are replaced by their contents.
"""

from __future__ import annotations

import fcntl
import os
import pickle
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, TypeAlias
from zlib import crc32

from viewlet.backends.spark.native import SiteCode
from viewlet.backends.spark.site import Given, Pieces, Site, Step, run_steps
from viewlet.errors import ViewletError

HEADER = struct.Struct("<QQI")  # length and sequence number of an entry, checksum of its body
NAME_BYTES = 16  # a log begins with a name of its own, so that nobody takes it for its predecessor
NOTHING = -1  # the sequence number that an empty log ends with
COMPACT_BYTES = 32 << 20


@dataclass(frozen=True, slots=True)
class Run:
    """Run some blocks, then read some maps; what blocks hand over is cut for so many partitions."""

    steps: Sequence[Step]
    partitions: int
    wanted: Sequence[str]


@dataclass(frozen=True, slots=True)
class Load:
    """Hold exactly these entries; a log may begin with it."""

    contents: Pieces


@dataclass(frozen=True, slots=True)
class Restore:
    """Begin a new log: a :class:`Load`, at its sequence number, and the operations since, pickled.

    ``then`` is carried out in the same breath, since the next task may run where this log is not.
    """

    sequence: int
    base: bytes
    since: tuple[bytes, ...]
    then: Operation | None = None


@dataclass(frozen=True, slots=True)
class Read:
    """Give the entries of some maps, or of all; not logged."""

    maps: tuple[str, ...] | None


Operation: TypeAlias = Run | Load | Restore | Read


@dataclass(frozen=True, slots=True)
class Refused:
    """An operation was refused, and has changed nothing."""

    reason: ViewletError


@dataclass(frozen=True, slots=True)
class Behind:
    """The log here does not end where the driver thinks."""

    sequence: int


NOTHING_GIVEN = Given((), {})

Answer: TypeAlias = Given | Refused | Behind


@dataclass(slots=True)
class _Attached:
    """A partition in the memory of this process, as of some place in its log."""

    site: Site
    log: bytes
    offset: int
    sequence: int
    answer: Answer
    limit: int
    batch: int = NOTHING


_ATTACHED: dict[Path, _Attached] = {}


def perform(path: Path, code: SiteCode, sequence: int, operation: Operation) -> Answer:
    """Carry out operation number ``sequence`` on the partition whose log is at ``path``."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with locked(path):
        if isinstance(operation, Restore):
            restored = _restore(path, code, operation)
            return restored if operation.then is None else _perform(path, code, sequence, operation.then)
        try:
            return _perform(path, code, sequence, operation)
        except BaseException:
            _ATTACHED.pop(path, None)  # memory may be ahead of the log
            raise


def forget(path: Path) -> None:
    """Remove a partition's log; processes that have it in memory let go of it when they attach another."""
    if not path.exists():
        return
    with locked(path):
        path.unlink(missing_ok=True)
    _let_go()


def _let_go() -> None:
    for path in [path for path in _ATTACHED if not path.exists()]:
        del _ATTACHED[path]


def _perform(path: Path, code: SiteCode, sequence: int, operation: Operation) -> Answer:
    attached = _attach(path, code)
    if isinstance(operation, Read):
        if attached.sequence != sequence:
            return Behind(attached.sequence)
        return Given((), attached.site.contents(operation.maps))
    if attached.sequence == sequence:
        return attached.answer
    if attached.sequence != sequence - 1:
        return Behind(attached.sequence)
    batch = operation.steps[0].batch if isinstance(operation, Run) else attached.batch
    if batch != attached.batch and attached.offset > attached.limit:
        _compact(path, attached)
    answer = _carry_out(attached.site, code, operation)
    try:
        with path.open("r+b") as log:
            log.seek(attached.offset)
            log.write(_entry(sequence, operation, answer))
            attached.offset = log.tell()
    except FileNotFoundError:  # lost under our hands: what this process has in memory counts for nothing
        del _ATTACHED[path]
        return Behind(NOTHING)
    attached.sequence, attached.answer, attached.batch = sequence, answer, batch
    return answer


def _carry_out(site: Site, code: SiteCode, operation: Operation) -> Answer:
    try:
        match operation:
            case Run(steps, partitions, wanted):
                return run_steps(site, code.program, steps, partitions, wanted)
            case Load(contents):
                site.load(contents)
            case Restore() | Read():
                raise AssertionError(f"{type(operation).__name__} is never logged")
    except ViewletError as reason:
        return Refused(reason)
    return NOTHING_GIVEN


def _attach(path: Path, code: SiteCode) -> _Attached:
    """The partition in this process's memory, caught up with its log."""
    attached = _ATTACHED.get(path)
    with path.open("a+b") as log:
        log.seek(0)
        name = log.read(NAME_BYTES)
        if attached is None or attached.log != name or log.seek(0, os.SEEK_END) < attached.offset:
            attached = _Attached(code.open(), name, NAME_BYTES, NOTHING, NOTHING_GIVEN, COMPACT_BYTES)
            _let_go()
            _ATTACHED[path] = attached
        log.seek(attached.offset)
        for sequence, operation, answer in _entries(log):
            _carry_out(attached.site, code, operation)
            attached.sequence, attached.answer = sequence, answer
            attached.batch = operation.steps[0].batch if isinstance(operation, Run) else NOTHING
            attached.offset = log.tell()
        if attached.sequence != NOTHING:
            log.truncate(attached.offset)
    return attached


def _restore(path: Path, code: SiteCode, operation: Restore) -> Answer:
    """Write a log with what the driver has kept, and take it from there."""
    base = pickle.loads(operation.base)
    site = code.open()
    site.load(base.contents)
    parts = [_entry(operation.sequence, base, NOTHING_GIVEN)]
    for sequence, blob in enumerate(operation.since, operation.sequence + 1):
        logged = pickle.loads(blob)
        parts.append(_entry(sequence, logged, _carry_out(site, code, logged)))
    _replace(path, b"".join(parts))
    _ATTACHED.pop(path, None)
    return NOTHING_GIVEN


def _compact(path: Path, attached: _Attached) -> None:
    """Replace a log by the contents it amounts to.

    Only where a batch begins: the relations of a batch are in its log entries.
    """
    attached.log, attached.offset = _replace(
        path,
        _entry(
            attached.sequence,
            Load({name: [piece] for name, piece in attached.site.contents(None).items()}),
            attached.answer,
        ),
    )
    attached.limit = max(COMPACT_BYTES, 2 * attached.offset)


def _replace(path: Path, entries: bytes) -> tuple[bytes, int]:
    """Put a new log in the place of the old one; its name and its length."""
    name = os.urandom(NAME_BYTES)
    fresh = path.with_suffix(".new")
    fresh.write_bytes(name + entries)
    fresh.replace(path)
    return name, NAME_BYTES + len(entries)


def _entry(sequence: int, operation: Operation, answer: Answer) -> bytes:
    body = pickle.dumps((operation, answer), pickle.HIGHEST_PROTOCOL)
    return HEADER.pack(len(body), sequence, crc32(body)) + body


def _entries(log: BinaryIO) -> Iterator[tuple[int, Operation, Answer]]:
    """Whole entries from the present place on; the file is left at the end of the last whole one."""
    size = os.fstat(log.fileno()).st_size
    while True:
        start = log.tell()
        header = log.read(HEADER.size)
        if len(header) == HEADER.size:
            length, sequence, checksum = HEADER.unpack(header)
            body = log.read(length) if length <= size - log.tell() else b""
            if body and len(body) == length and crc32(body) == checksum:
                operation, answer = pickle.loads(body)
                yield sequence, operation, answer
                continue
        log.seek(start)
        return


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Alone with what is at a path; the lock goes with the process that holds it."""
    with path.with_suffix(".lock").open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
