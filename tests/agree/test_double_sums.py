"""Searches along sums of DOUBLE: native code agrees with exact arithmetic, whatever the amounts are.

The reference engine sums DOUBLE as fractions. Amounts are such that compensated sums, which are all that
rounds natively, are exact too: no more than 104 bits lie between the least and the greatest of them. That is
more than the 95 of a grid, so that entries are outside of it now and then, and other units are chosen.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable

import pytest

from agree.agreement import Pair, catalog_of
from viewlet.backends.base import Change
from viewlet.errors import ValueRangeError

pytestmark = pytest.mark.native

TABLE = "CREATE TABLE r (a BIGINT, p {key}, v DOUBLE)"
VWAP = """SELECT SUM(p * v) AS x FROM r
          WHERE 0.25 * (SELECT SUM(v) FROM r q) > (SELECT SUM(v) FROM r q WHERE q.p > r.p)"""
SHAPES = {
    "vwap": VWAP,
    "from below": """SELECT SUM(v) AS x FROM r
        WHERE (SELECT SUM(v) FROM r q WHERE q.p <= r.p) >= 0.75 * (SELECT SUM(v) FROM r q)""",
    "ties": "SELECT COUNT(*) AS x FROM r WHERE (SELECT SUM(v) FROM r q WHERE q.p < r.p) = 1.5",
    "within a group": "SELECT a, SUM(v) AS x FROM r WHERE "
    "(SELECT SUM(v) FROM r q WHERE q.a = r.a AND q.p <= r.p) <= 12.25 GROUP BY a",
    "the first that reaches": "SELECT MIN(p) AS x FROM r WHERE "
    "(SELECT SUM(v) FROM r q WHERE q.p <= r.p) >= 0.5 * (SELECT SUM(v) FROM r q)",
    "behind another comparison": "SELECT SUM(v) AS x FROM r WHERE "
    "(SELECT SUM(v) FROM r q WHERE 2 * q.p <= r.p + 3) < 0.5 * (SELECT SUM(v) FROM r q)",
    "two at once": """SELECT SUM(v) AS x FROM r WHERE (SELECT SUM(v) FROM r q WHERE q.p <= r.p) > 2.5
        AND (SELECT SUM(v) FROM r q WHERE 2 * q.p <= r.p) < 0.5 * (SELECT SUM(v) FROM r q)""",
    "after another threshold": """SELECT SUM(v) AS x FROM r WHERE (SELECT SUM(v) FROM r q WHERE q.p <= r.p
        AND 0.1 * (SELECT SUM(v) FROM r) < (SELECT SUM(v) FROM r s WHERE s.p <= q.p)) < 9.5""",
    "in the groups before": """SELECT a, SUM(v) AS x FROM r
        WHERE (SELECT SUM(v) FROM r q WHERE q.p <= r.p AND q.a < r.a) <= 4.5 GROUP BY a""",
}
QUICK = ("tenths", "farther")
DRAWN: dict[str, Callable[[random.Random], float]] = {
    "tenths": lambda draw: draw.randint(0, 9) / 10,
    "ticks": lambda draw: draw.randint(0, 40) / 4,
    "far apart": lambda draw: draw.choice([2.0**-62, 1e-3, 0.1, 3.0, 2.0**20 + 0.25]),
    "farther": lambda draw: draw.choice([2.0**-66, 2.0**-62, 0.25, 1.0, 2.0**34]),
    "of either sign": lambda draw: draw.choice([-0.1, 0.1, 0.2, 0.3, 1.5, -1.5, 2.0**-40]),
}


def changes(draw: random.Random, amount: Callable[[random.Random], float], steps: int) -> list[list[Change]]:
    """Batches of a row or three; it grows, and shrinks until hardly anything is left, and grows again."""
    kept: list[tuple[object, ...]] = []
    batches = []
    for step in range(steps):
        batch: Counter[tuple[object, ...]] = Counter()
        for _ in range(draw.choice((1, 1, 3))):
            if kept and draw.random() < (0.25, 0.75)[step // 20 % 2]:
                batch[kept.pop(draw.randrange(len(kept)))] -= 1
            else:
                price = None if draw.random() < 0.05 else draw.choice([-2, 0, 1, 2, 3, 5, 8, 13])
                volume = None if draw.random() < 0.05 else amount(draw)
                kept.append((draw.randint(1, 2), price, volume))
                batch[kept[-1]] += 1
        batches.append([Change(row, weight) for row, weight in batch.items() if weight])
    return batches


@pytest.mark.parametrize(
    "drawn", [*QUICK, *(pytest.param(d, marks=pytest.mark.slow) for d in DRAWN if d not in QUICK)]
)
@pytest.mark.parametrize("shape", SHAPES)
def test_after_every_batch(shape, drawn):
    for key, granularity in (("BIGINT", "tuple"), ("DOUBLE", "batch")):
        draw = random.Random(f"{shape} {drawn} {key}")
        pair = Pair(catalog_of(TABLE.format(key=key)), {"v": SHAPES[shape]})
        for batch in changes(draw, DRAWN[drawn], 60):
            if key == "DOUBLE":
                batch = [Change(_with_double(c.row), c.weight) for c in batch]
            pair.apply("r", batch, granularity)
            pair.check(maps=False)


def _with_double(row):
    a, p, v = row
    return a, None if p is None else p / 2, v


@pytest.mark.parametrize("shape", SHAPES)
def test_an_index_answers(shape):
    """All but what would add up, at each key that it asks, what no index tells."""
    pair = Pair(catalog_of(TABLE.format(key="DOUBLE")), {"v": SHAPES[shape]})
    assert ("< 0 somewhere" in pair.native.explain("v")) == (shape != "in the groups before")


def test_what_is_too_far_apart_is_gone_through_until_it_goes():
    pair = Pair(catalog_of(TABLE.format(key="BIGINT")), {"v": SHAPES["vwap"]})
    for step in range(30):
        pair.apply("r", [Change((1, step, 0.1 * step), 1)], "tuple")
    pair.check()
    for wide in (2.0**-66 + 2.0**-70, 2.0**31):
        pair.apply("r", [Change((1, 40, wide), 1)], "tuple")
        pair.check()
    for wide in (2.0**-66 + 2.0**-70, 2.0**31):
        pair.apply("r", [Change((1, 40, wide), -1)], "tuple")
        pair.check()


def test_a_refused_batch_leaves_indexes_as_they_were():
    pair = Pair(catalog_of(TABLE.format(key="BIGINT")), {"v": SHAPES["vwap"], "w": SHAPES["from below"]})
    pair.apply("r", [Change((1, p, p / 10), 1) for p in range(1, 20)], "tuple")
    before = pair.native.output("v"), pair.native.output("w")
    with pytest.raises(ValueRangeError):
        pair.native.apply("r", [Change((1, 5, 1e308), 3), Change((1, 3, 0.7), 2)], "tuple", frozenset())
    assert (pair.native.output("v"), pair.native.output("w")) == before
    pair.apply("r", [Change((1, 7, 0.3), 1)], "tuple")
    pair.check()
