"""Files and numbers that a user names: read, or refused by name."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from viewlet.errors import ViewletError


class InputError(ViewletError):
    """What a user named cannot be read; the message says what and why."""


def read_text(path: str | Path, instead: str = "") -> str:
    """The text of a file; ``instead`` says what could be named in place of one that is missing.

    >>> read_text("nowhere.sql", "or a suite: tpch")
    Traceback (most recent call last):
    ...
    viewlet.cli.files.InputError: there is no file 'nowhere.sql', or a suite: tpch
    """
    try:
        return Path(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        more = f", {instead}" if instead else ""
        raise InputError(f"there is no file {str(path)!r}{more}") from None
    except IsADirectoryError:
        raise InputError(f"{str(path)!r} is a folder, not a file") from None
    except UnicodeDecodeError as reason:
        raise InputError(
            f"{str(path)!r} is not text in UTF-8: {reason.reason} at byte {reason.start}"
        ) from None
    except OSError as reason:
        raise InputError(f"{str(path)!r} cannot be read: {reason.strerror}") from None


def whole_number(least: int, most: int | None = None) -> Callable[[str], int]:
    """A type for argparse: whole numbers within bounds.

    >>> whole_number(0, 65_535)("99999")
    Traceback (most recent call last):
    ...
    argparse.ArgumentTypeError: 99999 is not between 0 and 65535
    """

    def read(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None
        if number < least or (most is not None and number > most):
            bounds = f"at least {least}" if most is None else f"between {least} and {most}"
            raise argparse.ArgumentTypeError(f"{number} is not {bounds}")
        return number

    return read
