"""Every scalar function against an independent meaning: Python's decimal and datetime, or DuckDB."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable
from datetime import date, datetime, timedelta
from decimal import ROUND_CEILING, ROUND_DOWN, ROUND_FLOOR, ROUND_HALF_UP, Context, Decimal
from typing import Any

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from viewlet.core import calendar
from viewlet.core.casts import as_decimal, half_up, show
from viewlet.core.functions import compile_scalar, evaluate
from viewlet.core.library import FUNCTIONS
from viewlet.core.scalar import FALSE, NON_STRICT, TRUE, Call, Const, Scalar, Var, call
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
from viewlet.errors import CalculusError, CompileError, ValueRangeError

WIDE = Context(prec=120)
EXACT_TYPES = (TINYINT, SMALLINT, INT, BIGINT, decimal(5, 2), decimal(9, 0), decimal(18, 6), decimal(38, 10))
NULL_BOOLEAN = Const(None, BOOLEAN)


def apply(op: str, *operands: tuple[Any, Type], type: Type) -> Any:
    """Evaluate on variables, so that nothing is folded beforehand."""
    names = [f"v{i}" for i in range(len(operands))]
    args = tuple(Var(name, kind) for name, (_, kind) in zip(names, operands, strict=True))
    return evaluate(Call(op, args, type), dict(zip(names, (value for value, _ in operands), strict=True)))


@st.composite
def exact_operands(draw: Any) -> tuple[int, Type]:
    kind = draw(st.sampled_from(EXACT_TYPES))
    low, high = bounds(kind) or (0, 0)
    near_zero = st.integers(max(low, -1000), min(high, 1000))
    return draw(near_zero | st.integers(low, high) | st.sampled_from([low, high])), kind


def expect(compute: Callable[[], Decimal], kind: Type) -> int | None:
    """The unscaled result that Python's decimal gives, ``None`` where it leaves the type."""
    scaled = int(compute().scaleb(kind.scale, WIDE).to_integral_value(ROUND_HALF_UP))
    low, high = bounds(kind) or (0, 0)
    return scaled if low <= scaled <= high else None


@given(exact_operands(), exact_operands(), st.sampled_from("+-*/"), st.sampled_from(EXACT_TYPES))
def test_exact_arithmetic_is_decimal_arithmetic(
    left: tuple[int, Type], right: tuple[int, Type], op: str, kind: Type
) -> None:
    a, b = as_decimal(left[0], left[1].scale), as_decimal(right[0], right[1].scale)
    if op == "/" and b == 0:
        with pytest.raises(ValueRangeError, match="division by zero"):
            apply(op, left, right, type=kind)
        return
    compute = {"+": WIDE.add, "-": WIDE.subtract, "*": WIDE.multiply, "/": WIDE.divide}[op]
    expected = expect(lambda: compute(a, b), kind)
    if expected is None:
        with pytest.raises(ValueRangeError, match="out of range"):
            apply(op, left, right, type=kind)
    else:
        assert apply(op, left, right, type=kind) == expected


@given(exact_operands(), exact_operands(), st.sampled_from(["=", "<>", "<", "<=", ">", ">=", "=="]))
def test_exact_comparison_is_by_value(left: tuple[int, Type], right: tuple[int, Type], op: str) -> None:
    a, b = as_decimal(left[0], left[1].scale), as_decimal(right[0], right[1].scale)
    expected = {"=": a == b, "==": a == b, "<>": a != b, "<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}[
        op
    ]
    assert apply(op, left, right, type=BOOLEAN) is expected


@given(exact_operands(), exact_operands())
def test_remainder_has_the_dividends_sign(left: tuple[int, Type], right: tuple[int, Type]) -> None:
    a, b = as_decimal(left[0], left[1].scale), as_decimal(right[0], right[1].scale)
    if b == 0:
        for op in ("%", "div"):
            with pytest.raises(ValueRangeError, match="division by zero"):
                apply(op, left, right, type=decimal(38, 10))
        return
    whole = WIDE.divide_int(a, b)
    assert apply("%", left, right, type=decimal(38, 10)) == expect(
        lambda: WIDE.remainder(a, b), decimal(38, 10)
    )
    if abs(whole) < 2**63:
        assert apply("div", left, right, type=BIGINT) == int(whole)


