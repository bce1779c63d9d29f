"""Markov chains from observed transitions: k-step probabilities and the stationary distribution."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from viewlet.errors import DataError
from viewlet.linalg.errors import ShapeError
from viewlet.linalg.factored import Change
from viewlet.linalg.nodes import Identity, as_matrix, power
from viewlet.linalg.view import MatrixView, input, maintain


class MarkovChain:
    """A chain estimated from counts of transitions; an observation changes one row of P.

    ``steps`` = k maintains P^k; ``stationary=True`` maintains pi by pi' (I - P + E) = 1', E all ones, which
    has one solution when the chain has one recurrent class (and is refused as singular otherwise).
    A state that was never left stays where it is: its row is that of the identity.

    >>> chain = MarkovChain(np.array([[1.0, 1.0], [2.0, 0.0]]), steps=2)
    >>> chain.transitions.tolist()
    [[0.75, 0.25], [0.5, 0.5]]
    >>> chain.observe([(1, 1), (1, 1)]).matrix.tolist()
    [[0.5, 0.5], [0.5, 0.5]]
    """

    def __init__(self, counts: Any, *, steps: int = 1, stationary: bool = False, **options: Any) -> None:
        self.counts = np.array(counts, dtype=np.float64)
        if self.counts.ndim != 2 or self.counts.shape[0] != self.counts.shape[1]:
            raise ShapeError(f"counts of transitions are a square matrix, not {self.counts.shape}")
        if (self.counts < 0).any() or not np.isfinite(self.counts).all():
            raise DataError("counts of transitions are finite and not negative")
        n = len(self.counts)
        P = input("P", (n, n))
        outputs = {"steps": power(P, steps)}
        if stationary:
            ones = as_matrix(np.ones((n, n)))
            outputs["stationary"] = (Identity(n) - P + ones).inv().T @ np.ones((n, 1))
        rows = np.array([self._probabilities(i) for i in range(n)])
        self.view: MatrixView = maintain(outputs, P=rows, **options)

    def observe(self, transitions: Iterable[tuple[int, int]], times: float = 1.0) -> MarkovChain:
        """Count transitions (from, to); negative ``times`` takes observations back."""
        changed = self.counts.copy()
        rows = set()
        for source, target in transitions:
            if not (0 <= source < len(changed) and 0 <= target < len(changed)):
                raise DataError(f"there is no transition {source} -> {target} among {len(changed)} states")
            changed[source, target] += times
            rows.add(source)
        if (changed < 0).any():
            raise DataError("more transitions are taken back than were observed; nothing changed")
        old, self.counts = self.counts, changed
        try:
            self.view.apply({"P": Change(rows={i: self._probabilities(i) for i in rows})})
        except Exception:
            self.counts = old
            raise
        return self

    def _probabilities(self, state: int) -> Any:
        total = self.counts[state].sum()
        return self.counts[state] / total if total > 0 else np.eye(len(self.counts))[state]

    @property
    def matrix(self) -> Any:
        """P, one step."""
        return self.view["P"]

    @property
    def transitions(self) -> Any:
        """P^k, the probabilities after ``steps`` steps."""
        return self.view["steps"]

    @property
    def stationary(self) -> Any:
        """The distribution that a step does not change; needs ``stationary=True``."""
        return self.view["stationary"][:, 0]
