"""Changes of matrices, kept as ``U @ V.T``; how rows, columns, entries and factors coalesce into one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from viewlet.linalg.arrays import Arrays, Selector
from viewlet.linalg.delta import FactorShape
from viewlet.linalg.errors import NumericalError, ShapeError
from viewlet.linalg.nodes import Shape


@dataclass(frozen=True, eq=False)
class LowRank:
    """The matrix ``U @ V.T`` in factored form.

    >>> change = LowRank(np.array([[1.0], [0.0]]), np.array([[2.0], [3.0]]))
    >>> change.rank, change.to_dense().tolist()
    (1, [[2.0, 3.0], [0.0, 0.0]])
    """

    U: Any
    V: Any

    @property
    def rank(self) -> int:
        """Columns of U and V: a bound on the rank of the matrix."""
        return int(self.U.shape[1])

    @property
    def shape(self) -> Shape:
        """Rows and columns of the matrix."""
        return int(self.U.shape[0]), int(self.V.shape[0])

    def to_dense(self) -> Any:
        """The matrix itself."""
        return self.U @ self.V.T

    def compress(self, tolerance: float = 1e-14) -> LowRank:
        """The same matrix up to ``tolerance`` times its norm, with as few columns as that allows.

        U V' = Q_u (R_u R_v') Q_v', and the small middle matrix is cut by its singular values.
        """
        q_u, r_u = np.linalg.qr(self.U)
        q_v, r_v = np.linalg.qr(self.V)
        left, values, right = np.linalg.svd(r_u @ r_v.T)
        kept = int((values > tolerance * values.max(initial=0.0)).sum())
        return LowRank(q_u @ (left[:, :kept] * values[:kept]), q_v @ right[:kept].T)


@dataclass(frozen=True, eq=False)
class Change:
    """One change of one input.

    ``rows``, ``cols`` and ``entries`` give *new values*; ``adds`` maps entries to amounts to add, and
    ``factors=(U, V)`` adds U @ V.T. Where several are given they act in this order.
    """

    rows: Mapping[int, Any] | None = None
    cols: Mapping[int, Any] | None = None
    entries: Mapping[tuple[int, int], Any] | None = None
    adds: Mapping[tuple[int, int], Any] | None = None
    factors: tuple[Any, Any] | LowRank | None = None


def lines_set(changes: Iterable[Change]) -> tuple[set[int], set[int]]:
    """The rows and columns whose present values changes refer to.

    >>> lines_set([Change(rows={3: [0.0]}, entries={(1, 0): 5.0}), Change(adds={(2, 2): 1.0})])
    ({1, 3}, set())
    """
    rows, columns = set(), set()
    for change in changes:
        rows |= {int(i) for i in change.rows or ()} | {int(i) for i, _ in change.entries or ()}
        columns |= {int(j) for j in change.cols or ()}
    return rows, columns


@dataclass
class Coalesced:
    """The sum of changes of one input: changed rows, changed columns, and added factors.

    A row that is set a thousand times is one rank-one term, which holds its last value minus its first.
    ``current`` is indexed in those rows and columns only that changes set.
    """

    current: Any
    name: str
    arrays: Arrays
    by_row: dict[int, Any] = field(default_factory=dict)
    by_column: dict[int, Any] = field(default_factory=dict)
    factors: list[tuple[Any, Any]] = field(default_factory=list)

    def add(self, changes: Iterable[Change]) -> Coalesced:
        """Take in changes, one after the other."""
        for change in changes:
            for i, values in (change.rows or {}).items():
                self._set_row(self._index(i, 0), self._vector(values, 1))
            for j, values in (change.cols or {}).items():
                self._set_column(self._index(j, 1), self._vector(values, 0))
            self._set_entries(change.entries or {}, replace=True)
            self._set_entries(change.adds or {}, replace=False)
            if change.factors is not None:
                self._add_factors(change.factors)
        return self

    def terms(self) -> tuple[list[tuple[Any, Any]], tuple[FactorShape, ...]]:
        """The factors of the sum, and their shapes; rows and columns that did not change are left out."""
        pairs: list[tuple[Any, Any]] = []
        shapes: list[FactorShape] = []
        rows = {i: delta for i, delta in self.by_row.items() if self._nonzero(delta)}
        columns = {j: delta for j, delta in self.by_column.items() if self._nonzero(delta)}
        if rows:
            selector = Selector(np.array(sorted(rows)), self._shape()[0])
            pairs.append((selector, self._thin([rows[i] for i in sorted(rows)])))
            shapes.append(FactorShape(len(rows), selects_rows=True))
        if columns:
            selector = Selector(np.array(sorted(columns)), self._shape()[1])
            pairs.append((self._thin([columns[j] for j in sorted(columns)]), selector))
            shapes.append(FactorShape(len(columns), selects_columns=True))
        if self.factors:
            left = self.arrays.stack([u for u, _ in self.factors])
            right = self.arrays.stack([v for _, v in self.factors])
            pairs.append((left, right))
            shapes.append(FactorShape(int(left.shape[1])))
        return pairs, tuple(shapes)

    def _set_row(self, i: int, values: Any) -> None:
        self.by_row[i] = self.by_row.get(i, 0) + values - self._row(i)

    def _set_column(self, j: int, values: Any) -> None:
        self.by_column[j] = self.by_column.get(j, 0) + values - self._column(j)

    def _set_entries(self, entries: Mapping[tuple[int, int], Any], replace: bool) -> None:
        by_column = len({j for _, j in entries}) < len({i for i, _ in entries})
        for (i, j), value in entries.items():
            row, column = self._index(i, 0), self._index(j, 1)
            amount = self._number(value) - (self._entry(row, column) if replace else 0)
            if by_column and row not in self.by_row:
                self._slot(self.by_column, column, 0)[row] += amount
            else:
                self._slot(self.by_row, row, 1)[column] += amount

    def _add_factors(self, factors: tuple[Any, Any] | LowRank) -> None:
        left, right = (factors.U, factors.V) if isinstance(factors, LowRank) else factors
        u, v = (self._columns(side) for side in (left, right))
        rows, columns = self._shape()
        if u.shape[0] != rows or v.shape[0] != columns or u.shape[1] != v.shape[1]:
            raise ShapeError(
                f"factors {u.shape} and {v.shape} do not make a change of {self.name}, which is "
                f"{rows} x {columns}; U needs {rows} rows, V {columns}, and equally many columns"
            )
        if u.shape[1]:
            self.factors.append((u, v))

    def _columns(self, side: Any) -> Any:
        array = np.asarray(side)
        return self.arrays.take(array.reshape(-1, 1) if array.ndim == 1 else side)

    def _slot(self, slots: dict[int, Any], index: int, axis: int) -> Any:
        if index not in slots:
            slots[index] = np.zeros(self._shape()[axis], dtype=np.int64 if self.arrays.exact else np.float64)
        return slots[index]

    def _row(self, i: int) -> Any:
        total = self.current[i, :] + self.by_row.get(i, 0)
        for j, delta in self.by_column.items():
            total[j] += delta[i]
        for u, v in self.factors:
            total = total + self.arrays.to_numpy(v) @ self.arrays.to_numpy(u)[i]
        return total

    def _column(self, j: int) -> Any:
        total = self.current[:, j] + self.by_column.get(j, 0)
        for i, delta in self.by_row.items():
            total[i] += delta[j]
        for u, v in self.factors:
            total = total + self.arrays.to_numpy(u) @ self.arrays.to_numpy(v)[j]
        return total

    def _entry(self, i: int, j: int) -> Any:
        total = self.current[i, j]
        total = total + (self.by_row[i][j] if i in self.by_row else 0)
        total = total + (self.by_column[j][i] if j in self.by_column else 0)
        return total + sum(self.arrays.to_numpy(u)[i] @ self.arrays.to_numpy(v)[j] for u, v in self.factors)

    def _thin(self, vectors: list[Any]) -> Any:
        return self.arrays.take(np.stack(vectors, axis=1))

    def _nonzero(self, delta: Any) -> bool:
        return bool(np.any(self.arrays.to_numpy(self.arrays.take(delta.reshape(1, -1))) != 0))

    def _shape(self) -> Shape:
        return int(self.current.shape[0]), int(self.current.shape[1])

    def _index(self, index: int, axis: int) -> int:
        size = self._shape()[axis]
        if not 0 <= int(index) < size:
            kind = ("row", "column")[axis]
            raise ShapeError(f"{self.name} has no {kind} {index}; its {kind}s run from 0 to {size - 1}")
        return int(index)

    def _vector(self, values: Any, axis: int) -> Any:
        vector = np.asarray(values, dtype=np.int64 if self.arrays.exact else np.float64).reshape(-1)
        if len(vector) != self._shape()[axis]:
            kind = ("column", "row")[axis]
            raise ShapeError(f"a {kind} of {self.name} has {self._shape()[axis]} values, not {len(vector)}")
        return self._finite(vector)

    def _number(self, value: Any) -> Any:
        return self._finite(np.asarray(value))[()]

    def _finite(self, values: Any) -> Any:
        if not np.isfinite(values).all():
            raise NumericalError(f"a change of {self.name} holds NaN or infinity; it was not applied")
        return values
