"""Ordered indexes, edges and spans in C.

An ordered index is a tree of ``ordered_tree.h``; with further key columns, one tree for each of their values,
found through a hash table. The predicate of a search is compiled into the walk down the tree, where the sums
that it reads are local variables: nothing is called per key that is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING

from viewlet.backends.native.forms import CValue, Form, Writer, field_form, form_of, stored_form
from viewlet.core.node import walk
from viewlet.core.scalar import Call, Const, Scalar, Var
from viewlet.loops.nodes import Along, Limit, Order, Record, Seek, Span
from viewlet.loops.ranges import type_interval

if TYPE_CHECKING:
    from viewlet.backends.native.operations import Operations
    from viewlet.backends.native.storage import CRecord


STRIDE = 4
"""So many slots of a node are passed at once where the conditions allow it."""


@dataclass(frozen=True, slots=True)
class CEdge(CValue):
    """The variable of an edge, of the type ``kind``."""

    kind: str = ""


@dataclass(frozen=True, slots=True)
class COrder:
    """An ordered index with its C name; ``r3o0`` is the tree on the first order of ``r3``."""

    name: str
    record: Record
    order: Order

    @property
    def sliced(self) -> bool:
        """Is there a tree for each value of the other key columns?"""
        return len(self.record.keys) > 1

    @property
    def fields(self) -> list[tuple[int, Form]]:
        """The fields that it sums, by their numbers in the record."""
        named = enumerate(self.record.fields)
        return [(i, field_form(f.type)) for i, f in named if f.name in self.order.fields]

    def whole(self, record: str, tree: str) -> str:
        """The sums over all entries; of a single tree they are at hand."""
        return f"{self.name}_total(a, {tree})" if self.sliced else f"s->{record}.{self.name}_all"

    def member(self, field: str) -> str:
        """The C member of a field; the first 64-bit one takes the place of the count that every tree has."""
        number = next(i for i, f in enumerate(self.record.fields) if f.name == field)
        return self.member_of(number)

    def member_of(self, number: int) -> str:
        """The C member of the field of a number."""
        counted = next((i for i, form in self.fields if form is Form.I64), None)
        return "n" if number == counted else f"f{number}"


def orders_of(at: CRecord) -> list[COrder]:
    """The ordered indexes of a record."""
    return [COrder(f"{at.name}o{i}", at.record, order) for i, order in enumerate(at.record.orders)]


def order_at(at: CRecord, position: int) -> COrder:
    """The ordered index along a key column."""
    return next(order for order in orders_of(at) if order.order.position == position)


def is_noted(record: Record) -> bool:
    """Does anything beside the entry itself have to know when an entry changes?"""
    return bool(record.orders or record.signed)


def noted_fields(record: Record) -> list[int]:
    """The fields whose changes have to be known, by their numbers."""
    names = {*record.signed, *(name for order in record.orders for name in order.fields)}
    return [i for i, field in enumerate(record.fields) if field.name in names]


# Declarations


def write_orders(out: Writer, at: CRecord, write_key: Callable[[str, Sequence[int]], None]) -> None:
    """The types of a record's ordered indexes; ``write_key`` declares a key of some columns."""
    for order in orders_of(at):
        name = order.name
        out.line(f"#define ORD_NAME {name}")
        summed = [(i, form) for i, form in order.fields if order.member_of(i) != "n"]
        types = {Form.I64: "int64_t", Form.I128: "ord_i128"}
        fields = " ".join(f"F({types[form]}, {order.member_of(i)}, sum)" for i, form in summed)
        out.line(f"#define ORD_FIELDS(F) {fields}")
        if form_of(at.record.keys[order.order.position].type) is Form.I128:
            out.line("#define ORD_KEY_INT128")
        if order.sliced:
            out.line("#define ORD_LEAF 16")
        out.line('#include "ordered_tree.h"')
        with out.block("typedef struct"):
            out.line("bool known, after;")
            out.line("int8_t side; /* before all keys, at or after the key, after all keys */")
            out.line(f"{name}_key key;")
            out.line(f"{name}_rec before;")
        out.lines[-1] += f" {name}_edge;"
        if order.sliced:
            others = [i for i in range(len(at.record.keys)) if i != order.order.position]
            write_key(f"{name}s", others)
            out.line(f"typedef struct {{ {name}s_key key; {name} tree; uint32_t id; }} {name}s_record;")
            out.line(f"#define VL_MAP {name}s")
            out.line("#define VL_MAP_EMPTY(r) ((r)->tree.size == 0)")
            out.line('#include "map_pooled.h"')


