"""Ordered indexes in C: their types, and what the state of a program holds for them.

An ordered index is a tree of ``ordered_tree.h``; where it is apart for some key columns, one tree for each of
their values, found through a hash table. Trees of sums hear of every change of an entry. The others only have
to know which entries there are, so they hear when one comes or goes. A tree of best values is ordered by two
keys at once, that of the axis and the value itself: every entry has a place of its own in it, and a deletion
uncovers the next best.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from viewlet.backends.native.flags import take_flags
from viewlet.backends.native.forms import Form, Writer, field_form, form_of, stored_form
from viewlet.loops.nodes import Axis, Order, Point, Record

if TYPE_CHECKING:
    from viewlet.backends.native.storage import CRecord


@dataclass(frozen=True, slots=True)
class COrder:
    """An ordered index with its C name; ``r3o0`` is the tree on the first order of ``r3``."""

    name: str
    record: Record
    order: Order

    @property
    def axis(self) -> Axis:
        """What it is ordered by."""
        return self.order.axis

    @property
    def tree(self) -> str:
        """The type of its tree, beside which a dense order has an array."""
        return f"{self.name}_tree" if self.order.dense else self.name

    @property
    def sliced(self) -> bool:
        """Is there a tree for each value of some other key columns?"""
        return bool(self.axis.by)

    @property
    def fields(self) -> list[tuple[int, Form]]:
        """The fields that it sums, by their numbers in the record; of DOUBLE in units of a grid."""
        named = enumerate(self.record.fields)
        return [(i, field_form(f.type)) for i, f in named if f.name in self.order.fields]

    def whole(self, record: str, tree: str) -> str:
        """The sums over all entries; of a single tree they are at hand."""
        return f"{self.name}_total(a, {tree})" if self.sliced else f"s->{record}.{self.name}_all"

    def point(self, record: str, point: Point) -> str | None:
        """Where searches of a kind begin, if they remember."""
        known = self.order.points
        return f"s->{record}.{self.name}_points[{known.index(point)}]" if point in known else None

    @property
    def is_text(self) -> bool:
        """Is it ordered by text, whose ids do not tell the order?"""
        return form_of(self.record.keys[self.axis.position].type) is Form.TEXT

    @property
    def is_pair(self) -> bool:
        """Is it ordered by two keys?"""
        return self.axis.of is not None

    def key(self, entry: str) -> str:
        """The key of an entry in the tree."""
        at = self._key_at(self.axis.position, entry)
        return at if self.axis.of is None else f"ord_key_of_pair({at}, {self._key_at(self.axis.of, entry)})"

    def best(self, entry: str) -> str:
        """What the tree keeps the greatest of."""
        assert self.axis.of is not None
        key = self._key_at(self.axis.of, entry)
        return key if self.axis.holds == "max" else f"~{key}"

    def _key_at(self, position: int, entry: str) -> str:
        text = f"{entry}->key.k{position}"
        kind = stored_form(self.record.keys[position].type)[0]
        return f"ord_key_of_double({text})" if kind == "double" else f"(int64_t){text}" * self.is_pair or text

    def slice_key(self, key: str) -> str:
        """The initializer of the key of a slice, from the address of a key of the record."""
        parts = [f".k{i} = {key}->k{i}" for i in self.axis.by]
        parts += take_flags(self.record, self.axis.by, f"{key}->")
        return f"{{{', '.join(parts)}}}"

    def member(self, field: str) -> str:
        """The C member of a field; the first 64-bit one takes the place of the count that every tree has."""
        number = next(i for i, f in enumerate(self.record.fields) if f.name == field)
        return self.member_of(number)

    def grid(self, field: str) -> str:
        """The grid of a DOUBLE field."""
        return f"grid_f{next(i for i, f in enumerate(self.record.fields) if f.name == field)}"

    def member_of(self, number: int) -> str:
        """The C member of the field of a number."""
        counted = next((i for i, form in self.fields if form is Form.I64), None)
        return "n" if number == counted else f"f{number}"


def orders_of(at: CRecord) -> list[COrder]:
    """The ordered indexes of a record."""
    return [COrder(f"{at.name}o{i}", at.record, order) for i, order in enumerate(at.record.orders)]


def order_at(at: CRecord, axis: Axis) -> COrder:
    """The ordered index along an axis."""
    return next(order for order in orders_of(at) if order.axis == axis)


def sums_of(at: CRecord) -> list[COrder]:
    """The ordered indexes that hear of every change."""
    return [order for order in orders_of(at) if order.axis.holds == "sums"]


def presences_of(at: CRecord) -> list[COrder]:
    """The ordered indexes that hear of entries that come or go."""
    return [order for order in orders_of(at) if order.axis.holds != "sums"]


def gridded(record: Record) -> list[int]:
    """The DOUBLE fields that ordered indexes sum, by their numbers."""
    summed = {name for order in record.orders for name in order.fields}
    return [i for i, f in enumerate(record.fields) if f.name in summed and f.type.is_floating]


def is_noted(record: Record) -> bool:
    """Does anything beside the entry itself have to know when an entry changes?"""
    return bool(record.signed) or any(order.axis.holds == "sums" for order in record.orders)


def noted_fields(record: Record) -> list[int]:
    """The fields whose changes have to be known, by their numbers."""
    names = {*record.signed, *(name for order in record.orders for name in order.fields)}
    return [i for i, field in enumerate(record.fields) if field.name in names]


def signed_fields(record: Record) -> list[int]:
    """The fields whose negative entries are counted, by their numbers."""
    return [i for i, field in enumerate(record.fields) if field.name in record.signed]


# Declarations


def write_orders(out: Writer, at: CRecord, write_key: Callable[[str, Sequence[int]], None]) -> None:
    """The types of a record's ordered indexes; ``write_key`` declares a key of some columns."""
    if gridded(at.record):
        out.line('#include "grid.h"')
    for order in orders_of(at):
        name = order.name
        summed = [(i, form) for i, form in order.fields if order.member_of(i) != "n"]
        types = {Form.I64: "int64_t", Form.I128: "ord_i128", Form.PAIR: "ord_i128"}
        fields = " ".join(f"F({types[form]}, {order.member_of(i)}, sum)" for i, form in summed)
        kind = "SUMS" if order.order.dense else "ORD"
        out.line(f"#define {kind}_NAME {name}")
        out.line(f"#define {kind}_FIELDS(F) {'F(int64_t, best, max)' if order.is_pair else fields}")
        if order.is_pair or form_of(at.record.keys[order.axis.position].type) is Form.I128:
            out.line("#define ORD_KEY_INT128")
        if order.is_text:
            out.line("#define ORD_KEY_TEXT")
        if order.sliced:
            slots = 32 if order.axis.holds == "sums" else 6  # most slices hold an entry or two
            out.line(f"#define {kind}_LEAF {slots}")
        if order.order.marked:
            out.line("#define SUMS_MARKS")
        out.line(f'#include "ordered_{"sums" if order.order.dense else "tree"}.h"')
        with out.block("typedef struct"):
            out.line("bool known, after;")
            out.line("int8_t side; /* before all keys, at or after the key, after all keys */")
            out.line(f"{name}_key key;")
            out.line(f"{name}_rec before;")
        out.lines[-1] += f" {name}_edge;"
        if order.order.points:
            with out.block("typedef struct"):
                out.line("bool known, placed; /* is there a point, and an entry at it, which has `own`? */")
                out.line(f"{name}_key key;")
                out.line(f"{name}_rec before, own;")
            out.lines[-1] += f" {name}_point;"
        if order.sliced:
            write_key(f"{name}s", order.axis.by)
            out.line(f"typedef struct {{ {name}s_key key; {name} tree; uint32_t id; }} {name}s_record;")
            out.line(f"#define VL_MAP {name}s")
            size = f"{name}_size(&(r)->tree)" if order.order.dense else "(r)->tree.size"
            out.line(f"#define VL_MAP_EMPTY(r) ({size} == 0)")
            out.line('#include "map_pooled.h"')


