"""Window functions against DuckDB, which has its own."""

from __future__ import annotations

import pyarrow as pa
import pytest

import viewlet
from oracle.harness import Engine, engines, replay_everyhow
from oracle.test_grouping_sets import rows_alike
from viewlet.errors import SqlError
from viewlet.workloads.stream import Stream, churn, with_nulls

DDL = """
CREATE TABLE r (a BIGINT, b BIGINT, c VARCHAR);
CREATE TABLE s (k BIGINT PRIMARY KEY, a BIGINT, d BIGINT);
"""
VIEWS = {
    "shares": "SELECT a, b, sum(b) OVER (PARTITION BY a) AS s, count(*) OVER () AS n FROM r",
    "extremes": "SELECT b - min(b) OVER (PARTITION BY a, c) AS x, max(b) OVER (PARTITION BY c) AS m FROM r",
    "running": "SELECT a, b, sum(b) OVER (PARTITION BY a ORDER BY b) AS s FROM r",
    "backwards": "SELECT a, b, avg(b) OVER (ORDER BY a DESC NULLS FIRST, b NULLS LAST) AS s FROM r",
    "framed": """SELECT a, b, count(b) OVER (ORDER BY b
                     RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS upto,
                   sum(b) OVER (ORDER BY b
                     ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS whole FROM r""",
    "ranks": """SELECT a, b, c, rank() OVER (PARTITION BY c ORDER BY b) AS r,
                   dense_rank() OVER (ORDER BY a DESC NULLS LAST, b) AS d FROM r""",
    "ranks_by_a_key_twice": "SELECT a, b, dense_rank() OVER (PARTITION BY a ORDER BY a, b) AS d FROM r",
    "numbers": "SELECT k, a, row_number() OVER (PARTITION BY a ORDER BY d DESC, k) AS n FROM s",
    "best": "SELECT k, a, d FROM s QUALIFY row_number() OVER (PARTITION BY a ORDER BY d DESC, k) <= 2",
    "aliased": "SELECT a, b, rank() OVER (ORDER BY b) AS place FROM r QUALIFY place < 4 AND a IS NOT NULL",
    "hidden": "SELECT a, -b AS b, c AS d FROM r QUALIFY rank() OVER (ORDER BY b) < 3 AND b < 4 AND d <> 'y'",
    "filtered": "SELECT a, b, sum(b) FILTER (WHERE c = 'x') OVER (PARTITION BY a) AS s FROM r WHERE b > 0",
    "star": "SELECT *, sum(b) OVER (PARTITION BY c) AS s FROM r",
    "named": "SELECT sum(b) OVER w AS s, rank() OVER w AS r FROM r WINDOW w AS (PARTITION BY c ORDER BY b)",
    "grouped": "SELECT a, sum(b) AS s, rank() OVER (ORDER BY sum(b)) AS r FROM r GROUP BY a",
    "of_groups": "SELECT a, c, sum(sum(b)) OVER (PARTITION BY a) AS s, count(*) AS n FROM r GROUP BY a, c",
    "joined": "SELECT r.a, b, d, sum(b * d) OVER (PARTITION BY r.a) AS s FROM r JOIN s ON r.a = s.a",
    "derived": "SELECT sum(r) AS s FROM (SELECT a, rank() OVER (PARTITION BY a ORDER BY b) AS r FROM r) q",
    "common": "WITH w AS (SELECT a, max(b) OVER (PARTITION BY a) AS m FROM r) SELECT a, m FROM w WHERE m > 1",
    "twice": """SELECT a, sum(m) OVER (PARTITION BY a) AS s
                FROM (SELECT a, count(*) OVER (PARTITION BY c) AS m FROM r) q""",
    "distinct": "SELECT DISTINCT a, count(*) OVER (PARTITION BY a) AS n FROM r",
    "first": """SELECT a, b, rank() OVER (ORDER BY b NULLS LAST) AS r FROM r
                ORDER BY rank() OVER (ORDER BY b NULLS LAST), a NULLS LAST LIMIT 3""",
    "rolled": "SELECT a, c, sum(count(*)) OVER (PARTITION BY a) AS s FROM r GROUP BY ROLLUP (a, c)",
    "near": "SELECT b, count(*) OVER (ORDER BY b RANGE BETWEEN 2 PRECEDING AND 1 FOLLOWING) AS n FROM r",
    "near_and_null": """SELECT a, b,
                          count(*) OVER (ORDER BY b NULLS LAST
                            RANGE BETWEEN 2 PRECEDING AND UNBOUNDED FOLLOWING) AS last,
                          count(*) OVER (ORDER BY b NULLS FIRST
                            RANGE BETWEEN 2 PRECEDING AND UNBOUNDED FOLLOWING) AS first,
                          count(*) OVER (ORDER BY b DESC NULLS LAST
                            RANGE BETWEEN UNBOUNDED PRECEDING AND 1 FOLLOWING) AS down,
                          count(*) OVER (ORDER BY b DESC NULLS FIRST
                            RANGE BETWEEN CURRENT ROW AND 1 FOLLOWING) AS up
                        FROM r""",
    "ahead": """SELECT a, b, sum(b) OVER (PARTITION BY a ORDER BY b DESC
                  RANGE BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING) AS s FROM r""",
    "onward": """SELECT b, min(a) OVER (ORDER BY b NULLS LAST
                   RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS m FROM r""",
    "so_far": "SELECT k, sum(d) OVER (PARTITION BY a ORDER BY k ROWS UNBOUNDED PRECEDING) AS s FROM s",
    "neighbours": """SELECT k, d - lag(d) OVER (PARTITION BY a ORDER BY k) AS up,
                       lead(d) OVER (PARTITION BY a ORDER BY k DESC) AS below FROM s""",
    "ends": """SELECT k, first_value(d) OVER w AS first, last_value(d) OVER w AS self,
                 last_value(k) OVER (ORDER BY k
                   ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS last
               FROM s WINDOW w AS (PARTITION BY a ORDER BY k)""",
    "kept_rows": """SELECT a, n FROM (SELECT t, a, row_number() OVER (PARTITION BY a ORDER BY d, t) AS n
                      FROM (SELECT k AS t, a, d FROM s WHERE d > 0) q) p WHERE n <= 2""",
    "told_apart": """SELECT k, d - lag(d) OVER (ORDER BY k) AS up
                     FROM (SELECT *, count(*) OVER (PARTITION BY a) AS n FROM s) q WHERE n > 1""",
    "best_groups": """SELECT a, row_number() OVER (ORDER BY t DESC, a) AS n
                      FROM (SELECT a, sum(d) AS t FROM s GROUP BY a) q""",
    "ranked_groups": "SELECT a, row_number() OVER (ORDER BY max(d), a) AS n FROM s GROUP BY a",
    "beside_greater": """SELECT q.a, count(*) OVER (ORDER BY q.a) AS n
                         FROM (SELECT DISTINCT a FROM r) q CROSS JOIN s WHERE q.a < s.d""",
    "padded": "SELECT k, lag(d, 1, -k) OVER (ORDER BY k) AS before FROM s",
    "shares_of_ranks": """SELECT a, b, percent_rank() OVER (PARTITION BY c ORDER BY b) AS p,
                            cume_dist() OVER (ORDER BY a DESC NULLS LAST, b) AS d FROM r""",
    "moving": """SELECT k, sum(d) OVER (ORDER BY k ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS s,
                   count(*) OVER (PARTITION BY a ORDER BY k DESC
                     ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS n FROM s""",
    "moving_away": """SELECT k, avg(d) OVER (ORDER BY k ROWS BETWEEN 3 PRECEDING AND 2 PRECEDING) AS v,
                        max(d) OVER (ORDER BY d NULLS LAST, k
                          ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING) AS m FROM s""",
    "parts": """SELECT k, ntile(3) OVER (PARTITION BY a ORDER BY d NULLS FIRST, k) AS n,
                  ntile(4) OVER (ORDER BY k) AS t FROM s""",
    "farther": """SELECT k, lag(d, 2) OVER (ORDER BY k) AS b,
                    lead(d, 3, -1) OVER (PARTITION BY a ORDER BY k DESC) AS f FROM s""",
    "nth": """SELECT k, nth_value(d, 2) OVER (PARTITION BY a ORDER BY k) AS n,
                nth_value(k, 3) OVER (ORDER BY k DESC
                  ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS t FROM s""",
    "framed_ends": """SELECT k, first_value(d) OVER w AS f, last_value(d) OVER w AS l
                      FROM s WINDOW w AS (ORDER BY k ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING)""",
}
FEW = ("shares", "ranks", "running", "best", "of_groups", "near", "neighbours", "kept_rows", "best_groups")
NUMBERED = ("shares_of_ranks", "moving", "parts", "farther", "nth")


