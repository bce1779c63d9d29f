"""Direct evaluation of plans against DuckDB: each query over random bags with NULLs and duplicates."""

from __future__ import annotations

import math
import random
from collections import Counter
from decimal import Decimal
from typing import Any

import duckdb
import pytest
import sqlglot

from viewlet.core.scalar import TRUE, Const, Var, call
from viewlet.core.types import BIGINT, VARCHAR, Column, Schema, decimal
from viewlet.errors import UnsupportedError, ValueRangeError
from viewlet.plan.bags import Bag, Row, consolidate, ordered_rows
from viewlet.plan.evaluate import evaluate_query
from viewlet.plan.nodes import Filter, Join, Project, Query, Scan, SetOperation, SortKey, Top
from viewlet.sql import compile_query
from viewlet.sql.catalog import Catalog
from viewlet.sql.parse import CreateTable, parse
from viewlet.values import to_arrow, to_python

DDL = """
CREATE TABLE r (a BIGINT, b INT, d DECIMAL(8,2), v VARCHAR);
CREATE TABLE s (a BIGINT, c INT, x DOUBLE);
CREATE TABLE e (a BIGINT, c INT)
"""
CATALOG = Catalog(statement.table for statement in parse(DDL) if isinstance(statement, CreateTable))
ORACLE = duckdb.connect(config={"threads": 1})

QUERIES = [
    "SELECT a, b + 1 AS c, d * 2 AS e, upper(v) AS u FROM r WHERE a > 1 OR v LIKE 'p%'",
    "SELECT DISTINCT a, v FROM r",
    "SELECT 1 AS one, 'x' AS v",
    # joins
    "SELECT r.a, b, c FROM r, s WHERE r.a = s.a AND b < c",
    "SELECT r.a, b, s.c FROM r JOIN s ON r.a = s.a JOIN e ON e.c = s.c",
    "SELECT r.a, b, c FROM r LEFT JOIN s ON r.a = s.a AND c > 1",
    "SELECT r.a AS ra, s.a AS sa, c FROM r RIGHT JOIN s ON r.a = s.a AND b = c",
    "SELECT r.a AS ra, s.a AS sa, b, c FROM r FULL JOIN s ON r.a = s.a",
    "SELECT r.a AS ra, s.a AS sa, b, c FROM r FULL JOIN s ON r.a < s.a AND b > c",
    "SELECT r.a AS ra, e.a AS ea FROM r FULL JOIN e ON r.a = e.a",
    "SELECT r.a AS ra, s.a AS sa FROM r LEFT JOIN s ON 1 = 1 WHERE s.c IS NULL OR r.b = 2",
    "SELECT x.a, y.b FROM r x CROSS JOIN r y WHERE x.b = y.b",
    "SELECT r.a, c FROM r, s WHERE (r.a = s.a AND b = 1) OR (r.a = s.a AND c = 2)",
    "SELECT r.a, c FROM r, s WHERE d = c",
    # groups
    "SELECT a, count(*) AS n, count(b) AS nb, sum(b) AS s, min(v) AS lo, max(d) AS hi FROM r GROUP BY a",
    "SELECT sum(d) AS s, avg(b) AS m, count(DISTINCT a) AS k, sum(DISTINCT b) AS t FROM r",
    "SELECT sum(b) AS s, count(*) AS n, max(v) AS m FROM e2",
    "SELECT v, count(*) FILTER (WHERE b > 1) AS n, sum(d) FILTER (WHERE a = 2) AS s FROM r GROUP BY v",
    "SELECT a, sum(x) AS s, avg(x) AS m FROM s GROUP BY a",
    "SELECT var_pop(x) AS p, var_samp(c) AS q, stddev_pop(c) AS t, stddev_samp(x) AS u FROM s",
    "SELECT a, stddev_samp(b) AS t FROM r GROUP BY a",
    "SELECT a, sum(b) AS s FROM r GROUP BY a HAVING sum(b) > 2 OR count(*) = 1",
    "SELECT a + b AS k, count(*) AS n FROM r GROUP BY a + b",
    # nested queries
    "SELECT a, b FROM r WHERE EXISTS (SELECT 1 FROM s WHERE s.a = r.a AND s.c > r.b)",
    "SELECT a, b FROM r WHERE NOT EXISTS (SELECT 1 FROM s WHERE s.a = r.a)",
    "SELECT a, b FROM r WHERE a IN (SELECT a FROM s)",
    "SELECT a, b FROM r WHERE a NOT IN (SELECT a FROM s)",
    "SELECT a, b FROM r WHERE a NOT IN (SELECT a FROM s WHERE a IS NOT NULL)",
    "SELECT a, b FROM r WHERE a NOT IN (SELECT a FROM s WHERE s.c = r.b)",
    "SELECT a, b FROM r WHERE (a, b) IN (SELECT a, c FROM s)",
    "SELECT a, b FROM r WHERE (a, b) NOT IN (SELECT a, c FROM s)",
    "SELECT a, b FROM r WHERE b > ANY (SELECT c FROM s)",
    "SELECT a, b FROM r WHERE b >= ALL (SELECT c FROM s WHERE s.a = r.a)",
    "SELECT a, b FROM r WHERE b <> ALL (SELECT c FROM s)",
    "SELECT a, b, a IN (SELECT a FROM s) AS m FROM r",
    "SELECT a, (SELECT sum(c) FROM s WHERE s.a = r.a) AS t FROM r",
    "SELECT a, (SELECT count(*) FROM s WHERE s.c > r.b) AS t FROM r",
    "SELECT a FROM r WHERE 2 * b > (SELECT avg(c) FROM s WHERE s.a < r.a)",
    "SELECT a FROM r WHERE d < (SELECT max(c) FROM s WHERE EXISTS (SELECT 1 FROM e WHERE e.c + s.c > r.b))",
    "SELECT a, s FROM (SELECT a, sum(b) AS s FROM r GROUP BY a) g WHERE s > (SELECT avg(b) FROM r)",
    "WITH g AS (SELECT a, count(*) AS n FROM r GROUP BY a) SELECT x.a, y.n FROM g x, g y WHERE x.n = y.n",
    # set operations
    "SELECT a FROM r UNION SELECT a FROM s",
    "SELECT a FROM r UNION ALL SELECT c FROM s",
    "SELECT d FROM r UNION ALL SELECT b FROM r",
    "SELECT a FROM r INTERSECT SELECT a FROM s",
    "SELECT a FROM r INTERSECT ALL SELECT a FROM s",
    "SELECT a FROM r EXCEPT SELECT a FROM s",
    "SELECT a FROM r EXCEPT ALL SELECT a FROM s",
]


