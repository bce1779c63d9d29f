"""Access paths: which indexes a record needs, from how it is looked at.

A lookup at a whole key uses the unique index that every record has. A loop with some keys bound uses a slice
index on exactly these positions; if they decide the other keys, the unique index goes by them and serves
both. A loop with none bound scans. Edges, spans, peaks and visits use an ordered index along their axis, with
the fields that any of them sums. Nothing else gets an index.

An ordered index of sums under integer keys may be dense, but for those of DOUBLE, which fill wide integers.
Keys that nobody has inserted are asked in it then: that must not cost more than a comparison, nor fail. If
nothing else looks for the entries of a record, its ordered index may hold them all by itself. That includes a
loop over all of them that seeks its own key: in the order of keys, every search begins where it ends.

Where no event changes a record, and one whole number is all that its unique index goes by, the entries may
lie in an array by it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias, assert_never

from viewlet.core.types import Kind, Type
from viewlet.loops.nodes import (
    Assign,
    Axis,
    Block,
    Gather,
    Get,
    Loop,
    Op,
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
Index: TypeAlias = tuple[str, Axis]


@dataclass(slots=True)
class _Uses:
    """How blocks look at records: by which keys, along which axes, for which fields."""

    used: set[str] = field(default_factory=set)
    got: set[str] = field(default_factory=set)
    swept: set[str] = field(default_factory=set)
    slices: defaultdict[str, set[Positions]] = field(default_factory=lambda: defaultdict(set))
    sought: defaultdict[str, set[Positions | None]] = field(default_factory=lambda: defaultdict(set))
    summed: defaultdict[Index, set[str]] = field(default_factory=lambda: defaultdict(set))
    points: defaultdict[Index, set[Point]] = field(default_factory=lambda: defaultdict(set))
    sparse: set[Index] = field(default_factory=set)
    marked: set[Index] = field(default_factory=set)
    signed: set[tuple[str, str]] = field(default_factory=set)


def choose_access(
    records: Mapping[str, Record],
    blocks: Iterable[Block],
    decide: Callable[[Record, Positions], bool],
    is_constant: Callable[[Record], bool],
) -> dict[str, Record]:
    """The records with the indexes that the blocks use, without those that nothing uses.

    ``decide`` tells whether some key positions of a record decide the others, ``is_constant`` whether no
    event changes it.
    """
    uses = _uses([op for block in blocks for op in operations(block)])
    homes = {
        name: next((p for p in sorted(uses.slices[name]) if decide(record, p)), ())
        for name, record in records.items()
    }
    chosen = {
        name: replace(
            record,
            home=homes[name],
            slices=tuple(sorted(uses.slices[name] - {homes[name]})),
            swept=name in uses.swept,
            orders=_whole(record, _orders(record, uses), uses.sought[name]),
            signed=tuple(f.name for f in record.fields if (name, f.name) in uses.signed),
        )
        for name, record in records.items()
        if record.role == "map" or name in uses.used
    }
    return {
        name: replace(record, array=_array(record))
        if (name in uses.got or record.home) and is_constant(record)
        else record
        for name, record in chosen.items()
    }


def _array(record: Record) -> int | None:
    """The only column that the unique index of a record goes by, if it is a whole number and no NULL."""
    match record.home or tuple(range(len(record.keys))):
        case (position,) if not (record.slices or record.orders or record.signed or record.swept):
            key = record.keys[position]
            whole = key.type.is_integer or key.type.kind is Kind.DATE
            return position if whole and not key.nullable else None
        case _:
            return None


def _uses(every: list[Op]) -> _Uses:
    uses = _Uses()
    aside = {op for span in every if isinstance(span, Span) for op in operations(span.scans)}
    for op in every:
        uses.used |= {name for at in ("record", "temporary") if (name := getattr(op, at, None))}
        match op:
            case Loop(record) if op in aside or _seeks_itself(op):
                uses.sought[record].add(tuple(i for i, _ in op.bound))
            case Get(record) | Loop(record) | Assign(record) | Gather(record):
                uses.sought[record].add(None)
            case _:
                pass
        match op:
            case Loop(record, bound) if bound:
                uses.slices[record].add(tuple(i for i, _ in bound))
            case Get(record):
                uses.got.add(record)
            case Assign(record) | Gather(record, ()):
                uses.swept.add(record)
            case Seek() | Span() | Peak() | Visit():
                _note_search(op, uses, aside=op in aside)
    return uses


def _note_search(op: Seek | Span | Peak | Visit, uses: _Uses, *, aside: bool) -> None:
    """What a search along an axis needs of its index; ``aside`` it stands in for sums along the axis."""
    index = op.along.record, op.along.axis
    match op:
        case Seek(sums=sums):
            uses.summed[index] |= {sum_.field for sum_ in sums if sum_.field is not None}
            if not aside:
                uses.points[index].add(op.point)
            if op.key is not None and (op.body or any(map(can_fail, op.conditions))):
                uses.sparse.add(index)
        case Span(reads=reads, needs=needs):
            uses.summed[index] |= {name for name, _ in reads}
            uses.signed |= set(needs)
            if any(limit is not None and not limit.own for limit in (op.start, op.stop)):
                uses.marked.add(index)
        case Peak(needs=needs):
            uses.summed[index] |= set()  # an index of no field
            uses.signed |= set(needs)
        case Visit(present=present, needs=needs):
            uses.summed[index] |= {present} if present is not None else set()
            uses.sparse.add(index)  # only a tree leads from key to key
            uses.signed |= set(needs)
        case _:
            assert_never(op)


def _orders(record: Record, uses: _Uses) -> tuple[Order, ...]:
    orders = []
    for (name, axis), fields in sorted(uses.summed.items(), key=repr):
        if name == record.name:
            own = tuple(f.name for f in record.fields if f.name in fields)
            counts = axis.holds == "sums" and _is_integer(record.keys[axis.position].type)
            known = () if axis.by or not counts else tuple(sorted(uses.points[name, axis]))
            exact = not any(f.type.is_floating for f in record.fields if f.name in fields)
            dense = counts and exact and (name, axis) not in uses.sparse
            orders.append(Order(axis, own, dense, known, dense and (name, axis) in uses.marked))
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
