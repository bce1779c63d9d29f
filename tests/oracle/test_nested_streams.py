"""All nested and order-book queries, under every strategy, after every event, on every kind of stream."""

from __future__ import annotations

import pyarrow.compute as pc
import pytest

from oracle.books import BOOKS, events
from oracle.harness import connect, replay
from viewlet.workloads import nested, queries, schema
from viewlet.workloads.ddl import creates
from viewlet.workloads.stream import Stream, churn, with_nulls

STRATEGIES = [
    "auto",
    *(
        pytest.param(s, marks=pytest.mark.slow)
        for s in ("higher_order", "view_caches", "first_order", "reevaluate")
    ),
]
CASES = [(suite, name) for suite in ("finance", "nested") for name in queries(suite)]


def rows_of_r(kind: str) -> Stream:
    """The table of EQ and MAX_EQ, so few values that sums are equal now and then; until it is empty."""
    rows = nested.tables(20, groups=3, values=3, seed=len(kind))["r"]
    if kind == "negative":
        rows = rows.set_column(1, "b", pc.subtract(rows["b"], 2))
    return churn(with_nulls({"r": rows}, 0.25 if kind == "nulls" else 0.0), 1, deletions=1.0)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("kind", BOOKS)
@pytest.mark.parametrize(("suite", "name"), CASES)
def test_after_every_event(suite: str, name: str, kind: str, strategy: str) -> None:
    sql = queries(suite)[name]
    stream = rows_of_r(kind) if "FROM r" in sql else BOOKS[kind]
    tables = {statement.this.this.name for statement in creates(schema(suite))}
    replay(connect(("reference", strategy)), schema(suite), {name: sql}, events(stream, tables))
