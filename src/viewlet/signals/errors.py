"""Errors of signal queries; each message names the key and the time, or the argument, at fault."""

from __future__ import annotations

from viewlet.errors import ViewletError


class SignalError(ViewletError):
    """The root of every error of a signal query."""


class SignalTypeError(SignalError):
    """A query is put together wrongly: an unknown policy, a size that makes no sense, mixed units."""


class OrderError(SignalError):
    """An event starts before the last event of its key, or before a time already declared complete."""


class OverlapError(OrderError):
    """Two events of one key are active at once where a signal was asserted."""


class UnitError(SignalError):
    """A duration cannot be expressed in the units of the time column."""


class SessionError(SignalError):
    """A running query cannot go on: it was finished, or an operator failed half-way through a batch."""
