"""Joins of columns of different types: an ordered index is asked for a range of one value, by either side."""

from __future__ import annotations

import random
from typing import Any

import pytest

from agree.agreement import Pair, catalog_of
from viewlet.backends.base import Change, Granularity

pytestmark = pytest.mark.native

DDL = """
CREATE TABLE s (x DOUBLE);
CREATE TABLE t (c DECIMAL(38,10), d DECIMAL(9,2));
CREATE TABLE e (k DECIMAL(9,2) NOT NULL);
"""
VIEWS = {
    "two joins": "SELECT SUM(s.x) AS total FROM s, t, e WHERE s.x = t.d AND t.c = e.k",
    "groups": "SELECT t.d, AVG(COALESCE(t.d, -1)) AS a, AVG(t.d) AS b, SUM(s.x - t.d + s.x) AS v"
    " FROM s, t WHERE s.x = t.d GROUP BY t.d",
}
SUMS = {"s": [None, -0.0, 0.0, 0.5, 1e16, -1e16, 1e300], "e": [0, 50, 100, -100]}


@pytest.mark.parametrize("granularity", ["tuple", "batch"])
@pytest.mark.parametrize("view", VIEWS)
def test_joins_of_doubles_and_decimals(view: str, granularity: Granularity) -> None:
    """1e300 is off the grid on which sums are exact, so that spans are scanned instead until it goes."""
    choose = random.Random(view)
    pair = Pair(catalog_of(DDL), {"v": VIEWS[view]})
    present: list[tuple[str, tuple[Any, ...]]] = []
    for _ in range(60):
        table = choose.choice("sste")
        if present and choose.random() < 0.4:
            table, row = present.pop(choose.randrange(len(present)))
            weight = -1
        else:
            row = (
                (choose.choice([None, 0, 10**9 * 5, 10**10]), choose.choice([None, 0, 50, 100]))
                if table == "t"
                else (choose.choice(SUMS[table]),)
            )
            present.append((table, row))
            weight = 1
        pair.apply(table, [Change(row, weight)], granularity)
        pair.check()