def random_contents(seed: int) -> dict[str, Bag]:
    rng = random.Random(seed)

    def some(*values: Any) -> Any:
        return rng.choice([None, *values])

    def bag(size: int, *columns: Any) -> Bag:
        return consolidate(
            (tuple(column() for column in columns), rng.choice([1, 1, 2])) for _ in range(size)
        )

    small = lambda: some(0, 1, 2, 3)  # noqa: E731
    return {
        "r": bag(
            rng.randrange(14), small, small, lambda: some(0, 150, 200, -75), lambda: some("p", "q", "Pq")
        ),
        "s": bag(rng.randrange(14), small, small, lambda: some(0.5, -1.25, 3.0)),
        "e": bag(rng.randrange(3), small, small),
    }


def duckdb_rows(sql: str, contents: dict[str, Bag]) -> list[tuple[Any, ...]]:
    text = sqlglot.transpile(sql, read="spark", write="duckdb")[0]
    for name, bag in contents.items():
        rows = [row for row, n in bag.items() for _ in range(n)]
        ORACLE.register(name, to_arrow(rows, CATALOG[name].columns))
    return ORACLE.execute(text).fetchall()


def comparable(rows: list[tuple[Any, ...]]) -> Counter[tuple[Any, ...]]:
    """Rows with numbers that agree to twelve digits made equal, whatever their type."""
    return Counter(tuple(_rounded(value) for value in row) for row in rows)


def _rounded(value: Any) -> Any:
    if isinstance(value, (int, float, Decimal)) and not isinstance(value, bool):
        return float(f"{value:.12g}")
    return value


@pytest.mark.parametrize("sql", QUERIES)
def test_queries_are_duckdbs(sql: str) -> None:
    sql = sql.replace("e2", "(SELECT b, v FROM r WHERE 1 = 0) z")
    query = compile_query(sql, CATALOG)
    found = 0
    for seed in range(6):
        contents = random_contents(seed)
        bag = evaluate_query(query, contents, CATALOG)
        assert all(n > 0 for n in bag.values())
        ours = to_python(ordered_rows(query, bag), query_columns(query))
        assert comparable(ours) == comparable(duckdb_rows(sql, contents)), (seed, contents)
        found += len(ours)
    assert found, "a query that never finds a row proves nothing"


def query_columns(query: Query) -> Schema:
    return tuple(Column(name, var.type, var.nullable) for name, var in query.columns)


def test_scalar_queries_with_several_rows_are_refused() -> None:
    query = compile_query("SELECT (SELECT a FROM s) AS x FROM r", CATALOG)
    contents: dict[str, Bag] = {"r": {(1, 1, 1, "p"): 1}, "s": {(1, 1, 0.0): 1}, "e": {}}
    assert evaluate_query(query, contents, CATALOG) == {(1,): 1}
    contents["s"] = {(1, 1, 0.0): 2}
    with pytest.raises(ValueRangeError, match="more than one row returned by a subquery"):
        evaluate_query(query, contents, CATALOG)


