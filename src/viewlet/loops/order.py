"""Every read of a trigger comes before the writes of what it reads.

All increments of an event are defined on the state before it. Within a block, conditions and loops that read
a record therefore come before those that write it. Where no order does that (a loop that changes the record
it loops over, two loops that each read what the other writes), the additions to that record are put off:
they are noted down, and done at the flush at the end.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from graphlib import CycleError, TopologicalSorter

from viewlet.core.node import transform
from viewlet.loops.nodes import (
    Add,
    Block,
    Flush,
    Gather,
    Get,
    If,
    Loop,
    Op,
    Peak,
    Seek,
    Span,
    Visit,
    body_of,
    operations,
)


def reads_before_writes(block: Block) -> Block:
    """The same additions to the state, all computed from the state at the beginning."""
    ordered = _ordered(block)
    late: set[str] = set()
    _visit(ordered, set(), late)
    if not late:
        return ordered

    def put_off(node: object) -> object:
        return replace(node, later=True) if isinstance(node, Add) and node.record in late else node

    return (*(transform(op, put_off) for op in ordered), Flush())


def _ordered(block: Block) -> Block:
    """Bindings, then conditions and loops with readers before writers, then the rest."""
    nested = [replace(op, body=_ordered(op.body)) for op in block if isinstance(op, If | Loop | Visit)]
    first = [op for op in block if not isinstance(op, If | Loop | Visit | Add)]
    last = [op for op in block if isinstance(op, Add)]
    return (*first, *_topological(nested), *last)


def _topological(ops: list[If | Loop | Visit]) -> list[If | Loop | Visit]:
    graph: TopologicalSorter[int] = TopologicalSorter()
    for i, reader in enumerate(ops):
        graph.add(i)
        for j, writer in enumerate(ops):
            if i != j and _read([reader]) & _written([writer]):
                graph.add(j, i)
    try:
        return [ops[i] for i in graph.static_order()]
    except CycleError:
        return ops


def _visit(block: Iterable[Op], written: set[str], late: set[str]) -> None:
    """Find records that are read after they may have been written; ``written`` grows on the way."""
    for op in block:
        match op:
            case Get(record) if record in written:
                late.add(record)
            case Seek(along=along) | Span(along=along) | Peak(along=along):
                if along.record in written:
                    late.add(along.record)
                _visit(body_of(op), written, late)
            case Loop(body=body) | Visit(body=body):
                record = op.along.record if isinstance(op, Visit) else op.record
                written |= _written(body)  # by the turn before
                if record in written:
                    late.add(record)
                _visit(body, written, late)
            case Add(record):
                written.add(record)
            case Gather(_, body):
                _visit(body, set(written), late)  # what it adds to is nobody else's
            case _:
                _visit(body_of(op), written, late)


def _read(ops: Iterable[Op]) -> set[str]:
    found = operations(tuple(ops))
    return {
        op.record if isinstance(op, Get | Loop) else op.along.record
        for op in found
        if isinstance(op, Get | Loop | Seek | Span | Peak | Visit)
    }


def _written(ops: Iterable[Op]) -> set[str]:
    """The records that are added to, apart from temporaries."""
    found: set[str] = set()
    for op in ops:
        if isinstance(op, Add):
            found.add(op.record)
        elif not isinstance(op, Gather):
            found |= _written(body_of(op))
    return found
