"""Which sums are watched, so that no row that cannot be published goes unnoticed.

A total may leave the type of its column: ``sum(volume)`` beyond BIGINT. The batch that brings this about must
be refused, without reading every row of every view after every batch. So each view gets a number of digits:
while the sums that it reads have no more, computing its rows cannot fail. A trigger that carries a sum beyond
them raises a flag, and only then are the rows computed, to see. Views for which no number of digits is enough
(they divide by a sum, say) are computed after every batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import TypeAlias

from viewlet.core.node import walk
from viewlet.core.scalar import Scalar, Var, substitute
from viewlet.core.types import Kind, Type
from viewlet.loops.nodes import (
    Best,
    Bind,
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

Fails: TypeAlias = Callable[[Mapping[str, Scalar]], bool]
"""Can something fail where variables are so narrow?"""


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
    risks = [risk for op in operations(view.body) for risk in _risks(op)]
    if not _fail(risks, {}):
        return ("guarded" if floating else "never"), floating
    wide = [var for var in reads if not within(type_interval(var.type), I64)]
    for digits, watched in product(DIGITS, (wide, [*reads])):
        exact = (var for var in watched if var.type.is_exact)
        narrow = {var: digits for var in exact if _narrow(var, digits) is not None}
        if not _fail(risks, _narrowed(narrow)):
            return "guarded", floating | {reads[var]: most for var, most in _relaxed(risks, narrow).items()}
    return "always", {}


def _relaxed(risks: Iterable[_Risk], narrow: dict[Var, int]) -> dict[Var, int]:
    """The same with as many digits for each variable as its own uses allow, or with none to watch.

    What does not read the variable did not fail before, so it does not now: only what reads it is looked at.
    """
    uses: dict[str, list[_Risk]] = {}
    for risk in risks:
        for name in risk.reads:
            uses.setdefault(name, []).append(risk)
    known, kept = _narrowed(narrow), dict(narrow)
    for var, digits in narrow.items():
        own = uses.get(var.name, [])
        for more in (None, *(more for more in DIGITS if more > digits)):
            small = None if more is None else _narrow(var, more)
            wider = {read: known[read] for risk in own for read in risk.reads if read in known}
            wider.pop(var.name, None)
            if small is not None:
                wider[var.name] = small
            if _fail(own, wider):
                continue
            known.pop(var.name, None)
            del kept[var]
            if more is not None:
                kept[var] = more
            if small is not None:
                known[var.name] = small
            break
    return kept


def _narrowed(digits: Mapping[Var, int]) -> dict[str, Scalar]:
    """Variables by name, as narrow as their digits."""
    return {var.name: small for var, most in digits.items() if (small := _narrow(var, most)) is not None}


def _narrow(var: Var, digits: int) -> Var | None:
    """The variable with that many digits, if it could have more."""
    kind = Type(Kind.DECIMAL, digits, var.type.scale)
    if within(type_interval(var.type), type_interval(kind)):
        return None
    return Var(var.name, kind, var.nullable)


@dataclass(frozen=True, slots=True)
class _Risk:
    """Something that is computed for a row: the names that it reads, and whether it can fail."""

    reads: frozenset[str]
    fails: Fails


def _fail(risks: Iterable[_Risk], narrow: Mapping[str, Scalar]) -> bool:
    """Can computing any of them fail, with variables as narrow as given?"""
    return any(risk.fails(narrow) for risk in risks)


def _risks(op: Op) -> Iterator[_Risk]:
    """What an operation computes."""
    match op:
        case Bind(_, scalar) | If(scalar) | Offer(scalar):
            yield _risk(_scalar_fails, scalar)
        case Emit(row, amount):
            yield from (_risk(_scalar_fails, scalar) for scalar in row)
            yield from (_risk(_product_fails, term, I64[1]) for term in amount)
        case Yield(amounts):
            yield from (_risk(_product_fails, t, I128[1] // ENTRIES) for amount in amounts for t in amount)
        case Seek(conditions=conditions):
            yield from (_risk(_scalar_fails, condition) for condition in conditions)
        case Get() | Loop() | Total() | Best() | Pending() | Turn() | Span() | Peak() | Visit():
            return
        case _:  # nothing else is known to be safe
            yield _Risk(frozenset(), lambda _: True)


def _risk(fails: Callable[..., bool], node: Scalar | Product, *given: int) -> _Risk:
    reads = frozenset({each.name for each in walk(node) if isinstance(each, Var)})
    return _Risk(reads, partial(fails, node, *given))


def _scalar_fails(scalar: Scalar, narrow: Mapping[str, Scalar]) -> bool:
    return can_fail(substitute(scalar, narrow))


def _product_fails(term: Product, room: int, narrow: Mapping[str, Scalar]) -> bool:
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
