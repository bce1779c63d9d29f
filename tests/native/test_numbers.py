"""Integers, decimals, dates and compensated sums against Python's exact arithmetic and datetime."""

from __future__ import annotations

import calendar
import datetime
import math
import random
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_UP, Context, Decimal
from fractions import Fraction

import numpy as np
import pytest

from native.conftest import halves, signed, word

pytestmark = pytest.mark.native

E_INTEGER, E_DECIMAL, E_DIVIDE, E_DATE = 1, 2, 4, 8
EXACT = Context(prec=200)
EPOCH = datetime.date(1970, 1, 1).toordinal()


def half_up(x: Fraction) -> int:
    """Round to the nearest integer, ties away from zero."""
    q = (abs(x) * 2 + 1) // 2
    return int(q) if x >= 0 else -int(q)


def random_wide(rng: random.Random) -> int:
    bits = rng.choice([1, 8, 31, 53, 63, 64, 65, 100, 126, 127])
    edge = [0, 1, -1, (1 << 127) - 1, -(1 << 127), 10**38, 10**38 - 1, -(10**38), 5, -5, 15]
    return rng.choice(edge) if rng.random() < 0.2 else rng.randrange(-(1 << bits), 1 << bits)


def truncated(x: int, y: int) -> int:
    q = abs(x) // abs(y)
    return q if (x < 0) == (y < 0) else -q


def wide_model(op: int, x: int, y: int, m: int, n: int) -> int | Fraction | str:
    """The exact answer of each 128-bit operation; a str names an error."""
    match op:
        case 0:
            return x + y
        case 1:
            return x - y
        case 2:
            return x * y
        case 3:
            return half_up(Fraction(x * y, 10**m))
        case 4:
            return "divide" if y == 0 else half_up(Fraction(x * 10**m, y))
        case 5:
            return "divide" if y == 0 else x - y * truncated(x, y)
        case 6:
            return half_up(Fraction(x) * Fraction(10) ** (n - m))
        case 7:
            return x if abs(x) < 10**m else "digits"
        case 8 | 9:
            mode = ROUND_FLOOR if op == 8 else ROUND_CEILING
            return int(Decimal(x).scaleb(-m, EXACT).to_integral_value(mode, EXACT))
        case 10:
            if n >= m:
                return x
            return int(Decimal(x).scaleb(-(m - n), EXACT).to_integral_value(ROUND_HALF_UP, EXACT)) * 10 ** (
                m - n
            )
    raise AssertionError(op)


def wide_case(rng: random.Random) -> tuple[int, int, int, int, int]:
    op = rng.randrange(11)
    m, n = rng.randrange(0, 39), rng.randrange(0, 39)
    if op == 4:
        m = rng.randrange(0, 77)
    if op == 10:
        n = rng.randrange(-20, 39)
    return op, random_wide(rng), random_wide(rng), m, n


def test_wide_integers_and_decimals_equal_exact_arithmetic(build_driver):
    rng = random.Random(1)
    cases = [wide_case(rng) for _ in range(6000)]
    for digits in range(1, 38):  # ties, in products that need 256 bits
        half = 5 * 10 ** (digits - 1)
        cases += [(3, 10**37 + 1, half, digits, 0), (3, 10**37 + 1, -half, digits, 0)]
    cases += [(4, x, 2 * 10**m, m, 0) for x in (10**30 + 1, -(10**30) - 1) for m in range(38)]
    words = [w for op, x, y, m, n in cases for w in (op, *halves(x), *halves(y), m, n)]
    answers = build_driver("numbers")(words)
    seen_errors = 0
    for i, (op, x, y, m, n) in enumerate(cases):
        high, low, errors = answers[3 * i : 3 * i + 3]
        got = signed(high << 64 | low & ((1 << 64) - 1), 128)
        expected = wide_model(op, x, y, m, n)
        what = (op, x, y, m, n)
        if expected == "divide":
            assert (got, errors) == (0, E_DIVIDE), what
        elif expected == "digits":
            assert (got, errors) == (x, E_DECIMAL), what
        elif -(1 << 127) < expected < 1 << 127 or (op < 3 and expected == -(1 << 127)):
            assert (got, errors) == (expected, 0), what
        elif expected == -(1 << 127):
            assert errors in (0, E_DECIMAL), what
        else:
            assert errors == E_DECIMAL, what
            seen_errors += 1
            if op < 3:
                assert got == signed(expected, 128), what
    assert seen_errors > 100


NARROW = {
    20: lambda x, y: x + y,
    21: lambda x, y: x - y,
    22: lambda x, y: x * y,
    23: truncated,
    24: lambda x, y: x - y * truncated(x, y),
    25: lambda x, _: abs(x),
    26: lambda x, y: x + y,
    27: lambda x, y: x * y,
    28: lambda x, _: x,
    29: lambda x, _: abs(x),
}


