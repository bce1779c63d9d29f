"""Measuring a database from outside without slowing it down.

Counting the rows of a large view takes time, and commits wait meanwhile. So a measurement is repeated only
after :data:`PATIENCE` times as long as it took: watching costs a database a twentieth of its time at most.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from dataclasses import dataclass

from viewlet.database import Database
from viewlet.server.graph import view_bytes
from viewlet.stats import Stats

PATIENCE = 20
HISTORY = 120
WINDOW = 10.0  # seconds over which rates are averaged


@dataclass(frozen=True, slots=True)
class Sample:
    """The sizes of a database at a moment, by the monotonic clock."""

    at: float
    stats: Stats
    view_bytes: dict[str, int]
    cost: float


STARTING = "starting: views are being compiled"
"""What is the matter until the first sample, which waits for the programs of views."""


@dataclass(frozen=True, slots=True)
class Rates:
    """Changes per second over the last :data:`WINDOW` seconds; ``busy`` is the share of time in engines."""

    commits: float
    busy: float
    refreshes: dict[str, float]


class Meter:
    """Takes samples of a database until it is cancelled, and remembers the last ones."""

    def __init__(self, database: Database, interval: float = 1.0) -> None:
        self._database = database
        self._interval = interval
        self.samples: deque[Sample] = deque(maxlen=HISTORY)
        self.failure: str | None = STARTING
        self._taken = asyncio.Condition()

    async def run(self) -> None:
        """Measure for ever; a failure is remembered and tried again."""
        while True:
            try:
                sample = await asyncio.to_thread(self.measure)
            except Exception as failure:  # a closed database, above all: it is reported by /ready
                self.failure = str(failure)
                pause = self._interval
            else:
                self.samples.append(sample)
                self.failure = None
                pause = max(self._interval, PATIENCE * sample.cost)
            async with self._taken:
                self._taken.notify_all()
            await asyncio.sleep(pause)

    def measure(self) -> Sample:
        """One sample, taken now by this thread."""
        began = time.thread_time()  # what the counting took, not what it waited
        stats = self._database.stats()
        at = time.monotonic()
        sizes = view_bytes(self._database.programs(), stats.maps)
        return Sample(at, stats, sizes, time.thread_time() - began)

    async def wait(self) -> None:
        """Until the next sample, or failure."""
        async with self._taken:
            await self._taken.wait()

    @property
    def last(self) -> Sample | None:
        """The newest sample."""
        return self.samples[-1] if self.samples else None

    def rates(self) -> Rates:
        """How fast things change; zeros until there are two samples."""
        if len(self.samples) < 2:
            return Rates(0.0, 0.0, {})
        new = self.samples[-1]
        old = next((s for s in self.samples if new.at - s.at <= WINDOW and s is not new), self.samples[-2])
        seconds = new.at - old.at
        return Rates(
            (new.stats.version - old.stats.version) / seconds,
            (new.stats.seconds - old.stats.seconds) / seconds,
            {
                view: max(0, count - old.stats.refreshes.get(view, 0)) / seconds
                for view, count in new.stats.refreshes.items()
            },
        )
