"""A checkpoint: every table with its rows, every view with what it holds of streams, at one step of the log.

Views over tables alone hold nothing here: they are made again from the rows, by whatever compiler is there.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from viewlet.backends.native.image import Frozen, FrozenMap
from viewlet.calculus.evaluate import Key, Number
from viewlet.core.types import Schema
from viewlet.kept import Image
from viewlet.sql.parse import CreateTable, CreateView
from viewlet.storage.chain import Head, Part
from viewlet.storage.container import Container
from viewlet.storage.definitions import encode_definition
from viewlet.storage.encode import blocks, encode_block, encode_entries, encode_part, encode_rows
from viewlet.storage.streams import FrozenState, StreamState

ROWS_PER_PART = 1 << 13  # small pieces: a commit waits for one at most
ARROW_ROWS_PER_PART = 1 << 16


@dataclass(frozen=True, slots=True)
class ViewState:
    """A view, the version at which it was created, and what it holds of streams."""

    statement: CreateView
    birth: int
    streams: StreamState


@dataclass(frozen=True, slots=True)
class FrozenView:
    """A view as of a moment, to be written down while it goes on."""

    statement: CreateView
    birth: int
    streams: FrozenState


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A database between two commits; views in the order of their creation, their native maps frozen."""

    tables: tuple[tuple[CreateTable, Image | None], ...]
    views: tuple[FrozenView, ...]
    frozen: Frozen


def write_checkpoint(container: Container, snapshot: Snapshot, start: Head) -> int:
    """Write a snapshot piece by piece, adopt it, and remove what it replaces; returns its bytes.

    ``start`` was the head when the snapshot was taken. Only the container is held, and for one piece at a
    time: commits go on meanwhile.
    """
    generation, digest, size = container.head.generation + 1, "", 0
    container.discard()  # the pieces of a checkpoint that was interrupted
    for part in parts_of(snapshot):
        digest = container.write_part(generation, part, digest)
        size += len(part.body)
    container.adopt(generation, digest, start)
    container.discard()
    return size


def parts_of(snapshot: Snapshot) -> Iterator[Part]:
    """The pieces of a snapshot: each table before its rows, each view before its entries."""
    for definition, image in snapshot.tables:
        name = definition.table.name
        yield Part("table", name, encode_definition(definition))
        if image is not None:
            yield from (Part("rows", name, body) for body in _rows(image, definition.table.columns))
    for view in snapshot.views:
        name, labels = view.statement.name, list(view.streams)
        written = {"birth": view.birth, "labels": labels}
        yield Part("birth", name, json.dumps(written).encode())
        yield Part("view", name, encode_definition(view.statement))
        for number, entries in enumerate(view.streams.values()):
            for kind, body in _entries(entries):
                yield Part(f"{kind} {number}", name, body)


def _entries(entries: Mapping[Key, Number] | FrozenMap) -> Iterator[tuple[str, bytes]]:
    """The entries of a map in pieces, each with its kind: of a frozen map in its own form, else as JSON."""
    if isinstance(entries, FrozenMap):
        yield from (("amounts", encode_block(block)) for block in entries.blocks(ARROW_ROWS_PER_PART))
    else:
        yield from (("entries", encode_entries(some)) for some in blocks(entries.items(), ROWS_PER_PART))


def _rows(image: Image, columns: Schema) -> Iterator[bytes]:
    """The rows of a table in pieces: the bag block by block, Arrow batches cut and written as they are."""
    for block in blocks(image.bag.items(), ROWS_PER_PART):
        yield encode_rows(block, columns)
    for changes in image.arrived:
        for start in range(0, len(changes), ARROW_ROWS_PER_PART):
            yield encode_part(changes.slice(start, ARROW_ROWS_PER_PART), columns)
