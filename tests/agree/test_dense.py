"""Dense keys: the arrays of ordered sums agree with the same program without ordered indexes, event by event.

Keys come from a few ticks, then from more, and now and then from far away, while tables grow and shrink: sums
become dense, grow, and scatter again. Some are NULL; in some stretches amounts are negative or 0.
"""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from viewlet.backends.base import Change
from viewlet.backends.native.engine import NativeEngine
from viewlet.sql import compile_query
from viewlet.sql.catalog import Catalog
from viewlet.sql.parse import parse
from viewlet.workloads import queries, schema

pytestmark = pytest.mark.native

DECIMALS = """CREATE TABLE bids (t BIGINT, id BIGINT, broker_id BIGINT, volume BIGINT, price DECIMAL(9,2))"""
ABOVE = """SELECT COUNT(*), SUM(b.volume) FROM bids b
           WHERE b.price > (SELECT SUM(a.price) / 50 FROM bids a)"""
CASES = {
    "vwap": (schema("finance"), queries("finance")["vwap"]),
    "psp": (schema("finance"), queries("finance")["psp"]),
    "mst": (schema("finance"), queries("finance")["mst"]),
    "vwap of decimals": (DECIMALS, queries("finance")["vwap"]),
    "prices above a mean": (DECIMALS, ABOVE),
}

SLOW = {"mst": pytest.mark.slow, "vwap": pytest.mark.slow}


def engine(ddl: str, query: str, *, ordered: bool) -> tuple[NativeEngine, Catalog]:
    catalog = Catalog(statement.table for statement in parse(ddl))
    made = NativeEngine(ordered=ordered)
    made.create("v", compile_query(query, catalog), catalog, {table: {} for table in catalog}, "higher_order")
    return made, catalog


def stream(random: Random, tables: list[str], steps: int) -> list[tuple[str, list[Change]]]:
    """Batches of a few rows; phases of growth and of decline."""
    kept: dict[str, list[tuple[object, ...]]] = {table: [] for table in tables}
    span, wild, batches = 60, False, []
    for step in range(steps):
        if step % 100 == 0:
            span, wild = random.choice((20, 60, 200)), random.random() < 0.4
        table = random.choice(tables)
        rows = kept[table]
        batch: Counter[tuple[object, ...]] = Counter()
        for _ in range(random.choice((1, 1, 1, 3))):
            if rows and random.random() < (0.3, 0.6)[step // 150 % 2]:
                batch[rows.pop(random.randrange(len(rows)))] -= 1
            else:
                row = (step, step, random.randint(1, 3), _volume(random, span, wild), _price(random, span))
                rows.append(row)
                batch[row] += 1
        batches.append((table, [Change(row, weight) for row, weight in batch.items() if weight]))
    return batches


def _price(random: Random, span: int) -> int | None:
    return (
        random.choice((None, random.randint(-(10**6), 10**6)))
        if random.random() < 0.02
        else random.randint(1, span)
    )


def _volume(random: Random, span: int, wild: bool) -> int | None:
    if random.random() < 0.02:
        return random.choice((None, 0, -random.randint(1, 50))) if wild else None
    return random.randint(1, span)


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 12))])
@pytest.mark.parametrize("name", [pytest.param(name, marks=SLOW.get(name, ())) for name in CASES])
def test_dense_sums_agree_with_scans(name: str, seed: int) -> None:
    ddl, query = CASES[name]
    (ordered, catalog), (scanned, _) = (engine(ddl, query, ordered=ordered) for ordered in (True, False))
    assert "is_dense" in ordered.source()
    random = Random(seed)
    tables = [table for table in catalog if table in ordered.tables()]
    for i, (table, changes) in enumerate(stream(random, tables, 700)):
        granularity = random.choice(("tuple", "tuple", "batch"))
        for system in (ordered, scanned):
            system.apply(table, changes, granularity, frozenset())
        assert ordered.output("v") == scanned.output("v"), f"after batch {i}"
