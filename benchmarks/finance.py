"""The finance queries: refreshes per second against hand-written C, DBToaster and what one uses instead.

    python benchmarks/finance.py [--quick] [--events 100000] [--queries vwap ..] [--seconds 2]

An order book with 20 % cancellations over 1,000 prices. See ``rates.py`` for what is measured.
"""

from __future__ import annotations

from functools import partial

import native
import reports
from cells import postgres
from rates import Run, write
from rivals import REWRITTEN, DuckDB, Kept, Make, NumPy, PostgreSQL, SQLite, Streamed
from viewlet.workloads import order_book, queries

RESULTS = reports.results("finance")
LAST = 2_000
PRICES = 1_000

PUBLISHED = {"axf": 404e3, "bsp": 660e3, "bsv": 12.5e6, "psp": 223e3, "vwap": 12e3, "mst": 337.0}
"""DBToaster's events per CPU second on streams of 100,000 lines; VWAP's is for 10,000 and MST's for 5,000,
beyond which they did not finish."""

ANCHORS = {"bsv": 1.8, "vwap": 21.0, "mst": 49.0, "psp": 45.0}
"""Nanoseconds per event of the limit programs on the machine where those rates were measured."""

BOTH = {"bids": native.picked("price", "volume"), "asks": native.picked("price", "volume")}
BROKERED = {side: native.picked("broker_id", "price", "volume") for side in order_book.SIDES}
CASES = {
    "bsv": native.CASES["bsv"],
    "vwap": native.Case("finance", native.columns_of("bids", "price", "volume"), None),
    "mst": native.Case("finance", native.tables_of(5, **BROKERED), None),
    "psp": native.Case("finance", native.tables_of(4, **BOTH), None),
}


def systems(name: str, address: str | None) -> dict[str, Make]:
    """Who is asked."""
    asked: dict[str, Make] = {
        "viewlet": Kept,
        "viewlet, streams": Streamed,
        "first_order": partial(Kept, strategy="first_order"),
        "reevaluate": partial(Kept, strategy="reevaluate"),
        "DuckDB": DuckDB,
        "SQLite": SQLite,
        "NumPy": NumPy,
    }
    if name in REWRITTEN:
        asked["DuckDB, rewritten"] = partial(DuckDB, text=REWRITTEN[name])
    if address:
        asked["PostgreSQL"] = partial(PostgreSQL, address=address)
    return asked


def main() -> None:
    parser = reports.arguments(__doc__, "a short stream", queries("finance"), 1.0, RESULTS)
    parser.add_argument("--events", type=int, default=100_000)
    options = parser.parse_args()
    if options.quick:
        options.events, options.seconds = 5_000, 0.2
    stream = order_book.stream(options.events, order_book.drawn(PRICES))
    run = Run("finance", options.seconds, patience=5 + 2 * options.seconds)
    for name in options.queries:
        run.whole_stream(name, stream, CASES.get(name))
    run.seconds, run.patience = options.seconds / 3, 2 + options.seconds
    with postgres() as address:
        for name in options.queries:
            run.last_events(name, stream, min(LAST, options.events // 5), systems(name, address))
    columns = list(systems("vwap", address))
    words = f"{options.events:,} events of an order book, {PRICES:,} prices, 20 % of the orders cancelled."
    write(run, options.queries, columns, PUBLISHED, ANCHORS, options.out, "Finance", words)


if __name__ == "__main__":
    main()
