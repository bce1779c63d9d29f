"""Reaching partitions by Spark jobs: one for every round, over logs on the executors' disks.

A job runs over a small cached RDD, the *anchor*, whose cached blocks tie each partition to the executor that
holds its state; what is said to the partitions travels in the closure of the job. A job costs some tens of
milliseconds whatever it does.
"""

from __future__ import annotations

import os
import pickle
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from viewlet.workers.log import forget, locked, perform
from viewlet.workers.state import Code

Task: TypeAlias = Callable[[int, Iterator[int]], Iterator[tuple[int, bytes]]]


class Executors:
    """The executors of an application, the code for them, and the anchor that ties partitions to them."""

    def __init__(self, context: Any, name: str, code: Code, partitions: int) -> None:
        from pyspark import cloudpickle

        self.context, self.name, self.partitions = context, name, partitions
        self.code = context.broadcast(cloudpickle.dumps(code))
        self._anchor = context.parallelize(range(partitions), partitions).persist()

    def job(self, task: Task) -> dict[int, bytes]:
        """Run a task in every partition; what each gives, by its number."""
        return dict(self._anchor.mapPartitionsWithIndex(task).collect())

    @property
    def running(self) -> bool:
        """Has the application not been stopped?"""
        return self.context._jsc is not None

    def close(self) -> None:
        """Let go of the anchor."""
        if self.running:
            self._anchor.unpersist()
            self.code.unpersist()


class Jobs:
    """See :class:`viewlet.workers.cluster.Way`."""

    def __init__(self, executors: Executors) -> None:
        self._executors = executors
        self._used = False

    def ask(self, sequence: int, blobs: Sequence[bytes | None]) -> dict[int, bytes]:
        """One job."""
        self._used = True
        return self._executors.job(self.task(sequence, blobs))

    def task(self, sequence: int, blobs: Sequence[bytes | None]) -> Task:
        """What the job does in each partition."""
        return _performing(self._executors.name, self._executors.code, sequence, blobs)

    def close(self) -> None:
        """Remove the logs, unless the executors are gone already."""
        if self._used and self._executors.running:
            self._executors.job(_forgetting(self._executors.name))


def _performing(name: str, broadcast: Any, sequence: int, blobs: Sequence[bytes | None]) -> Task:
    def task(partition: int, rows: Iterator[int]) -> Iterator[tuple[int, bytes]]:
        drain(rows)
        blob = blobs[partition]
        if blob is None:
            return iter(())
        code, began = code_here(name, broadcast), time.perf_counter()
        answer = perform(state_directory(name) / f"{partition}.log", code, sequence, pickle.loads(blob))
        return iter(
            [(partition, pickle.dumps((answer, time.perf_counter() - began), pickle.HIGHEST_PROTOCOL))]
        )

    return task


def _forgetting(name: str) -> Task:
    def task(partition: int, rows: Iterator[int]) -> Iterator[tuple[int, bytes]]:
        drain(rows)
        forget(state_directory(name) / f"{partition}.log")
        return iter(())

    return task


def drain(rows: Iterator[int]) -> None:
    """Read the input of a task to its end: else Spark throws the worker process away."""
    for _ in rows:
        pass


_CODES: dict[str, Code] = {}


def code_here(name: str, broadcast: Any) -> Code:
    """The program in this process's memory: unpickled once, prepared by one process at a time."""
    if name not in _CODES:
        code: Code = pickle.loads(broadcast.value)
        directory = state_directory(name)
        directory.mkdir(parents=True, exist_ok=True)
        with locked(directory / "code"):
            code.prepare()
        _CODES[name] = code
    return _CODES[name]


def state_directory(name: str) -> Path:
    """Where an executor keeps the partitions of a program: in a directory that Spark removes at the end."""
    local = os.environ.get("SPARK_LOCAL_DIRS") or tempfile.gettempdir()
    return Path(local.split(",")[0]) / "viewlet" / name
