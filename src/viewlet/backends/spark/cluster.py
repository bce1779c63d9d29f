"""Partitions of a distributed program on the executors of a Spark application."""

from __future__ import annotations

from collections.abc import Sequence

from viewlet.backends.spark.partition import Round
from viewlet.backends.spark.site import Given, Held, Pieces, Step, Wanted
from viewlet.workers import Workers


class SparkCluster:
    """See :class:`viewlet.backends.spark.coordinate.Cluster`."""

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
