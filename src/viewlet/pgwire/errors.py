"""Errors as clients of the protocol see them: each with its SQLSTATE, a code of five characters."""

from __future__ import annotations

from viewlet.errors import (
    BackendError,
    CatalogError,
    CompileError,
    DataError,
    SqlError,
    UnsupportedError,
    ValueRangeError,
    ViewletError,
)


class WireError(ViewletError):
    """A request that is refused with a given SQLSTATE."""

    def __init__(self, state: str, message: str) -> None:
        super().__init__(message)
        self.state = state


class FatalError(WireError):
    """A violation after which the connection cannot go on."""


# The first class that fits, in order.
_STATES: tuple[tuple[type[ViewletError], str], ...] = (
    (UnsupportedError, "0A000"),
    (SqlError, "42601"),
    (CatalogError, "42P01"),
    (ValueRangeError, "22003"),
    (DataError, "22000"),
    (CompileError, "0A000"),
    (BackendError, "58000"),
)

# DuckDB's classes by name, so that this file does not need DuckDB.
_DUCKDB_STATES = {
    "ParserException": "42601",
    "SyntaxException": "42601",
    "BinderException": "42703",
    "CatalogException": "42883",
    "ConversionException": "22P02",
    "InvalidInputException": "22023",
    "InterruptException": "57014",
    "OutOfRangeException": "22003",
    "OutOfMemoryException": "53200",
    "NotImplementedException": "0A000",
    "PermissionException": "42501",
}


def sqlstate(reason: BaseException) -> str:
    """The SQLSTATE of an error; what nobody foresaw is XX000, an internal error.

    >>> sqlstate(CatalogError("there is no table 'r'")), sqlstate(ValueError("?"))
    ('42P01', 'XX000')
    """
    if isinstance(reason, WireError):
        return reason.state
    for kind, state in _STATES:
        if isinstance(reason, kind):
            return state
    return _DUCKDB_STATES.get(type(reason).__name__, "XX000")
