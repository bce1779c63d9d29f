"""What is printed can be read back: scalars and plans."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sql.evaluation import catalog_of
from strategies import seeded_case
from viewlet.core.scalar import Call, Const, Scalar, Var
from viewlet.core.text import USUAL_TYPES, parse_scalar, show
from viewlet.core.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    NULL,
    SMALLINT,
    TIMESTAMP,
    TINYINT,
    VARCHAR,
    Type,
    bounds,
    decimal,
)
from viewlet.errors import CalculusError, PlanError
from viewlet.plan import text as plan_text
from viewlet.plan.from_sql import resolve
from viewlet.plan.pipeline import optimize
from viewlet.sql.parse import parse_query
from viewlet.sql.scalars import OPERATIONS
from viewlet.workloads import SUITES, queries, schema

TYPES = [
    BOOLEAN,
    TINYINT,
    SMALLINT,
    INT,
    BIGINT,
    decimal(2, 2),
    decimal(15, 2),
    decimal(38, 0),
    FLOAT,
    DOUBLE,
]
TYPES += [DATE, TIMESTAMP, VARCHAR]
VARIABLES = {var.name: var for var in (Var(f"v{i}", kind) for i, kind in enumerate(TYPES))}
VARIABLES |= {
    var.name: var for var in (Var("@key"), Var("limit"), Var("price_2", DOUBLE), Var("in", BOOLEAN))
}
NUMBERS = [kind for kind in TYPES if kind.is_numeric]


@st.composite
def constants(draw: st.DrawFn) -> Scalar:
    kind: Type = draw(st.sampled_from([*TYPES, NULL]))
    if kind == NULL or draw(st.integers(0, 5)) == 0:
        return Const(None, kind)
    limits = bounds(kind)
    if limits is not None:
        return Const(draw(st.integers(*limits)), kind)
    if kind.is_floating:
        return Const(draw(st.floats(allow_nan=False, allow_infinity=False)), kind)
    if kind == BOOLEAN:
        return Const(draw(st.booleans()), kind)
    if kind == VARCHAR:
        return Const(draw(st.text(max_size=8)), kind)
    days = draw(st.integers(-100_000, 100_000))
    return Const(days if kind == DATE else days * 86_400_000_000 + draw(st.integers(0, 10**10)), kind)


def calls(parts: st.SearchStrategy[Scalar]) -> st.SearchStrategy[Scalar]:
    binary = st.sampled_from(["+", "-", "*", "/", "%", "=", "<>", "<", "<=", ">", ">=", "=="])
    named = st.sampled_from(sorted(set(OPERATIONS) - set("+-*/%") - {"=", "<>", "<", "<=", ">", ">=", "=="}))
    kinds = st.sampled_from(TYPES)
    several = st.lists(parts, min_size=2, max_size=4).map(tuple)
    boolean = st.just(BOOLEAN)
    return st.one_of(
        st.builds(lambda op, a, b, kind: Call(op, (a, b), kind), binary, parts, parts, kinds),
        st.builds(lambda op, args: Call(op, args, BOOLEAN), st.sampled_from(["and", "or"]), several),
        st.builds(lambda arg, kind: Call("not", (arg,), kind), parts, boolean),
        st.builds(lambda arg, kind: Call("cast", (arg,), kind), parts, kinds),
        st.builds(Call, named.filter(lambda op: op not in ("and", "or", "not", "cast")), several, kinds),
    )


scalars = st.recursive(
    st.one_of(st.sampled_from(list(VARIABLES.values())), constants()), calls, max_leaves=12
)


@settings(max_examples=200, deadline=None)
@given(scalar=scalars)
def test_scalars_read_back(scalar: Scalar) -> None:
    text = show(scalar)
    again = parse_scalar(text, VARIABLES)
    assert again == scalar, text
    assert show(again) == text


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("v4 - 1 - 1", "(v4 - 1) - 1"),
        ("v4 + 2 * 3", "v4 + (2 * 3)"),
        ("v0 or v0 and not v0", "v0 or (v0 and (not v0))"),
        ("not v4 = 1", "not (v4 = 1)"),
        ("v4 -1", "v4 - 1"),
    ],
)
def test_precedence(text: str, same: str) -> None:
    assert parse_scalar(text, VARIABLES) == parse_scalar(same, VARIABLES)


def test_parentheses_only_where_they_matter() -> None:
    text = "(v4 - (1 - v4)) * 2 >= v4 % 3 and (v0 or not v0)"
    assert show(parse_scalar(text, VARIABLES)) == text


@pytest.mark.parametrize(
    "text", ["v4 +", "nope", "(v4", "v4 v4", "1:WORD", "0.55:DECIMAL(3,1)", "'open", "# 1"]
)
def test_unreadable_scalars_are_refused(text: str) -> None:
    with pytest.raises(CalculusError, match=r"at character"):
        parse_scalar(text, VARIABLES)


def test_usual_types_belong_to_known_operations() -> None:
    assert set(USUAL_TYPES) - {"nn"} <= set(OPERATIONS)


@pytest.mark.parametrize("suite", SUITES)
def test_plans_of_the_workloads_read_back(suite: str) -> None:
    catalog = catalog_of(schema(suite))
    for sql in queries(suite).values():
        query = resolve(parse_query(sql), catalog)
        for form in (query, optimize(query)):
            text = plan_text.show(form)
            assert plan_text.parse_query(text) == form
            assert plan_text.show(plan_text.parse_query(text)) == text


@pytest.mark.parametrize("start", range(0, 60, 20))
def test_random_plans_read_back(start: int) -> None:
    for seed in range(start, start + 20):
        case = seeded_case(seed)
        query = resolve(parse_query(case.sql), catalog_of(case.ddl))
        for form in (query, optimize(query)):
            text = plan_text.show(form)
            assert plan_text.parse_query(text) == form, text
            assert plan_text.show(plan_text.parse_query(text)) == text


@pytest.mark.parametrize(
    "text",
    [
        "query a\n  scan r(a:BIGINT)\n  scan s(b:BIGINT)",
        "scan r(a:BIGINT)\nunit",
        "shuffle\n  unit",
        "filter TRUE",
    ],
)
def test_unreadable_plans_are_refused(text: str) -> None:
    with pytest.raises((PlanError, CalculusError)):
        plan_text.parse_query(text) if text.startswith("query") else plan_text.parse_plan(text)
