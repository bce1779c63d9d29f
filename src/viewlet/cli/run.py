"""run a pipeline: sources, views and sinks on Spark.

The file defines tables, flows, views and sinks with the decorators of viewlet.pipelines. Without --every
it processes all that the sources have now, and ends; with it, streams go on until they are interrupted.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from dataclasses import asdict
from typing import Any

from viewlet.cli.outcome import DONE, UnavailableError, UsageError

NAME = "run"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("pipeline", metavar="PIPELINE", help="the Python file that defines the pipeline")
    parser.add_argument("--master", default="local[*]", help="where Spark runs (default: %(default)s)")
    parser.add_argument("--conf", action="append", default=[], metavar="KEY=VALUE", help="a setting of Spark")
    parser.add_argument(
        "--database", metavar="FILE", help="a durable database; without it, views live on Spark"
    )
    parser.add_argument(
        "--checkpoint", metavar="DIR", help="where streams keep their positions; needs a durable database"
    )
    parser.add_argument(
        "--every", metavar="TIME", help='keep running, and read the streams this often ("1 second")'
    )
    parser.add_argument("--json", action="store_true", help="print the summary as JSON")


def run(options: argparse.Namespace) -> int:
    """Run the pipeline and print what it did."""
    try:
        import pyspark  # noqa: F401
    except ImportError:
        raise UnavailableError("pipelines need Spark: pip install 'viewlet[spark]'") from None
    from viewlet.pipelines import Progress, load
    from viewlet.pipelines import run as run_pipeline

    pipeline = load(options.pipeline)
    spark = session(options.master, options.conf)
    for number in (signal.SIGINT, signal.SIGTERM):  # PySpark's own handler ends jobs that write sinks
        signal.signal(number, signal.default_int_handler)
    latest = Progress()

    def tell(progress: Progress) -> None:
        nonlocal latest
        latest = progress
        if sys.stderr.isatty():
            batches, rows = sum(progress.batches.values()), sum(progress.rows.values())
            print(f"\r{pipeline.name}: {batches} batches, {rows:,} rows", end="", file=sys.stderr, flush=True)

    try:
        run_pipeline(
            pipeline,
            spark,
            options.database,
            checkpoint=options.checkpoint,
            every=options.every,
            told=tell,
        )
    finally:
        if sys.stderr.isatty():
            print(file=sys.stderr)
        print(summary(latest, options.json))
        spark.stop()
    return DONE


def session(master: str, settings: list[str]) -> Any:
    """A Spark session whose Python workers are this Python."""
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(master).appName("viewlet").config("spark.ui.enabled", "false")
    builder = builder.config("spark.ui.showConsoleProgress", "false")
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals:
            raise UsageError(f"--conf {setting}: write KEY=VALUE")
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def summary(progress: Any, as_json: bool) -> str:
    """What each flow has brought.

    >>> from viewlet.pipelines import Progress
    >>> print(summary(Progress({"orders": 2}, {"orders": 30}, {"orders": 1}), as_json=False))
    orders: 30 rows in 2 batches, 1 in quarantine
    """
    if as_json:
        return json.dumps(asdict(progress))
    lines = []
    for flow, batches in progress.batches.items():
        taken, refused = progress.rows[flow], progress.quarantined[flow]
        lines.append(f"{flow}: {taken:,} rows in {batches} batches, {refused} in quarantine")
    return "\n".join(lines) or "no batch came"
