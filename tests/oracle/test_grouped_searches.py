"""VWAP by broker and its kin on native code: a threshold search in each group, after every event.

Drawn from every order, threshold and grouping, against DuckDB after every event of a stream.
"""

from __future__ import annotations

from random import Random

import pytest

from oracle.books import BOOKS, replay_drawn
from oracle.harness import nullable
from viewlet.workloads import schema

pytestmark = pytest.mark.native

ORDERS = ("<", "<=", ">", ">=")
SHAPES = (
    "SELECT b.broker_id, SUM(b.price * b.volume) AS q FROM bids b WHERE {} GROUP BY b.broker_id",
    "SELECT b.broker_id, COUNT(*) AS n, COUNT(b.volume) AS m FROM bids b WHERE {} GROUP BY b.broker_id",
    "SELECT b.broker_id, AVG(b.price) AS p FROM bids b WHERE {} GROUP BY b.broker_id HAVING COUNT(*) > 1",
)
SEEDS = [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 25))]


def drawn(random: Random) -> str:
    """One query of the kind."""
    pick = random.choice
    group = pick(("broker_id = b.broker_id",) * 3 + ("id % 3 = b.broker_id",))
    part = f"(SELECT {pick(('SUM(c.volume)', 'COUNT(*)', 'COUNT(c.volume)'))} FROM bids c WHERE "
    part += f"c.{group} AND c.price {pick(ORDERS)} b.price)"
    total = f"(SELECT SUM(a.volume) FROM bids a WHERE a.{group})"
    threshold = pick((f"0.25 * {total}", f"0.75 * {total}", "3"))
    return pick(SHAPES).format(f"{threshold} {pick((*ORDERS, '='))} {part}")


@pytest.mark.parametrize("kind", BOOKS)
@pytest.mark.parametrize("seed", SEEDS)
def test_after_every_event(seed: int, kind: str) -> None:
    replay_drawn(drawn, seed, kind, {"bids"}, [schema("nested"), nullable(schema("nested"))])
