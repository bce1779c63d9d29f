"""What the demo shows: two databases, twelve views, and the streams that change them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from viewlet.demo.sources import order_tables, orders_and_cancellations
from viewlet.workloads import queries, schema, tpch
from viewlet.workloads.stream import Stream

DEPTH = """
SELECT price, SUM(volume) AS volume, COUNT(*) AS orders
FROM bids GROUP BY price ORDER BY price DESC LIMIT 5
"""
TOP = """
SELECT MAX(price) AS highest_bid, (SELECT MIN(price) FROM asks) AS lowest_ask FROM bids
"""
BALANCE = """
SELECT b.broker_id, b.volume AS bid_volume, a.volume AS ask_volume
FROM (SELECT broker_id, SUM(volume) AS volume FROM bids GROUP BY broker_id) b
JOIN (SELECT broker_id, SUM(volume) AS volume FROM asks GROUP BY broker_id) a ON a.broker_id = b.broker_id
"""

SPREADS = """
SELECT b.broker_id, a.lowest - b.highest AS spread
FROM (SELECT broker_id, MAX(price) AS highest FROM bids GROUP BY broker_id) b
JOIN (SELECT broker_id, MIN(price) AS lowest FROM asks GROUP BY broker_id) a ON a.broker_id = b.broker_id
"""
ACTIVE = """
SELECT COUNT(DISTINCT broker_id) AS brokers, COUNT(DISTINCT price) AS prices, COUNT(*) AS orders FROM bids
"""

START = 2_000


@dataclass(frozen=True, slots=True)
class Scene:
    """Tables, views and a stream. ``captions`` say in words what each view holds.

    ``stream`` gives what is there at the start, and about as many changes as asked for that come then.
    """

    title: str
    about: str
    schema: str
    views: Mapping[str, str]
    captions: Mapping[str, str]
    stream: Callable[[int], tuple[Stream, Stream]]


def order_book_scene(spark: Any = None) -> Scene:
    """Bids and asks that come and are cancelled; made by Spark if a session is given."""

    def stream(changes: int) -> tuple[Stream, Stream]:
        orders = orders_and_cancellations(START + changes, spark)
        return orders.first(START), orders.after(START)

    return Scene(
        "Order book",
        "orders arrive and are cancelled around a price that wanders",
        schema("finance"),
        {
            "vwap": queries("finance")["vwap"],
            "depth": DEPTH,
            "top": TOP,
            "balance": BALANCE,
            "spreads": SPREADS,
            "active": ACTIVE,
        },
        {
            "vwap": "money in the bids of the top quarter of volume (nested, correlated by >)",
            "depth": "the five highest bid prices (ORDER BY, LIMIT)",
            "top": "the highest bid and the lowest ask (MIN and MAX under cancellations)",
            "balance": "volume on both sides, by broker (a join of aggregates)",
            "spreads": "what lies between a broker's best bid and best ask (MIN and MAX, joined)",
            "active": "how many brokers and prices there are (COUNT DISTINCT)",
        },
        stream,
    )


def orders_scene(spark: Any = None) -> Scene:
    """TPC-H tables in which a new order takes the place of an old one; made by Spark if it is given."""

    def stream(changes: int) -> tuple[Stream, Stream]:
        # an order comes with about three lines, and all of them go again
        tables = order_tables((START + changes) // 8, spark)
        whole = tpch.bounded(tables, orders=2_000)
        parents = sum(rows.num_rows for name, rows in tables.items() if name not in ("orders", "lineitem"))
        return whole.first(parents + START), whole.after(parents + START)

    names = ("q01", "q03", "q04", "q06", "q12", "q15")
    return Scene(
        "Orders and line items",
        "new orders replace old ones; TPC-H's schema and queries over generated rows, not a TPC-H result",
        schema("tpch"),
        {name: queries("tpch")[name] for name in names},
        {
            "q01": "pricing summary: eight aggregates per group",
            "q03": "the ten open orders worth most (a three-way join, ORDER BY, LIMIT)",
            "q04": "orders with a late line, by priority (EXISTS)",
            "q06": "revenue that a smaller discount would bring (three ranges)",
            "q12": "late lines by shipping mode (a join and CASE)",
            "q15": "the supplier with the most revenue (equal to a nested MAX)",
        },
        stream,
    )


SCENES = (order_book_scene, orders_scene)
