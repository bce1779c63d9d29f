"""Walks in C to the entry at which the best value so far turns conditions.

A tree of best values knows that of each subtree, so the best of all entries up to a point is known on the way
down. No best value can be taken off another: for what lies behind a point, the walk begins at the last entry.
"""

from __future__ import annotations

from viewlet.backends.native.forms import CValue, form_of
from viewlet.backends.native.walks import Walk, key_value
from viewlet.loops.nodes import Running


class BestWalk(Walk):
    """Down the nodes of a tree of best values, from its first entry on or from its last."""

    __slots__ = ()

    @property
    def backwards(self) -> bool:
        """Is it the best of what lies behind a point that is asked for?"""
        return any(running.behind for running in self.op.sums)

    @property
    def _slot(self) -> str:
        """The slot of a node that comes next after ``i`` others."""
        return "node->len - 1 - i" if self.backwards else "i"

    @property
    def _has_turned(self) -> str:
        """Does what was asked last lie on the far side of the edge?"""
        return "in" if self.backwards else "!in"

    def running(self, running: Running, run: str) -> CValue:
        """The best value up to a point; NULL where nothing is."""
        if not run:
            return CValue("0", form_of(running.var.type), "true", (0, 0))
        axis = self.order.axis
        assert axis.of is not None, "an index of best values has a column that they are of"
        return key_value(self.order.record.keys[axis.of].type, run if axis.holds == "max" else f"~{run}")

    def write(self) -> None:
        """Find the edge. It lies at the end where the walk begins if conditions have turned without entries,
        and at the other one if no entry turns them."""
        edge = self.edge
        self.operations.block(self.op.first)
        self.out.line("bool begun;")
        with self.out.block():
            self.ask("", "")
            self.out.line(f"{edge}.side = in ? 1 : -1;")
            self.out.line(f"begun = !({self._has_turned});")
        with self.out.block(f"if (begun && {self.index}->root)"):
            self.out.line(f"vl_ref at = {self.index}->root;")
            self.out.line("int64_t best = INT64_MIN;")
            self.out.line("bool none = true;")
            with self.out.block(f"for (uint32_t level = {self.index}->height; level > 0; level--)"):
                self._pass("inner", "i + 1 < node->len")
                self.out.line(f"at = node->child[{self._slot}];")
            self._pass("leaf", "i < node->len")
            with self.out.block("if (i < node->len)"):
                self.out.line(f"{edge}.side = 0;")
                self.out.line(f"{edge}.key = node->keys[{self._slot}];")
                self.out.line(f"{edge}.after = {'true' if self.backwards else 'false'};")

    def _pass(self, kind: str, more: str) -> None:
        """Passes slots until one turns the conditions; one that is no better than those before cannot."""
        self.out.line(f"const {self.order.tree}_{kind} *node = vl_at(a, at);")
        self.out.line("uint32_t i = 0;")
        with self.out.block(f"for (; {more}; i++)"):
            self.out.line(f"const int64_t held = node->cols.best[{self._slot}];")
            self.out.line("if (held <= best && !none) continue;")
            self.ask("", "held")
            self.out.line(f"if ({self._has_turned}) break;")
            self.out.line("best = held;")
            self.out.line("none = false;")
