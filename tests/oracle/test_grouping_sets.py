"""GROUPING SETS, ROLLUP and CUBE against DuckDB, which has its own."""

from __future__ import annotations

import pyarrow as pa
import pytest

import viewlet
from oracle.harness import Engine, engines, replay_everyhow
from viewlet.errors import SqlError
from viewlet.workloads.stream import Stream, churn, with_nulls

DDL = "CREATE TABLE r (a BIGINT, b BIGINT, c VARCHAR); CREATE TABLE s (a BIGINT, d BIGINT);"
VIEWS = {
    "rollup": "SELECT a, c, sum(b) AS s, count(*) AS n FROM r GROUP BY ROLLUP (a, c)",
    "cubed": "SELECT a % 2 AS odd, c, max(b) AS m, count(b) AS n FROM r GROUP BY CUBE (a % 2, c)",
    "sets": "SELECT a, c, avg(b) AS s FROM r GROUP BY GROUPING SETS ((a, c), (c), (), ())",
    "crossed": "SELECT a, b, c, count(*) AS n FROM r GROUP BY a, ROLLUP (b), CUBE (c)",
    "together": "SELECT a, b, c, count(*) AS n FROM r GROUP BY ROLLUP ((a, b), c)",
    "nested": "SELECT a, b, c, count(*) AS n FROM r GROUP BY GROUPING SETS (a, ROLLUP (b, c))",
    "marked": "SELECT a, c, grouping(a) AS ga, grouping(a, c) AS g, sum(b) AS s FROM r GROUP BY CUBE (a, c)",
    "having": "SELECT a, sum(b) AS s FROM r GROUP BY ROLLUP (a) HAVING sum(b) > 2 OR a IS NULL",
    "computed": "SELECT coalesce(a, -1) AS x, a + count(*) AS y FROM r GROUP BY ROLLUP (a)",
    "argument": "SELECT a, sum(a) AS s FROM r GROUP BY GROUPING SETS ((a), ())",
    "positions": "SELECT a, c, count(*) AS n FROM r GROUP BY ROLLUP (1, 2)",
    "keys": "SELECT DISTINCT a FROM r GROUP BY CUBE (a, c)",
    "joined": "SELECT r.a, d, sum(b) AS s FROM r JOIN s ON r.a = s.a GROUP BY CUBE (r.a, d)",
    "derived": "SELECT max(n) AS m FROM (SELECT a, c, count(*) AS n FROM r GROUP BY ROLLUP (a, c)) q",
    "first": "SELECT a, count(*) AS n FROM r GROUP BY ROLLUP (a) ORDER BY n DESC, a NULLS LAST LIMIT 2",
    "one_twice": "SELECT x, y, count(*) AS n FROM (SELECT a AS x, a AS y FROM r) q GROUP BY ROLLUP (x, y)",
    "correlated": "SELECT a, (SELECT count(*) FROM s WHERE s.a = r.a) AS n FROM r GROUP BY ROLLUP (a)",
}
FEW = ("rollup", "marked", "computed", "joined")


def rows_alike(count: int) -> pa.Table:
    """Rows of few different numbers and letters, which groups, ranks and frames find alike."""
    places = range(count)
    return pa.table(
        {
            "a": [i * 7 % 3 for i in places],
            "b": [i * 5 % 9 - 3 for i in places],
            "c": ["xyz"[i * 11 % 3] for i in places],
        }
    )


def stream(count: int) -> Stream:
    s = pa.table({"a": [i % 4 for i in range(count)], "d": [i % 2 for i in range(count)]})
    return churn(with_nulls({"r": rows_alike(count), "s": s}, 0.15), 3, deletions=0.7)


@engines
def test_they_are_unions(engine: Engine) -> None:
    replay_everyhow(engine, DDL, VIEWS, stream(10), size=7, singles=8)


def test_they_are_unions_natively() -> None:
    views = {name: VIEWS[name] for name in FEW}
    replay_everyhow(("native", "higher_order"), DDL, views, stream(12), size=7, singles=12)


@pytest.mark.parametrize(
    ("spark", "standard"),
    [
        ("GROUP BY a, c WITH ROLLUP", "GROUP BY ROLLUP (a, c)"),
        ("GROUP BY a, c WITH CUBE", "GROUP BY CUBE (a, c)"),
        ("GROUP BY a, c GROUPING SETS ((a), (c), (a, c))", "GROUP BY GROUPING SETS ((a), (c), (a, c))"),
    ],
)
def test_other_words_for_the_same(spark: str, standard: str) -> None:
    db = viewlet.connect(backend="reference")
    db.execute(DDL)
    for name, words in (("left_", spark), ("right_", standard)):
        db.execute(f"CREATE MATERIALIZED VIEW {name} AS SELECT a, c, count(*) AS n FROM r {words}")
    db.insert("r", [(1, 2, "x"), (1, None, "y"), (None, 3, "x")])
    assert db.view("left_").rows() == db.view("right_").rows()
    assert len(db.view("left_").rows()) > 4


@pytest.mark.parametrize(
    ("shown", "grouping", "reason"),
    [
        ("count(*)", "CUBE (a, b, c, a + 1, b + 1), ROLLUP (a + 2, b + 2)", "96 grouping sets"),
        ("grouping(b)", "ROLLUP (a)", "b in GROUPING is not in GROUP BY"),
        ("count(*)", "ROLLUP (a), b WITH CUBE", "mixture of groupings"),
        ("b", "ROLLUP (a)", "column 'b' is neither in GROUP BY"),
    ],
)
def test_what_is_refused(shown: str, grouping: str, reason: str) -> None:
    db = viewlet.connect(backend="reference")
    db.execute(DDL)
    with pytest.raises(SqlError, match=reason):
        db.execute(f"CREATE MATERIALIZED VIEW v AS SELECT {shown} AS x FROM r GROUP BY {grouping}")
