"""Entries at which nested minima, maxima and sums turn a condition: native and reference agree on every map.

An aggregate over the first entries of an order, or over the last ones, under every comparison of the two keys
and of the aggregate; keys and values of every type, few enough to tie; rows that go before they come.
"""

from __future__ import annotations

import random
import sys

import pytest

from agree.agreement import Pair, catalog_of
from agree.test_ends import step
from agree.test_searches import KINDS
from viewlet.backends.base import Change
from viewlet.changes import read_changes

pytestmark = pytest.mark.native

TABLE = "CREATE TABLE r (a BIGINT, p {kind}, v {value})"
EXTENTS = {
    "up to": "q.p <= r.p",
    "before": "q.p < r.p",
    "from": "q.p >= r.p",
    "behind": "q.p > r.p",
    "nearly up to": "2 * q.p <= r.p + 1",
    "a little behind": "q.p - 1 > 2 * r.p",
    "in the group up to": "q.a = r.a AND q.p <= r.p",
    "in the group from": "q.a = r.a AND q.p >= r.p",
}
QUICK = ("up to", "behind", "nearly up to", "in the group from")
COMPARED = {
    "is less": "{best} < 2",
    "is no less": "{best} >= 2",
    "is": "{best} = 2",
    "is a part of the sum": "3 * {best} > (SELECT SUM(t.v) FROM r t)",
    "lies between": "{best} BETWEEN 0 AND 5",
}
MOST = 2**63 - 1


def views(extent: str) -> dict[str, str]:
    """Every comparison of a minimum and a maximum; sums of all rows and by group."""
    found = {}
    for i, (function, compared) in enumerate((f, c) for f in ("MIN", "MAX") for c in COMPARED.values()):
        best = f"(SELECT {function}(q.v) FROM r q WHERE {EXTENTS[extent]})"
        group = (
            "SELECT SUM(a) AS x, COUNT(*) AS n FROM r WHERE {}",
            "SELECT a, COUNT(*) AS n FROM r WHERE {} GROUP BY a",
        )
        found[f"v{i}"] = group[i % 2].format(compared.format(best=best))
    return found


def maintain(pair: Pair, steps: list[tuple], draw: random.Random) -> None:
    """Both have the same after every step."""
    for row, weight in steps:
        changes = read_changes(pair.catalog["r"], [row]).changes
        pair.apply("r", [Change(c.row, weight) for c in changes], draw.choice(["tuple", "batch"]))
        pair.check()


def comings_and_goings(draw: random.Random, kind: str, count: int, *, strange: bool) -> list[tuple]:
    """Rows and their weights; at the end nothing is left but what ``strange`` ones took away."""
    rows: list[tuple] = []
    steps = [step(draw, kind, rows, i > 0.6 * count, strange) for i in range(count)]
    return [*steps, *((row, -1) for row in rows)]


@pytest.mark.parametrize(
    "extent", [e if e in QUICK else pytest.param(e, marks=pytest.mark.slow) for e in EXTENTS]
)
def test_extents(extent: str) -> None:
    """Every comparison at once; best values are found by an edge, in a group too if its key is never NULL."""
    draw = random.Random(extent)
    table = TABLE.format(kind="INT", value="BIGINT")
    if "group" in extent:
        table = table.replace("a BIGINT", "a BIGINT NOT NULL")
    pair = Pair(catalog_of(table), views(extent))
    assert "turn edge" in pair.native.explain("v0")
    for strange in (False, True):
        steps = comings_and_goings(draw, "INT", 30, strange=strange)
        maintain(pair, [((a or 3, *row), weight) for (a, *row), weight in steps], draw)


@pytest.mark.parametrize(
    "kind",
    ["BIGINT", *(pytest.param(k, marks=pytest.mark.slow) for k in KINDS if k not in ("BIGINT", "DATE"))],
)
def test_keys_of_every_type(kind: str) -> None:
    draw = random.Random(kind)
    for extent in ("up to", "behind"):
        pair = Pair(catalog_of(TABLE.format(kind=kind, value="BIGINT")), views(extent))
        maintain(pair, comings_and_goings(draw, kind, 20, strange=True), draw)


