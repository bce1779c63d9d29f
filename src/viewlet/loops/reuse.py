"""What holds for a record that a trigger adds to in one place only.

An addition to an entry that was looked up before needs no second lookup: entries move when their record gains
or loses others, and outside of loops nothing happens to it between the lookup and the addition.

If the addition names every field, the entry is settled by it; see ``whole`` in ``nodes.py``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from viewlet.calculus.nodes import Argument
from viewlet.core.node import transform
from viewlet.core.scalar import Var
from viewlet.loops.nodes import Add, Assign, Block, Get, If, Op, Record, operations

Lookups = Mapping[tuple[str, tuple[Argument, ...]], Var]


def reuse_lookups(block: Block, records: Mapping[str, Record]) -> Block:
    """Point additions at the lookups of their entries, and mark those that settle their entry."""
    added = Counter(op.record for op in operations(block) if isinstance(op, Add | Assign))
    once = frozenset(record for record, times in added.items() if times == 1)

    def mark(node: object) -> object:
        if isinstance(node, Add) and node.record in once:
            return replace(node, whole=len(node.amounts) == len(records[node.record].fields))
        return node

    return tuple(transform(op, mark) for op in _reuse(block, {}, once))


def _reuse(block: Block, known: Lookups, once: frozenset[str]) -> Block:
    lookups = dict(known)
    ops: list[Op] = []
    for op in block:
        match op:
            case Get(record, keys, _, found):
                lookups[record, keys] = found
            case Add(record, keys, _, False) if record in once and keys and (record, keys) in lookups:
                op = replace(op, found=lookups[record, keys])
            case If(condition, body):
                op = If(condition, _reuse(body, lookups, once))
        ops.append(op)
    return tuple(ops)
