"""All 22 TPC-H queries: refreshes per second against hand-written C, DBToaster, DuckDB and PostgreSQL.

    python benchmarks/tpch.py [--quick] [--scale 0.1] [--queries q01 ..] [--seconds 0.6]

The rows of all tables are inserted, interleaved in proportion. For the whole stream nation and region are
static, as they are for DBToaster. See ``rates.py`` for what is measured.
SQLite is not asked: it has neither dates nor exact decimals.
"""

from __future__ import annotations

from functools import partial

import native
import reports
from cells import postgres
from rates import Run, tpch_stream, write
from rivals import DuckDB, Kept, Make, PostgreSQL, Streamed
from viewlet.workloads import queries, tpch
from viewlet.workloads.stream import round_robin

RESULTS = reports.results("tpch")
LAST = 2_000

MILLIONS = {
    "q01": 3.5, "q02": 3.1, "q03": 12, "q04": 40, "q05": 1.4, "q06": 200, "q07": 2.3, "q08": 0.72,
    "q09": 0.168, "q10": 11, "q11": 0.085, "q12": 26, "q13": 1.3, "q14": 78, "q16": 0.404, "q17": 0.49,
    "q18": 3.0, "q19": 12, "q20": 0.107, "q21": 2.0, "q22": 0.205,
}  # fmt: skip
"""DBToaster's tuples per second at scale 0.1, its insert-only code; Q15 did not finish."""

ANCHORS = {"q01": 5.2, "q03": 29.0, "q06": 2.0, "q17": 27.0, "q18": 16.5}
"""Nanoseconds per event of the limit programs on the machine where those rates were measured."""


def systems(address: str | None) -> dict[str, Make]:
    """Who is asked."""
    asked: dict[str, Make] = {
        "viewlet": Kept,
        "viewlet, streams": Streamed,
        "first_order": partial(Kept, strategy="first_order"),
        "reevaluate": partial(Kept, strategy="reevaluate"),
        "DuckDB": DuckDB,
    }
    if address:
        asked["PostgreSQL"] = partial(PostgreSQL, address=address)
    return asked


def main() -> None:
    parser = reports.arguments(__doc__, "a small scale", queries("tpch"), 0.6, RESULTS)
    parser.add_argument("--scale", type=float, default=0.1, help="TPC-H scale factor of the whole stream")
    parser.add_argument("--rival-scale", type=float, default=0.01, help="and where rivals are asked")
    options = parser.parse_args()
    if options.quick:
        options.scale, options.rival_scale, options.seconds = 0.01, 0.001, 0.2
    stream, static = tpch_stream(options.scale)
    small = round_robin(tpch.tables(options.rival_scale))
    run = Run("tpch", options.seconds, patience=6 + 2 * options.seconds)
    for name in options.queries:
        run.whole_stream(name, stream, native.CASES.get(name), static)
    run.seconds, run.patience = options.seconds / 3, 3 + options.seconds
    with postgres() as address:
        for name in options.queries:
            run.last_events(name, small, min(LAST, len(small) // 5), systems(address))
    published = {name: 1e6 * millions for name, millions in MILLIONS.items()}
    words = (
        f"Scale factor {options.scale:g} for the whole stream ({len(stream):,} rows), nation and "
        f"region static; {options.rival_scale:g} ({len(small):,} rows) for its end. "
        "Nothing here is a TPC result."
    )
    columns = list(systems(address))
    write(run, options.queries, columns, published, ANCHORS, options.out, "TPC-H", words)


if __name__ == "__main__":
    main()
