"""Walks in C through the array that an index with dense keys is: a few slots on, or level by level."""

from __future__ import annotations

from contextlib import nullcontext

from viewlet.backends.native.forms import CValue, Form, integer
from viewlet.backends.native.walks import Walk
from viewlet.core.types import Type
from viewlet.loops.ranges import Interval, type_interval

STEPS = 8
"""So many keys an edge may have moved on before it is sought anew."""

BULK: Interval = (-(1 << 62), 1 << 62)
"""What a wide sum in an array may be: ``ordered_sums.h`` sees to it."""


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
