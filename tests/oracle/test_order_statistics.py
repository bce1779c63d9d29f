"""Percentiles, MEDIAN and MODE against DuckDB, which sorts."""

from __future__ import annotations

from decimal import Decimal
from random import Random

import pyarrow as pa
import pytest

import viewlet
from oracle.harness import Engine, connect, engines, replay
from viewlet.errors import SqlError
from viewlet.workloads.stream import Stream, churn, with_nulls

DDL = """
CREATE TABLE r (a BIGINT, b BIGINT, d DECIMAL(8, 2), e DOUBLE, t DATE, s VARCHAR);
CREATE TABLE q (a BIGINT, x BIGINT);
"""


def within(name: str, share: str, value: str, order: str = "") -> str:
    return f"percentile_{name}({share}) WITHIN GROUP (ORDER BY {value}{order})"


SHARES = ("0", "0.1", "0.25", "0.5", "0.875", "1")
CONT = ", ".join(f"{within('cont', p, 'b')} AS c{i}" for i, p in enumerate(SHARES))
DISC = ", ".join(f"{within('disc', p, 'b')} AS d{i}" for i, p in enumerate(SHARES))
DOWN = ", ".join(
    f"{within('cont', p, 'b', ' DESC')} AS c{i}, {within('disc', p, 'b', ' DESC')} AS d{i}"
    for i, p in enumerate(SHARES)
)
VIEWS = {
    "whole": f"SELECT {CONT}, {DISC}, count(*) AS n FROM r",
    "grouped": f"SELECT a, {DISC}, median(b) AS m FROM r GROUP BY a",
    "down": f"SELECT a, {DOWN} FROM r GROUP BY a",
    "types": f"""SELECT a, median(d) AS md, {within("disc", "0.3", "d")} AS dd, median(e) AS me,
                   {within("disc", "0.7", "e")} AS de, {within("disc", "0.5", "t")} AS dt
                 FROM r GROUP BY a""",
    "computed": "SELECT a % 2 AS odd, median(b * 2 + a) AS m FROM r WHERE d > 0 GROUP BY 1",
    "chosen": "SELECT a, median(b) FILTER (WHERE d > 0) AS m, percentile(b, 0.9) AS p FROM r GROUP BY a",
    "having": "SELECT a, count(*) AS n FROM r GROUP BY a HAVING median(b) >= 2",
    "joined": f"""SELECT r.a, median(b + x) AS m, {within("disc", "0.4", "x")} AS d
                  FROM r, q WHERE r.a = q.a GROUP BY r.a""",
    "outer_joined": "SELECT r.a, median(x) AS m FROM r LEFT JOIN q ON r.a = q.a GROUP BY r.a",
    "united": "SELECT median(x) AS m FROM (SELECT b AS x FROM r UNION ALL SELECT x FROM q) u",
    "rolled": "SELECT a, s, median(b) AS m FROM r GROUP BY ROLLUP (a, s)",
    "sorted": "SELECT a, median(b) AS m FROM r GROUP BY a ORDER BY m DESC NULLS LAST, a NULLS LAST LIMIT 2",
    "above": "SELECT a, b FROM r WHERE b > (SELECT median(x) FROM q)",
    "above_own": """SELECT a, sum(b) AS s FROM r
                    WHERE b >= (SELECT median(f.b) FROM r f WHERE f.a = r.a) GROUP BY a""",
    "of_sums": "SELECT median(s) AS m FROM (SELECT a, sum(b) AS s FROM r GROUP BY a) g",
    "over": "SELECT a, b, median(b) OVER (PARTITION BY a) AS m FROM r",
    "of_a_constant": """SELECT m, median(g.a) AS n
                        FROM (SELECT a, median(b) AS m FROM r WHERE b = 2 GROUP BY a) g CROSS JOIN r o
                        GROUP BY m""",
    "modes": """SELECT a, mode(b) AS m, mode() WITHIN GROUP (ORDER BY b DESC) AS g, count(*) AS n
                FROM r GROUP BY a""",
    "mode_of_all": "SELECT mode(b) FILTER (WHERE d > 0) AS m FROM r",
    "texts": "SELECT mode(s) AS m FROM r",
}


def mode(value: str, order: str) -> str:
    """The mode by DuckDB, of rows grouped by value with their number ``c``."""
    return f"first({value} ORDER BY c DESC, {value} {order}) FILTER (WHERE {value} IS NOT NULL)"


BY_COUNT = "(SELECT a, b, count(*) AS c FROM r GROUP BY a, b)"
ASKED = {
    "types": VIEWS["types"].replace("median(d)", "median(CAST(d AS DOUBLE))"),
    "chosen": VIEWS["chosen"].replace("percentile(b, 0.9)", "quantile_cont(b, 0.9)"),
    "modes": f"SELECT a, {mode('b', 'ASC')}, {mode('b', 'DESC')}, sum(c) FROM {BY_COUNT} GROUP BY a",
    "mode_of_all": f"SELECT {mode('b', 'ASC')} FROM (SELECT b, count(*) AS c FROM r WHERE d > 0 GROUP BY b)",
    "texts": f"SELECT {mode('s', 'ASC')} FROM (SELECT s, count(*) AS c FROM r GROUP BY s)",
}
NATIVE = (
    ("whole", "grouped", "down", "modes"),
    ("types", "computed", "chosen", "having", "mode_of_all"),
    ("joined", "outer_joined", "united", "rolled", "texts"),
    ("sorted", "above", "above_own", "of_sums", "over"),
)