def order_members(at: CRecord) -> list[tuple[str, str, int]]:
    """What the state of a record holds for its ordered indexes and counts of negative entries."""
    found = [("vl_map_pooled" if order.sliced else order.name, order.name, 0) for order in orders_of(at)]
    found += [(f"{order.name}_rec", f"{order.name}_all", 0) for order in orders_of(at) if not order.sliced]
    if at.record.orders:
        found.append(("uint64_t", "ordered_bytes", 0))
    found += [("uint64_t", f"negative_f{i}", 0) for i in _signed(at.record)]
    if is_noted(at.record):
        found.append((f"{at.name}_record", "seen", 0))
    return found


def _signed(record: Record) -> list[int]:
    return [i for i, field in enumerate(record.fields) if field.name in record.signed]


def write_note(out: Writer, at: CRecord) -> None:
    """``r3_changed``: an entry has changed by some amounts; it holds the new sums already."""
    if not is_noted(at.record):
        return
    if not orders_of(at):  # nobody has brought the arithmetic of sums along
        out.line('#include "ordered_types.h"')
    name = at.name
    fields = noted_fields(at.record)
    amounts = "".join(f", {field_form(at.record.fields[i].type).value} d{i}" for i in fields)
    head = f"VL_FUNCTION void {name}_changed(vl_arena *a, {name}_store *m, const {name}_record *r{amounts})"
    with out.block(head):
        out.line("(void)a;")
        for i in _signed(at.record):
            old = f"ORD_MINUS(r->f{i}, d{i})"
            out.line(f"m->negative_f{i} += (uint64_t)(r->f{i} < 0) - (uint64_t)({old} < 0);")
        for i in sorted({i for order in orders_of(at) for i, form in order.fields if form is Form.I128}):
            out.line(f"a->errors |= vl_bit_if(vl_beyond_i128(r->f{i}, VL_ORDERED_MOST), VL_E_DECIMAL);")
        for order in orders_of(at):
            _write_order_add(out, at, order)
    changed = ", ".join(f"ORD_MINUS(r->f{i}, m->seen.f{i})" for i in fields)
    head = f"VL_COLD void {name}_replaced(vl_arena *a, {name}_store *m, const {name}_record *r)"
    out.line(f"{head} {{ {name}_changed(a, m, r, {changed}); }}")


def _write_order_add(out: Writer, at: CRecord, order: COrder) -> None:
    """NULL keys are in no order; amounts that are all 0 change nothing."""
    position = order.order.position
    tests = [" || ".join(f"d{i} != 0" for i, _ in order.fields)]
    if at.record.keys[position].nullable:
        tests.append(f"!(r->key.nulls >> {position} & 1)")
    with out.block(f"if ({' && '.join(f'({test})' for test in tests)})"):
        tree = f"&m->{order.name}"
        slices = f"vl_map_pooled_bytes(&m->{order.name})"
        if order.sliced:
            out.line(f"m->ordered_bytes -= {slices};")
            parts = [f".k{i} = r->key.k{i}" for i in range(len(at.record.keys)) if i != position]
            mask = _null_mask(at.record, position)
            if mask:
                parts.append(f".nulls = r->key.nulls & {mask:#x}")
            out.line(f"const {order.name}s_key key = {{{', '.join(parts)}}};")
            out.line(f"{order.name}s_record *slice = {order.name}s_upsert(a, &m->{order.name}, &key);")
            tree = "&slice->tree"
        out.line(f"{order.name} *tree = {tree};")
        out.line("const uint64_t bytes = tree->account.bytes;")
        parts = [f".{order.member_of(i)} = d{i}" for i, _ in order.fields]
        out.line(f"const {order.name}_rec change = {{{', '.join(parts)}}};")
        key = _tree_key(at.record, position, f"r->key.k{position}")
        out.line(f"{order.name}_add(a, tree, {key}, &change, NULL);")
        out.line("m->ordered_bytes += tree->account.bytes - bytes;")
        if not order.sliced:
            out.line(f"{order.name}_join(&m->{order.name}_all, &change);")
        if order.sliced:
            out.line(f"{order.name}s_settle(a, &m->{order.name}, slice);")
            out.line(f"m->ordered_bytes += {slices};")


