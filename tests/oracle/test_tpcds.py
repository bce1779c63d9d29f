"""The chosen TPC-DS queries, on TPC-DS-like data."""

from __future__ import annotations

import pytest

from oracle.harness import (
    Engine,
    connect,
    engines,
    incremental_engines,
    nullable,
    replay,
    replay_everyhow,
    replay_late,
)
from viewlet.workloads import queries, schema, tpcds
from viewlet.workloads.stream import Stream, churn, load

QUERIES = queries("tpcds")


def stream(sales: int) -> Stream:
    """Dimensions first, then sales that come and go; at the end, changes of every table."""
    tables = tpcds.tables(sales)
    facts = {"store_sales": tables.pop("store_sales")}
    return (
        load(tables)
        .then(churn(facts, 1, deletions=0.15, duplicates=0.05))
        .then(churn({name: rows.slice(0, 6) for name, rows in tables.items()}, 2))
    )


@incremental_engines
@pytest.mark.parametrize("query", QUERIES)
def test_sales(engine: Engine, query: str) -> None:
    replay_everyhow(
        engine,
        nullable(schema("tpcds")),
        {query: QUERIES[query]},
        stream(700),
        size=300,
        singles=25,
        late=False,
    )


@incremental_engines
@pytest.mark.slow
@pytest.mark.parametrize("query", QUERIES)
def test_views_created_late(engine: Engine, query: str) -> None:
    """In the long run only: these queries take seconds to compile, once more for every database."""
    replay_late(engine, nullable(schema("tpcds")), {query: QUERIES[query]}, stream(700), singles=25)


@engines
@pytest.mark.slow
@pytest.mark.parametrize("query", QUERIES)
def test_sales_row_by_row(engine: Engine, query: str) -> None:
    tables = tpcds.tables(300)
    replay(connect(engine), nullable(schema("tpcds")), {query: QUERIES[query]}, churn(tables, 3).batches(1))
