"""Views that are cut: the first rows that native code picks are those of the whole result, sorted."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

import viewlet

pytestmark = pytest.mark.native

QUERIES = {
    "descending": "SELECT a, s, d FROM r ORDER BY a DESC LIMIT 4",
    "nulls_last": "SELECT s, a FROM r ORDER BY s NULLS LAST, a DESC NULLS FIRST LIMIT 3",
    "later": "SELECT a, COUNT(*) AS n, SUM(m) AS t FROM r GROUP BY a ORDER BY n DESC, t LIMIT 2 OFFSET 1",
    "copies": "SELECT d FROM r ORDER BY d DESC NULLS LAST LIMIT 5",
    "hidden": "SELECT m FROM r ORDER BY m LIMIT 6",
    "united": "SELECT a, s FROM r UNION ALL SELECT a, s FROM r WHERE a > 1 ORDER BY s DESC, a LIMIT 7",
    "by_nothing": "SELECT DISTINCT s, a FROM r LIMIT 3",
}
TABLE = "CREATE TABLE r (a BIGINT, s VARCHAR, d DOUBLE, m DECIMAL(9,2))"


def drawn(draw: random.Random) -> tuple[Any, ...]:
    values = (
        [None, -1, 0, 1, 2, 3],
        [None, "", "b", "ä", "a longer text", "\U0001f600"],
        [None, -1.5, 0.0, 2.0],
    )
    return (*map(draw.choice, values), draw.choice([None, -100, 5, 250]))


@pytest.mark.parametrize("seed", range(2))
def test_first_rows_are_those_of_the_reference(seed: int) -> None:
    draw = random.Random(seed)
    native, reference = (viewlet.connect(backend=backend) for backend in ("native", "reference"))
    for db in (native, reference):
        db.execute(TABLE)
        for name, query in QUERIES.items():
            db.execute(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    present: list[tuple[Any, ...]] = []
    for _ in range(12):
        rows = [drawn(draw) for _ in range(draw.randrange(6))]
        gone = [
            present.pop(draw.randrange(len(present))) for _ in range(min(len(present), draw.randrange(5)))
        ]
        present += rows
        changes = [(*row, 1) for row in rows] + [(*row, -1) for row in gone]
        if not changes:
            continue
        a, s, d, m, weights = (list(column) for column in zip(*changes, strict=True))
        exact = pa.array(m, pa.int64()).cast(pa.decimal128(21, 2)).cast(pa.decimal128(9, 2))
        batch = pa.table(
            {
                "a": pa.array(a, pa.int64()),
                "s": pa.array(s, pa.string()),
                "d": pa.array(d, pa.float64()),
                "m": exact,
                "_weight": weights,
            }
        )
        for db in (native, reference):
            db.apply({"r": batch})
        for name in QUERIES:
            assert native.view(name).rows() == reference.view(name).rows(), name
