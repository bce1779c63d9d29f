"""Run straight-line code over large matrices on workers: every level of instructions is one round."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from viewlet.linalg.arrays import Selector
from viewlet.linalg.instructions import Code, Instruction, Invert, Multiply, Part, operands_of
from viewlet.linalg.levels import is_large, levels
from viewlet.linalg.run import run_instruction
from viewlet.linalg.spark.arrays import Blocks, Distributed, SparkArrays
from viewlet.linalg.spark.operations import Answer, Far, Form, Operation, Times

Read: TypeAlias = Callable[[str], Any]


def compute_in_levels(
    code: Code, arrays: SparkArrays, state: Mapping[str, Any], factors: Mapping[str, Any]
) -> dict[str, Any]:
    """Run the instructions and return the values that the effects read; no value of the state changes."""
    arrays.flush_if_due(state.values())
    values: dict[str, Any] = dict(factors)

    def read(name: str) -> Any:
        return values[name] if name in values else state[name]

    for level in levels(code, arrays.thin):
        if level.remote:
            values |= _together(code, arrays, level.remote, read)
        for name, op in level.local:
            values[name] = run_instruction(op, arrays.inner, read)
        for name in level.dead:
            values.pop(name, None)
    return values


def _together(
    code: Code, arrays: SparkArrays, instructions: Sequence[tuple[str, Instruction]], read: Read
) -> dict[str, Any]:
    """All remote instructions of one level as one round; inverses are the driver's own work."""
    done: dict[str, Any] = {}
    requests: list[_Product | _Formation] = []
    for name, op in instructions:
        if isinstance(op, Invert):
            done[name] = arrays.own(arrays.invert(read(op.name), op.statement))
        elif is_large(code.shapes[name], arrays.thin):
            operands = {operand: read(operand) for operand in operands_of(op)}
            requests.append(_Formation(name, op, operands, arrays.new_blocks(arrays.grid(code.shapes[name]))))
        else:
            requests.append(_product(name, op, read, arrays))
    # What a worker reads of the blocks of others it finds in durable storage.
    shared = [value for request in requests for value in request.shared() if isinstance(value, Distributed)]
    arrays.flush(shared, keep=True)
    if requests:
        answers = arrays.run([request.operation() for request in requests])
        for position, request in enumerate(requests):
            done[request.name] = request.result(arrays, [own[position] for own in answers])
    return done


@dataclass(frozen=True)
class _Product:
    """A large matrix times a thin one: workers send shares, the driver adds them up."""

    name: str
    matrix: Distributed
    transposed: bool
    thin: Any
    finish: Callable[[Any], Any]

    def shared(self) -> list[Any]:
        """Every worker reads its own block only."""
        return []

    def operation(self) -> Operation:
        """Its share of each partition."""
        return Times(self.matrix.blocks.name, self.matrix.blocks.grid, self.transposed, self.thin)

    def result(self, arrays: SparkArrays, shares: Sequence[Answer]) -> Any:
        """The sum."""
        return self.finish(arrays.total(self.matrix, self.transposed, self.thin, shares))


@dataclass(frozen=True)
class _Formation:
    """A new large matrix, made block by block."""

    name: str
    op: Instruction
    operands: Mapping[str, Any]
    blocks: Blocks

    def shared(self) -> list[Any]:
        """A block may need any part of the operands."""
        return list(self.operands.values())

    def operation(self) -> Operation:
        """Its block of each partition."""
        operands = {
            name: Far(value.blocks.name, value.blocks.grid) if isinstance(value, Distributed) else value
            for name, value in self.operands.items()
        }
        return Form(self.blocks.name, self.blocks.grid, self.op, operands)

    def result(self, arrays: SparkArrays, finite: Sequence[Answer]) -> Any:
        """The blocks, now that they are there."""
        return Distributed(self.blocks, all(finite))


def _product(name: str, op: Instruction, read: Read, arrays: SparkArrays) -> _Product:
    """A x;  x' A = (A' x)';  a window of a few rows or columns of A is a product with a selector"""

    def oriented(value: Any, transposed: bool) -> Any:
        return arrays.inner.combine([(1, value, True)]) if transposed else value

    match op:
        case Multiply(left, right):
            a, b = read(left.name), read(right.name)
            if isinstance(a, Distributed):
                return _Product(name, a, left.transposed, oriented(b, right.transposed), lambda y: y)
            flipped = oriented(a, not left.transposed)
            return _Product(name, b, not right.transposed, flipped, lambda y: oriented(y, True))
        case Part(source, (top, bottom), (first, last)):
            matrix = read(source)
            if last - first <= arrays.thin:
                columns = Selector(np.arange(first, last), matrix.shape[1])
                return _Product(name, matrix, False, columns, lambda y: y[top:bottom])
            rows = Selector(np.arange(top, bottom), matrix.shape[0])
            return _Product(name, matrix, True, rows, lambda y: oriented(y[first:last], True))
        case _:
            raise AssertionError(f"{type(op).__name__} makes no thin matrix of a large one")
