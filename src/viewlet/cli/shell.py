"""SQL prompt over a database in this process, in memory or in a file.

Statements end with a semicolon. Commands start with a dot: .help lists them. The prompt has history
and completion (Tab). Without a terminal, statements are read from standard input, and the first
error ends the run with exit code 1.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from viewlet.cli.completion import Remember, with_readline
from viewlet.cli.files import whole_number
from viewlet.cli.options import add_engine_options, open_database
from viewlet.cli.outcome import DONE
from viewlet.cli.output import MAX_ROWS, JsonOutput, TextOutput
from viewlet.cli.panel import Panel
from viewlet.cli.session import Leave, Session
from viewlet.errors import ViewletError
from viewlet.sql.script import is_complete

NAME = "shell"
PROMPT, CONTINUED = "viewlet> ", "    ...> "


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "database", metavar="FILE", nargs="?", help="a durable database; without it, one in memory"
    )
    parser.add_argument(
        "-c",
        "--command",
        dest="scripts",
        action="append",
        metavar="SQL",
        help="run statements or a dot command and exit; may be given several times",
    )
    parser.add_argument("--read", metavar="FILE", help="run the statements of a file first")
    parser.add_argument(
        "--rows",
        type=whole_number(0),
        default=MAX_ROWS,
        help=f"show at most this many rows (default: {MAX_ROWS})",
    )
    parser.add_argument("--json", action="store_true", help="print each result as one line of JSON")
    add_engine_options(parser)


def run(options: argparse.Namespace) -> int:
    """Read statements and commands until the input ends or .quit."""
    with open_database(options, options.database) as db:
        output = JsonOutput(print) if options.json else TextOutput(print, options.rows)
        panel = _panel() if sys.stdin.isatty() and sys.stdout.isatty() and not options.json else None
        session = Session(db, output, options.dialect, panel)
        try:
            if options.read:
                session.read(Path(options.read))
            if options.scripts is not None:
                for script in options.scripts:
                    session.run(script)
            elif sys.stdin.isatty():
                print("viewlet shell: statements end with ; and .help lists the commands")
                with with_readline(session) as remember:
                    return converse(session, input, remember)
            else:
                run_lines(session, sys.stdin)
        except Leave:
            pass
        finally:
            if panel is not None:
                panel.close()
    return DONE


def _panel() -> Panel:
    """A panel on the terminal that this runs in."""

    def write(text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()

    def size() -> tuple[int, int]:
        found = shutil.get_terminal_size()
        return found.columns, found.lines

    return Panel(write, size)


def converse(session: Session, ask: Callable[[str], str], remember: Remember) -> int:
    """Ask for statements until told to leave; an error is shown, and the conversation goes on."""
    while True:
        try:
            text = _asked(ask, session.dialect)
            remember(text)
            with _reported():
                session.run(text)
        except (Leave, EOFError):
            return DONE
        except KeyboardInterrupt:
            print()  # gives up the statement, not the session


def _asked(ask: Callable[[str], str], dialect: str) -> str:
    text = ask(PROMPT)
    while text.strip() and not text.startswith(".") and not is_complete(text, dialect):
        text += "\n" + ask(CONTINUED)
    return text


@contextmanager
def _reported() -> Iterator[None]:
    try:
        yield
    except (ViewletError, OSError) as reason:
        print(f"error: {reason}", file=sys.stderr)


def run_lines(session: Session, lines: Iterator[str]) -> None:
    """Run a script line by line, so that commands and statements can alternate."""
    text = ""
    for line in lines:
        if not text.strip() and line.startswith("."):
            session.run(line)
            continue
        text += line
        if is_complete(text, session.dialect):
            session.run(text)
            text = ""
    if text.strip():
        session.run(text)