@given(exact_operands(), st.integers(-12, 12))
def test_rounding_functions(operand: tuple[int, Type], digits: int) -> None:
    value, kind = operand
    a, result = as_decimal(value, kind.scale), decimal(38, kind.scale)
    for op, mode in (("floor", ROUND_FLOOR), ("ceil", ROUND_CEILING)):
        assert apply(op, operand, type=decimal(38, 0)) == int(a.to_integral_value(mode))
    rounded = a.quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP, WIDE) if digits <= kind.scale else a
    expected = expect(lambda: rounded, result)
    if expected is not None:
        assert apply("round", operand, (digits, INT), type=result) == expected
    assert apply("neg", operand, type=decimal(38, kind.scale)) == -value
    assert apply("abs", operand, type=decimal(38, kind.scale)) == abs(value)
    assert apply("sign", operand, type=INT) == (a > 0) - (a < 0)


@given(exact_operands(), st.sampled_from((*EXACT_TYPES, DOUBLE, VARCHAR)))
def test_casts_of_exact_numbers(operand: tuple[int, Type], target: Type) -> None:
    value, source = operand
    a = as_decimal(value, source.scale)
    if target is DOUBLE:
        assert apply("cast", operand, type=DOUBLE) == float(a)
        return
    if target is VARCHAR:
        text = apply("cast", operand, type=VARCHAR)
        assert Decimal(text) == a
        assert apply("cast", (text, VARCHAR), type=source) == value
        return
    expected = expect(lambda: a.to_integral_value(ROUND_DOWN) if target.is_integer else a, target)
    if expected is None:
        with pytest.raises(ValueRangeError, match="out of range"):
            apply("cast", operand, type=target)
    else:
        assert apply("cast", operand, type=target) == expected


FINITE = st.floats(allow_nan=False, allow_infinity=False)


@given(FINITE, FINITE, st.sampled_from("+-*/"))
def test_doubles_are_ieee_and_never_infinite(a: float, b: float, op: str) -> None:
    try:
        expected = {"+": a + b, "-": a - b, "*": a * b, "/": a / b if b else math.inf}[op]
    except OverflowError:
        expected = math.inf
    if math.isfinite(expected):
        assert apply(op, (a, DOUBLE), (b, DOUBLE), type=DOUBLE) == expected
    else:
        with pytest.raises(ValueRangeError):
            apply(op, (a, DOUBLE), (b, DOUBLE), type=DOUBLE)


@given(FINITE)
def test_doubles_print_so_that_they_read_back(value: float) -> None:
    text = show(value, DOUBLE)
    assert float(text) == value
    assert ("E" in text) == (value != 0 and not 1e-3 <= abs(value) < 1e7)
    assert apply("cast", (text, VARCHAR), type=DOUBLE) == value


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_floats_print_short_and_read_back(value: float) -> None:
    text = show(value, FLOAT)
    assert apply("cast", (text, VARCHAR), type=FLOAT) == value
    assert len(text.lstrip("-").split("E")[0]) <= 14


@given(exact_operands(), st.integers(1, 10**6), st.sampled_from((decimal(38, 6), DOUBLE)))
def test_average_is_one_rounding_of_the_exact_quotient(total: tuple[int, Type], n: int, kind: Type) -> None:
    exact = WIDE.divide(as_decimal(total[0], total[1].scale), Decimal(n))
    result = apply("avg", total, (n, BIGINT), type=kind)
    assert result == (float(exact) if kind is DOUBLE else expect(lambda: exact, kind))
    assert apply("avg", (None, total[1]), (0, BIGINT), type=kind) is None


@given(st.integers(), st.integers().filter(bool))
def test_half_up(numerator: int, denominator: int) -> None:
    exact = Context(prec=200).divide(Decimal(numerator), Decimal(denominator))
    assert half_up(numerator, denominator) == int(exact.to_integral_value(ROUND_HALF_UP))


