"""One loop for sums that differ only in what they add up::

    x = total: for R[*k] -> n: a: if c(k): yield a
    y = total: for R[*k] -> s: b: if c(k): yield b
    ->
    x, y = total: for R[*k] -> n: a, s: b: if c(k): yield a, b

A nullable SUM is such a pair: the sum, and the number of values in it. Both run whenever the block does, and
read one state, so nothing is computed that was not before. What is bound between the two must not be read by
the second, which moves up to the first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from viewlet.core.node import walk
from viewlet.core.scalar import Var
from viewlet.loops.fuse import merged
from viewlet.loops.nodes import (
    Best,
    Bind,
    Block,
    Gather,
    Get,
    If,
    Loop,
    Op,
    Peak,
    Pending,
    Seek,
    Span,
    Total,
    Turn,
    Visit,
)


def fuse_totals(block: Block) -> Block:
    """Put totals of the same loops together, here and inside; all of the block reads one state.

    >>> from viewlet.loops.nodes import Product, Yield
    >>> from viewlet.loops.text import show_block
    >>> def total(name, field):
    ...     a = Var(f"r_{field}")
    ...     body = (Loop("r", (), ((0, Var("k")),), ((field, a),), (Yield(((Product(1, (a,)),),)),)),)
    ...     return Total((Var(name),), body)
    >>> print("\\n".join(show_block(fuse_totals((total("x", "n"), total("y", "s"))))))
    x, y = total:
      for r[*k] -> n: r_n, s: r_s:
        yield r_n, r_s
    """
    fused: list[Op] = []
    for op in block:
        if not (isinstance(op, Total) and _joins(op, fused)):
            fused.append(op)
    return tuple(map(_inside, fused))


def _joins(total: Total, before: list[Op]) -> bool:
    """Is there one before that it can be part of? Then it is now."""
    read = {node.name for node in walk(total) if isinstance(node, Var)}
    for i, other in enumerate(before):
        if isinstance(other, Total) and not read & set(_declared(before[i:])):
            body = merged(other.body, total.body, sums=True)
            if body is not None:
                before[i] = Total((*other.vars, *total.vars), body)
                return True
    return False


def _inside(op: Op) -> Op:
    match op:
        case Loop() | If() | Total() | Best() | Gather():
            return replace(op, body=fuse_totals(op.body))
        case Visit():
            return replace(op, body=fuse_totals(op.body), scan=fuse_totals(op.scan))
        case Seek():
            return replace(op, first=fuse_totals(op.first), body=fuse_totals(op.body))
        case Span():
            scans = (scan for scan in fuse_totals(op.scans) if isinstance(scan, Total))
            return replace(op, scans=tuple(scans))
        case Peak():
            return replace(op, scan=fuse_totals(op.scan))
        case _:
            return op


def _declared(ops: Iterable[Op]) -> Iterator[str]:
    """The variables that operations set for those after them."""
    for op in ops:
        match op:
            case Bind(var) | Best(var) | Peak(var) | Pending(var) | Seek(var):
                yield var.name
            case Total(variables):
                yield from (var.name for var in variables)
            case Turn(_, _, key, always):
                yield from (key.name, always.name)
            case Get(_, _, reads, found):
                yield from (found.name, *(var.name for _, var in reads))
            case Span(reads=reads):
                yield from (var.name for _, var in reads)
            case _:
                pass
