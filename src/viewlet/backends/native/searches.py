"""Edges, spans, peaks and visits in C.

The predicate of a search is compiled into the walk along an ordered index (``orders.py`` and ``walks.py``),
where the sums that it reads are local variables: nothing is called per key that is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from viewlet.backends.native.best_walks import BestWalk
from viewlet.backends.native.dense_walks import DenseWalk
from viewlet.backends.native.forms import CValue, Form, Writer, form_of
from viewlet.backends.native.orders import COrder, order_at
from viewlet.backends.native.storage import CRecord
from viewlet.backends.native.tree_walks import TreeWalk
from viewlet.backends.native.walks import key_value
from viewlet.core.node import walk
from viewlet.core.scalar import Var
from viewlet.loops.nodes import Along, Limit, Peak, Seek, Span, Turn, Visit
from viewlet.loops.ranges import type_interval

if TYPE_CHECKING:
    from viewlet.backends.native.operations import Operations


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
            if order.order.dense:
                with inner.out.block(f"if (VL_LIKELY({tree}->is_dense))"):
                    DenseWalk(inner.child(), op, order, tree, found).write()
            with inner.out.block("else") if order.order.dense else nullcontext():
                walk = BestWalk if order.is_pair and op.key is None else TreeWalk
                walk(inner.child(), op, order, tree, found).write()

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

    def turn(self, op: Turn) -> None:
        """The entry at an edge."""
        edge, name, always = self._edge(op.edge), self.out.fresh("v"), self.out.fresh("v")
        order = order_at(self.operations.records[op.along.record], op.along.axis)
        value = key_value(op.key.type, f"ord_pair_slice({edge}.key)" if order.is_pair else f"{edge}.key")
        self.out.line(f"const bool {name}_null = {edge}.side != 0;")
        self.out.line(f"const {value.form.value} {name} = {value.text};")
        self.out.line(f"const bool {always} = {edge}.side {'<' if op.closed else '>'} 0;")
        names = self.operations.names
        names[op.key.name] = CValue(name, value.form, f"{name}_null", type_interval(op.key.type))
        names[op.always.name] = CValue(always, Form.I64, None, (0, 1))

    def span(self, op: Span) -> None:
        """Sums between two edges, or by scans while a needed sum is negative somewhere."""
        at = self.operations.records[op.along.record]
        order = order_at(at, op.along.axis)
        values: dict[str, CValue] = {}
        for field, var in op.reads:
            form, name = at.form(field), self.out.fresh("v")
            self.out.line(f"{form.value} {name} = {'{0, 0}' if form is Form.PAIR else '0'};")
            values[var.name] = CValue(name, form, None, type_interval(var.type))
        needs = [self._negatives(record, field) for record, field in op.needs]
        if op.scans:
            needs += [
                f"{self._grid(at, field)}.outside" for field, _ in op.reads if at.form(field) is Form.PAIR
            ]
        head = f"if (VL_LIKELY(({' | '.join(needs)}) == 0))" if needs else ""
        with self.out.block(head):
            self._sums(op, order, {field: values[var.name].text for field, var in op.reads})
        if needs:

            def write(inner: Operations) -> None:
                for scan in op.scans:
                    inner.add_up(scan.body, tuple(inner.names[var.name] for var in scan.vars))

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
            tests.append(f"!({self._crosses(start, stop, order)})")
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
                self.out.line(f"{into} = {key_value(order.record.keys[axis.of].type, best).text};")
                self.out.line(f"{into}_null = false;")

    def visit(self, op: Visit) -> None:
        """The keys between two edges, or a scan while a needed sum is negative somewhere."""
        needs = [self._negatives(record, field) for record, field in op.needs]
        with self.out.block(f"if (VL_LIKELY(({' | '.join(needs)}) == 0))" if needs else ""):
            self._keys(op)
        if needs:
            with self.out.block("else"):
                self.operations.child().block(op.scan)

    def _keys(self, op: Visit) -> None:
        """The keys in their order; the tree does not change meanwhile."""
        order = order_at(self.operations.records[op.along.record], op.along.axis)
        start, stop = (self._edge(limit.edge) if limit else "" for limit in (op.start, op.stop))
        tree, path, key = self._tree(op.along, order), self.out.fresh("p"), self.out.fresh("k")
        self.out.line(f"{order.name}_path {path};")
        step, ends = ("previous", (stop, start)) if op.down else ("next", (start, stop))
        head = f"bool more = {self._first(order, tree, path, ends[0], down=op.down)}"
        with self.out.block(f"for ({head}; more; more = {order.name}_{step}(a, {tree}, &{path}))"):
            self.out.line(f"const {order.name}_key {key} = {order.name}_path_key(&{path});")
            if ends[1]:
                self.out.line(f"if ({_is_past(ends[1], key, order, down=op.down)}) break;")
            inner = self.operations.child()
            kind = order.record.keys[order.axis.position].type
            inner.names[op.key.name] = inner.scalars.named(key_value(kind, key))
            inner.block(op.body)
            if op.once:
                assert self.operations.target is not None, "a visit that ends with an offer is in a best"
                (best,) = self.operations.target.values
                self.out.line(f"if (!{best.null}) break;")

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
        """How many entries a search along this field must not meet: those below 0, or outside of its grid."""
        at = self.operations.records[record]
        negative = f"s->{at.name}.negative_{at.field(field)}"
        is_gridded = at.form(field) is Form.PAIR and any(field in order.fields for order in at.record.orders)
        return f"{negative} | {self._grid(at, field)}.outside" if is_gridded else negative

    def _grid(self, at: CRecord, field: str) -> str:
        return f"s->{at.name}.grid_{at.field(field)}"

    def _sums(self, op: Span, order: COrder, into: dict[str, str]) -> None:
        start, stop = (self._edge(limit.edge) if limit else "" for limit in (op.start, op.stop))
        tree = ""
        if stop == "" or not all(limit is None or limit.own for limit in (op.start, op.stop)):
            tree = self._tree(op.along, order)
        empty = ""
        if op.start and op.stop:
            empty = self._crosses(start, stop, order)
        with self.out.block(f"if (!({empty}))" if empty else ""):
            record = self.operations.records[op.along.record].name
            last = self._prefix(order, record, op.stop, stop, tree)
            first = self._prefix(order, record, op.start, start, tree) if op.start else ""
            for field, target in into.items():
                member = order.member(field)
                value = f"{last}.{member}"
                value = f"ORD_MINUS({value}, {first}.{member})" if first else value
                at = self.operations.records[op.along.record]
                if at.form(field) is Form.PAIR:
                    value = f"vl_grid_pair(&{self._grid(at, field)}, {value})"
                self.out.line(f"{target} = {value};")

    def _crosses(self, start: str, stop: str, order: COrder) -> str:
        """Does the first edge not lie before the second?"""
        behind = _is_less(f"{stop}.key", f"{start}.key", order)
        at_key = f"({behind} || ({start}.key == {stop}.key && {start}.after >= {stop}.after))"
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


def _is_less(x: str, y: str, order: COrder) -> str:
    """Does one key come before another?"""
    return f"vl_string_compare(a, x->strings, {x}, {y}) < 0" if order.is_text else f"{x} < {y}"


def _is_past(edge: str, key: str, order: COrder, *, down: bool) -> str:
    """Does a key lie on the far side of an edge?"""
    side, at = ("> 0", f"{edge}.after") if down else ("< 0", f"!{edge}.after")
    there = f"{edge}.key"
    beyond = f"{_is_less(*((key, there) if down else (there, key)), order)} || ({key} == {edge}.key && {at})"
    return f"{edge}.side {side} || ({edge}.side == 0 && ({beyond}))"
