"""Partitions on the executors of a Spark application.

Every operation is one job over a small cached RDD, the *anchor*, whose cached blocks tie each partition to
the executor that holds its state; the operations of all partitions travel in the closure of the job. A job
that fails is run again: operations take effect once (``partition.py``). A partition that has lost its state,
because its executor or its directory is gone, says so and is restored from the last checkpoint and the
operations since, which the driver keeps.
"""

from __future__ import annotations

import os
import pickle
import shutil
import tempfile
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

from viewlet.backends.spark.native import SiteCode
from viewlet.backends.spark.partition import (
    NOTHING_GIVEN,
    Answer,
    Behind,
    Load,
    Operation,
    Read,
    Refused,
    Restore,
    Run,
    forget,
    locked,
    perform,
)
from viewlet.backends.spark.site import Given, Piece, Pieces, Step
from viewlet.errors import BackendError

Task: TypeAlias = Callable[[int, Iterator[int]], Iterator[tuple[int, Answer]]]

ATTEMPTS = 4
CHECKPOINT_BYTES = 16 << 20


class SparkCluster:
    """See :class:`viewlet.backends.spark.coordinate.Cluster`."""

    def __init__(self, spark: Any, code: SiteCode, partitions: int) -> None:
        self.partitions = partitions
        self._context = spark.sparkContext
        self._name = uuid.uuid4().hex
        self._code = self._context.broadcast(pickle.dumps(code, pickle.HIGHEST_PROTOCOL))
        self._anchor = self._context.parallelize(range(partitions), partitions).persist()
        self._sequence = 0
        self._checkpoints = Path(tempfile.mkdtemp(prefix="viewlet-checkpoint-"))
        self._base = 0
        self._since: list[list[bytes]] = []
        self._before = 0
        self._bytes = 0
        self._limit = CHECKPOINT_BYTES
        self._batch: int | None = None
        self._used = False

    def run(self, steps: Sequence[Sequence[Step]], wanted: Sequence[str]) -> list[Given]:
        """Run steps in every partition, then read the wanted maps; raises what a partition raises."""
        if steps[0][0].batch != self._batch:
            self._batch = steps[0][0].batch
            if self._bytes > self._limit:
                self.checkpoint()
            self._before = len(self._since)
        answers = self._log([Run(own, self.partitions, wanted) for own in steps])
        for answer in answers:
            if isinstance(answer, Refused):
                raise answer.reason
        return [answer for answer in answers if isinstance(answer, Given)]

    def abort(self) -> None:
        """Take back the last batch: every partition is made again without it.

        The operation numbers go on, so that a task of the batch which comes late finds nothing to do.
        """
        del self._since[self._before :]
        self._sequence += 1
        self._base = self._sequence - len(self._since)
        self._everywhere([self._restoration(p) for p in range(self.partitions)])

    def load(self, contents: Sequence[Pieces]) -> None:
        """Keep entries as the first checkpoint: a partition is restored from it when it is first used."""
        self._keep([Load(own) for own in contents])

    def contents(self, maps: Sequence[str]) -> list[dict[str, Piece]]:
        """The entries of some maps, partition by partition."""
        answers = self._settled([Read(tuple(maps))] * self.partitions)
        return [answer.held for answer in answers if isinstance(answer, Given)]

    def checkpoint(self) -> None:
        """Copy the state of every partition to the driver's disk, and forget the operations before."""
        answers = self._settled([Read(None)] * self.partitions)
        held = [answer.held for answer in answers if isinstance(answer, Given)]
        self._keep([Load({name: [piece] for name, piece in own.items()}) for own in held])

    def close(self) -> None:
        """Give up the state, on the executors too unless they are gone already."""
        if self._context._jsc is not None:
            if self._used:
                self._anchor.mapPartitionsWithIndex(_forgetting(self._name)).count()
            self._anchor.unpersist()
            self._code.unpersist()
        shutil.rmtree(self._checkpoints, ignore_errors=True)

    def _keep(self, loads: Sequence[Load]) -> None:
        written = 0
        for partition, load in enumerate(loads):
            blob = pickle.dumps(load, pickle.HIGHEST_PROTOCOL)
            (self._checkpoints / f"{partition}.new").write_bytes(blob)
            written += len(blob)
        for partition in range(self.partitions):
            (self._checkpoints / f"{partition}.new").replace(self._checkpoints / f"{partition}.load")
        self._base, self._since, self._bytes = self._sequence, [], 0
        self._limit = max(CHECKPOINT_BYTES, written)

    def _log(self, operations: Sequence[Operation]) -> list[Answer]:
        """Carry out the next operation, and keep it until the next checkpoint."""
        self._sequence += 1
        blobs = [pickle.dumps(operation, pickle.HIGHEST_PROTOCOL) for operation in operations]
        self._since.append(blobs)
        self._bytes += sum(map(len, blobs))
        return self._settled(operations)

    def _settled(self, operations: Sequence[Operation]) -> list[Answer]:
        """Carry out an operation, restoring whatever partitions have lost their state."""
        for _ in range(ATTEMPTS):
            answers = self._everywhere(operations)
            behind = [p for p, answer in enumerate(answers) if isinstance(answer, Behind)]
            if not behind:
                return answers
            restorations = [replace(self._restoration(p), then=operations[p]) for p in behind]
            todo = dict(zip(behind, restorations, strict=True))
            restored = self._everywhere([todo.get(p) for p in range(self.partitions)])
            answers = [restored[p] if p in todo else answer for p, answer in enumerate(answers)]
            if not any(isinstance(answer, Behind) for answer in answers):
                return answers
        raise BackendError(f"partitions {behind} keep losing their state: are executors lost all the time?")

    def _restoration(self, partition: int) -> Restore:
        base = (self._checkpoints / f"{partition}.load").read_bytes()
        return Restore(self._base, base, tuple(blobs[partition] for blobs in self._since))

    def task(self, operations: Sequence[Operation | None]) -> Task:
        """What the job of some operations does in each partition."""
        return _task(self._name, self._code, self._sequence, operations)

    def _everywhere(self, operations: Sequence[Operation | None]) -> list[Answer]:
        """One job; run again if it fails, since worker processes and executors may die at any time."""
        task = self.task(operations)
        self._used = True
        for attempt in range(ATTEMPTS):
            try:
                found: list[tuple[int, Answer]] = self._anchor.mapPartitionsWithIndex(task).collect()
            except Exception as reason:
                if attempt + 1 == ATTEMPTS:
                    raise BackendError(
                        f"the partitions failed {ATTEMPTS} times, at last by: {reason}"
                    ) from reason
                continue
            return [answer for _, answer in sorted(found, key=lambda pair: pair[0])]
        raise AssertionError("the last attempt returns or raises")


