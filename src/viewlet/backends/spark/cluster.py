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
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from viewlet.backends.spark.nodes import DistProgram
from viewlet.backends.spark.partition import (
    Abort,
    Answer,
    Behind,
    Done,
    Load,
    Operation,
    Read,
    Refused,
    Restore,
    Run,
    forget,
    perform,
)
from viewlet.backends.spark.site import Entries, Relations, Step
from viewlet.errors import BackendError

Task: TypeAlias = Callable[[int, Iterator[int]], Iterator[tuple[int, Answer]]]

ATTEMPTS = 4
CHECKPOINT_BYTES = 16 << 20


class SparkCluster:
    """See :class:`viewlet.backends.spark.coordinate.Cluster`."""

    def __init__(self, spark: Any, program: DistProgram, partitions: int) -> None:
        self.partitions = partitions
        self._context = spark.sparkContext
        self._name = uuid.uuid4().hex
        self._program = self._context.broadcast(pickle.dumps(program, pickle.HIGHEST_PROTOCOL))
        self._anchor = self._context.parallelize(range(partitions), partitions).persist()
        self._sequence = 0
        self._checkpoints = Path(tempfile.mkdtemp(prefix="viewlet-checkpoint-"))
        self._base = 0
        self._since: list[list[bytes]] = []
        self._bytes = 0
        self._limit = CHECKPOINT_BYTES
        self._batch: int | None = None
        self._used = False

    def run(self, steps: Sequence[Step]) -> list[Relations]:
        """Run one step in every partition; raises what a partition raises."""
        if steps[0].batch != self._batch:
            self._batch = steps[0].batch
            if self._bytes > self._limit:
                self.checkpoint()
        answers = self._log([Run(step) for step in steps])
        for answer in answers:
            if isinstance(answer, Refused):
                raise answer.reason
        return [answer.relations for answer in answers if isinstance(answer, Done)]

    def abort(self, batch: int) -> None:
        """Take back, in every partition, what a batch has written there."""
        self._log([Abort(batch)] * self.partitions)

    def load(self, contents: Sequence[Mapping[str, Entries]]) -> None:
        """Keep entries as the first checkpoint: a partition is restored from it when it is first used."""
        self._keep([Load(own) for own in contents])

    def contents(self, maps: Sequence[str]) -> list[dict[str, Entries]]:
        """The entries of some maps, partition by partition."""
        answers = self._settled([Read(tuple(maps))] * self.partitions)
        return [answer.relations for answer in answers if isinstance(answer, Done)]

    def checkpoint(self) -> None:
        """Copy the state of every partition to the driver's disk, and forget the operations before."""
        answers = self._settled([Read(None)] * self.partitions)
        self._keep([Load(answer.relations) for answer in answers if isinstance(answer, Done)])

    def close(self) -> None:
        """Give up the state, on the executors too unless they are gone already."""
        if self._context._jsc is not None:
            if self._used:
                self._anchor.mapPartitionsWithIndex(_forgetting(self._name)).count()
            self._anchor.unpersist()
            self._program.unpersist()
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
            self._everywhere([self._restoration(p) if p in behind else None for p in range(self.partitions)])
        raise BackendError(f"partitions {behind} keep losing their state: are executors lost all the time?")

    def _restoration(self, partition: int) -> Restore:
        base = (self._checkpoints / f"{partition}.load").read_bytes()
        return Restore(self._base, base, tuple(blobs[partition] for blobs in self._since))

    def task(self, operations: Sequence[Operation | None]) -> Task:
        """What the job of some operations does in each partition."""
        return _task(self._name, self._program, self._sequence, operations)

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


def _task(name: str, program: Any, sequence: int, operations: Sequence[Operation | None]) -> Task:
    blobs = [pickle.dumps(operation, pickle.HIGHEST_PROTOCOL) for operation in operations]

    def task(partition: int, rows: Iterator[int]) -> Iterator[tuple[int, Answer]]:
        for _ in rows:  # an undrained input makes Spark throw the worker away
            pass
        operation = pickle.loads(blobs[partition])
        if operation is None:
            return iter([(partition, Done({}))])
        path = state_directory(name) / f"{partition}.log"
        return iter([(partition, perform(path, _program(name, program), sequence, operation))])

    return task


def _forgetting(name: str) -> Callable[[int, Iterator[int]], Iterator[int]]:
    def task(partition: int, rows: Iterator[int]) -> Iterator[int]:
        for _ in rows:
            pass
        forget(state_directory(name) / f"{partition}.log")
        return iter(())

    return task


_PROGRAMS: dict[str, DistProgram] = {}


def _program(name: str, broadcast: Any) -> DistProgram:
    """The program in this process's memory: unpickled once."""
    if name not in _PROGRAMS:
        _PROGRAMS[name] = pickle.loads(broadcast.value)
    return _PROGRAMS[name]


def state_directory(name: str) -> Path:
    """Where an executor keeps the partitions of a program: in a directory that Spark removes at the end."""
    local = os.environ.get("SPARK_LOCAL_DIRS") or tempfile.gettempdir()
    return Path(local.split(",")[0]) / "viewlet" / name
