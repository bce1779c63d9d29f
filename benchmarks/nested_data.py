"""The cases of the benchmark ``nested``: queries, tables of a size, and single changes to them.

Tables hold the columns that a query reads and no others. Every table that changes does so in pairs: a row of
the beginning goes, a new one comes, and all the way back, so that sizes stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from viewlet.sql.catalog import Catalog
from viewlet.values import arrow_type
from viewlet.workloads import draws, queries, schema, tpch

BROKERS = 10
LINES_PER_PART = 30
SCALE = 0.1
"""The scale factor of the TPC-H cases that are measured on the benchmark's own data."""

Changes = list[tuple[str, pa.Table, np.ndarray]]

PARTS = """
CREATE TABLE lineitem (l_partkey BIGINT NOT NULL, l_quantity DECIMAL(15,2) NOT NULL,
                       l_extendedprice DECIMAL(15,2) NOT NULL);
CREATE TABLE part (p_partkey BIGINT NOT NULL, p_brand VARCHAR NOT NULL, p_container VARCHAR NOT NULL)
"""
SHARES = """
CREATE TABLE partsupp (ps_partkey BIGINT NOT NULL, ps_suppkey BIGINT NOT NULL, ps_availqty INT NOT NULL,
                       ps_supplycost DECIMAL(15,2) NOT NULL);
CREATE TABLE supplier (s_suppkey BIGINT NOT NULL, s_nationkey BIGINT NOT NULL);
CREATE TABLE nation (n_nationkey BIGINT NOT NULL, n_name VARCHAR NOT NULL)
"""
REVENUE = """
CREATE TABLE lineitem (l_suppkey BIGINT NOT NULL, l_extendedprice DECIMAL(15,2) NOT NULL,
                       l_discount DECIMAL(15,2) NOT NULL, l_shipdate DATE NOT NULL);
CREATE TABLE supplier (s_suppkey BIGINT NOT NULL, s_name VARCHAR NOT NULL, s_address VARCHAR NOT NULL,
                       s_phone VARCHAR NOT NULL)
"""
LARGE = """
CREATE TABLE lineitem (l_orderkey BIGINT NOT NULL, l_quantity DECIMAL(15,2) NOT NULL);
CREATE TABLE orders (o_orderkey BIGINT NOT NULL, o_custkey BIGINT NOT NULL, o_orderdate DATE NOT NULL,
                     o_totalprice DECIMAL(15,2) NOT NULL);
CREATE TABLE customer (c_custkey BIGINT NOT NULL, c_name VARCHAR NOT NULL)
"""
IDLE = """
CREATE TABLE customer (c_custkey BIGINT NOT NULL, c_phone VARCHAR NOT NULL, c_acctbal DECIMAL(15,2) NOT NULL);
CREATE TABLE orders (o_custkey BIGINT NOT NULL)
"""


@dataclass(frozen=True)
class Task:
    """One measurement."""

    system: str
    query: str
    n: int
    events: int
    seconds: float
    tick: int = 1
    adversarial: bool = False


@dataclass(frozen=True)
class Case:
    """A query: what a change of it is to cost, where its text is, and what changes.

    ``limits`` are the columns that the limit programs read, if there are such programs. ``most`` is the
    largest size that is measured: a query that ``grows`` with the levels needs no more to show it. ``real``
    cases run on TPC-H's own data. Where the result is a selection of groups (``selects``), a strategy may
    keep the groups alone; going through them is then part of a refresh.
    """

    goal: str
    suite: str
    tables: tuple[str, ...] = ("bids",)
    limits: tuple[str, ...] = ()
    name: str = ""
    ddl: str = ""
    most: int = 10**9
    grows: bool = False
    real: bool = False
    selects: bool = False


