"""Walks to an edge in C: down a tree, or through an array where keys are dense.

What is asked on the way is compiled into the walk, with the running sums as local variables. A search that
remembers where it ended last begins there: the edge has seldom moved far. Every change keeps up the sums
before that point, so they are right whatever happened; only whether the edge is still there must be asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING

from viewlet.backends.native.forms import CValue, Form, Writer, form_of, integer
from viewlet.backends.native.orders import COrder
from viewlet.core.scalar import Call, Const, Scalar, Var
from viewlet.core.types import Type
from viewlet.loops.nodes import Running, Seek
from viewlet.loops.ranges import Interval, type_interval

if TYPE_CHECKING:
    from viewlet.backends.native.operations import Operations

STRIDE = 4
"""So many slots of a node are passed at once where the conditions allow it."""

STEPS = 8
"""So many keys an edge may have moved on before it is sought anew."""

BULK: Interval = (-(1 << 62), 1 << 62)
"""What a wide sum in an array may be: ``ordered_sums.h`` sees to it."""


def key_value(kind: Type, text: str) -> CValue:
    """A key of a tree as a value."""
    if form_of(kind) is Form.F64:
        return CValue(f"ord_double_of_key({text})", Form.F64)
    return CValue(text, form_of(kind), None, type_interval(kind))


@dataclass(slots=True)
class Walk:
    """What finds one edge: along ``order``, the index that the C variable ``index`` points to."""

    operations: Operations
    op: Seek
    order: COrder
    index: str
    edge: str

    @property
    def out(self) -> Writer:
        """Where its text goes."""
        return self.operations.out

    @property
    def asked(self) -> list[str]:
        """The members of running sums that the conditions read."""
        return list(dict.fromkeys(self.order.member(r.field) for r in self.op.sums if r.field is not None))

    @property
    def kept(self) -> list[str]:
        """The members whose sums before the edge are wanted."""
        return [self.order.member(field) for field in self.op.keeps]

    @property
    def members(self) -> list[str]:
        """All members that it adds up."""
        return list(dict.fromkeys([*self.asked, *self.kept]))

    @property
    def point(self) -> str | None:
        """Where the last search of its kind ended."""
        return self.order.point(self.operations.records[self.op.along.record].name, self.op.point)

    @property
    def sums(self) -> str:
        """The C type of the sums on the way."""
        return f"{self.order.name}_rec"

    def value(self, text: str, form: Form, kind: Type) -> CValue:
        """A sum on the way, of a field of this form."""
        return CValue(text, form, None, type_interval(kind))

    def begin(self) -> None:
        """What does not change during the walk."""
        if self.op.key is None:
            at = self.operations.records[self.op.along.record]
            self._write_all(self.order.whole(at.name, self.index))
        self.operations.block(self.op.first)
        self.out.line(f"{self.sums} before = {{0}};")

    def _write_all(self, whole: str) -> None:
        """``all``: the sums over all entries."""
        self.out.line(f"const {self.sums} all = {whole};")

    def ask(self, key: str, run: str) -> None:
        """``in``: does an entry with this key, or the point behind these sums, lie before the edge?"""
        inner = self.operations.child()
        if self.op.key is not None:
            key = f"ord_pair_slice({key})" if self.order.is_pair else key
            value = key_value(self.order.record.keys[self.order.axis.position].type, key)
            inner.names[self.op.key.name] = inner.scalars.named(value)
        for running in self.op.sums:
            inner.names[running.var.name] = inner.scalars.named(self.running(running, run))
        inner.block(self.op.body)
        self.out.line(f"bool in = {'false' if self.op.holds else 'true'};")
        self._conditions(inner, self.op.conditions)

    def running(self, running: Running, run: str) -> CValue:
        """A sum at a point, from those up to it."""
        assert running.field is not None, "only an index of best values is asked for no field"
        member = self.order.member(running.field)
        text = f"ORD_MINUS(all.{member}, {run}{member})" if running.behind else f"{run}{member}"
        form = next(form for i, form in self.order.fields if self.order.member_of(i) == member)
        if form is Form.PAIR:
            at = self.operations.records[self.op.along.record]
            grid = f"s->{at.name}.{self.order.grid(running.field)}"
            return CValue(f"vl_grid_value(&{grid}, {text})", Form.F64)
        return self.value(text, form, running.var.type)

    def _conditions(self, inner: Operations, conditions: Sequence[Scalar]) -> None:
        if not conditions:
            self.out.line(f"in = {'true' if self.op.holds else 'false'};")
            return
        with self.out.block(f"if ({inner.scalars.condition(conditions[0])})"):
            self._conditions(inner.child(), conditions[1:])

    def _keep(self) -> None:
        for member in self.kept:
            self.out.line(f"{self.edge}.before.{member} = before.{member};")

    def _run(self, sums: str) -> None:
        """Ask at a point; ``sums`` is the C text of a sum up to it."""
        for member in self.asked:
            self.out.line(f"const __typeof__(before.{member}) run_{member} = {sums.format(member)};")
        self.ask("", "run_")

    def _remember(self, key: str, known: str) -> None:
        """Note where the edge is, if there is such a key."""
        if self.point is not None:
            self.out.line(f"{self.point}.known = {known};")
            with self.out.block(f"if ({self.point}.known)"):
                self.out.line(f"{self.point}.key = {key};")
                for member in self.members:
                    self.out.line(f"{self.point}.before.{member} = before.{member};")


class TreeWalk(Walk):
    """Down the nodes of a tree, or no walk at all if the edge is still where it was."""

    __slots__ = ()

    @property
    def tree(self) -> str:
        """The tree of the index."""
        return f"(&{self.index}->tree)" if self.order.order.dense else self.index

    def write(self) -> None:
        """Find the edge. Without entries every key of another index lies on the same side of it."""
        nowhere = replace(self, operations=self.operations.child())
        with self.out.block(f"if ({self.tree}->root)"):
            self.begin()
            self.out.line(f"vl_ref at = {self.tree}->root;")
            if self.point is not None:
                (self._recheck_between if self.op.key is None else self._recheck)(self.point)
            with self.out.block("if (!settled)") if self.point is not None else nullcontext():
                (self.between_entries if self.op.key is None else self.at_keys)()
        if self.op.beyond:
            with self.out.block("else"):
                nowhere.begin()
                nowhere.ask("", "before.")
                self.out.line(f"{self.edge}.side = in ? 1 : -1;")

    def _recheck_between(self, point: str) -> None:
        """Is the edge still at the entry where it was? Nothing has to be looked up for that."""
        self.out.line("bool settled = false;")
        with self.out.block(f"if ({point}.placed)"):
            self.out.line("const vl_errors errors = a->errors;")
            with self.out.block():
                self._run(f"ORD_PLUS({point}.before.{{0}}, {point}.own.{{0}})")
                self.out.line("settled = !in;")
            with self.out.block("if (settled)"):
                self._run(f"{point}.before.{{0}}")
                self.out.line("settled = in && a->errors == errors;")
            self.out.line("a->errors = errors;")
        with self.out.block("if (settled)"):
            self.out.line(f"{self.edge}.side = 0;")
            self.out.line(f"{self.edge}.key = {point}.key;")
            if not self.op.closed:
                self.out.line(f"{self.edge}.after = true;")
            for member in self.kept:
                own = f"ORD_PLUS({point}.before.{member}, {point}.own.{member})"
                before = f"{point}.before.{member}" if self.op.closed else own
                self.out.line(f"{self.edge}.before.{member} = {before};")

    def _recheck(self, point: str) -> None:
        """Is the edge where it was? No entry need be there, so what fails now might not have been asked."""
        low, high = (
            integer(bound) for bound in type_interval(self.order.record.keys[self.order.axis.position].type)
        )
        self.out.line("bool settled = false;")
        with self.out.block(f"if ({point}.known && {point}.key > {low} && {point}.key <= {high})"):
            self.out.line("const vl_errors errors = a->errors;")
            with self.out.block():
                self.ask(f"{point}.key", "")
                self.out.line("settled = !in;")
            with self.out.block("if (settled)"):
                self.ask(f"{point}.key - 1", "")
                self.out.line("settled = in && a->errors == errors;")
            self.out.line("a->errors = errors;")
        with self.out.block("if (settled)"):
            self.out.line(f"{self.edge}.side = 0;")
            self.out.line(f"{self.edge}.key = {point}.key;")
            for member in self.kept:
                self.out.line(f"{self.edge}.before.{member} = {point}.before.{member};")

    def between_entries(self) -> None:
        """Passes entries one by one in each node; the point before the first entry comes first.

        ``upto`` has the sums to the end of the present node, so that a node can be summed from either end.
        """
        edge, op = self.edge, self.op
        self.out.line("bool begun = true;")
        if op.beyond or not op.closed:
            with self.out.block():
                self.ask("", "before.")
                self.out.line("begun = in;")
        with self.out.block("if (begun)"):
            self.out.line(f"{self.order.name}_rec upto = all;")
            self.out.line("(void)upto;")
            with self.out.block(f"for (uint32_t level = {self.tree}->height; level > 0; level--)"):
                self._pass("inner", "i + 1 < node->len")
                for member in self.members:
                    self.out.line(f"upto.{member} = ORD_PLUS(before.{member}, node->cols.{member}[i]);")
                self.out.line("at = node->child[i];")
            self._pass("leaf", "i < node->len")
            self._place()
            self.out.line(f"{edge}.side = i < node->len ? 0 : 1;")
            with self.out.block("if (i < node->len)"):
                self.out.line(f"{edge}.key = node->keys[i];")
                if not op.closed:
                    self.out.line(f"{edge}.after = true;")
                    for member in self.kept:
                        self.out.line(f"before.{member} = ORD_PLUS(before.{member}, node->cols.{member}[i]);")
            self._keep()

    def _place(self) -> None:
        """Note the entry at which the edge is."""
        if self.point is not None:
            self._remember("node->keys[i]", "i < node->len")
            self.out.line(f"{self.point}.placed = {self.point}.known;")
            with self.out.block(f"if ({self.point}.known)"):
                for member in self.members:
                    self.out.line(f"{self.point}.own.{member} = node->cols.{member}[i];")

    def _pass(self, kind: str, more: str) -> None:
        """What is asked for is added up slot by slot; other sums follow, from the nearer end of the node."""
        self.out.line(f"const {self.order.tree}_{kind} *node = vl_at(a, at);")
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

    def _take(self) -> None:
        for member in self.asked:
            self.out.line(f"before.{member} = run_{member};")

    def at_keys(self) -> None:
        """Halves the keys of each node, in a fixed number of steps: the answers cannot be foreseen."""
        edge = self.edge
        with self.out.block(f"for (uint32_t level = {self.tree}->height; level > 0; level--)"):
            self._halve("inner", "node->len - 1")
            self.out.line("at = node->child[low];")
        self._fetch()
        self._halve("leaf", "node->len")
        self.out.line(f"{edge}.side = 0;")
        self.out.line(f"{edge}.after = low == node->len;")
        self.out.line(f"{edge}.key = node->keys[low - {edge}.after];")
        self._remember(f"{edge}.key + {edge}.after", f"!({edge}.after && {edge}.key == INT64_MAX)")
        self._keep()

    def _fetch(self) -> None:
        """The leaf of a large tree is seldom in the cache: ask for all of it at once."""
        fetch = f"vl_prefetch_node(a, at, sizeof({self.order.tree}_leaf))"
        self.out.line(f"if ({self.tree}->size > ORD_LARGE) {fetch};")

    def _halve(self, kind: str, slots: str) -> None:
        self.out.line(f"const {self.order.tree}_{kind} *node = vl_at(a, at);")
        self.out.line("uint32_t low = 0;")
        with self.out.block(f"for (uint32_t left = {slots}; left > 0;)"):
            self.out.line("const uint32_t half = (left + 1) / 2;")
            self.ask("node->keys[low + half - 1]", "")
            self.out.line("low += in ? half : 0;")
            self.out.line("left -= half;")
        for member in self.kept:
            passed = f"ORD_FOLD_sum(node->cols.{member}, 0, low, ORD_SLOTS(node->keys))"
            self.out.line(f"before.{member} = ORD_PLUS(before.{member}, {passed});")


class DenseWalk(Walk):
    """Through a flat array: a few slots on from where the edge was, or level by level from the coarsest.

    No sum of an array leaves 64 bits, so the walk takes no wider ones.
    """

    __slots__ = ()

    @property
    def sums(self) -> str:
        """The C type of the sums on the way."""
        return f"{self.order.name}_dense_held"

    def value(self, text: str, form: Form, kind: Type) -> CValue:
        """A sum on the way, of a field of this form."""
        return CValue(text, Form.I64, None, type_interval(kind) if form is Form.I64 else BULK)

    def _write_all(self, whole: str) -> None:
        self.out.line(f"const {self.order.name}_rec whole = {whole};")
        self.out.line(f"const {self.sums} all = {self.order.name}_dense_narrow(&whole);")

    def write(self) -> None:
        """Find the edge: slot ``i`` is the first that does not lie before it."""
        name = f"{self.order.name}_dense"
        self.begin()
        self.out.line(f"const {name} *const flat = &{self.index}->dense;")
        self.out.line(f"const {name}_held *const cell = {name}_cells(a, flat);")
        self.out.line("const uint64_t slots = flat->capacity;")
        self.out.line("uint64_t i = 0;")
        if self.point is not None:
            self._step(self.point)
        with self.out.block("if (!settled)") if self.point is not None else nullcontext():
            self._descend()
        self._remember("(int64_t)((uint64_t)flat->low + i)", "i <= (uint64_t)INT64_MAX - (uint64_t)flat->low")
        (self._between if self.op.key is None else self._at_key)()

    def _ask_slot(self, slot: str, sums: str) -> None:
        """Ask at a slot, or at the end of these sums. Beyond the keys of a type all is as at its last key."""
        if self.op.key is None:
            self._run(sums)
        else:
            kind = self.order.record.keys[self.order.axis.position].type
            low, high = (integer(bound) for bound in type_interval(kind))
            self.ask(f"{self.order.name}_dense_key(flat, {slot}, {low}, {high})", "")

    def _move(self, operation: str, by: str) -> None:
        for member in self.members:
            self.out.line(f"before.{member} = {operation}(before.{member}, {by}.{member});")

    def _step(self, point: str) -> None:
        """From where the edge was, upwards or downwards."""
        self.out.line("bool settled = false;")
        self.out.line(f"const uint64_t from = (uint64_t){point}.key - (uint64_t)flat->low;")
        with self.out.block(f"if ({point}.known && {point}.key >= flat->low && from <= slots)"):
            self.out.line("i = from;")
            for member in self.members:
                self.out.line(f"before.{member} = (int64_t){point}.before.{member};")
            self.out.line(f"uint32_t left = {STEPS};")
            with self.out.block("for (; left > 0 && i < slots; left--)"):
                self._ask_slot("i", "ORD_PLUS(before.{0}, cell[i].{0})")
                self.out.line("if (!in) break;")
                self._move("ORD_PLUS", "cell[i]")
                self.out.line("i++;")
            with self.out.block("for (const bool up = i > from; !up && left > 0 && i > 0; left--)"):
                self._ask_slot("i - 1", "before.{0}")
                self.out.line("if (in) break;")
                self.out.line("i--;")
                self._move("ORD_MINUS", "cell[i]")
            self.out.line("settled = left > 0;")

    def _descend(self) -> None:
        """Eight blocks of each level at most: those below what the level above has not passed."""
        name = f"{self.order.name}_dense"
        self.out.line("i = 0;")
        self.out.line(f"before = ({self.sums}){{0}};")
        with self.out.block(f"for (uint32_t level = {name}_height(flat); level-- > 0;)"):
            self.out.line(f"const {name}_held *const part = cell + {name}_places(flat, level);")
            self.out.line("const uint64_t width = UINT64_C(1) << 3 * level;")
            with self.out.block("for (uint32_t left = 8; left > 0 && i < slots; left--)"):
                self._ask_slot("i + width - 1", "ORD_PLUS(before.{0}, part[i >> 3 * level].{0})")
                self.out.line("if (!in) break;")
                self._move("ORD_PLUS", "part[i >> 3 * level]")
                self.out.line("i += width;")

    def _between(self) -> None:
        edge, op = self.edge, self.op
        self.out.line("bool begun = true;")
        if op.beyond or not op.closed:
            with self.out.block("if (i == 0)"):
                self._run("before.{0}")
                self.out.line("begun = in;")
        with self.out.block("if (begun)"):
            self.out.line(f"{edge}.side = i < slots ? 0 : 1;")
            with self.out.block("if (i < slots)"):
                self.out.line(f"{edge}.key = (int64_t)((uint64_t)flat->low + i);")
                if not op.closed:
                    self.out.line(f"{edge}.after = true;")
                    self._move("ORD_PLUS", "cell[i]")
            self._keep()

    def _at_key(self) -> None:
        """The edge before slot ``i``; behind the last key that there can be, if that is none."""
        beyond = "i == slots || i > (uint64_t)INT64_MAX - (uint64_t)flat->low"
        low, high = integer(-(1 << 63)), integer((1 << 63) - 1)
        self.out.line(f"{self.edge}.side = 0;")
        self.out.line(f"{self.edge}.after = {beyond};")
        self.out.line(
            f"{self.edge}.key = {self.order.name}_dense_key(flat, i - {self.edge}.after, {low}, {high});"
        )
        self._keep()