@pytest.mark.parametrize("op", ["and", "or"])
def test_three_valued_logic_is_duckdbs(op: str) -> None:
    values = [True, False, None]
    for arity in (1, 2, 3):
        for row in itertools.product(values, repeat=arity):
            literals = [f"{'NULL' if v is None else v}::BOOLEAN" for v in row]
            (expected,) = duckdb.execute(f"SELECT {f' {op} '.join(literals)}").fetchone() or ()
            assert apply(op, *((v, BOOLEAN) for v in row), type=BOOLEAN) is expected, (op, row)


@given(st.lists(st.none() | st.integers(0, 3), min_size=1, max_size=4), st.none() | st.integers(0, 3))
def test_in_is_the_disjunction_of_equalities(choices: list[int | None], x: int | None) -> None:
    literals = tuple(Const(choice, BIGINT) for choice in choices)
    subject = Var("x", INT)
    disjunction = Call("or", tuple(Call("=", (subject, c), BOOLEAN) for c in literals), BOOLEAN)
    expected = evaluate(disjunction, {"x": x})
    assert evaluate(Call("in", (subject, *literals), BOOLEAN), {"x": x}) is expected
    variables = tuple(Var(f"c{i}") for i in range(len(choices)))
    env = {"x": x, **{f"c{i}": choice for i, choice in enumerate(choices)}}
    assert evaluate(Call("in", (subject, *variables), BOOLEAN), env) is expected


def test_in_aligns_scales() -> None:
    membership = Call("in", (Var("x", decimal(5, 2)), Const(1, INT), Const(25, decimal(2, 1))), BOOLEAN)
    assert [evaluate(membership, {"x": x}) for x in (100, 250, 25, 1)] == [True, True, False, False]


TEXT = st.text(alphabet="ab%_\\é😀", max_size=6)


@given(st.lists(st.tuples(TEXT, st.text(alphabet="ab%_é😀", max_size=5)), min_size=1, max_size=20))
def test_like_is_duckdbs(cases: list[tuple[str, str]]) -> None:
    for text, pattern in cases:
        expected = duckdb.execute("SELECT ? LIKE ?", [text, pattern]).fetchone()
        assert (apply("like", (text, VARCHAR), (pattern, VARCHAR), type=BOOLEAN),) == expected
        escaped = "".join(f"!{c}" if c in "%_!" else c for c in text)
        assert apply("like", (text, VARCHAR), (escaped, VARCHAR), ("!", VARCHAR), type=BOOLEAN)


def test_like_escape_is_a_backslash_unless_given_and_must_escape_something() -> None:
    assert apply("like", ("a%", VARCHAR), ("a\\%", VARCHAR), type=BOOLEAN)
    assert not apply("like", ("ab", VARCHAR), ("a\\%", VARCHAR), type=BOOLEAN)
    for pattern in ("a\\", "\\a"):
        with pytest.raises(ValueRangeError, match="escape"):
            apply("like", ("a", VARCHAR), (pattern, VARCHAR), type=BOOLEAN)


@given(
    st.text(alphabet="a/é😀", max_size=9), st.text(alphabet="/a", min_size=1, max_size=2), st.integers(1, 5)
)
def test_parts_of_a_text_are_duckdbs(s: str, delimiter: str, n: int) -> None:
    for number in (n, -n):
        expected = duckdb.execute("SELECT split_part(?, ?, ?)", [s, delimiter, number]).fetchone()
        assert (
            apply("split_part", (s, VARCHAR), (delimiter, VARCHAR), (number, INT), type=VARCHAR),
        ) == expected


def test_a_text_has_no_part_before_the_first_and_an_empty_delimiter_cuts_nothing() -> None:
    with pytest.raises(ValueRangeError, match="counted from 1"):
        apply("split_part", ("a/b", VARCHAR), ("/", VARCHAR), (0, INT), type=VARCHAR)
    parts = [apply("split_part", ("ab", VARCHAR), ("", VARCHAR), (n, INT), type=VARCHAR) for n in (1, -1, 2)]
    assert parts == ["ab", "ab", ""]


