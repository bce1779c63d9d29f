"""What is refused, and that the message names the offender and its place."""

from __future__ import annotations

import pytest

from sql.evaluation import catalog_of
from viewlet.errors import SqlError, UnsupportedError
from viewlet.plan.text import show
from viewlet.sql import compile_query
from viewlet.sql.parse import parse

TABLES = """
CREATE TABLE r (a BIGINT, b BIGINT, t VARCHAR, e DATE);
CREATE TABLE s (a BIGINT NOT NULL, c DECIMAL(6,2));
"""

UNSUPPORTED = {
    "SELECT a, lag(b) OVER (ORDER BY a) AS x FROM r": "LAG.b. over .* line 1, column 11",
    "SELECT a FROM r QUALIFY row_number() OVER (ORDER BY a) = 1": "whose order is not decided",
    "SELECT sum(a) OVER (ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING EXCLUDE CURRENT ROW) AS x "
    "FROM r": "EXCLUDE CURRENT ROW in a frame",
    "SELECT sum(a) OVER (ORDER BY a GROUPS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM r": "the frame GROUPS",
    "WITH RECURSIVE w AS (SELECT 1 AS n) SELECT n FROM w": "RECURSIVE",
    "WITH "
    + ", ".join(
        ["q0 AS (SELECT a FROM r)"]
        + [f"q{i + 1} AS (SELECT a FROM q{i} WHERE a < (SELECT max(a) FROM q{i}))" for i in range(30)]
    )
    + " SELECT a FROM q30": "more than 100 times.*create a materialized view of q0",
    "SELECT * FROM r JOIN s USING (a) PIVOT (sum(b) FOR a IN (1, 2))": "PIVOT behind a join",
    "SELECT a FROM r LATERAL VIEW explode(t) x AS y": "LATERAL VIEW",
    "SELECT a FROM r TABLESAMPLE (10 PERCENT)": "TABLESAMPLE",
    "SELECT rand() AS x FROM r": "non-deterministic function",
    "SELECT current_timestamp AS x FROM r": "non-deterministic function",
    "SELECT a,\n  my_function(b) AS x FROM r": "function my_function .* line 2, column 3",
    "SELECT array_agg(a) AS x FROM r": "the aggregate array_agg .* line 1, column 8; there are count, sum",
    "SELECT avg(DISTINCT a, b) AS n FROM r": "avg of several columns",
    "SELECT e - e AS x FROM r": "difference of two dates.*datediff",
    "SELECT * FROM (SELECT a FROM r ORDER BY b LIMIT 1) AS q": "LIMIT .*view",
    "SELECT a FROM r WHERE b = (SELECT b FROM r ORDER BY a LIMIT 1)": "LIMIT .*view",
    "SELECT factorial(a) AS x FROM r": "function factorial",
    "SELECT sha2(t, 7) AS x FROM r": "sha2 of such a length .* there are 0, 224",
    "SELECT regexp_replace(t, 'a', 'b', 2) AS x FROM r": "regexp_replace with position",
    "SELECT unix_timestamp() AS x": "time of now",
    "SELECT a FROM other.r": "qualified table name 'other.r'",
    "SELECT a FROM r WHERE t LIKE ANY (SELECT t FROM r)": "LIKE ANY/ALL of a query",
    "SELECT DISTINCT ON (a) a, b FROM r": "DISTINCT ON",
    "ALTER TABLE r ADD COLUMN z INT": "the statement ALTER .* line 1, column 1; .*UPDATE",
    "UPDATE r SET a = 1 FROM s": "UPDATE ... FROM .* line 1, column 8; use MERGE INTO",
    "UPDATE r SET a = 1 RETURNING a": "RETURNING in UPDATE",
    "UPDATE r SET (a, b) = (1, 2)": "behind SET .* write column = expression",
    "UPDATE r, s SET a = 1": "name one table",
    "WITH c AS (SELECT 1 AS x) UPDATE r SET a = 1": "WITH in UPDATE",
    "DELETE FROM r USING s": "USING in DELETE .* subqueries",
    "INSERT INTO r VALUES (1) RETURNING a": "RETURNING in INSERT",
    "INSERT OVERWRITE r SELECT 1": "OVERWRITE in INSERT",
    "CREATE VIEW v AS SELECT 1 AS x": "CREATE MATERIALIZED VIEW",
}
INVALID = {
    "SELECT a FROM r WHERE t RLIKE 'x\\\\b'": r"b is not supported at character 3",
    "SELECT a FROM r WHERE t RLIKE '(a*)+'": "a repeat of what may be empty",
    "SELECT date_format(e, 'YYYY-QQ') AS x FROM r": "'QQ' at character 6 is not supported; there are yyyy",
    "SELECT date_format(e, t) AS x FROM r": "a pattern of dates must be a literal",
    "SELECT next_day(e, 'someday') AS x FROM r": "'SOMEDAY' is no day of the week",
    "SELECT a & t AS x FROM r": "bit_and needs integers, got VARCHAR",
    "SELECT nope FROM r": "no column 'nope' at line 1, column 8; there are a, b, t, e",
    "SELECT a\nFROM r\nWHERE q.a = 1": "no table or alias 'q' in FROM at line 3, column 7; there are r",
    "SELCT a FROM r": r"SELCT begins no statement at line 1, column 1; did you mean 'SELECT'\? there are C",
    "nope": "NOPE begins no statement at line 1, column 1; there are CREATE",
    "SELECT r.bb FROM r": r"no column 'bb' of 'r' at line 1, column 8; did you mean 'b'\? there are a, b",
    "SELECT a FROM R GRUOP BY a": "syntax error at line 1, column 23 near 'BY': it cannot stand here",
    "SELECT a FROM nowhere": "no table or view 'nowhere' at line 1, column 15; existing: r, s",
    "SELECT a FROM r, s": "column 'a' is ambiguous, it could be of r or s at line 1, column 8",
    "SELECT r.a FROM r, r": "'r' stands twice in FROM",
    "SELECT a, b FROM r GROUP BY a": "'b' is neither in GROUP BY nor inside an aggregate at line 1, column",
    "SELECT a FROM r WHERE sum(b) > 1": "aggregate sum may not stand in WHERE at line 1, column 23",
    "SELECT sum(sum(b)) AS x FROM r": "aggregate sum may not stand in the argument of an aggregate",
    "SELECT a FROM r WHERE a": "WHERE needs a condition, got BIGINT at line 1, column 23",
    "SELECT t + e AS x FROM r": "needs numbers, got DATE",
    "SELECT a FROM r WHERE e > 5": "> compares DATE with INT",
    "SELECT a AS x, b AS x FROM r": "two columns named 'x'",
    "SELECT a FROM r UNION SELECT a, c FROM s": "UNION of 1 and 2 columns",
    "SELECT a FROM r WHERE b IN (SELECT a, c FROM s)": "1 values are compared with a subquery of 2 columns",
    "SELECT (SELECT a, c FROM s) AS x FROM r": "a scalar subquery must have one column",
    "SELECT a FROM r ORDER BY 3": "no column 3 in the SELECT list",
    "SELECT DISTINCT a FROM r ORDER BY b": "with DISTINCT, ORDER BY",
    "SELECT DATE '1995-13-01' AS x": "'1995-13-01' is not a DATE",
    "SELECT a FROM r LIMIT a": "LIMIT needs a number",
    "SELECT CASE WHEN a > 1 THEN e ELSE 1 END AS x FROM r": "no common type",
    "SELECT a FROM r WHERE": "syntax error at line 1",
    "SELECT (a FROM r": "syntax error at line 1",
    "SELECT 'open FROM r": "cannot be read",
    "SELECT a FROM r AS q (x, y)": "2 column names are given for 4 columns",
    "CREATE TABLE t (a BIGINT, a INT)": "column 'a' twice",
    "CREATE TABLE t (a BIGINT, PRIMARY KEY (z))": "no column 'z' for a key",
    "CREATE TABLE t (a DECIMAL(50,2))": r"column 'a': DECIMAL\(50,2\) does not exist.* line 1, column 17",
    "CREATE TABLE": "a name must follow",
    "UPDATE r SET a = 1, A = 2": "column 'a' is assigned to twice at line 1, column 21",
    "CREATE MATERIALIZED VIEW v REFRESH SOMETIMES AS SELECT 1 AS x": "REFRESH needs one of AUTO",
}


