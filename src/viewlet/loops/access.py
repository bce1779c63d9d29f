"""Access paths: which indexes a record needs, from how it is looked at.

A lookup at a whole key uses the unique index that every record has. A loop with some keys bound uses a slice
index on exactly these positions; if they decide the other keys, the unique index goes by them and serves
both. A loop with none bound scans. Edges, spans, peaks and visits use an ordered index along their axis, with
the fields that any of them sums. Nothing else gets an index.

An ordered index of sums under integer keys may be dense, but for those of DOUBLE, which fill wide integers.
Keys that nobody has inserted are asked in it then: that must not cost more than a comparison, nor fail. If
nothing else looks for the entries of a record, its ordered index may hold them all by itself. That includes a
loop over all of them that seeks its own key: in the order of keys, every search begins where it ends.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import TypeAlias

from viewlet.core.types import Kind, Type
from viewlet.loops.nodes import (
    Assign,
    Axis,
    Block,
    Gather,
    Get,
    Loop,
    Order,
    Peak,
    Point,
    Record,
    Seek,
    Span,
    Visit,
    operations,
)
from viewlet.loops.ranges import I64, can_fail, type_interval, within

Positions: TypeAlias = tuple[int, ...]


def choose_access(
    records: Mapping[str, Record], blocks: Iterable[Block], decide: Callable[[Record, Positions], bool]
) -> dict[str, Record]:
    """The records with the indexes that the blocks use, without those that nothing uses.

    ``decide`` tells whether some key positions of a record decide the others.
    """
    slices: dict[str, set[Positions]] = {}
    swept: set[str] = set()
    used: set[str] = set()
    summed: dict[tuple[str, Axis], set[str]] = {}
    signed: set[tuple[str, str]] = set()
    points: dict[tuple[str, Axis], set[Point]] = {}
    sparse: set[tuple[str, Axis]] = set()
    marked: set[tuple[str, Axis]] = set()
    sought: dict[str, set[Positions | None]] = {}
    every = [op for block in blocks for op in operations(block)]
    aside = {op for span in every if isinstance(span, Span) for op in operations(span.scans)}
    for op in every:
        used |= {name for at in ("record", "temporary") if (name := getattr(op, at, None))}
        match op:
            case Loop(record) if op in aside or _seeks_itself(op):
                sought.setdefault(record, set()).add(tuple(i for i, _ in op.bound))
            case Get(record) | Loop(record) | Assign(record) | Gather(record):
                sought.setdefault(record, set()).add(None)
            case _:
                pass
        match op:
            case Loop(record, bound) if bound:
                slices.setdefault(record, set()).add(tuple(i for i, _ in bound))
            case Assign(record) | Gather(record, ()):
                swept.add(record)
            case Seek(along=along, sums=sums):
                fields = {sum_.field for sum_ in sums if sum_.field is not None}
                summed.setdefault((along.record, along.axis), set()).update(fields)
                if op not in aside:
                    points.setdefault((along.record, along.axis), set()).add(op.point)
                if op.key is not None and (op.body or any(map(can_fail, op.conditions))):
                    sparse.add((along.record, along.axis))
            case Span(along=along, reads=reads, needs=needs):
                summed.setdefault((along.record, along.axis), set()).update(name for name, _ in reads)
                signed |= set(needs)
                if any(limit is not None and not limit.own for limit in (op.start, op.stop)):
                    marked.add((along.record, along.axis))
            case Peak(along=along, needs=needs):
                summed.setdefault((along.record, along.axis), set())
                signed |= set(needs)
            case Visit(along=along, present=present, needs=needs):
                fields = {present} if present is not None else set()
                summed.setdefault((along.record, along.axis), set()).update(fields)
                sparse.add((along.record, along.axis))  # only a tree leads from key to key
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
            orders=_whole(record, _orders(record, summed, points, sparse, marked), sought.get(name, set())),
            signed=tuple(f.name for f in record.fields if (name, f.name) in signed),
        )
        for name, record in records.items()
        if record.role == "map" or name in used
    }


def _orders(
    record: Record,
    summed: Mapping[tuple[str, Axis], set[str]],
    points: Mapping[tuple[str, Axis], set[Point]],
    sparse: Collection[tuple[str, Axis]],
    marked: Collection[tuple[str, Axis]],
) -> tuple[Order, ...]:
    orders = []
    for (name, axis), fields in sorted(summed.items(), key=repr):
        if name == record.name:
            own = tuple(f.name for f in record.fields if f.name in fields)
            counts = axis.holds == "sums" and _is_integer(record.keys[axis.position].type)
            known = () if axis.by or not counts else tuple(sorted(points.get((name, axis), ())))
            exact = not any(f.type.is_floating for f in record.fields if f.name in fields)
            dense = counts and exact and (name, axis) not in sparse
            orders.append(Order(axis, own, dense, known, dense and (name, axis) in marked))
    return tuple(orders)


def _whole(
    record: Record, orders: tuple[Order, ...], sought: Collection[Positions | None]
) -> tuple[Order, ...]:
    """The only order of a map, told apart if it could hold the entries: scans that stand in for sums along it
    (``sought`` has the keys that they bind) go through one of its parts at a time, and there is no other way.
    """
    every = tuple(f.name for f in record.fields)
    match orders:
        case (Order(Axis(position, by, "sums"), fields) as order,) if (
            record.role == "map"
            and _is_integer(record.keys[position].type)
            and sorted((position, *by)) == list(range(len(record.keys)))
            and (fields == every or (() in sought and not any(f.type.is_floating for f in record.fields)))
            and set(sought) <= {by}
        ):
            return (replace(order, fields=every, whole=True),)
        case _:
            return orders


def _seeks_itself(loop: Loop) -> bool:
    """Does a loop over all entries search along their own order?"""
    return not loop.bound and any(
        isinstance(op, Seek) and op.along.record == loop.record and not op.along.axis.by
        for op in operations(loop.body)
    )


def _is_integer(kind: Type) -> bool:
    return not kind.is_floating and kind.kind is not Kind.VARCHAR and within(type_interval(kind), I64)
