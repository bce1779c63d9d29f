"""How a matrix is cut into one block per partition."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from viewlet.linalg.nodes import Shape

Span: TypeAlias = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Grid:
    """``down`` times ``across`` blocks; partition p holds the block p // across, p % across."""

    shape: Shape
    down: int
    across: int

    def block(self, partition: int) -> tuple[Span, Span]:
        """The rows and columns of one partition's block."""
        rows, columns = self.shape
        return _cut(rows, self.down, partition // self.across), _cut(
            columns, self.across, partition % self.across
        )

    def blocks(self) -> Iterator[tuple[int, Span, Span]]:
        """All blocks with their rows and columns."""
        for partition in range(self.down * self.across):
            yield partition, *self.block(partition)

    def edges(self, axis: int) -> list[int]:
        """Where blocks begin and end along an axis."""
        parts = (self.down, self.across)[axis]
        return [self.shape[axis] * i // parts for i in range(parts + 1)]


def grid_of(shape: Shape, partitions: int) -> Grid:
    """The grid whose blocks have the shortest sides: they are what a thin product takes in and gives out.

    >>> grid_of((100, 100), 4)
    Grid(shape=(100, 100), down=2, across=2)
    >>> grid_of((1000, 10), 4)
    Grid(shape=(1000, 10), down=4, across=1)
    """
    rows, columns = shape
    pairs = [(down, partitions // down) for down in range(1, partitions + 1) if partitions % down == 0]
    down, across = min(pairs, key=lambda pair: (rows / pair[0] + columns / pair[1], -pair[0]))
    return Grid(shape, down, across)


def _cut(size: int, parts: int, index: int) -> Span:
    return size * index // parts, size * (index + 1) // parts
