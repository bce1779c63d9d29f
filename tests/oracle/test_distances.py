"""Conditions on how far apart two values are, as two bounds on native code, after every event.

Drawn from every comparison, literal and place of a condition, against DuckDB.
"""

from __future__ import annotations

from random import Random

import pytest

from oracle.books import BOOKS, replay_drawn
from oracle.harness import connect, nullable
from viewlet.workloads import schema

pytestmark = pytest.mark.native

LITERALS = ("0", "2", "-1", "1.5", "-0.5", "7")
SHAPES = (
    "SELECT COUNT(*) AS n, SUM(a.price - b.price) AS s FROM asks a, bids b WHERE {}",
    "SELECT a.broker_id, SUM(a.volume * b.volume) AS q FROM asks a, bids b"
    " WHERE a.broker_id = b.broker_id AND {} GROUP BY a.broker_id",
    "SELECT a.id, COUNT(b.id) AS n FROM asks a LEFT JOIN bids b ON a.broker_id = b.broker_id AND {}"
    " GROUP BY a.id",
    "SELECT a.id, a.price, b.price AS other FROM asks a, bids b WHERE a.broker_id = b.broker_id AND NOT ({})",
)
SEEDS = [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 17))]


def drawn(random: Random) -> str:
    """One query of the kind."""
    pick = random.choice
    apart = f"ABS({pick(('a.price - b.price', 'b.price - a.price', 'a.price + 2 * b.price - 8'))})"
    sides = [apart, pick(LITERALS)]
    random.shuffle(sides)
    return pick(SHAPES).format(f"{sides[0]} {pick(('<', '<=', '>', '>='))} {sides[1]}")


@pytest.mark.parametrize("kind", BOOKS)
@pytest.mark.parametrize("seed", SEEDS)
def test_after_every_event(seed: int, kind: str) -> None:
    replay_drawn(drawn, seed, kind, {"asks", "bids"}, [schema("finance"), nullable(schema("finance"))])


def test_the_smallest_integer_is_far_from_everything() -> None:
    database = connect(("reference", "auto"))
    database.execute(
        "CREATE TABLE t (x BIGINT); CREATE MATERIALIZED VIEW v AS SELECT x FROM t WHERE ABS(x) > 3"
    )
    database.insert("t", [(-(2**63),), (-4,), (3,), (None,)])
    assert sorted(database.view("v").rows()) == [(-(2**63),), (-4,)]
