"""Searches on ordered indexes in C: native and reference agree on every map, whatever the values are.

Streams are made to hurt: few levels so that ties and crossings are common, values that change sign on the
way, NULL everywhere, edges that jump over the whole domain, deletions down to nothing, keys of every type.
"""

from __future__ import annotations

import random
from datetime import date, timedelta
from decimal import Decimal

import pytest

from agree.agreement import QUICK, Pair, agree, catalog_of
from viewlet import workloads
from viewlet.backends.base import Change
from viewlet.backends.native.engine import NativeEngine
from viewlet.changes import read_changes
from viewlet.errors import ValueRangeError
from viewlet.workloads import order_book

pytestmark = pytest.mark.native

SEARCHED = {
    "finance": ("vwap", "mst", "psp", "bsp", "axf"),
    "nested": ("vwap75", "nq1", "sq2"),
}
QUERIES = [(suite, name) for suite, names in SEARCHED.items() for name in names]

TABLE = "CREATE TABLE r (a BIGINT, p {kind}, v BIGINT)"
SHAPES = {
    "closed from below": "SELECT SUM(v) AS x FROM r WHERE 2 * (SELECT SUM(v) FROM r q WHERE q.p <= r.p) > "
    "(SELECT SUM(v) FROM r)",
    "open from below": "SELECT COUNT(*) AS x FROM r WHERE (SELECT COUNT(*) FROM r q WHERE q.p < r.p) < 3",
    "closed from above": "SELECT SUM(v) AS x FROM r WHERE 2 * (SELECT SUM(v) FROM r q WHERE q.p >= r.p) >= "
    "(SELECT SUM(v) FROM r)",
    "open from above": "SELECT COUNT(*) AS x FROM r WHERE (SELECT COUNT(*) FROM r q WHERE r.p < q.p) "
    "BETWEEN 1 AND 4",
    "either end": "SELECT SUM(v) AS x FROM r WHERE 4 * (SELECT SUM(v) FROM r q WHERE q.p <= r.p) < "
    "(SELECT SUM(v) FROM r) OR 4 * (SELECT SUM(v) FROM r q WHERE q.p <= r.p) > (SELECT 3 * SUM(v) FROM r)",
    "by group": "SELECT a, SUM(v) AS x FROM r WHERE (SELECT COUNT(*) FROM r q WHERE q.p < r.p) < 3 "
    "GROUP BY a",
    "within a group": "SELECT SUM(r.v) AS x FROM r, r s WHERE r.a = s.a AND r.p < s.p",
    "both ends": "SELECT COUNT(*) AS x FROM r, r s WHERE r.p < s.p AND s.p <= r.p + r.p",
}
KINDS = {
    "BIGINT": lambda draw: draw.choice([-(2**61), 2**61, *range(-3, 6)]),
    "INT": lambda draw: draw.randint(-4, 4),
    "DECIMAL(9,2)": lambda draw: Decimal(draw.randint(-400, 400)) / 100,
    "DECIMAL(30,4)": lambda draw: Decimal(draw.choice([-(10**24), 10**24, 7, 0, -3])) / 10000,
    "DOUBLE": lambda draw: draw.choice([0.0, -0.5, 0.1 + 0.2, 0.3, 1e300, -1e-300, 2.0]),
    "DATE": lambda draw: date(2020, 1, 1) + timedelta(days=draw.randint(-3, 3)),
}

QUICK_KINDS = ("BIGINT", "DECIMAL(30,4)")


def spans(pair: Pair) -> int:
    """How many sums of the native program come from an ordered index."""
    return pair.native.explain(next(iter(pair.native.program.views))).count("span ")


def replay(suite: str, name: str, stream, granularity="tuple", every=2) -> Pair:
    pair = agree(
        workloads.schema("finance"),  # its bids are those of the nested suite
        {name: workloads.queries(suite)[name]},
        stream.batches(5),
        granularity,
        every=every,
    )
    assert spans(pair) > 0
    return pair


def book(events: int, levels: int = 5, **options):
    given = {"tick": 700, "brokers": 2, "deletions": 0.5, "lifetime": 20, "seed": 5} | options
    return order_book.stream(events, order_book.drawn(levels), **given)


@pytest.mark.parametrize(("suite", "name"), QUERIES)
def test_signs_and_nulls(suite, name):
    """First all volumes are above 0, then some are not: spans give way to scans, and come back."""
    replay(suite, name, book(24, nulls=0.1))
    replay(suite, name, book(24, negatives=0.3, nulls=0.1), "batch")


@pytest.mark.parametrize(("suite", "name"), [("finance", "vwap"), ("finance", "mst"), ("nested", "nq1")])
def test_edges_that_jump_over_the_whole_book(suite, name):
    replay(suite, name, order_book.adversarial(100, 35, tick=400, brokers=2), every=5)


@pytest.mark.parametrize("name", ["vwap", pytest.param("mst", marks=pytest.mark.slow), "psp"])
def test_trees_of_several_levels(name):
    replay("finance", name, book(1_500, 1_000, lifetime=800), "auto", every=60)


def some_rows(draw: random.Random, kind: str, count: int) -> list[tuple]:
    rows = []
    for _ in range(count):
        key = None if draw.random() < 0.1 else KINDS[kind](draw)
        rows.append((draw.choice([None, 1, 2]), key, draw.choice([None, 0, 1, 2, 5, 9])))
    return rows


