"""Which instructions of a code may run at the same time, where large matrices are far away.

A matrix whose smaller side is at most ``thin`` stays with the driver; every other one lies in blocks on
workers, and an instruction that reads or makes one is *remote*. All remote instructions of one level are
independent of each other, so they are one round of messages to the workers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from viewlet.linalg.instructions import Code, Instruction, Unit, effect_operands, operands_of
from viewlet.linalg.nodes import Shape


@dataclass(frozen=True)
class Level:
    """Remote instructions that are one round, local ones that then can run, and names to drop after."""

    remote: tuple[tuple[str, Instruction], ...]
    local: tuple[tuple[str, Instruction], ...]
    dead: tuple[str, ...]


def is_large(shape: Shape, thin: int) -> bool:
    """Is a matrix of this shape kept in blocks on workers?

    >>> is_large((1000, 1000), 512), is_large((1_000_000, 3), 512)
    (True, False)
    """
    return min(shape) > thin


def holds_large_values(code: Code, thin: int) -> bool:
    """Does the code compute or receive any matrix that is not thin, beside the identity?"""
    names = [*code.factors, *(name for name, op in code.instructions if not isinstance(op, Unit))]
    return any(is_large(code.shapes[name], thin) for name in names)


def levels(code: Code, thin: int) -> list[Level]:
    """The instructions by level: 0 is what needs no worker, an operand is never in a later level.

    >>> from viewlet.linalg.instructions import Accumulate, Builder, Named
    >>> build = Builder({"A": (9, 9), "u": (9, 1)})
    >>> au = build.multiply(Named("A"), Named("u"))
    >>> aau = build.multiply(Named("A"), Named(au))
    >>> len(levels(build.code((), [Accumulate("A", aau, "u")]), thin=2)) - 1
    2
    """
    large = _large_names(code, thin)
    at: dict[str, int] = {}
    remote: dict[int, list[tuple[str, Instruction]]] = {}
    local: dict[int, list[tuple[str, Instruction]]] = {}
    for name, op in code.instructions:
        reads = operands_of(op)
        level = max((at.get(operand, 0) for operand in reads), default=0)
        is_remote = name in large or any(operand in large for operand in reads)
        at[name] = level + is_remote
        (remote if is_remote else local).setdefault(at[name], []).append((name, op))
    dead = _dead_after(code, at)
    return [
        Level(tuple(remote.get(i, ())), tuple(local.get(i, ())), tuple(dead.get(i, ())))
        for i in range(max(at.values(), default=0) + 1)
    ]


def count_rounds(code: Code, thin: int) -> int:
    """How many rounds the code takes."""
    return sum(1 for level in levels(code, thin) if level.remote)


def _large_names(code: Code, thin: int) -> set[str]:
    units = {name for name, op in code.instructions if isinstance(op, Unit)}
    return {name for name, shape in code.shapes.items() if is_large(shape, thin)} - units


def _dead_after(code: Code, at: Mapping[str, int]) -> dict[int, list[str]]:
    """Per level, the computed names that no later level and no effect reads."""
    last = dict(at)
    for name, op in code.instructions:
        for operand in operands_of(op):
            if operand in at:
                last[operand] = max(last[operand], at[name])
    kept = {name for effect in code.effects for name in effect_operands(effect)}
    dead: dict[int, list[str]] = {}
    for name, level in last.items():
        if name not in kept:
            dead.setdefault(level, []).append(name)
    return dead