def _null_mask(record: Record, position: int) -> int:
    return sum(1 << i for i, key in enumerate(record.keys) if key.nullable and i != position)


def _tree_key(record: Record, position: int, text: str) -> str:
    """A stored key as a key of the tree."""
    return f"ord_key_of_double({text})" if stored_form(record.keys[position].type)[0] == "double" else text


def _key_value(record: Record, position: int, text: str) -> CValue:
    """A key of the tree as a value."""
    kind = record.keys[position].type
    if form_of(kind) is Form.F64:
        return CValue(f"ord_double_of_key({text})", Form.F64)
    return CValue(text, form_of(kind), None, type_interval(kind))


def note_change(out: Writer, at: CRecord, entry: str, amounts: Mapping[str, str]) -> None:
    """Tell that an entry has changed by amounts, given by C members."""
    fields = noted_fields(at.record)
    if any(f"f{i}" in amounts for i in fields):
        changes = "".join(f", {amounts.get(f'f{i}', '0')}" for i in fields)
        out.line(f"{at.name}_changed(a, &s->{at.name}, {entry}{changes});")


def see(out: Writer, at: CRecord, entry: str) -> None:
    """Remember an entry before it is overwritten."""
    if is_noted(at.record):
        out.line(f"s->{at.name}.seen = *{entry};")


def note_seen(out: Writer, at: CRecord, entry: str) -> None:
    """Tell that the entry last seen has been overwritten."""
    if is_noted(at.record):
        out.line(f"{at.name}_replaced(a, &s->{at.name}, {entry});")


def init_orders(out: Writer, at: CRecord) -> None:
    """Make a record's ordered indexes; a tree alone is empty when it is zeros."""
    for order in orders_of(at):
        if order.sliced:
            out.line(f"if (!{order.name}s_init(a, &s->{at.name}.{order.name})) return false;")


# Walks


