"""Many views over one table: more than one program holds, all of them fresh after every batch."""

from __future__ import annotations

from datetime import date

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


@pytest.mark.parametrize("backend", ["reference", pytest.param("native", marks=pytest.mark.native)])
def test_databases_with_the_same_names_and_other_types(backend: str) -> None:
    """What the compiler remembers of one database is not taken for the other's."""
    for kind, values in [("VARCHAR", ("x", "y")), ("BIGINT", (1, 2)), ("DATE", (date(2024, 1, 1), None))]:
        db = viewlet.connect(backend=backend)
        db.execute(f"CREATE TABLE r (a BIGINT, b {kind})")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT b, sum(a) AS s FROM r GROUP BY b")
        db.insert("r", [(n, value) for n, value in enumerate(values)])
        assert sorted(db.view("v").rows(), key=lambda row: row[1]) == [(values[0], 0), (values[1], 1)]
        assert (
            db.view("v").to_arrow().schema.field("b").type == db.table("r").to_arrow().schema.field("b").type
        )
