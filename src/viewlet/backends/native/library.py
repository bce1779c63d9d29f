"""Compiled programs in this process: the bridge to Python, and programs opened through it."""

from __future__ import annotations

import importlib.util
import tempfile
from collections.abc import Callable, Sequence
from functools import lru_cache
from importlib.machinery import ExtensionFileLoader
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from viewlet.backends.native.build import (
    BASELINE_FLAGS,
    DEFAULT_FLAGS,
    RUNTIME,
    CompilerError,
    compile_library,
    flags_for,
    python_headers,
)
from viewlet.backends.native.emit import Source
from viewlet.backends.native.forms import cell_kind
from viewlet.backends.native.scalars import HostFunction
from viewlet.core.functions import compile_scalar
from viewlet.core.types import Type

KINDS = ("VL_BOOLEAN", "VL_INT32", "VL_INT64", "VL_DECIMAL", "VL_DOUBLE", "VL_TEXT")
"""The order of ``vl_kind`` in ``runtime/program.h``."""


class Gate(Protocol):
    """A call that goes straight to a program while its database lets it; see ``runtime/gate.h``."""

    count: int

    @property
    def generation(self) -> int:
        """When it was made; it stays closed once the clock of its database shows another."""

    def __call__(self, *arguments: Any) -> Any:
        """The version that a row made, or the value of a view."""


Takes: TypeAlias = tuple[bytes, tuple[Callable[[Any], Any] | None, ...]]
"""What the columns of a gate take: a byte for each, and what converts its values, if those of any are."""


class Keeper(Protocol):
    """The rows that a database keeps of a table; see ``runtime/keeping.h``."""

    lane: tuple[dict[Any, int], dict[Any, Any], Callable[[Any], int] | None] | None

    @property
    def slots(self) -> bytes:
        """The places of the columns of the primary key."""


class OpenProgram(Protocol):
    """A program with its state; see ``runtime/bridge.c``. Errors come as bits and the row of the first."""

    def apply(
        self, table: int, rows: list[tuple[Any, ...]], weights: list[int], batch: bool
    ) -> tuple[int, int] | None:
        """Apply rows of physical values, or nothing at all."""

    def apply_arrow(
        self, table: int, schema: object, array: object, weights: object, batch: bool
    ) -> tuple[int, int] | None:
        """Apply a batch given as Arrow capsules."""

    def lane(self, table: int, weight: int) -> Any:
        """A callable for one row at a time."""

    def row_gate(
        self,
        table: int,
        weight: int,
        takes: bytes,
        converters: tuple[Callable[[Any], Any] | None, ...],
        kept: Keeper | None,
        slots: bytes,
        clock: object,
        otherwise: object,
    ) -> Any:
        """A callable for one row at a time that commits it; see ``runtime/gate.h``, ``runtime/keeping.h``."""

    def value_gate(self, view: int, clock: object, otherwise: object) -> Any:
        """A callable for the value of a view; see ``runtime/gate.h``."""

    def rows(self, view: int) -> tuple[list[tuple[tuple[Any, ...], int]], int]:
        """The rows of a view with their multiplicities, and error bits."""

    def columns(self, view: int) -> tuple[list[bytes], int]:
        """The rows of a view as columns, three runs of bytes for each, then weights; and error bits."""

    def follow(self, views: list[int]) -> None:
        """Note what changes in these views from now on, and forget what was noted."""

    def changes(self, view: int) -> tuple[list[tuple[tuple[Any, ...], int]], int]:
        """The rows that came and went in a view since it is followed, with weights, and error bits."""

    def begin(self) -> bool:
        """Batches from here to ``end`` are one step; can ``restore`` lead back from it?"""

    def end(self) -> None:
        """Forget how entries were before the step."""

    def restore(self) -> int:
        """Lead back to ``begin``; error bits."""

    def changes_columns(self, view: int) -> tuple[list[bytes], int]:
        """The same as columns; see :meth:`columns`."""

    def touched(self, view: int) -> int:
        """Under how many keys a followed view may have changed."""

    def top(
        self, view: int, keys: bytes, ties: bytes, rows: int
    ) -> tuple[list[tuple[tuple[Any, ...], int]], int] | None:
        """Rows of a view among which are its first ``rows``, and error bits; see ``runtime/top.h``.

        ``keys`` are pairs of a column and how it is ordered (1: descending, 2: NULL first), ``ties`` the
        columns that decide otherwise. Nothing if only all rows can tell.
        """

    def count(self, view: int) -> tuple[int, int]:
        """The number of rows of a view, and error bits."""

    def suspect(self) -> bool:
        """Has a sum grown beyond its guard since this was asked last?"""

    def check(self, view: int) -> int:
        """The error bits that reading a view would give."""

    def value(self, view: int) -> Any:
        """The value of a view with one row and one column; LookupError where :meth:`rows` must be asked."""

    def entries(self, record: int) -> list[tuple[Any, ...]]:
        """Keys and fields of every entry."""

    def finder(self, record: int, order: bytes) -> Callable[[tuple[Any, ...]], int]:
        """Tells, without running Python code, how often a key is there.

        ``order`` has for each column of the record its place in the tuples that are asked about.
        """

    def counts(self, record: int, schema: object, array: object) -> bytes:
        """The first field of the entries whose keys are the rows of an Arrow batch, as 64-bit integers."""

    def add(self, record: int, entries: list[tuple[Any, ...]]) -> tuple[int, int] | None:
        """Add to entries."""

    def twin(self) -> OpenProgram:
        """The same program, closed, until a state is thawed."""

    def thaw(self, file: int) -> None:
        """Take over the state in a file, which :func:`save` wrote."""

    def amounts(self, record: int, field: int, after: int, most: int) -> tuple[int, list[bytes]]:
        """Keys and one field of some entries, and where to go on, 0 at the end; see ``runtime/image.h``."""

    def put(self, record: int, field: int, runs: list[bytes]) -> tuple[int, int] | None:
        """Add entries in the form of :meth:`amounts`."""

    def sizes(self) -> list[tuple[int, int]]:
        """Entries and bytes of every record."""

    def bytes(self) -> int:
        """Bytes of the whole state."""

    def sweep(self) -> None:
        """Give back the memory of texts that no record holds any more."""

    def present(self, bytes: int) -> None:
        """Have memory for so many bytes of growth, cleared and mapped; MemoryError if there is none."""

    def close(self) -> None:
        """Give the state back."""