def stream(count: int) -> Stream:
    places = range(count)
    s = pa.table({"k": list(places), "a": [i % 3 for i in places], "d": [i * 5 % 4 for i in places]})
    nullable = with_nulls({"r": rows_alike(count), "s": s.drop_columns("k")}, 0.15)
    keyed = {"s": nullable["s"].add_column(0, "k", s["k"])}
    free = churn({"r": nullable["r"]}, 3, deletions=0.7)
    return free.then(churn(keyed, 3, deletions=0.7, duplicates=0))


@engines
def test_they_are_nested_queries(engine: Engine) -> None:
    replay_everyhow(engine, DDL, VIEWS, stream(10), size=7, singles=8)


@pytest.mark.parametrize("names", [FEW, NUMBERED])
def test_they_are_nested_queries_natively(names: tuple[str, ...]) -> None:
    views = {name: VIEWS[name] for name in names}
    replay_everyhow(("native", "higher_order"), DDL, views, stream(12), size=7, singles=12)


@pytest.mark.parametrize(
    ("shown", "reason"),
    [
        ("row_number() OVER (ORDER BY b)", "ROW_NUMBER.* over rows whose order is not decided"),
        ("rank() OVER (PARTITION BY a)", "without an order"),
        ("lag(b) OVER (ORDER BY b)", "LAG.* over rows whose order is not decided"),
        ("first_value(b) OVER (ORDER BY b)", "FIRST_VALUE.* over rows whose order is not decided"),
        ("lag(b, 2) OVER (ORDER BY b)", "LAG.b, 2. over rows whose order is not decided"),
        ("lag(b) OVER ()", "without an order"),
        ("lag(d) OVER (ORDER BY d, k) AS x FROM s --", "along several keys"),
        ("lag(d, a) OVER (ORDER BY k) AS x FROM s --", "write a number of rows above 0"),
        ("lag(d, 0) OVER (ORDER BY k) AS x FROM s --", "write a number of rows above 0"),
        ("nth_value(b, 2) OVER (ORDER BY b)", "NTH_VALUE.* over rows whose order is not decided"),
        ("nth_value(d, 2) OVER (ORDER BY k ROWS 1 PRECEDING) AS x FROM s --", "begin it UNBOUNDED PRECEDING"),
        ("percent_rank() OVER (PARTITION BY a)", "without an order"),
        ("sum(d) OVER (ORDER BY k ROWS a PRECEDING) AS x FROM s --", "by a varying number of rows"),
        ("lag(b) IGNORE NULLS OVER (ORDER BY b)", "IGNORE NULLS OVER"),
        ("ntile(4) OVER (ORDER BY b)", "NTILE.* over rows whose order is not decided"),
        ("ntile(a) OVER (ORDER BY b)", "write the number of parts"),
        ("sum(b) OVER (ORDER BY a, b RANGE 1 PRECEDING)", "over several keys"),
        ("sum(b) OVER (RANGE 1 PRECEDING)", "a frame without an order"),
        ("sum(b) OVER (ORDER BY b ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)", "the frame ROWS"),
        ("sum(b) OVER (ORDER BY b ROWS UNBOUNDED PRECEDING)", "the frame ROWS"),
        ("sum(b) OVER w", "there is no window 'w'"),
        ("a + 1 AS x FROM (SELECT * FROM r) q QUALIFY x < sum(b) OVER () --", "x in QUALIFY"),
        ("-b AS y FROM (SELECT a, b FROM r) q (y, b) QUALIFY y < sum(b) OVER () --", "y in QUALIFY"),
        ("r.*, sum(b) OVER ()", r"r.\* beside window functions"),
        ("a FROM r WHERE rank() OVER (ORDER BY b) = 1 --", "outside of SELECT, QUALIFY and ORDER BY"),
        ("sum(rank() OVER (ORDER BY b))", "inside of an aggregate"),
    ],
)
def test_what_is_refused(shown: str, reason: str) -> None:
    db = viewlet.connect(backend="reference")
    db.execute(DDL)
    with pytest.raises(SqlError, match=reason):
        db.execute(f"CREATE MATERIALIZED VIEW v AS SELECT {shown} AS x FROM r")
