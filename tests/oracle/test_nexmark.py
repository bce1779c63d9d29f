"""Nexmark's queries over auctions that come, change their mind and go: on small markets, with few windows."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from oracle.harness import Engine, engines, incremental_engines, nullable, replay_everyhow
from viewlet.workloads import nexmark, queries, schema
from viewlet.workloads.nexmark import Market
from viewlet.workloads.stream import Stream, churn, load, with_nulls

QUERIES = queries("nexmark")

SMALL = Market(rate=20, in_flight=10, active=10, first_id=984)
"""Ten seconds are 200 events; 984 is a multiple of 123, so that q02 asks for the first hot auction."""
SLOW_TO_COMPILE = {"q04", "q05", "q09", "q15", "q16"}


def market(events: int) -> Stream:
    """The events as they come, then again as rows that come twice, go, and cancel."""
    tables = SMALL.tables(events)
    side = {"side_input": side_input()}
    return load(side).then(SMALL.stream(events)).then(churn(tables | side, 1))


def side_input() -> pa.Table:
    """Twice some of the keys that these auctions have."""
    rows = nexmark.side_input(1_010)
    return rows.take(pa.array([*range(984, 1_010), 984, 990]))


@incremental_engines
@pytest.mark.parametrize("query", QUERIES)
def test_market(engine: Engine, query: str) -> None:
    replay_everyhow(
        engine,
        nullable(schema("nexmark")),
        {query: QUERIES[query]},
        market(300),
        size=150,
        singles=20,
        late=query not in SLOW_TO_COMPILE,
    )


@engines
@pytest.mark.parametrize("query", ["q04", "q05", "q08", "q09", "q13", "q18", "q19"])
def test_market_with_nulls(engine: Engine, query: str) -> None:
    stream = churn(with_nulls(SMALL.tables(200) | {"side_input": side_input()}, 0.05), 3, deletions=0.5)
    replay_everyhow(
        engine,
        nullable(schema("nexmark")),
        {query: QUERIES[query]},
        stream,
        size=60,
        singles=20,
        late=False,
    )


@incremental_engines
@pytest.mark.parametrize("query", QUERIES)
def test_market_with_its_keys(engine: Engine, query: str) -> None:
    """With keys and NOT NULL the programs are others."""
    stream = load({"side_input": side_input()}).then(SMALL.stream(300))
    replay_everyhow(
        engine, schema("nexmark"), {query: QUERIES[query]}, stream, size=100, singles=20, late=False
    )


def test_events_are_a_function_of_seed_and_number() -> None:
    short, later = SMALL.tables(70), SMALL.tables(500, first=70)
    whole = SMALL.tables(570)
    for table, rows in whole.items():
        assert pa.concat_tables([short[table], later[table]]).equals(rows)
    assert not Market(seed=1).tables(100)["bid"].equals(Market(seed=2).tables(100)["bid"])


def test_the_market_is_as_published() -> None:
    tables = Market().tables(100_000)
    assert [tables[name].num_rows for name in nexmark.SPANS] == [2_000, 6_000, 92_000]
    bid, auction, person = tables["bid"], tables["auction"], tables["person"]
    assert person["id"].to_pylist() == list(range(1_000, 3_000))
    assert auction["id"].to_pylist() == list(range(1_000, 7_000))
    hot = np.isin(bid["auction"].to_numpy() % 100, [0])
    keen = np.isin(bid["bidder"].to_numpy() % 100, [1])
    assert abs(hot.mean() - 0.505) < 0.01
    assert abs(keen.mean() - 0.7525) < 0.01
    prices = np.log10(bid["price"].to_numpy() / 100)
    assert abs(np.median(prices) - 3) < 0.05
    assert prices.min() >= 0
    assert prices.max() <= 6
    times = bid["date_time"].cast(pa.int64()).to_numpy()
    assert (np.diff(times) >= 0).all()
    assert times[-1] - times[0] == 9_999_000 - 0
    assert set(auction["category"].to_pylist()) == set(range(10, 15))
    lasts = (
        auction["expires"].cast(pa.int64()).to_numpy() - auction["date_time"].cast(pa.int64()).to_numpy()
    ) / 1_000
    assert abs(lasts.mean() - 100 * 50 / 3 / 10) < 5
    for table, bytes_per_row in (("person", 200), ("auction", 500), ("bid", 170)):
        assert 0.8 < tables[table].nbytes / tables[table].num_rows / bytes_per_row < 1.2