@pytest.mark.parametrize("value", ["BIGINT", "DOUBLE"])
@pytest.mark.parametrize("extent", ["up to", "from"])
def test_values_at_the_ends_of_their_type(extent: str, value: str) -> None:
    """The least value of a type is a value, and no better than nothing for whoever forgets that."""
    huge = sys.float_info.max
    ends = [-MOST - 1, -MOST, 0, MOST, None] if value == "BIGINT" else [-huge, -0.0, 0.0, huge, None]
    bounds = ("-9223372036854775807", "0", "9223372036854775807")
    tests = [
        f"(SELECT {f}(q.v) FROM r q WHERE {EXTENTS[extent]}) {op} {bound}"
        for f in ("MIN", "MAX")
        for op in ("<", ">=")
        for bound in bounds
    ]
    sql = {f"v{i}": f"SELECT COUNT(*) AS n, SUM(p) AS x FROM r WHERE {test}" for i, test in enumerate(tests)}
    draw = random.Random(value)
    pair = Pair(catalog_of(TABLE.format(kind="INT", value=value)), sql)
    rows = [(None, draw.choice([None, 1, 2, 3]), draw.choice(ends)) for _ in range(12)]
    maintain(pair, [(row, weight) for weight in (1, -1) for row in draw.sample(rows, len(rows))], draw)


@pytest.mark.parametrize("extent", ["up to", "from"])
def test_trees_of_several_levels(extent: str) -> None:
    """The best goes again and again, and the edge with it."""
    draw = random.Random(extent)
    best = f"(SELECT MAX(q.v) FROM r q WHERE {EXTENTS[extent]})"
    sql = f"SELECT SUM(v) AS x, COUNT(*) AS n FROM r WHERE 80 * {best} > (SELECT SUM(t.v) FROM r t)"
    pair = Pair(catalog_of(TABLE.format(kind="INT", value="BIGINT")), {"v": sql})
    rows = [(draw.randint(1, 2), draw.randint(1, 900), draw.randint(1, 40)) for _ in range(1_500)]
    pair.apply("r", [Change(row, 1) for row in rows], "batch")
    pair.check()
    counts = set()
    for i in range(60):
        row = (draw.randint(1, 2), draw.randint(-50, 950), draw.randint(1, 4_000))
        pair.apply("r", [Change(row, 1), Change(rows[i], -1)], "tuple")
        rows.append(row)
        if i % 3 == 0:
            best_of_all = max(rows[i + 1 :], key=lambda row: row[2])
            rows.remove(best_of_all)
            pair.apply("r", [Change(best_of_all, -1)], "tuple")
        if i % 6 == 0:
            pair.check()
        counts |= {row[1] for row in pair.native.output("v")}
    pair.check()
    assert len(counts) > 10, "the edge did not move"


@pytest.mark.parametrize("negatives", [False, True])
@pytest.mark.parametrize("extent", ["2 * q.p >= r.p + 3", "q.p + 1 > 2 * r.p"])
def test_sums_from_another_extent_on(extent: str, negatives: bool) -> None:
    """A sum over the last entries turns a condition at an entry as well."""
    draw = random.Random(f"{extent} {negatives}")
    tests = [f"{test} (SELECT SUM(q.v) FROM r q WHERE {extent})" for test in ("4 <", "4 >=", "0 <=", "9 >")]
    sql = {f"v{i}": f"SELECT SUM(v) AS x, COUNT(*) AS n FROM r WHERE {test}" for i, test in enumerate(tests)}
    pair = Pair(catalog_of(TABLE.format(kind="INT", value="BIGINT")), sql)
    assert "turn edge" in pair.native.explain("v0")
    maintain(pair, comings_and_goings(draw, "INT", 40, strange=negatives), draw)
