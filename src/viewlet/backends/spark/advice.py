"""Which way to run a view: what a batch takes on Spark and in this process, by its size.

A round to the partitions takes a fixed time, and each row some more for its way there. In this process there
is neither, so as long as the state fits into one process, one process is faster; Spark is for state that does
not fit, and for changes that are there already. The constants were measured by ``benchmarks/spark.py --parts
breakeven`` on Q3 of TPC-H; they are right within a factor of a few on other queries and machines.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from viewlet.backends.spark.nodes import DistProgram

ROUND_MS, COMMIT_MS = 2.0, 3.0
ROW_MS, ROW_HERE_MS, COMMIT_HERE_MS = 0.0025, 0.0006, 0.6
SIZES = (1, 10_000, 1_000_000)


@dataclass(frozen=True, slots=True)
class Prediction:
    """Milliseconds for a batch: in this process, and spread over partitions."""

    here: float
    spread: float


def predict(rows: int, rounds: int) -> Prediction:
    """What a batch of so many rows takes that needs so many rounds.

    >>> predict(1, rounds=2).here < predict(1, rounds=2).spread
    True
    """
    here = COMMIT_HERE_MS + rows * ROW_HERE_MS
    return Prediction(here, COMMIT_MS + rounds * ROUND_MS + rows * (ROW_MS if rounds else ROW_HERE_MS))


def advice(program: DistProgram) -> Iterator[str]:
    """The dearest table's batches in words, one line per size."""
    rounds = max((program.trigger(t).stages for t in (*program.batch, *program.tuple)), default=0)
    for rows in SIZES:
        expected = predict(rows, rounds)
        yield (
            f"a batch of {rows:,}: about {expected.spread:.0f} ms in {rounds} rounds, "
            f"{expected.here:.0f} ms in one process"
        )
    yield "one process is faster as long as the state fits into it: viewlet.connect() without a session"
