"""What it costs to be told: commits with and without a subscriber, as the view grows, and a burst.

    python benchmarks/feed.py [--quick] [--sizes 1000 10000 100000 1000000] [--commits 500]

A view of n groups. Commits of one row each, while nobody listens, while somebody subscribes to it, and to the
same view cut by LIMIT, whose rows before and after are compared; then every group changes in one commit, and
the subscriber is told. CPU time.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import reports
import viewlet

RESULTS = reports.results("feed")
SIZES = (1_000, 10_000, 100_000, 1_000_000)
TABLE = "CREATE STREAM events (k BIGINT, v BIGINT)"
VIEW = "SELECT k, SUM(v) AS total, COUNT(*) AS n FROM events GROUP BY k"
SECONDS = 2.0


def filled(groups: int, query: str) -> viewlet.Database:
    """A database whose view has so many groups."""
    db = viewlet.connect()
    db.execute(TABLE)
    db.execute(f"CREATE MATERIALIZED VIEW totals AS {query}")
    db.insert("events", everything(groups))
    return db


def everything(groups: int) -> pa.Table:
    return pa.table({"k": np.arange(groups), "v": np.ones(groups, np.int64)})


def commits(db: viewlet.Database, most: int) -> float:
    """Commits of one row each per second."""
    done, began = 0, time.process_time()
    while done < most and time.process_time() - began < SECONDS:
        db.insert("events", [(done, 1)])
        done += 1
    return done / (time.process_time() - began)


def seconds(call: Any) -> float:
    began = time.process_time()
    call()
    return time.process_time() - began


def measure(groups: int, most: int) -> dict[str, float]:
    """All figures of one size."""
    db = filled(groups, VIEW)
    found = {"groups": groups, "unwatched": commits(db, most)}
    told: list[int] = []
    db.view("totals").subscribe(lambda change: told.append(change.num_rows))
    found["watched"] = commits(db, most)
    found["burst, s"] = seconds(lambda: db.insert("events", everything(groups)))
    assert told[-1] == 2 * groups, "every group goes and comes"
    found["stats, ms"] = 1e3 * seconds(db.stats)
    found["to_arrow, ms"] = 1e3 * seconds(db.view("totals").to_arrow)
    cut = filled(groups, f"{VIEW} ORDER BY total DESC, k LIMIT 10")
    cut.view("totals").subscribe(lambda change: None)
    found["watched, cut by LIMIT"] = commits(cut, most)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small views: shows that it works")
    parser.add_argument("--sizes", nargs="*", type=int, default=list(SIZES))
    parser.add_argument("--commits", type=int, default=500)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    if options.quick:
        options.sizes, options.commits = [100, 1_000], 20
    results = [measure(groups, options.commits) for groups in options.sizes]
    rows = [
        [
            f"{r['groups']:,}",
            reports.rate(r["unwatched"]),
            reports.rate(r["watched"]),
            f"{r['watched'] / r['unwatched']:.2f}",
            reports.rate(r["watched, cut by LIMIT"]),
            f"{r['burst, s']:.2f} s",
            f"{r['stats, ms']:.1f} ms",
            f"{r['to_arrow, ms']:.0f} ms",
        ]
        for r in results
    ]
    columns = [
        "groups",
        "commits/s, nobody listens",
        "watched",
        "of that",
        "watched, cut by LIMIT (compared whole)",
        "every group at once, told",
        "db.stats()",
        "view.to_arrow()",
    ]
    lines = ["# Being told", "", reports.header(), "", *reports.table(columns, rows)]
    reports.write(options.out, lines, {"sizes": results})


if __name__ == "__main__":
    main()
