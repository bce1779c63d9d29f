"""The driver's side: rounds of operations, checkpoints, and partitions that are restored when they are lost.

What is said to a partition is kept, pickled, until the next checkpoint, so a partition can be made again
alone. Checkpoints are on the driver's disk; they are due when more was said since the last than that holds,
so all of them together cost no more than was said.
"""

from __future__ import annotations

import os
import pickle
import shutil
import tempfile
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from viewlet.errors import BackendError
from viewlet.workers.jobs import Executors, Jobs
from viewlet.workers.lines import Lines
from viewlet.workers.operations import Answer, Behind, Done, Load, Operation, Read, Refused, Restore, Run
from viewlet.workers.state import Code

ATTEMPTS = 4
CHECKPOINT_BYTES = 64 << 20


class Way(Protocol):
    """A way to reach partitions."""

    def ask(self, sequence: int, blobs: Sequence[bytes | None]) -> dict[int, bytes]:
        """Say something to partitions, at once: a pickled operation and its number.

        Gives pickled pairs of an answer and the seconds that it took. Raises if some partition was not heard;
        then the same is said again.
        """

    def close(self) -> None:
        """Nothing more will be said."""


MakeWay: TypeAlias = Callable[[Executors], Way]


@dataclass(slots=True)
class Traffic:
    """What has passed between the driver and each partition: bytes said and heard, seconds of work."""

    partitions: int
    rounds: int = 0
    said: list[int] = field(init=False)
    heard: list[int] = field(init=False)
    seconds: list[float] = field(init=False)
    checkpoints: int = 0
    restorations: int = 0

    def __post_init__(self) -> None:
        self.said, self.heard = [0] * self.partitions, [0] * self.partitions
        self.seconds = [0.0] * self.partitions


