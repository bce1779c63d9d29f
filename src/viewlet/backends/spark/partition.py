"""A site as the state of a partition: what :mod:`viewlet.workers` holds on the executors for SQL views."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from viewlet.backends.spark.native import SiteCode
from viewlet.backends.spark.site import Given, Held, Pieces, Step, Wanted, read_site, run_steps


@dataclass(frozen=True, slots=True)
class Round:
    """Run some blocks, then read something; what blocks hand over is cut for so many partitions.

    ``follow`` are the views that are followed from here on, if that changes.
    """

    steps: Sequence[Step]
    partitions: int
    wanted: Wanted
    follow: tuple[str, ...] | None


class SiteState:
    """See :class:`viewlet.workers.State`."""

    def __init__(self, code: SiteCode) -> None:
        self._program = code.program
        self._site = code.open()

    def load(self, contents: Pieces) -> None:
        """Hold these entries."""
        self._site.load(contents)

    def contents(self) -> Pieces:
        """The entries of all maps."""
        return {name: [piece] for name, piece in self._site.contents(None).items()}

    def run(self, operation: Round) -> Given:
        """Run blocks of triggers."""
        return run_steps(
            self._site,
            self._program,
            operation.steps,
            operation.partitions,
            operation.wanted,
            operation.follow,
        )

    def read(self, what: Wanted) -> Held:
        """The entries of some maps, and the rows of some views."""
        return read_site(self._site, self._program, what)


@dataclass(frozen=True, slots=True)
class PartitionCode:
    """See :class:`viewlet.workers.Code`."""

    code: SiteCode

    def prepare(self) -> None:
        """Compile into the cache of this machine."""
        self.code.compile()

    def open(self) -> SiteState:
        """An empty partition in this process."""
        return SiteState(self.code)
