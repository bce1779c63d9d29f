"""Choose the model that decides what is stored, and the strategy that serves each update."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from viewlet.linalg.cost import Choice, Cost, Machine, cheapest, code_cost
from viewlet.linalg.delta import FactorShape, Trigger, compile_trigger
from viewlet.linalg.errors import LinalgError
from viewlet.linalg.instructions import Code
from viewlet.linalg.iterate import Model, models
from viewlet.linalg.levels import holds_large_values
from viewlet.linalg.nodes import Expr, Iterate, Power, PowerSum, postorder
from viewlet.linalg.program import Program, build_program
from viewlet.linalg.reevaluate import compile_reevaluation

Strategy: TypeAlias = Literal["auto", "incremental", "hybrid", "reevaluate"]
ModelName: TypeAlias = Literal["auto", "linear", "exponential", "skip", "krylov"]
Changes: TypeAlias = Mapping[str, tuple[FactorShape, ...]]

# Predictions are no better than this factor: within it the choice that stores least is taken.
CLOSE = 1.25
# What an update is expected to look like when the model is chosen: one row of one input replaced.
ONE_ROW = (FactorShape(1, selects_rows=True),)


@dataclass(frozen=True)
class Plan:
    """How one kind of update is served, and what the alternatives would cost."""

    strategy: str
    trigger: Trigger | None
    reevaluation: Code
    costs: Mapping[str, Cost]


def plan_update(
    program: Program,
    changes: Changes,
    strategy: Strategy,
    machine: Machine,
    itemsize: int,
    free: bool = False,
) -> Plan:
    """Compile what ``strategy`` allows for these changes, and take the cheapest, re-evaluation included.

    A strategy that was named is taken whatever it costs, unless ``free`` lets re-evaluation compete with it.
    Where large matrices lie on workers, a trigger must hold thin ones only: it runs in the driver.
    """
    reevaluation = compile_reevaluation(program, changes)
    costs = {"reevaluate": code_cost(reevaluation, machine, itemsize)}
    triggers: dict[str, Trigger] = {}
    for name, collapse in (("incremental", False), ("hybrid", True)):
        if strategy in ("auto", name):
            trigger = compile_trigger(program, changes, collapse)
            if machine.thin is None or not holds_large_values(trigger.code, machine.thin):
                triggers[name] = trigger
                costs[name] = code_cost(trigger.code, machine, itemsize)
    chosen = cheapest(costs) if free or strategy not in costs else strategy
    return Plan(chosen, triggers.get(chosen), reevaluation, costs)


def choose_program(
    outputs: Mapping[str, Expr],
    strategy: Strategy,
    model: ModelName,
    skip: int | None,
    memory: float,
    machine: Machine,
    itemsize: int,
) -> tuple[Program, list[Choice]]:
    """The program with a cheapest expected update that fits in ``memory`` bytes, and all that was compared.

    The expected update replaces one row of one input, each input as likely as any other. Hybrid evaluation
    in a model that is not given mixes both ends: where all that changes is thin, recomputing it is cheapest.
    """
    if strategy not in get_args(Strategy):
        raise LinalgError(f"unknown strategy {strategy!r}; choose one of {', '.join(get_args(Strategy))}")
    free = strategy == "auto" or (strategy == "hybrid" and model == "auto")
    programs: dict[str, Program] = {}
    choices: list[Choice] = []
    for candidate in candidate_models(outputs, model, skip):
        program = programs[str(candidate)] = build_program(outputs, candidate)
        size = float(program.stored_numbers() * itemsize)
        totals: dict[str, Cost] = {}
        for name in program.inputs:
            plan = plan_update(program, {name: ONE_ROW}, strategy, machine, itemsize)
            considered = plan.costs if free else {plan.strategy: plan.costs[plan.strategy]}
            for way, cost in considered.items():
                totals[way] = totals.get(way, Cost()) + cost
        choices += [Choice(str(candidate), way, cost, size, size <= memory) for way, cost in totals.items()]
        if not totals:  # nothing can change: the first model is as good as any
            choices.append(Choice(str(candidate), strategy, Cost(), size, size <= memory))
    fitting = [choice for choice in choices if choice.fits]
    if not fitting:
        least = min(choice.memory for choice in choices)
        raise LinalgError(f"the views need at least {least:.3g} bytes, more than memory={memory:.3g}")
    limit = CLOSE * min(choice.cost.seconds for choice in fitting)
    close = [choice for choice in fitting if choice.cost.seconds <= limit]
    best = min(close, key=lambda choice: (choice.memory, choice.cost.seconds))
    return programs[best.model], choices


def candidate_models(outputs: Mapping[str, Expr], model: ModelName, skip: int | None) -> list[Model]:
    """The models to compare: all of them, or those of one kind."""
    if model not in get_args(ModelName):
        raise LinalgError(f"unknown model {model!r}; choose one of {', '.join(get_args(ModelName))}")
    folded = [node for node in postorder(*outputs.values()) if isinstance(node, Power | PowerSum | Iterate)]
    candidates = models({node.k for node in folded})
    if model == "auto":
        return candidates
    if model != "skip":
        return [Model(model)]
    if skip is not None:
        return [Model("skip", skip)]
    return [one for one in candidates if one.kind == "skip"] or [Model("linear")]
