"""Maintain a matrix program: results that stay fresh while the inputs change."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from viewlet.linalg.arrays import Arrays, Selector
from viewlet.linalg.blas import Blas
from viewlet.linalg.cost import Choice, Machine, code_cost
from viewlet.linalg.delta import factor_names
from viewlet.linalg.drift import Health, Monitor, Probe, compile_probe
from viewlet.linalg.errors import (
    DriftWarning,
    IllConditionedError,
    LinalgError,
    NumericalError,
    ShapeError,
    SingularError,
)
from viewlet.linalg.evaluate import evaluate
from viewlet.linalg.explain import explain_view
from viewlet.linalg.factored import Change, Coalesced, LowRank, lines_set
from viewlet.linalg.nodes import Expr, Input, Operand, as_matrix
from viewlet.linalg.plan import Changes, ModelName, Plan, Strategy, choose_program, plan_update
from viewlet.linalg.program import Program
from viewlet.linalg.reevaluate import compile_reevaluation
from viewlet.linalg.run import Compute, commit, compute
from viewlet.linalg.spark.arrays import Distributed, SparkArrays

# A probe may cost this much of the updates between two probes.
PROBE_SHARE = 0.1
PERIODS = (16, 1000)


def input(name: str, shape: tuple[int, int]) -> Input:
    """A matrix that the user gives and may change.

    >>> input("A", (2, 3)).shape
    (2, 3)
    """
    if not name.isidentifier():
        raise LinalgError(f"{name!r} is not a name; use letters, digits and underscores")
    rows, columns = (int(side) for side in shape)
    if rows < 1 or columns < 1:
        raise ShapeError(f"input {name} has shape {rows} x {columns}; both sides must be at least 1")
    return Input(name, (rows, columns))


def maintain(
    outputs: Mapping[str, Operand],
    *,
    strategy: Strategy = "auto",
    model: ModelName = "auto",
    skip: int | None = None,
    tol: float = 1e-9,
    refresh: bool = True,
    memory: float | str = math.inf,
    arrays: Arrays | None = None,
    machine: Machine | None = None,
    spark: Any = None,
    store: Any = None,
    inputs: Mapping[str, Any] | None = None,
    **values: Any,
) -> MatrixView:
    """Evaluate the outputs and keep them fresh; input values are given by name.

    ``tol`` is the relative error at which the drift monitor recomputes; ``refresh=False`` measures only.
    ``memory`` bounds what is stored, as bytes or as in "8GB". ``inputs`` serves names that are also options.
    With a SparkSession as ``spark``, large matrices lie in blocks on its executors; ``store`` is a directory
    that all of them can read, needed where they are not on this machine.

    >>> A = input("A", (2, 2))
    >>> view = maintain({"C": A @ A}, A=np.eye(2))
    >>> _ = view.update("A", rows={0: [2.0, 1.0]})
    >>> view["C"].tolist()
    [[4.0, 3.0], [0.0, 1.0]]
    """
    if not outputs:
        raise LinalgError("maintain needs at least one output, as in maintain({'C': A @ A}, A=...)")
    expressions = {name: as_matrix(expr) for name, expr in outputs.items()}
    arithmetic, run, speeds = backend(arrays, machine, spark, store)
    limit = read_memory(memory)
    program, choices = choose_program(expressions, strategy, model, skip, limit, speeds, arithmetic.itemsize)
    state = _initial_state(program, {**(inputs or {}), **values}, arithmetic)
    settings = Settings(strategy, tol, refresh, speeds)
    view = MatrixView(expressions, program, choices, state, arithmetic, settings, run)
    view.recompute()
    return view


def backend(
    arrays: Arrays | None, machine: Machine | None, spark: Any, store: Any
) -> tuple[Arrays, Compute, Machine]:
    """The arithmetic, how code runs over it, and how fast that is: in this process, or on Spark."""
    arithmetic = arrays if arrays is not None else Blas()
    if spark is None:
        return arithmetic, compute, machine if machine is not None else Machine()
    from viewlet.linalg.spark.connect import on_spark

    return on_spark(spark, arithmetic, machine, store)


def adopt(
    expressions: Mapping[str, Expr],
    inputs: dict[str, Any],
    carried: Mapping[str, Any],
    arrays: Arrays,
    settings: Settings,
) -> MatrixView:
    """A view in the linear model over arrays that exist already; what is not carried is evaluated."""
    program, choices = choose_program(
        expressions, settings.strategy, "linear", None, math.inf, settings.machine, arrays.itemsize
    )
    state = {**inputs, **{name: arrays.take(node.held.array) for name, node in program.constants.items()}}
    names = {program.outputs[output]: value for output, value in carried.items()}
    for statement in program.statements:
        value = names.get(statement.name)
        state[statement.name] = arrays.own(
            evaluate(statement.expr, state, arrays) if value is None else value
        )
    view = MatrixView(expressions, program, choices, state, arrays, settings)
    view.error()
    return view


def read_memory(memory: float | str) -> float:
    """Bytes from a number or a text with a unit.

    >>> read_memory("8GB")
    8000000000.0
    """
    if not isinstance(memory, str):
        return float(memory)
    text = memory.strip().upper().removesuffix("B")
    units = {"K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
    try:
        return float(text[:-1]) * units[text[-1]] if text[-1:] in units else float(text)
    except ValueError:
        raise LinalgError(f"memory={memory!r} is not a size; write it as in 8GB or 500MB") from None


def _initial_state(program: Program, values: Mapping[str, Any], arrays: Arrays) -> dict[str, Any]:
    unknown, missing = set(values) - set(program.inputs), set(program.inputs) - set(values)
    if unknown or missing:
        raise LinalgError(
            f"values are given for {sorted(values) or 'no inputs'}, "
            f"but the program reads {sorted(program.inputs) or 'no inputs'}"
        )
    state: dict[str, Any] = {}
    for name, node in program.inputs.items():
        value = arrays.take(values[name])
        if tuple(value.shape) != node.shape:
            raise ShapeError(f"input {name} is {node.shape}, but its value is {tuple(value.shape)}")
        state[name] = arrays.own(value)
    constants = program.constants.items()
    return state | {name: arrays.own(arrays.take(node.held.array)) for name, node in constants}


@dataclass(frozen=True)
class Settings:
    """Choices that a view keeps for its life."""

    strategy: Strategy
    tolerance: float
    refresh: bool
    machine: Machine


@dataclass(frozen=True)
class Update:
    """What an update did: the strategy that served it, and the factored change of every output."""

    strategy: str
    rank: int
    deltas: Mapping[str, LowRank]

    def __getitem__(self, output: str) -> LowRank:
        if output not in self.deltas:
            raise LinalgError(
                f"{output} has no factored change: the update was served by {self.strategy}"
                + ("" if self.strategy == "reevaluate" else ", and did not touch it")
            )
        return self.deltas[output]


class MatrixView:
    """A maintained program; made by :func:`maintain` or :func:`load`."""

    def __init__(
        self,
        expressions: Mapping[str, Expr],
        program: Program,
        choices: list[Choice],
        state: dict[str, Any],
        arrays: Arrays,
        settings: Settings,
        run: Compute = compute,
    ) -> None:
        self.expressions, self.program, self.choices = expressions, program, choices
        self.state, self.arrays, self.settings = state, arrays, settings
        self._compute = run
        self.health = Health(settings.tolerance)
        self._plans: dict[tuple[Any, ...], Plan] = {}
        probe = compile_probe(program)
        self._monitor = Monitor(probe, arrays, self.health, self._probe_period(probe), run)

    def __getitem__(self, name: str) -> Any:
        """The value of an output or an input; arrays of the view itself, to be read and not written."""
        stored = self.program.outputs.get(name, name)
        if stored not in self.state or (name not in self.program.outputs and name not in self.program.inputs):
            known = ", ".join([*self.program.outputs, *self.program.inputs])
            raise LinalgError(f"no output or input is called {name}; there are {known}")
        value = self.state[stored]
        if isinstance(value, Distributed):
            return self.arrays.to_numpy(value)
        if isinstance(value, np.ndarray):
            value = value.view()
            value.flags.writeable = False
        return value

    def update(
        self,
        name: str,
        *,
        rows: Mapping[int, Any] | None = None,
        cols: Mapping[int, Any] | None = None,
        entries: Mapping[tuple[int, int], Any] | None = None,
        adds: Mapping[tuple[int, int], Any] | None = None,
        factors: tuple[Any, Any] | LowRank | None = None,
    ) -> Update:
        """Change one input; see :class:`Change` for what the arguments mean."""
        return self.apply({name: Change(rows, cols, entries, adds, factors)})

    def apply(self, changes: Mapping[str, Change] | Iterable[tuple[str, Change]]) -> Update:
        """Change several inputs at once, or one many times, as one update.

        Changes of the same rows, columns and entries coalesce, so the rank of the update is what remains.
        An update that is refused changes nothing.
        """
        pairs = changes.items() if isinstance(changes, Mapping) else changes
        by_input: dict[str, list[Change]] = {}
        for name, change in pairs:
            if name not in self.program.inputs:
                known = ", ".join(self.program.inputs) or "none"
                raise LinalgError(f"{name} is not an input of this program; its inputs are {known}")
            by_input.setdefault(name, []).append(change)
        coalesced = {name: self._coalesce(name, own) for name, own in by_input.items()}
        shapes, terms = {}, {}
        for name, one in sorted(coalesced.items()):
            pairs_of_factors, factor_shapes = one.terms()
            if factor_shapes:
                shapes[name], terms[name] = factor_shapes, pairs_of_factors
        if not shapes:
            return Update("nothing", 0, {})
        return self._serve(shapes, terms)

    def _coalesce(self, name: str, changes: list[Change]) -> Coalesced:
        height, width = self.program.shapes[name]
        rows, columns = lines_set(changes)
        here = {i for i in rows if 0 <= i < height}, {j for j in columns if 0 <= j < width}
        return Coalesced(self.arrays.lines(self.state[name], *here), name, self.arrays).add(changes)

    def _serve(self, shapes: Changes, terms: Mapping[str, list[tuple[Any, Any]]]) -> Update:
        plan = self.plan(shapes)
        rank = sum(shape.rank for parts in shapes.values() for shape in parts)
        self.health.updates += 1
        update = None
        if plan.trigger is not None:
            update = self._increment(plan, terms, rank)
        if update is None:
            self._reevaluate(plan, terms)
            update = Update("reevaluate", rank, {})
        if not self.arrays.exact and self._monitor.is_due():
            self.check()
        return update

    def _increment(self, plan: Plan, terms: Mapping[str, list[tuple[Any, Any]]], rank: int) -> Update | None:
        """Run the trigger; None where its numbers cannot be trusted and the caller must re-evaluate."""
        assert plan.trigger is not None
        code = plan.trigger.code
        factors = {
            factor: value
            for name, pairs in terms.items()
            for index, pair in enumerate(pairs)
            for factor, value in zip(factor_names(name, index), pair, strict=True)
        }
        try:
            with np.errstate(all="ignore"):
                values = self._compute(code, self.arrays, self.state, factors)
                sizes = {
                    name: self.arrays.magnitude(values[left]) * self.arrays.magnitude(values[right])
                    for name, (left, right) in plan.trigger.deltas.items()
                }
        except IllConditionedError:
            self.health.ill_conditioned += 1
            return None
        if not all(math.isfinite(size) for size in sizes.values()):
            return None
        commit(code, self.arrays, self.state, values)
        if not self.arrays.exact:
            for name, (left, right) in plan.trigger.deltas.items():
                self._monitor.note(name, values[left], values[right], sizes[name])
        deltas = {
            output: LowRank(*(self.arrays.dense(values[side]) for side in plan.trigger.deltas[name]))
            for output, name in self.program.outputs.items()
            if name in plan.trigger.deltas
        }
        return Update(plan.strategy, rank, deltas)

    def _reevaluate(self, plan: Plan, terms: Mapping[str, list[tuple[Any, Any]]]) -> None:
        undo: list[Callable[[], None]] = []
        for name, pairs in terms.items():
            for left, right in pairs:
                undo.append(self._restorer(name, left, right))
                self.state[name] = self.arrays.accumulate(self.state[name], left, right)
        try:
            self._recompute(plan)
        except LinalgError:
            for restore in reversed(undo):
                restore()
            raise
        self.health.reevaluations += 1
        self._monitor.sketches.clear()

    def _restorer(self, name: str, left: Any, right: Any) -> Callable[[], None]:
        """Remember what a change of an input overwrites; rows and columns alone where that is all."""
        target = self.state[name]
        if isinstance(left, Selector) and isinstance(target, np.ndarray):
            rows = target[left.indices]
            return lambda: target.__setitem__(left.indices, rows)
        if isinstance(right, Selector) and isinstance(target, np.ndarray):
            columns = target[:, right.indices]
            return lambda: target.__setitem__((slice(None), right.indices), columns)
        copy = self.arrays.combine([(1, target, False)])
        return lambda: self.state.__setitem__(name, copy)

    def _recompute(self, plan: Plan) -> None:
        code = plan.reevaluation
        with np.errstate(all="ignore"):
            values = self._compute(code, self.arrays, self.state, {})
        for effect in code.effects:
            name = effect.name  # type: ignore[union-attr]
            if name in values and not self.arrays.finite(values[name]):
                raise NumericalError(
                    f"{effect.target} would hold NaN or infinity; the update was not applied"
                )
        commit(code, self.arrays, self.state, values)

    def plan(self, shapes: Changes) -> Plan:
        """How an update of these ranks is served; compiled once per kind of update."""
        key = tuple(shapes.items())
        plan = self._plans.get(key)
        if plan is None:
            settings = self.settings
            free = len({choice.strategy for choice in self.choices}) > 1
            plan = plan_update(
                self.program, shapes, settings.strategy, settings.machine, self.arrays.itemsize, free
            )
            self._plans[key] = plan
        return plan

    def error(self) -> float:
        """The relative error of the worst output, by probing with random vectors; 0 for exact arithmetic."""
        return self._monitor.measure(self.state)

    def check(self) -> None:
        """Probe, and refresh where the error is above the tolerance.

        Where recomputation is impossible, because a matrix to invert has become singular, the maintained
        values stay and a warning gives their error.
        """
        self.error()
        if not (self.health.wants_refresh() and self.settings.refresh):
            return
        try:
            self.refresh()
        except (SingularError, NumericalError) as wrong:
            message = f"the view has relative error {self.health.error:.1e} and cannot be recomputed: {wrong}"
            warnings.warn(message, DriftWarning, stacklevel=4)

    def refresh(self) -> None:
        """Recompute everything from the inputs."""
        self.recompute()
        self.health.refreshes += 1

    def recompute(self) -> None:
        """Evaluate every statement, and note the error that evaluation itself attains."""
        self._recompute(Plan("reevaluate", None, compile_reevaluation(self.program), {}))
        if not self.arrays.exact:
            self.health.refreshed(self.error())

    def explain(self) -> str:
        """The statements, the trigger program of every input, and flops, bytes and time of each choice."""
        return explain_view(self)

    def save(self, path: Any) -> None:
        """Write the program and its state to one file; see :func:`load`."""
        from viewlet.linalg.save import save_view

        save_view(self, path)

    def close(self) -> None:
        """Give up what workers hold for this view; there is nothing to give up in one process."""
        if isinstance(self.arrays, SparkArrays):
            self.arrays.close()

    def restore_health(self, health: Health) -> None:
        """Continue the counts of a saved view."""
        self.health = self._monitor.health = health
        self.error()

    def _probe_period(self, compiled: Probe) -> int:
        """Updates between two probes, so that probing takes a small share of the time."""
        probe = code_cost(compiled.code, self.settings.machine, self.arrays.itemsize).seconds
        update = min(
            (c.cost.seconds for c in self.choices if c.model == str(self.program.model)), default=0.0
        )
        wanted = probe / (PROBE_SHARE * update) if update > 0 else PERIODS[1]
        return int(min(max(math.ceil(wanted), PERIODS[0]), PERIODS[1]))