def stream(count: int, seed: int, values: int = 6) -> Stream:
    """Rows that share values, that come and go, down to none of a group."""
    draw = Random(seed)
    whole = [draw.randrange(values) for _ in range(count)]
    r = {
        "a": [draw.randrange(4) for _ in whole],
        "b": [value - 1 for value in whole],
        "d": pa.array([Decimal(draw.randrange(-200, 300)) / 4 for _ in whole], pa.decimal128(8, 2)),
        "e": [draw.randrange(values) / 4 - 0.5 for _ in whole],
        "t": pa.array([10_000 + draw.randrange(values) for _ in whole], pa.int32()).cast(pa.date32()),
        "s": [draw.choice("uvw") for _ in whole],
    }
    q = {
        "a": [draw.randrange(4) for _ in range(count // 2)],
        "x": [draw.randrange(4) for _ in range(count // 2)],
    }
    rows = with_nulls({"r": pa.table(r), "q": pa.table(q)}, 0.1)
    return churn(rows, seed, deletions=0.9)


@engines
@pytest.mark.parametrize("size", [pytest.param(1, marks=pytest.mark.slow), 7])
def test_they_are_what_duckdb_finds_by_sorting(engine: Engine, size: int) -> None:
    found = replay(connect(engine), DDL, VIEWS, stream(16, size).batches(size), asked=ASKED)
    assert all(found.values()), found


@pytest.mark.parametrize("size", [1, pytest.param(9, marks=pytest.mark.slow)])
@pytest.mark.parametrize("names", NATIVE)
def test_they_are_natively(names: tuple[str, ...], size: int) -> None:
    views = {name: VIEWS[name] for name in names}
    asked = {name: text for name, text in ASKED.items() if name in names}
    changes = stream(40 if size > 1 else 24, seed=3, values=12).batches(size)
    assert all(replay(connect(("native", "higher_order")), DDL, views, changes, asked=asked).values())


@pytest.mark.native
@pytest.mark.parametrize("backend", ["reference", "native"])
def test_a_change_costs_a_few_steps_and_a_look_one_search(backend: str) -> None:
    db = viewlet.connect(backend=backend)
    db.execute(DDL)
    db.execute(f"CREATE MATERIALIZED VIEW v AS SELECT a, median(b) AS m, {DISC} FROM r GROUP BY a")
    told = db.explain("v")
    assert "incremental on every change" in told
    costs = [line.strip() for line in told.splitlines() if line.startswith("      O(")]
    assert costs
    assert set(costs) == {"O(1)"}
    if backend == "native":
        shown = told[told.index("view v:") :]
        assert "seek" in shown
        assert "visit once" in shown


THRESHOLDS = {
    "least": """SELECT min(e.b) AS m FROM r e
                WHERE (SELECT sum(f.a) FROM r f WHERE f.b <= e.b) > 0.5 * (SELECT sum(g.a) FROM r g)""",
    "greatest": """SELECT max(e.b) AS m FROM r e
                   WHERE (SELECT sum(f.a) FROM r f WHERE f.b < e.b) < 0.5 * (SELECT sum(g.a) FROM r g)""",
    "by_another": """SELECT min(e.b) AS m FROM r e
                     WHERE (SELECT sum(f.a) FROM q f WHERE f.x <= e.b) >= (SELECT avg(g.a) FROM r g)""",
    "grouped": """SELECT d.a, (SELECT max(e.b) FROM r e WHERE e.a = d.a AND
                    3 > (SELECT sum(f.x) FROM q f WHERE f.a = d.a AND f.x < e.b)) AS m
                  FROM r d GROUP BY d.a""",
}


@pytest.mark.parametrize("engine", [("reference", "higher_order"), ("native", "higher_order")])
def test_thresholds_of_sums_that_may_be_negative(engine: Engine) -> None:
    """Sums of values from -1 or 0 on: where a search would mean nothing, all is looked at."""
    text = {name: text.replace("f.a)", "f.a - 1)") for name, text in THRESHOLDS.items()}
    views = THRESHOLDS | {f"{name}_or_less": each for name, each in text.items()}
    replay(connect(engine), DDL, views, stream(30, 5).batches(4))


@pytest.mark.parametrize(
    ("shown", "reason"),
    [
        ("percentile(b, 0.5, a)", "with a frequency is not supported at line 1"),
        ("percentile(b, 1.5)", "a number from 0 to 1, not at 1.5"),
        ("percentile(b, d)", "at anything but a number"),
        ("percentile(b, array(0.5, 0.9))", "take one call for each"),
        ("percentile(b, 0.1234567890123456)", "at most 15 digits"),
        ("median(DISTINCT b)", "of DISTINCT values"),
        ("median(t)", "needs numbers, got DATE"),
        ("percentile_cont(0.5) WITHIN GROUP (ORDER BY a, b)", "several keys"),
        ("percentile_cont(0.5)", "without an order"),
        ("mode()", "without an order"),
        ("count(b) WITHIN GROUP (ORDER BY b)", "WITHIN GROUP is not supported"),
        ("string_agg(s, ',') WITHIN GROUP (ORDER BY b)", "changes as a whole"),
        ("listagg(s)", "changes as a whole"),
    ],
)
def test_refused(shown: str, reason: str) -> None:
    db = viewlet.connect(backend="reference")
    db.execute(DDL)
    with pytest.raises(SqlError, match=reason):
        db.execute(f"CREATE MATERIALIZED VIEW v AS SELECT {shown} AS x FROM r")