def test_integers_wrap_and_tell(build_driver):
    rng = random.Random(2)
    edges = [0, 1, -1, 2**63 - 1, -(2**63), 2**31 - 1, -(2**31), 2**31, 3]
    cases = []
    for _ in range(3000):
        op = rng.randrange(20, 30)
        x, y = (rng.choice(edges) if rng.random() < 0.4 else rng.randrange(-(2**40), 2**40) for _ in "xy")
        if op in (26, 27, 29):
            x, y = signed(x, 32), signed(y, 32)
        cases.append((op, x, y))
    answers = build_driver("numbers")([w for case in cases for w in case])
    for i, (op, x, y) in enumerate(cases):
        bits = 32 if op in (26, 27, 28, 29) else 64
        if op in (23, 24) and y == 0:
            assert answers[2 * i : 2 * i + 2] == [0, E_DIVIDE]
            continue
        exact = NARROW[op](x, y)
        fits = -(1 << bits - 1) <= exact < 1 << bits - 1
        assert answers[2 * i : 2 * i + 2] == [signed(exact, bits), 0 if fits else E_INTEGER], (op, x, y)


def add_months(date: datetime.date, n: int) -> datetime.date | None:
    month = date.year * 12 + date.month - 1 + n
    year, month = month // 12, month % 12 + 1
    if not 1 <= year <= 9999:
        return None
    return date.replace(year=year, month=month, day=min(date.day, calendar.monthrange(year, month)[1]))


