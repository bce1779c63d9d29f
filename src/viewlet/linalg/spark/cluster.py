"""Workers of a Spark application that hold blocks.

Every list of operations is one job over a small cached RDD, the *anchor*, whose cached blocks tie each
partition to the executor that has its files; the operations, with the thin matrices in them, are broadcast. A
job that fails is run again: operations may be repeated (``operations.py``).
"""

from __future__ import annotations

import os
import pickle
import shutil
import tempfile
import uuid
import weakref
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from viewlet.errors import BackendError
from viewlet.linalg.arrays import Arrays
from viewlet.linalg.spark.operations import Answer, Lost, Operation, perform
from viewlet.linalg.spark.store import Store

ATTEMPTS = 4

Answers: TypeAlias = "list[Answer] | Lost"


class Workers(Protocol):
    """Partitions that carry out operations, wherever they are."""

    partitions: int
    durable: Path

    def run(self, operations: Sequence[Operation]) -> list[Answers]:
        """Carry out operations in every partition: one answer list each."""

    def close(self) -> None:
        """Remove all files."""


class SparkWorkers:
    """One partition per task that the session runs at once."""

    def __init__(self, spark: Any, arrays: Arrays, directory: Any = None) -> None:
        self._context = spark.sparkContext
        if directory is None and not self._context.master.startswith("local"):
            raise BackendError(
                f"on {self._context.master} the blocks of matrices need storage that the driver and all "
                "executors can read: give its path as store="
            )
        self._name = uuid.uuid4().hex
        parent = None if directory is None else str(directory)
        self.durable = Path(tempfile.mkdtemp(prefix="viewlet-matrices-", dir=parent))
        self.partitions = int(self._context.defaultParallelism)
        self._arrays = arrays
        self._anchor = self._context.parallelize(range(self.partitions), self.partitions).persist()
        weakref.finalize(self, shutil.rmtree, self.durable, ignore_errors=True)

    def run(self, operations: Sequence[Operation]) -> list[Answers]:
        """One job; run again if it fails, since worker processes and executors may die at any time."""
        load = pickle.dumps((self._arrays, tuple(operations)), pickle.HIGHEST_PROTOCOL)
        broadcast = self._context.broadcast(load)
        task = self.task(broadcast)
        try:
            for attempt in range(ATTEMPTS):
                try:
                    found = self._anchor.mapPartitionsWithIndex(task).collect()
                except Exception as reason:
                    if attempt + 1 == ATTEMPTS:
                        raise BackendError(
                            f"a job over blocks failed {ATTEMPTS} times, at last by: {reason}"
                        ) from reason
                    continue
                return [answers for _, answers in sorted(found, key=lambda pair: pair[0])]
            raise AssertionError("the last attempt returns or raises")
        finally:
            broadcast.destroy()

    def task(self, broadcast: Any) -> Callable[[int, Iterator[int]], Iterator[tuple[int, Answers]]]:
        """What a job does in each partition."""
        return _task(self._name, self.durable, broadcast)

    def close(self) -> None:
        """Remove all files, those of the executors too unless they are gone already."""
        if self._context._jsc is not None:
            self._anchor.mapPartitionsWithIndex(_forgetting(self._name)).count()
            self._anchor.unpersist()
        shutil.rmtree(self.durable, ignore_errors=True)


def _task(
    name: str, durable: Path, broadcast: Any
) -> Callable[[int, Iterator[int]], Iterator[tuple[int, Answers]]]:
    def task(partition: int, rows: Iterator[int]) -> Iterator[tuple[int, Answers]]:
        for _ in rows:  # an undrained input makes Spark throw the worker away
            pass
        arrays, operations = pickle.loads(broadcast.value)
        store = Store(block_directory(name), durable, partition)
        return iter([(partition, perform(store, arrays, operations))])

    return task


def _forgetting(name: str) -> Callable[[int, Iterator[int]], Iterator[int]]:
    def task(_: int, rows: Iterator[int]) -> Iterator[int]:
        for _ in rows:
            pass
        shutil.rmtree(block_directory(name), ignore_errors=True)
        return iter(())

    return task


def block_directory(name: str) -> Path:
    """Where an executor keeps its blocks: in a directory that Spark removes at the end."""
    local = os.environ.get("SPARK_LOCAL_DIRS") or tempfile.gettempdir()
    return Path(local.split(",")[0]) / "viewlet-blocks" / name
