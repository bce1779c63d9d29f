"""Records that are laid out alike share types and functions; their entries stay apart."""

from __future__ import annotations

import random
import re

import pytest

from agree.agreement import Pair, catalog_of
from viewlet.backends.base import Change

pytestmark = pytest.mark.native

DDL = "".join(
    f"CREATE TABLE {name} (a BIGINT {null}, b BIGINT {null}, n BIGINT);"
    for name, null in (("r", "NOT NULL"), ("s", "NOT NULL"), ("t", ""))
)
CHAIN = (
    "SELECT r.b, s.b c, SUM(r.n * s.n * t.n) v FROM r, s, t WHERE r.a = s.a AND s.b = t.a GROUP BY r.b, s.b"
)
FRACTIONS = (
    "SELECT r.b, SUM(s.n * CAST(0.5 AS DOUBLE)) v, SUM(r.n) w FROM r, s "
    "WHERE r.a = s.a AND r.n > 1 GROUP BY r.b"
)


def test_records_that_share_their_code_agree_with_the_reference() -> None:
    """Keys with and without NULL, exact sums and sums of DOUBLE: under one name only what is the same."""
    views = {"chain": CHAIN, "fractions": FRACTIONS} | {
        f"{x}_{y}": f"SELECT {x}.b, COUNT(*) c, SUM({y}.n) v FROM {x}, {y} WHERE {x}.a = {y}.b GROUP BY {x}.b"
        for x, y in ("rs", "st", "tr")
    }
    pair = Pair(catalog_of(DDL), views, batches="useful")
    rng = random.Random(7)
    present: list[tuple[str, tuple[int | None, ...]]] = []

    def maybe(table: str, value: int) -> int | None:
        return None if table == "t" and rng.random() < 0.2 else value

    for _ in range(150):
        if present and rng.random() < 0.4:
            table, row = present.pop(rng.randrange(len(present)))
            pair.apply(table, [Change(row, -1)], "tuple")
        else:
            table = rng.choice("rst")
            row = (maybe(table, rng.randrange(4)), maybe(table, rng.randrange(4)), rng.randrange(-3, 4))
            present.append((table, row))
            pair.apply(table, [Change(row, 1)], "tuple")
    pair.check()
    text = pair.native.source()
    kept = re.findall(r"^    (r\d+)_store (r\d+);$", text, re.MULTILINE)
    written = set(re.findall(r"^\} (r\d+)_store;$", text, re.MULTILINE))
    assert {code for code, _ in kept} == written
    assert len(written) < len(kept)
