"""Walks to an edge in C: what those down a tree and those through an array have in common.

What is asked on the way is compiled into the walk, with the running sums as local variables. A search that
remembers where it ended last begins there: the edge has seldom moved far. Every change keeps up the sums
before that point, so they are right whatever happened; only whether the edge is still there must be asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from viewlet.backends.native.forms import CValue, Form, Writer, form_of
from viewlet.backends.native.orders import COrder
from viewlet.core.scalar import Scalar
from viewlet.core.types import Type
from viewlet.loops.nodes import Running, Seek
from viewlet.loops.ranges import type_interval

if TYPE_CHECKING:
    from viewlet.backends.native.operations import Operations


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