class Searches:
    """Writes the edges and spans of one block of operations."""

    def __init__(self, operations: Operations) -> None:
        self.operations = operations
        self.out = operations.out

    def _edge(self, edge: Var) -> str:
        return self.operations.names[edge.name].text

    def seek(self, op: Seek) -> None:
        """Find an edge, unless it is known."""
        edge = self._edge(op.edge)
        at = self.operations.records[op.along.record]
        order = order_at(at, op.along.position)

        def write(inner: Operations) -> None:
            found = inner.names[op.edge.name].text
            inner.out.line(f"{found}.known = true;")
            inner.out.line(f"{found}.side = -1;")
            tree = Searches(inner)._tree(op.along, order)
            with inner.out.block(f"if ({tree}->root)"):
                down = _Walk(inner.child(), op, order, tree, found)
                down.begin()
                (down.between_entries if op.key is None else down.at_keys)()

        call = self._procedure("VL_FUNCTION", op, {}, write)
        self.out.line(f"if (!{edge}.known) {call};")

    def _procedure(
        self, kind: str, op: Seek | Span, results: Mapping[str, CValue], write: Callable[[Operations], None]
    ) -> str:
        """A call of a function that does an operation; equal ones are compiled once.

        Its parameters are the variables that the operation reads, and where its ``results`` go.
        """
        given, passed = ["vl_instance *x"], ["x"]
        names: dict[str, CValue] = {}
        read = dict.fromkeys(node.name for node in walk(op) if isinstance(node, Var))
        for i, name in enumerate(name for name in read if name in self.operations.names):
            value = self.operations.names[name]
            if isinstance(value, CEdge):
                given.append(f"{value.kind} *y{i}")
                passed.append(f"&{value.text}")
                names[name] = replace(value, text=f"(*y{i})")
                continue
            given.append(f"{value.form.value} p{i}")
            passed.append(value.text)
            if value.null is not None:
                given.append(f"bool p{i}_null")
                passed.append(value.null)
            names[name] = replace(value, text=f"p{i}", null=value.null and f"p{i}_null")
        for i, (name, value) in enumerate(results.items()):
            given.append(f"{value.form.value} *r{i}")
            passed.append(f"&{value.text}")
            names[name] = replace(value, text=f"(*r{i})")
        out = Writer()
        with out.block(f"{kind} void PROCEDURE({', '.join(given)})"):
            out.line("vl_arena *const a = &x->arena;")
            out.line("program_state *const s = x->state;")
            unused = ["a", "s", *(parameter.split()[-1].lstrip("*") for parameter in given)]
            out.line(", ".join(f"(void){name}" for name in unused) + ";")
            write(self.operations.elsewhere(out, names))
        known = self.operations.registry.procedures
        name = known.setdefault("\n".join(out.lines), f"search{len(known)}")
        return f"{name}({', '.join(passed)})"

    def _tree(self, along: Along, order: COrder) -> str:
        """The tree as a pointer, never NULL: to an empty one where there is none."""
        at, name = self.operations.records[along.record], self.out.fresh("o")
        if not order.sliced:
            self.out.line(f"const {order.name} *const {name} = &s->{at.name}.{order.name};")
            self.out.line(f"(void){name};")
            return name
        self.out.line(f"static const {order.name} {name}_empty;")
        key, absent = self.operations.key(at, f"{order.name}s_key", along.bound)
        found = f"{order.name}s_find(a, &s->{at.name}.{order.name}, &{key})"
        found = found if absent is None else f"{absent} ? NULL : {found}"
        self.out.line(f"const {order.name}s_record *const {name}_slice = {found};")
        self.out.line(
            f"const {order.name} *const {name} = {name}_slice ? &{name}_slice->tree : &{name}_empty;"
        )
        return name

    def span(self, op: Span) -> None:
        """Sums between two edges, or by scans while a needed sum is negative somewhere."""
        at = self.operations.records[op.along.record]
        order = order_at(at, op.along.position)
        values: dict[str, CValue] = {}
        for field, var in op.reads:
            form, name = at.form(field), self.out.fresh("v")
            self.out.line(f"{form.value} {name} = 0;")
            values[var.name] = CValue(name, form, None, type_interval(var.type))
        needs = [self._negatives(record, field) for record, field in op.needs]
        head = f"if (VL_LIKELY(({' | '.join(needs)}) == 0))" if needs else ""
        with self.out.block(head):
            self._sums(op, order, {field: values[var.name].text for field, var in op.reads})
        if needs:

            def write(inner: Operations) -> None:
                for scan in op.scans:
                    inner.add_up(scan.body, inner.names[scan.var.name])

            call = self._procedure("VL_COLD", replace(op, reads=(), start=None, stop=None), values, write)
            self.out.line(f"else {call};")
        self.operations.names.update(values)

    def _negatives(self, record: str, field: str) -> str:
        at = self.operations.records[record]
        return f"s->{at.name}.negative_{at.field(field)}"

    def _sums(self, op: Span, order: COrder, into: dict[str, str]) -> None:
        start, stop = (self._edge(limit.edge) if limit else "" for limit in (op.start, op.stop))
        tree = ""
        if stop == "" or not all(limit is None or limit.own for limit in (op.start, op.stop)):
            tree = self._tree(op.along, order)
        empty = ""
        if op.start and op.stop:
            empty = self._crosses(start, stop)
        with self.out.block(f"if (!({empty}))" if empty else ""):
            record = self.operations.records[op.along.record].name
            last = self._prefix(order, record, op.stop, stop, tree)
            first = self._prefix(order, record, op.start, start, tree) if op.start else ""
            for field, target in into.items():
                member = order.member(field)
                value = f"{last}.{member}"
                self.out.line(f"{target} = {f'ORD_MINUS({value}, {first}.{member})' if first else value};")

    def _crosses(self, start: str, stop: str) -> str:
        """Does the first edge not lie before the second?"""
        at_key = f"({start}.key > {stop}.key || ({start}.key == {stop}.key && {start}.after >= {stop}.after))"
        return (
            f"{start}.side > {stop}.side || ({start}.side == {stop}.side && ({start}.side != 0 || {at_key}))"
        )

    def _prefix(self, order: COrder, record: str, limit: Limit | None, edge: str, tree: str) -> str:
        """A record with the sums of all entries before an edge."""
        if limit is not None and limit.own:
            return f"{edge}.before"
        name = self.out.fresh("b")
        whole = order.whole(record, tree)
        if limit is None:
            self.out.line(f"const {order.name}_rec {name} = {whole};")
            return name
        self.out.line(f"{order.name}_rec {name} = {order.name}_none();")
        self.out.line(f"if ({edge}.side > 0) {name} = {whole};")
        for side, function in (("", "through"), ("!", "below")):
            test = f"{edge}.side == 0 && {side}{edge}.after"
            self.out.line(f"if ({test}) {name} = {order.name}_sum_{function}(a, {tree}, {edge}.key);")
        return name


