"""Large matrices in blocks on workers, thin ones in the driver, behind the one protocol of arrays.

A change of a large matrix is only noted: its thin factors wait on the driver, and a product is corrected by
them, (B + U V') x = B x + U (V' x). When their rank exceeds a limit all waiting factors are added to the
blocks in one round (*flush*), which makes new block files out of the old ones. A flushed block that gets lost
is made again from the last durable one and the factors since, which the driver keeps; once in a while the
blocks themselves are put into durable storage (*checkpoint*) and the factors are forgotten.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any
from weakref import WeakValueDictionary, finalize

import numpy as np

from viewlet.errors import BackendError
from viewlet.linalg.arrays import Arrays, Selector
from viewlet.linalg.errors import NumericalError
from viewlet.linalg.levels import is_large
from viewlet.linalg.nodes import Scalar, Shape
from viewlet.linalg.spark.cluster import BlockHolders
from viewlet.linalg.spark.grid import Grid, grid_of
from viewlet.linalg.spark.operations import Add, Answer, Drop, Factors, Keep, Lost, Operation, Times
from viewlet.linalg.spark.store import file_of, read_window, write_block

# Matrices with a side of at most this many numbers are thin: the driver holds them.
THIN = 512
# Waiting factors of a higher rank are flushed.
FLUSH_RANK = 128
# After flushes of this many times that rank the blocks are put into durable storage.
CHECKPOINT_FLUSHES = 8
RECOVERIES = 8
# Rows of a large array that are looked at together.
STRIP = 256


@dataclass(eq=False)
class Blocks:
    """One version of a matrix on the workers: durable, or made from a durable one and thin factors."""

    name: str
    grid: Grid
    base: Blocks | None = None
    factors: tuple[Factors, ...] = ()

    @property
    def is_durable(self) -> bool:
        """Are the block files where no worker can lose them?"""
        return self.base is None


@dataclass(eq=False)
class Distributed:
    """A large matrix: its blocks, and the thin factors that have not been added to them yet.

    Its value never changes; which blocks and factors stand for it may.
    """

    blocks: Blocks
    finite: bool = True
    waiting: tuple[Factors, ...] = ()

    @property
    def shape(self) -> Shape:
        """Rows and columns."""
        return self.blocks.grid.shape

    @property
    def waiting_rank(self) -> int:
        """The rank of the factors that wait."""
        return rank_of(self.waiting)


def rank_of(factors: Iterable[Factors]) -> int:
    """Columns of all factors together."""
    return sum(int(left.shape[1]) for left, _ in factors)


@dataclass(frozen=True)
class Lines:
    """Some rows and columns of a matrix, indexed as the matrix itself."""

    shape: Shape
    rows: dict[int, Any]
    columns: dict[int, Any]

    def __getitem__(self, index: tuple[Any, Any]) -> Any:
        i, j = index
        if isinstance(i, slice):
            return self.columns[j]
        return self.rows[i] if isinstance(j, slice) else self.rows[i][j]


class SparkArrays:
    """Arithmetic ``inner`` on thin matrices here, and on blocks of large ones at the workers."""

    def __init__(
        self, holders: BlockHolders, inner: Arrays, *, thin: int = THIN, flush_rank: int = FLUSH_RANK
    ) -> None:
        self.holders, self.inner, self.thin, self.flush_rank = holders, inner, thin, flush_rank
        self.exact, self.itemsize = inner.exact, inner.itemsize
        self.rounds = self.flushes = self.checkpoints = self.recoveries = 0
        self._serial = count(1)
        self._known: WeakValueDictionary[str, Blocks] = WeakValueDictionary()
        self._garbage: deque[str] = deque()

    # What happens on the workers.

    def run(self, operations: Sequence[Operation]) -> list[list[Answer]]:
        """One round; where blocks are lost they are made again, and the round is repeated."""
        garbage = tuple(self._garbage.popleft() for _ in range(len(self._garbage)))
        for name in garbage:
            for partition in range(self.holders.partitions):
                file_of(self.holders.durable, name, partition).unlink(missing_ok=True)
        wanted = [*operations, Drop(garbage)] if garbage else list(operations)
        recovery: dict[str, Operation] = {}
        for _ in range(RECOVERIES):
            self.rounds += 1
            answers = self.holders.run([*recovery.values(), *wanted])
            lost = {answer.name for answer in answers if isinstance(answer, Lost)}
            if not lost:
                kept = slice(len(recovery), len(recovery) + len(operations))
                return [own[kept] for own in answers if not isinstance(own, Lost)]
            self.recoveries += 1
            recovery = {name: self._recover(name) for name in sorted(lost)} | recovery
        raise BackendError(f"blocks of {sorted(lost)} keep getting lost: are workers lost all the time?")

    def _recover(self, name: str) -> Add:
        blocks = self._known.get(name)
        if blocks is None or blocks.base is None:
            raise BackendError(
                f"the blocks of {name} are gone from durable storage at {self.holders.durable}"
            )
        return Add(name, blocks.base.name, blocks.grid, blocks.factors)

    def new_blocks(self, grid: Grid, base: Blocks | None = None, factors: tuple[Factors, ...] = ()) -> Blocks:
        """A new name for blocks; their files go when nothing refers to them any more."""
        blocks = Blocks(f"m{next(self._serial)}", grid, base, factors)
        self._known[blocks.name] = blocks
        finalize(blocks, self._garbage.append, blocks.name)
        return blocks

    def grid(self, shape: Shape) -> Grid:
        """How a matrix of this shape lies on the workers."""
        return grid_of(shape, self.holders.partitions)

    def flush_if_due(self, values: Iterable[Any]) -> None:
        """Where waiting factors have become too many, add all that wait to their blocks."""
        waiting = [value for value in values if isinstance(value, Distributed) and value.waiting]
        if any(value.waiting_rank > self.flush_rank for value in waiting):
            self.flush(waiting, keep=False)

    def flush(self, matrices: Sequence[Distributed], keep: bool) -> None:
        """Add waiting factors to blocks, in one round; with ``keep`` all blocks end up durable."""
        operations: list[Operation] = []
        made: list[tuple[Distributed, Blocks, bool]] = []
        for matrix in dict.fromkeys(matrices):
            blocks = self._with_waiting(matrix) if matrix.waiting else matrix.blocks
            if matrix.waiting:
                operations.append(Add(blocks.name, matrix.blocks.name, blocks.grid, matrix.waiting))
            due = rank_of(blocks.factors) > CHECKPOINT_FLUSHES * self.flush_rank
            if not blocks.is_durable and (keep or due):
                operations.append(Keep(blocks.name))
            made.append((matrix, blocks, keep or due))
        if not operations:
            return
        self.run(operations)
        self.flushes += 1
        for matrix, blocks, kept in made:
            matrix.blocks, matrix.waiting = blocks, ()
            if kept and not blocks.is_durable:
                self.checkpoints += 1
                blocks.base, blocks.factors = None, ()

    def _with_waiting(self, matrix: Distributed) -> Blocks:
        old = matrix.blocks
        return self.new_blocks(old.grid, old.base or old, old.factors + matrix.waiting)

    def scatter(self, array: Any) -> Distributed:
        """Cut an array into durable blocks."""
        grid = self.grid((int(array.shape[0]), int(array.shape[1])))
        blocks = self.new_blocks(grid)
        for partition, rows, columns in grid.blocks():
            part = array[rows[0] : rows[1], columns[0] : columns[1]]
            path = file_of(self.holders.durable, blocks.name, partition)
            write_block(path, part.shape, part.dtype, partial(np.copyto, src=part))
        return Distributed(blocks, self._finite(array))

    def _finite(self, array: Any) -> bool:
        """Strip by strip as it lies in memory: no temporary as large as the array."""
        oriented = array.T if array.flags.f_contiguous else array
        strips = range(0, oriented.shape[0], STRIP)
        return all(self.inner.finite(oriented[start : start + STRIP]) for start in strips)

    def total(self, matrix: Distributed, transposed: bool, thin: Any, shares: Sequence[Answer]) -> Any:
        """Add up the shares that blocks have of ``matrix @ thin``, then those of the waiting factors."""
        total = self.inner.zeros((matrix.shape[1 if transposed else 0], int(thin.shape[1])))
        for (start, stop), share in shares:  # type: ignore[misc]
            part = self.inner.combine([(1, total[start:stop], False), (1, share, False)])
            total = self.inner.place(total, start, 0, part)
        for left, right in matrix.waiting:
            u, v = (right, left) if transposed else (left, right)
            moved = self.inner.multiply(u, False, self.inner.multiply(v, True, thin, False), False)
            total = self.inner.combine([(1, total, False), (1, moved, False)])
        return total

    def lines(self, value: Any, rows: Collection[int], columns: Collection[int]) -> Any:
        """These rows and columns, to be indexed as the matrix is; one round."""
        if not isinstance(value, Distributed):
            return self.inner.lines(value, rows, columns)
        sides = [(True, sorted(rows), value.shape[0]), (False, sorted(columns), value.shape[1])]
        asked = [(side, Selector(np.array(wanted), size)) for side, wanted, size in sides if wanted]
        blocks = value.blocks
        times = [Times(blocks.name, blocks.grid, side, thin) for side, thin in asked]
        answers = self.run(times) if times else []
        found: dict[bool, dict[int, Any]] = {True: {}, False: {}}
        for position, (side, thin) in enumerate(asked):
            lines = self.total(value, side, thin, [own[position] for own in answers])
            found[side] = dict(zip(thin.indices.tolist(), np.asarray(lines).T, strict=True))
        return Lines(value.shape, found[True], found[False])

    def close(self) -> None:
        """Give up the blocks."""
        self.holders.close()

    # The protocol of arrays: thin matrices are the driver's own.

    def take(self, value: Any) -> Any:
        """A copy of user data in the driver; of a large array its blocks will be the copy."""
        if np.ndim(value) != 2 or not is_large(np.shape(value), self.thin):
            return self.inner.take(value)
        array = np.asarray(value, dtype=self.inner.zeros((1, 1)).dtype)
        if not self._finite(array):
            raise NumericalError("the data holds NaN or infinity; only finite numbers are accepted")
        return self.inner.take(array) if self.exact else array

    def own(self, value: Any) -> Any:
        """Large arrays go to the workers."""
        if isinstance(value, Distributed):
            return value
        return (
            self.scatter(self.inner.dense(value))
            if is_large(value.shape, self.thin)
            else self.inner.own(value)
        )

    def accumulate(self, target: Any, left: Any, right: Any) -> Any:
        """The factors wait; the target itself stays what it was, for whoever may take the change back."""
        if not isinstance(target, Distributed):
            return self.inner.accumulate(target, left, right)
        return Distributed(target.blocks, target.finite, (*target.waiting, (left, right)))

    def combine(self, terms: Sequence[tuple[Scalar, Any, bool]]) -> Any:
        """A single large matrix is its own copy, since it never changes; other sums of them are rounds."""
        if len(terms) == 1 and terms[0][0] == 1 and isinstance(terms[0][1], Distributed) and not terms[0][2]:
            matrix = terms[0][1]
            return Distributed(matrix.blocks, matrix.finite, matrix.waiting)
        return self.own(self.inner.combine(terms))

    def to_numpy(self, value: Any) -> np.ndarray[Any, Any]:
        """A large matrix is brought to the driver, from durable storage."""
        if not isinstance(value, Distributed):
            return self.inner.to_numpy(value)
        self.flush([value], keep=True)
        rows, columns = value.shape
        blocks = value.blocks
        whole = read_window(self.holders.durable, blocks.name, blocks.grid, (0, rows), (0, columns))
        return np.asarray(whole)

    def finite(self, value: Any) -> bool:
        """Are all entries finite? Workers say so of the blocks they make."""
        return value.finite if isinstance(value, Distributed) else self.inner.finite(value)

    def dense(self, value: Any) -> Any:
        """A selector as an array."""
        return value if isinstance(value, Distributed) else self.inner.dense(value)

    def multiply(self, left: Any, left_t: bool, right: Any, right_t: bool) -> Any:
        """Thin matrices only: products with large ones are rounds, see :mod:`viewlet.linalg.spark.run`."""
        return self.inner.multiply(left, left_t, right, right_t)

    def stack(self, parts: Sequence[Any]) -> Any:
        """Side by side."""
        return self.inner.stack(parts)

    def zeros(self, shape: Shape) -> Any:
        """Zeros."""
        return self.inner.zeros(shape)

    def place(self, target: Any, row: int, column: int, value: Any) -> Any:
        """Written in place."""
        return self.inner.place(target, row, column, value)

    def divide(self, left: Any, capacitance: Any, statement: str) -> Any:
        """-left C^-1."""
        return self.inner.divide(left, capacitance, statement)

    def invert(self, value: Any, statement: str) -> Any:
        """The driver inverts: large matrices come to it as a whole."""
        return self.inner.invert(self.to_numpy(value), statement)

    def magnitude(self, value: Any) -> float:
        """The Frobenius norm of a thin matrix."""
        return self.inner.magnitude(value)
