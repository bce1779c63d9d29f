"""Double and single precision on NumPy and BLAS, stored matrices updated in place."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from viewlet.errors import BackendError
from viewlet.linalg.arrays import CAPACITANCE_LIMIT, Selector, gather, share_left
from viewlet.linalg.errors import IllConditionedError, LinalgError, NumericalError, SingularError
from viewlet.linalg.nodes import Scalar, Shape


class Blas:
    """Double precision (or single) on NumPy and BLAS; stored matrices are updated in place.

    Matrices are kept in Fortran order, so that ``C += L R'`` is one ``gemm`` with beta = 1 and no n x n
    temporary: two to three times as fast as ``C += L @ R.T``.
    """

    exact = False

    def __init__(self, dtype: Any = np.float64) -> None:
        try:
            from scipy.linalg import blas, lapack
        except ImportError as missing:
            raise BackendError("viewlet.linalg needs SciPy: pip install 'viewlet[linalg]'") from missing
        self.dtype = np.dtype(dtype)
        if self.dtype not in (np.dtype(np.float64), np.dtype(np.float32)):
            raise LinalgError(f"{self.dtype} is not a BLAS type; use float64 or float32")
        letter = "d" if self.dtype == np.float64 else "s"
        self.itemsize = self.dtype.itemsize
        self._gemm, self._ger = getattr(blas, letter + "gemm"), getattr(blas, letter + "ger")
        self._getrf, self._gecon = getattr(lapack, letter + "getrf"), getattr(lapack, letter + "gecon")
        self._getrs, self._getri = getattr(lapack, letter + "getrs"), getattr(lapack, letter + "getri")

    def __reduce__(self) -> tuple[Any, ...]:
        """Workers look up the routines of their own BLAS."""
        return Blas, (self.dtype,)

    def take(self, value: Any) -> Any:
        """A Fortran-ordered copy; NaN and infinity are refused."""
        array = np.array(value, dtype=self.dtype, order="F")
        if not np.isfinite(array).all():
            raise NumericalError("the data holds NaN or infinity; only finite numbers are accepted")
        return array

    def dense(self, value: Any) -> Any:
        """A selector as an array; arrays pass through."""
        if not isinstance(value, Selector):
            return value
        array = np.zeros(value.shape, self.dtype, order="F")
        array[value.indices, np.arange(len(value.indices))] = 1
        return array

    def multiply(self, left: Any, left_t: bool, right: Any, right_t: bool) -> Any:
        """Selectors gather; everything else is one BLAS call with a Fortran-ordered result."""
        if isinstance(left, Selector) or isinstance(right, Selector):
            selected = gather(left, left_t, right, right_t)
            if selected is not None:
                return selected
        a, b = self.dense(left), self.dense(right)
        return ((b if right_t else b.T) @ (a if left_t else a.T)).T

    def combine(self, terms: Sequence[tuple[Scalar, Any, bool]]) -> Any:
        """Summed into one new array."""
        total = None
        for factor, value, transposed in terms:
            array = self.dense(value).T if transposed else self.dense(value)
            if total is None:
                total = (
                    np.array(array, order="F")
                    if factor == 1
                    else np.multiply(array, float(factor), order="F")
                )
            elif factor == 1:
                total += array
            elif factor == -1:
                total -= array
            else:
                total += float(factor) * array
        return total

    def stack(self, parts: Sequence[Any]) -> Any:
        """Side by side, in Fortran order."""
        arrays = [self.dense(part) for part in parts]
        stacked = np.empty((arrays[0].shape[0], sum(a.shape[1] for a in arrays)), self.dtype, order="F")
        return np.concatenate(arrays, axis=1, out=stacked)

    def zeros(self, shape: Shape) -> Any:
        """Zeros."""
        return np.zeros(shape, self.dtype, order="F")

    def place(self, target: Any, row: int, column: int, value: Any) -> Any:
        """Written in place."""
        array = self.dense(value)
        target[row : row + array.shape[0], column : column + array.shape[1]] = array
        return target

    def divide(self, left: Any, capacitance: Any, statement: str) -> Any:
        """-left C^-1 by LU; refused where the reciprocal condition of C is below the limit."""
        matrix = self.dense(capacitance)
        if not np.isfinite(matrix).all():
            raise IllConditionedError(f"the capacitance of {statement} is not finite")
        factors, pivots, rcond = self._factor(matrix)
        rcond *= share_left(matrix)
        limit = CAPACITANCE_LIMIT if self.dtype == np.float64 else 1e-3
        if rcond < limit:
            raise IllConditionedError(
                f"the capacitance of {statement} has reciprocal condition {rcond:.1e}, below {limit:.0e}"
            )
        solved, _ = self._getrs(factors, pivots, np.asfortranarray(left.T), trans=1)
        return np.negative(solved.T)

    def invert(self, value: Any, statement: str) -> Any:
        """LU inverse; refused where the matrix is singular to working precision."""
        matrix = self.dense(value)
        if not np.isfinite(matrix).all():
            raise NumericalError(f"the matrix that {statement} inverts is not finite")
        factors, pivots, rcond = self._factor(matrix)
        if rcond < np.finfo(self.dtype).eps:
            raise SingularError(
                f"the matrix that {statement} inverts is singular to working precision "
                f"(reciprocal condition {rcond:.1e}); a small multiple of the identity added to it would help"
            )
        inverted, info = self._getri(factors, pivots, overwrite_lu=1)
        if info:
            raise SingularError(f"the matrix that {statement} inverts is singular")
        return np.asfortranarray(inverted)

    def _factor(self, matrix: Any) -> tuple[Any, Any, float]:
        norm = float(np.abs(matrix).sum(axis=0).max(initial=0.0))
        factors, pivots, info = self._getrf(matrix)
        if info > 0:
            return factors, pivots, 0.0
        return factors, pivots, float(self._gecon(factors, norm)[0])

    def own(self, value: Any) -> Any:
        """In Fortran order; a part of a larger array is copied out of it."""
        array = self.dense(value)
        whole = array.flags.owndata or getattr(array.base, "size", None) == array.size
        return array if whole and array.flags.f_contiguous else np.array(array, order="F")

    def accumulate(self, target: Any, left: Any, right: Any) -> Any:
        """In place: rows or columns where one side selects them, else rank-r gemm with beta = 1."""
        if isinstance(left, Selector):
            target[slice(None) if left.whole else left.indices] += self.dense(right).T
        elif isinstance(right, Selector):
            target[:, slice(None) if right.whole else right.indices] += left
        elif left.shape[1] == 1:
            self._ger(1.0, left[:, 0], right[:, 0], a=target, overwrite_a=1)
        else:
            self._gemm(1.0, left, right, beta=1.0, c=target, trans_b=1, overwrite_c=1)
        return target

    def magnitude(self, value: Any) -> float:
        """The Frobenius norm; of a selector, the root of its rank."""
        if isinstance(value, Selector):
            return float(np.sqrt(len(value.indices)))
        flat = value.ravel(order="K")
        return math.sqrt(flat.dot(flat))

    def finite(self, value: Any) -> bool:
        """Are all entries finite?"""
        return bool(np.isfinite(self.dense(value)).all())

    def to_numpy(self, value: Any) -> np.ndarray[Any, Any]:
        """The array itself."""
        return np.asarray(self.dense(value))

    def lines(self, value: Any, rows: Collection[int], columns: Collection[int]) -> Any:
        """All of it."""
        return self.to_numpy(value)
