"""Edges, spans, peaks and visits in C.

The predicate of a search is compiled into the walk down the tree of an ordered index (``orders.py``), where
the sums that it reads are local variables: nothing is called per key that is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING

from viewlet.backends.native.forms import CValue, Form, Writer, form_of
from viewlet.backends.native.orders import COrder, order_at
from viewlet.core.node import walk
from viewlet.core.scalar import Call, Const, Scalar, Var
from viewlet.core.types import Type
from viewlet.loops.nodes import Along, Limit, Peak, Seek, Span, Visit
from viewlet.loops.ranges import type_interval

if TYPE_CHECKING:
    from viewlet.backends.native.operations import Operations


STRIDE = 4
"""So many slots of a node are passed at once where the conditions allow it."""


@dataclass(frozen=True, slots=True)
class CEdge(CValue):
    """The variable of an edge, of the type ``kind``."""

    kind: str = ""


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
        order = order_at(at, op.along.axis)

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
        order = order_at(at, op.along.axis)
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

    def peak(self, op: Peak) -> None:
        """The best value between two edges, or by a scan while a needed sum is negative somewhere."""
        order = order_at(self.operations.records[op.along.record], op.along.axis)
        form, name = form_of(op.var.type), self.out.fresh("v")
        self.out.line(f"{form.value} {name} = 0;")
        self.out.line(f"bool {name}_null = true;")
        needs = [self._negatives(record, field) for record, field in op.needs]
        with self.out.block(f"if (VL_LIKELY(({' | '.join(needs)}) == 0))" if needs else ""):
            self._greatest(op, order, name)
        if needs:
            with self.out.block("else"):
                inner = self.operations.child()
                inner.block(op.scan)
                found = inner.names[op.var.name]
                self.out.line(f"{name} = {found.text};")
                self.out.line(f"{name}_null = {found.null};")
        self.operations.names[op.var.name] = CValue(name, form, f"{name}_null", type_interval(op.var.type))

    def _greatest(self, op: Peak, order: COrder, into: str) -> None:
        """From edges to the least and greatest key in between; the edge behind a key is the next key."""
        start, stop = (self._edge(limit.edge) if limit else "" for limit in (op.start, op.stop))
        tree = self._tree(op.along, order)
        low, high, tests = "ORD_I128_MIN", "ORD_I128_MAX", []
        if start:
            tests.append(f"{start}.side <= 0 && !({start}.after && {start}.key == ORD_I128_MAX)")
            low = f"{start}.side < 0 ? {low} : {start}.key + {start}.after"
        if stop:
            tests.append(f"{stop}.side >= 0 && !(!{stop}.after && {stop}.key == ORD_I128_MIN)")
            high = f"{stop}.side > 0 ? {high} : {stop}.key - !{stop}.after"
        if start and stop:
            tests.append(f"!({self._crosses(start, stop)})")
        with self.out.block(f"if ({' && '.join(tests)})" if tests else ""):
            first, last, rec = self.out.fresh("k"), self.out.fresh("k"), self.out.fresh("b")
            self.out.line(f"const {order.name}_key {first} = {low}, {last} = {high};")
            self.out.line(
                f"const {order.name}_rec {rec} = {order.name}_sum_range(a, {tree}, {first}, {last});"
            )
            axis = order.axis
            assert axis.of is not None
            best = f"{rec}.best" if axis.holds == "max" else f"~{rec}.best"
            with self.out.block(f"if ({rec}.n != 0)"):
                self.out.line(f"{into} = {_key_value(order.record.keys[axis.of].type, best).text};")
                self.out.line(f"{into}_null = false;")

    def visit(self, op: Visit) -> None:
        """The keys between two edges; the tree does not change meanwhile."""
        order = order_at(self.operations.records[op.along.record], op.along.axis)
        start, stop = (self._edge(limit.edge) if limit else "" for limit in (op.start, op.stop))
        with self.out.block():
            tree, path, key = self._tree(op.along, order), self.out.fresh("p"), self.out.fresh("k")
            self.out.line(f"{order.name}_path {path};")
            step, ends = ("previous", (stop, start)) if op.down else ("next", (start, stop))
            head = f"bool more = {self._first(order, tree, path, ends[0], down=op.down)}"
            with self.out.block(f"for ({head}; more; more = {order.name}_{step}(a, {tree}, &{path}))"):
                self.out.line(f"const {order.name}_key {key} = {order.name}_path_key(&{path});")
                if ends[1]:
                    self.out.line(f"if ({_is_past(ends[1], key, down=op.down)}) break;")
                inner = self.operations.child()
                kind = order.record.keys[order.axis.position].type
                inner.names[op.key.name] = inner.scalars.named(_key_value(kind, key))
                inner.block(op.body)
                if op.once:
                    assert self.operations.target is not None, "a visit that ends with an offer is in a best"
                    self.out.line(f"if (!{self.operations.target.value.null}) break;")

    def _first(self, order: COrder, tree: str, path: str, edge: str, *, down: bool) -> str:
        """Whether there is a key to begin with, and the path to it."""
        name, to = order.name, f"(a, {tree}, &{path})"
        whole = f"{name}_{'last' if down else 'first'}{to}"
        if not edge:
            return whole
        at = f"(a, {tree}, {edge}.key, &{path})"
        behind, before = ("at_most", "below") if down else ("above", "at_least")
        here = f"({edge}.after ? {name}_{behind}{at} : {name}_{before}{at})"
        side = ">" if down else "<"
        return f"{edge}.side == 0 ? {here} : {edge}.side {side} 0 && {whole}"

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


def _is_past(edge: str, key: str, *, down: bool) -> str:
    """Does a key lie on the far side of an edge?"""
    side, sign, at = ("> 0", "<", f"{edge}.after") if down else ("< 0", ">", f"!{edge}.after")
    beyond = f"{key} {sign} {edge}.key || ({key} == {edge}.key && {at})"
    return f"{edge}.side {side} || ({edge}.side == 0 && ({beyond}))"


def _key_value(kind: Type, text: str) -> CValue:
    """A key of a tree as a value."""
    if form_of(kind) is Form.F64:
        return CValue(f"ord_double_of_key({text})", Form.F64)
    return CValue(text, form_of(kind), None, type_interval(kind))


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
            key = f"ord_pair_slice({key})" if self.order.is_pair else key
            value = _key_value(self.order.record.keys[self.order.axis.position].type, key)
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
