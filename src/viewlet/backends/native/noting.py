"""How ordered indexes in C hear of changes: by calls when an entry changes, comes, or is about to go.

Indexes of sums are told the amounts of a change; the others, which entries there are. What is remembered of
an earlier search is kept up with them, and so are the counts of entries that are negative.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from viewlet.backends.native.flags import flag
from viewlet.backends.native.forms import Form, Writer, field_form
from viewlet.backends.native.orders import (
    COrder,
    gridded,
    is_noted,
    noted_fields,
    presences_of,
    signed_fields,
    sums_of,
)
from viewlet.loops.nodes import Point, Record

if TYPE_CHECKING:
    from viewlet.backends.native.storage import CRecord


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
        for i in signed_fields(at.record):
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
    tests = [*tests, *(f"!({flag(record, i, 'r->key.')})" for i in nulls)]
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
