"""A database whose clock jumps: back, forth, before 1970; and whose files claim to be from any time."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).parent))

import workload

import viewlet

STEPS = 30


@contextmanager
def any_time(rng: random.Random) -> Iterator[None]:
    """Every look at the clock on the wall shows another time."""

    def shown() -> float:
        return rng.uniform(-1e9, 4e9)

    with (
        mock.patch("time.time", side_effect=shown),
        mock.patch("time.time_ns", side_effect=lambda: int(shown() * 1e9)),
    ):
        yield


def verdict(path: Path, durability: str, seed: int) -> str:
    """Take steps at any time, and close the database and open it again at any other."""
    rng, after = random.Random(seed), workload.Expected()
    steps = workload.steps(seed, after)
    for _ in range(3):
        with any_time(rng):
            with viewlet.connect(path, durability=durability, checkpoint_bytes=5_000) as db:  # type: ignore[arg-type]
                workload.create_schema(db)
                if workload.position(db) != after.step:
                    return "LOST"
                if workload.contents(db) != after.contents(after.late is not None):
                    return "WRONG"
                for step in islice(steps, STEPS // 3):
                    workload.take(db, step)
            for file in path.parent.glob(path.name + "*"):
                os.utime(file, (rng.uniform(0, 4e9),) * 2)
    with viewlet.connect(path) as db:
        right = workload.contents(db) == after.contents(after.late is not None)
        return "survived" if right and workload.position(db) == STEPS else "LOST or WRONG"
