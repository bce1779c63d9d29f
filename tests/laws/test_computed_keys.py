"""Nested queries whose keys are computed from a row: maps equal their definitions, nothing is recomputed.

Among them what rests on it that a change reaches few keys (``calculus/domain.py``), that an equality tells a
key (``triggers/isolate.py``), and that joins and groups which conditions hold together are maps
(``triggers/components.py``).
"""

from __future__ import annotations

from random import Random

import pytest

from laws.test_maintenance import check
from viewlet.backends.base import Bag, Change, Granularity, Strategy
from viewlet.backends.reference.engine import ReferenceEngine
from viewlet.plan.bags import consolidate
from viewlet.sql import compile_query
from viewlet.sql.catalog import Catalog
from viewlet.sql.parse import CreateTable, parse
from viewlet.triggers.compile import compile_views

DDL = """
CREATE TABLE r (k BIGINT, v BIGINT NOT NULL, w BIGINT);
CREATE TABLE p (id BIGINT NOT NULL, lo BIGINT NOT NULL, hi BIGINT, g BIGINT NOT NULL, PRIMARY KEY (id));
"""
CATALOG = Catalog(statement.table for statement in parse(DDL) if isinstance(statement, CreateTable))

HOPS = "SELECT v - h.b AS x, k, COUNT(*) AS n FROM r CROSS JOIN (VALUES (0), (1), (2)) AS h (b) GROUP BY 1, 2"
VALID = "SELECT p.id, p.g, r.v, r.w FROM p JOIN r ON p.id = r.k WHERE r.v BETWEEN p.lo AND p.hi"
QUERIES = {
    "distinct sums": "SELECT COUNT(DISTINCT k + v) AS n FROM r",
    "distinct under a condition": "SELECT w, COUNT(DISTINCT k) FILTER (WHERE v > 1) AS n FROM r GROUP BY w",
    "distinct quotients": "SELECT w, COUNT(DISTINCT 12 DIV v) AS n FROM r WHERE v <> 0 GROUP BY w",
    "quotients both ways": "SELECT COUNT(DISTINCT x) AS n FROM "
    "(SELECT 12 DIV v AS x FROM r WHERE v > 0 UNION ALL SELECT 12 DIV k FROM r WHERE k > 0)",
    "distinct remainders": "SELECT DISTINCT v % 2 AS x, k FROM r",
    "two ways to a key": "SELECT COUNT(DISTINCT x) AS n "
    "FROM (SELECT k AS x FROM r UNION ALL SELECT v FROM r)",
    "ways that meet": "SELECT COUNT(DISTINCT x) AS n "
    "FROM (SELECT v * v AS x FROM r UNION ALL SELECT v FROM r)",
    "fullest hops": f"WITH c AS ({HOPS}) SELECT c.x, c.k, c.n FROM c JOIN "
    "(SELECT x, MAX(n) AS m FROM c GROUP BY x) AS t ON t.x = c.x WHERE c.n = t.m",
    "full hops": f"WITH c AS ({HOPS}) SELECT c.x, c.k, c.n FROM c JOIN "
    "(SELECT x, MAX(n) AS m FROM c GROUP BY x) AS t ON t.x = c.x WHERE 2 * c.n >= t.m",
    "join by a remainder": "SELECT r.v, p.g, r.w FROM r JOIN p ON r.v % 3 = p.id",
    "sums by a remainder": "SELECT p.g, SUM(r.w) AS t FROM r JOIN p ON r.v % 3 = p.g GROUP BY p.g",
    "left join by a sum": "SELECT r.k, p.id FROM r LEFT JOIN p ON r.k + r.v = p.id",
    "none by a remainder": "SELECT id, g FROM p WHERE NOT EXISTS (SELECT 1 FROM r WHERE r.v % 3 = p.g)",
    "greatest within limits": f"SELECT g, AVG(m) AS a FROM (SELECT id, g, MAX(w) AS m FROM ({VALID}) AS j "
    "GROUP BY id, g) AS t GROUP BY g",
    "first among the greatest": f"WITH j AS ({VALID}) SELECT j.id, j.v, j.w FROM j "
    "JOIN (SELECT id, MAX(w) AS m FROM j GROUP BY id) AS h ON j.id = h.id AND j.w = h.m "
    "JOIN (SELECT id, w, MIN(v) AS f FROM j GROUP BY id, w) AS e "
    "ON j.id = e.id AND j.w = e.w AND j.v = e.f",
    "exists within limits": "SELECT id FROM p "
    "WHERE EXISTS (SELECT 1 FROM r WHERE k = id AND v > lo AND v < hi)",
}
WAYS: list[tuple[Strategy, Granularity]] = [
    ("higher_order", "tuple"),
    ("higher_order", "batch"),
    ("first_order", "tuple"),
    ("first_order", "batch"),
]


def random_changes(random: Random, contents: dict[str, Bag]) -> tuple[str, list[Change]]:
    """A few changes of one table: rows of ``r`` may repeat, those of ``p`` not share their key."""
    if random.random() < 0.3:
        row = (random.randrange(4), random.randrange(4), random.choice([None, 1, 3, 5]), random.randrange(3))
        old = [Change(held, -1) for held in contents["p"] if held[0] == row[0]]
        return "p", [*old, *([] if old and random.random() < 0.5 else [Change(row, 1)])]
    present = [row for row, n in contents["r"].items() for _ in range(n)]
    gone = random.sample(present, min(len(present), random.randrange(3)))
    come = [
        (random.choice([None, 0, 1, 2, 3]), random.randrange(-1, 5), random.choice([None, 0, 1, 2]))
        for _ in range(random.randrange(1, 4))
    ]
    return "r", [*(Change(row, -1) for row in gone), *(Change(row, random.choice([1, 1, 2])) for row in come)]


@pytest.mark.parametrize(("strategy", "granularity"), WAYS)
@pytest.mark.parametrize("name", QUERIES)
def test_maps_and_views_stay_right(name: str, strategy: Strategy, granularity: Granularity) -> None:
    random = Random(f"{name}/{strategy}/{granularity}")
    query = compile_query(QUERIES[name], CATALOG)
    contents: dict[str, Bag] = {table: {} for table in CATALOG}
    engine = ReferenceEngine()
    engine.create("v", query, CATALOG, contents, strategy)
    for _ in range(25):
        table, changes = random_changes(random, contents)
        pairs = [*contents[table].items(), *((change.row, change.weight) for change in changes)]
        contents[table] = consolidate(pairs)
        engine.apply(table, changes, granularity, frozenset())
        check(engine, query, CATALOG, contents)


@pytest.mark.parametrize("name", [name for name in QUERIES if name != "left join by a sum"])
def test_nothing_is_recomputed(name: str) -> None:
    """But for the rows of a left join that a new row on the right may be found by: those are not indexed."""
    compiled = compile_views({"v": compile_query(QUERIES[name], CATALOG)}, CATALOG)
    assert not any(trigger.recomputations for trigger in compiled.triggers.values())
