"""A TPC-H small enough to replay row by row, yet with something to find for each of the 22 queries.

Random TPC-H rows almost never satisfy the narrow predicates of the queries, so a small sample gives empty
results that prove nothing. Here every column that a query tests takes few values, most of which some query
asks for; keys refer to rows that exist. It is TPC-H by schema only.
"""

from __future__ import annotations

from datetime import date
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from viewlet.workloads import draws, schema
from viewlet.workloads.ddl import arrow_schemas, conform
from viewlet.workloads.draws import Index

Columns: TypeAlias = dict[str, Any]

REGIONS = ("EUROPE", "ASIA", "AMERICA", "MIDDLE EAST")
# Nation, the number of its region, and the country code of its telephone numbers. Early ones have
# more suppliers and customers.
NATIONS = (
    ("CHINA", 1, "31"),
    ("CANADA", 2, "30"),
    ("SAUDI ARABIA", 3, "18"),
    ("FRANCE", 0, "13"),
    ("GERMANY", 0, "17"),
    ("BRAZIL", 2, "29"),
)
TYPES = ("ECONOMY ANODIZED STEEL", "STANDARD POLISHED BRASS", "PROMO BURNISHED TIN", "MEDIUM POLISHED BRASS")
BRANDS = ("Brand#23", "Brand#12", "Brand#34", "Brand#45")
CONTAINERS = ("MED BOX", "SM CASE", "LG PKG", "JUMBO JAR")
PART_NAMES = ("forest green", "forest blue", "dark green", "plum red")
SIZES = (15, 3, 9, 14)
# Months in which some query looks for orders or shipments.
MONTHS = tuple(
    date(*month)
    for month in (
        (1993, 8, 1),
        (1993, 11, 1),
        (1994, 2, 1),
        (1994, 6, 1),
        (1995, 2, 20),
        (1995, 9, 1),
        (1996, 2, 1),
    )
)


