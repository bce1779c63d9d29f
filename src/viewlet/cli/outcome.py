"""How a command ends."""

from __future__ import annotations

from viewlet.errors import ViewletError

DONE = 0
FAILED = 1
UNAVAILABLE = 2
INTERRUPTED = 130


class UnavailableError(ViewletError):
    """This installation cannot do what was asked; the message is one sentence that says what is missing."""
