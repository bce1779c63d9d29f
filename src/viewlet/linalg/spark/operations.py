"""What a worker does with its block of each matrix.

The same list of operations goes to every partition, which takes its own slices of the thin matrices in it.
All operations may be repeated: they write block files that never change, under names that are used once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeAlias, assert_never

import numpy as np

from viewlet.linalg.arrays import Arrays, Selector
from viewlet.linalg.instructions import Assemble, Combine, Embed, Instruction, Multiply, Nought, Part, Stack
from viewlet.linalg.spark.grid import Grid, Span
from viewlet.linalg.spark.store import LostBlockError, Store


@dataclass(frozen=True, slots=True)
class Far:
    """A matrix in durable storage."""

    name: str
    grid: Grid

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.grid.shape


Operand: TypeAlias = "Far | Selector | np.ndarray[Any, Any]"
Factors: TypeAlias = tuple[Any, Any]


@dataclass(frozen=True, slots=True)
class Times:
    """The block's share of ``name @ right``, with ``name`` transposed where asked."""

    name: str
    grid: Grid
    transposed: bool
    right: Any


@dataclass(frozen=True, slots=True)
class Form:
    """Make the block of a new matrix from parts of others; the answer says whether it is finite."""

    target: str
    grid: Grid
    op: Instruction
    operands: Mapping[str, Operand]


@dataclass(frozen=True, slots=True)
class Add:
    """target := source + U1 V1' + U2 V2' + ...; nothing where the target is there already."""

    target: str
    source: str
    grid: Grid
    factors: tuple[Factors, ...]


@dataclass(frozen=True, slots=True)
class Keep:
    """Put the block into durable storage."""

    name: str