@pytest.mark.parametrize(
    "kind", [k if k in QUICK_KINDS else pytest.param(k, marks=pytest.mark.slow) for k in KINDS]
)
def test_keys_of_every_type(kind):
    """All shapes of edges at once, with deletions in random order until nothing is left."""
    draw = random.Random(kind)
    catalog = catalog_of(TABLE.format(kind=kind))
    shapes = {
        f"v{i}": sql for i, sql in enumerate(SHAPES.values()) if kind != "DATE" or "r.p + r.p" not in sql
    }
    pair = Pair(catalog, shapes)
    assert spans(pair) > 0
    rows = some_rows(draw, kind, 40)
    for chosen, weight in ((rows, 1), (draw.sample(rows, len(rows)), -1)):
        for i, row in enumerate(chosen):
            changes = read_changes(catalog["r"], [row]).changes
            pair.apply("r", [Change(c.row, weight) for c in changes], draw.choice(["tuple", "batch"]))
            if i % 4 == 0:
                pair.check()
    pair.check()
    assert all(not pair.native.contents(name) for name in pair.native.program.maps)


def test_values_that_change_sign_in_the_middle():
    draw = random.Random(1)
    catalog = catalog_of(TABLE.format(kind="BIGINT"))
    pair = Pair(catalog, {f"v{i}": sql for i, sql in enumerate(SHAPES.values())})
    for i in range(60):
        volume = draw.choice([1, 2, 3] if i % 20 < 10 else [-4, -1, 2, 0])
        pair.apply(
            "r", [Change((draw.randint(1, 2), draw.randint(-3, 3), volume), draw.choice([1, 1, -1]))], "tuple"
        )
        pair.check()


def test_a_batch_that_fails_leaves_no_trace_in_an_index():
    """The last row takes a sum out of range: ordered indexes, too, are as they were before the batch."""
    catalog = catalog_of(TABLE.format(kind="BIGINT"))
    pair = Pair(catalog, {"v": SHAPES["closed from below"], "w": SHAPES["by group"]})
    good = [Change((1, p, v), 1) for p, v in ((3, 5), (1, 7), (2, 1))]
    assert pair.apply("r", good, "tuple")
    before = pair.native.output("v"), pair.native.output("w")
    bad = [*(Change((2, p, 1), 1) for p in range(50)), Change((1, 9, 2**62), 1), Change((1, 8, 2**62), 1)]
    for granularity in ("tuple", "batch"):
        with pytest.raises(ValueRangeError):
            pair.native.apply("r", bad, granularity, frozenset({"v"}))
        assert (pair.native.output("v"), pair.native.output("w")) == before
        pair.check()
    for p in range(-2, 5):
        pair.apply("r", [Change((1, p, 3), 1)], "tuple")
        pair.check()


def test_a_view_added_later_finds_the_indexes_filled():
    catalog = catalog_of(TABLE.format(kind="BIGINT"))
    pair = Pair(catalog, {"v": SHAPES["open from above"]})
    rows = {(1, p, p % 4): 1 for p in range(30)}
    pair.apply("r", [Change(row, weight) for row, weight in rows.items()], "batch")
    pair.create("w", SHAPES["closed from above"], {"r": rows})
    pair.check()
    pair.apply("r", [Change((1, 12, 0), -1), Change((2, 40, 50), 1)], "tuple")
    pair.check()


def test_text_and_sums_of_doubles_are_searched_too():
    catalog = catalog_of("CREATE TABLE r (a VARCHAR, p BIGINT, v DOUBLE, k BIGINT)")
    total = "SELECT COUNT(*) AS n FROM r WHERE (SELECT SUM(v) FROM r q WHERE q.p <= r.p) < 10"
    names = "SELECT COUNT(*) AS n FROM r, r s WHERE r.a < s.a"
    found = "SELECT COUNT(*) AS n FROM r, r s WHERE r.k < s.k"
    pair = Pair(catalog, {"t": total, "n": names, "f": found})
    for row in (("x", 1, 2.5, 7), ("y", 2, 8.5, 5), (None, None, None, None), ("z", 3, -4.0, 7)):
        pair.apply("r", [Change(row, 1)], "tuple")
        pair.check()
    for view in ("n", "f"):
        assert "range aggregate" in pair.native.explain(view)
    assert not any(pair.native.obstacles(view) for view in "tnf")


def test_without_ordered_indexes_everything_is_scanned():
    """What they are measured against answers the same."""
    catalog = catalog_of(TABLE.format(kind="BIGINT"))
    sql = (SHAPES["closed from below"], "SELECT a, MAX(p) AS hi FROM r GROUP BY a")
    pair = Pair(catalog, {})
    pair.native = NativeEngine(flags=QUICK, ordered=False)
    for i, text in enumerate(sql):
        pair.create(f"v{i}", text, {})
    assert "ordered by" not in pair.native.explain("v0")
    for row in ((1, 3, 5), (1, 1, 7), (2, None, 1), (2, 4, 2), (1, 3, 5)):
        pair.apply("r", [Change(row, 1)], "tuple")
        pair.check(maps=False)
