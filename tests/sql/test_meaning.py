"""Constructs that random queries leave out mean what they mean to DuckDB."""

from __future__ import annotations

from collections import Counter
from random import Random

import duckdb
import pytest

from sql.evaluation import Contents, catalog_of
from viewlet.plan.evaluate import evaluate_query
from viewlet.plan.from_sql import resolve
from viewlet.plan.pipeline import optimize
from viewlet.sql.parse import parse_query

TABLES = """
CREATE TABLE r (a BIGINT, b BIGINT);
CREATE TABLE s (a BIGINT, c BIGINT);
CREATE TABLE u (c BIGINT, d BIGINT);
"""
QUERIES = [
    "SELECT * FROM r JOIN s USING (a)",
    "SELECT a, b, c FROM r LEFT JOIN s USING (a)",
    "SELECT a, b, c FROM r RIGHT JOIN s USING (a)",
    "SELECT a, b, c FROM r FULL JOIN s USING (a)",
    "SELECT a, b, c, d FROM r FULL JOIN s USING (a) LEFT JOIN u USING (c)",
    "SELECT a, b, c, d FROM r NATURAL JOIN s NATURAL JOIN u",
    "SELECT r.a, s.a AS sa, u.d FROM r LEFT JOIN (s JOIN u ON s.c = u.c) ON r.a = s.a",
    "SELECT r.b FROM r SEMI JOIN s ON r.a = s.a AND r.b < s.c",
    "SELECT r.b FROM r ANTI JOIN s ON r.a = s.a AND r.b < s.c",
    "SELECT a FROM r WHERE b > ALL (SELECT c FROM s WHERE s.a = r.a)",
    "SELECT a FROM r WHERE b <= ANY (SELECT c FROM s)",
    "SELECT a FROM r WHERE b <> ALL (SELECT c FROM s WHERE c < 2)",
    "SELECT a FROM r WHERE (a, b) IN (SELECT a, c FROM s)",
    "SELECT a FROM r WHERE (a, b) NOT IN (SELECT a, c FROM s WHERE c > 1)",
    "SELECT a FROM r WHERE a IN (SELECT a FROM s) OR b NOT IN (SELECT c FROM u)",
    "SELECT a FROM r INTERSECT ALL SELECT a FROM s",
    "SELECT a FROM r EXCEPT ALL SELECT a FROM s",
    "SELECT a, b FROM r UNION SELECT c, d FROM u EXCEPT SELECT a, c FROM s",
    "SELECT a FROM r UNION ALL SELECT a FROM s INTERSECT SELECT c FROM u",
    "SELECT r.a, q.n FROM r, LATERAL (SELECT count(*) AS n, max(c) AS m FROM s WHERE s.a = r.a) AS q",
    "SELECT v.x, r.b FROM (VALUES (0, 'p'), (1, NULL), (1, 'q')) AS v (x, y) LEFT JOIN r ON r.a = v.x",
    "SELECT b % 2 AS odd, count(*) AS n FROM r GROUP BY b % 2 HAVING count(*) > 1",
    "SELECT a AS g, sum(b) AS s FROM r GROUP BY 1 HAVING sum(b) > (SELECT min(c) FROM s WHERE s.a = r.a)",
    "SELECT a, (SELECT sum(d) FROM u WHERE u.c IN (SELECT c FROM s WHERE s.a = r.a)) AS x FROM r",
    "SELECT a, (SELECT count(*) FROM s WHERE s.a = r.a) AS n FROM r GROUP BY a",
    "WITH w AS (SELECT a, max(b) AS m FROM r GROUP BY a), z AS (SELECT * FROM w) "
    "SELECT w.a, z.m FROM w JOIN z ON w.m = z.a",
    "SELECT q.x FROM (SELECT a AS x, a AS y FROM r) AS q (x, y) WHERE q.y > 0",
    "SELECT sum((SELECT max(c) FROM s WHERE s.a = r.a)) AS x FROM r",
    "SELECT a FROM r WHERE EXISTS (SELECT count(*) FROM s WHERE s.a = r.a HAVING count(*) > 1)",
    "SELECT a FROM r WHERE EXISTS (SELECT a FROM s WHERE s.a = r.a LIMIT 3)",
    "SELECT r.a, s.c FROM r JOIN s ON r.a = s.a AND s.c IN (SELECT c FROM u)",
    "SELECT r.a, s.c FROM r LEFT JOIN s ON r.a = s.a AND s.c IN (SELECT c FROM u)",
    "SELECT r.a, s.c FROM r LEFT JOIN s ON r.a = s.a WHERE s.c IS NULL OR s.c > r.b",
    "SELECT count(*) AS n FROM r WHERE FALSE",
    "SELECT a, count(*) AS n FROM r WHERE FALSE GROUP BY a",
    "SELECT 1 AS one WHERE EXISTS (SELECT * FROM r)",
    "SELECT bool_and(a > 0) AS x, bool_or(b > 1) AS y FROM r",
    "SELECT DISTINCT r.a FROM r LEFT JOIN s ON r.a = s.a",
    "SELECT max(r.b) AS m FROM r LEFT JOIN s ON r.a = s.a FULL JOIN u ON s.c = u.c WHERE u.d > 0",
    "SELECT r.a FROM r LEFT JOIN s ON r.a = s.a WHERE greatest(s.c, 1) > 0",
    "SELECT greatest(q.n, q.a, 2) AS g, least(q.a, q.n) AS l "
    "FROM (SELECT CAST(NULL AS BIGINT) AS n, a FROM r) AS q",
    "SELECT greatest(a, b) AS g, least(a, 1) AS l, coalesce(a, b, 7) AS c, nullif(a, 1) AS n FROM r",
]


def random_contents(seed: int) -> Contents:
    random = Random(seed)
    values = [None, 0, 1, 1, 2, 3]

    def bag() -> Counter[tuple[int | None, int | None]]:
        size = random.choice([0, 4, 9])
        return Counter((random.choice(values), random.choice(values)) for _ in range(size))

    return {table: dict(bag()) for table in ("r", "s", "u")}


@pytest.mark.parametrize("sql", QUERIES)
def test_means_what_duckdb_says(sql: str) -> None:
    catalog = catalog_of(TABLES)
    query = resolve(parse_query(sql), catalog)
    nonempty = 0
    connection = duckdb.connect()
    connection.execute(TABLES)
    for seed in range(12):
        contents = random_contents(seed)
        for table, bag in contents.items():
            connection.execute(f"DELETE FROM {table}")
            rows = [str(row).replace("None", "NULL") for row, weight in bag.items() for _ in range(weight)]
            if rows:
                connection.execute(f"INSERT INTO {table} VALUES {', '.join(rows)}")
        expected = Counter(connection.execute(sql).fetchall())
        nonempty += bool(expected)
        for form in (query, optimize(query)):
            assert Counter(evaluate_query(form, contents, catalog)) == expected, f"seed {seed}"
    assert nonempty or "FALSE" in sql, "no data gives this query a row"
