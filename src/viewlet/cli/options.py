"""Options that several commands share."""

from __future__ import annotations

import argparse
from typing import get_args

from viewlet.backends import Backend
from viewlet.backends.base import Strategy
from viewlet.connecting import connect
from viewlet.database import Database


def add_engine_options(parser: argparse.ArgumentParser) -> None:
    """``--backend``, ``--strategy`` and ``--dialect``, as in :func:`viewlet.connect`."""
    parser.add_argument(
        "--backend", choices=get_args(Backend), default="auto", help="which engine runs (default: auto)"
    )
    parser.add_argument(
        "--strategy",
        choices=get_args(Strategy),
        default="auto",
        help="how views are maintained (default: auto)",
    )
    parser.add_argument("--dialect", default="spark", help="the dialect of the SQL text (default: spark)")


def open_database(options: argparse.Namespace, path: str | None = None) -> Database:
    """A database in this process as the options ask for it: in memory, or in a file."""
    return connect(path, backend=options.backend, strategy=options.strategy, dialect=options.dialect)