STRING_FUNCTIONS = {
    "upper": "upper(s)",
    "lower": "lower(s)",
    "trim": "trim(s, ' ')",
    "ltrim": "ltrim(s, ' ')",
    "rtrim": "rtrim(s, ' ')",
    "length": "length(s)",
    "reverse": "reverse(s)",
}


@given(st.text(alphabet="aB c😀é", max_size=8), st.text(alphabet="aB ", max_size=2), st.integers(0, 9))
def test_string_functions_are_duckdbs(s: str, t: str, n: int) -> None:
    for op, sql in STRING_FUNCTIONS.items():
        expected = duckdb.execute(f"SELECT {sql} FROM (SELECT ? AS s)", [s]).fetchone()
        assert (apply(op, (s, VARCHAR), type=INT if op == "length" else VARCHAR),) == expected, op
    assert apply("starts_with", (s, VARCHAR), (t, VARCHAR), type=BOOLEAN) == s.startswith(t)
    assert apply("ends_with", (s, VARCHAR), (t, VARCHAR), type=BOOLEAN) == s.endswith(t)
    assert apply("contains", (s, VARCHAR), (t, VARCHAR), type=BOOLEAN) == (t in s)
    columns = "position(t IN s), replace(s, t, 'zz'), left(s, n), right(s, n), "
    columns += "substring(s, n + 1, 2), s || t, repeat(s, n)"
    sql = f"SELECT {columns} FROM (SELECT ? AS s, ? AS t, ?::BIGINT AS n)"
    expected = duckdb.execute(sql, [s, t, n]).fetchone()
    text, other, count = (s, VARCHAR), (t, VARCHAR), (n, INT)
    assert expected == (
        apply("position", other, text, type=INT),
        apply("replace", text, other, ("zz", VARCHAR), type=VARCHAR),
        apply("left", text, count, type=VARCHAR),
        apply("right", text, count, type=VARCHAR),
        apply("substring", text, (n + 1, INT), (2, INT), type=VARCHAR),
        apply("concat", text, other, type=VARCHAR),
        apply("repeat", text, count, type=VARCHAR),
    )
    for op in ("lpad", "rpad"):
        expected = duckdb.execute(f"SELECT {op}(?, ?, 'xy')", [s, n]).fetchone()
        assert (apply(op, text, count, ("xy", VARCHAR), type=VARCHAR),) == expected


def test_substring_counts_from_one_and_from_the_end_as_spark_does() -> None:
    cases = {(0, 2): "ab", (1, 2): "ab", (-2, 2): "de", (-7, 3): "a", (9, 1): "", (2, 0): "", (3, -1): ""}
    for (start, length), expected in cases.items():
        assert apply("substring", ("abcde", VARCHAR), (start, INT), (length, INT), type=VARCHAR) == expected


DAYS = st.integers(calendar.days_of(date(1600, 1, 1)), calendar.days_of(date(2400, 12, 31)))
DATE_PARTS = {
    "year": "year",
    "quarter": "quarter",
    "month": "month",
    "week": "week",
    "day": "day",
    "dayofyear": "dayofyear",
    "dayofweek": "dow",
}


