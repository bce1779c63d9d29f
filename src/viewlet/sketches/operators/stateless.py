"""Operators that need no memory above others that do: σ, π, ∪."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from viewlet.core.functions import compile_scalar
from viewlet.core.scalar import Scalar, Var
from viewlet.sketches.operators.base import AnnotatedRow, Delta, Operator


def slots_of(variables: Sequence[Var]) -> dict[str, int]:
    """Where in a row each variable is."""
    return {var.name: slot for slot, var in enumerate(variables)}


class RowWise:
    """An operator that treats the rows of one input one by one."""

    def __init__(self, input: Operator, through: Callable[[Delta], Delta]) -> None:
        self._input, self._through = input, through

    def load(self) -> Delta:
        """All rows."""
        return self._through(self._input.load())

    def change(self, changed: frozenset[str]) -> Delta:
        """The change."""
        return self._through(self._input.change(changed))

    def entries(self) -> int:
        """Nothing of its own."""
        return self._input.entries()

    def explain(self) -> Iterator[str]:
        """Nothing of its own."""
        return self._input.explain()

    def save(self) -> Iterator[object]:
        """Nothing of its own."""
        return self._input.save()

    def restore(self, parts: Iterator[object]) -> None:
        """Nothing of its own."""
        self._input.restore(parts)


def selection(input: Operator, condition: Scalar, variables: Sequence[Var]) -> Operator:
    """I(σ(Q), Δ) = σ(I(Q, Δ))"""
    test = compile_scalar(condition, slots_of(variables))
    return RowWise(input, lambda delta: [change for change in delta if test(change.row) is True])


def projection(input: Operator, scalars: Sequence[Scalar], variables: Sequence[Var]) -> Operator:
    """I(π(Q), Δ) = π(I(Q, Δ))"""
    functions = [compile_scalar(scalar, slots_of(variables)) for scalar in scalars]

    def project(delta: Delta) -> Delta:
        return [AnnotatedRow(tuple([f(row) for f in functions]), bits, weight) for row, bits, weight in delta]

    return RowWise(input, project)


class Union:
    """I(Q1 ∪ Q2, Δ) = I(Q1, Δ) ∪ I(Q2, Δ)"""

    def __init__(self, left: Operator, right: Operator) -> None:
        self._sides = (left, right)

    def load(self) -> Delta:
        """The rows of both sides."""
        return [row for side in self._sides for row in side.load()]

    def change(self, changed: frozenset[str]) -> Delta:
        """The changes of both sides."""
        return [row for side in self._sides for row in side.change(changed)]

    def entries(self) -> int:
        """Those of both sides."""
        return sum(side.entries() for side in self._sides)

    def explain(self) -> Iterator[str]:
        """Those of both sides."""
        for side in self._sides:
            yield from side.explain()

    def save(self) -> Iterator[object]:
        """The parts of both sides."""
        for side in self._sides:
            yield from side.save()

    def restore(self, parts: Iterator[object]) -> None:
        """Left before right."""
        for side in self._sides:
            side.restore(parts)
