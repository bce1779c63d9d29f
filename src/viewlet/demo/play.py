"""Running a scene: batches go in, and after each one every view is fresh."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from viewlet.database import Database
from viewlet.demo.scenes import Scene
from viewlet.workloads.stream import Stream


@dataclass(slots=True)
class Run:
    """What was measured so far: per batch, when it ended, how many changes it had, and how long it took."""

    ends: list[float] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    latencies: list[float] = field(default_factory=list)

    @property
    def changes(self) -> int:
        """How many changes have been applied."""
        return sum(self.sizes)

    @property
    def rate(self) -> float:
        """Changes per second of work; drawing the screen is not counted."""
        worked = sum(self.latencies)
        return self.changes / worked if worked else 0.0

    def quantile(self, share: float) -> float:
        """The latency that this share of the batches stays within.

        >>> Run(latencies=[3.0, 1.0, 2.0]).quantile(0.5)
        2.0
        """
        ordered = sorted(self.latencies)
        return ordered[min(int(share * len(ordered)), len(ordered) - 1)] if ordered else 0.0


def prepare(db: Database, scene: Scene, start: Stream) -> None:
    """Create tables and views, and load what is there at the start."""
    db.execute(scene.schema)
    for name, query in scene.views.items():
        db.execute(f"CREATE MATERIALIZED VIEW {name} AS {query.strip().rstrip(';')}")
    db.apply(start.whole())


def play(db: Database, changes: Stream, batch: int, seconds: float, run: Run) -> Iterator[float]:
    """Apply batches until the time is over or the stream ends; yields the share of the time that is over."""
    began = time.perf_counter()
    for part in changes.batches(batch):
        before = time.perf_counter()
        db.apply(part)
        now = time.perf_counter()
        run.ends.append(now - began)
        run.sizes.append(sum(rows.num_rows for rows in part.values()))
        run.latencies.append(now - before)
        if now - began >= seconds:
            return
        yield (now - began) / seconds
