"""On partitions too, a batch after which some row could not be read is refused at once."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from viewlet.backends.spark.cluster import SimulatedCluster
from viewlet.backends.spark.engine import SparkEngine
from viewlet.database import Database
from viewlet.errors import ValueRangeError

LIMIT = 1 << 63
VALUES = [0, 1, -1, LIMIT // 2, LIMIT // 2, -LIMIT // 2]
QUERIES = {
    "SELECT g, sum(v) AS s FROM r GROUP BY g": lambda s: -LIMIT <= s < LIMIT,
    "SELECT g, 1 / sum(v) AS q FROM r GROUP BY g": lambda s: s != 0 and -LIMIT <= s < LIMIT,
}


@pytest.mark.parametrize("native", [False, pytest.param(True, marks=pytest.mark.native)])
@pytest.mark.parametrize("query", QUERIES)
def test_a_batch_is_refused_exactly_if_a_row_could_not_be_read(query: str, native: bool) -> None:
    db = Database(
        backend=lambda _: SparkEngine(lambda code: SimulatedCluster(code, 2), {"r": "g"}, native=native),
        strategy="auto",
        dialect="spark",
    )
    db.execute("CREATE TABLE r (g BIGINT, v BIGINT)")
    db.execute(f"CREATE MATERIALIZED VIEW w AS {query}")
    rng, kept, refused = random.Random(1), Counter[tuple[int, int]](), 0
    for _ in range(40):
        change = Counter((rng.randrange(4), rng.choice(VALUES)) for _ in range(3))
        for row in rng.sample(sorted(kept.elements()), min(1, kept.total())):
            change[row] -= kept[row] + change[row] > 0
        after = Counter({row: kept[row] + change[row] for row in kept | change})
        sums = {g: sum(v * n for (h, v), n in after.items() if h == g) for (g, _), n in after.items() if n}
        batch = [{"g": g, "v": v, "_weight": n} for (g, v), n in change.items() if n]
        before = db.view("w").rows() if rng.random() < 0.5 else None
        if all(map(QUERIES[query], sums.values())):
            db.apply({"r": batch})
            kept = +after
            assert [row[0] for row in db.view("w").rows()] == sorted(sums)
        else:
            refused += 1
            with pytest.raises(ValueRangeError):
                db.apply({"r": batch})
            assert before is None or db.view("w").rows() == before
    assert 3 < refused < 37
    db.close()
