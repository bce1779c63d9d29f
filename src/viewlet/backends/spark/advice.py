"""Which way to run a view: what a batch takes on Spark, in this process, and by evaluating the query again.

A round to the partitions takes a fixed time, and each row some more for its way there. In this process there
is neither, so as long as the state fits into one process, one process is faster; Spark is for state that does
not fit, and for changes that are there already. Evaluating again takes what the tables take, whatever the
batch. The constants were measured by ``benchmarks/spark.py`` on Q3 of TPC-H; they are right within a factor
of a few on other queries and machines, and a test holds them against the committed break-even table.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from viewlet.backends.spark.nodes import DistProgram

ROUND_MS, COMMIT_MS = 2.0, 3.0
ROW_MS, ROW_HERE_MS, COMMIT_HERE_MS = 0.0015, 0.0006, 0.6
AGAIN_MS, AGAIN_ROW_MS = 340.0, 0.00015
SIZES = (1, 10_000, 1_000_000)
HELD = (1_000_000, 100_000_000)


@dataclass(frozen=True, slots=True)
class Prediction:
    """Milliseconds for a batch: in this process, spread over partitions, and by Spark SQL over all rows."""

    here: float
    spread: float
    again: float


def predict(rows: int, rounds: int, held: int = 0) -> Prediction:
    """What a batch of so many rows takes that needs so many rounds, when tables hold so many rows.

    >>> few = predict(1, rounds=2, held=1_000_000)
    >>> few.here < few.spread < few.again
    True
    """
    here = COMMIT_HERE_MS + rows * ROW_HERE_MS
    spread = COMMIT_MS + rounds * ROUND_MS + rows * (ROW_MS if rounds else ROW_HERE_MS)
    return Prediction(here, spread, AGAIN_MS + held * AGAIN_ROW_MS)


def break_even(rounds: int, held: int) -> int:
    """The rows of a batch from which evaluating again over ``held`` rows is faster than keeping it on Spark.

    >>> predict(break_even(2, 10**6), 2).spread >= predict(1, 2, 10**6).again
    True
    """
    none, one = predict(0, rounds, held), predict(1, rounds, held)
    return max(0, round((none.again - none.spread) / (one.spread - none.spread)))


def advice(program: DistProgram) -> Iterator[str]:
    """The dearest table's batches in words, one line per size."""
    rounds = max((program.trigger(t).stages for t in (*program.batch, *program.tuple)), default=0)
    for rows in SIZES:
        expected = predict(rows, rounds)
        yield (
            f"a batch of {rows:,}: about {expected.spread:.0f} ms in {rounds} round{'s' * (rounds != 1)}, "
            f"{expected.here:.0f} ms in one process"
        )
    for held in HELD:
        about = float(f"{break_even(rounds, held):.1e}")  # two digits are more than is known
        yield (
            f"Spark SQL again over {held:,} rows: about {predict(0, rounds, held).again:,.0f} ms, "
            f"faster from batches of about {about:,.0f} rows on"
        )
    yield "one process is faster as long as the state fits into it: viewlet.connect() without a session"
