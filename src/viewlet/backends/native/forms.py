"""How values look in C: forms of numbers and text, literals, and lines of source."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum

from viewlet.core.types import Kind, Type
from viewlet.loops.ranges import I64, Interval, type_interval, within


class Form(Enum):
    """The C type of a value in a trigger."""

    I64 = "int64_t"
    I128 = "vl_i128"
    F64 = "double"
    TEXT = "uint32_t"
    PAIR = "vl_pair"


@dataclass(frozen=True, slots=True)
class CValue:
    """A C expression without side effects; ``null`` says when it is NULL, ``None`` means never.

    ``limits`` bounds integers. The value behind a true ``null`` means nothing.
    """

    text: str
    form: Form
    null: str | None = None
    limits: Interval = I64


def form_of(kind: Type) -> Form:
    """The form of a variable of a type."""
    if kind.kind is Kind.VARCHAR:
        return Form.TEXT
    if kind.is_floating:
        return Form.F64
    return form_within(type_interval(kind))


def form_within(limits: Interval) -> Form:
    """The form of an integer with these limits."""
    return Form.I64 if within(limits, I64) else Form.I128


def stored_form(kind: Type) -> tuple[str, int]:
    """The C type of a key column in a record, and its size."""
    form = form_of(kind)
    if form is Form.I64 and within(type_interval(kind), (-(1 << 31), (1 << 31) - 1)):
        return "int32_t", 4
    return form.value, {Form.I64: 8, Form.F64: 8, Form.I128: 16}.get(form, 4)


def field_form(kind: Type) -> Form:
    """The form of a sum in a record."""
    return Form.PAIR if kind.is_floating else form_of(kind)


def cell_kind(kind: Type) -> str:
    """How a value of a type travels in a cell."""
    if kind.kind in (Kind.BOOLEAN, Kind.NULL):
        return "VL_BOOLEAN"
    if kind.kind is Kind.VARCHAR:
        return "VL_TEXT"
    if kind.is_floating:
        return "VL_DOUBLE"
    if kind.kind is Kind.DECIMAL:
        return "VL_DECIMAL"
    return "VL_INT64" if kind.kind in (Kind.BIGINT, Kind.TIMESTAMP) else "VL_INT32"


def integer(value: int) -> str:
    """An integer literal of any size up to 128 bits.

    >>> integer(-5), integer(-(1 << 63))
    ('INT64_C(-5)', '(-INT64_C(9223372036854775807) - 1)')
    """
    if value == I64[0]:
        return f"(-INT64_C({I64[1]}) - 1)"
    if within((value, value), I64):
        return f"INT64_C({value})"
    bits = value & ((1 << 128) - 1)
    return f"((vl_i128)((vl_u128)UINT64_C({bits >> 64:#x}) << 64 | UINT64_C({bits & (1 << 64) - 1:#x})))"


def number(value: float) -> str:
    """A DOUBLE literal, to the last bit."""
    return f"({float(value).hex()})"


@dataclass(slots=True)
class Writer:
    """Lines of C, indented by the blocks they are in; hands out names for temporaries."""

    lines: list[str] = field(default_factory=list)
    depth: int = 0
    counter: list[int] = field(default_factory=lambda: [0])
    capturing: int = 0

    def line(self, text: str) -> None:
        """One line."""
        self.lines.append("    " * self.depth + text)

    @contextmanager
    def block(self, head: str = "") -> Iterator[None]:
        """``head { .. }``"""
        self.line(f"{head} {{" if head else "{")
        self.depth += 1
        yield
        self.depth -= 1
        self.line("}")

    def fresh(self, stem: str = "t") -> str:
        """A name for a temporary. Only such names have ``_`` before a number, so they hide no parameter."""
        self.counter[0] += 1
        return f"{stem}_{self.counter[0]}"

    @contextmanager
    def captured(self) -> Iterator[list[str]]:
        """Collect the lines written meanwhile instead of keeping them."""
        kept, self.lines = self.lines, []
        captured = self.lines
        self.capturing += 1
        try:
            yield captured
        finally:
            self.lines = kept
            self.capturing -= 1


def either(*nulls: str | None) -> str | None:
    """The condition that one of several conditions holds."""
    known = [null for null in dict.fromkeys(nulls) if null is not None]
    if not known:
        return None
    return known[0] if len(known) == 1 else f"({' || '.join(known)})"
