"""Queries whose deltas grow without end are recomputed or refused; nothing stays behind."""

import pytest

import viewlet
from viewlet.errors import CompileError, ProgramSizeError
from viewlet.plan.nodes import Query
from viewlet.plan.text import show
from viewlet.sql import compile_query
from viewlet.sql.catalog import Catalog
from viewlet.sql.parse import parse
from viewlet.triggers.compile import Compiler

DDL = "CREATE TABLE r (a BIGINT, b BIGINT, c BIGINT)"
SMALL = "SELECT a, SUM(b) AS t FROM r GROUP BY a"
# One CTE of two branches, each an outer join under a GROUP BY or DISTINCT, used five times.
LARGE = """
    WITH q AS (
        SELECT MIN(x.b) AS c0, MAX(y.a) AS c1, MAX(x.b) AS c2 FROM r AS x RIGHT JOIN r AS y ON x.b = y.a
        GROUP BY y.c, x.c HAVING COUNT(DISTINCT CASE WHEN y.a > 0 THEN y.a END) < 0
        UNION ALL
        SELECT DISTINCT 1.5 AS c0, COALESCE(y.b, 2) AS c1, x.a AS c2
        FROM r AS x RIGHT JOIN r AS y ON x.c = y.c WHERE x.a <> x.b
    )
    SELECT q2.c2 AS c0, COUNT(*) AS n
    FROM q AS q1 CROSS JOIN q AS q2 LEFT JOIN q AS q3 ON q1.c2 = q3.c1 AND q1.c1 = q3.c2
    RIGHT JOIN q AS q4 ON q1.c2 = q4.c1
    WHERE q3.c0 BETWEEN -0.75 AND 1.00 GROUP BY q2.c2
    HAVING MIN(q4.c2) = ANY (SELECT MIN(q5.c0) FROM q AS q5 WHERE q5.c2 = q2.c2)
"""


@pytest.fixture
def most(monkeypatch: pytest.MonkeyPatch) -> None:
    """What doubles with every join passes a small limit too, in less time."""
    monkeypatch.setattr("viewlet.calculus.from_plan.MOST_NAMES", 3000)


def _query(sql: str) -> tuple[Catalog, Query]:
    catalog = Catalog(statement.table for statement in parse(DDL))
    return catalog, compile_query(sql, catalog)


@pytest.mark.usefixtures("most")
def test_what_is_refused_leaves_nothing_behind() -> None:
    catalog, large = _query(LARGE)
    compiler, alone = Compiler(catalog), Compiler(catalog)
    with pytest.raises(ProgramSizeError, match="split it into several views"):
        compiler.add("large", large, "higher_order")
    assert not compiler.program().maps
    assert not compiler.views
    for each in (compiler, alone):
        each.add("small", _query(SMALL)[1])
    assert len(compiler.program().maps) == len(alone.program().maps)
    assert compiler.program().triggers.keys() == alone.program().triggers.keys()


@pytest.mark.slow
@pytest.mark.usefixtures("most")
def test_auto_recomputes() -> None:
    with viewlet.connect(backend="reference") as database:
        database.execute(DDL)
        database.execute(f"CREATE MATERIALIZED VIEW small AS {SMALL}")
        database.execute(f"CREATE MATERIALIZED VIEW large AS {LARGE}")
        database.execute(f"CREATE MATERIALIZED VIEW whole REFRESH FULL AS {LARGE}")
        for row in [(1, 2, 3), (2, 1, 3), (2, 2, None), (None, 1, 3)]:
            database.insert("r", [row])
            assert database.view("large").rows() == database.view("whole").rows()
        assert database.view("small").rows() == [(None, 1), (1, 2), (2, 3)]
        assert "higher_order: too large to compile" in database.explain("large")
        with pytest.raises(CompileError, match=r"'strict' is not incremental: r: .* is recomputed"):
            database.execute(f"CREATE MATERIALIZED VIEW strict REFRESH INCREMENTAL STRICT AS {LARGE}")
        assert "strict" not in database.catalog


