"""What can go wrong in a matrix program; every class derives from :class:`viewlet.errors.ViewletError`."""

from __future__ import annotations

from viewlet.errors import ViewletError


class LinalgError(ViewletError):
    """A matrix program is malformed, or is asked for something that it does not do."""


class ShapeError(LinalgError):
    """Operands do not fit each other, or data does not fit its input."""


class SingularError(LinalgError):
    """A matrix to invert is singular to working precision; the update that made it so was not applied."""


class IllConditionedError(LinalgError):
    """A low-rank update of an inverse would lose too many digits; the view re-evaluates instead."""


class NumericalError(LinalgError):
    """A value is not finite; the update that made it so was not applied."""


class DriftWarning(UserWarning):
    """A view lost accuracy and could not be recomputed."""
