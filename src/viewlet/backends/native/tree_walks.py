"""Walks in C down the nodes of a tree of sums.

Where running sums are all that is asked, the edge is between two entries, and each node is passed slot by
slot. Where conditions are asked at keys, the keys of each node are halved.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from functools import reduce

from viewlet.backends.native.forms import integer
from viewlet.backends.native.walks import Walk
from viewlet.core.scalar import Call, Const, Var
from viewlet.loops.ranges import type_interval

STRIDE = 4
"""So many slots of a node are passed at once where the conditions allow it."""


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
