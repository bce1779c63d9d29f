"""The arithmetic under a matrix program: BLAS in place, exact numbers modulo a prime, any array library.

One program runs over all of them. Over the integers modulo a prime every step is exact, so a maintained
result equals recomputation bit for bit; that is how the delta rules are tested.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol

import numpy as np

from viewlet.errors import BackendError
from viewlet.linalg.errors import IllConditionedError, LinalgError, NumericalError, SingularError
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
        selected = _gather(left, left_t, right, right_t)
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
        rcond *= _share_left(matrix)
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
        return float(np.linalg.norm(value))

    def finite(self, value: Any) -> bool:
        """Are all entries finite?"""
        return bool(np.isfinite(self.dense(value)).all())

    def to_numpy(self, value: Any) -> np.ndarray[Any, Any]:
        """The array itself."""
        return np.asarray(self.dense(value))


def _share_left(capacitance: Any) -> float:
    """|C| / (1 + |C - I|): what cancellation left of the two terms of C = I + Q' W P.

    The condition number alone does not see it: for a change of rank one C is a number, of condition one,
    however close to zero it is.
    """
    identity = np.eye(len(capacitance))
    return float(np.linalg.norm(capacitance) / (1 + np.linalg.norm(capacitance - identity)))


def _gather(left: Any, left_t: bool, right: Any, right_t: bool) -> Any:
    """Products with a selector are copies of rows or columns; None where that does not apply."""
    if isinstance(right, Selector) and not right_t and not isinstance(left, Selector):
        return np.asfortranarray(left[right.indices].T if left_t else left[:, right.indices])
    if isinstance(left, Selector) and left_t and not isinstance(right, Selector):
        return np.asfortranarray(right[:, left.indices].T if right_t else right[left.indices])
    return None


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
        selected = _gather(left, left_t, right, right_t)
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
        rcond = self._rcond(matrix) * _share_left(self.to_numpy(matrix))
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
