"""Block files as a worker sees them: its own blocks close by, those of others in storage that all can read.

A block file is written under another name and renamed, and never changes afterwards. So readers need no
locks, a task that runs twice writes the same file twice, and a block is in both places by a hard link where
they share a file system.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from viewlet.linalg.nodes import Shape
from viewlet.linalg.spark.grid import Grid, Span

HEADER_BYTES = 128  # of a block file, before its numbers


class LostBlockError(Exception):
    """A block is neither here nor in durable storage; the driver knows how to make it again."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


@dataclass(frozen=True, slots=True)
class Store:
    """The files of one partition."""

    near: Path
    durable: Path
    partition: int

    def has(self, name: str) -> bool:
        """Is this partition's block of a matrix in either place?"""
        return self._near(name).exists() or file_of(self.durable, name, self.partition).exists()

    def own(self, name: str) -> Any:
        """This partition's block, mapped into memory."""
        path = self._near(name)
        if not path.exists():
            kept = file_of(self.durable, name, self.partition)
            if not kept.exists():
                raise LostBlockError(name)
            put_beside(kept, path)
        return open_block(path)

    def write(self, name: str, shape: Shape, dtype: Any, fill: Callable[[Any], None]) -> None:
        """Make this partition's block; ``fill`` writes into it, in Fortran order, in place."""
        write_block(self._near(name), shape, dtype, fill)

    def keep(self, name: str) -> None:
        """Put this partition's block into durable storage."""
        self.own(name)
        kept = file_of(self.durable, name, self.partition)
        if not kept.exists():
            put_beside(self._near(name), kept)

    def drop(self, names: Iterable[str]) -> None:
        """Forget this partition's blocks; the driver removes the durable ones."""
        for name in names:
            self._near(name).unlink(missing_ok=True)

    def leave(self) -> None:
        """Remove the files close by, of all partitions."""
        shutil.rmtree(self.near, ignore_errors=True)

    def window(self, name: str, grid: Grid, rows: Span, columns: Span) -> Any:
        """Any part of a matrix in durable storage; a copy only where it crosses blocks."""
        return read_window(self.durable, name, grid, rows, columns)

    def _near(self, name: str) -> Path:
        return file_of(self.near, name, self.partition)


def file_of(directory: Path, name: str, partition: int) -> Path:
    """Where a block lies."""
    return directory / f"{name}.{partition}.npy"


def open_block(path: Path) -> Any:
    """A block mapped into memory; an empty one cannot be mapped, and is read."""
    return np.load(path, mmap_mode="r" if path.stat().st_size > HEADER_BYTES else None)


def read_window(directory: Path, name: str, grid: Grid, rows: Span, columns: Span) -> Any:
    """A part of a matrix from its block files; a view of the file where one block has it all."""
    result: Any = None
    for partition, (top, bottom), (left, right) in grid.blocks():
        r0, r1 = max(rows[0], top), min(rows[1], bottom)
        c0, c1 = max(columns[0], left), min(columns[1], right)
        if r0 >= r1 or c0 >= c1:
            continue
        try:
            block = open_block(file_of(directory, name, partition))
        except FileNotFoundError:
            raise LostBlockError(name) from None
        part = block[r0 - top : r1 - top, c0 - left : c1 - left]
        if (r0, r1, c0, c1) == (*rows, *columns):
            return part
        if result is None:
            result = np.empty((rows[1] - rows[0], columns[1] - columns[0]), part.dtype, order="F")
        result[r0 - rows[0] : r1 - rows[0], c0 - columns[0] : c1 - columns[0]] = part
    return result


def write_block(path: Path, shape: Shape, dtype: Any, fill: Callable[[Any], None]) -> None:
    """Write a block file, whole or not at all."""
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f"{path.name}.{uuid.uuid4().hex}.writing")
    if 0 in shape:  # nothing to map
        with fresh.open("wb") as file:
            np.save(file, np.zeros(shape, dtype))
    else:
        mapped = np.lib.format.open_memmap(fresh, mode="w+", dtype=dtype, shape=shape, fortran_order=True)
        fill(np.asarray(mapped))
        del mapped
    os.replace(fresh, path)


def put_beside(source: Path, target: Path) -> None:
    """The same file in another directory: linked where one file system has both, else copied."""
    target.parent.mkdir(parents=True, exist_ok=True)
    fresh = target.with_name(f"{target.name}.{uuid.uuid4().hex}.writing")
    try:
        os.link(source, fresh)
    except OSError:
        shutil.copyfile(source, fresh)
    os.replace(fresh, target)