@given(DAYS, st.integers(-500, 500), st.integers(0, calendar.MICROS_PER_DAY - 1))
def test_dates_are_duckdbs(days: int, n: int, clock: int) -> None:
    day = calendar.date_of(days)
    moment = datetime(day.year, day.month, day.day) + timedelta(microseconds=clock)
    micros = days * calendar.MICROS_PER_DAY + clock
    assert calendar.micros_of(moment) == micros
    assert calendar.datetime_of(micros) == moment
    for op, part in DATE_PARTS.items():
        (expected,) = duckdb.execute(f"SELECT extract({part} FROM ?::DATE)", [day]).fetchone() or ()
        expected += op == "dayofweek"
        assert apply(op, (days, DATE), type=INT) == apply(op, (micros, TIMESTAMP), type=INT) == expected, op
    assert apply("weekday", (days, DATE), type=INT) == day.weekday()
    assert apply("hour", (micros, TIMESTAMP), type=INT) == moment.hour
    assert apply("minute", (micros, TIMESTAMP), type=INT) == moment.minute
    assert apply("second", (micros, TIMESTAMP), type=INT) == moment.second
    assert (
        apply("second", (micros, TIMESTAMP), type=decimal(8, 6)) == moment.second * 10**6 + moment.microsecond
    )
    sql = "SELECT (d + to_months(n::INT))::DATE, last_day(d), d + n::INT FROM (SELECT ?::DATE AS d, ? AS n)"
    months, last, later = duckdb.execute(sql, [day, n]).fetchone() or ()
    assert apply("add_months", (days, DATE), (n, INT), type=DATE) == calendar.days_of(months)
    moved = datetime(months.year, months.month, months.day) + timedelta(microseconds=clock)
    assert apply("add_months", (micros, TIMESTAMP), (n, INT), type=TIMESTAMP) == calendar.micros_of(moved)
    assert apply("last_day", (days, DATE), type=DATE) == calendar.days_of(last)
    assert apply("add_days", (days, DATE), (n, INT), type=DATE) == calendar.days_of(later)
    assert apply("days_between", (days + n, DATE), (days, DATE), type=INT) == n
    assert apply("add_micros", (micros, TIMESTAMP), (n, BIGINT), type=TIMESTAMP) == micros + n
    (since_1970,) = duckdb.execute("SELECT epoch_us(?::TIMESTAMP)", [moment]).fetchone() or ()
    assert apply("unix_micros", (micros, TIMESTAMP), type=BIGINT) == since_1970
    assert apply("unix_millis", (micros, TIMESTAMP), type=BIGINT) == since_1970 // 1_000


@given(DAYS, st.integers(0, calendar.MICROS_PER_DAY - 1))
def test_date_trunc_is_duckdbs(days: int, clock: int) -> None:
    micros = days * calendar.MICROS_PER_DAY + clock
    for unit in ("year", "quarter", "month", "week", "day", "hour", "minute", "second"):
        sql = f"SELECT date_trunc('{unit}', ?::TIMESTAMP)"
        (expected,) = duckdb.execute(sql, [calendar.datetime_of(micros)]).fetchone() or ()
        truncated = apply("date_trunc", (unit, VARCHAR), (micros, TIMESTAMP), type=TIMESTAMP)
        assert calendar.datetime_of(truncated) == expected


@given(DAYS, st.integers(0, calendar.MICROS_PER_DAY - 1))
def test_date_and_timestamp_text_reads_back(days: int, clock: int) -> None:
    micros = days * calendar.MICROS_PER_DAY + clock
    for value, kind in ((days, DATE), (micros, TIMESTAMP)):
        text = apply("cast", (value, kind), type=VARCHAR)
        assert (text,) == duckdb.execute("SELECT ?::VARCHAR", [python(value, kind)]).fetchone()
        assert apply("cast", (text, VARCHAR), type=kind) == value
    assert apply("cast", (micros, TIMESTAMP), type=DATE) == days
    assert apply("cast", (days, DATE), type=TIMESTAMP) == micros - clock
    assert apply("=", (days, DATE), (micros, TIMESTAMP), type=BOOLEAN) is (clock == 0)


def python(value: int, kind: Type) -> date:
    return calendar.date_of(value) if kind is DATE else calendar.datetime_of(value)


def test_dates_end_with_year_9999() -> None:
    last = calendar.days_of(date(9999, 12, 31))
    for op, operand in (("add_days", 1), ("add_months", 1)):
        with pytest.raises(ValueRangeError, match="9999"):
            apply(op, (last, DATE), (operand, INT), type=DATE)
    with pytest.raises(ValueRangeError, match="9999"):
        apply(
            "add_micros", ((last + 1) * calendar.MICROS_PER_DAY - 1, TIMESTAMP), (1, BIGINT), type=TIMESTAMP
        )


