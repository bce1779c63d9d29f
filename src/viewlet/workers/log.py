"""A partition that outlives its processes: an append-only log that any worker process can attach to.

Spark may run the tasks of one partition in several Python processes, so no process owns the state. The file
does: every operation is appended with its answer, under a lock, and a process that holds the partition in
memory catches up by replaying what others have appended. So an operation takes effect once, however often its
task runs::

    log ends with n       the operation is done: return the stored answer
    log ends with n - 1   run it, append it, return the answer
    otherwise             the log is not the one the driver speaks of: say so, and be restored

A process that dies before the append leaves nothing; one that dies in the middle of it leaves a torn tail,
which the next one cuts off. Long logs are replaced by their contents.
"""

from __future__ import annotations

import fcntl
import os
import pickle
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO
from zlib import crc32

from viewlet.workers.memory import Partition
from viewlet.workers.operations import (
    NOTHING,
    NOTHING_DONE,
    Answer,
    Behind,
    Load,
    Operation,
    Read,
    Restore,
    Run,
)
from viewlet.workers.state import Code

HEADER = struct.Struct("<QQI")  # length and sequence number of an entry, checksum of its body
NAME_BYTES = 16  # a log begins with a name of its own, so that nobody takes it for its predecessor
COMPACT_BYTES = 32 << 20


@dataclass(slots=True)
class _Attached:
    """A partition in the memory of this process, as of some place in its log."""

    partition: Partition
    log: bytes
    offset: int
    limit: int


_ATTACHED: dict[Path, _Attached] = {}


def perform(path: Path, code: Code, sequence: int, operation: Operation) -> Answer:
    """Carry out operation number ``sequence`` on the partition whose log is at ``path``."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with locked(path):
        if isinstance(operation, Restore):
            _restore(path, code, operation)
            if operation.then is None:
                return NOTHING_DONE
            operation = operation.then
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


def _perform(path: Path, code: Code, sequence: int, operation: Operation) -> Answer:
    attached = _attach(path, code)
    partition = attached.partition
    if isinstance(operation, Read) or partition.sequence != sequence - 1:
        return partition.perform(sequence, operation)
    if isinstance(operation, Run) and operation.begins and attached.offset > attached.limit:
        _compact(path, attached)
    answer = partition.perform(sequence, operation)
    try:
        with path.open("r+b") as log:
            log.seek(attached.offset)
            log.write(_entry(sequence, operation, answer))
            attached.offset = log.tell()
    except FileNotFoundError:  # lost under our hands: what this process has in memory counts for nothing
        del _ATTACHED[path]
        return Behind(NOTHING)
    return answer


def _attach(path: Path, code: Code) -> _Attached:
    """The partition in this process's memory, caught up with its log."""
    attached = _ATTACHED.get(path)
    with path.open("a+b") as log:
        log.seek(0)
        name = log.read(NAME_BYTES)
        if attached is None or attached.log != name or log.seek(0, os.SEEK_END) < attached.offset:
            attached = _Attached(Partition(code), name, NAME_BYTES, COMPACT_BYTES)
            _let_go()
            _ATTACHED[path] = attached
        partition = attached.partition
        log.seek(attached.offset)
        for sequence, operation, answer in _entries(log):
            partition.carry_out(sequence, operation)
            partition.answer = answer
            attached.offset = log.tell()
        if partition.sequence != NOTHING:
            log.truncate(attached.offset)
    return attached


def _restore(path: Path, code: Code, operation: Restore) -> None:
    """Write a log with what the driver has kept, and take it from there."""
    base = pickle.loads(operation.base)
    partition = Partition(code)
    partition.carry_out(operation.sequence, base)
    parts = [_entry(operation.sequence, base, NOTHING_DONE)]
    for sequence, blob in enumerate(operation.since, operation.sequence + 1):
        logged = pickle.loads(blob)
        parts.append(_entry(sequence, logged, partition.carry_out(sequence, logged)))
    name, offset = _replace(path, b"".join(parts))
    _ATTACHED[path] = _Attached(partition, name, offset, max(COMPACT_BYTES, 2 * offset))


def _compact(path: Path, attached: _Attached) -> None:
    """Replace a log by the contents it amounts to.

    Only where a batch begins: what a state holds for one batch is in its log entries.
    """
    partition = attached.partition
    whole = _entry(partition.sequence, Load(partition.state.contents()), partition.answer)
    attached.log, attached.offset = _replace(path, whole)
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


def _entries(log: BinaryIO) -> Iterator[tuple[int, Run | Load, Answer]]:
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
