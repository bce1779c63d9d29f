"""One loop for guards that differ, where each only keeps a factor of 0 from its work::

    if x <> 0: for R[*k]: span S[k] -> n: a; T[k] += n: x*a
    if y <> 0: for R[*k]: span S[k] -> s: b; T[k] += s: y*b
    ->
    if x <> 0 or y <> 0: for R[*k]: span S[k] -> n: a, s: b; T[k] += n: x*a, s: y*b

With x at 0 the first line adds 0, so its guard matters only because work that is left out cannot fail. Hence
the condition: apart from what is read of an entry that is read anyway, both do the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from viewlet.core.scalar import Call, Const, Scalar, Var, call
from viewlet.loops.nodes import Add, Block, Gather, Get, If, Loop, Op, Read, Span, Total, Yield, operations


def fuse_guards(block: Block) -> Block:
    """Put guarded work together where it is the same, here and inside; all of it reads one state.

    >>> from viewlet.loops.nodes import Product
    >>> from viewlet.loops.text import show_block
    >>> def line(guard, field):
    ...     x, k, a = Var(guard), Var("k"), Var(f"r_{field}")
    ...     add = Add("t", (k,), ((field, (Product(1, (a, x)),)),))
    ...     return If(call("<>", x, Const(0)), (Loop("r", (), ((0, k),), ((field, a),), (add,)),))
    >>> print("\\n".join(show_block(fuse_guards((line("x", "n"), line("y", "s"))))))
    if x <> 0 or y <> 0:
      for r[*k] -> n: r_n, s: r_s:
        t[k] += n: r_n*x, s: r_s*y
    """
    fused: list[Op] = []
    for op in block:
        if isinstance(op, If | Loop | Gather | Total):
            op = replace(op, body=fuse_guards(op.body))
        if isinstance(op, If) and _only_guards(op):
            for i, other in enumerate(fused):
                if isinstance(other, If) and (both := _together(other, op)) is not None:
                    fused[i] = both
                    break
            else:
                fused.append(op)
        else:
            fused.append(op)
    return tuple(fused)


def _together(a: If, b: If) -> If | None:
    body = merged(a.body, b.body) if _only_guards(a) else None
    return None if body is None else If(call("or", a.condition, b.condition), body)


def _only_guards(op: If) -> bool:
    """Does the body nothing but add products, each with a factor that the condition finds to be not 0?"""
    guards = _guards(op.condition)
    added = [inner for inner in operations(op.body) if isinstance(inner, Add)]
    return bool(guards and added) and all(
        any(factor in guards for factor in product.factors)
        for add in added
        for _, amount in add.amounts
        for product in amount
    )


def _guards(condition: Scalar) -> tuple[Var, ...]:
    match condition:
        case Call("<>", (Var() as x, Const(0))):
            return (x,)
        case Call("or", parts):
            each = [_guards(part) for part in parts]
            return tuple(x for guards in each for x in guards) if all(each) else ()
        case _:
            return ()


def merged(a: Block, b: Block, *, sums: bool = False) -> Block | None:
    """One block for both, if they differ only in what they read of the same places and add to them.

    With ``sums`` they may add up different things: for blocks that run one whenever the other does, since a
    sum can fail.
    """
    if len(a) != len(b):
        return None
    both = [_both(x, y, sums) for x, y in zip(a, b, strict=True)]
    return None if None in both else tuple(op for op in both if op is not None)


def _both(x: Op, y: Op, sums: bool) -> Op | None:
    match x, y:
        case Loop(), Loop() if (x.record, x.bound, x.binds) == (y.record, y.bound, y.binds):
            body = merged(x.body, y.body, sums=sums)
            return None if body is None else replace(x, reads=_reads(x.reads, y.reads), body=body)
        case If(), If() if x.condition == y.condition:
            body = merged(x.body, y.body, sums=sums)
            return None if body is None else replace(x, body=body)
        case Get(), Get() if (x.record, x.keys, x.found) == (y.record, y.keys, y.found):
            return replace(x, reads=_reads(x.reads, y.reads))
        case Span(), Span() if _same_way(x, y):
            scans = {scan.vars: scan for scan in (*x.scans, *y.scans)}
            return replace(x, reads=_reads(x.reads, y.reads), scans=tuple(scans.values()))
        case Add(), Add() if replace(x, amounts=()) == replace(y, amounts=()):
            amounts = dict(x.amounts)
            for name, amount in y.amounts:
                amounts[name] = (*amounts.get(name, ()), *amount)
            return replace(x, amounts=tuple(amounts.items()))
        case Total(), Total() if sums and x.vars != y.vars:
            body = merged(x.body, y.body, sums=sums)
            return None if body is None else Total((*x.vars, *y.vars), body)
        case Yield(), Yield() if sums:
            return Yield((*x.amounts, *y.amounts))
        case _:
            return x if x == y else None


def _same_way(x: Span, y: Span) -> bool:
    """Are they between the same edges, and scanned instead or not?"""
    ways = [(span.along, span.start, span.stop, span.needs, bool(span.scans)) for span in (x, y)]
    return ways[0] == ways[1]


def _reads(a: tuple[Read, ...], b: tuple[Read, ...]) -> tuple[Read, ...]:
    known: Mapping[str, Var] = dict(a)
    assert all(known.get(name, var) == var for name, var in b), "one variable stands for one thing"
    return (*a, *(read for read in b if read not in a))