@dataclass(frozen=True, slots=True)
class Drop:
    """Forget blocks that nothing refers to any more."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Leave:
    """Remove all files of this executor: the view is closed."""


Operation: TypeAlias = Times | Form | Add | Keep | Drop | Leave


@dataclass(frozen=True, slots=True)
class Lost:
    """This block must be made again before the operations can run."""

    name: str


Answer: TypeAlias = "tuple[Span, Any] | bool | None"


def perform(store: Store, arrays: Arrays, operations: Sequence[Operation]) -> list[Answer] | Lost:
    """Carry out operations on one partition."""
    try:
        return [_perform(store, arrays, operation) for operation in operations]
    except LostBlockError as lost:
        return Lost(lost.name)


def _perform(store: Store, arrays: Arrays, operation: Operation) -> Answer:
    match operation:
        case Times():
            return _times(store, arrays, operation)
        case Form(target, grid, op, operands):
            rows, columns = grid.block(store.partition)
            if not store.has(target):
                value = _Window(store, arrays, operands).of(op, rows, columns)
                store.write(target, value.shape, value.dtype, lambda block: np.copyto(block, value))
            store.keep(target)
            return arrays.finite(store.own(target))
        case Add(target):
            if not store.has(target):
                _add(store, arrays, operation)
        case Keep(name):
            store.keep(name)
        case Drop(names):
            store.drop(names)
        case Leave():
            store.leave()
        case _:
            assert_never(operation)
    return None


def _times(store: Store, arrays: Arrays, operation: Times) -> Answer:
    """Block (R, C) of A gives A[R, C] X[C], a share of the rows R of A X; transposed, the other way round."""
    rows, columns = operation.grid.block(store.partition)
    if operation.transposed:
        rows, columns = columns, rows
    block, right = store.own(operation.name), operation.right
    if isinstance(right, Selector):
        return rows, _pick(arrays, block, operation.transposed, right, columns)
    return rows, arrays.multiply(block, operation.transposed, right[columns[0] : columns[1]], False)


def _pick(arrays: Arrays, block: Any, transposed: bool, selector: Selector, span: Span) -> Any:
    """The columns that a selector asks for, zeros for those that other blocks have."""
    oriented = block.T if transposed else block
    inside = (selector.indices >= span[0]) & (selector.indices < span[1])
    picked = arrays.zeros((oriented.shape[0], len(selector.indices)))
    picked[:, inside] = oriented[:, selector.indices[inside] - span[0]]
    return picked


def _add(store: Store, arrays: Arrays, operation: Add) -> None:
    rows, columns = operation.grid.block(store.partition)
    source = store.own(operation.source)

    def fill(block: Any) -> None:
        np.copyto(block, source)
        for left, right in operation.factors:
            share = arrays.accumulate(block, rows_of(arrays, left, rows), rows_of(arrays, right, columns))
            if share is not block:
                np.copyto(block, share)

    store.write(operation.target, source.shape, source.dtype, fill)


def rows_of(arrays: Arrays, thin: Any, span: Span) -> Any:
    """Rows of a thin matrix as an array; a selector is spelled out."""
    if not isinstance(thin, Selector):
        return thin[span[0] : span[1]]
    picked = arrays.zeros((span[1] - span[0], len(thin.indices)))
    inside = np.flatnonzero((thin.indices >= span[0]) & (thin.indices < span[1]))
    picked[thin.indices[inside] - span[0], inside] = 1
    return picked


@dataclass(frozen=True, slots=True)
class _Window:
    """Parts of values, computed from parts of their operands."""

    store: Store
    arrays: Arrays
    operands: Mapping[str, Operand]

    def read(self, name: str, transposed: bool, rows: Span, columns: Span) -> Any:
        """A part of an operand as it is read, transposed or not."""
        if transposed:
            return self.read(name, False, columns, rows).T
        match self.operands[name]:
            case Far(stored, grid):
                return self.store.window(stored, grid, rows, columns)
            case Selector() as selector:
                return rows_of(self.arrays, selector, rows)[:, columns[0] : columns[1]]
            case array:
                return array[rows[0] : rows[1], columns[0] : columns[1]]

    def of(self, op: Instruction, rows: Span, columns: Span) -> Any:
        """A part of the value of an instruction."""
        match op:
            case Multiply():
                return self._product(op, rows, columns)
            case Combine(terms):
                parts = [(c, self.read(x.name, x.transposed, rows, columns), False) for c, x in terms]
                return self.arrays.combine(parts)
            case Nought():
                return self._zeros(rows, columns)
            case Part(name, (top, _), (left, _)):
                return self.arrays.combine(
                    [(1, self.read(name, False, _shift(rows, top), _shift(columns, left)), False)]
                )
            case Stack(names):
                return self._patched(rows, columns, [list(names)])
            case Assemble(cells):
                return self._patched(rows, columns, [list(row) for row in cells])
            case Embed(name, above, _):
                target = self._zeros(rows, columns)
                self._patch(target, name, above, 0, rows, columns)
                return target
            case _:
                raise AssertionError(f"{type(op).__name__} is not computed in blocks")

    def _product(self, op: Multiply, rows: Span, columns: Span) -> Any:
        """The sum over K of left[R, K] right[K, C], with K cut where blocks end: parts are not copied"""
        cuts = sorted(
            {
                *self._edges(op.left.name, op.left.transposed, 1),
                *self._edges(op.right.name, op.right.transposed, 0),
            }
        )
        total: Any = None
        for inner in pairwise(cuts):
            left = self.read(op.left.name, op.left.transposed, rows, inner)
            right = self.read(op.right.name, op.right.transposed, inner, columns)
            share = self.arrays.multiply(left, False, right, False)
            total = share if total is None else self.arrays.combine([(1, total, False), (1, share, False)])
        return total

    def _edges(self, name: str, transposed: bool, axis: int) -> list[int]:
        side = 1 - axis if transposed else axis
        match self.operands[name]:
            case Far(_, grid):
                return grid.edges(side)
            case other:
                return [0, other.shape[side]]

    def _patched(self, rows: Span, columns: Span, cells: list[list[str]]) -> Any:
        target = self._zeros(rows, columns)
        above = 0
        for row in cells:
            before = 0
            for name in row:
                self._patch(target, name, above, before, rows, columns)
                before += self.operands[name].shape[1]
            above += self.operands[row[0]].shape[0]
        return target

    def _patch(self, target: Any, name: str, above: int, before: int, rows: Span, columns: Span) -> None:
        """Write what falls into (rows, columns) of an operand placed at (above, before)."""
        height, width = self.operands[name].shape
        r0, r1 = max(rows[0], above), min(rows[1], above + height)
        c0, c1 = max(columns[0], before), min(columns[1], before + width)
        if r0 < r1 and c0 < c1:
            part = self.read(name, False, (r0 - above, r1 - above), (c0 - before, c1 - before))
            target[r0 - rows[0] : r1 - rows[0], c0 - columns[0] : c1 - columns[0]] = part

    def _zeros(self, rows: Span, columns: Span) -> Any:
        return self.arrays.zeros((rows[1] - rows[0], columns[1] - columns[0]))


def _shift(span: Span, by: int) -> Span:
    return span[0] + by, span[1] + by
