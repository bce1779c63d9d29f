"""Access paths: which indexes a record needs, from how it is looked at.

A lookup at a whole key uses the unique index that every record has. A loop with some keys bound uses a slice
index on exactly these positions. A loop with none bound scans. Nothing else gets an index.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from viewlet.loops.nodes import Assign, Block, Loop, Record, operations


def choose_access(records: Mapping[str, Record], blocks: Iterable[Block]) -> dict[str, Record]:
    """The records with the indexes that the blocks use, without those that nothing uses."""
    slices: dict[str, set[tuple[int, ...]]] = {}
    swept: set[str] = set()
    used: set[str] = set()
    for op in (op for block in blocks for op in operations(block)):
        used |= {name for at in ("record", "temporary") if (name := getattr(op, at, None))}
        match op:
            case Loop(record, bound) if bound:
                slices.setdefault(record, set()).add(tuple(i for i, _ in bound))
            case Assign(record):
                swept.add(record)
    return {
        name: replace(record, slices=tuple(sorted(slices.get(name, ()))), swept=name in swept)
        for name, record in records.items()
        if record.role == "map" or name in used
    }
