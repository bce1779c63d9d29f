"""Nested sums under conditions that no ordered index helps, kept in view caches, against DuckDB."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from laws.cached_sql import CONDITIONS, DDL, FORMS, cached_query
from oracle.harness import Engine, replay_everyhow
from viewlet.workloads.ddl import arrow_schemas, conform
from viewlet.workloads.draws import integers
from viewlet.workloads.stream import churn, with_nulls

# Each form with a condition of its own, so that every view has caches of its own in one program.
VIEWS = [
    {
        form: cached_query(form, list(CONDITIONS)[(i + shift) % len(CONDITIONS)])
        for i, form in enumerate(FORMS)
    }
    for shift in range(len(CONDITIONS))
]
FEW = {form: VIEWS[0][form] for form in ("threshold", "exists", "joined")}
LONG: list[Engine] = [("reference", "view_caches"), ("native", "view_caches"), ("native", "auto")]


def rows(count: int) -> dict[str, pa.Table]:
    """Few values, so that they come back; some below zero and some NULL."""
    index = np.arange(count)
    tables = {
        table: conform({name: integers(1, f"{table}/{name}", index, -2, 5) for name in schema.names}, schema)
        for table, schema in arrow_schemas(DDL).items()
    }
    return with_nulls(tables, 0.1)


@pytest.mark.parametrize("backend", ["reference", "native"])
def test_view_caches(backend: str) -> None:
    replay_everyhow((backend, "view_caches"), DDL, FEW, churn(rows(8), 7, deletions=0.8), size=9, singles=16)


@pytest.mark.slow
@pytest.mark.parametrize("engine", LONG, ids="-".join)
@pytest.mark.parametrize("views", VIEWS)
def test_every_condition_in_every_form(engine: Engine, views: dict[str, str]) -> None:
    replay_everyhow(engine, DDL, views, churn(rows(16), 1, deletions=0.6), size=9, singles=20)
