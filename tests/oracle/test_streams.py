"""What the workloads promise: streams that are possible, keys that refer to rows, data that queries find."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from oracle.mirror import Mirror, question
from viewlet.workloads import (
    SUITES,
    WorkloadError,
    crimes,
    draws,
    imp,
    miniature,
    nexmark,
    order_book,
    queries,
    schema,
    tpcds,
    tpch,
)
from viewlet.workloads.ddl import arrow_schemas
from viewlet.workloads.stream import Stream, churn, load, round_robin, with_nulls

STREAMS = {
    "churn": churn(miniature.tables(20), 1),
    "churn to nothing": churn(miniature.tables(20), 2, deletions=1.0),
    "book": order_book.stream(2_000, order_book.drawn(50, 1.0), nulls=0.1, negatives=0.1, lifetime=100),
    "walk": order_book.stream(2_000, order_book.walk(50), deletions=0.5, lifetime=10),
    "adversarial": order_book.adversarial(500, prices=20),
    "market": nexmark.Market(rate=50).stream(2_000, first=130),
    "bounded": tpch.bounded(miniature.tables(60), orders=7),
}


@pytest.mark.parametrize("name", STREAMS)
def test_no_count_is_ever_negative(name: str) -> None:
    counts: Counter[tuple[str, tuple[object, ...]]] = Counter()
    for table, row, weight in STREAMS[name].rows():
        counts[table, row] += weight
        assert counts[table, row] >= 0
    if name == "churn to nothing":
        assert not +counts
    if name.startswith("churn"):
        assert any(abs(weight) > 1 for _, _, weight in STREAMS[name].rows())


@pytest.mark.parametrize("size", [1, 7, 100_000])
@pytest.mark.parametrize("name", STREAMS)
def test_batches_hold_the_rows_in_order(name: str, size: int) -> None:
    stream = STREAMS[name]
    changes: dict[str, list[object]] = {table: [] for table in stream.changes}
    for batch in stream.batches(size):
        assert 0 < sum(rows.num_rows for rows in batch.values()) <= size
        for table, rows in batch.items():
            changes[table] += rows.to_pylist()
    assert changes == {table: rows.to_pylist() for table, rows in stream.changes.items()}
    assert len(list(stream.rows())) == len(stream)
    split = [*stream.first(size).rows(), *stream.after(size).rows()]
    assert split == list(stream.rows())


def test_bounded_keeps_foreign_keys_and_sizes() -> None:
    present: dict[str, Counter[int]] = {name: Counter() for name in tpch.TABLES}
    key = {"orders": 0, "lineitem": 0}
    for table, row, weight in tpch.bounded(miniature.tables(60), orders=7, seed=1).rows():
        if table not in key:
            assert weight == 1
            continue
        present[table][row[0]] += weight
        if table == "lineitem":
            assert present["orders"][row[0]] == 1
        else:
            assert not present["lineitem"][row[0]]
        assert sum(present["orders"].values()) <= 7
    assert sum(present["orders"].values()) == 7
    assert set(+present["lineitem"]) <= set(+present["orders"])


def test_round_robin_is_in_proportion() -> None:
    stream = round_robin({"r": pa.table({"a": range(100)}), "s": pa.table({"b": range(400)})})
    for batch in stream.batches(50):
        assert (batch["r"].num_rows, batch["s"].num_rows) == (10, 40)


def test_tpch_has_the_declared_types_and_sizes() -> None:
    tables = tpch.tables(0.01)
    schemas = arrow_schemas(schema("tpch"))
    assert list(tables) == list(tpch.TABLES)
    assert all(rows.schema.equals(schemas[name]) for name, rows in tables.items())
    assert {name: tables[name].num_rows for name in ("nation", "orders", "lineitem")} == {
        "nation": 25,
        "orders": 15_000,
        "lineitem": 60_175,
    }
    stream = tpch.round_robin(tables)
    assert len(stream) == sum(rows.num_rows for rows in tables.values())
    assert [table for table, _, _ in stream.first(30).rows()] == ["region"] * 5 + ["nation"] * 25


@pytest.mark.parametrize(
    ("parent", "key", "child", "reference"),
    [
        ("item", "i_item_sk", "store_sales", "ss_item_sk"),
        ("date_dim", "d_date_sk", "store_sales", "ss_sold_date_sk"),
        ("customer", "c_customer_sk", "store_sales", "ss_customer_sk"),
        ("customer_address", "ca_address_sk", "customer", "c_current_addr_sk"),
    ],
)
def test_tpcds_keys_refer_to_rows(parent: str, key: str, child: str, reference: str) -> None:
    tables = tpcds.tables(500)
    assert set(tables[child][reference].drop_null().to_pylist()) <= set(tables[parent][key].to_pylist())
    sales = tables["store_sales"]
    assert sales.group_by(["ss_item_sk", "ss_ticket_number"]).aggregate([]).num_rows == sales.num_rows


@pytest.mark.parametrize(
    ("suite", "tables"),
    [
        ("tpch", miniature.tables()),
        ("tpcds", tpcds.tables()),
        ("imp", imp.tables(15_000, beats=2)),
        ("nexmark", nexmark.Market().tables(5_000) | {"side_input": nexmark.side_input()}),
    ],
    ids=["tpch", "tpcds", "imp", "nexmark"],
)
def test_every_query_finds_something(suite: str, tables: dict[str, pa.Table]) -> None:
    mirror = Mirror(schema(suite))
    mirror.apply(load(tables).whole())
    for name, sql in queries(suite).items():
        answer = mirror.answer(question(sql))
        assert any(value is not None for row in answer.must + answer.may for value in row), name


def test_adversarial_book_moves_the_boundary_across() -> None:
    """VWAP's boundary: the lowest price above which there is less than a quarter of the volume."""
    volumes: Counter[int] = Counter()
    boundaries = []
    for table, (_, _, _, volume, price), weight in order_book.adversarial(200, prices=20).rows():
        if table == "bids":
            volumes[price] += weight * volume
            total = sum(volumes.values())
            above = {p: sum(v for q, v in volumes.items() if q > p) for p in volumes}
            boundaries.append(min(p for p in volumes if 4 * above[p] < total))
    assert boundaries[20:] == [20, 1] * (len(boundaries[20:]) // 2)


def test_book_is_a_function_of_seed_and_number() -> None:
    short, long = (order_book.stream(n, order_book.walk(30), nulls=0.1, seed=9) for n in (300, 900))
    assert list(long.first(300).rows()) == list(short.rows())
    first, rest = crimes.crimes(40, seed=2), crimes.crimes(25, first=15, seed=2)
    assert first.slice(15).to_pylist() == rest.to_pylist()


def test_zipf_frequencies() -> None:
    drawn = np.bincount(draws.zipf(3, "x", np.arange(100_000), 4, 1.0), minlength=4) / 100_000
    assert np.allclose(drawn, np.array([1, 1 / 2, 1 / 3, 1 / 4]) / (25 / 12), atol=0.01)


def test_nulls_at_the_given_rate() -> None:
    rows = with_nulls({"r": pa.table({"a": np.arange(20_000), "b": np.arange(20_000)})}, 0.1)["r"]
    both = np.array(rows["a"].is_null()) & np.array(rows["b"].is_null())
    assert 0.09 < rows["a"].null_count / 20_000 < 0.11
    assert 0.005 < both.mean() < 0.015


def test_unknown_suites_and_impossible_parameters_are_refused() -> None:
    assert [name for name in SUITES if queries(name)] == list(SUITES)
    with pytest.raises(WorkloadError, match=r"tpcx.*existing: tpch"):
        queries("tpcx")
    with pytest.raises(WorkloadError, match="at least one change"):
        list(Stream({}, {}).batches(0))
    with pytest.raises(WorkloadError, match=r"0\.7"):
        order_book.stream(10, order_book.drawn(5), deletions=0.7)
    with pytest.raises(WorkloadError, match="at least one order"):
        tpch.bounded({}, orders=0)
