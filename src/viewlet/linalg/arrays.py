"""The arithmetic under a matrix program: what `blas`, `modular` and `array_api` provide.

One program runs over all of them. Over the integers modulo a prime every step is exact, so a maintained
result equals recomputation bit for bit; that is how the delta rules are tested.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from viewlet.linalg.nodes import Scalar, Shape

# Below this reciprocal condition number a capacitance has lost half the digits of a double.
CAPACITANCE_LIMIT = 1e-8


@dataclass(frozen=True, eq=False)
class Selector:
    """Columns of the identity: a thin matrix with a single one per column, at distinct rows."""

    indices: np.ndarray[Any, np.dtype[np.intp]]
    n: int
    whole: bool = False

    @classmethod
    def unit(cls, n: int) -> Selector:
        """The identity matrix, which selects everything."""
        return cls(np.arange(n), n, whole=True)

    @property
    def shape(self) -> Shape:
        """Rows and columns."""
        return self.n, len(self.indices)


class Arrays(Protocol):
    """What a program needs of its arrays; thin matrices may be selectors."""

    exact: bool
    itemsize: int

    def take(self, value: Any) -> Any:
        """A stored copy of user data, refused where it is not finite."""

    def dense(self, value: Any) -> Any:
        """A selector as an array; arrays pass through."""

    def multiply(self, left: Any, left_t: bool, right: Any, right_t: bool) -> Any:
        """left @ right, each transposed first where asked."""

    def combine(self, terms: Sequence[tuple[Scalar, Any, bool]]) -> Any:
        """A linear combination of arrays, each transposed first where asked."""

    def stack(self, parts: Sequence[Any]) -> Any:
        """Arrays side by side."""

    def zeros(self, shape: Shape) -> Any:
        """Zeros."""

    def place(self, target: Any, row: int, column: int, value: Any) -> Any:
        """``target`` with ``value`` written at (row, column); the target may be reused."""

    def divide(self, left: Any, capacitance: Any, statement: str) -> Any:
        """-left @ capacitance^-1."""

    def invert(self, value: Any, statement: str) -> Any:
        """value^-1."""

    def own(self, value: Any) -> Any:
        """The value as an array that nothing else reads, laid out for storing."""

    def accumulate(self, target: Any, left: Any, right: Any) -> Any:
        """target + left @ right.T, in place where the library can."""

    def magnitude(self, value: Any) -> float:
        """The Frobenius norm; 0 for exact numbers, which do not drift."""

    def finite(self, value: Any) -> bool:
        """Are all entries finite?"""

    def to_numpy(self, value: Any) -> np.ndarray[Any, Any]:
        """The value as a NumPy array."""

    def lines(self, value: Any, rows: Collection[int], columns: Collection[int]) -> Any:
        """Something to be indexed like the value, at least in these rows and columns."""


def share_left(capacitance: Any) -> float:
    """|C| / (1 + |C - I|): what cancellation left of the two terms of C = I + Q' W P.

    The condition number alone does not see it: for a change of rank one C is a number, of condition one,
    however close to zero it is.
    """
    identity = np.eye(len(capacitance))
    return float(np.linalg.norm(capacitance) / (1 + np.linalg.norm(capacitance - identity)))


def gather(left: Any, left_t: bool, right: Any, right_t: bool) -> Any:
    """Products with a selector are copies of rows or columns; None where that does not apply."""
    if isinstance(right, Selector) and not right_t and not isinstance(left, Selector):
        return np.asfortranarray(left[right.indices].T if left_t else left[:, right.indices])
    if isinstance(left, Selector) and left_t and not isinstance(right, Selector):
        return np.asfortranarray(right[:, left.indices].T if right_t else right[left.indices])
    return None