def _run(sql: str) -> None:
    if sql.startswith(("SELECT", "WITH")):
        compile_query(sql, catalog_of(TABLES))
    else:
        parse(sql)


@pytest.mark.parametrize("sql", UNSUPPORTED)
def test_refused(sql: str) -> None:
    with pytest.raises(UnsupportedError, match=f"(?s){UNSUPPORTED[sql]}"):
        _run(sql)


@pytest.mark.parametrize("sql", INVALID)
def test_invalid(sql: str) -> None:
    with pytest.raises(SqlError, match=f"(?s){INVALID[sql]}") as caught:
        _run(sql)
    assert not isinstance(caught.value, UnsupportedError)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT " + "(" * 5_000 + "a" + ")" * 5_000 + " AS x FROM r",
        "SELECT " + "-(" * 90 + "a" + ")" * 90 + " AS x FROM r WHERE " + "NOT " * 20_000 + "a = 1",
        "SELECT " + "+".join(["a"] * 20_000) + " AS x FROM r",
        "SELECT a FROM r" + " UNION ALL SELECT a FROM r" * 5_000,
    ],
    ids=["parentheses", "not", "sum", "union"],
)
def test_deep_nesting_is_refused(sql: str) -> None:
    with pytest.raises(UnsupportedError, match=r"nested too deeply|nesting deeper"):
        _run(sql)


def test_long_lists_are_no_nesting() -> None:
    """Thousands of conditions, columns and values are wide, not deep."""
    catalog = catalog_of(TABLES)
    conditions = " OR ".join(f"a = {i}" for i in range(2_000))
    values = ", ".join(map(str, range(2_000)))
    columns = ", ".join(f"a + {i} AS c{i}" for i in range(500))
    assert (
        len(
            compile_query(
                f"SELECT {columns} FROM r WHERE b IN ({values}) AND ({conditions})", catalog
            ).columns
        )
        == 500
    )


def test_a_logarithm_may_be_null() -> None:
    """ln(0) is NULL in Spark, also of a column that is never NULL."""
    catalog = catalog_of("CREATE TABLE n (x DOUBLE NOT NULL)")
    ((_, value),) = compile_query("SELECT ln(x) AS y FROM n", catalog).columns
    assert value.nullable
    text = show(compile_query("SELECT x FROM n WHERE ln(x) IS NULL", catalog))
    assert "is_null(case(x > 0.0e0, ln(x), NULL:DOUBLE))" in text
