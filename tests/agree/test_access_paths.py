"""Random nested queries: native code and the reference agree, whatever access paths serve them."""

from __future__ import annotations

from random import Random

import pytest

from agree.agreement import Pair
from laws.nested_sql import DDL, Generator, changes
from viewlet.sql.catalog import Catalog
from viewlet.sql.parse import CreateTable, parse

pytestmark = pytest.mark.native
SEEDS = [*range(5), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(5, 150))]
EVENTS = 40


@pytest.mark.parametrize("seed", SEEDS)
def test_random_nested_queries(seed: int) -> None:
    random = Random(10_000 + seed)
    catalog = Catalog(statement.table for statement in parse(DDL) if isinstance(statement, CreateTable))
    pair = Pair(catalog, {"v": Generator(random).query()})
    pair.check()
    steps = list(changes(random, catalog, EVENTS, negatives=(0.0, 0.4)[seed % 3 == 0]))
    for i, (table, change) in enumerate(steps):
        pair.apply(table, [change], "tuple")
        if i % 4 == 0:
            pair.check()
    pair.check()
