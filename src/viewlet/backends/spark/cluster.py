"""Partitions of a distributed program: what they are asked for, simulated here or on executors of Spark."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Protocol

from viewlet.backends.spark.native import SiteCode
from viewlet.backends.spark.partition import Round
from viewlet.backends.spark.replay import Replayed
from viewlet.backends.spark.site import Given, Held, Pieces, Step, Wanted, read_site, run_steps
from viewlet.workers import Workers


class Cluster(Protocol):
    """Partitions somewhere, each a :class:`~viewlet.backends.spark.site.Site`."""

    partitions: int

    def run(
        self, steps: Sequence[Sequence[Step]], wanted: Wanted, follow: tuple[str, ...] | None, goes_on: bool
    ) -> list[Given]:
        """Run steps in every partition, then read what is wanted; raises what a partition raises.

        ``follow`` are the views that are followed from here on, if that changes; ``goes_on`` says that they
        are since an earlier batch.
        """

    def abort(self) -> None:
        """Take back, in every partition, what the last batch has written there."""

    def load(self, contents: Sequence[Pieces]) -> None:
        """Give every partition its entries."""

    def read(self, wanted: Wanted) -> list[Held]:
        """Read in every partition."""

    def close(self) -> None:
        """Give up the state."""


class SimulatedCluster:
    """Partitions in this process: what a cluster does, without one."""

    def __init__(self, code: SiteCode, partitions: int) -> None:
        self.partitions = partitions
        self._code = code
        self._sites: list[Replayed] = [Replayed(code.open) for _ in range(partitions)]
        self._batch = -1

    def run(
        self, steps: Sequence[Sequence[Step]], wanted: Wanted, follow: tuple[str, ...] | None, goes_on: bool
    ) -> list[Given]:
        """Run steps in every partition, then read what is wanted; contents are never written down here."""
        if steps[0][0].batch != self._batch:
            self._batch = steps[0][0].batch
            for site in self._sites:
                site.keep()
        todo = partial(
            run_steps,
            program=self._code.program,
            partitions=self.partitions,
            wanted=wanted,
            follow=follow,
        )
        return [site.do(partial(todo, steps=own)) for site, own in zip(self._sites, steps, strict=True)]

    def abort(self) -> None:
        """Take back what the last batch has written."""
        for site in self._sites:
            site.undo()

    def load(self, contents: Sequence[Pieces]) -> None:
        """Give every partition its entries."""
        for site, own in zip(self._sites, contents, strict=True):
            site.load(own)

    def read(self, wanted: Wanted) -> list[Held]:
        """Read in every partition."""
        return [read_site(site.site, self._code.program, wanted) for site in self._sites]

    def close(self) -> None:
        """Give up the state."""
        self._sites = []


class SparkCluster:
    """Partitions on the executors of a Spark application; see :class:`Cluster`."""

    def __init__(self, workers: Workers) -> None:
        self.workers = workers
        self.partitions = workers.partitions
        self._batch: int | None = None

    def run(
        self, steps: Sequence[Sequence[Step]], wanted: Wanted, follow: tuple[str, ...] | None, goes_on: bool
    ) -> list[Given]:
        """Run steps in every partition, then read what is wanted; raises what a partition raises."""
        begins, self._batch = steps[0][0].batch != self._batch, steps[0][0].batch
        rounds = [Round(own, self.partitions, wanted, follow) for own in steps]
        return self.workers.run(rounds, begins=begins, goes_on=goes_on)

    def abort(self) -> None:
        """Take back the last batch."""
        self.workers.abort()

    def load(self, contents: Sequence[Pieces]) -> None:
        """Give every partition its entries."""
        self.workers.load(contents)

    def read(self, wanted: Wanted) -> list[Held]:
        """Read in every partition."""
        return self.workers.read([wanted] * self.partitions)

    def close(self) -> None:
        """Give up the state."""
        self.workers.close()
