"""Run straight-line code over stored matrices, in one process."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, assert_never

from viewlet.linalg.arrays import Arrays, Selector
from viewlet.linalg.instructions import (
    Accumulate,
    Assemble,
    Code,
    Combine,
    Divide,
    Embed,
    Instruction,
    Invert,
    Multiply,
    Nought,
    Part,
    Replace,
    Stack,
    Unit,
)

# Runs code over arrays, a state and the factors of an update, and returns the values that effects read.
Compute: TypeAlias = Callable[[Code, Any, Mapping[str, Any], Mapping[str, Any]], dict[str, Any]]


def compute(
    code: Code, arrays: Arrays, state: Mapping[str, Any], factors: Mapping[str, Any]
) -> dict[str, Any]:
    """Run the instructions and return the values that the effects read; the state is not touched.

    A value is dropped after its last use, so re-evaluation holds no more large matrices than it must.
    """
    values: dict[str, Any] = dict(factors)

    def read(name: str) -> Any:
        return values[name] if name in values else state[name]

    for (name, op), spent in zip(code.instructions, code.spent, strict=True):
        values[name] = run_instruction(op, arrays, read)
        for operand in spent:
            values.pop(operand, None)
    return values


def commit(code: Code, arrays: Arrays, state: dict[str, Any], values: Mapping[str, Any]) -> None:
    """Perform the effects; two views that were computed as one value become two arrays."""
    taken: set[str] = set(state)
    for effect in code.effects:
        match effect:
            case Accumulate(target, left, right):
                state[target] = arrays.accumulate(state[target], values[left], values[right])
            case Replace(target, name):
                value = values[name] if name in values else state[name]
                state[target] = arrays.combine([(1, value, False)]) if name in taken else arrays.own(value)
                taken.add(name)
            case _:
                assert_never(effect)


def run_instruction(op: Instruction, arrays: Arrays, read: Callable[[str], Any]) -> Any:
    """The value of one instruction."""
    match op:
        case Multiply(left, right):
            return arrays.multiply(read(left.name), left.transposed, read(right.name), right.transposed)
        case Combine(terms):
            return arrays.combine([(factor, read(named.name), named.transposed) for factor, named in terms])
        case Stack(names):
            return arrays.stack([read(name) for name in names])
        case Part(name, rows, columns):
            return arrays.dense(read(name))[rows[0] : rows[1], columns[0] : columns[1]]
        case Embed(name, above, total):
            value = arrays.dense(read(name))
            return arrays.place(arrays.zeros((total, value.shape[1])), above, 0, value)
        case Assemble(rows):
            return _assemble([[read(name) for name in row] for row in rows], arrays)
        case Unit(n):
            return Selector.unit(n)
        case Nought(shape):
            return arrays.zeros(shape)
        case Divide(left, capacitance, statement):
            return arrays.divide(read(left), read(capacitance), statement)
        case Invert(name, statement):
            return arrays.invert(read(name), statement)
        case _:
            assert_never(op)


def _assemble(rows: list[list[Any]], arrays: Arrays) -> Any:
    total = sum(row[0].shape[0] for row in rows), sum(cell.shape[1] for cell in rows[0])
    result = arrays.zeros(total)
    above = 0
    for row in rows:
        before = 0
        for cell in row:
            result = arrays.place(result, above, before, cell)
            before += cell.shape[1]
        above += row[0].shape[0]
    return result
