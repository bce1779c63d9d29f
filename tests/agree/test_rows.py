"""Passes over rows and variants of triggers: any number of rows, any weights, with and without NULL."""

from __future__ import annotations

import random
from itertools import product

import pytest

from agree.agreement import Pair, catalog_of
from viewlet.backends.base import Change

pytestmark = pytest.mark.native

DDL = """
CREATE TABLE r (k BIGINT, s VARCHAR(10), t VARCHAR(40), d DECIMAL(12,2), e DATE);
CREATE TABLE w (k BIGINT NOT NULL, s VARCHAR(10) NOT NULL, n BIGINT NOT NULL);
"""
VIEWS = {
    "filtered": (
        "SELECT s, t, COUNT(*) n, SUM(d) u, SUM(d * d) v FROM r "
        "WHERE e < DATE '1995-01-01' AND d > 0 GROUP BY s, t"
    ),
    "chosen": "SELECT k, COUNT(*) n FROM r WHERE s = 'ab' AND k > 1 GROUP BY k",
    "squares": "SELECT a.k, SUM(a.n * b.n) t FROM w a, w b WHERE a.k = b.k GROUP BY a.k",
    "prefixes": "SELECT substring(s, 1, 1) p, SUM(n) t FROM w GROUP BY substring(s, 1, 1)",
    "joined": "SELECT w.s, SUM(r.d * w.n) t FROM r, w WHERE r.k = w.k GROUP BY w.s",
}
WEIGHTS = {"ones": [1], "units": [1, -1], "any": [1, -1, 2, -3]}
TEXTS = ["", "a", "b", "ab", "abc", "abcd", "abcdefgh", "abcdefghi", "é", "\U0001f600"]


def rows(rng: random.Random, table: str, count: int, nulls: bool) -> list[tuple[object, ...]]:
    def maybe(value: object) -> object:
        return None if nulls and rng.random() < 0.2 else value

    def text() -> str:
        return rng.choice(TEXTS)

    if table == "w":
        return [(rng.randrange(4), text(), rng.randrange(-5, 6)) for _ in range(count)]
    days = [8000, 9130, 9131, 9500]
    return [
        (
            maybe(rng.randrange(4)),
            maybe(text()),
            maybe(text() * 4),
            maybe(rng.randrange(-300, 900)),
            maybe(rng.choice(days)),
        )
        for _ in range(count)
    ]


@pytest.mark.parametrize("view", VIEWS)
def test_rows_weights_and_nulls(view: str) -> None:
    pair = Pair(catalog_of(DDL), {view: VIEWS[view]}, batches="useful")
    rng = random.Random(view)
    for count, kind, nulls in product((1, 2, 127, 128, 129, 300), WEIGHTS, (False, True)):
        for table in ("r", "w"):
            changes = [Change(row, rng.choice(WEIGHTS[kind])) for row in rows(rng, table, count, nulls)]
            assert pair.apply(table, changes, "tuple")
        pair.check()


def test_small_programs_have_variants_and_large_ones_do_not() -> None:
    def source(*views: str) -> str:
        return Pair(catalog_of(DDL), {view: VIEWS[view] for view in views}).native.source()

    assert "_on_tuple_ones(" in source("chosen")
    assert "_on_tuple_units(" in source("squares")
    assert "_on_tuple_units(" not in source(*VIEWS)
