"""Every function, operator and cast on edge values: native code has the reference's value or error."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from agree.agreement import Pair, catalog_of
from edge_values import ARITHMETIC, CASTS, DDL, FUNCTIONS, Failed, catalog, rows, scalar_of, values
from viewlet.backends.base import Change

pytestmark = pytest.mark.native

TOGETHER = 30


def by_type() -> list[list[str]]:
    """The expressions, those of one type together, so many that one program takes them."""
    tables, found = catalog(), dict[str, list[str]]()
    for expression in (*ARITHMETIC[::3], *CASTS, *FUNCTIONS):
        found.setdefault(str(scalar_of(expression, tables).type), []).append(expression)
    return [
        group[place : place + TOGETHER]
        for group in found.values()
        for place in range(0, len(group), TOGETHER)
    ]


def chosen(expressions: Sequence[str]) -> str:
    """A view whose rows say which expression is computed for them."""
    branches = " ".join(f"WHEN pick = {i} THEN {expression}" for i, expression in enumerate(expressions))
    return f"SELECT id, pick, CASE {branches} END AS value FROM v"


@pytest.mark.parametrize("expressions", by_type(), ids=lambda group: group[0])
def test_native_code_agrees(expressions: list[str]) -> None:
    tables, data = catalog(), rows(40, seed=5)
    pair = Pair(catalog_of(DDL.replace("(", "(pick INT NOT NULL, ", 1)), {"w": chosen(expressions)})
    good: list[Change] = []
    expected = {}
    for pick, expression in enumerate(expressions):
        for row, value in zip(data.physical, values(scalar_of(expression, tables), data), strict=True):
            change = Change((pick, *row), 1)
            if isinstance(value, Failed):
                assert not pair.apply("v", [change], "tuple"), f"{expression}: {row[0]} was accepted"
            else:
                good.append(change)
                expected[row[0], pick, value] = 1
    assert pair.apply("v", good, "batch")
    assert pair.native.output("w") == expected
