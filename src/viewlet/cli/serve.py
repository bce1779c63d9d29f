"""serve views to other programs.

Not available in this version: there is no server yet. Views are read in the process that keeps them.
"""

from __future__ import annotations

import argparse

from viewlet.cli.outcome import UnavailableError

NAME = "serve"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options: none that would do anything yet."""


def run(options: argparse.Namespace) -> int:
    """Say what is missing."""
    raise UnavailableError(
        "this version has no server; read views in the process that keeps them, with view.rows(), "
        "view.to_arrow() or view.subscribe(), or try viewlet shell."
    )
