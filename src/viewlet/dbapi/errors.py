"""The errors that PEP 249 names, and which of them each of Viewlet's own becomes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from viewlet import errors


class Warning(Exception):  # noqa: N818  the name that PEP 249 gives it
    """Something to know; never raised so far."""


class Error(errors.ViewletError):
    """Whatever goes wrong through this interface; its ``__cause__`` is Viewlet's own error."""


class InterfaceError(Error):
    """The interface is used wrongly, a closed connection for example."""


class DatabaseError(Error):
    """The database refuses."""


class DataError(DatabaseError):
    """A value does not fit."""


class OperationalError(DatabaseError):
    """The database cannot run: no compiler, no disk."""


class IntegrityError(DatabaseError):
    """A key would be violated."""


class InternalError(DatabaseError):
    """A fault of Viewlet."""


class ProgrammingError(DatabaseError):
    """The SQL text is wrong, or names what does not exist."""


class NotSupportedError(DatabaseError):
    """Valid, but refused."""


# The first class that fits, in order.
_TRANSLATED: tuple[tuple[type[errors.ViewletError], type[DatabaseError]], ...] = (
    (errors.UnsupportedError, NotSupportedError),
    (errors.CompileError, NotSupportedError),
    (errors.SqlError, ProgrammingError),
    (errors.CatalogError, ProgrammingError),
    (errors.DataError, DataError),
    (errors.BackendError, OperationalError),
    (errors.StorageError, OperationalError),
    (errors.PlanError, InternalError),
    (errors.CalculusError, InternalError),
)


@contextmanager
def translated() -> Iterator[None]:
    """Viewlet's errors as those of PEP 249."""
    try:
        yield
    except Error:
        raise
    except errors.ViewletError as reason:
        for kind, own in _TRANSLATED:
            if isinstance(reason, kind):
                raise own(str(reason)) from reason
        raise DatabaseError(str(reason)) from reason
