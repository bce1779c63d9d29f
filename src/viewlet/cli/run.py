"""run a pipeline: sources, views and sinks on Spark.

Not available in this version: pipelines need the Spark backend. Views in this process are what
``viewlet shell`` and the Python package offer today.
"""

from __future__ import annotations

import argparse

from viewlet.cli.outcome import UnavailableError

NAME = "run"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("pipeline", metavar="PIPELINE", help="the file that describes the pipeline")


def run(options: argparse.Namespace) -> int:
    """Say what is missing."""
    raise UnavailableError(
        f"cannot run {options.pipeline!r}: pipelines need the Spark backend, which this version "
        "does not have; use viewlet.connect() in a Python program, or viewlet shell."
    )
