"""Access paths: which indexes a record needs, from how it is looked at.

A lookup at a whole key uses the unique index that every record has. A loop with some keys bound uses a slice
index on exactly these positions; if they decide the other keys, the unique index goes by them and serves
both. A loop with none bound scans. Edges and spans use an ordered index on their
key column, with the fields that any of them sums. Nothing else gets an index.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from viewlet.loops.nodes import Along, Assign, Block, Loop, Order, Record, Seek, Span, operations


def choose_access(
    records: Mapping[str, Record], blocks: Iterable[Block], decide: Callable[[Record, tuple[int, ...]], bool]
) -> dict[str, Record]:
    """The records with the indexes that the blocks use, without those that nothing uses.

    ``decide`` tells whether some key positions of a record decide the others.
    """
    slices: dict[str, set[tuple[int, ...]]] = {}
    swept: set[str] = set()
    used: set[str] = set()
    summed: dict[tuple[str, int], set[str]] = {}
    signed: set[tuple[str, str]] = set()
    for op in (op for block in blocks for op in operations(block)):
        used |= {name for at in ("record", "temporary") if (name := getattr(op, at, None))}
        match op:
            case Loop(record, bound) if bound:
                slices.setdefault(record, set()).add(tuple(i for i, _ in bound))
            case Assign(record):
                swept.add(record)
            case Seek(along=Along(record, position), sums=sums):
                summed.setdefault((record, position), set()).update(running.field for running in sums)
            case Span(along=Along(record, position), reads=reads, needs=needs):
                summed.setdefault((record, position), set()).update(name for name, _ in reads)
                signed |= set(needs)
    homes = {
        name: next((p for p in sorted(slices.get(name, ())) if decide(record, p)), ())
        for name, record in records.items()
    }
    return {
        name: replace(
            record,
            home=homes[name],
            slices=tuple(sorted(slices.get(name, set()) - {homes[name]})),
            swept=name in swept,
            orders=_orders(record, summed),
            signed=tuple(f.name for f in record.fields if (name, f.name) in signed),
        )
        for name, record in records.items()
        if record.role == "map" or name in used
    }


def _orders(record: Record, summed: Mapping[tuple[str, int], set[str]]) -> tuple[Order, ...]:
    return tuple(
        Order(position, tuple(f.name for f in record.fields if f.name in fields))
        for (name, position), fields in sorted(summed.items())
        if name == record.name
    )
