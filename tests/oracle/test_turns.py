"""MAX_INEQ and its kin on native code: conditions on the best of all rows before one, or behind it.

Drawn from every function, direction, comparison and grouping, against DuckDB after every event of a stream.
"""

from __future__ import annotations

from random import Random

import pytest

from oracle.books import BOOKS, replay_drawn
from viewlet.workloads import queries, schema

pytestmark = pytest.mark.native

ORDERS = ("<", "<=", ">", ">=")
SHAPES = (
    "SELECT SUM(b.price * b.volume) AS q FROM bids b WHERE {}",
    "SELECT COUNT(*) AS n, COUNT(b.volume) AS m FROM bids b WHERE {}",
    "SELECT b.broker_id, SUM(b.volume) AS v, COUNT(*) AS n FROM bids b WHERE {} GROUP BY b.broker_id",
    "SELECT b.price, b.volume FROM bids b WHERE {}",
)
SEEDS = [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 25))]


def drawn(random: Random) -> str:
    """One query of the kind."""
    pick = random.choice
    function, column = pick(("MIN", "MAX")), pick(("volume", "volume", "id"))
    extent = pick(
        (
            f"c.price {pick(ORDERS)} b.price",
            f"2 * c.price {pick(ORDERS)} b.price + 120",
            f"b.price - c.price {pick(ORDERS)} 40",
            f"c.broker_id = b.broker_id AND c.price {pick(ORDERS)} b.price",
        )
    )
    best = f"(SELECT {function}(c.{column}) FROM bids c WHERE {extent})"
    threshold = pick(("0.25 * (SELECT SUM(a.volume) FROM bids a)", "(SELECT AVG(a.id) FROM bids a)", "3"))
    return pick(SHAPES).format(f"{threshold} {pick((*ORDERS, '='))} {best}")


@pytest.mark.parametrize("kind", BOOKS)
@pytest.mark.parametrize("seed", SEEDS)
def test_after_every_event(seed: int, kind: str) -> None:
    beside = {"max_ineq": queries("nested")["max_ineq"]}
    replay_drawn(drawn, seed, kind, {"bids"}, [schema("nested")], beside=beside)