def date_model(op: int, date: datetime.date, n: int) -> int | None:
    first = {40: date.replace(month=1, day=1), 42: date.replace(day=1)}
    first[41] = date.replace(month=(date.month - 1) // 3 * 3 + 1, day=1)
    match op:
        case 30:
            return date.year
        case 31:
            return date.month
        case 32:
            return date.day
        case 33:
            return date.isoweekday()
        case 34:
            return date.timetuple().tm_yday
        case 35:
            return date.isocalendar().week
        case 36:
            return (date.month + 2) // 3
        case 37:
            later = add_months(date, n)
            return None if later is None else later.toordinal() - EPOCH
        case 38:
            ordinal = date.toordinal() + n
            return ordinal - EPOCH if 1 <= ordinal <= datetime.date.max.toordinal() else None
        case 39:
            return date.replace(day=calendar.monthrange(date.year, date.month)[1]).toordinal() - EPOCH
        case 43:
            return date.toordinal() - date.weekday() - EPOCH
    return first[op].toordinal() - EPOCH


def test_dates_equal_the_datetime_module(build_driver):
    rng = random.Random(3)
    last = datetime.date.max.toordinal()
    ordinals = [1, 2, last, last - 1, *(rng.randrange(1, last + 1) for _ in range(400))]
    ordinals += [datetime.date(y, 2, 28).toordinal() + d for y in (1900, 2000, 2023, 2024) for d in (0, 1, 2)]
    cases = []
    for ordinal in ordinals:
        for op in range(30, 44):
            n = rng.choice([0, 1, -1, 12, -12, 13, rng.randrange(-500, 500), rng.randrange(-200000, 200000)])
            cases.append((op, ordinal, n))
    answers = build_driver("numbers")([w for op, o, n in cases for w in (op, o - EPOCH, n)])
    for i, (op, ordinal, n) in enumerate(cases):
        expected = date_model(op, datetime.date.fromordinal(ordinal), n)
        got = answers[2 * i : 2 * i + 2]
        assert got == ([0, E_DATE] if expected is None else [expected, 0]), (op, ordinal, n)


def test_timestamps_floor_before_the_epoch(build_driver):
    rng = random.Random(4)
    zero, day = datetime.datetime(1970, 1, 1), 86_400_000_000
    stamps = [0, -1, 1, -day, day - 1, *(rng.randrange(-50 * 365 * day, 80 * 365 * day) for _ in range(200))]
    words = [w for t in stamps for op in (44, 45, 46, 47, 48) for w in (op, t, 3_600_000_000)]
    answers = build_driver("numbers")(words)[::2]
    for i, t in enumerate(stamps):
        at = zero + datetime.timedelta(microseconds=t)
        hour = at.replace(minute=0, second=0, microsecond=0)
        trunc = (hour - zero) // datetime.timedelta(microseconds=1)
        expected = [at.date().toordinal() - EPOCH, at.hour, at.minute, at.second, trunc]
        assert answers[5 * i : 5 * i + 5] == expected


def as_doubles(words: list[int]) -> np.ndarray:
    return np.array(words, dtype=np.int64).view(np.float64)


def same(x: float, y: float) -> bool:
    return x == y or (math.isnan(x) and math.isnan(y))


@pytest.mark.parametrize("seed", range(4))
def test_compensated_sums_equal_exact_sums(build_driver, seed):
    """Insertions and deletions of values of wild magnitudes: within one rounding of the exact sum."""
    rng = random.Random(seed)
    present: list[tuple[float, int]] = []
    changes: list[tuple[float, int]] = []
    for _ in range(600):
        if present and rng.random() < 0.45:
            x, weight = present.pop(rng.randrange(len(present)))
            changes.append((x, -weight))
        else:
            x = rng.choice([0.1, 1e16, -1e16, 3.3, rng.uniform(-1, 1) * 10.0 ** rng.randrange(-3, 12)])
            if rng.random() < 0.03:
                x = rng.choice([math.inf, -math.inf, math.nan])
            weight = rng.choice([1, 1, 1, 3, 7])
            present.append((x, weight))
            changes.append((x, weight))
    words = [80, len(changes), *(w for x, weight in changes for w in (word(x), weight))]
    answers = as_doubles(build_driver("numbers")(words))
    exact, special = Fraction(0), {math.inf: 0, -math.inf: 0, math.nan: 0}
    expected = math.nan
    for (x, weight), got in zip(changes, answers, strict=False):
        if math.isfinite(x):
            exact += Fraction(x) * weight
        else:
            special[next(k for k in special if same(k, x))] += weight
        nan = next(v for k, v in special.items() if math.isnan(k))
        if nan or (special[math.inf] and special[-math.inf]):
            expected = math.nan
        elif special[math.inf] or special[-math.inf]:
            expected = math.inf if special[math.inf] else -math.inf
        else:
            expected = float(exact)
            assert got == pytest.approx(expected, rel=1e-15, abs=1e-12)
            continue
        assert same(got, expected)
    assert same(answers[-1], answers[-2]) or answers[-1] == pytest.approx(answers[-2], rel=1e-15, abs=1e-12)


def test_an_emptied_sum_is_zero(build_driver):
    """What naive summation gets wrong: 0.1 + 1e16 - 1e16 - 0.1."""
    changes = [(0.1, 1), (1e16, 1), (1e16, -1), (0.1, -1)]
    answers = as_doubles(
        build_driver("numbers")([80, 4, *(w for x, weight in changes for w in (word(x), weight))])
    )
    assert list(answers) == [0.1, 1e16, 0.1, 0.0, 0.0]


def test_rounding_of_doubles(build_driver):
    rng = random.Random(5)
    values = [0.0, -0.0, 0.5, -0.5, 1.5, 2.5, -2.5, 0.49999999999999994, 1e300, 4503599627370497.5, 2.0**52]
    values += [
        math.inf,
        -math.inf,
        math.nan,
        *(rng.uniform(-1, 1) * 10.0 ** rng.randrange(0, 18) for _ in range(300)),
    ]
    answers = as_doubles(
        build_driver("numbers")([w for x in values for op in (60, 61, 62, 63) for w in (op, word(x))])
    )
    for i, x in enumerate(values):
        got = list(answers[4 * i : 4 * i + 4])
        if math.isfinite(x):
            exact = [math.floor(x), math.ceil(x), half_up(Fraction(x)), math.trunc(x)]
            assert got == [float(v) for v in exact], x
        else:
            assert all(same(v, x) for v in got)


def test_decimal_to_double_and_double_to_integer(build_driver):
    rng = random.Random(6)
    exact = [(rng.randrange(-(2**53), 2**53), rng.randrange(0, 23)) for _ in range(300)]
    words = [w for x, scale in exact for w in (70, *halves(x), scale)]
    assert list(as_doubles(build_driver("numbers")(words))) == [float(Fraction(x, 10**s)) for x, s in exact]
    doubles = [0.0, -1.9, 1.9, 9.3e18, -9.3e18, 2.0**63, -(2.0**63), math.nan, math.inf]
    answers = build_driver("numbers")([w for x in doubles for w in (71, word(x))])
    expected = [
        w
        for x in doubles
        for w in ((int(x), 0) if math.isfinite(x) and -(2**63) <= x < 2**63 else (0, E_INTEGER))
    ]
    assert answers == expected


def test_order_of_doubles(build_driver):
    values = [-math.inf, -1.0, -0.0, 0.0, 1e-300, 1.0, math.inf, math.nan]
    rank = [0, 1, 2, 2, 3, 4, 5, 6]
    pairs = [(i, j) for i in range(8) for j in range(8)]
    answers = build_driver("numbers")([w for i, j in pairs for w in (72, word(values[i]), word(values[j]))])
    assert answers == [(rank[i] > rank[j]) - (rank[i] < rank[j]) for i, j in pairs]