def tables(orders: int = 80, seed: int = 1) -> dict[str, pa.Table]:
    """The eight tables, parents before children; with these defaults every query finds something.

    >>> {name: rows.num_rows for name, rows in tables(10).items()}["orders"]
    10
    """
    suppliers, customers, parts = max(orders // 5, 6), max(orders // 4, 8), max(orders // 5, 8)
    partsupp = _partsupp(parts, suppliers, seed)
    columns = {
        "region": {"r_regionkey": np.arange(len(REGIONS)), "r_name": REGIONS},
        "nation": _nation(),
        "supplier": _supplier(np.arange(suppliers), seed),
        "customer": _customer(np.arange(customers), seed),
        "part": _part(np.arange(parts), seed),
        "partsupp": partsupp,
        "orders": _orders(np.arange(orders), customers, seed),
    }
    columns["lineitem"] = _lineitem(columns["orders"], partsupp, seed)
    schemas = arrow_schemas(schema("tpch"))
    return {name: conform(values, schemas[name], seed) for name, values in columns.items()}


def _nation() -> Columns:
    names, regions, _ = zip(*NATIONS, strict=True)
    return {"n_nationkey": np.arange(len(NATIONS)), "n_name": names, "n_regionkey": regions}


def _supplier(key: Index, seed: int) -> Columns:
    nation = key % len(NATIONS)
    return {
        "s_suppkey": key,
        "s_name": [f"Supplier#{k}" for k in key],
        "s_nationkey": nation,
        "s_phone": _phones(nation, key),
        "s_acctbal": draws.integers(seed, "s_acctbal", key, -99, 999) / 4,
        "s_comment": draws.choice(
            seed, "s_comment", key, ("quick", "Customer: many Complaints", "slow"), 1.0
        ),
    }


def _customer(key: Index, seed: int) -> Columns:
    nation = draws.zipf(seed, "c_nationkey", key, len(NATIONS), 0.5)
    return {
        "c_custkey": key,
        "c_name": [f"Customer#{k}" for k in key],
        "c_nationkey": nation,
        "c_phone": _phones(nation, key),
        "c_acctbal": draws.integers(seed, "c_acctbal", key, -99, 999) / 4,
        "c_mktsegment": draws.choice(seed, "c_mktsegment", key, ("BUILDING", "MACHINERY"), 1.0),
    }


def _phones(nation: NDArray[np.int64], key: Index) -> list[str]:
    return [f"{NATIONS[n][2]}-{k:03}" for n, k in zip(nation, key, strict=True)]


def _part(key: Index, seed: int) -> Columns:
    # Brand, container and size go together, as Q19 wants them; Q17 wants the first pair.
    kind = draws.zipf(seed, "p_brand", key, len(BRANDS), 0.5)
    return {
        "p_partkey": key,
        "p_name": draws.choice(seed, "p_name", key, PART_NAMES),
        "p_brand": np.array(BRANDS)[kind],
        "p_container": np.array(CONTAINERS)[kind],
        "p_type": draws.choice(seed, "p_type", key, TYPES, 0.5),
        "p_size": np.array(SIZES)[draws.zipf(seed, "p_size", key, len(SIZES), 0.7)],
        "p_retailprice": draws.integers(seed, "p_retailprice", key, 1, 400) / 4,
    }


def _partsupp(parts: int, suppliers: int, seed: int) -> Columns:
    pair = np.arange(parts * 3)
    return {
        "ps_partkey": pair // 3,
        "ps_suppkey": (pair // 3 + pair % 3 * max(suppliers // 3, 1)) % suppliers,
        "ps_availqty": draws.integers(seed, "ps_availqty", pair, 1, 200),
        "ps_supplycost": draws.integers(seed, "ps_supplycost", pair, 1, 6) / 4,
    }


def _orders(key: Index, customers: int, seed: int) -> Columns:
    # A third of the customers never orders: Q13 and Q22 look for them.
    return {
        "o_orderkey": key,
        "o_custkey": draws.integers(seed, "o_custkey", key, 0, max(customers * 2 // 3, 1)),
        "o_orderstatus": draws.choice(seed, "o_orderstatus", key, ("F", "O", "P"), 1.0),
        "o_totalprice": draws.integers(seed, "o_totalprice", key, 100, 500) / 4,
        "o_orderdate": _days("o_orderdate", key, seed),
        "o_orderpriority": draws.choice(seed, "o_orderpriority", key, ("1-URGENT", "2-HIGH", "3-MEDIUM")),
        "o_shippriority": np.zeros(len(key), np.int64),
        "o_comment": draws.choice(seed, "o_comment", key, ("fast", "special packed requests", "slow"), 1.0),
    }


def _lineitem(orders: Columns, partsupp: Columns, seed: int) -> Columns:
    # One order in eight is large: Q18 looks for more than 300 pieces.
    large = draws.chance(seed, "large", orders["o_orderkey"], 1 / 8)
    counts = np.where(large, 8, draws.integers(seed, "lines", orders["o_orderkey"], 1, 5))
    owner = np.repeat(np.arange(len(counts)), counts)
    line = np.arange(len(owner))
    pair = draws.zipf(seed, "pair", line, len(partsupp["ps_partkey"]), 0.7)
    shipped = np.array(orders["o_orderdate"])[owner] + draws.integers(seed, "shipped", line, 1, 60)
    committed = shipped + draws.integers(seed, "committed", line, -5, 40)
    small = draws.chance(seed, "small", line, 0.3)
    return {
        "l_orderkey": orders["o_orderkey"][owner],
        "l_partkey": partsupp["ps_partkey"][pair],
        "l_suppkey": partsupp["ps_suppkey"][pair],
        "l_linenumber": line - np.repeat(np.cumsum(counts) - counts, counts) + 1,
        "l_quantity": np.where(
            large[owner], 45, np.where(small, 1, draws.integers(seed, "l_quantity", line, 5, 31))
        ),
        "l_extendedprice": draws.integers(seed, "l_extendedprice", line, 4, 4000) / 4,
        "l_discount": draws.integers(seed, "l_discount", line, 4, 9) / 100,
        "l_tax": draws.integers(seed, "l_tax", line, 0, 9) / 100,
        "l_returnflag": draws.choice(seed, "l_returnflag", line, ("R", "A", "N")),
        "l_linestatus": draws.choice(seed, "l_linestatus", line, ("F", "O")),
        "l_shipdate": shipped,
        "l_commitdate": committed,
        "l_receiptdate": shipped + draws.integers(seed, "received", line, 1, 30),
        "l_shipinstruct": draws.choice(seed, "l_shipinstruct", line, ("DELIVER IN PERSON", "NONE"), 1.0),
        "l_shipmode": draws.choice(seed, "l_shipmode", line, ("AIR", "MAIL", "SHIP", "AIR REG")),
    }


def _days(draw: str, key: Index, seed: int) -> NDArray[np.int64]:
    """Days since 1970-01-01, each within a month of one of ``MONTHS``."""
    starts = np.array([(month - date(1970, 1, 1)).days for month in MONTHS])
    return starts[draws.integers(seed, draw, key, 0, len(starts))] + draws.integers(
        seed, draw + " day", key, 0, 28
    )
