"""The queries on which provenance sketches are tried."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from oracle.harness import Engine, engines, nullable, replay_everyhow
from viewlet.workloads import imp, queries, schema
from viewlet.workloads.stream import Stream, churn, with_nulls

QUERIES = queries("imp")


@pytest.fixture(scope="module")
def stream() -> Stream:
    """Some hundred changes; those of ``crimes`` count a hundredfold, since a query looks for 1000."""
    tables = with_nulls(imp.tables(150, groups=6, beats=2), 0.03)
    made = churn(tables, 1)
    crimes = made.changes["crimes"]
    weights = pa.array(100 * np.array(crimes["_weight"]))
    heavy = crimes.set_column(crimes.column_names.index("_weight"), "_weight", weights)
    return Stream({**made.changes, "crimes": heavy}, made.places)


@engines
@pytest.mark.parametrize("query", QUERIES)
def test_small_stream(engine: Engine, query: str, stream: Stream) -> None:
    replay_everyhow(engine, nullable(schema("imp")), {query: QUERIES[query]}, stream, size=40, singles=40)
