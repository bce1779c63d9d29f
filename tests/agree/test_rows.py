"""Passes over rows and variants of triggers: any number of rows, any weights, with and without NULL."""

from __future__ import annotations

import random
from itertools import product

import numpy as np
import pyarrow as pa
import pytest

from agree.agreement import Pair, catalog_of
from viewlet.backends.base import Change

pytestmark = pytest.mark.native

DDL = """
CREATE TABLE r (k BIGINT, s VARCHAR(10), t VARCHAR(40), d DECIMAL(12,2), e DATE);
CREATE TABLE w (k BIGINT NOT NULL, s VARCHAR(10) NOT NULL, n BIGINT NOT NULL);
"""
VIEWS = {
    "filtered": (
        "SELECT s, t, COUNT(*) n, SUM(d) u, SUM(d * d) v FROM r "
        "WHERE e < DATE '1995-01-01' AND d > 0 GROUP BY s, t"
    ),
    "chosen": "SELECT k, COUNT(*) n FROM r WHERE s = 'ab' AND k > 1 GROUP BY k",
    "squares": "SELECT a.k, SUM(a.n * b.n) t FROM w a, w b WHERE a.k = b.k GROUP BY a.k",
    "prefixes": "SELECT substring(s, 1, 1) p, SUM(n) t FROM w GROUP BY substring(s, 1, 1)",
    "joined": "SELECT w.s, SUM(r.d * w.n) t FROM r, w WHERE r.k = w.k GROUP BY w.s",
}
WEIGHTS = {"ones": [1], "units": [1, -1], "any": [1, -1, 2, -3]}
TEXTS = ["", "a", "b", "ab", "abc", "abcd", "abcdefgh", "abcdefghi", "é", "\U0001f600"]


def rows(rng: random.Random, table: str, count: int, nulls: bool) -> list[tuple[object, ...]]:
    def maybe(value: object) -> object:
        return None if nulls and rng.random() < 0.2 else value

    def text() -> str:
        return rng.choice(TEXTS)

    if table == "w":
        return [(rng.randrange(4), text(), rng.randrange(-5, 6)) for _ in range(count)]
    days = [8000, 9130, 9131, 9500]
    return [
        (
            maybe(rng.randrange(4)),
            maybe(text()),
            maybe(text() * 4),
            maybe(rng.randrange(-300, 900)),
            maybe(rng.choice(days)),
        )
        for _ in range(count)
    ]


@pytest.mark.parametrize("view", VIEWS)
def test_rows_weights_and_nulls(view: str) -> None:
    pair = Pair(catalog_of(DDL), {view: VIEWS[view]}, batches="useful")
    rng = random.Random(view)
    for count, kind, nulls in product((1, 2, 127, 128, 129, 300), WEIGHTS, (False, True)):
        for table in ("r", "w"):
            changes = [Change(row, rng.choice(WEIGHTS[kind])) for row in rows(rng, table, count, nulls)]
            assert pair.apply(table, changes, "tuple")
        pair.check()


def test_small_programs_have_variants_and_large_ones_do_not() -> None:
    def source(*views: str) -> str:
        return Pair(catalog_of(DDL), {view: VIEWS[view] for view in views}).native.source()

    assert "_on_tuple_ones(" in source("chosen")
    assert "_on_tuple_units(" in source("squares")
    assert "_on_tuple_units(" not in source(*VIEWS)


FLAGS = """
CREATE TABLE f (s VARCHAR(3) NOT NULL, t VARCHAR(3), k BIGINT NOT NULL, d DECIMAL(12,2) NOT NULL);
"""
FEW = {
    "flags": "SELECT s, t, COUNT(*) n, SUM(d) u, SUM(d * d) v, SUM(k) w FROM f GROUP BY s, t",
    "numbers": "SELECT k, COUNT(*) n, SUM(d) u, SUM(d * d) v, SUM(d * k) w FROM f GROUP BY k",
}


@pytest.mark.parametrize("view", FEW)
def test_few_groups_that_come_and_go(view: str) -> None:
    """Groups run empty and come back within a batch, whose rows remember the entries that they met."""
    pair = Pair(catalog_of(FLAGS), {view: FEW[view]}, batches="useful")
    assert "_meet(" in pair.native.source()
    rng = random.Random(view)
    held: list[tuple[object, ...]] = []
    for groups, leaving in ((1, 0.5), (2, 0.5), (5, 0.5), (5, 0.9), (40, 0.3), (40, 0.9), (3, 0.5), (3, 1.0)):
        changes = []
        for _ in range(400):
            if held and rng.random() < leaving:
                changes.append(Change(held.pop(rng.randrange(len(held))), -1))
            else:
                k = rng.randrange(groups)
                held.append(("ANR"[k % 3], "FO"[k % 2], k, rng.randrange(-300, 900)))
                changes.append(Change(held[-1], 1))
        assert pair.apply("f", changes, "tuple")
        pair.check()


def hidden(texts: pa.Array) -> pa.Array:
    """The same column with a letter where a NULL is, as Arrow allows."""
    _, offsets, data = texts.fill_null("A").buffers()
    valid = texts.buffers()[0]
    return pa.Array.from_buffers(texts.type, len(texts), [valid, offsets, data])


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()], ids=str)
@pytest.mark.parametrize(
    "texts", [["A"], [*"ABC"], ["A", "B", "AB"], ["A", "B", ""], ["A", "B", None], ["é", "\x7f"]], ids=str
)
def test_columns_of_letters(texts: list[str | None], kind: pa.DataType) -> None:
    """Texts of one byte and others, NULL, slices of columns, and rows that a condition leaves out."""
    views = {"flags": FEW["flags"], "chosen": f"{FEW['flags']} HAVING COUNT(*) > 2"}
    views["some"] = FEW["flags"].replace("FROM f", "FROM f WHERE k > 3")
    pair, arrow = (Pair(catalog_of(FLAGS), views, batches="useful") for _ in range(2))
    rng = random.Random(str(texts))
    for first, count in ((0, 1), (3, 200), (1, 129), (130, 128), (5, 17)):
        rows = [
            (rng.choice(["x", "y"]), rng.choice(texts), rng.randrange(9), rng.randrange(-99, 99))
            for _ in range(first + count)
        ]
        s, t, k, d = zip(*rows, strict=True)
        decimals = pa.array(d, pa.int64()).cast(pa.decimal128(21, 2))
        columns = [pa.array(s, kind), hidden(pa.array(t, kind)), pa.array(k, pa.int64()), decimals]
        weights = np.array([rng.choice([1, -1]) for _ in range(count)], dtype=np.int64)
        batch = pa.record_batch(columns, names=["s", "t", "k", "d"]).slice(first)
        arrow.native.apply_arrow("f", batch, weights, "tuple")
        scaled = [(*row[:3], 100 * int(str(row[3]))) for row in rows[first:]]
        assert pair.apply("f", [Change(r, int(w)) for r, w in zip(scaled, weights, strict=True)], "tuple")
        for view in views:
            assert arrow.native.output(view) == pair.native.output(view)
        pair.check()
