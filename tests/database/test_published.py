"""A batch after which some row could not be read is refused at once; the oracle is plain integers."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import viewlet
from viewlet.errors import ValueRangeError

BACKENDS = ["reference", pytest.param("native", marks=pytest.mark.native)]
LIMIT = 1 << 63

VALUES = st.sampled_from([0, 1, -1, 5, LIMIT - 1, -LIMIT, LIMIT // 2, -LIMIT // 2])
ROWS = st.lists(st.tuples(st.integers(0, 2), VALUES), max_size=4)
BATCHES = st.lists(st.tuples(ROWS, ROWS), min_size=1, max_size=6)

ALLOWED = {
    "SELECT g, sum(v) AS s FROM {0} GROUP BY g": lambda sums: all(fits(s) for s, _ in sums.values()),
    "SELECT sum(v) AS s FROM {0}": lambda sums: fits(sum(s for s, _ in sums.values())),
    "SELECT g, 1 / sum(v) AS q FROM {0} GROUP BY g": lambda sums: all(
        s and fits(s) for s, _ in sums.values()
    ),
    "SELECT g, sum(v) + count(*) AS s FROM {0} GROUP BY g": lambda sums: all(
        fits(s) and fits(s + n) for s, n in sums.values()
    ),
}


def fits(total: int) -> bool:
    return -LIMIT <= total < LIMIT


def group_sums(rows: Counter[tuple[int, int]]) -> dict[int, tuple[int, int]]:
    sums: dict[int, tuple[int, int]] = {}
    for (g, v), n in rows.items():
        s, count = sums.get(g, (0, 0))
        sums[g] = s + n * v, count + n
    return {g: (s, n) for g, (s, n) in sums.items() if n}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("query", ALLOWED)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(batches=BATCHES)
def test_a_batch_is_refused_exactly_if_a_row_could_not_be_read(
    backend: str, query: str, batches: list[tuple[list[tuple[int, int]], list[tuple[int, int]]]]
) -> None:
    db = viewlet.connect(backend=backend)
    db.execute("CREATE TABLE r (g BIGINT, v BIGINT)")
    db.execute("CREATE MATERIALIZED VIEW w AS " + query.format("r"))
    kept: Counter[tuple[int, int]] = Counter()
    for inserts, deletes in batches:
        change = Counter(inserts)
        change.subtract(row for row in deletes if kept[row] + change[row] > 0)
        after = Counter({row: kept[row] + change[row] for row in kept | change})
        if min(after.values(), default=0) < 0:
            continue
        batch = [{"g": g, "v": v, "_weight": n} for (g, v), n in change.items()]
        before, version = sorted(db.table("r").rows()), db.version
        if ALLOWED[query](group_sums(after)):
            db.apply({"r": batch})
            kept = after
        else:
            with pytest.raises(ValueRangeError, match="view 'w'"):
                db.apply({"r": batch})
            assert (sorted(db.table("r").rows()), db.version) == (before, version)
        groups = {g: s for g, (s, _) in group_sums(kept).items()}
        shown = db.view("w").rows()
        assert len(shown) == (len(groups) if "GROUP" in query else 1)
        if query.startswith("SELECT g, sum(v) AS s"):
            assert dict(shown) == groups


@pytest.mark.parametrize("backend", BACKENDS)
def test_tables_of_one_batch_are_one_step(backend: str) -> None:
    """Half way through the batch the total is out of range, at its end it is not."""
    db = viewlet.connect(backend=backend)
    db.execute("CREATE TABLE a (v BIGINT); CREATE TABLE b (v BIGINT)")
    db.execute(
        "CREATE MATERIALIZED VIEW w AS "
        "SELECT sum(v) AS s FROM (SELECT v FROM a UNION ALL SELECT v FROM b) AS u"
    )
    changes: list[object] = []
    db.view("w").subscribe(changes.append)
    db.insert("a", [(LIMIT - 1,)])
    db.apply({"a": [(7,)], "b": [(-7,)]})
    assert db.view("w").value == LIMIT - 1
    assert len(changes) == 1
    with pytest.raises(ValueRangeError, match="view 'w'"):
        db.apply({"a": [(7,)], "b": [(-6,)]})
    assert (db.view("w").value, db.version) == (LIMIT - 1, 2)


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_unread_view_of_a_view_refuses_too(backend: str) -> None:
    db = viewlet.connect(backend=backend)
    db.execute("CREATE TABLE r (g BIGINT, v BIGINT)")
    db.execute("CREATE MATERIALIZED VIEW inner_sums AS SELECT g, sum(v) AS s FROM r GROUP BY g")
    db.execute("CREATE MATERIALIZED VIEW outer_sum AS SELECT sum(s) AS s FROM inner_sums")
    db.insert("r", [(1, LIMIT - 1)])
    with pytest.raises(ValueRangeError, match="view 'outer_sum'"):
        db.insert("r", [(2, LIMIT - 1)])
    assert db.view("inner_sums").rows() == [(1, LIMIT - 1)]
    assert db.view("outer_sum").value == LIMIT - 1


@pytest.mark.parametrize("backend", BACKENDS)
def test_sums_of_decimals(backend: str) -> None:
    db = viewlet.connect(backend=backend)
    db.execute("CREATE STREAM r (g BIGINT, d DECIMAL(20, 0))")
    db.execute("CREATE MATERIALIZED VIEW decimals AS SELECT g, sum(d) AS s FROM r GROUP BY g")
    many = [{"g": 1, "d": Decimal("9" * 20), "_weight": (1 << 31) - 1}]
    for _ in range(4):
        db.apply({"r": many})
    total = db.view("decimals").rows()
    assert total == [(1, Decimal(4 * ((1 << 31) - 1) * (10**20 - 1)))]
    with pytest.raises(ValueRangeError, match="view 'decimals'"):
        db.apply({"r": many})
    assert db.view("decimals").rows() == total


WIDE_SUMS = [
    "SELECT sum(d) AS s FROM r",
    "SELECT sum(d) AS s FROM r GROUP BY g",
    "SELECT sum(d) FILTER (WHERE g = 1) AS s FROM r",
    "SELECT sum(s) AS s FROM (SELECT g, sum(d) AS s FROM r GROUP BY g) AS q",
]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("query", WIDE_SUMS)
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(batches=st.lists(st.lists(st.integers(-8, 8), min_size=1, max_size=2), min_size=2, max_size=8))
def test_sums_beyond_38_digits(backend: str, query: str, batches: list[list[int]]) -> None:
    """Totals that have the type of the engine's own sums, DECIMAL(38, s), are checked too.

    Native sums have 128 bits, 1.7e38 units: a sum that leaves them is found as it is added up.
    """
    db = viewlet.connect(backend=backend)
    db.execute("CREATE TABLE r (g BIGINT, d DECIMAL(38, 10))")
    db.execute("CREATE MATERIALIZED VIEW w AS " + query)
    unit, total, seen = Decimal("1e27"), 0, False
    for batch in batches:
        rows = [(1, n * unit) for n in sorted(batch, key=lambda n: n * total)]  # towards zero first
        before, version, after = db.view("w").rows(), db.version, total + sum(batch)
        if "q" in query.split() and abs(after) + abs(total) > 16:
            return  # a group's new total comes before the old one goes: the sum of both may leave 128 bits
        if abs(after) < 10:
            db.insert("r", rows)
            total, seen = after, True
        else:
            with pytest.raises(ValueRangeError, match=r"(view 'w'|table 'r').* out of range"):
                db.insert("r", rows)
            assert (db.view("w").rows(), db.version) == (before, version)
        if seen:
            assert db.view("w").value == total * unit


def test_sums_of_doubles() -> None:
    db = viewlet.connect(backend="reference")
    db.execute("CREATE TABLE r (g BIGINT, f DOUBLE)")
    db.execute("CREATE MATERIALIZED VIEW doubles AS SELECT g, sum(f) AS s, avg(f) AS a FROM r GROUP BY g")
    db.insert("r", [(1, 1e308)])
    with pytest.raises(ValueRangeError, match="view 'doubles'"):
        db.insert("r", [(1, 1e308)])
    assert db.view("doubles").rows() == [(1, 1e308, 1e308)]
