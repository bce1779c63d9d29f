"""Random queries that compare rows and groups with moving totals, and show the totals, against DuckDB.

Where rows cross a total, only those between its old and its new value change; but where the result shows the
total, or anything computed from it, every row changes.
"""

from __future__ import annotations

from random import Random

import pytest

from oracle.harness import ENGINES, MORE_ENGINES, Engine, connect, engines, replay
from strategies import Case, Column, Table, random_changes

TABLES = tuple(
    Table(name, tuple(Column(column, "int", "BIGINT", nullable=True) for column in "ab")) for name in "rs"
)
TOTALS = ("COUNT(*)", "SUM(b)", "MAX(b)", "MIN(a)", "SUM(b) + COUNT(*)", "COALESCE(SUM(a), 0)")
ROWS = ("s", "s WHERE a > 0", "(SELECT DISTINCT b AS a, a AS b FROM r) AS z", "s HAVING COUNT(*) > 1")
TESTS = (
    "p.a {} q.n",
    "q.n {} p.a",
    "p.a {} q.m",
    "p.a + 1 {} q.n",
    "p.a {} q.n AND p.b {} q.m",
    "NOT p.a {} q.n",
    "p.a {} q.n OR p.b = 1",
)
SHOWN = (
    "SELECT p.a, q.n FROM {}",
    "SELECT p.a, p.b FROM {}",
    "SELECT p.a, q.n + q.m AS x FROM {}",
    "SELECT DISTINCT q.m, p.b FROM {}",
    "SELECT p.b, CASE WHEN q.m > 1 THEN 1 ELSE 0 END AS x FROM {}",
    "SELECT q.n, COUNT(*) AS x, SUM(p.b) AS y FROM {} GROUP BY q.n",
    "SELECT p.a, SUM(q.n) AS x, MAX(p.b) AS y FROM {} GROUP BY p.a",
    "SELECT COUNT(*) AS x, MAX(q.n - p.a) AS y FROM {}",
)


def drawn(rng: Random) -> str:
    """Rows or groups ``p`` beside one row of totals ``q``."""
    pick = rng.choice
    groups = f"(SELECT a, {pick(('SUM', 'COUNT', 'MAX'))}(b) AS b FROM r GROUP BY a)"
    totals = f"(SELECT {pick(TOTALS)} AS n, {pick(TOTALS)} AS m FROM {pick(ROWS)})"
    test = pick(TESTS).replace("{}", pick(("<", "<=", ">", ">=", "=")))
    kind = pick(("JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN"))
    return pick(SHOWN).format(f"{pick(('r', 'r', groups))} AS p {kind} {totals} AS q ON {test}")


def check(engine: Engine, seed: int) -> None:
    rng = Random(seed)
    case = Case(TABLES, drawn(rng), random_changes(rng.choice, TABLES, most=24))
    replay(connect(engine), case.ddl, {"fuzzed": case.sql}, case.batches(rng.choice([1, 1, 4])))


@engines
@pytest.mark.parametrize("seed", [2, 15, 23])
def test_rows_beside_totals(engine: Engine, seed: int) -> None:
    check(engine, seed)


@pytest.mark.slow
@pytest.mark.parametrize("hundred", range(1, 6))
def test_a_hundred_such_queries(hundred: int) -> None:
    every = [*ENGINES[1:], *MORE_ENGINES]
    for seed in range(100 * hundred, 100 * hundred + 100):
        check(every[hundred % len(every)], seed)


@engines
def test_a_total_that_the_result_shows(engine: Engine) -> None:
    """Two rows below the count stay below it when it moves on, and still each shows another count."""
    sql = "SELECT r.a, q.n FROM r JOIN (SELECT COUNT(*) AS n FROM s) AS q ON r.a < q.n"
    database = connect(engine)
    database.execute("CREATE TABLE r (a BIGINT); CREATE TABLE s (b BIGINT)")
    database.execute(f"CREATE MATERIALIZED VIEW v AS {sql}")
    database.insert("r", [(-1,), (0,)])
    for count in (1, 2, 3):
        database.insert("s", [(7,)])
        assert database.view("v").rows() == [(-1, count), (0, count)]