@dataclass(slots=True)
class _Walk:
    """The walk down one tree that finds one edge."""

    operations: Operations
    op: Seek
    order: COrder
    tree: str
    edge: str

    @property
    def out(self) -> Writer:
        return self.operations.out

    @property
    def asked(self) -> list[str]:
        """The members of running sums that the conditions read."""
        return list(dict.fromkeys(self.order.member(running.field) for running in self.op.sums))

    @property
    def kept(self) -> list[str]:
        """The members whose sums before the edge are wanted."""
        return [self.order.member(field) for field in self.op.keeps]

    def begin(self) -> None:
        """What does not change during the walk."""
        name = self.order.name
        if self.op.key is None:
            at = self.operations.records[self.op.along.record]
            self.out.line(f"const {name}_rec all = {self.order.whole(at.name, self.tree)};")
        self.operations.block(self.op.first)
        self.out.line(f"vl_ref at = {self.tree}->root;")
        self.out.line(f"{name}_rec before = {name}_none();")

    def _ask(self, key: str, run: str) -> None:
        """``in``: does an entry with this key, or the point behind these sums, lie before the edge?"""
        inner = self.operations.child()
        if self.op.key is not None:
            value = _key_value(self.order.record, self.order.order.position, key)
            inner.names[self.op.key.name] = inner.scalars.named(value)
        for running in self.op.sums:
            member = self.order.member(running.field)
            text = f"ORD_MINUS(all.{member}, {run}{member})" if running.behind else f"{run}{member}"
            form = next(form for i, form in self.order.fields if self.order.member_of(i) == member)
            value = CValue(text, form, None, type_interval(running.var.type))
            inner.names[running.var.name] = inner.scalars.named(value)
        inner.block(self.op.body)
        self.out.line(f"bool in = {'false' if self.op.holds else 'true'};")
        self._conditions(inner, self.op.conditions)

    def _conditions(self, inner: Operations, conditions: Sequence[Scalar]) -> None:
        if not conditions:
            self.out.line(f"in = {'true' if self.op.holds else 'false'};")
            return
        with self.out.block(f"if ({inner.scalars.condition(conditions[0])})"):
            self._conditions(inner.child(), conditions[1:])

    def between_entries(self) -> None:
        """Passes entries one by one in each node; the point before the first entry comes first.

        ``upto`` has the sums to the end of the present node, so that a node can be summed from either end.
        """
        edge, op = self.edge, self.op
        self.out.line("bool begun = true;")
        if op.beyond or not op.closed:
            with self.out.block():
                self._ask("", "before.")
                self.out.line("begun = in;")
        with self.out.block("if (begun)"):
            self.out.line(f"{self.order.name}_rec upto = all;")
            self.out.line("(void)upto;")
            with self.out.block(f"for (uint32_t level = {self.tree}->height; level > 0; level--)"):
                self._pass("inner", "i + 1 < node->len")
                for member in self._members():
                    self.out.line(f"upto.{member} = ORD_PLUS(before.{member}, node->cols.{member}[i]);")
                self.out.line("at = node->child[i];")
            self._pass("leaf", "i < node->len")
            self.out.line(f"{edge}.side = i < node->len ? 0 : 1;")
            with self.out.block("if (i < node->len)"):
                self.out.line(f"{edge}.key = node->keys[i];")
                if not op.closed:
                    self.out.line(f"{edge}.after = true;")
                    for member in self.kept:
                        self.out.line(f"before.{member} = ORD_PLUS(before.{member}, node->cols.{member}[i]);")
            self._keep()

    def _members(self) -> list[str]:
        return list(dict.fromkeys([*self.asked, *self.kept]))

    def _keep(self) -> None:
        for member in self.kept:
            self.out.line(f"{self.edge}.before.{member} = before.{member};")

    def _pass(self, kind: str, more: str) -> None:
        """What is asked for is added up slot by slot; other sums follow, from the nearer end of the node."""
        self.out.line(f"const {self.order.name}_{kind} *node = vl_at(a, at);")
        self.out.line("uint32_t i = 0;")
        if self._is_last():
            with self.out.block("if (node->len > 1)"):
                self._run("ORD_MINUS(upto.{0}, node->cols.{0}[node->len - 1])")
                with self.out.block("if (in)"):
                    self.out.line("i = node->len - 1;")
                    self._take()
        with self.out.block(f"for (; i + {STRIDE} < node->len; i += {STRIDE})"):
            slots = [f"node->cols.{{0}}[i + {j}]" for j in range(STRIDE)]
            self._run(reduce(lambda sum_, slot: f"ORD_PLUS({sum_}, {slot})", slots, "before.{0}"))
            self.out.line("if (!in) break;")
            self._take()
        with self.out.block(f"for (; {more}; i++)"):
            self._run("ORD_PLUS(before.{0}, node->cols.{0}[i])")
            self.out.line("if (!in) break;")
            self._take()
        for member in (member for member in self.kept if member not in self.asked):
            fold = f"ORD_FOLD_sum(node->cols.{member}, {{}}, {{}}, ORD_SLOTS(node->keys))"
            near = f"ORD_PLUS(before.{member}, {fold.format(0, 'i')})"
            far = f"ORD_MINUS(upto.{member}, {fold.format('i', 'node->len')})"
            self.out.line(f"before.{member} = 2 * i > node->len ? {far} : {near};")

    def _is_last(self) -> bool:
        """Does the walk go on while anything lies behind? Then its edge is the last entry, or nearly so."""
        behind = {running.var.name for running in self.op.sums if running.behind}
        match self.op.conditions:
            case (Call("<>", (Var(name), Const(0))),):
                return self.op.holds and name in behind
        return False

    def _run(self, sums: str) -> None:
        """Ask at a point; ``sums`` is the C text of a sum up to it."""
        for member in self.asked:
            self.out.line(f"const __typeof__(before.{member}) run_{member} = {sums.format(member)};")
        self._ask("", "run_")

    def _take(self) -> None:
        for member in self.asked:
            self.out.line(f"before.{member} = run_{member};")

    def at_keys(self) -> None:
        """Halves the keys of each node, in a fixed number of steps: the answers cannot be foreseen."""
        edge = self.edge
        with self.out.block(f"for (uint32_t level = {self.tree}->height; level > 0; level--)"):
            self._halve("inner", "node->len - 1")
            self.out.line("at = node->child[low];")
        self._halve("leaf", "node->len")
        self.out.line(f"{edge}.side = 0;")
        self.out.line(f"{edge}.after = low == node->len;")
        self.out.line(f"{edge}.key = node->keys[low - {edge}.after];")
        self._keep()

    def _halve(self, kind: str, slots: str) -> None:
        self.out.line(f"const {self.order.name}_{kind} *node = vl_at(a, at);")
        self.out.line("uint32_t low = 0;")
        with self.out.block(f"for (uint32_t left = {slots}; left > 0;)"):
            self.out.line("const uint32_t half = (left + 1) / 2;")
            self._ask("node->keys[low + half - 1]", "")
            self.out.line("low += in ? half : 0;")
            self.out.line("left -= half;")
        for member in self.kept:
            passed = f"ORD_FOLD_sum(node->cols.{member}, 0, low, ORD_SLOTS(node->keys))"
            self.out.line(f"before.{member} = ORD_PLUS(before.{member}, {passed});")
