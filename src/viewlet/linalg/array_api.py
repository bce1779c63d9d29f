"""Any library of the Python array API standard."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from viewlet.errors import BackendError
from viewlet.linalg.arrays import CAPACITANCE_LIMIT, Selector, share_left
from viewlet.linalg.errors import IllConditionedError, NumericalError, SingularError
from viewlet.linalg.nodes import Scalar, Shape


class ArrayApi:
    """Any library of the Python array API standard with its ``linalg`` extension (CuPy, PyTorch, ...).

    The standard has no ``gemm`` with an accumulator, so an update makes one temporary as large as the view.
    """

    exact = False

    def __init__(self, namespace: Any, dtype: Any = None) -> None:
        self.xp = namespace
        if not hasattr(namespace, "linalg"):
            raise BackendError(f"{namespace.__name__} lacks the linalg extension of the array API standard")
        self.dtype = namespace.float64 if dtype is None else dtype
        self.itemsize = 8 if self.dtype == namespace.float64 else 4

    def take(self, value: Any) -> Any:
        """A copy on the library's device; NaN and infinity are refused."""
        array = self.xp.asarray(value, dtype=self.dtype, copy=True)
        if not bool(self.xp.all(self.xp.isfinite(array))):
            raise NumericalError("the data holds NaN or infinity; only finite numbers are accepted")
        return array

    def dense(self, value: Any) -> Any:
        """A selector as an array; arrays pass through."""
        if not isinstance(value, Selector):
            return value
        one_hot = np.zeros(value.shape)
        one_hot[value.indices, np.arange(len(value.indices))] = 1
        return self.xp.asarray(one_hot, dtype=self.dtype)

    def multiply(self, left: Any, left_t: bool, right: Any, right_t: bool) -> Any:
        """One matmul of the library."""
        a, b = self.dense(left), self.dense(right)
        return self.xp.matmul(a.T if left_t else a, b.T if right_t else b)

    def combine(self, terms: Sequence[tuple[Scalar, Any, bool]]) -> Any:
        """A linear combination."""
        total = None
        for factor, value, transposed in terms:
            array = self.dense(value).T if transposed else self.dense(value)
            scaled = array if factor == 1 else float(factor) * array
            total = scaled if total is None else total + scaled
        return total

    def stack(self, parts: Sequence[Any]) -> Any:
        """Side by side."""
        return self.xp.concat([self.dense(part) for part in parts], axis=1)

    def zeros(self, shape: Shape) -> Any:
        """Zeros."""
        return self.xp.zeros(shape, dtype=self.dtype)

    def place(self, target: Any, row: int, column: int, value: Any) -> Any:
        """Written in place."""
        array = self.dense(value)
        target[row : row + array.shape[0], column : column + array.shape[1]] = array
        return target

    def divide(self, left: Any, capacitance: Any, statement: str) -> Any:
        """-left C^-1, refused where C is close to singular."""
        matrix = self.dense(capacitance)
        rcond = self._rcond(matrix) * share_left(self.to_numpy(matrix))
        if not rcond >= CAPACITANCE_LIMIT:
            raise IllConditionedError(f"the capacitance of {statement} has reciprocal condition {rcond:.1e}")
        return -self.xp.linalg.solve(matrix.T, self.dense(left).T).T

    def invert(self, value: Any, statement: str) -> Any:
        """The library's inverse, refused where the matrix is singular to working precision."""
        matrix = self.dense(value)
        rcond = self._rcond(matrix)
        if not rcond >= 1e-15:
            raise SingularError(f"the matrix that {statement} inverts has reciprocal condition {rcond:.1e}")
        return self.xp.linalg.inv(matrix)

    def _rcond(self, matrix: Any) -> float:
        if not bool(self.xp.all(self.xp.isfinite(matrix))):
            return 0.0
        values = self.xp.linalg.svdvals(matrix)
        largest = float(values[0])
        return float(values[-1]) / largest if largest > 0 else 0.0

    def own(self, value: Any) -> Any:
        """A copy."""
        return self.xp.asarray(self.dense(value), copy=True)

    def accumulate(self, target: Any, left: Any, right: Any) -> Any:
        """target + left right'."""
        return target + self.xp.matmul(self.dense(left), self.dense(right).T)

    def magnitude(self, value: Any) -> float:
        """The Frobenius norm."""
        array = self.dense(value)
        return float(np.sqrt(float(self.xp.sum(array * array))))

    def finite(self, value: Any) -> bool:
        """Are all entries finite?"""
        return bool(self.xp.all(self.xp.isfinite(self.dense(value))))

    def to_numpy(self, value: Any) -> np.ndarray[Any, Any]:
        """Copied to NumPy through DLPack or the buffer protocol."""
        try:
            return np.from_dlpack(self.dense(value)).copy()
        except (AttributeError, TypeError, BufferError, RuntimeError):
            return np.asarray(self.dense(value))

    def lines(self, value: Any, rows: Collection[int], columns: Collection[int]) -> Any:
        """All of it."""
        return self.to_numpy(value)
