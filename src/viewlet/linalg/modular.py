"""Exact arithmetic: the integers modulo a prime."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from viewlet.linalg.arrays import Selector, gather
from viewlet.linalg.errors import LinalgError, SingularError
from viewlet.linalg.nodes import Scalar, Shape


class Modular:
    """The integers modulo a prime below 2**15.5: a field, so every program is exact over it.

    >>> field = Modular(7)
    >>> field.invert(field.take([[3]]), "W").tolist()
    [[5]]
    """

    exact = True
    itemsize = 8

    def __init__(self, prime: int) -> None:
        if prime < 2 or prime > 46_337 or any(prime % d == 0 for d in range(2, int(prime**0.5) + 1)):
            raise LinalgError(f"{prime} is not a prime below 46,338 (its square must fit 31 bits)")
        self.prime = prime

    def scalar(self, value: Scalar) -> int:
        """A scalar as a residue; fractions divide, other floats have no residue."""
        exact = Fraction(value) if isinstance(value, int | Fraction) or value.is_integer() else None
        if exact is None or exact.denominator % self.prime == 0:
            raise LinalgError(
                f"the scalar {value} has no residue modulo {self.prime}; use fractions.Fraction"
            )
        return exact.numerator * pow(exact.denominator, -1, self.prime) % self.prime

    def take(self, value: Any) -> Any:
        """Residues of integer data."""
        return np.asarray(value, dtype=np.int64) % self.prime

    def dense(self, value: Any) -> Any:
        """A selector as an array; arrays pass through."""
        if not isinstance(value, Selector):
            return value
        array = np.zeros(value.shape, np.int64)
        array[value.indices, np.arange(len(value.indices))] = 1
        return array

    def multiply(self, left: Any, left_t: bool, right: Any, right_t: bool) -> Any:
        """Exact: sums of up to 2**32 products of residues fit 63 bits."""
        selected = gather(left, left_t, right, right_t)
        if selected is not None:
            return selected
        a, b = self.dense(left), self.dense(right)
        return (a.T if left_t else a) @ (b.T if right_t else b) % self.prime

    def combine(self, terms: Sequence[tuple[Scalar, Any, bool]]) -> Any:
        """A linear combination of residues."""
        total: Any = 0
        for factor, value, transposed in terms:
            array = self.dense(value)
            total = (total + self.scalar(factor) * (array.T if transposed else array)) % self.prime
        return total

    def stack(self, parts: Sequence[Any]) -> Any:
        """Side by side."""
        return np.concatenate([self.dense(part) for part in parts], axis=1)

    def zeros(self, shape: Shape) -> Any:
        """Zeros."""
        return np.zeros(shape, np.int64)

    def place(self, target: Any, row: int, column: int, value: Any) -> Any:
        """Written in place."""
        array = self.dense(value)
        target[row : row + array.shape[0], column : column + array.shape[1]] = array
        return target

    def divide(self, left: Any, capacitance: Any, statement: str) -> Any:
        """-left C^-1, by elimination."""
        return -self.dense(left) @ self.invert(capacitance, statement) % self.prime

    def invert(self, value: Any, statement: str) -> Any:
        """Gauss-Jordan elimination over the field."""
        n = value.shape[0]
        work = np.concatenate([self.dense(value) % self.prime, np.eye(n, dtype=np.int64)], axis=1)
        for column in range(n):
            candidates = np.flatnonzero(work[column:, column])
            if len(candidates) == 0:
                raise SingularError(f"the matrix that {statement} inverts is singular modulo {self.prime}")
            pivot = column + int(candidates[0])
            work[[column, pivot]] = work[[pivot, column]]
            work[column] = work[column] * pow(int(work[column, column]), -1, self.prime) % self.prime
            others = np.arange(n) != column
            work[others] = (work[others] - np.outer(work[others, column], work[column])) % self.prime
        return work[:, n:].copy()

    def own(self, value: Any) -> Any:
        """A copy."""
        return self.dense(value).copy()

    def accumulate(self, target: Any, left: Any, right: Any) -> Any:
        """target + left right', reduced."""
        target += self.dense(left) @ self.dense(right).T
        target %= self.prime
        return target

    def magnitude(self, value: Any) -> float:
        """Exact numbers do not drift."""
        return 0.0

    def finite(self, value: Any) -> bool:
        """Residues always are."""
        return True

    def to_numpy(self, value: Any) -> np.ndarray[Any, Any]:
        """The residues."""
        return np.asarray(self.dense(value))

    def lines(self, value: Any, rows: Collection[int], columns: Collection[int]) -> Any:
        """All of it."""
        return self.to_numpy(value)