LOG = "O(log n)"
BOTH = ("bids", "asks")
LEVELS = 10_000
CASES = {
    "eq": Case("O(1)", "nested", ("r",)),
    "max_eq": Case(LOG, "nested", ("r",)),
    "max_ineq": Case("O(log n)", "nested"),
    "vwap": Case(LOG, "finance", limits=("price", "volume")),
    "vwap75": Case(LOG, "nested"),
    "vwap_by_broker": Case(LOG, "nested"),
    "mst": Case(LOG, "finance", BOTH, ("broker_id", "price", "volume")),
    "psp": Case(LOG, "finance", BOTH, ("price", "volume")),
    "nq1": Case(LOG, "nested"),
    "nq2": Case("O(levels)", "nested", most=LEVELS, grows=True),
    "sq1": Case("O(levels log n)", "nested", most=LEVELS, grows=True),
    "sq2": Case("O(log n) while monotone", "nested"),
    "axf": Case(LOG, "finance", BOTH),
    "bsp": Case(LOG, "finance"),
    "bsv": Case("O(1)", "finance"),
    "q17": Case(LOG, "tpch", ("lineitem",), ddl=PARTS),
    "q17_skewed": Case(LOG, "tpch", ("lineitem",), name="q17", ddl=PARTS),
    "q17_fine": Case(LOG, "tpch", ("lineitem",), name="q17", ddl=PARTS),
    "q11": Case("O(log n + rows that change)", "tpch", ("partsupp",), ddl=SHARES, selects=True),
    "q15": Case("O(log n + rows that change)", "tpch", ("lineitem",), ddl=REVENUE),
    "q22": Case("O(log n + rows that change)", "tpch", ("customer", "orders"), ddl=IDLE),
    "q18": Case("O(1)", "tpch", ("lineitem",), ddl=LARGE),
    "q11_tpch": Case("", "tpch", ("partsupp",), name="q11", real=True, selects=True),
    "q15_tpch": Case("", "tpch", ("lineitem",), name="q15", real=True),
}


def text_of(query: str) -> str:
    """The query as its workload prints it, but for the order of rows, which nobody keeps."""
    case = CASES[query]
    text = queries(case.suite)[case.name or query]
    return text.split("ORDER BY")[0] if case.selects else text


def ddl_of(query: str) -> str:
    """Its tables."""
    case = CASES[query]
    return case.ddl or schema(case.suite)


def typed(rows: pa.Table, catalog: Catalog, table: str) -> pa.RecordBatch:
    """All columns of a table in its order and types."""
    columns = [rows[c.name].combine_chunks().cast(arrow_type(c.type)) for c in catalog[table].columns]
    return pa.record_batch(columns, names=[c.name for c in catalog[table].columns])


def empty(catalog: Catalog, table: str) -> pa.Table:
    """A table without rows."""
    return pa.table({c.name: pa.array([], arrow_type(c.type)) for c in catalog[table].columns})


# Rows by number


def orders(index: np.ndarray, task: Task) -> pa.Table:
    """Orders of a book, ``tick`` apart in what is searched among: in PSP that is volumes, not prices."""
    wide = task.query == "psp"
    volumes, prices = (task.tick, 1) if wide else (1, task.tick)
    return pa.table(
        {
            "t": index,
            "id": index,
            "broker_id": draws.integers(0, "broker", index, 0, BROKERS),
            "volume": volumes * draws.integers(0, "volume", index, 1, (task.n if wide else 100) + 1),
            "price": prices * draws.integers(0, "price", index, 1, task.n + 1),
        }
    )


