"""An addition to an entry that was looked up before needs no second lookup.

Entries move when their record gains or loses others, so this holds for a record that the trigger adds to in
one place only, outside of loops: then nothing happens to it between the lookup and the addition.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from viewlet.calculus.nodes import Argument
from viewlet.core.scalar import Var
from viewlet.loops.nodes import Add, Assign, Block, Get, If, Op, operations

Lookups = Mapping[tuple[str, tuple[Argument, ...]], Var]


def reuse_lookups(block: Block) -> Block:
    """Point additions at the lookups of their entries."""
    added = Counter(op.record for op in operations(block) if isinstance(op, Add | Assign))
    return _reuse(block, {}, frozenset(record for record, times in added.items() if times == 1))


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