def test_a_row_that_meets_itself_many_times() -> None:
    """A table joined with itself n times changes by 2**n - 1 products, which take no new names."""
    tables, joined = ", ".join(f"r AS r{i}" for i in range(16)), (f"r{i}.a = r{i + 1}.b" for i in range(15))
    catalog, query = _query(f"SELECT COUNT(*) AS n FROM {tables} WHERE {' AND '.join(joined)}")
    with pytest.raises(ProgramSizeError, match="split it into several views"):
        Compiler(catalog).add("joined", query, "higher_order")


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("SELECT * FROM w", 3),
        ("SELECT DISTINCT * FROM w", 2),
        ("SELECT x.*, y.c1 AS other FROM w AS x LEFT JOIN w AS y ON x.c99 = y.c0", 5),
        ("SELECT * FROM w EXCEPT SELECT * FROM w WHERE c0 > 1", 1),
    ],
)
def test_a_table_of_a_hundred_columns(sql: str, rows: int) -> None:
    """An atom with many unknown arguments comes late in the order of a product, and still comes."""
    one, two = (1,) * 100, (*(2,) * 99, None)
    with viewlet.connect(backend="reference") as database:
        database.execute(f"CREATE TABLE w ({', '.join(f'c{i} INT' for i in range(100))})")
        database.execute(f"CREATE MATERIALIZED VIEW v AS {sql}")
        database.insert("w", [one, two, one])
        assert len(database.view("v").rows()) == rows
        database.delete("w", [one, one])
        assert all(row[:100] == two for row in database.view("v").rows())


def test_a_sum_of_every_column() -> None:
    """Each sum reads one column of a hundred: the names of the others are no measure of the program."""
    sums = ", ".join(f"SUM(c{i}) AS s{i}, MAX(c{i}) AS m{i}" for i in range(1, 100))
    with viewlet.connect(backend="reference") as database:
        database.execute(f"CREATE TABLE w ({', '.join(f'c{i} INT' for i in range(100))})")
        database.execute(
            f"CREATE MATERIALIZED VIEW v REFRESH INCREMENTAL STRICT AS SELECT c0, {sums} FROM w GROUP BY c0"
        )
        database.insert("w", [tuple(range(100)), (0, None, *range(98))])
        assert database.view("v").rows() == [
            (0, 1, 1, *(value for i in range(2, 100) for value in (2 * i - 2, i)))
        ]
        database.delete("w", [tuple(range(100))])
        assert database.view("v").rows() == [(0, None, None, *(i for i in range(98) for _ in range(2)))]


def test_fifty_unions() -> None:
    """Only the outermost looks for duplicates; each within another would double what a change takes."""
    sql = " UNION ".join(f"SELECT a + {i} AS a FROM r" for i in range(50))
    assert show(_query(sql)[1]).count("union_all") == 48
    with viewlet.connect(backend="reference") as database:
        database.execute(DDL)
        database.execute(f"CREATE MATERIALIZED VIEW v AS {sql}")
        database.insert("r", [(0, 0, 0), (10, 0, 0), (10, 1, 1)])
        assert database.view("v").rows() == [(i,) for i in range(60)]
        database.delete("r", [(10, 0, 0), (0, 0, 0)])
        assert database.view("v").rows() == [(i,) for i in range(10, 60)]


def test_expressions_that_triple_are_refused_before_they_are_written_out() -> None:
    """``CASE WHEN x > i THEN x + 1 ELSE x END`` on forty levels; recomputed, each has its own x."""
    deep = "SELECT a AS x FROM r"
    for level in range(40):
        deep = f"SELECT CASE WHEN x > {level} THEN x + 1 ELSE x END AS x FROM ({deep}) AS q{level}"
    with viewlet.connect(backend="reference") as db:
        db.execute(DDL)
        db.insert("r", [(1, 0, 0), (-5, 0, 0)])
        with pytest.raises(ProgramSizeError, match="split it into several views"):
            db.execute(f"CREATE MATERIALIZED VIEW v AS {deep}")
        db.execute(f"CREATE MATERIALIZED VIEW v REFRESH FULL AS {deep}")
        assert db.view("v").rows() == [(-5,), (41,)]
