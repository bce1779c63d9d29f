"""Names of the users' choosing beside those that the compiler makes up: of temporaries and changes."""

from __future__ import annotations

from typing import Any

import pytest

from agree.agreement import Pair, catalog_of
from viewlet.backends.base import Change, Granularity

pytestmark = pytest.mark.native

# Temporaries are called t1, t2, ..; what a batch changes in a table `d` is called dd_1, dd_2, ..
TEMPORARIES = """
SELECT SUM(p.a) AS s, COUNT(*) AS n FROM {0} p
WHERE p.a + p.a > (SELECT MIN(COALESCE(q.a, 0)) FROM {0} q WHERE q.a = p.a)
"""
CHANGES = "SELECT b, SUM(a) AS s FROM {0} GROUP BY b HAVING SUM(a) > (SELECT AVG(a) FROM {0})"
ROWS: list[tuple[Any, ...]] = [(1, 2), (2, 2), (None, 1), (-3, 1), (5, None), (1, 2)]


@pytest.mark.parametrize("granularity", ["tuple", "batch"])
@pytest.mark.parametrize("table", ["t1", "d", "r0", "int"])
def test_tables_called_like_what_the_compiler_makes_up(table: str, granularity: Granularity) -> None:
    catalog = catalog_of(f"CREATE TABLE `{table}` (a BIGINT, b BIGINT)")
    views = {"dd_1" if table == "d" else "t2": TEMPORARIES, "dd_2" if table == "d" else "t3": CHANGES}
    pair = Pair(catalog, {name: sql.format(f"`{table}`") for name, sql in views.items() if name != table})
    for rows, weight in [(ROWS, 1), (ROWS[1:4], -1), (ROWS[::-1], 2)]:
        assert pair.apply(table, [Change(row, weight) for row in rows], granularity)
        pair.check()
