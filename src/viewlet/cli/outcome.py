"""How a command ends."""

from __future__ import annotations

from viewlet.errors import ViewletError

DONE = 0
FAILED = 1
UNAVAILABLE = 2
WRONG_USAGE = 2  # as argparse ends
INTERRUPTED = 130


class UsageError(ViewletError):
    """The arguments are wrong in a way that argparse cannot know; the message says what would be right."""


class UnavailableError(ViewletError):
    """This installation cannot do what was asked; the message is one sentence that says what is missing."""
