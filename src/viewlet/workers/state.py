"""What a partition holds: any class with these four methods, and how to open it on an executor."""

from __future__ import annotations

from typing import Any, Protocol


class State(Protocol):
    """One partition.

    It is deterministic, which recovery by replay rests on: ``load(contents())`` and then the same operations
    give the same results and the same contents. A state whose operation was refused is of no use any more: it
    is made again.
    """

    def load(self, contents: Any) -> None:
        """Hold these contents; only called before anything else."""

    def contents(self) -> Any:
        """All that :meth:`load` needs; can be pickled."""

    def run(self, operation: Any) -> Any:
        """Change the state and give a result that can be pickled; a ``ViewletError`` refuses."""

    def read(self, what: Any) -> Any:
        """Look, and change nothing."""


class Code(Protocol):
    """How to open the partitions of a program; it is pickled to the executors."""

    def prepare(self) -> None:
        """What takes long and is needed once on a machine, such as compiling; one process at a time."""

    def open(self) -> State:
        """An empty state in this process."""
