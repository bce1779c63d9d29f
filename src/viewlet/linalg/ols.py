"""Least squares that rows enter and leave: exact add and remove, windows, forgetting, ridge, statistics.

The state is the Gram matrix X'X with X'y and y'y, and the rows themselves. Adding and removing cost
O(n^2) per row; a read solves by Cholesky, or finds the inverse updated by the formula of Woodbury. Three
things can go wrong, and each is met:

* a huge row comes and goes: its square stays behind as rounding error. The largest diagonal ever seen is
  remembered, and X'X is rebuilt from the rows when the loss exceeds the tolerance;
* columns are nearly collinear: X'X squares the condition number, so then the rows are solved by QR;
* columns are collinear: the solution of least norm is returned, and ``health`` says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from viewlet.errors import BackendError, DataError
from viewlet.linalg.errors import LinalgError, NumericalError, ShapeError, SingularError
from viewlet.linalg.rows import RowBag

# Below this reciprocal condition of the scaled X'X, its solution has lost half of its digits.
GRAM_LIMIT = 1e-8
# The relative loss of X'X at which it is rebuilt from the rows.
REBUILD_AT = 1e-12
# From this many columns on, few changed rows update the inverse in O(n^2) in place of a factorization.
WOODBURY_FROM = 32
# The relative correction by refinement above which an updated inverse is given up.
WOODBURY_TRUST = 1e-10


@dataclass
class RegressionHealth:
    """How the last solution was found, and what happened so far."""

    solver: str = "none"
    status: str = "ok"
    rank: int = 0
    condition: float = 1.0
    loss: float = 0.0
    rebuilds: int = 0


class OLS:
    """Ordinary least squares or ridge regression under insertions and deletions.

    ``ridge`` adds ridge * I to X'X (not to the intercept). ``window`` keeps the newest rows only.
    ``forgetting`` = f weighs a row that arrived i rows ago by f^i. ``keep_rows=False`` saves their memory and
    gives up the check of removals and the defences above, except that trouble is still reported.

    >>> model = OLS().add([[1.0], [2.0], [3.0]], [2.0, 4.0, 7.0])
    >>> _ = model.remove([[3.0]], [7.0])
    >>> model.coef_.round(12).tolist()
    [2.0]
    """

    def __init__(
        self,
        *,
        ridge: float = 0.0,
        intercept: bool = False,
        window: int | None = None,
        forgetting: float = 1.0,
        keep_rows: bool = True,
    ) -> None:
        if not (0 < forgetting <= 1):
            raise LinalgError(f"forgetting={forgetting} must be above 0 and at most 1 (no forgetting)")
        if ridge < 0 or not np.isfinite(ridge):
            raise LinalgError(f"ridge={ridge} must be zero or more")
        if window is not None and (window < 1 or not keep_rows or forgetting < 1):
            raise LinalgError(
                "a window holds at least one row, needs keep_rows=True, and excludes forgetting"
            )
        self.ridge, self.intercept, self.window, self.forgetting = ridge, intercept, window, forgetting
        self.keep_rows = keep_rows and forgetting == 1
        self.health = RegressionHealth()
        self._features = 0

    @property
    def count(self) -> int:
        """Rows in the model."""
        return int(self._count) if self._features else 0

    def add(self, X: Any, y: Any) -> OLS:
        """Take rows in."""
        rows = self._read(X, y)
        if not len(rows):
            return self
        if self.keep_rows:
            self._bag.add(rows)
        self._change(rows, +1)
        if self.window is not None and len(self._bag) > self.window:
            self._change(self._bag.pop_oldest(len(self._bag) - self.window), -1)
        return self

    def remove(self, X: Any, y: Any) -> OLS:
        """Take rows out that were added before; unknown rows are refused and nothing changes."""
        if self.forgetting < 1:
            raise LinalgError(
                "with forgetting a row has no fixed weight, so it cannot be removed; use window="
            )
        rows = self._read(X, y)
        if len(rows) > self.count:
            raise DataError(f"cannot remove {len(rows)} rows from {self.count}")
        if self.keep_rows:
            self._bag.remove(rows)
        self._change(rows, -1)
        return self

    def _read(self, X: Any, y: Any) -> np.ndarray[Any, Any]:
        """Rows [x, y] as one array, checked."""
        features = np.atleast_2d(np.asarray(X, dtype=np.float64))
        targets = np.asarray(y, dtype=np.float64)
        self._vector_target = targets.ndim < 2
        targets = targets.reshape(-1, 1) if targets.ndim < 2 else targets
        if features.ndim != 2 or len(features) != len(targets):
            raise ShapeError(
                f"X has shape {features.shape} and y {targets.shape}; they need equally many rows"
            )
        if not (np.isfinite(features).all() and np.isfinite(targets).all()):
            raise NumericalError("X or y holds NaN or infinity; the rows were not taken")
        if self.intercept:
            features = np.hstack([features, np.ones((len(features), 1))])
        if not self._features:
            self._start(features.shape[1], targets.shape[1])
        if features.shape[1] != self._features or targets.shape[1] != self._targets:
            raise ShapeError(
                f"this model has {self._features - self.intercept} features and {self._targets} targets, "
                f"not {features.shape[1] - self.intercept} and {targets.shape[1]}"
            )
        return np.hstack([features, targets])

    def _start(self, features: int, targets: int) -> None:
        width = features + targets
        self._features, self._targets = features, targets
        self._moments = np.zeros((width, width))  # [X y]'[X y]: X'X, X'y and y'y in one matrix
        self._peak = np.zeros(width)
        self._count = 0.0
        self._weight = 0.0
        self._bag = RowBag(width)
        self._solution: _Solution | None = None

    def _change(self, rows: np.ndarray[Any, Any], sign: int) -> None:
        if self.forgetting < 1:
            weights = self.forgetting ** np.arange(len(rows) - 1, -1, -1.0)
            fade = self.forgetting ** len(rows)
            self._moments *= fade
            self._moments += (rows * weights[:, None]).T @ rows
            self._weight = self._weight * fade + float(weights.sum())
            self._peak *= fade
        else:
            self._moments += sign * (rows.T @ rows)
            self._weight += sign * len(rows)
        self._count += sign * len(rows)
        self._peak = np.maximum(self._peak, np.abs(np.diagonal(self._moments)))
        self._solution = self._woodbury(rows, sign)
        if self._count == 0:
            self._moments[:] = 0.0  # nothing is left of an empty bag, not even rounding errors
            self._peak[:] = 0.0

    def _woodbury(self, rows: np.ndarray[Any, Any], sign: int) -> _Solution | None:
        """(G + s U'U)^-1 = W - W U' (s I + U W U')^-1 U W, for few rows; None where solving anew is safer.

        The coefficients are refined against X'X and X'y, which do not come from W; how much the refinement
        moves them is the check of W.
        """
        n, last = self._features, self._solution
        if last is None or self.forgetting < 1 or n < WOODBURY_FROM or 8 * len(rows) > n:
            return None
        U = rows[:, :n]
        w_u = last.inverse @ U.T
        capacitance = sign * np.eye(len(rows)) + U @ w_u
        if np.linalg.cond(capacitance) > 1e6 * max(1.0, float(np.abs(capacitance).max())):
            return None
        inverse = last.inverse - w_u @ np.linalg.solve(capacitance, w_u.T)
        gram, cross = self._moments[:n, :n] + np.diag(self._penalties()), self._moments[:n, n:]
        coefficients = last.coefficients + inverse @ (cross - gram @ last.coefficients)
        correction = inverse @ (cross - gram @ coefficients)
        size = float(np.linalg.norm(coefficients))
        if not np.linalg.norm(correction) <= WOODBURY_TRUST * size or self._lossy() > REBUILD_AT:
            return None
        self._report("woodbury", "ok", n, self.health.condition)
        return _Solution(coefficients + correction, inverse)

    def _lossy(self) -> float:
        """The relative error of X'X that rows which came and went may have left."""
        n, eps = self._features, float(np.finfo(np.float64).eps)
        diagonal = np.maximum(np.diagonal(self._moments)[:n], np.finfo(np.float64).tiny)
        with np.errstate(over="ignore"):
            return float((eps * self._peak[:n] / diagonal).max(initial=0.0))

    def _solve(self) -> _Solution:
        if not self._features or self._count == 0:
            raise LinalgError("the model has no rows; add some first")
        if self._solution is None:
            self._rebuild_if_lossy()
            self._solution = self._solve_gram() or self._solve_rows()
        return self._solution

    def _rebuild_if_lossy(self) -> None:
        self.health.loss = self._lossy()
        if self.health.loss > REBUILD_AT and self.keep_rows:
            rows = self._bag.array()
            self._moments = rows.T @ rows
            self._peak = np.abs(np.diagonal(self._moments)).copy()
            self.health.loss = self._lossy()
            self.health.rebuilds += 1

    def _solve_gram(self) -> _Solution | None:
        """Cholesky of the scaled X'X + ridge; None where its condition asks for the rows instead."""
        lapack = _lapack()
        n = self._features
        gram, cross = self._moments[:n, :n] + np.diag(self._penalties()), self._moments[:n, n:]
        scales = np.sqrt(np.maximum(np.diagonal(gram), 0.0))
        if not (scales > 0).all():
            return None
        scaled = gram / np.outer(scales, scales)
        factor, info = lapack.dpotrf(scaled, lower=1)
        if info:
            return None
        rcond = float(lapack.dpocon(factor, np.abs(scaled).sum(axis=0).max(), uplo="L")[0])
        if rcond < GRAM_LIMIT:
            return None
        solution = _spd_solve(factor, cross / scales[:, None])
        solution += _spd_solve(factor, cross / scales[:, None] - scaled @ solution)  # one refinement
        inverse = _spd_solve(factor, np.eye(n)) / np.outer(scales, scales)
        status = "ok"
        if self.health.loss > REBUILD_AT:
            status = f"X'X has lost digits to rows that left: relative error about {self.health.loss:.1e}"
        self._report("cholesky", status, n, rcond**-0.5)
        return _Solution(solution / scales[:, None], inverse)

    def _solve_rows(self) -> _Solution:
        """QR-class solution from the rows, of least norm where columns are collinear."""
        n = self._features
        if not self.keep_rows:
            raise SingularError(
                f"X'X of {self.count} rows and {n} columns is too close to singular without the rows; "
                "use keep_rows=True or ridge above 0"
            )
        rows = self._bag.array()
        X, y = rows[:, :n], rows[:, n:]
        if self.ridge:
            X = np.vstack([X, np.diag(np.sqrt(self._penalties()))])
            y = np.vstack([y, np.zeros((n, y.shape[1]))])
        norms = np.linalg.norm(X, axis=0)
        scales = np.where(norms > 0, norms, 1.0)
        left, values, right = np.linalg.svd(X / scales, full_matrices=False)
        kept = values > max(X.shape) * np.finfo(np.float64).eps * values.max(initial=0.0)
        rank = int(kept.sum())
        status = "ok" if rank == n else f"rank {rank} of {n} columns: the solution of least norm is given"
        if rank < n:  # least norm in the user's own scale
            left, values, right = np.linalg.svd(X, full_matrices=False)
            kept = values > max(X.shape) * np.finfo(np.float64).eps * values.max(initial=0.0)
            scales = np.ones(n)
        basis = right[kept].T / values[kept]
        condition = float(values[0] / values[kept][-1]) if rank else 1.0
        self._report("svd of the rows", status, rank, condition)
        coefficients = (basis @ (left[:, kept].T @ y)) / scales[:, None]
        return _Solution(coefficients, (basis @ basis.T) / np.outer(scales, scales))

    def _report(self, solver: str, status: str, rank: int, condition: float) -> None:
        health = self.health
        health.solver, health.status, health.rank, health.condition = solver, status, rank, condition

    def _penalties(self) -> np.ndarray[Any, Any]:
        penalties = np.full(self._features, self.ridge)
        if self.intercept:
            penalties[-1] = 0.0
        return penalties

    @property
    def coef_(self) -> np.ndarray[Any, Any]:
        """One coefficient per feature; one column per target where y has columns."""
        return np.asarray(self._shaped(self._solve().coefficients[: self._features - self.intercept]))

    @property
    def intercept_(self) -> Any:
        """The constant term, 0 without intercept."""
        if not self.intercept:
            return 0.0
        return self._solve().coefficients[-1, 0] if self._vector_target else self._solve().coefficients[-1]

    @property
    def inverse_gram_(self) -> np.ndarray[Any, Any]:
        """(X'X + ridge I)^-1."""
        return self._solve().inverse

    @property
    def rss_(self) -> Any:
        """The sum of squared residuals, from the rows where subtraction of moments would cancel."""
        beta, n = self._solve().coefficients, self._features
        gram, cross = self._moments[:n, :n], self._moments[:n, n:]
        total = np.diagonal(self._moments)[n:]
        rss = total - 2 * (beta * cross).sum(axis=0) + (beta * (gram @ beta)).sum(axis=0)
        if self.keep_rows and (rss < 1e-6 * total).any():
            rows = self._bag.array()
            rss = ((rows[:, n:] - rows[:, :n] @ beta) ** 2).sum(axis=0)
        return self._shaped(np.maximum(rss, 0.0))

    @property
    def sigma2_(self) -> Any:
        """The residual variance rss / (rows - rank); needs more rows than columns."""
        self._solve()
        freedom = self._weight - self.health.rank
        if freedom <= 0:
            raise SingularError(
                f"{self.count} rows and {self.health.rank} independent columns leave no degree of freedom "
                "for a variance; add rows"
            )
        return self.rss_ / freedom

    @property
    def stderr_(self) -> np.ndarray[Any, Any]:
        """Standard errors of the coefficients, of (X'X)^-1 X'y; for ridge, of the penalized estimate."""
        inverse, n = self._solve().inverse, self._features
        gram = self._moments[:n, :n]
        spread = np.diagonal(inverse @ gram @ inverse) if self.ridge else np.diagonal(inverse)
        errors = np.sqrt(np.outer(np.maximum(spread, 0.0), np.atleast_1d(self.sigma2_)))
        return np.asarray(self._shaped(errors[: n - self.intercept]))

    @property
    def tvalues_(self) -> np.ndarray[Any, Any]:
        """Coefficients over standard errors; infinite for a perfect fit."""
        with np.errstate(divide="ignore"):
            return np.asarray(self.coef_ / self.stderr_)

    @property
    def r2_(self) -> Any:
        """1 - rss / total sum of squares, centred only with an intercept (as statsmodels does)."""
        n = self._features
        total = np.diagonal(self._moments)[n:]
        if self.intercept:
            total = total - self._moments[n - 1, n:] ** 2 / self._weight
        rss = np.atleast_1d(self.rss_)
        if (total <= 0).any():
            raise SingularError("y does not vary, so it has no share of explained variance")
        return self._shaped(1 - rss / total)

    def predict(self, X: Any) -> np.ndarray[Any, Any]:
        """X @ coef_ + intercept_."""
        return np.asarray(np.asarray(X, dtype=np.float64) @ self.coef_ + self.intercept_)

    def _shaped(self, values: np.ndarray[Any, Any]) -> Any:
        """Drop the target axis where y was a vector."""
        return values[..., 0] if self._vector_target else values


@dataclass(frozen=True)
class _Solution:
    coefficients: np.ndarray[Any, Any]
    inverse: np.ndarray[Any, Any]


def _spd_solve(factor: Any, right: Any) -> Any:
    return _lapack().dpotrs(factor, right, lower=1)[0]


def _lapack() -> Any:
    try:
        from scipy.linalg import lapack
    except ImportError as missing:
        raise BackendError("viewlet.linalg needs SciPy: pip install 'viewlet[linalg]'") from missing
    return lapack
