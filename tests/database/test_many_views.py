"""Many views over one table: more than one program holds, all of them fresh after every batch."""

from __future__ import annotations

import pytest

import viewlet
from viewlet.views import VIEWS_PER_ENGINE


def check(views: int, backend: str) -> None:
    db = viewlet.connect(backend=backend)
    db.execute("CREATE TABLE r (k BIGINT, v BIGINT)")
    db.insert("r", [(k, k) for k in range(10)])
    for i in range(views):
        query = f"SELECT sum(v + {i}) AS s, count(*) AS n FROM r WHERE k > {i % 12}"
        db.execute(f"CREATE MATERIALIZED VIEW v{i} AS {query}")
    for rows in ([(11, 5), (3, -2)], [(10, 7)]):
        db.insert("r", rows)
        db.delete("r", rows[:1])
    kept = db.table("r").rows()
    for i in range(views):
        chosen = [v + i for k, v in kept if k > i % 12]
        assert db.view(f"v{i}").rows() == [(sum(chosen) if chosen else None, len(chosen))]
    db.execute("DROP MATERIALIZED VIEW v0")
    assert len(db.stats().views) == views - 1


def test_more_views_than_one_program_holds() -> None:
    check(VIEWS_PER_ENGINE + 3, "reference")


@pytest.mark.slow
@pytest.mark.native
def test_a_thousand_views() -> None:
    check(1_000, "native")
