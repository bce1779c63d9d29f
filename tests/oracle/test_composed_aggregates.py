"""Covariance, regression, MAX_BY and MIN_BY, ANY_VALUE against DuckDB, which has its own."""

from __future__ import annotations

import pyarrow as pa
import pytest

import viewlet
from oracle.harness import Engine, connect, engines, replay
from viewlet.errors import SqlError
from viewlet.workloads.stream import Stream, churn, with_nulls

DDL = (
    "CREATE TABLE r (g BIGINT, x BIGINT, y BIGINT, s VARCHAR); CREATE TABLE q (g BIGINT, d DOUBLE, e DOUBLE);"
)
REGRESSION = (
    "count(*) AS n, covar_pop(y, x) AS cp, covar_samp(y, x) AS cs, corr(y, x) AS c, regr_count(y, x) AS rc,"
    " regr_slope(y, x) AS rs, regr_intercept(y, x) AS ri, regr_r2(y, x) AS r2"
)
VIEWS = {
    "regression": f"SELECT g, {REGRESSION} FROM r GROUP BY g",
    "computed_too": "SELECT g, covar_pop(x, y + x) AS c, regr_intercept(x, 2 * y) AS i FROM r GROUP BY g",
    "filtered": "SELECT covar_pop(y, x) FILTER (WHERE s <> 'u') AS c, corr(x, x) AS one FROM r",
    "doubles": "SELECT g, covar_pop(d, e) AS c, regr_slope(d, e) AS k FROM q GROUP BY g",
    "latest": "SELECT g, max_by(s, y) AS s, min_by(s, y) AS t, count(*) AS n FROM r GROUP BY g",
    "some": "SELECT max_by(s, y) FILTER (WHERE x > 0) AS s, min_by(x, y + 1) AS x FROM r WHERE g > 0",
    "computed": "SELECT g % 2 AS odd, max_by(x, y) + 1 AS m FROM r GROUP BY 1 HAVING max_by(x, y) > 0",
    "joined": "SELECT r.g, max_by(d, y) AS d FROM r JOIN q ON r.g = q.g WHERE e > 0 GROUP BY r.g",
    "sorted": "SELECT g, max_by(x, y) AS m FROM r GROUP BY g ORDER BY m DESC, g LIMIT 2",
    "correlated": "SELECT g, d FROM q WHERE d > (SELECT max_by(x, y) FROM r WHERE r.g = q.g)",
    "having": "SELECT max_by(s, y) AS s FROM r WHERE g = 1 HAVING min_by(x, y) > 0",
    "over": "SELECT g, y, max_by(s, x) OVER (PARTITION BY g) AS s FROM r",
}
FIRST, LAST = "y DESC, {0} DESC NULLS LAST", "y, {0} DESC NULLS LAST"


def best(value: str, order: str, condition: str = "TRUE") -> str:
    """The first value in an order of DuckDB's, of rows whose place is known."""
    return f"first({value} ORDER BY {order.format(value)}) FILTER (WHERE y IS NOT NULL AND {condition})"


def number(text: str) -> str:
    """What is undefined is NULL here."""
    return f"CASE WHEN isnan({text}) THEN NULL ELSE {text} END"


ASKED = {
    "regression": "SELECT g, count(*), covar_pop(y, x), covar_samp(y, x), "
    + f"{number('corr(y, x)')}, regr_count(y, x), {number('regr_slope(y, x)')}, "
    + f"{number('regr_intercept(y, x)')}, {number('regr_r2(y, x)')} FROM r GROUP BY g",
    "computed_too": f"SELECT g, covar_pop(x, y + x), {number('regr_intercept(x, 2 * y)')} FROM r GROUP BY g",
    "filtered": f"SELECT covar_pop(y, x) FILTER (WHERE s <> 'u'), {number('corr(x, x)')} FROM r",
    "doubles": f"SELECT g, covar_pop(d, e), {number('regr_slope(d, e)')} FROM q GROUP BY g",
    "latest": f"SELECT g, {best('s', FIRST)}, {best('s', LAST)}, count(*) FROM r GROUP BY g",
    "some": f"SELECT {best('s', FIRST, 'x > 0')}, {best('x', LAST)} FROM r WHERE g > 0",
    "computed": f"SELECT * FROM (SELECT g % 2, {best('x', FIRST)} + 1 AS m FROM r GROUP BY 1) WHERE m > 1",
    "joined": f"SELECT r.g, {best('d', FIRST)} FROM r JOIN q ON r.g = q.g WHERE e > 0 GROUP BY r.g",
    "correlated": f"SELECT g, d FROM q WHERE d > (SELECT {best('x', FIRST)} FROM r WHERE r.g = q.g)",
    "sorted": f"SELECT g, {best('x', FIRST)} AS m FROM r GROUP BY g ORDER BY m DESC, g LIMIT 2",
    "having": f"SELECT {best('s', FIRST)} FROM r WHERE g = 1 HAVING {best('x', LAST)} > 0",
    "over": "SELECT a.g, a.y, (SELECT first(b.s ORDER BY b.x DESC, b.s DESC NULLS LAST) FROM r b"
    " WHERE b.g IS NOT DISTINCT FROM a.g AND b.x IS NOT NULL) FROM r a",
}


def stream(count: int) -> Stream:
    places = range(count)
    r = {
        "g": [i * 7 % 3 for i in places],
        "x": [i * 5 % 9 - 3 for i in places],
        "y": [i * 11 % 8 - 2 for i in places],
        "s": ["uvw"[i % 3] for i in places],
    }
    q = {
        "g": [i % 4 for i in places],
        "d": [i * 0.25 - 1 for i in places],
        "e": [i * 3 % 5 - 1.5 for i in places],
    }
    return churn(with_nulls({"r": pa.table(r), "q": pa.table(q)}, 0.15), 5, deletions=0.7)


@engines
@pytest.mark.parametrize("size", [1, 6])
def test_they_are_what_duckdb_says(engine: Engine, size: int) -> None:
    found = replay(connect(engine), DDL, VIEWS, stream(12).batches(size), asked=ASKED)
    assert all(found.values())


@pytest.mark.parametrize("names", [("regression", "filtered", "doubles"), ("latest", "some", "joined")])
def test_they_are_natively(names: tuple[str, ...]) -> None:
    views, asked = ({name: texts[name] for name in names} for texts in (VIEWS, ASKED))
    replay(connect(("native", "higher_order")), DDL, views, stream(16).batches(5), asked=asked)


def test_the_latest_value_is_found_by_a_search() -> None:
    db = viewlet.connect(backend="reference")
    db.execute(DDL)
    db.execute(f"CREATE MATERIALIZED VIEW v AS {VIEWS['latest']}")
    told = db.explain("v")
    assert "incremental on every change" in told
    assert "ordered multiset" in told


def test_columns_keep_their_names() -> None:
    db = viewlet.connect(backend="reference")
    db.execute(DDL)
    db.execute("CREATE MATERIALIZED VIEW v AS SELECT max_by(x, y), any_value(x) AS a FROM r")
    assert [column.name for column in db.view("v").columns] == ["max_by(x, y)", "a"]


def test_refused() -> None:
    db = viewlet.connect(backend="reference")
    db.execute(DDL)
    for text, why in {
        "SELECT g, max_by(x, y) AS m FROM r GROUP BY ROLLUP (g)": "group by plain columns",
        "SELECT x AS g, max_by(x, y) AS m FROM r GROUP BY g": "write out what it stands for",
    }.items():
        with pytest.raises(SqlError, match=why):
            db.execute(f"CREATE MATERIALIZED VIEW v AS {text}")