def order_members(at: CRecord) -> list[tuple[str, str, int]]:
    """What the state of a record holds for its ordered indexes and counts of negative entries."""
    found = [("vl_map_pooled" if order.sliced else order.name, order.name, 0) for order in orders_of(at)]
    found += [(f"{order.name}_rec", f"{order.name}_all", 0) for order in sums_of(at) if not order.sliced]
    found += [
        (f"{order.name}_point", f"{order.name}_points[{len(order.order.points)}]", 0)
        for order in orders_of(at)
        if order.order.points
    ]
    if at.record.orders:
        found.append(("uint64_t", "ordered_bytes", 0))
    found += [("uint64_t", f"negative_f{i}", 0) for i in signed_fields(at.record)]
    found += [("vl_grid", f"grid_f{i}", 0) for i in gridded(at.record)]
    if is_noted(at.record):
        found.append((f"{at.name}_record", "seen", 0))
    if any(order.whole for order in at.record.orders):
        found += [(f"{at.name}_record", "touched", 0), (f"{at.name}_record", "shown", 0)]
    return found


def write_keep(out: Writer, at: CRecord) -> None:
    """``r3_keep``: strings by which ordered indexes are searched stay, if only there."""
    with out.block(f"VL_COLD void {at.name}_keep(vl_instance *x)"):
        out.line("vl_arena *const a = &x->arena;")
        out.line("program_state *const s = x->state;")
        for order in orders_of(at):
            held, name = f"s->{at.name}.{order.name}", order.name
            if not order.is_text:
                continue
            if not order.sliced:
                out.line(f"{name}_keep(a, {held}.root, {held}.height);")
                continue
            following = f"{name}s_next(a, &{held}, p)"
            with out.block(
                f"for (const {name}s_record *p = {name}s_next(a, &{held}, NULL); p; p = {following})"
            ):
                out.line(f"{name}_keep(a, p->tree.root, p->tree.height);")


def keeps(at: CRecord) -> bool:
    """Has it ordered indexes by text?"""
    return any(order.is_text for order in orders_of(at))


def init_orders(out: Writer, at: CRecord) -> None:
    """Make a record's ordered indexes; a tree alone is empty when it is zeros."""
    for order in orders_of(at):
        if order.sliced:
            out.line(f"if (!{order.name}s_init(a, &s->{at.name}.{order.name})) return false;")
