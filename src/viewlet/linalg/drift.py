"""Rounding errors of maintained views: how they are measured, and when a view is recomputed.

Every update adds a rounding error of about eps |dV| to a view V. A *probe* multiplies the view and its
definition by the same few random vectors and compares, O(n^2) per stored matrix (Freivalds' check). A probe
runs each ``period`` updates, and at once when the sum of eps |dV| / |V| since the last probe exceeds the
tolerance: a huge row that came and went leaves its rounding error behind, and is noticed there.

A probe bounds lasting damage; it is no guarantee about every entry at every moment.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from viewlet.linalg.apply import Applier
from viewlet.linalg.arrays import Arrays
from viewlet.linalg.instructions import Builder, Code, Effect, Named, Replace
from viewlet.linalg.nodes import Expr, Input, Inverse, Ref, postorder
from viewlet.linalg.program import Program, Statement, renew
from viewlet.linalg.run import compute

PROBES = 3


@dataclass
class Health:
    """What the drift monitor saw.

    ``error`` is the last probe, relative; ``attainable`` what a fresh recomputation reaches: above the
    tolerance where the problem is too ill-conditioned for it, and then refreshing more often is no use.
    """

    tolerance: float
    updates: int = 0
    probes: int = 0
    refreshes: int = 0
    reevaluations: int = 0
    ill_conditioned: int = 0
    error: float = 0.0
    attainable: float = 0.0

    @property
    def status(self) -> str:
        """``ok``, or why the tolerance cannot be kept."""
        if self.attainable > self.tolerance:
            return (
                f"ill-conditioned: even recomputation has relative error {self.attainable:.1e}, "
                f"above the tolerance {self.tolerance:.1e}"
            )
        return "ok"

    @property
    def limit(self) -> float:
        """The error at which a refresh pays: the tolerance, or ten times what is attainable."""
        return max(self.tolerance, 10 * self.attainable)


@dataclass(frozen=True)
class Probe:
    """Code that computes, per statement, what it holds and how far that is off, times random vectors."""

    code: Code
    vectors: Mapping[str, tuple[int, int]]
    checks: Mapping[str, tuple[str, str]]


def compile_probe(program: Program) -> Probe:
    """Probe the outputs against their meaning over inputs and inverses, and inverses against identity.

    An inverse W of E is probed by W (x - E (W x)) against W x: to first order the relative error of W x
    itself, whatever the scale of rows and columns.
    """
    builder = Builder(dict(program.shapes))
    applier = Applier(builder)
    vectors: dict[str, tuple[int, int]] = {}
    checks: dict[str, tuple[str, str]] = {}
    outputs = set(program.outputs.values())
    for statement in program.statements:
        is_inverse = isinstance(statement.expr, Inverse)
        if statement.name not in outputs and not is_inverse:
            continue
        x = f"x_{statement.expr.shape[1]}"
        vectors[x] = builder.shapes[x] = statement.expr.shape[1], PROBES
        value = applier.apply(program.reference(statement), [x])[0]
        if is_inverse:
            back = applier.apply(_meaning(program, statement.expr.body), [value])[0]  # type: ignore[union-attr]
            residual = builder.combine([(1, Named(x)), (-1, Named(back))])
            wrong = applier.apply(program.reference(statement), [residual])[0]
        else:
            meant = applier.apply(_meaning(program, statement.expr), [x])[0]
            wrong = builder.combine([(1, Named(value)), (-1, Named(meant))])
        checks[statement.name] = value, wrong
    effects: list[Effect] = [Replace("probe", name) for pair in checks.values() for name in pair]
    return Probe(builder.code(tuple(vectors), effects), vectors, checks)


def _meaning(program: Program, expr: Expr) -> Expr:
    """``expr`` with every reference replaced by its meaning, down to inputs and inverses."""
    by_name: dict[str, Statement] = {statement.name: statement for statement in program.statements}
    meaning: dict[Expr, Expr] = {}
    for node in postorder(expr):
        if isinstance(node, Ref) and not isinstance(by_name[node.name].expr, Inverse):
            meaning[node] = _meaning(program, by_name[node.name].meaning)
        elif isinstance(node, Ref | Input):
            meaning[node] = node
        else:
            meaning[node] = renew(node, meaning)
    return meaning[expr]


@dataclass
class Monitor:
    """Decides when to probe and when to refresh."""

    probe: Probe
    arrays: Arrays
    health: Health
    period: int
    since_probe: int = 0
    suspected: float = 0.0
    scales: dict[str, float] = field(default_factory=dict)
    generator: np.random.Generator = field(default_factory=lambda: np.random.default_rng(20140622))

    def measure(self, state: Mapping[str, Any]) -> float:
        """The largest relative error among the probed views; infinite where a view is not finite."""
        factors = {
            name: self.arrays.take(self.generator.integers(-8, 9, shape))
            for name, shape in self.probe.vectors.items()
        }
        values = compute(self.probe.code, self.arrays, state, factors)
        worst = 0.0
        for name, (value, wrong) in self.probe.checks.items():
            if self.arrays.exact:
                worst = max(worst, float(np.any(self.arrays.to_numpy(values[wrong]) != 0)))
                continue
            scale, error = self.arrays.magnitude(values[value]), self.arrays.magnitude(values[wrong])
            if not (np.isfinite(scale) and np.isfinite(error)):
                return float("inf")
            vector_scale = self.arrays.magnitude(factors[f"x_{self._columns(name)}"])
            self.scales[name] = scale * self._columns(name) ** 0.5 / max(vector_scale, 1.0)
            worst = max(worst, error / scale if scale > 0 else error)
        self.since_probe, self.suspected = 0, 0.0
        self.health.probes += 1
        self.health.error = worst
        return worst

    def note(self, name: str, magnitude: float) -> None:
        """Take in the size of one delta."""
        scale = self.scales.get(name, 0.0)
        if scale > 0:
            self.suspected += float(np.finfo(np.float64).eps) * magnitude / scale

    def is_due(self) -> bool:
        """Should a probe run now?"""
        self.since_probe += 1
        return self.since_probe >= self.period or self.suspected > self.health.limit

    def _columns(self, name: str) -> int:
        return self.probe.code.shapes[name][1]
