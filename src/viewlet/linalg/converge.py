"""Iterate until the change is small, while the inputs change: the number of steps follows the data.

All iterates are stored and maintained (the linear model). After an update the first step that changes
little enough may be an earlier one, then it is the result, or a later one, then iterates are appended by
plain evaluation. Either way the result is the iterate that starting afresh would stop at.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

import numpy as np

from viewlet.linalg.arrays import Arrays
from viewlet.linalg.blas import Blas
from viewlet.linalg.cost import Machine
from viewlet.linalg.errors import LinalgError
from viewlet.linalg.evaluate import evaluate
from viewlet.linalg.factored import Change
from viewlet.linalg.iterate import iteration, split_affine
from viewlet.linalg.nodes import Expr, Input, Operand, as_matrix
from viewlet.linalg.view import MatrixView, Settings, Update, adopt

# Iterates kept beyond the stopping step, so that a step count that wavers costs nothing.
SPARE_STEPS = 8


def converge(
    step: Callable[[Expr], Expr],
    start: Operand,
    *,
    until: float,
    limit: int = 1000,
    arrays: Arrays | None = None,
    tol: float = 1e-9,
    **values: Any,
) -> ConvergingView:
    """Maintain the first T_i of T_(i+1) = step(T_i) with |T_i - T_(i-1)| <= until (Frobenius norm).

    >>> A, B = Input("A", (1, 1)), Input("B", (1, 1))
    >>> view = converge(lambda T: A @ T + B, B, until=1e-9, A=[[0.5]], B=[[1.0]])
    >>> round(float(view.value[0, 0]), 6), view.steps
    (2.0, 30)
    >>> _ = view.update("A", entries={(0, 0): 0.75})
    >>> round(float(view.value[0, 0]), 6), view.steps
    (4.0, 73)
    """
    first = as_matrix(start)
    affine = split_affine(step(variable := Input("T (iterated)", first.shape)), variable)
    if affine is None:
        raise LinalgError(
            "only steps of the form A @ T + B can run to convergence; use iterate with a fixed k"
        )
    if not until > 0:
        raise LinalgError(f"until={until} must be above 0")
    return ConvergingView(affine[0], affine[1], first, until, limit, arrays or Blas(), tol, values)


class ConvergingView:
    """A view of the result of an iteration that runs to convergence; made by :func:`converge`."""

    def __init__(
        self,
        step: Expr,
        offset: Expr,
        start: Expr,
        until: float,
        limit: int,
        arrays: Arrays,
        tol: float,
        values: Mapping[str, Any],
    ) -> None:
        self._parts, self._until, self._limit = (step, offset, start), until, limit
        self._arrays, self._tol = arrays, tol
        inputs = {name: arrays.take(value) for name, value in values.items()}
        iterates = self._extend([evaluate(start, inputs, arrays)], inputs)
        self.view = self._view(iterates, inputs)
        self.steps = self._stop(iterates)

    @property
    def value(self) -> Any:
        """The iterate at which the iteration stops."""
        return self._iterates()[self.steps]

    def update(self, name: str, **change: Any) -> Update:
        """Change one input, as :meth:`MatrixView.update`."""
        return self.apply({name: Change(**change)})

    def apply(self, changes: Any) -> Update:
        """Change inputs, maintain the stored iterates, and append or drop iterates as convergence asks.

        A change after which the iteration does not converge is refused, and nothing is changed.
        """
        before = {name: self._arrays.combine([(1, value, False)]) for name, value in self.view.state.items()}
        update = self.view.apply(changes)
        iterates = self._iterates()
        inputs = {name: self.view.state[name] for name in self.view.program.inputs}
        try:
            extended = self._extend(iterates, inputs)
        except LinalgError:
            self.view.state.update(before)
            raise
        self.steps = self._stop(extended)
        kept = extended[: self.steps + SPARE_STEPS + 1]
        if len(kept) != len(iterates):
            self.view = self._view(kept, inputs)
        return update

    def error(self) -> float:
        """The relative error of the stored iterates against recomputation, by probing."""
        return self.view.error()

    def explain(self) -> str:
        """The stopping step, and the program that maintains the iterates."""
        return f"stops after {self.steps} steps, |change| <= {self._until}\n{self.view.explain()}"

    def _iterates(self) -> list[Any]:
        """T_0, T_1, ... as stored."""
        inputs = {name: self.view.state[name] for name in self.view.program.inputs}
        first = evaluate(self._parts[2], inputs, self._arrays)
        return [first, *(self.view.state[name] for name in self.view.program.outputs.values())]

    def _extend(self, iterates: list[Any], inputs: Mapping[str, Any]) -> list[Any]:
        """Append T_(i+1) = A T_i + B until two iterates in a row are close."""
        result = list(iterates)
        if any(self._close(a, b) for a, b in pairwise(result)):
            return result
        step, offset = None, None
        while len(result) == 1 or not self._close(result[-2], result[-1]):
            if len(result) > self._limit:
                raise LinalgError(
                    f"no convergence to {self._until} within {self._limit} steps; the spectral radius of the "
                    "step is probably not below 1"
                )
            if step is None:
                step, offset = (evaluate(part, inputs, self._arrays) for part in self._parts[:2])
            with np.errstate(all="ignore"):
                moved = self._arrays.multiply(step, False, result[-1], False)
                result.append(self._arrays.combine([(1, moved, False), (1, offset, False)]))
        return result

    def _stop(self, iterates: list[Any]) -> int:
        return next(i for i in range(1, len(iterates)) if self._close(iterates[i - 1], iterates[i]))

    def _close(self, a: Any, b: Any) -> bool:
        with np.errstate(all="ignore"):  # a diverging iteration may overflow; it is never close
            difference = self._arrays.to_numpy(a) - self._arrays.to_numpy(b)
            return bool(np.linalg.norm(difference) <= self._until)

    def _view(self, iterates: list[Any], inputs: Mapping[str, Any]) -> MatrixView:
        """A view that stores exactly these iterates; their values are carried over, not recomputed."""
        outputs = {f"T{i}": iteration(*self._parts, i) for i in range(1, len(iterates))}
        carried = dict(zip(outputs, iterates[1:], strict=True))
        return adopt(
            outputs, dict(inputs), carried, self._arrays, Settings("auto", self._tol, True, Machine())
        )
