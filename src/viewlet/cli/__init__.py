"""The ``viewlet`` command: one file per subcommand, each with its options and the function that runs it.

Exit codes: 0 done; 1 refused or failed, with the reason on standard error; 2 wrong usage, or something that
this installation cannot do; 130 interrupted.
"""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from importlib.metadata import version

from viewlet.cli import bench, demo, explain, run, serve, shell, shell_completion
from viewlet.cli.outcome import (
    DONE,
    FAILED,
    INTERRUPTED,
    UNAVAILABLE,
    WRONG_USAGE,
    UnavailableError,
    UsageError,
)
from viewlet.errors import ViewletError

COMMANDS = (demo, shell, explain, bench, run, serve, shell_completion)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    given = sys.argv[1:] if arguments is None else arguments
    if not given:
        parser().print_help(sys.stderr)
        return WRONG_USAGE
    options = parser().parse_args(given)
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _note(options.command)
            return _run(options)
    except (UsageError, UnavailableError) as reason:
        print(f"viewlet {options.command}: {reason}", file=sys.stderr)
        return WRONG_USAGE if isinstance(reason, UsageError) else UNAVAILABLE
    except (ViewletError, OSError, UnicodeDecodeError) as reason:
        if isinstance(reason, BrokenPipeError):
            # Whoever read our output has left, as `| head` does: no complaint, not even by the flush at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return DONE
        print(f"viewlet {options.command}: {_told(reason)}", file=sys.stderr)
        # An error that stands for a library that is not installed was raised where the import failed.
        return UNAVAILABLE if isinstance(reason.__context__, ImportError) else FAILED
    except KeyboardInterrupt:
        print(file=sys.stderr)
        return INTERRUPTED


def _run(options: argparse.Namespace) -> int:
    code: int = options.run(options)
    sys.stdout.flush()
    return code


def _note(command: str) -> Callable[..., None]:
    """Warnings in a line of their own: where in Viewlet they were made is of no use at a prompt."""

    def show(message: Warning | str, *_: object) -> None:
        print(f"viewlet {command}: note: {message}", file=sys.stderr)

    return show


def _told(reason: Exception) -> str:
    """An error as a sentence; those of the system begin with the file and have no number.

    >>> _told(OSError(28, "No space left on device", "views.sql"))
    'views.sql: No space left on device'
    """
    if isinstance(reason, OSError) and reason.strerror:
        return f"{reason.filename}: {reason.strerror}" if reason.filename else reason.strerror
    return str(reason)


def parser() -> argparse.ArgumentParser:
    """The whole grammar of the command line.

    >>> parser().parse_args(["explain", "views.sql"]).file
    'views.sql'
    """
    whole = argparse.ArgumentParser(
        prog="viewlet",
        description="Keep analytical results fresh while their inputs change.",
        epilog="Exit codes: 0 done, 1 refused or failed, 2 wrong usage or not installed, 130 interrupted.",
    )
    whole.add_argument("--version", action="version", version=f"viewlet {version('viewlet')}")
    commands = whole.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for command in COMMANDS:
        summary = (command.__doc__ or "").splitlines()[0]
        own = commands.add_parser(
            command.NAME,
            help=summary,
            description=command.__doc__,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        command.add_options(own)
        own.set_defaults(run=command.run)
    return whole
