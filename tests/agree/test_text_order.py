"""Searches in the order of text: native code agrees with the reference engine, in the order of UTF-8's bytes.

Strings share long beginnings, and some are not ASCII, empty, or hold NUL. They come and go until nothing is
left, while strings that nobody holds any more are swept.
"""

from __future__ import annotations

import random
from collections import Counter

import pytest

from agree.agreement import Pair, catalog_of
from viewlet.backends.base import Change

pytestmark = pytest.mark.native

TABLE = "CREATE TABLE r (a BIGINT, x VARCHAR, v BIGINT)"
SHAPES = {
    "sums before": """SELECT SUM(v) AS s FROM r
        WHERE 0.25 * (SELECT SUM(v) FROM r) > (SELECT SUM(v) FROM r q WHERE q.x < r.x)""",
    "sums behind": "SELECT COUNT(*) AS s FROM r WHERE (SELECT COUNT(*) FROM r q WHERE q.x >= r.x) < 7",
    "pairs": "SELECT SUM(r.v) AS s FROM r, r q WHERE r.a = q.a AND r.x < q.x",
    "between": "SELECT r.x, SUM(q.v) AS s FROM r, r q WHERE q.x BETWEEN 'ab' AND r.x GROUP BY r.x",
    "greatest": "SELECT MAX(x) AS s, MIN(x) AS t FROM r",
    "greatest of a group": "SELECT a, MAX(x) AS s, MIN(x) AS t FROM r GROUP BY a",
    "rows of the greatest": "SELECT SUM(v) AS s FROM r WHERE x = (SELECT MAX(q.x) FROM r q)",
    "the greatest before": "SELECT SUM(v) AS s FROM r WHERE x > (SELECT MIN(q.x) FROM r q WHERE q.v > 3)",
    "median": "SELECT MIN(x) AS s FROM r WHERE 2 * (SELECT COUNT(*) FROM r q WHERE q.x <= r.x) >= "
    "(SELECT COUNT(*) FROM r)",
}
NAMES = ["", "a", "ab", "abc", "b", "B", "ä", "zebra", "日本", "日本語", "😀", "￿", "a\0", "long " * 9]


def changes(draw: random.Random, steps: int, batch: int) -> list[list[Change]]:
    """Batches of rows; the table grows and shrinks, in the end to nothing."""
    kept: list[tuple[object, ...]] = []
    batches = []
    for step in range(steps + 200):
        counts: Counter[tuple[object, ...]] = Counter()
        for _ in range(batch):
            if kept and (step >= steps or draw.random() < (0.2, 0.7)[step // 15 % 2]):
                counts[kept.pop(draw.randrange(len(kept)))] -= 1
            elif step < steps:
                name = draw.choice(NAMES) + draw.choice(["", "", str(draw.randint(0, 99))])
                row = (draw.randint(1, 2), None if draw.random() < 0.05 else name, draw.randint(-1, 9))
                kept.append(row)
                counts[row] += 1
        batches.append([Change(row, weight) for row, weight in counts.items() if weight])
        if step >= steps and not kept:
            break
    return batches


@pytest.mark.parametrize("shape", SHAPES)
def test_after_every_batch(shape):
    for granularity, batch in (("tuple", 1), ("batch", 5)):
        pair = Pair(catalog_of(TABLE), {"v": SHAPES[shape]})
        for changed in changes(random.Random(f"{shape} {batch}"), 45, batch):
            pair.apply("r", changed, granularity)
            pair.check(maps=False)


@pytest.mark.parametrize("shape", SHAPES)
def test_an_index_answers(shape):
    pair = Pair(catalog_of(TABLE), {"v": SHAPES[shape]})
    text = pair.native.explain("v")
    assert "compiled programs have none" not in text
    assert "ordered by " in text


def test_strings_that_only_an_index_holds_are_not_swept():
    """Most of thousands of strings go again, and inner nodes of trees are still searched by some of them."""
    pair = Pair(catalog_of(TABLE), {"v": SHAPES["sums before"], "w": SHAPES["greatest"]})
    draw = random.Random(1)
    for turn in range(6):
        rows = [(1, f"{draw.getrandbits(64):x} {turn}", draw.randint(0, 9)) for _ in range(1500)]
        pair.apply("r", [Change(row, 1) for row in rows], "batch")
        draw.shuffle(rows)
        pair.apply("r", [Change(row, -1) for row in rows[20:]], "batch")
        pair.check(maps=False)
