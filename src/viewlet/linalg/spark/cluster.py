"""The workers of a Spark application, as holders of blocks.

Rounds, and processes that die, are the business of :mod:`viewlet.workers`. Its log is not needed here: what a
partition holds are files that never change, so every operation may be repeated and is asked as a question.
"""

from __future__ import annotations

import shutil
import tempfile
import uuid
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from viewlet.errors import BackendError
from viewlet.linalg.arrays import Arrays
from viewlet.linalg.spark.operations import Answer, Leave, Lost, Operation, perform
from viewlet.linalg.spark.store import Store
from viewlet.workers import Workers
from viewlet.workers.jobs import state_directory

Answers: TypeAlias = "list[Answer] | Lost"


class BlockHolders(Protocol):
    """Partitions that carry out operations on blocks, wherever they are."""

    partitions: int
    durable: Path

    def run(self, operations: Sequence[Operation]) -> list[Answers]:
        """Carry out operations in every partition, in one round: one list of answers each."""

    def close(self) -> None:
        """Remove all files."""


@dataclass(frozen=True)
class BlockCode:
    """What an executor needs to open a partition."""

    name: str
    durable: Path
    arrays: Arrays

    def prepare(self) -> None:
        """Nothing to compile."""

    def open(self) -> BlockPartition:
        """A partition that does not know yet which one it is."""
        return BlockPartition(self)


class BlockPartition:
    """A partition: its number and its files. It is loaded with the number."""

    def __init__(self, code: BlockCode) -> None:
        self.code, self.number = code, 0

    def load(self, contents: int) -> None:
        """Be this partition."""
        self.number = contents

    def contents(self) -> int:
        """Which partition this is; what it holds are files."""
        return self.number

    def run(self, operation: Any) -> Any:
        """There is nothing in memory to change."""
        raise AssertionError("operations on blocks are asked as questions")

    def read(self, what: Sequence[Operation]) -> Answers:
        """Carry out operations on the files."""
        store = Store(state_directory(self.code.name), self.code.durable, self.number)
        return perform(store, self.code.arrays, what)


class SparkHolders:
    """One partition per task that the session runs at once."""

    def __init__(self, spark: Any, arrays: Arrays, directory: Any = None) -> None:
        context = spark.sparkContext
        if directory is None and not context.master.startswith("local"):
            raise BackendError(
                f"on {context.master} the blocks of matrices need storage that the driver and all "
                "executors can read: give its path as store="
            )
        self.durable = Path(tempfile.mkdtemp(prefix="viewlet-matrices-", dir=directory))
        self.partitions = int(context.defaultParallelism)
        self.name = f"matrices-{uuid.uuid4().hex}"
        self.workers = Workers(spark, BlockCode(self.name, self.durable, arrays), self.partitions)
        self.workers.load(range(self.partitions))
        weakref.finalize(self, shutil.rmtree, self.durable, ignore_errors=True)

    def run(self, operations: Sequence[Operation]) -> list[Answers]:
        """One round: every partition is told the same, thin matrices and all."""
        return self.workers.read([tuple(operations)] * self.partitions)

    def close(self) -> None:
        """Remove all files, those of the executors too unless they are gone already."""
        try:
            self.run([Leave()])
        except BackendError:  # the session has ended, and took them along
            pass
        finally:
            self.workers.close()
            shutil.rmtree(self.durable, ignore_errors=True)
