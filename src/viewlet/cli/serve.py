"""serve the console of a database: live views, trigger programs, metrics.

The page is at http://localhost:8080/ unless told otherwise. Only this machine is answered: for any other
--host a token is needed, in a file given by --token-file or in the variable VIEWLET_TOKEN. Without FILE
the database is in memory; --read runs a file of statements first. Ctrl-C ends it.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
from pathlib import Path
from urllib.parse import quote

from viewlet.cli.options import add_engine_options, open_database
from viewlet.cli.outcome import DONE
from viewlet.database import Database
from viewlet.server import start

NAME = "serve"
VARIABLE = "VIEWLET_TOKEN"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "database", metavar="FILE", nargs="?", help="a durable database; without it, one in memory"
    )
    parser.add_argument("--read", metavar="FILE", help="run the statements of a file first")
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen at (default: 127.0.0.1)")
    parser.add_argument("--port", type=int, default=8080, help="the console's port (default: 8080)")
    parser.add_argument("--token-file", metavar="FILE", help="the token that requests must show")
    parser.add_argument("--certificate", type=Path, metavar="PEM", help="serve HTTPS with this certificate")
    parser.add_argument("--key", type=Path, metavar="PEM", help="the certificate's private key")
    add_engine_options(parser)


def run(options: argparse.Namespace) -> int:
    """Serve until interrupted."""
    with open_database(options, options.database) as database:
        if options.read:
            database.execute(Path(options.read).read_text(encoding="utf-8"))
        asyncio.run(_serve(database, options))
    return DONE


async def _serve(database: Database, options: argparse.Namespace) -> None:
    token = _token(options)
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    console = await start(
        database,
        options.host,
        options.port,
        token=token,
        certificate=options.certificate,
        key=options.key,
    )
    try:
        print(f"console: {console.url}{f'?token={quote(token)}' if token else ''}", flush=True)
        await stop.wait()
    finally:
        await console.stop()


def _token(options: argparse.Namespace) -> str | None:
    if options.token_file:
        return Path(options.token_file).read_text(encoding="utf-8").strip()
    return os.environ.get(VARIABLE)
