"""Ordered indexes in C: their types, and how they follow the entries of their record.

An ordered index is a tree of ``ordered_tree.h``; where it is apart for some key columns, one tree for each of
their values, found through a hash table. Trees of sums hear of every change of an entry. The others only have
to know which entries there are, so they hear when one comes or goes. A tree of best values is ordered by two
keys at once, that of the axis and the value itself: every entry has a place of its own in it, and a deletion
uncovers the next best.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

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

    @property
    def slice_mask(self) -> int:
        """The bits of the NULL flags of the columns by which it is apart."""
        return sum(1 << i for i in self.axis.by if self.record.keys[i].nullable)

    def slice_key(self, key: str) -> str:
        """The initializer of the key of a slice, from the address of a key of the record."""
        parts = [f".k{i} = {key}->k{i}" for i in self.axis.by]
        if self.slice_mask:
            parts.append(f".nulls = {key}->nulls & {self.slice_mask:#x}")
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
    found += [("uint64_t", f"negative_f{i}", 0) for i in _signed(at.record)]
    found += [("vl_grid", f"grid_f{i}", 0) for i in gridded(at.record)]
    if is_noted(at.record):
        found.append((f"{at.name}_record", "seen", 0))
    if any(order.whole for order in at.record.orders):
        found += [(f"{at.name}_record", "touched", 0), (f"{at.name}_record", "shown", 0)]
    return found


def _signed(record: Record) -> list[int]:
    return [i for i, field in enumerate(record.fields) if field.name in record.signed]


def write_note(out: Writer, at: CRecord) -> None:
    """``r3_changed``: an entry has changed by some amounts, and holds the new sums, or takes them over.

    Of a DOUBLE field the amount is told by what the entry had: sums of pairs are not taken back exactly.
    """
    if not is_noted(at.record):
        return
    if not at.record.orders:  # nobody has brought the arithmetic of sums along
        out.line('#include "ordered_types.h"')
    name = at.name
    fields = noted_fields(at.record)
    pairs = {i for i in fields if at.record.fields[i].type.is_floating}
    amounts = "".join(
        f", vl_pair o{i}" if i in pairs else f", {field_form(at.record.fields[i].type).value} d{i}"
        for i in fields
    )
    whole = any(order.whole for order in at.record.orders)
    entry = f"{'' if whole else 'const '}{name}_record *r"
    if gridded(at.record):
        _write_grids(out, at, entry)
    head = f"VL_FUNCTION void {name}_changed(vl_arena *a, {name}_store *m, {entry}{amounts})"
    with out.block(head):
        out.line("(void)a;")
        if gridded(at.record):
            for i in gridded(at.record):
                out.line(f"const ord_i128 d{i} = vl_grid_moved(&m->grid_f{i}, o{i}, r->f{i});")
            out.line(f"{name}_summed(a, m, r, {', '.join(f'd{i}' for i in _summed(at.record))});")
        else:
            _write_sums(out, at)
        for i in _signed(at.record):
            new, old = (
                (f"r->f{i}.high", f"o{i}.high") if i in pairs else (f"r->f{i}", f"ORD_MINUS(r->f{i}, d{i})")
            )
            out.line(f"m->negative_f{i} += (uint64_t)({new} < 0) - (uint64_t)({old} < 0);")
        for i in gridded(at.record):
            test = f"VL_UNLIKELY(m->grid_f{i}.outside) && vl_grid_asks(&m->grid_f{i})"
            out.line(f"if ({test}) {name}_regrid_f{i}(a, m);")
    changed = ", ".join(
        f"m->seen.f{i}" if i in pairs else f"ORD_MINUS(r->f{i}, m->seen.f{i})" for i in fields
    )
    head = f"VL_COLD void {name}_replaced(vl_arena *a, {name}_store *m, {entry})"
    out.line(f"{head} {{ {name}_changed(a, m, r, {changed}); }}")


def _summed(record: Record) -> list[int]:
    """The fields that ordered indexes sum, by their numbers."""
    names = {name for order in record.orders for name in order.fields}
    return [i for i, field in enumerate(record.fields) if field.name in names]


def _write_sums(out: Writer, at: CRecord) -> None:
    """All indexes of sums hear of the amounts."""
    for order in sums_of(at):
        tests = [" || ".join(f"d{i} != 0" for i, _ in order.fields)]
        change = ", ".join(f".{order.member_of(i)} = d{i}" for i, _ in order.fields)
        _write_order_add(out, order, tests, change)


def _write_grids(out: Writer, at: CRecord, entry: str) -> None:
    """``r3_summed``: indexes hear of amounts in units. ``r3_regrid_f2``: a unit for all entries of a field.

    If there is one, they are taken out of the indexes in the old unit, and put back in the new one.
    """
    name, summed = at.name, _summed(at.record)
    forms = {Form.I64: "int64_t", Form.I128: "ord_i128", Form.PAIR: "ord_i128"}
    amounts = ", ".join(f"{forms[field_form(at.record.fields[i].type)]} d{i}" for i in summed)
    with out.block(f"VL_FUNCTION void {name}_summed(vl_arena *a, {name}_store *m, {entry}, {amounts})"):
        _write_sums(out, at)
    following = f"{name}_next(a, &m->map, ({name}_record *)r)"
    entries = f"const {name}_record *r = {name}_next(a, &m->map, NULL); r; r = {following}"
    for i in gridded(at.record):
        with out.block(f"VL_COLD void {name}_regrid_f{i}(vl_arena *a, {name}_store *m)"):
            out.line("vl_extent extent = {0};")
            out.line("vl_grid grid;")
            out.line(f"for ({entries}) vl_extent_take_pair(&extent, r->f{i});")
            out.line("if (!vl_grid_over(extent, &grid)) return;")
            out_of, into = (
                ", ".join(f"{sign}vl_grid_units(&m->grid_f{i}, r->f{i})" if j == i else "0" for j in summed)
                for sign in ("-", "")
            )
            out.line(f"for ({entries}) {name}_summed(a, m, r, {out_of});")
            out.line(f"m->grid_f{i} = grid;")
            out.line(f"for ({entries}) {name}_summed(a, m, r, {into});")


def write_presences(out: Writer, at: CRecord) -> None:
    """``r3_present``: an entry has come (1) or is about to go (-1)."""
    if not presences_of(at):
        return
    name = at.name
    head = f"VL_FUNCTION void {name}_present(vl_arena *a, {name}_store *m, const {name}_record *r, int64_t n)"
    with out.block(head):
        for order in presences_of(at):
            best = f", .best = {order.best('r')}" if order.is_pair else ""
            _write_order_add(out, order, [], f".n = n{best}")


def _write_order_add(out: Writer, order: COrder, tests: Sequence[str], change: str) -> None:
    """Change the sums or the count at the key of an entry; NULL keys are in no order."""
    record, axis, name = order.record, order.axis, order.name
    nulls = [i for i in (axis.position, axis.of) if i is not None and record.keys[i].nullable]
    tests = [*tests, *(f"!(r->key.nulls >> {i} & 1)" for i in nulls)]
    with out.block(f"if ({' && '.join(f'({test})' for test in tests)})" if tests else ""):
        tree = f"&m->{name}"
        slices = f"vl_map_pooled_bytes(&m->{name})"
        if order.sliced:
            out.line(f"m->ordered_bytes -= {slices};")
            out.line(f"const {name}s_key key = {order.slice_key('(&r->key)')};")
            out.line(f"{name}s_record *slice = {name}s_upsert(a, &m->{name}, &key);")
            tree = "&slice->tree"
        out.line(f"{name} *tree = {tree};")
        held = f"{name}_bytes(tree)" if order.order.dense else "tree->account.bytes"
        out.line(f"const uint64_t bytes = {held};")
        out.line(f"const {name}_rec change = {{{change}}};")
        old = "&old" if order.order.whole else "NULL"
        if order.order.whole:
            out.line(f"{name}_rec old;")
        out.line(f"{name}_add(a, tree, {order.key('r')}, &change, {old});")
        if order.order.whole:
            _write_taken(out, order)
        out.line(f"m->ordered_bytes += {held} - bytes;")
        _write_bounds(out, order)
        for i, point in enumerate(order.order.points):
            _write_pass(out, order, f"m->{name}_points[{i}]", point)
        if not order.sliced and axis.holds == "sums":
            out.line(f"{name}_join(&m->{name}_all, &change);")
        if order.sliced:
            out.line(f"{name}s_settle(a, &m->{name}, slice);")
            out.line(f"m->ordered_bytes += {slices};")


def _write_taken(out: Writer, order: COrder) -> None:
    """The entry becomes what the index that holds it has now."""
    for i, form in order.fields:
        out.line(f"r->f{i} = old.{order.member_of(i)};")
        into = "vl_i64_into" if form is Form.I64 else "vl_i128_into"
        out.line(f"{into}(&r->f{i}, d{i}, &a->errors);")


def _write_bounds(out: Writer, order: COrder) -> None:
    """No sum of an entry may be so large that one over entries could wrap; in an array none can be."""
    wide = [i for i, form in order.fields if form is Form.I128] if order.axis.holds == "sums" else []
    if wide:
        with out.block("if (!tree->is_dense)" if order.order.dense else ""):
            for i in wide:
                out.line(f"a->errors |= vl_bit_if(vl_beyond_i128(r->f{i}, VL_ORDERED_MOST), VL_E_DECIMAL);")


def _write_pass(out: Writer, order: COrder, at: str, point: Point) -> None:
    """A change before a point that is remembered, or at it; without a jump, which could not be foreseen."""
    between, asked, *_, keeps = point
    members = list(dict.fromkeys(order.member(field) for field in (*(field for field, _ in asked), *keeps)))

    def follow(part: str, compared: str) -> None:
        with out.block():
            out.line(f"const int64_t mask = -(int64_t)({order.key('r')} {compared} {at}.key);")
            for member in members:
                change = f"change.{member} & mask"
                out.line(f"{at}.{part}.{member} = ORD_PLUS({at}.{part}.{member}, {change});")

    follow("before", "<")
    if between:  # an array has what lies at the point at hand
        if order.order.dense:
            out.line(f"{at}.placed &= !tree->is_dense;")
        with out.block(f"if ({at}.placed)"):
            follow("own", "==")


def note_change(out: Writer, at: CRecord, entry: str, amounts: Mapping[str, str]) -> None:
    """Tell that an entry has changed by amounts, given by C members: of a DOUBLE field what the entry had."""
    fields = noted_fields(at.record)
    if any(f"f{i}" in amounts for i in fields):
        kept = {i: f"{entry}->f{i}" for i in fields if at.record.fields[i].type.is_floating}
        changes = "".join(f", {amounts.get(f'f{i}', kept.get(i, '0'))}" for i in fields)
        out.line(f"{at.name}_changed(a, &s->{at.name}, {entry}{changes});")


def see(out: Writer, at: CRecord, entry: str) -> None:
    """Remember an entry before it is overwritten."""
    if is_noted(at.record):
        out.line(f"s->{at.name}.seen = *{entry};")


def note_seen(out: Writer, at: CRecord, entry: str) -> None:
    """Tell that the entry last seen has been overwritten."""
    if is_noted(at.record):
        out.line(f"{at.name}_replaced(a, &s->{at.name}, {entry});")


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
