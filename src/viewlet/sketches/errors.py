"""What can go wrong with a sketch; every message names the table, the attribute and the reason."""

from __future__ import annotations

from viewlet.errors import ViewletError


class SketchError(ViewletError):
    """A sketch cannot be made, kept or used as asked."""


class UnsafeError(SketchError):
    """Answering the query from a sketch on this attribute could give another result."""


class StaleError(SketchError):
    """The data is of another version than the sketch."""


class ExhaustedError(SketchError):
    """A bounded buffer has lost more entries than it kept in reserve: only a recapture helps."""