def pairs(index: np.ndarray, task: Task) -> pa.Table:
    """Rows of r, ten to a group."""
    groups = max(task.n // 10, 1)
    a, b = draws.integers(0, "a", index, 0, groups), draws.integers(0, "b", index, 1, 101)
    return pa.table({"a": a, "b": b})


def part_lines(index: np.ndarray, task: Task) -> pa.Table:
    """Lines of parts in 50 quantities, as in TPC-H; skewed: most of few parts; fine: in 5,000 besides."""
    parts = max(task.n // LINES_PER_PART, 1)
    keys = draws.zipf(0, "part", index, parts, 0.0 if task.query == "q17" else 1.0)
    most = 5_000 if task.query == "q17_fine" else 50
    return pa.table(
        {
            "l_partkey": keys,
            "l_quantity": _decimals(draws.integers(0, "quantity", index, 1, most + 1)),
            "l_extendedprice": _decimals(draws.integers(0, "price", index, 1_000, 100_000)),
        }
    )


def stocks(index: np.ndarray, task: Task) -> pa.Table:
    """Parts by supplier, four suppliers to a part."""
    return pa.table(
        {
            "ps_partkey": draws.integers(0, "part", index, 0, max(task.n // 4, 1)),
            "ps_suppkey": draws.integers(0, "supplier", index, 0, max(task.n // 80, 25)),
            "ps_availqty": draws.integers(0, "available", index, 1, 10_000),
            "ps_supplycost": _decimals(draws.integers(0, "cost", index, 1, 1_000)),
        }
    )


def sales(index: np.ndarray, task: Task) -> pa.Table:
    """Lines of suppliers, 60 to each, all of the quarter that Q15 asks for."""
    return pa.table(
        {
            "l_suppkey": draws.integers(0, "supplier", index, 0, max(task.n // 60, 1)),
            "l_extendedprice": _decimals(draws.integers(0, "price", index, 1_000, 100_000)),
            "l_discount": _decimals(draws.integers(0, "discount", index, 0, 2)),
            "l_shipdate": pa.array(np.full(len(index), np.datetime64("1996-02-01"))),
        }
    )


def order_lines(index: np.ndarray, task: Task) -> pa.Table:
    """Lines of orders, four to each."""
    return pa.table(
        {
            "l_orderkey": draws.integers(0, "order", index, 0, max(task.n // 4, 1)),
            "l_quantity": _decimals(draws.integers(0, "quantity", index, 1, 151)),
        }
    )


def customers(index: np.ndarray, task: Task) -> pa.Table:
    """Customers of 25 countries, some with debts."""
    country = draws.integers(0, "country", index, 10, 35)
    return pa.table(
        {
            "c_custkey": index,
            "c_phone": [f"{c}-555" for c in country.tolist()],
            "c_acctbal": _decimals(draws.integers(0, "balance", index, -1_000, 10_000)),
        }
    )


def purchases(index: np.ndarray, task: Task) -> pa.Table:
    """Orders of two thirds of the customers."""
    keys = draws.integers(0, "customer", index, 0, max(task.n // 3, 1))
    return pa.table({"o_custkey": keys * 3 // 2})


def _decimals(values: np.ndarray) -> pa.Array:
    return pa.array(values).cast(pa.decimal128(21, 2)).cast(pa.decimal128(15, 2))


Make = Callable[[np.ndarray, Task], pa.Table]
MAKERS: dict[tuple[str, str], Make] = {
    ("q17", "lineitem"): part_lines,
    ("q17_skewed", "lineitem"): part_lines,
    ("q17_fine", "lineitem"): part_lines,
    ("q11", "partsupp"): stocks,
    ("q15", "lineitem"): sales,
    ("q18", "lineitem"): order_lines,
    ("q22", "customer"): customers,
    ("q22", "orders"): purchases,
}


def beside(task: Task) -> dict[str, pa.Table]:
    """The tables that a query reads and that stay as they are."""
    match task.query:
        case "q17" | "q17_skewed" | "q17_fine":
            keys = np.arange(max(task.n // LINES_PER_PART, 1))
            same = {"p_brand": ["Brand#23"] * len(keys), "p_container": ["MED BOX"] * len(keys)}
            return {"part": pa.table({"p_partkey": keys} | same)}
        case "q11":
            keys = np.arange(max(task.n // 80, 25))
            nations = [f"NATION {i}" if i != 7 else "GERMANY" for i in range(25)]
            return {
                "supplier": pa.table({"s_suppkey": keys, "s_nationkey": keys % 25}),
                "nation": pa.table({"n_nationkey": np.arange(25), "n_name": nations}),
            }
        case "q15":
            keys = np.arange(max(task.n // 60, 1))
            text = [f"{key}" for key in keys.tolist()]
            return {
                "supplier": pa.table({"s_suppkey": keys, "s_name": text, "s_address": text, "s_phone": text})
            }
        case "q18":
            keys = np.arange(max(task.n // 4, 1))
            buyers = np.arange(max(task.n // 40, 1))
            sold = {
                "o_orderkey": keys,
                "o_custkey": keys % len(buyers),
                "o_orderdate": pa.array(np.full(len(keys), np.datetime64("1996-02-01"))),
                "o_totalprice": _decimals(keys + 1),
            }
            names = [f"Customer {i}" for i in buyers.tolist()]
            return {"orders": pa.table(sold), "customer": pa.table({"c_custkey": buyers, "c_name": names})}
        case _:
            return {}


def quantities_met(query: str, n: int) -> float:
    """Of how many distinct quantities the lines of the part are that a change of Q17 is of, on average.

    So many steps has a program without an ordered index, if it keeps one sum for each of them.
    """
    index = np.arange(n)
    lines = part_lines(index, Task("scans", query, n, 0, 0.0))
    kinds = lines.group_by(["l_partkey", "l_quantity"]).aggregate([])["l_partkey"].to_numpy()
    by_part = np.bincount(kinds)
    return float(by_part[lines["l_partkey"].to_numpy()].mean())


def _maker(query: str, table: str) -> Make:
    return MAKERS.get((query, table)) or (pairs if table == "r" else orders)


def fill_and_changes(task: Task) -> tuple[dict[str, pa.Table], Changes]:
    """The rows to begin with, and changes by table."""
    case = CASES[task.query]
    if case.real:
        return _tpch(task)
    half = min(task.events // 2, task.n)
    gone = np.unique(draws.integers(0, "gone", np.arange(2 * half), 0, task.n))[:half]
    fill, changes = {}, []
    for i, table in enumerate(case.tables):
        make = _maker(task.query, table)
        own = np.arange(task.n) * len(case.tables) + i
        new = (task.n + np.arange(len(gone))) * len(case.tables) + i
        fill[table] = make(own, task)
        index, weights = _there_and_back(np.column_stack([own[gone], new]).reshape(-1), task.events)
        changes.append((table, make(index, task), weights))
        if task.adversarial:
            changes[-1] = (table, *_jumps(task, fill, table))
    return fill | beside(task), changes


def _there_and_back(index: np.ndarray, events: int) -> tuple[np.ndarray, np.ndarray]:
    weights = np.resize([-1, 1], len(index))
    whole = np.concatenate([index, index[::-1]]), np.concatenate([weights, -weights[::-1]])
    rows, signs = (np.resize(part, events) for part in whole)
    return rows, signs.astype(np.int64)


def _jumps(task: Task, fill: dict[str, pa.Table], side: str) -> tuple[pa.Table, np.ndarray]:
    """One order so large that the edge leaps from one end of the book to the other, and back.

    There is a small order at either end before: what is measured is the leap, not the growth of the book.
    """
    heavy = pa.table({"t": [0], "id": [0], "broker_id": [0], "volume": [400 * task.n], "price": [1]})
    light = heavy.set_column(3, "volume", [[1]]).set_column(4, "price", [[task.n + 1]])
    fill[side] = pa.concat_tables([fill[side], *(end.cast(fill[side].schema) for end in (heavy, light))])
    top = light.set_column(3, "volume", [[4_000 * task.n]])
    rows = pa.concat_tables([top] * task.events).combine_chunks().cast(fill[side].schema)
    return rows, np.resize([1, -1], task.events).astype(np.int64)


def _tpch(task: Task) -> tuple[dict[str, pa.Table], Changes]:
    """The benchmark's own tables; rows of them go and come back."""
    (changing,) = CASES[task.query].tables
    fill = tpch.tables(SCALE, ("nation", "supplier", changing))
    rows = fill[changing].combine_chunks()
    gone = np.unique(draws.integers(0, "gone", np.arange(task.events // 2), 0, rows.num_rows))
    weights = np.resize([-1, 1], 2 * len(gone)).astype(np.int64)
    return fill, [(changing, rows.take(np.repeat(gone, 2)), weights)]
