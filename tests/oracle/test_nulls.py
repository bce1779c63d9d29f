"""Random queries about which rows conditions let through that say something of NULL, against DuckDB.

The conditions of other random queries rarely keep NULL out of one column for the sake of another; here
most do, below what reads a column as never NULL: DISTINCT, groups, set operations, joins, nested queries.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pyarrow as pa
import pytest

from oracle.harness import ENGINES, MORE_ENGINES, Engine, connect, engines, opposite, replay
from strategies import Case, Column, Table, random_changes

QUICK = 12
COLUMNS = tuple(Column(name, "int", "BIGINT", nullable=True) for name in "ab")
TABLES = (Table("r", COLUMNS), Table("s", COLUMNS))
OWN = ("e.a", "e.b")
NESTED = (
    "",
    "",
    " AND NOT EXISTS (SELECT 1 FROM s AS z WHERE z.a = 9)",
    " AND EXISTS (SELECT 1 FROM s AS z WHERE z.a <=> e.a)",
    " AND e.b < (SELECT MAX(z.b) FROM s AS z)",
)
JOINS = ("JOIN s AS f ON e.a = f.a", "LEFT JOIN s AS f ON e.a <=> f.a", "FULL JOIN s AS f ON e.a = f.b")
SETS = ("UNION", "EXCEPT", "INTERSECT", "EXCEPT ALL")


class Writer:
    """Writes queries over ``r`` and ``s``."""

    def __init__(self, rng: Random) -> None:
        self._pick = rng.choice

    def query(self) -> str:
        """A query around one or two blocks, or with a block in it that reads its row."""
        block, within = self._block(), self._block(("o.a", "o.b"))
        test = self._condition(1, ("p.a", "p.b"))
        value = self._pick(["COUNT(*)", "SUM(p.b)", "MAX(p.a)", "COUNT(p.a)"])
        return self._pick(
            [
                f"SELECT p.a, p.b FROM ({block}) AS p WHERE {test}",
                f"SELECT p.a, COUNT(p.b) AS y, MIN(p.b) AS z FROM ({block}) AS p GROUP BY p.a",
                f"SELECT SUM(p.a) AS x, COUNT(p.b) AS y, COUNT(*) AS z FROM ({block}) AS p WHERE {test}",
                f"SELECT p.a, DENSE_RANK() OVER (ORDER BY p.a DESC NULLS LAST) AS n FROM ({block}) AS p",
                f"SELECT p.a, q.b FROM ({block}) AS p {self._pick(['JOIN', 'LEFT JOIN', 'FULL JOIN'])} "
                f"({self._block()}) AS q ON p.a = q.a",
                f"SELECT o.a, (SELECT {value} FROM ({within}) AS p WHERE {test}) AS n FROM r AS o",
                f"SELECT o.a, o.b FROM r AS o WHERE {self._pick(['', 'NOT '])}EXISTS ({within})",
            ]
        )

    def _block(self, outer: Sequence[str] = ()) -> str:
        join = self._pick(["", "", *JOINS])
        columns = (*OWN, "f.a", "f.b") if join else OWN
        x, y = self._pick(columns), self._pick(columns)
        where = f"{self._condition(2, columns, outer)}{self._pick(NESTED)}"
        rows = f"FROM {self._pick('rs')} AS e {join} WHERE {where}"
        return self._pick(
            [
                f"SELECT {x} AS a, {y} AS b {rows}",
                f"SELECT DISTINCT {x} AS a, {y} AS b {rows}",
                f"SELECT {x} AS a, COUNT(*) AS b {rows} GROUP BY {x}",
                f"SELECT {x} AS a, MAX({y}) AS b {rows} GROUP BY {x}",
                f"SELECT {x} AS a, {y} AS b {rows} {self._pick(SETS)} SELECT a, b FROM s",
            ]
        )

    def _condition(self, depth: int, columns: Sequence[str], outer: Sequence[str] = ()) -> str:
        every = (*columns, *outer)
        kind = self._pick(["compare", "null", "sure", "and", "or", "or", "not"][: 7 if depth else 3])
        match kind:
            case "compare":
                against = self._pick([*every, "1", "2"])
                return f"{self._pick(columns)} {self._pick(['=', '<', '>', '<>', '<=>'])} {against}"
            case "null":
                return f"{self._pick(every)} IS NULL"
            case "sure":
                return f"{self._pick(columns)} IS NOT NULL"
            case "not":
                return f"NOT ({self._condition(depth - 1, columns, outer)})"
        parts = (self._condition(depth - 1, columns, outer) for _ in range(2))
        return f"({f' {kind.upper()} '.join(parts)})"


def _check(engine: Engine, seed: int) -> None:
    rng = Random(seed)
    case = Case(TABLES, Writer(rng).query(), random_changes(rng.choice, TABLES))
    replay(connect(engine), case.ddl, {"fuzzed": case.sql}, case.batches(rng.choice([1, 3, 8])))


@engines
@pytest.mark.parametrize("seed", range(QUICK))
def test_conditions_that_keep_null_out(engine: Engine, seed: int) -> None:
    _check(engine, seed)


@pytest.mark.slow
@pytest.mark.parametrize("hundred", range(2, 13))  # DuckDB cannot plan number 171
def test_a_hundred_such_queries(hundred: int) -> None:
    every = [*ENGINES[1:], *MORE_ENGINES]
    for seed in range(100 * hundred, 100 * hundred + 100):
        _check(every[hundred % len(every)], seed)


ACROSS_TYPES = (
    "d <=> 1.00", "d <=> 1", "k <=> 1.00", "d <=> y", "y <=> k", "x <=> k", "x <=> 2.50", "f <=> x",
    "z <=> k", "NOT d <=> y", "d <=> NULL", "d <=> y AND y <=> k",
    "CASE WHEN k > 1 THEN d <=> y ELSE y <=> x END",
)  # fmt: skip


@pytest.mark.parametrize("engine", [ENGINES[1], ("native", "higher_order")])
def test_the_same_number_in_another_type(engine: Engine) -> None:
    """Views of rows that are there already, and of rows that come: 1, 1.00 and 1.000 are the same."""
    ddl = (
        "CREATE TABLE r (k BIGINT, d DECIMAL(9,3), y DECIMAL(9,2), z DECIMAL(18,0), x DOUBLE, f FLOAT);"
        "CREATE TABLE s (d DECIMAL(5,1), n BIGINT)"
    )
    views = {f"v{place}": f"SELECT * FROM r WHERE {text}" for place, text in enumerate(ACROSS_TYPES)}
    views["joined"] = "SELECT k, n FROM r JOIN s ON r.d <=> s.d"
    views["nested"] = "SELECT k, (SELECT sum(n) FROM s WHERE s.d <=> r.k) AS m FROM r"
    numbers = [None, 1, 2, 2.5]
    rng = Random(4)
    columns = [pa.int64(), *(pa.decimal128(*digits) for digits in ((9, 3), (9, 2), (18, 0)))]
    columns += [pa.float64(), pa.float32()]
    whole = [{pa.int64(), pa.decimal128(18, 0)} & {kind} for kind in columns]
    rows = [
        pa.array([rng.choice(numbers[:3] if only else numbers) for _ in range(40)], pa.float64()).cast(kind)
        for kind, only in zip(columns, whole, strict=True)
    ]
    batches = [
        {
            "r": pa.table(
                [*(row[start : start + 8] for row in rows), pa.array([1] * 8)], [*"kdyzxf", "_weight"]
            )
        }
        for start in range(0, 40, 8)
    ]
    s = [
        pa.array([None, 1, 2, 2.5, 1]).cast(pa.decimal128(5, 1)),
        pa.array([1, 2, 3, 4, 5]),
        pa.array([1] * 5),
    ]
    batches[0]["s"] = pa.table(s, ["d", "n", "_weight"])
    batches.append(opposite(batches[1]))
    replay(connect(engine), ddl, views, batches[1:], before=batches[:1])
