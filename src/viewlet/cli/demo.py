"""see views stay fresh: a short guided run.

Generates two streams of changes, an order book and the orders of TPC-H, with Spark in local mode if Java is
installed. Maintains a dozen views over them and shows them while they change, runs the same streams through
pipelines on Spark, compares every view with DuckDB's answer to its query, and writes a report. Takes a
minute or two and ends by itself. Exit code 1 if a view differs from DuckDB's answer.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from viewlet.cli.files import whole_number
from viewlet.cli.outcome import DONE, FAILED
from viewlet.demo.reevaluation import Reevaluation
from viewlet.demo.report import Played, report
from viewlet.demo.show import Wishes, agree, show
from viewlet.workloads.tpch import cache_directory

NAME = "demo"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--seconds", type=_seconds, default=20.0, help="time for the streams (default: 20)")
    parser.add_argument("--batch", type=whole_number(1), default=100, help="changes per batch (default: 100)")
    parser.add_argument("--report", type=Path, metavar="FILE", help="where to write the report")
    parser.add_argument("--no-spark", action="store_true", help="generate the rows in this process")
    parser.add_argument("--json", action="store_true", help="a JSON summary; the show goes to standard error")


def _seconds(text: str) -> float:
    """A time: a number above 0.

    >>> _seconds("-1")
    Traceback (most recent call last):
    ...
    argparse.ArgumentTypeError: '-1' is not a number of seconds above 0
    """
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above 0")
    return seconds


def run(options: argparse.Namespace) -> int:
    """Play, report, and judge."""
    stage = sys.stderr if options.json else sys.stdout
    path: Path = options.report or cache_directory() / "demo.html"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.open("ab").close()  # a place where nothing can be written is an error now, not in a minute
    played, notes = show(Wishes(options.seconds, options.batch, stage.isatty(), not options.no_spark), stage)
    path.write_text(report(played, notes), encoding="utf-8")
    print(f"Report with plots, SQL and trigger programs: {path.resolve().as_uri()}", file=stage)
    if options.json:
        print(json.dumps(_document(played, notes, path), indent=2))
    return DONE if agree(played) else FAILED


def _document(played: Sequence[Played], notes: Sequence[str], path: Path) -> dict[str, Any]:
    return {
        "notes": list(notes),
        "report": str(path),
        "scenes": [
            {
                "title": scene.scene.title,
                "backend": scene.backend,
                "batch": scene.batch,
                "changes": scene.run.changes,
                "changes_per_second": scene.run.rate,
                "single_seconds": {"p50": scene.singles.quantile(0.5), "p99": scene.singles.quantile(0.99)},
                "batch_seconds": {"p50": scene.run.quantile(0.5), "p99": scene.run.quantile(0.99)},
                "views": {view.name: len(view.rows) for view in scene.views},
                "duckdb": _verdicts(scene.rival),
                "spark": None
                if scene.piped is None
                else {
                    "changes": scene.piped.run.changes,
                    "commits": len(scene.piped.run.sizes),
                    "commit_seconds": {"p50": scene.piped.run.quantile(0.5)},
                    "duckdb": _verdicts(scene.piped.rival),
                },
            }
            for scene in played
        ],
    }


def _verdicts(rival: Sequence[Reevaluation]) -> list[dict[str, Any]]:
    return [{"view": found.view, "seconds": found.seconds, "agrees": found.agrees} for found in rival]
