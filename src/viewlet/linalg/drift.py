"""Rounding errors of maintained views: how they are measured, and when a view is recomputed.

Every update adds a rounding error of about eps |dV| to a view V. A *probe* multiplies the view and its
definition by the same few random vectors and compares, O(n^2) per stored matrix (Freivalds' check). A probe
runs each ``period`` updates, and at once when the sum of eps |dV| / |V| since the last probe exceeds the
tolerance: a huge row that came and went leaves its rounding error behind, and is noticed there. The size |V|
*after* an update comes from a sketch V x with one random x, which every delta updates in O(n r).

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
from viewlet.linalg.run import Compute

PROBES = 3
# Probes between two refreshes of a view whose tolerance cannot be attained, at most.
LONGEST_PATIENCE = 64


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
    patience: int = 1
    waited: int = 0

    @property
    def status(self) -> str:
        """``ok``, or why the tolerance cannot be kept."""
        if self.attainable > self.tolerance:
            return (
                f"ill-conditioned: even recomputation has relative error {self.attainable:.1e}, "
                f"above the tolerance {self.tolerance:.1e}"
            )
        return "ok"

    def wants_refresh(self) -> bool:
        """Is the last error one that a refresh may cure?

        Up to ten times what the last refresh attained, refreshing is tried at ever longer intervals: the
        problem may have become better conditioned since, or it may not.
        """
        if self.error <= self.tolerance:
            self.patience, self.waited = 1, 0
            return False
        self.waited += 1
        return not self.error <= 10 * self.attainable or self.waited >= self.patience

    def refreshed(self, attained: float) -> None:
        """Note what a recomputation attained."""
        self.attainable, self.waited = attained, 0
        self.patience = 1 if attained <= self.tolerance else min(2 * self.patience, LONGEST_PATIENCE)


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
    compute: Compute
    since_probe: int = 0
    suspected: float = 0.0
    sketches: dict[str, tuple[Any, Any]] = field(default_factory=dict)
    generator: np.random.Generator = field(default_factory=lambda: np.random.default_rng(20140622))

    def measure(self, state: Mapping[str, Any]) -> float:
        """The largest relative error among the probed views; infinite where a view is not finite."""
        factors = {
            name: self.arrays.take(self.generator.integers(-8, 9, shape))
            for name, shape in self.probe.vectors.items()
        }
        values = self.compute(self.probe.code, self.arrays, state, factors)
        worst = 0.0
        for name, (value, wrong) in self.probe.checks.items():
            if self.arrays.exact:
                worst = max(worst, float(np.any(self.arrays.to_numpy(values[wrong]) != 0)))
                continue
            scale, error = self.arrays.magnitude(values[value]), self.arrays.magnitude(values[wrong])
            if not (np.isfinite(scale) and np.isfinite(error)):
                return float("inf")
            x = factors[f"x_{self._columns(name)}"]
            self.sketches[name] = x[:, :1], self.arrays.own(values[value][:, :1])
            worst = max(worst, error / scale if scale > 0 else error)
        self.since_probe, self.suspected = 0, 0.0
        self.health.probes += 1
        self.health.error = worst
        return worst

    def note(self, name: str, left: Any, right: Any, magnitude: float) -> None:
        """Take in one delta: update the sketch, and what the delta may have cost in accuracy."""
        if name not in self.probe.checks:
            return
        if name not in self.sketches:  # recomputed since the last probe: its size is not known
            self.suspected = float("inf")
            return
        x, y = self.sketches[name]
        moved = self.arrays.multiply(left, False, self.arrays.multiply(right, True, x, False), False)
        y = self.arrays.combine([(1, y, False), (1, moved, False)])
        self.sketches[name] = x, y
        scale = self.arrays.magnitude(y) * float(np.sqrt(x.shape[0])) / max(self.arrays.magnitude(x), 1.0)
        if magnitude > 0:
            self.suspected += float(np.finfo(np.float64).eps) * magnitude / max(scale, 1e-300)

    def is_due(self) -> bool:
        """Should a probe run now?"""
        self.since_probe += 1
        return self.since_probe >= self.period or self.suspected > self.health.tolerance

    def _columns(self, name: str) -> int:
        return self.probe.code.shapes[name][1]
