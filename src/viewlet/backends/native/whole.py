"""Records whose ordered index holds their entries; the map beside it has those with NULL along the order.

An entry that is touched is a copy in the state, with its key and zeros. Amounts are added to it, then
``r3_changed`` adds them to the index and makes the copy what the index holds. Scans that stand in for sums
along the index go through it entry by entry, each in a copy of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from viewlet.backends.native.flags import masks
from viewlet.backends.native.forms import Writer
from viewlet.backends.native.orders import COrder, orders_of

if TYPE_CHECKING:
    from viewlet.backends.native.storage import CRecord


def whole_order(at: CRecord) -> COrder | None:
    """The ordered index that holds the entries of a record, if one does."""
    return next((order for order in orders_of(at) if order.order.whole), None)


def write_whole(out: Writer, at: CRecord, order: COrder) -> None:
    """How entries are touched and left, loaded, and shown one after the other."""
    name, axis, tree = at.name, order.axis, order.name
    store, entry, key = f"{name}_store", f"{name}_record", f"k{axis.position}"
    map_ = f"vl_map_{'pooled' if at.pooled else 'inplace'}"
    with out.block(f"VL_INLINE {entry} *{name}_touch(vl_arena *a, {map_} *m, const {name}_key *k)"):
        out.line("(void)a;")
        for member, mask in masks(at.record, [axis.position]).items():
            out.line(f"if (VL_UNLIKELY(k->{member} & {mask:#x})) return {name}_upsert(a, m, k);")
        out.line(f"{entry} *e = &(({store} *)m)->touched;")
        out.line(f"*e = ({entry}){{.key = *k}};")
        out.line("return e;")
    with out.block(f"VL_INLINE void {name}_leave(vl_arena *a, {map_} *m, {entry} *r)"):
        out.line(f"if (VL_UNLIKELY(r != &(({store} *)m)->touched)) {name}_settle(a, m, r);")
    head = f"VL_FUNCTION const {tree} *{name}_tree(const vl_arena *a, const {store} *m, const {name}_key *k)"
    with out.block(head):
        out.line("(void)a, (void)k;")
        if order.sliced:
            out.line(f"const {tree}s_key key = {order.slice_key('k')};")
            out.line(f"const {tree}s_record *slice = {tree}s_find(a, &m->{tree}, &key);")
            out.line("return slice ? &slice->tree : NULL;")
        else:
            out.line(f"return &m->{tree};")
    with out.block(f"VL_FUNCTION void {name}_load(const vl_arena *a, const {store} *m, {entry} *e)"):
        out.line(f"const {tree} *tree = {name}_tree(a, m, &e->key);")
        out.line(f"{tree}_rec own = {tree}_none();")
        out.line(f"if (tree) {tree}_get(a, tree, e->key.{key}, &own);")
        _take(out, order)
    with out.block(
        f"VL_FUNCTION bool {name}_step(const vl_arena *a, const {tree} *tree, {entry} *e, bool begun)"
    ):
        out.line(f"{tree}_rec own;")
        out.line(f"const {tree}_key from = e->key.{key};")
        out.line(f"{tree}_key at;")
        out.line(f"if (!{tree}_following(a, tree, begun ? &from : NULL, &at, &own)) return false;")
        out.line(f"e->key.{key} = at;")
        _take(out, order)
        out.line("return true;")
    _write_scan(out, at, order)
    _write_count(out, at, order)


def _take(out: Writer, order: COrder) -> None:
    """The fields of an entry as the index has them."""
    for i, _ in order.fields:
        out.line(f"e->f{i} = own.{order.member_of(i)};")


def _write_scan(out: Writer, at: CRecord, order: COrder) -> None:
    """``r3_in``: the entry after one among those whose other keys are those of ``own``; NULL is the first."""
    name = at.name
    entry = f"{name}_record"
    given = f"const vl_arena *a, const {name}_store *m, const {entry} *e, {entry} *own"
    with out.block(f"VL_FUNCTION const {entry} *{name}_in({given})"):
        for member, mask in masks(at.record, [order.axis.position]).items():
            with out.block("if (!e)"):
                out.line(f"{name}_key unknown = own->key;")
                out.line(f"unknown.k{order.axis.position} = 0;")
                out.line(f"unknown.{member} |= {mask:#x};")
                out.line(f"if ((e = {name}_find(a, &m->map, &unknown))) return e;")
        out.line(f"const {order.name} *tree = {name}_tree(a, m, &own->key);")
        out.line(f"return tree && {name}_step(a, tree, own, e == own) ? own : NULL;")


def _write_count(out: Writer, at: CRecord, order: COrder) -> None:
    size = f"{order.name}_size({{}})" if order.order.dense else "({})->size"
    head = f"VL_FUNCTION uint64_t {at.name}_held(const vl_arena *a, const {at.name}_store *m)"
    with out.block(head):
        out.line("(void)a;")
        if not order.sliced:
            out.line(f"return {size.format(f'&m->{order.name}')};")
            return
        out.line("uint64_t held = 0;")
        slices = f"{order.name}s_next(a, &m->{order.name}, {{}})"
        loop = f"const {order.name}s_record *e = {slices.format('NULL')}; e; e = {slices.format('e')}"
        out.line(f"for ({loop}) held += {size.format('&e->tree')};")
        out.line("return held;")


def write_shown(out: Writer, at: CRecord, order: COrder) -> None:
    """What the description of a record needs: its entries along the index, and their number."""
    name, tree = at.name, order.name
    with out.block(f"VL_COLD const void *{name}_following(const vl_instance *x, const void *entry)"):
        out.line("const vl_arena *const a = &x->arena;")
        out.line(f"{name}_store *const m = &((program_state *)x->state)->{name};")
        out.line(f"{name}_record *const e = &m->shown;")
        out.line("if (!entry) memset(e, 0, sizeof *e);")
        if not order.sliced:
            out.line(f"return {name}_step(a, &m->{tree}, e, entry != NULL) ? e : NULL;")
        else:
            out.line(f"const {tree}s_record *slice = NULL;")
            with out.block("if (entry)"):
                out.line(f"const {tree}s_key key = {order.slice_key('(&e->key)')};")
                out.line(f"slice = {tree}s_find(a, &m->{tree}, &key);")
                out.line(f"if (slice && {name}_step(a, &slice->tree, e, true)) return e;")
            with out.block(f"while ((slice = {tree}s_next(a, &m->{tree}, slice)))"):
                for i in order.axis.by:
                    out.line(f"e->key.k{i} = slice->key.k{i};")
                for member in masks(at.record, order.axis.by):
                    out.line(f"e->key.{member} = slice->key.{member};")
                out.line(f"if ({name}_step(a, &slice->tree, e, false)) return e;")
            out.line("return NULL;")
    with out.block(f"VL_COLD uint64_t {name}_ordered_count(const vl_instance *x)"):
        out.line(f"return {name}_held(&x->arena, &((program_state *)x->state)->{name});")
