"""Shorthands of queries against what they are short for, in DuckDB: GROUP BY ALL, PIVOT, and their like."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import duckdb
import pytest

import viewlet
from viewlet.errors import SqlError

DDL = "CREATE TABLE r (a INT, b VARCHAR, c DOUBLE, x INT)"
ONE, TWO = "WHERE a = 1 AND b = 'u'", "WHERE a = 2 AND b IS NULL"

SHORTHANDS = {
    "SELECT a, b, sum(x) AS s, count(*) AS n FROM r GROUP BY ALL": "",
    "SELECT a + x AS ax, sum(c) AS s FROM r GROUP BY ALL HAVING count(*) > 1": "",
    "SELECT *, count(*) AS n FROM (SELECT a, b FROM r) AS q GROUP BY ALL": "",
    "SELECT a, b FROM r GROUP BY ALL": "",
    "SELECT sum(x) AS s FROM r GROUP BY ALL": "",
    # As in Spark, a constant is grouped by: there is no row over nothing.
    "SELECT 1 AS o, sum(x) AS s FROM r GROUP BY ALL": "SELECT 1, sum(x) FROM r HAVING count(*) > 0",
    "SELECT a, count(DISTINCT b, x) AS n FROM r GROUP BY a": """
        SELECT a, count(DISTINCT CASE WHEN b IS NOT NULL AND x IS NOT NULL THEN (b, x) END)
        FROM r GROUP BY a""",
    "SELECT count(DISTINCT b, c, x) FILTER (WHERE x > 0) AS n, sum(x) AS s FROM r": """
        SELECT count(DISTINCT (b, c, x)) FILTER (WHERE x > 0 AND b IS NOT NULL AND c IS NOT NULL), sum(x)
        FROM r""",
    "SELECT * FROM (SELECT a, b, x FROM r) PIVOT (sum(x) FOR b IN ('u', 'v' AS w))": """
        SELECT a, sum(x) FILTER (WHERE b = 'u'), sum(x) FILTER (WHERE b = 'v') FROM r GROUP BY a""",
    # As in Spark, COUNT is NULL where there are no rows at all.
    "SELECT * FROM r PIVOT (count(x) AS n, max(c) FOR (a, b) IN ((1, 'u') AS i, (2, NULL) AS j)) AS p": f"""
        SELECT CASE WHEN count(*) FILTER ({ONE}) > 0 THEN count(x) FILTER ({ONE}) END, max(c) FILTER ({ONE}),
               CASE WHEN count(*) FILTER ({TWO}) > 0 THEN count(x) FILTER ({TWO}) END, max(c) FILTER ({TWO})
        FROM r""",
    "SELECT q.y, s.b FROM (SELECT a, x FROM r) PIVOT (avg(x) FOR a IN (1, -2)) AS q (y, z), r AS s": """
        SELECT (SELECT avg(x) FROM r WHERE a = 1), b FROM r""",
    "SELECT * FROM r JOIN (SELECT a, max(x) AS y FROM r GROUP BY a) AS q USING (a)": """
        SELECT r.a, b, c, x, y FROM r JOIN (SELECT a, max(x) AS y FROM r GROUP BY a) AS q ON r.a = q.a""",
}

# The order is decided by all columns in the end, as it is in a view.
ORDERED = {
    "SELECT a, x FROM r ORDER BY a + x DESC LIMIT 5": """
        ORDER BY a + x DESC NULLS LAST, a NULLS FIRST, x NULLS FIRST""",
    "SELECT DISTINCT a, x FROM r ORDER BY abs(a), -x": """
        ORDER BY abs(a) NULLS FIRST, -x NULLS FIRST, a NULLS FIRST""",
    "SELECT a * 2 AS d, x FROM r ORDER BY a * 2 + x LIMIT 4 OFFSET 2": """
        ORDER BY d + x NULLS FIRST, d NULLS FIRST, x NULLS FIRST""",
    "SELECT b, sum(x) AS s FROM r GROUP BY b ORDER BY sum(x) * -1, length(b)": """
        ORDER BY s * -1 NULLS FIRST, length(b) NULLS FIRST, b NULLS FIRST""",
}


def batches(random: Random) -> Any:
    """Rows that come and rows that go, and in the end all are gone."""
    rows: list[tuple[Any, ...]] = []
    for _ in range(8):
        gone = random.sample(rows, min(len(rows), random.randint(0, 4)))
        new = [
            (random.choice([1, 2, -2, None]), random.choice(["u", "v", "1:u", "", None]),
             random.choice([0.5, 1e9, None]), random.choice([0, 1, 2, None]))
            for _ in range(random.randint(0, 6))
        ]  # fmt: skip
        for row in gone:
            rows.remove(row)
        rows += new
        yield gone, new, rows
    yield rows, [], []


@pytest.mark.parametrize("backend", ["reference", pytest.param("native", marks=pytest.mark.native)])
@pytest.mark.parametrize("seed", range(2))
def test_shorthands_are_what_they_are_short_for(backend: str, seed: int) -> None:
    queries = {**SHORTHANDS, **ORDERED}
    with viewlet.connect(backend=backend) as db, duckdb.connect() as duck:
        db.execute(DDL)
        duck.execute(DDL)
        for number, query in enumerate(queries):
            db.execute(f"CREATE MATERIALIZED VIEW v{number} AS {query}")
        for gone, new, rows in batches(Random(seed)):
            db.delete("r", gone)
            db.insert("r", new)
            duck.execute("DELETE FROM r")
            if rows:
                duck.executemany("INSERT INTO r VALUES (?, ?, ?, ?)", rows)
            for number, query in enumerate(queries):
                found = db.view(f"v{number}").rows()
                if query in ORDERED:
                    head, _, tail = query.partition("ORDER BY")
                    limit = tail[tail.index("LIMIT") :] if "LIMIT" in tail else ""
                    assert found == duck.execute(f"{head} {ORDERED[query]} {limit}").fetchall(), query
                else:
                    assert Counter(found) == Counter(duck.execute(SHORTHANDS[query] or query).fetchall()), (
                        query
                    )


@pytest.mark.parametrize(
    ("pivot", "names"),
    [
        ("sum(x) FOR a IN (1, -2, 1.5, null, 7 AS Ex)", ["1", "-2", "1.5", "null", "ex"]),
        ("sum(x) AS s FOR a IN (1)", ["1"]),
        ("count(*), max(c) AS m FOR a IN (1 AS k, 2)", ["k_count(1)", "k_m", "2_count(1)", "2_m"]),
    ],
)
def test_columns_of_a_pivot_are_named_as_in_spark(pivot: str, names: list[str]) -> None:
    with viewlet.connect(backend="reference") as db:
        db.execute(DDL)
        db.execute(f"CREATE MATERIALIZED VIEW v AS SELECT * FROM (SELECT a, c, x FROM r) PIVOT ({pivot})")
        assert [c.name for c in db.view("v").columns if c.name not in ("c", "x")] == names


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT a + 1 AS n, sum(x) + a AS s FROM r GROUP BY ALL", "'a' is neither in GROUP BY"),
        ("SELECT a, (SELECT max(x) FROM r) AS m FROM r GROUP BY ALL", "a subquery in GROUP BY ALL"),
        ("SELECT sum(DISTINCT a, x) AS s FROM r", "sum of several columns"),
        (
            "SELECT * FROM r JOIN r AS q ON r.a = q.a PIVOT (sum(x) FOR a IN (1))",
            "PIVOT behind a join .* subquery",
        ),
        ("SELECT * FROM r, r AS q PIVOT (sum(x) FOR a IN (1))", "PIVOT behind a join"),
        ("SELECT * FROM r PIVOT (sum(x) FOR a IN (x))", "PIVOT needs literal values, found x"),
        ("SELECT * FROM r PIVOT (sum(x) FOR a IN (1 + 1))", "without a name .* write value AS name"),
        ("SELECT * FROM r PIVOT (stddev(x) FOR a IN (1))", "in PIVOT .* there are sum, count"),
        ("SELECT * FROM r PIVOT (sum(x) FOR (a, b) IN (1 AS k))", "compares 2 columns with 1 values"),
        ("SELECT * FROM r PIVOT (sum(x) FOR a IN (1, 1))", "two columns named '1'"),
        ("SELECT * FROM r UNPIVOT (v FOR n IN (a, x))", "UNPIVOT"),
        ("SELECT DISTINCT a FROM r ORDER BY a + x", "with DISTINCT, ORDER BY"),
        ("SELECT a FROM r ORDER BY a + x", "the result does not keep it"),
    ],
)
def test_refused_shorthands(query: str, message: str) -> None:
    with viewlet.connect(backend="reference") as db:
        db.execute(DDL)
        with pytest.raises(SqlError, match=message):
            db.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