BAD_CASTS = [
    ("abc", INT),
    ("", INT),
    ("1.5", INT),
    ("2147483648", INT),
    ("1_000", BIGINT),
    ("٣", INT),
    ("9" * 5000, BIGINT),
    ("1e400", DOUBLE),
    ("nan", DOUBLE),
    ("inf", DOUBLE),
    ("1e39", FLOAT),
    ("1000", decimal(5, 2)),
    ("2024-02-30", DATE),
    ("24-01-01", DATE),
    ("2024-01-01 25:00:00", TIMESTAMP),
    ("2024-01-01 10:00:00+02", TIMESTAMP),
    ("maybe", BOOLEAN),
]


@pytest.mark.parametrize(("text", "kind"), BAD_CASTS)
def test_bad_casts_name_the_text(text: str, kind: Type) -> None:
    with pytest.raises(ValueRangeError) as caught:
        apply("cast", (text, VARCHAR), type=kind)
    assert (
        text[:20] in str(caught.value) or "out of range" in str(caught.value) or "finite" in str(caught.value)
    )


def test_casts_to_boolean_and_from_it() -> None:
    for text in ("true", " T ", "yes", "1"):
        assert apply("cast", (text, VARCHAR), type=BOOLEAN) is True
    for text in ("false", "F", "no", "0"):
        assert apply("cast", (text, VARCHAR), type=BOOLEAN) is False
    assert apply("cast", (True, BOOLEAN), type=decimal(4, 2)) == 100
    assert apply("cast", (False, BOOLEAN), type=VARCHAR) == "false"
    assert apply("cast", (-5, decimal(4, 2)), type=BOOLEAN) is True


def test_casts_without_meaning_are_refused_when_compiled() -> None:
    for source, target in ((DATE, INT), (BOOLEAN, DATE), (DOUBLE, TIMESTAMP)):
        with pytest.raises(CompileError, match=f"CAST\\({source} AS {target}\\)"):
            apply("cast", (1, source), type=target)


def test_overflow_names_operator_operands_and_type() -> None:
    with pytest.raises(ValueRangeError, match=r"9223372036854775807 \+ 1 is out of range for BIGINT"):
        apply("+", (2**63 - 1, BIGINT), (1, INT), type=BIGINT)
    with pytest.raises(ValueRangeError, match=r"9\.99 \* 9\.99 is out of range for DECIMAL\(3,2\)"):
        apply("*", (999, decimal(3, 2)), (999, decimal(3, 2)), type=decimal(3, 2))
    with pytest.raises(ValueRangeError, match="neg"):
        apply("neg", (-(2**63), BIGINT), type=BIGINT)


def test_functions_of_doubles() -> None:
    rng = random.Random(7)
    for _ in range(200):
        x = rng.uniform(0.01, 50)
        assert apply("sqrt", (x, DOUBLE), type=DOUBLE) == math.sqrt(x)
        assert apply("exp", (x, DOUBLE), type=DOUBLE) == math.exp(x)
        assert apply("ln", (x, DOUBLE), type=DOUBLE) == math.log(x)
        assert apply("power", (x, DOUBLE), (1.5, DOUBLE), type=DOUBLE) == math.pow(x, 1.5)
        assert apply("round", (x, DOUBLE), (1, INT), type=DOUBLE) == float(
            Decimal(repr(x)).quantize(Decimal("0.1"), ROUND_HALF_UP)
        )
        assert apply("floor", (-x, DOUBLE), type=BIGINT) == math.floor(-x)
        assert apply("ceil", (-x, DOUBLE), type=BIGINT) == math.ceil(-x)
    assert apply("ln", (0.0, DOUBLE), type=DOUBLE) is None
    assert apply("round", (1.005, DOUBLE), (2, INT), type=DOUBLE) == 1.01
    for op, operands in {"sqrt": (-1.0,), "exp": (1000.0,), "power": (10.0, 400.0)}.items():
        with pytest.raises(ValueRangeError, match=op):
            apply(op, *((operand, DOUBLE) for operand in operands), type=DOUBLE)