def _task(name: str, code: Any, sequence: int, operations: Sequence[Operation | None]) -> Task:
    blobs = [pickle.dumps(operation, pickle.HIGHEST_PROTOCOL) for operation in operations]

    def task(partition: int, rows: Iterator[int]) -> Iterator[tuple[int, Answer]]:
        for _ in rows:  # an undrained input makes Spark throw the worker away
            pass
        operation = pickle.loads(blobs[partition])
        if operation is None:
            return iter([(partition, NOTHING_GIVEN)])
        path = state_directory(name) / f"{partition}.log"
        return iter([(partition, perform(path, _code(name, code), sequence, operation))])

    return task


def _forgetting(name: str) -> Callable[[int, Iterator[int]], Iterator[int]]:
    def task(partition: int, rows: Iterator[int]) -> Iterator[int]:
        for _ in rows:
            pass
        forget(state_directory(name) / f"{partition}.log")
        return iter(())

    return task


_CODES: dict[str, SiteCode] = {}


def _code(name: str, broadcast: Any) -> SiteCode:
    """The program in this process's memory: unpickled once."""
    if name not in _CODES:
        code: SiteCode = pickle.loads(broadcast.value)
        directory = state_directory(name)
        directory.mkdir(parents=True, exist_ok=True)
        with locked(directory / "code"):  # one process compiles, the others find it done
            code.compile()
        _CODES[name] = code
    return _CODES[name]


def state_directory(name: str) -> Path:
    """Where an executor keeps the partitions of a program: in a directory that Spark removes at the end."""
    local = os.environ.get("SPARK_LOCAL_DIRS") or tempfile.gettempdir()
    return Path(local.split(",")[0]) / "viewlet" / name