@lru_cache(maxsize=1)
def bridge() -> Any:
    """The extension module, compiled on first use."""
    flags = (*BASELINE_FLAGS, "-isystem", str(python_headers()))
    path = compile_library((RUNTIME / "bridge.c").read_text(encoding="utf-8"), flags=flags)
    loader = ExtensionFileLoader("viewlet_bridge", str(path))
    specification = importlib.util.spec_from_loader("viewlet_bridge", loader, origin=str(path))
    assert specification is not None
    try:
        module = importlib.util.module_from_spec(specification)
    except ImportError as error:
        raise CompilerError(
            f"{path} cannot be loaded: {error}; where programs may not be run from there, set VIEWLET_CACHE"
        ) from error
    loader.exec_module(module)
    return module


def distinct(
    capsules: tuple[object, object], columns: int, weights: NDArray[np.int64] | None
) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
    """Where the rows of an Arrow batch that differ first are, and how often they come (``runtime/alike.h``).

    Nothing where native code is not in use, or does not know the types of the columns.
    """
    found = bridge().alike(*capsules, columns, weights) if bridge.cache_info().currsize else None
    if found is None:
        return None
    first, sums = (np.frombuffer(part, np.int64) for part in found)
    return first, sums


def save(states: list[tuple[OpenProgram, int]]) -> int:
    """Write states to files, all as of now, in a child of this process; returns its pid."""
    child: int = bridge().save(states)
    return child


def finished(child: int) -> bool:
    """Wait for the child that :func:`save` made: was everything written?"""
    written: bool = bridge().finished(child)
    return written


def open_program(
    source: Source, *, flags: Sequence[str] = DEFAULT_FLAGS, limit: int = 0, spill: Path | None = None
) -> OpenProgram:
    """Compile a program and start it with empty state; ``limit`` bounds its bytes, 0 does not.

    With ``spill`` the state lives in a file of that folder, which has no name and goes with the program: the
    system writes what is cold there when memory is short, and reads it again when it is needed.
    """
    path = compile_library(source.text, flags=flags_for(source.effort, flags))
    functions = tuple(map(_host_function, source.functions))
    if spill is None:
        opened: OpenProgram = bridge().open(str(path), functions, limit)
    else:
        with tempfile.TemporaryFile(dir=spill) as file:
            opened = bridge().open(str(path), functions, limit, file.fileno())
    return opened


def _host_function(function: HostFunction) -> tuple[Any, bytes, int]:
    """The function, the kinds of its arguments, and of its result."""
    slots = {var.name: i for i, var in enumerate(function.arguments)}
    kinds = bytes(kind_number(var.type) for var in function.arguments)
    return compile_scalar(function.scalar, slots), kinds, kind_number(function.scalar.type)


def kind_number(kind: Type) -> int:
    """The number of the ``vl_kind`` of a type."""
    return KINDS.index(cell_kind(kind))
