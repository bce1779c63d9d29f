"""Minima, maxima and crossed thresholds on ordered indexes in C: native and reference agree on every map.

Streams are made to hurt: few values so that ties are common, NULL and signs that change, deletions of what
was never inserted, deletions down to nothing, keys of every type.
"""

from __future__ import annotations

import random

import pytest

from agree.agreement import Pair, catalog_of
from agree.test_searches import KINDS
from viewlet.backends.base import Change
from viewlet.changes import read_changes
from viewlet.errors import ValueRangeError

pytestmark = pytest.mark.native

TABLE = "CREATE TABLE r (a BIGINT, p {kind}, v BIGINT)"
ENDS = {
    "the ends of a group": "SELECT a, MAX(p) AS hi, MIN(p) AS lo FROM r GROUP BY a",
    "rows at the end": "SELECT SUM(v) AS x FROM r WHERE p = (SELECT MAX(q.p) FROM r q)",
    "rows at the end of their group": "SELECT SUM(v) AS x FROM r "
    "WHERE p = (SELECT MIN(q.p) FROM r q WHERE q.a = r.a)",
    "the end before a bound": "SELECT COUNT(*) AS x FROM r "
    "WHERE v < (SELECT MAX(q.v) FROM r q WHERE q.a = r.a AND q.v < 6)",
}
PEAKS = {
    "greatest so far": "SELECT SUM(v) AS x FROM r WHERE 3 < (SELECT MAX(q.v) FROM r q WHERE q.p <= r.p)",
    "least of the larger": "SELECT COUNT(*) AS x FROM r WHERE (SELECT MIN(q.v) FROM r q WHERE q.p > r.p) < 3",
    "within a group": "SELECT SUM(v) AS x FROM r "
    "WHERE 1 < (SELECT MIN(q.v) FROM r q WHERE q.a = r.a AND q.p >= r.p)",
}
CROSSINGS = {
    "shares of a total": "SELECT a, SUM(v) AS s FROM r GROUP BY a HAVING 3 * SUM(v) > (SELECT SUM(v) FROM r)",
    "above average": "SELECT p, v FROM r WHERE v > (SELECT AVG(v) FROM r)",
    "shares of two keys": "SELECT a, p, SUM(v) AS s FROM r GROUP BY a, p "
    "HAVING SUM(v) * 5 >= (SELECT SUM(v) FROM r q)",
}
PATHS = {"visit down once": ENDS, "= greatest r": PEAKS, "visit r": CROSSINGS}

QUICK = ("BIGINT", True)
CASES = [(kind, strange) for kind in KINDS if kind != "DATE" for strange in (False, True)]


def step(draw: random.Random, kind: str, rows: list[tuple], ending: bool, strange: bool) -> tuple:
    """A row and its weight: mostly new ones first, mostly old ones at the end."""
    if rows and draw.random() < (0.8 if ending else 0.3):
        return rows.pop(draw.randrange(len(rows))), -1
    key = None if draw.random() < 0.1 else KINDS[kind](draw)
    values = [None, 0, 1, 2, 5, 9] + [-3, -7] * strange
    row = (draw.choice([None, 1, 2]), key, draw.choice(values))
    if strange and draw.random() < 0.15:
        return row, -1
    rows.append(row)
    return row, 1


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    ("kind", "strange"), [c if c == QUICK else pytest.param(*c, marks=pytest.mark.slow) for c in CASES]
)
def test_ends_of_every_type(path, kind, strange):
    draw = random.Random(f"{path} {kind} {strange}")
    catalog = catalog_of(TABLE.format(kind=kind))
    pair = Pair(catalog, {f"v{i}": sql for i, sql in enumerate(PATHS[path].values())})
    if not (kind == "DECIMAL(30,4)" and path == "= greatest r"):  # two words order no pair
        assert path in pair.native.explain("v0")
    rows: list[tuple] = []
    for i in range(45):
        row, weight = step(draw, kind, rows, i > 28, strange)
        changes = read_changes(catalog["r"], [row]).changes
        pair.apply("r", [Change(c.row, weight) for c in changes], draw.choice(["tuple", "batch"]))
        if i % 3 == 0:
            pair.check()
    for row in rows:
        changes = read_changes(catalog["r"], [row]).changes
        pair.apply("r", [Change(c.row, -1) for c in changes], "tuple")
    pair.check()


def test_an_order_of_many_levels():
    """Several nodes per tree, the threshold moves far, and the greatest goes again and again."""
    draw = random.Random(3)
    catalog = catalog_of(TABLE.format(kind="BIGINT"))
    views = {"e": ENDS["rows at the end of their group"], "c": CROSSINGS["shares of two keys"]}
    pair = Pair(catalog, views | {"p": PEAKS["greatest so far"]})
    rows = [(draw.randint(1, 3), draw.randint(1, 900), draw.randint(0, 40)) for _ in range(600)]
    pair.apply("r", [Change(row, 1) for row in rows], "batch")
    pair.check()
    for i, row in enumerate(sorted(rows, key=lambda row: -row[1])[:60]):
        pair.apply("r", [Change(row, -1), Change((1, 5, 10_000), (1, -1)[i % 2])], "tuple")
        if i % 12 == 0:
            pair.check()
    pair.check()


def test_text_has_its_ends_too():
    """By scans: ids of text do not tell its order."""
    catalog = catalog_of("CREATE TABLE r (a BIGINT, t VARCHAR)")
    pair = Pair(catalog, {"v": "SELECT a, MIN(t) AS lo, MAX(t) AS hi FROM r GROUP BY a"})
    for row, weight in ((1, "b"), 1), ((1, "a"), 1), ((1, None), 1), ((1, "c"), 1), ((1, "a"), -1):
        pair.apply("r", [Change(row, weight)], "tuple")
        pair.check()


def test_a_batch_that_fails_leaves_no_trace_in_an_order():
    """The last row takes a sum out of range: keys that came and went before it are as they were."""
    catalog = catalog_of(TABLE.format(kind="BIGINT"))
    views = {"e": ENDS["the ends of a group"], "c": CROSSINGS["shares of a total"]}
    pair = Pair(catalog, views | {"p": PEAKS["greatest so far"]})
    rows = [Change((a, p, v), 1) for a, p, v in ((1, 3, 5), (1, 9, 7), (2, 2, 1), (2, 8, 4))]
    assert pair.apply("r", rows, "tuple")
    before = {name: pair.native.output(name) for name in pair.native.program.views}
    good = [Change((1, 9, 7), -1), *(Change((a, p, 1), 1) for a in (1, 3) for p in range(30))]
    bad = [*good, Change((1, 9, 2**62), 1), Change((1, 8, 2**62), 1)]
    for granularity in ("tuple", "batch"):
        with pytest.raises(ValueRangeError):
            pair.native.apply("r", bad, granularity, frozenset({"c"}))
        assert {name: pair.native.output(name) for name in before} == before
    for change in (rows[1], rows[3], rows[0]):
        pair.apply("r", [Change(change.row, -1)], "tuple")
        pair.check()