class Workers:
    """Partitions with state on the executors of a Spark session; see :mod:`viewlet.workers`.

    ``way`` is how they are reached: lines, unless the session's ``spark.viewlet.lines`` is false, which
    is the default on anything but Linux.
    """

    def __init__(self, spark: Any, code: Code, partitions: int, way: MakeWay | None = None) -> None:
        context = spark.sparkContext
        lines = context.getConf().get("spark.viewlet.lines", str(hasattr(os, "pidfd_open"))).lower() == "true"
        self.partitions = partitions
        self._executors = Executors(context, uuid.uuid4().hex, code, partitions)
        self.way = (way or (Lines if lines else Jobs))(self._executors)
        self.traffic = Traffic(partitions)
        self._sequence = 0
        self._checkpoints = Path(tempfile.mkdtemp(prefix="viewlet-checkpoint-"))
        self._base = 0
        self._since: list[list[bytes]] = []
        self._before = 0
        self._bytes = 0
        self._limit = CHECKPOINT_BYTES

    def load(self, contents: Sequence[Any]) -> None:
        """Keep contents as the first checkpoint: a partition is restored from it when it is first used."""
        self._keep([_pickled(Load(own)) for own in contents])

    def run(self, operations: Sequence[Any], *, begins: bool = True, goes_on: bool = False) -> list[Any]:
        """Run an operation in every partition, once; their results.

        ``begins`` says that a batch begins here: :meth:`abort` leads back to this place. ``goes_on`` says
        that partitions still hold something of the batch before which is not among their contents, so there
        is no checkpoint in between. Raises what a partition refuses with.
        """
        if begins:
            if self._bytes > self._limit and not goes_on:
                self.checkpoint()
            self._before = len(self._since)
        self._sequence += 1
        blobs = [_pickled(Run(operation, begins and not goes_on)) for operation in operations]
        self._since.append(blobs)
        self._bytes += sum(map(len, blobs))
        return self._settled(blobs)

    def read(self, whats: Sequence[Any]) -> list[Any]:
        """Ask every partition something that changes nothing."""
        return self._settled([_pickled(Read(what)) for what in whats])

    def abort(self) -> None:
        """Take back the last batch: every partition is made again without it.

        The operation numbers go on, so that a task of the batch which comes late finds nothing to do.
        """
        del self._since[self._before :]
        self._sequence += 1
        self._base = self._sequence - len(self._since)
        self._everywhere([_pickled(self._restoration(p)) for p in range(self.partitions)])

    def checkpoint(self) -> None:
        """Copy the state of every partition to the driver's disk, and forget the operations before.

        Partitions pickle what they hold; the driver does not look into it.
        """
        self.traffic.checkpoints += 1
        self._keep(self._settled([_pickled(Read(None, whole=True))] * self.partitions))

    def close(self) -> None:
        """Give up the state, on the executors too unless they are gone already."""
        self.way.close()
        self._executors.close()
        shutil.rmtree(self._checkpoints, ignore_errors=True)

    def _keep(self, loads: Sequence[bytes]) -> None:
        """Restore partitions from these pickled :class:`Load` from now on."""
        for partition, load in enumerate(loads):
            (self._checkpoints / f"{partition}.new").write_bytes(load)
        for partition in range(self.partitions):
            (self._checkpoints / f"{partition}.new").replace(self._checkpoints / f"{partition}.load")
        self._base, self._since, self._before, self._bytes = self._sequence, [], 0, 0
        self._limit = max(CHECKPOINT_BYTES, sum(map(len, loads)))

    def _settled(self, blobs: Sequence[bytes]) -> list[Any]:
        """Carry out an operation, restoring whatever partitions have lost their state; the results."""
        for _ in range(ATTEMPTS):
            answers = self._everywhere(blobs)
            behind = [p for p, answer in answers.items() if isinstance(answer, Behind)]
            if behind:
                self.traffic.restorations += len(behind)
                answers |= self._everywhere(
                    [self._restored(p, blobs[p]) if p in behind else None for p in range(self.partitions)]
                )
            if not any(isinstance(answer, Behind) for answer in answers.values()):
                return _results(answers)
        raise BackendError(f"partitions {behind} keep losing their state: are executors lost all the time?")

    def _restored(self, partition: int, blob: bytes) -> bytes:
        """What a partition that lost its state is told: how to get it back, and to do the operation then."""
        return _pickled(replace(self._restoration(partition), then=pickle.loads(blob)))

    def _restoration(self, partition: int) -> Restore:
        base = (self._checkpoints / f"{partition}.load").read_bytes()
        return Restore(self._base, base, tuple(blobs[partition] for blobs in self._since))

    def _everywhere(self, blobs: Sequence[bytes | None]) -> dict[int, Answer]:
        """One round; again if it fails, since worker processes and executors may die at any time."""
        for attempt in range(ATTEMPTS):
            try:
                heard = self.way.ask(self._sequence, blobs)
            except BackendError:
                raise
            except Exception as reason:
                if attempt + 1 == ATTEMPTS:
                    raise BackendError(
                        f"the partitions failed {ATTEMPTS} times, at last by: {reason}"
                    ) from reason
                continue
            return self._heard(blobs, heard)
        raise AssertionError("the last attempt returns or raises")

    def _heard(self, blobs: Sequence[bytes | None], heard: dict[int, bytes]) -> dict[int, Answer]:
        traffic, answers = self.traffic, {}
        traffic.rounds += 1
        for partition, blob in heard.items():
            answers[partition], seconds = pickle.loads(blob)
            traffic.said[partition] += len(blobs[partition] or b"")
            traffic.heard[partition] += len(blob)
            traffic.seconds[partition] += seconds
        return answers


def _pickled(operation: Operation) -> bytes:
    return pickle.dumps(operation, pickle.HIGHEST_PROTOCOL)


def _results(answers: dict[int, Answer]) -> list[Any]:
    for answer in answers.values():
        if isinstance(answer, Refused):
            raise answer.reason
    return [answer.result for _, answer in sorted(answers.items()) if isinstance(answer, Done)]
