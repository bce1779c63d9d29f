"""A maintained program as text: what is stored, what updates cost, and the trigger programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from viewlet.linalg.cost import quantity
from viewlet.linalg.levels import count_rounds
from viewlet.linalg.plan import ONE_ROW
from viewlet.linalg.spark.arrays import Distributed, SparkArrays
from viewlet.linalg.text import show, show_code

if TYPE_CHECKING:
    from viewlet.linalg.view import MatrixView


def explain_view(view: MatrixView) -> str:
    """Statements, compared choices, and the trigger for one changed row of each input."""
    program, itemsize = view.program, view.arrays.itemsize
    lines = [f"model {program.model}, strategy {view.settings.strategy}"]
    lines += ["stored:"]
    for name, node in program.inputs.items():
        lines.append(f"  {name}: input, {_size(node.shape, itemsize)}")
    for name, constant in program.constants.items():
        lines.append(f"  {name}: constant, {_size(constant.shape, itemsize)}")
    for statement in program.statements:
        lines.append(f"  {statement.name} := {show(statement.expr)}, {_size(statement.expr.shape, itemsize)}")
    lines.append(f"  in all {quantity(program.stored_numbers() * itemsize)}B")
    if isinstance(view.arrays, SparkArrays):
        lines += _explain_blocks(view, view.arrays)
    lines.append("compared, one row of one input changed (sum over the inputs):")
    for choice in sorted(view.choices, key=lambda choice: choice.cost.seconds):
        note = "" if choice.fits else ", does not fit in memory"
        lines.append(
            f"  {choice.model} {choice.strategy}: {choice.cost}, stores {quantity(choice.memory)}B{note}"
        )
    for name in program.inputs:
        lines += _explain_trigger(view, name)
    health = view.health
    lines.append(
        f"health: {health.status}; {health.updates} updates, {health.probes} probes, "
        f"{health.refreshes} refreshes, {health.reevaluations} re-evaluations, last error {health.error:.1e}"
    )
    return "\n".join(lines)


def _explain_blocks(view: MatrixView, arrays: SparkArrays) -> list[str]:
    placed = []
    for name, value in view.state.items():
        if isinstance(value, Distributed):
            grid = value.blocks.grid
            placed.append(f"{name} {grid.down} x {grid.across}")
    blocks = ", ".join(placed) or f"none: every matrix has a side of at most {arrays.thin}"
    return [
        f"blocks on {arrays.holders.partitions} workers: {blocks}",
        f"  so far {arrays.rounds} rounds, {arrays.flushes} flushes, {arrays.checkpoints} checkpoints, "
        f"{arrays.recoveries} recoveries",
    ]


def _explain_trigger(view: MatrixView, name: str) -> list[str]:
    plan = view.plan({name: ONE_ROW})
    lines = [f"on update of one row of {name} by U_{name} @ V_{name}.T: {plan.strategy}"]
    lines += [f"  {strategy} costs {cost}" for strategy, cost in plan.costs.items()]
    if plan.trigger is not None:
        ranks = ", ".join(f"{view_name} {rank}" for view_name, rank in plan.trigger.ranks.items())
        lines.append(f"  ranks: {ranks}")
    code = plan.reevaluation if plan.trigger is None else plan.trigger.code
    if (thin := view.settings.machine.thin) is not None:
        lines.append(f"  {count_rounds(code, thin)} rounds, one per level, and one to read what the row was")
    return lines + ["    " + line for line in show_code(code).splitlines()]


def _size(shape: tuple[int, int], itemsize: int) -> str:
    return f"{shape[0]} x {shape[1]}, {quantity(shape[0] * shape[1] * itemsize)}B"
