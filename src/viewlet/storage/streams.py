"""What views hold of streams: the one part of an engine's state that kept rows cannot give back.

A map is known by its definition, not by its name: names depend on which views came and went before. A view
that was kept by another program than today's compiler makes cannot be carried over, and is refused by name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, TypeAlias, runtime_checkable

import pyarrow as pa

from viewlet.backends.base import Engine
from viewlet.backends.native.engine import NativeEngine
from viewlet.backends.native.image import Frozen, FrozenMap, entries_of, is_empty, load_blocks
from viewlet.backends.reference.reevaluate import Reevaluate
from viewlet.calculus.canonical import numbered_text
from viewlet.calculus.evaluate import Key, Number
from viewlet.calculus.nodes import tables
from viewlet.errors import StorageError
from viewlet.sql.catalog import TableKind
from viewlet.triggers.program import Program
from viewlet.triggers.reach import part_of

Entries: TypeAlias = Mapping[Key, Number] | Sequence[pa.RecordBatch]
"""The entries of a map: as Python values, or as blocks in the form of a frozen map."""

StreamState: TypeAlias = Mapping[str, Entries]
"""Entries by the definition of their map, or by the stream whose rows they are."""

FrozenState: TypeAlias = Mapping[str, Mapping[Key, Number] | FrozenMap]
"""The same, where native maps are not copied but frozen."""


@runtime_checkable
class LoadsMaps(Protocol):
    """An engine that runs a trigger program and lets its maps be read and filled."""

    @property
    def program(self) -> Program:
        """The program that is running."""

    def contents(self, name: str) -> Mapping[Key, Number]:
        """The entries of one map."""

    def load(self, name: str, entries: Mapping[Key, Number]) -> None:
        """Add entries to one map."""


def state_of(engine: Engine, view: str) -> Mapping[str, Mapping[Key, Number]]:
    """Copies of what a view holds of the streams that it reads; empty for a view of tables alone."""
    if isinstance(engine, Reevaluate):
        return {stream: dict(rows) for stream, rows in engine.stream_rows(view).items()}
    if isinstance(engine, LoadsMaps):
        return {
            label: dict(engine.contents(name)) for label, name in _stream_maps(engine.program, view).items()
        }
    raise StorageError(
        f"view {view!r}: {type(engine).__name__} cannot give out what it holds of streams; "
        "the log keeps it, use backend='reference' for checkpoints"
    )


def frozen_state_of(engine: Engine, view: str, frozen: Frozen) -> FrozenState:
    """What :func:`state_of` gives, as of when the engine was frozen; one that is not native is copied."""
    if not isinstance(engine, NativeEngine):
        return state_of(engine, view)
    maps = _stream_maps(engine.program, view).items()
    return {label: frozen.map(engine, name) for label, name in maps}


def labels_of(engine: Engine, view: str) -> frozenset[str]:
    """The definitions that :func:`state_of` would give entries for."""
    if isinstance(engine, LoadsMaps):
        return frozenset(_stream_maps(engine.program, view))
    return frozenset(state_of(engine, view))


def load_state(engine: Engine, view: str, state: StreamState) -> None:
    """Give a newly created view what it held of streams: afterwards ``state_of`` gives ``state`` again."""
    if isinstance(engine, Reevaluate):
        rows = {stream: _weights(_python_entries(entries)) for stream, entries in state.items()}
        engine.load_stream_rows(view, rows)
        return
    assert isinstance(engine, LoadsMaps), "whoever gave a state out can take it back"
    for label, name in _stream_maps(engine.program, view).items():
        stored = state[label]
        if isinstance(engine, NativeEngine) and not isinstance(stored, Mapping) and is_empty(engine, name):
            load_blocks(engine, name, stored)
            continue
        now, then = engine.contents(name), _python_entries(stored)
        changed = {key: then.get(key, 0) - now.get(key, 0) for key in now.keys() | then.keys()}
        engine.load(name, {key: change for key, change in changed.items() if change})


def _stream_maps(program: Program, view: str) -> dict[str, str]:
    """The maps of a view whose definitions read a stream, by definition."""
    streams = {name for name, table in program.tables.items() if table.kind is TableKind.STREAM}
    return {
        f"{len(m.keys)}: {numbered_text(m.definition, m.keys)}": m.name
        for m in part_of(program, view).maps.values()
        if tables(m.definition) & streams
    }


def _python_entries(entries: Entries) -> Mapping[Key, Number]:
    if isinstance(entries, Mapping):
        return entries
    return {key: number for block in entries for key, number in entries_of(block)}


def _weights(rows: Mapping[Key, Number]) -> dict[Key, int]:
    return {row: int(weight) for row, weight in rows.items()}
