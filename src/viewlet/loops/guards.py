"""Which sums are watched, so that no row that cannot be published goes unnoticed.

A total may leave the type of its column: ``sum(volume)`` beyond BIGINT. The batch that brings this about must
be refused, without reading every row of every view after every batch. So each view gets a number of digits:
while the sums that it reads have no more, computing its rows cannot fail. A trigger that carries a sum beyond
them raises a flag, and only then are the rows computed, to see. Views for which no number of digits is enough
(they divide by a sum, say) are computed after every batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import product

from viewlet.core.scalar import Scalar, Var, substitute
from viewlet.core.types import Kind, Type
from viewlet.loops.nodes import (
    Amount,
    Best,
    Bind,
    Block,
    Check,
    Emit,
    Get,
    If,
    Loop,
    LoopProgram,
    Offer,
    Op,
    Peak,
    Pending,
    Product,
    Seek,
    Span,
    Total,
    Turn,
    ViewLoops,
    Visit,
    Yield,
    operations,
)
from viewlet.loops.ranges import I64, I128, can_fail, interval, type_interval, within

DIGITS = (36, 30, 24, 18, 15, 12, 9)
FLOAT_DIGITS = 300
ENTRIES = 1 << 40
"""A sum over entries of a record is taken over no more than this many."""


def guard_sums(program: LoopProgram) -> LoopProgram:
    """Say for every view when its rows must be checked, and for every sum when that could be."""
    limits: dict[tuple[str, str], int] = {}
    views = {}
    for name, view in program.views.items():
        check, own = _guards(view)
        views[name] = replace(view, check=check)
        for at, digits in own.items():
            limits[at] = min(digits, limits.get(at, digits))
    records = {
        name: replace(
            record, fields=tuple(replace(f, guard=limits.get((name, f.name))) for f in record.fields)
        )
        for name, record in program.records.items()
    }
    return replace(program, records=records, views=views)


def _guards(view: ViewLoops) -> tuple[Check, dict[tuple[str, str], int]]:
    """When a view must be checked, and the digits of the sums that it reads up to which it need not be."""
    reads = {
        var: (op.record, field)
        for op in operations(view.body)
        if isinstance(op, Get | Loop)
        for field, var in op.reads
    }
    floating = {at: FLOAT_DIGITS for var, at in reads.items() if var.type.is_floating}
    if not _fails(view.body, {}):
        return ("guarded" if floating else "never"), floating
    wide = [var for var in reads if not within(type_interval(var.type), I64)]
    for digits, watched in product(DIGITS, (wide, [*reads])):
        exact = (var for var in watched if var.type.is_exact)
        narrow = {var: digits for var in exact if _narrow(var, digits) is not None}
        if not _fails(view.body, _narrowed(narrow)):
            return "guarded", floating | {reads[var]: most for var, most in _relaxed(view, narrow).items()}
    return "always", {}


def _relaxed(view: ViewLoops, narrow: dict[Var, int]) -> dict[Var, int]:
    """The same with as many digits for each variable as its own uses allow, or with none to watch."""
    for var, digits in narrow.items():
        others = {other: most for other, most in narrow.items() if other != var}
        wider = (others, *(others | {var: more} for more in DIGITS if more > digits))
        narrow = next((each for each in wider if not _fails(view.body, _narrowed(each))), narrow)
    return narrow


def _narrowed(digits: Mapping[Var, int]) -> dict[str, Scalar]:
    """Variables by name, as narrow as their digits."""
    return {var.name: small for var, most in digits.items() if (small := _narrow(var, most)) is not None}


def _narrow(var: Var, digits: int) -> Var | None:
    """The variable with that many digits, if it could have more."""
    kind = Type(Kind.DECIMAL, digits, var.type.scale)
    if within(type_interval(var.type), type_interval(kind)):
        return None
    return Var(var.name, kind, var.nullable)


def _fails(body: Block, narrow: Mapping[str, Scalar]) -> bool:
    """Can computing the rows fail, with variables as narrow as given?"""
    return any(_operation_fails(op, narrow) for op in operations(body))


def _operation_fails(op: Op, narrow: Mapping[str, Scalar]) -> bool:
    match op:
        case Bind(_, scalar) | If(scalar) | Offer(scalar):
            return can_fail(substitute(scalar, narrow))
        case Emit(row, amount):
            rows = any(can_fail(substitute(scalar, narrow)) for scalar in row)
            return rows or _amount_fails(amount, narrow, I64[1])
        case Yield(amounts):
            return any(_amount_fails(amount, narrow, I128[1] // ENTRIES) for amount in amounts)
        case Seek(conditions=conditions):
            return any(can_fail(substitute(condition, narrow)) for condition in conditions)
        case Get() | Loop() | Total() | Best() | Pending() | Turn() | Span() | Peak() | Visit():
            return False
        case _:  # nothing else is known to be safe
            return True


def _amount_fails(amount: Amount, narrow: Mapping[str, Scalar], room: int) -> bool:
    return any(_product_fails(term, narrow, room) for term in amount)


def _product_fails(term: Product, narrow: Mapping[str, Scalar], room: int) -> bool:
    largest = abs(term.coefficient)
    for factor in _factors(term, narrow):
        if can_fail(factor):
            return True
        if not factor.type.is_floating:
            largest *= max(map(abs, interval(factor)))
    # One factor is at most a sum that was added up without overflow.
    return len(term.factors) > 1 and largest > room


def _factors(term: Product, narrow: Mapping[str, Scalar]) -> Iterator[Scalar]:
    return (substitute(factor, narrow) for factor in term.factors)
