"""One error class per stage, all under :class:`ViewletError`.

Every message names the offender (a table, a column, a position in the SQL text, a row) and says what
would work instead. An operation that raises one of these has changed nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from difflib import get_close_matches


def choices(name: object, known: Iterable[str], there_are: str = "there are") -> str:
    """What to name in place of a name that does not exist: a likely one, if there is one, then all.

    >>> choices("Volum", ["price", "volume"])
    "did you mean 'volume'? there are price, volume"
    >>> choices("x", [], "existing:")
    'existing: none'
    """
    names = list(dict.fromkeys(known))
    spelled = {known.lower(): known for known in names}
    near = get_close_matches(str(name).lower(), spelled, 1)
    question = f"did you mean {spelled[near[0]]!r}? " if near else ""
    return f"{question}{there_are} {', '.join(names) or 'none'}"


def system_reason(error: Exception) -> str:
    """What the system says of an error of its own, without numbers and what Python adds; else its text.

    >>> system_reason(OSError(28, "while attempting to write 12 bytes: no space left on device"))
    'No space left on device'
    >>> system_reason(OverflowError("port must be 0-65535."))
    'port must be 0-65535.'
    """
    number = getattr(error, "errno", None) or 0  # below 0: one of a name that is not found
    return os.strerror(number) if number > 0 else getattr(error, "strerror", None) or str(error)


class ViewletError(Exception):
    """The root of every error that Viewlet raises on purpose."""


class SqlError(ViewletError):
    """The SQL text is not valid, or names something that does not exist."""


class UnsupportedError(SqlError):
    """The SQL text is valid, but uses a construct that Viewlet refuses; the message names it and where."""


class CatalogError(ViewletError):
    """A table, view or column does not exist, exists already, or is still needed."""


class PlanError(ViewletError):
    """A relational plan is malformed: this is a fault of Viewlet, not of the query."""


class CalculusError(ViewletError):
    """A calculus expression is malformed: unbound variables, mixed types, unreadable text."""


class CompileError(ViewletError):
    """A query cannot be turned into a trigger program as asked; the message carries the reason."""


class ProgramSizeError(CompileError):
    """The deltas of a query are too large to compile; recomputation, or several views, would do."""


class DataError(ViewletError):
    """A batch of changes does not fit its table: wrong width, type, NULL, key, or weight."""


class ValueRangeError(DataError):
    """A value left the range of its type: integer or decimal overflow, division by zero, a bad cast."""


class BackendError(ViewletError):
    """A backend cannot run: no compiler, no Spark, a failed build, a closed database."""


class StorageError(ViewletError):
    """A durable database cannot be opened, read or written."""
