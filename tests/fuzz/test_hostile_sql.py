"""Hostile SQL: it works or is refused with an error of ours, also if it is deep, wide or long."""

from __future__ import annotations

import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import viewlet
from fuzz import hostile_sql
from viewlet.core.functions import compile_scalar
from viewlet.core.scalar import Var, call
from viewlet.core.types import BOOLEAN
from viewlet.errors import ViewletError

SCRIPT = Path(__file__).with_name("run.py")
DEEP = 10_000
NESTED = {
    "sum": " + ".join(["a"] * DEEP),
    "parentheses": "(" * DEEP + "a" + ")" * DEEP,
    "signs": "- " * DEEP + "a",
    "negations": "NOT " * DEEP + "a",
    "cases": "CASE WHEN a = 1 THEN 1 ELSE " * DEEP + "a" + " END" * DEEP,
    "concatenations": " || ".join(["'a'"] * DEEP),
    "casts": "CAST(" * DEEP + "a" + " AS BIGINT)" * DEEP,
    "double colons": "a" + "::BIGINT" * DEEP,
    "tests": "a" + " IS NULL" * DEEP,
    "brackets": "[" * DEEP + "]" * DEEP,
    "dots": ".".join(["a"] * DEEP),
    "intervals": "INTERVAL " * DEEP + "1",
    "calls": "least(1, " * DEEP + "a" + ")" * DEEP,
}
LONG = {
    "unions": " UNION ALL ".join(["SELECT a FROM r"] * DEEP),
    "derived tables": "SELECT a FROM " + "(SELECT a FROM " * DEEP + "r" + ") t" * DEEP,
    "joins": "SELECT r0.a FROM r r0" + "".join(f" JOIN r r{i} ON r{i}.a = r0.a" for i in range(1, 1_500)),
}


@pytest.mark.parametrize("count", [30, pytest.param(4_000, marks=pytest.mark.slow)])
def test_text_out_of_arbitrary_bytes(count: int) -> None:
    found = Counter(hostile_sql.attempt(data) for data in hostile_sql.random_inputs(5, count))
    assert found["refused"] > count // 10
    assert found["worked"] > 0


@pytest.mark.slow
def test_text_that_coverage_leads_to(tmp_path: Path) -> None:
    pytest.importorskip("atheris")
    command = [
        sys.executable,
        str(SCRIPT),
        "hostile_sql",
        "-max_total_time=60",
        "-max_len=60",
        "-timeout=60",
        str(tmp_path),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=400, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.parametrize("nested", [*NESTED, *(pytest.param(name, marks=pytest.mark.slow) for name in LONG)])
def test_ten_thousand_levels_are_refused(nested: str) -> None:
    query = LONG.get(nested) or f"SELECT {NESTED[nested]} AS x FROM r"
    with viewlet.connect(backend="reference") as db:
        db.execute("CREATE TABLE r (a BIGINT)")
        with pytest.raises(ViewletError):
            db.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
        if nested in ("dots", "double colons"):
            with pytest.raises(ViewletError):
                db.sql(query)
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT sum(a) AS a FROM r")
        db.insert("r", [(1,)])
        assert db.view("v").value == 1


@pytest.mark.parametrize("length", [2, 64, 65, 5_000])
def test_long_chains_of_conditions(length: int) -> None:
    """AND and OR of any length, over values that decide them early, late or never."""
    rng = random.Random(length)
    names = [f"p{i}" for i in range(length)]
    slots = {name: i for i, name in enumerate(names)}
    for op, decides in (("or", True), ("and", False)):
        chain = compile_scalar(call(op, *(Var(name, BOOLEAN) for name in names)), slots)
        for values in ([decides], [not decides], [None, not decides], [decides, None, not decides]):
            row = [rng.choice(values) for _ in names]
            row[rng.randrange(length)] = rng.choice(values)
            expected = decides if decides in row else None if None in row else not decides
            assert chain(row) is expected


@pytest.mark.slow
def test_ten_thousand_alternatives() -> None:
    with viewlet.connect() as db:
        db.execute("CREATE TABLE r (a BIGINT)")
        alternatives = " OR ".join(f"a = {3 * i}" for i in range(DEEP))
        db.execute(f"CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n FROM r WHERE {alternatives}")
        db.insert("r", [(a,) for a in (0, 1, 3, 3, None, 3 * DEEP - 3, 3 * DEEP)])
        assert db.view("v").value == 4