def test_every_strict_function_gives_null_for_null() -> None:
    for op in FUNCTIONS.keys() - NON_STRICT - {"cast"}:
        x = Var("x", DATE if op in ("year", "add_days", "last_day") else BIGINT)
        single = op in ("neg", "abs", "sign", "floor", "ceil", "sqrt", "exp", "ln", "year", "month")
        arity = 1 if single else 3 if op == "interpolate" else 2
        assert evaluate(Call(op, (x,) * arity, BIGINT), {"x": None}) is None, op


def test_functions_that_look_at_null() -> None:
    nothing, one = (None, BIGINT), (1, BIGINT)
    assert apply("nz", nothing, type=BIGINT) == 0
    assert apply("nz", (None, DOUBLE), type=DOUBLE) == 0.0
    assert apply("nz", (7, BIGINT), type=BIGINT) == 7
    assert (apply("nn", nothing, type=BIGINT), apply("nn", one, type=BIGINT)) == (0, 1)
    assert apply("==", nothing, nothing, type=BOOLEAN) is True
    assert apply("==", nothing, one, type=BOOLEAN) is False
    assert apply("==", (100, decimal(5, 2)), (1, INT), type=BOOLEAN) is True
    assert apply("is_true", (None, BOOLEAN), type=BOOLEAN) is False
    assert apply("is_null", nothing, type=BOOLEAN) is True
    assert apply("coalesce", nothing, one, type=decimal(12, 2)) == 100
    assert apply("greatest", nothing, one, (3, INT), type=BIGINT) == 3
    assert apply("least", nothing, nothing, type=BIGINT) is None
    assert apply("only", (0, BIGINT), one, type=BIGINT) is None
    assert apply("only", (1, BIGINT), one, type=BIGINT) == 1
    with pytest.raises(ValueRangeError, match="more than one row returned by a subquery"):
        apply("only", (2, BIGINT), one, type=BIGINT)


def test_case_and_logic_are_lazy() -> None:
    x = Var("x", BIGINT)
    inverse = Call("/", (Const(1), x), DOUBLE)
    guarded = Call("case", (Call("=", (x, Const(0)), BOOLEAN), Const(0, INT), inverse), DOUBLE)
    run = compile_scalar(guarded, {"x": 0})
    assert [run((v,)) for v in (0, 4, None)] == [0.0, 0.25, None]
    safe = call("and", call("<>", x, Const(0)), call(">", inverse, Const(0.1, DOUBLE)))
    assert [compile_scalar(safe, {"x": 0})((v,)) for v in (0, 4)] == [False, True]


def test_case_without_else_is_null_and_takes_only_true() -> None:
    p = Var("p", BOOLEAN)
    chosen = Call("case", (p, Const(1), Const(None, NULL)), BIGINT)
    assert [evaluate(chosen, {"p": value}) for value in (True, False, None)] == [1, None, None]
    assert [evaluate(Call("case", (p, Const(1)), BIGINT), {"p": value}) for value in (True, None)] == [
        1,
        None,
    ]


def test_deep_expressions_compile_and_absurd_ones_are_refused() -> None:
    deep: Scalar = Var("x")
    for _ in range(150):
        deep = Call("+", (deep, Const(1)), BIGINT)
    assert evaluate(deep, {"x": 0}) == 150
    for _ in range(5000):
        deep = Call("+", (deep, Const(1)), BIGINT)
    with pytest.raises(CompileError, match="nested too deeply"):
        compile_scalar(deep, {"x": 0})


def test_unknown_names_are_refused() -> None:
    with pytest.raises(CompileError, match="frobnicate"):
        evaluate(Call("frobnicate", (TRUE,), BOOLEAN), {})
    with pytest.raises(CalculusError, match="'y' is not bound here; bound: x"):
        compile_scalar(Var("y"), {"x": 0})
    with pytest.raises(CompileError, match="do not compare"):
        apply("=", ("a", VARCHAR), (1, INT), type=BOOLEAN)


def test_constants_fold_to_constants() -> None:
    assert evaluate(call("or", FALSE, TRUE), {}) is True
    assert evaluate(call("concat", Const("it's \"", VARCHAR), Const("\n'''", VARCHAR)), {}) == "it's \"\n'''"
