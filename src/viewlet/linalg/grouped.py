"""Many small regressions, one per group, in batched kernels."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from viewlet.errors import DataError
from viewlet.linalg.errors import LinalgError, NumericalError, ShapeError

# Below this reciprocal condition number, a group's solution is of least norm and its status says so.
SINGULAR = 1e-11
# The relative loss of X'X that a group's status reports; rows are not kept, so it cannot be repaired.
LOSS_REPORTED = 1e-10


class GroupedOLS:
    """One least-squares model per key: a batch touches many groups, and is one kernel all the same.

    The moments of all groups are one array (groups, n + p, n + p). A read solves all groups that changed
    since the last one together, by a batched symmetric eigendecomposition of the column-scaled X'X.

    >>> model = GroupedOLS().add(["a", "b", "a"], [[1.0], [1.0], [2.0]], [3.0, 5.0, 6.0])
    >>> model.coefs_.round(12).tolist()
    [[3.0], [5.0]]
    """

    def __init__(self, *, ridge: float = 0.0) -> None:
        if ridge < 0:
            raise LinalgError(f"ridge={ridge} must be zero or more")
        self.ridge = ridge
        self.keys: list[Hashable] = []
        self._slots: dict[Hashable, int] = {}
        self._features = self._targets = 0
        self._moments = np.zeros((0, 0, 0))
        self._peaks = np.zeros((0, 0))
        self._counts = np.zeros(0, dtype=np.int64)
        self._coefficients = np.zeros((0, 0, 0))
        self._inverses = np.zeros((0, 0, 0))
        self._ranks = np.zeros(0, dtype=np.int64)
        self._stale = np.zeros(0, dtype=bool)

    def add(self, keys: Sequence[Hashable] | np.ndarray[Any, Any], X: Any, y: Any) -> GroupedOLS:
        """Take rows in; new keys make new groups."""
        return self._change(keys, X, y, +1)

    def remove(self, keys: Sequence[Hashable] | np.ndarray[Any, Any], X: Any, y: Any) -> GroupedOLS:
        """Take rows out that were added before; a group never holds less than no rows."""
        return self._change(keys, X, y, -1)

    def _change(self, keys: Any, X: Any, y: Any, sign: int) -> GroupedOLS:
        rows, slots, new = self._read(keys, X, y)
        counts = np.bincount(slots, minlength=len(self.keys) + len(new)) * sign
        known = np.concatenate([self._counts, np.zeros(len(new), dtype=np.int64)])
        if (known + counts < 0).any():
            group = int(np.flatnonzero(known + counts < 0)[0])
            key = self.keys[group] if group < len(self.keys) else new[group - len(self.keys)]
            raise DataError(f"group {key!r} has {known[group]} rows; cannot remove {-counts[group]}")
        self._grow(new)
        order = np.argsort(slots, kind="stable")
        touched, starts = np.unique(slots[order], return_index=True)
        outer = rows[order, :, None] * rows[order, None, :]
        self._moments[touched] += sign * np.add.reduceat(outer, starts, axis=0)
        self._counts += counts
        empty = touched[self._counts[touched] == 0]
        self._moments[empty] = 0.0  # an empty group keeps no rounding errors
        diagonals = np.abs(np.diagonal(self._moments[touched], axis1=1, axis2=2))
        self._peaks[touched] = np.maximum(self._peaks[touched], diagonals)
        self._peaks[empty] = 0.0
        self._stale[touched] = True
        return self

    def _read(self, keys: Any, X: Any, y: Any) -> tuple[Any, Any, list[Hashable]]:
        features, targets = np.asarray(X, dtype=np.float64), np.asarray(y, dtype=np.float64)
        targets = targets.reshape(len(targets), -1)
        names = keys.tolist() if isinstance(keys, np.ndarray) else list(keys)
        if features.ndim != 2 or not len(features) == len(targets) == len(names) or not len(names):
            raise ShapeError(
                f"{len(names)} keys, X {features.shape} and y {targets.shape} need equally many rows"
            )
        if not (np.isfinite(features).all() and np.isfinite(targets).all()):
            raise NumericalError("X or y holds NaN or infinity; the rows were not taken")
        if self._features and (features.shape[1], targets.shape[1]) != (self._features, self._targets):
            raise ShapeError(f"these groups have {self._features} features and {self._targets} targets")
        new: dict[Hashable, int] = {}
        slots = np.empty(len(names), dtype=np.intp)
        for position, name in enumerate(names):
            slot = self._slots.get(name)
            slots[position] = new.setdefault(name, len(self.keys) + len(new)) if slot is None else slot
        self._features, self._targets = features.shape[1], targets.shape[1]
        return np.hstack([features, targets]), slots, list(new)

    def _grow(self, new: list[Hashable]) -> None:
        for key in new:
            self._slots[key] = len(self.keys)
            self.keys.append(key)
        n, p, more = self._features, self._targets, len(new)
        if not more:
            return
        if not self._counts.size:
            self._moments = np.zeros((0, n + p, n + p))
            self._peaks = np.zeros((0, n + p))
            self._coefficients, self._inverses = np.zeros((0, n, p)), np.zeros((0, n, n))
        pad = [
            ("_moments", (n + p, n + p)),
            ("_peaks", (n + p,)),
            ("_coefficients", (n, p)),
            ("_inverses", (n, n)),
        ]
        for name, shape in pad:
            old = getattr(self, name)
            setattr(self, name, np.concatenate([old, np.zeros((more, *shape))]))
        self._counts = np.concatenate([self._counts, np.zeros(more, dtype=np.int64)])
        self._ranks = np.concatenate([self._ranks, np.zeros(more, dtype=np.int64)])
        self._stale = np.concatenate([self._stale, np.ones(more, dtype=bool)])

    def _solve(self) -> None:
        """Scale columns, decompose, drop directions without data, solve: all stale groups at once."""
        stale = np.flatnonzero(self._stale)
        if not len(stale):
            return
        n = self._features
        gram = self._moments[stale, :n, :n] + self.ridge * np.eye(n)
        cross = self._moments[stale, :n, n:]
        diagonal = np.diagonal(gram, axis1=1, axis2=2)
        # What is left of a column whose rows have all gone is rounding error, not data.
        eps = np.finfo(np.float64).eps
        scales = np.sqrt(np.where(diagonal > 64 * eps * self._peaks[stale, :n], diagonal, 0.0))
        inverted = np.where(scales > 0, 1 / np.where(scales > 0, scales, 1.0), 0.0)
        values, vectors = np.linalg.eigh(gram * inverted[:, :, None] * inverted[:, None, :])
        usable = values > SINGULAR * values[:, -1:]
        weights = np.where(usable, 1 / np.where(usable, values, 1.0), 0.0)
        inverse = (vectors * weights[:, None, :]) @ np.swapaxes(vectors, 1, 2)
        inverse *= inverted[:, :, None] * inverted[:, None, :]
        self._inverses[stale] = inverse
        self._coefficients[stale] = inverse @ cross
        self._ranks[stale] = usable.sum(axis=1)
        self._stale[stale] = False

    def coef(self, key: Hashable) -> np.ndarray[Any, Any]:
        """The coefficients of one group."""
        slot = self._slot(key)
        self._solve()
        return np.asarray(self._coefficients[slot, :, 0] if self._targets == 1 else self._coefficients[slot])

    @property
    def coefs_(self) -> np.ndarray[Any, Any]:
        """Coefficients of all groups, in the order of ``keys``: (groups, features) for one target."""
        self._solve()
        return np.asarray(self._coefficients[:, :, 0] if self._targets == 1 else self._coefficients)

    @property
    def counts_(self) -> np.ndarray[Any, Any]:
        """Rows per group."""
        return self._counts.copy()

    @property
    def stderr_(self) -> np.ndarray[Any, Any]:
        """Standard errors, as ``coefs_``; infinite where a group leaves no degree of freedom."""
        self._solve()
        n = self._features
        beta, cross, gram = self._coefficients, self._moments[:, :n, n:], self._moments[:, :n, :n]
        total = np.diagonal(self._moments, axis1=1, axis2=2)[:, n:]
        rss = np.maximum(total - 2 * (beta * cross).sum(axis=1) + (beta * (gram @ beta)).sum(axis=1), 0.0)
        freedom = (self._counts - self._ranks)[:, None]
        variance = np.where(freedom > 0, rss / np.where(freedom > 0, freedom, 1), np.inf)
        inverse = self._inverses @ gram @ self._inverses if self.ridge else self._inverses
        spread = np.sqrt(np.maximum(np.diagonal(inverse, axis1=1, axis2=2), 0.0))
        errors = spread[:, :, None] * np.sqrt(variance)[:, None, :]
        return np.asarray(errors[:, :, 0] if self._targets == 1 else errors)

    def status(self, key: Hashable) -> str:
        """``ok``, or how the group's solution is restricted."""
        slot = self._slot(key)
        self._solve()
        rank = int(self._ranks[slot])
        n = self._features
        diagonal = np.diagonal(self._moments[slot])[:n]
        if rank == n and (np.finfo(np.float64).eps * self._peaks[slot, :n] > LOSS_REPORTED * diagonal).any():
            return (
                f"large rows that left took digits of X'X with them: relative error above {LOSS_REPORTED:.0e}"
            )
        if rank == n:
            return "ok"
        return f"rank {rank} of {n} columns: undetermined directions are set to zero"

    def _slot(self, key: Hashable) -> int:
        if key not in self._slots:
            raise DataError(f"no group {key!r}; there are {len(self.keys)} groups")
        return self._slots[key]
