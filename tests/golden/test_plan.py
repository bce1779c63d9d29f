"""What each plan pass makes of a plan, and how queries become plans."""

from __future__ import annotations

import pytest

from golden_cases import GOLDEN, Case, cases, check
from sql.evaluation import catalog_of
from viewlet.core.rewrite import name_of
from viewlet.plan.from_sql import resolve
from viewlet.plan.pipeline import PASSES
from viewlet.plan.text import parse_query, show
from viewlet.sql import parse

TABLES = """
CREATE TABLE r (a BIGINT, b BIGINT);
CREATE TABLE s (a BIGINT NOT NULL, c DECIMAL(6,2), e DATE);
"""
BY_NAME = {name_of(change): change for change in PASSES}


@pytest.mark.parametrize("case", [case for name in BY_NAME for case in cases(f"plan/{name}")])
def test_pass(case: Case, update: bool) -> None:
    change = BY_NAME[case.path.stem]
    check(case, lambda text: show(change(parse_query(text))), update)


@pytest.mark.parametrize("case", cases("plan/from_sql"))
def test_from_sql(case: Case, update: bool) -> None:
    catalog = catalog_of(TABLES)
    check(case, lambda text: show(resolve(parse.parse_query(text), catalog)), update)


def test_every_golden_file_is_of_a_pass() -> None:
    found = {path.stem for path in (GOLDEN / "plan").glob("*.txt")}
    assert found == {*BY_NAME, "from_sql"}
