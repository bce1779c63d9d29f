"""serve a database: a console in the browser, and with --pg-port PostgreSQL's protocol.

The console is at http://localhost:8080/ by default, and answers only this machine. Any other --host needs a
token, in a file given by --token-file or in the environment variable VIEWLET_TOKEN. With --pg-port, psql and
other clients can read tables and views; if there is a token, the user is viewlet and the password is the
token. Without FILE, the database is in memory; --read runs a file of statements first. --follow loads the
files of a folder, and those that are added later. Ctrl-C ends it.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import ssl
import threading
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from viewlet.cli.files import InputError, read_text, whole_number
from viewlet.cli.options import add_engine_options, open_database
from viewlet.cli.outcome import DONE, UsageError
from viewlet.database import Database
from viewlet.server import start

if TYPE_CHECKING:
    from viewlet.connectors import Source

NAME = "serve"
VARIABLE = "VIEWLET_TOKEN"
PG_USER = "viewlet"
PORT = whole_number(0, 65_535)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "database", metavar="FILE", nargs="?", help="a durable database; without it, one in memory"
    )
    parser.add_argument("--read", metavar="FILE", help="run the statements of a file first")
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen at (default: 127.0.0.1)")
    parser.add_argument("--port", type=PORT, default=8080, help="the console's port (default: 8080)")
    parser.add_argument("--pg-port", type=PORT, metavar="PORT", help="serve PostgreSQL's protocol there")
    parser.add_argument("--token-file", metavar="FILE", help="a file with the token that requests must show")
    parser.add_argument("--certificate", type=Path, metavar="PEM", help="encrypt, with this certificate")
    parser.add_argument("--key", type=Path, metavar="PEM", help="the certificate's private key")
    parser.add_argument(
        "--follow",
        action="append",
        default=[],
        metavar="TABLE=PATH",
        help="load the CSV, JSON lines or Parquet files of a folder into a table, and those added later",
    )
    add_engine_options(parser)


def run(options: argparse.Namespace) -> int:
    """Serve until interrupted, or until a source fails."""
    sources = [_source(text) for text in options.follow]
    tls = _tls(options.certificate, options.key)
    with open_database(options, options.database) as database:
        if options.read:
            database.execute(read_text(options.read))
        asyncio.run(_serve(database, sources, tls, options))
    return DONE


def _source(text: str) -> Source:
    from viewlet.connectors import Files  # with all of Arrow's file formats: only if needed

    table, separator, path = text.partition("=")
    if not (table and separator and path):
        raise UsageError(f"--follow {text}: write TABLE=PATH")
    return Files(path, table)


def _tls(certificate: Path | None, key: Path | None) -> ssl.SSLContext | None:
    if certificate is None:
        if key is not None:
            raise UsageError("--key needs --certificate: the one that the key belongs to")
        return None
    for path in filter(None, (certificate, key)):
        read_text(path)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(certificate, key)
    except ssl.SSLError as reason:
        files = " and ".join(repr(str(path)) for path in (certificate, key) if path)
        raise InputError(
            f"{files} are not a certificate and its key in PEM: {reason.reason or reason}"
        ) from None
    return context


async def _serve(
    database: Database, sources: list[Source], tls: ssl.SSLContext | None, options: argparse.Namespace
) -> None:
    from viewlet.connectors import run as run_source

    interrupted = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, interrupted.set)
    async with AsyncExitStack() as stack:
        await _open_doors(database, stack, tls, options)
        stop = threading.Event()
        followers = [
            asyncio.create_task(asyncio.to_thread(run_source, database, source, follow=True, stop=stop))
            for source in sources
        ]
        waiting = asyncio.create_task(interrupted.wait())
        await asyncio.wait([waiting, *followers], return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        stop.set()
        await asyncio.gather(*followers)


async def _open_doors(
    database: Database, stack: AsyncExitStack, tls: ssl.SSLContext | None, options: argparse.Namespace
) -> None:
    token = _token(options)
    console = await start(
        database, options.host, options.port, token=token, certificate=options.certificate, key=options.key
    )
    stack.push_async_callback(console.stop)
    if options.pg_port is not None:
        from viewlet.pgwire.server import start as start_pg

        users = {PG_USER: token} if token else None
        postgres = await start_pg(database, options.host, options.pg_port, users=users, tls=tls)
        stack.push_async_callback(postgres.close)
        print(f"psql: host={options.host} port={postgres.port} user={PG_USER} dbname=viewlet", flush=True)
    print(f"console: {console.url}{f'?token={quote(token)}' if token else ''}", flush=True)


def _token(options: argparse.Namespace) -> str | None:
    if options.token_file:
        return read_text(options.token_file).strip()
    return os.environ.get(VARIABLE)
