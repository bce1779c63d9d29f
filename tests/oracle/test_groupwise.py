"""The greatest and the least rows of each group, asked for by NOT EXISTS and ALL, after every event.

Drawn from every comparison and condition, also those that keep a nested query from being an extremum, on
streams with ties, NULLs and negative values, against DuckDB.
"""

from __future__ import annotations

from random import Random

import pytest

from oracle.books import BOOKS, replay_drawn
from viewlet.workloads import schema

GROUPS = ("y.broker_id = x.broker_id",) * 3 + ("TRUE", "y.broker_id = x.broker_id AND y.id % 2 = x.id % 2")
SHARED = ("{}.volume > 2", "{}.volume IS NOT NULL", "{}.broker_id > 1", "{}.price <> 3")
SHAPES = (
    "SELECT x.id, x.price, x.broker_id FROM bids x WHERE {}",
    "SELECT x.volume FROM bids x WHERE {}",
    "SELECT x.broker_id, COUNT(*) AS n, SUM(x.volume) AS s FROM bids x WHERE {} GROUP BY x.broker_id",
    "SELECT COUNT(*) AS n, MIN(x.price) AS p FROM bids x WHERE {}",
    "SELECT x.id, a.id AS other FROM bids x JOIN asks a ON a.broker_id = x.broker_id WHERE {}",
)
ENGINES = [
    ("native", "higher_order"),
    *(
        pytest.param(("reference", s), marks=pytest.mark.slow)
        for s in ("auto", "higher_order", "first_order")
    ),
]
SEEDS = [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 13))]


def drawn(random: Random) -> str:
    """One query of the kind."""
    conditions = [_extreme(random) for _ in range(random.choice((1, 1, 2)))]
    if random.random() < 0.5:
        conditions.append(random.choice(SHARED).format("x"))
    return random.choice(SHAPES).format(" AND ".join(conditions))


def _extreme(random: Random) -> str:
    """That no row of the group exceeds x, or that one does."""
    pick = random.choice
    group = [pick(GROUPS), *(pick(SHARED).format("y") for _ in range(pick((0, 0, 1))))]
    if random.random() < 0.4:
        rows = f"SELECT y.price FROM bids y WHERE {' AND '.join(group)}"
        return f"{pick(('', 'NOT '))}x.price {pick(('>=', '<=', '>'))} ALL ({rows})"
    beyond = pick(("y.price > x.price", "x.price > y.price", "y.price < x.price", "y.price >= x.price"))
    return f"{pick(('NOT ', 'NOT ', ''))}EXISTS (SELECT 1 FROM bids y WHERE {' AND '.join([*group, beyond])})"


@pytest.mark.native
@pytest.mark.parametrize("engine", ENGINES, ids="-".join)
@pytest.mark.parametrize("kind", BOOKS)
@pytest.mark.parametrize("seed", SEEDS)
def test_after_every_event(seed: int, kind: str, engine: tuple[str, str]) -> None:
    replay_drawn(drawn, seed, kind, {"asks", "bids"}, [schema("finance")], engine=engine)