def test_sums_are_exact_and_refused_only_at_the_end() -> None:
    query = compile_query("SELECT sum(a) AS s FROM r", CATALOG)
    huge = 2**63 - 1
    rows: Bag = {(huge, 1, None, None): 3, (-huge, 2, None, None): 2}
    assert evaluate_query(query, {"r": rows}, CATALOG) == {(huge,): 1}
    with pytest.raises(ValueRangeError, match="out of range for BIGINT"):
        evaluate_query(query, {"r": {(huge, 1, None, None): 2}}, CATALOG)


def test_double_sums_are_correctly_rounded_in_any_order() -> None:
    query = compile_query("SELECT sum(x) AS s FROM s", CATALOG)
    rng = random.Random(3)
    values = [rng.uniform(-1, 1) * 10.0 ** rng.randrange(-12, 12) for _ in range(200)] + [1e300, -1e300]
    rows = {(i, None, value): 1 for i, value in enumerate(values)}
    assert evaluate_query(query, {"s": rows}, CATALOG) == {(math.fsum(values),): 1}


R = Scan("r", (("a", Var("a")), ("b", Var("b"))))


def test_order_limit_and_offset_with_ties_and_nulls() -> None:
    rows: Bag = {(a, b, None, None): n for a, b, n in ((1, 2, 1), (1, None, 2), (None, 5, 1), (3, 1, 1))}
    columns = (("a", Var("a")), ("b", Var("b")))

    def run(descending: bool, nulls_first: bool, limit: int | None, offset: int = 0) -> list[Row]:
        query = Query(Top(R, (SortKey(Var("a"), descending, nulls_first),), limit, offset), columns)
        return ordered_rows(query, evaluate_query(query, {"r": rows}, CATALOG))

    assert run(False, True, None) == [(None, 5), (1, None), (1, None), (1, 2), (3, 1)]
    assert run(False, False, None) == [(1, None), (1, None), (1, 2), (3, 1), (None, 5)]
    assert run(True, True, None) == [(None, 5), (3, 1), (1, None), (1, None), (1, 2)]
    assert run(True, False, 2) == [(3, 1), (1, None)]
    assert run(True, False, 2, 2) == [(1, None), (1, 2)]
    assert run(False, True, None, 4) == [(3, 1)]
    assert run(False, True, 0) == []


def test_orders_that_the_result_does_not_keep_are_refused() -> None:
    query = Query(Top(R, (SortKey(Var("b"), False, True),), None), (("a", Var("a")),))
    with pytest.raises(UnsupportedError, match="ORDER BY b"):
        ordered_rows(query, {})
    inner = Query(Filter(Top(R, (), 1), TRUE), (("a", Var("a")),))
    with pytest.raises(UnsupportedError, match="view of its own"):
        evaluate_query(inner, {"r": {}}, CATALOG)


def test_a_join_may_be_lateral() -> None:
    inner = Filter(Scan("s", (("a", Var("sa")), ("c", Var("c")))), call("<", Var("sa"), Var("a")))
    for kind in ("inner", "left"):
        plan = Join(kind, R, inner, TRUE)  # type: ignore[arg-type]
        contents: dict[str, Bag] = {
            "r": {(2, 0, None, None): 1, (0, 0, None, None): 1},
            "s": {(1, 7, None): 2},
        }
        rows = evaluate_query(Query(plan, (("a", Var("a")), ("c", Var("c")))), contents, CATALOG)
        assert rows == ({(2, 7): 2} if kind == "inner" else {(2, 7): 2, (0, None): 1})


def test_set_operations_align_representations() -> None:
    exact = Project(R, ((Var("p", decimal(6, 2)), Const(150, decimal(6, 2))),))
    whole = Project(R, ((Var("q", BIGINT), Const(3, BIGINT)),))
    column = Var("u", decimal(22, 2))
    plan = SetOperation("union_all", exact, whole, (column,))
    rows = evaluate_query(Query(plan, (("u", column),)), {"r": {(1, 1, None, None): 1}}, CATALOG)
    assert rows == {(150,): 1, (300,): 1}


def test_conditions_on_constants_and_strings() -> None:
    scan = Scan("r", (("v", Var("v", VARCHAR)), ("a", Var("a"))))
    plan = Filter(scan, call("=", Var("v", VARCHAR), Const("p", VARCHAR)))
    contents: dict[str, Bag] = {"r": {(1, 0, 0, "p"): 1, (2, 0, 0, "q"): 1, (3, 0, 0, None): 1}}
    assert evaluate_query(Query(plan, (("a", Var("a")),)), contents, CATALOG) == {(1,): 1}
