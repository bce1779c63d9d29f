"""The loop over the rows of a batch: a few rows at a time, in passes that each do one kind of work.

First the conditions that every row must meet choose the rows that count, without a jump per row; then text is
interned and the memory that lookups will want is asked for; then the trigger runs, row by row and in order.
The passes before it change nothing that a trigger reads, so all effects of a row still precede the next row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TypeAlias

from viewlet.backends.native.columns import load, needed_here, open_column, used_columns
from viewlet.backends.native.forms import CValue, Form, Writer, form_of
from viewlet.backends.native.operations import Operations, is_plain
from viewlet.backends.native.scalars import Registry
from viewlet.backends.native.storage import CRecord
from viewlet.calculus.nodes import Argument
from viewlet.core.scalar import Scalar, Var
from viewlet.core.types import Kind
from viewlet.loops.nodes import Add, Block, Get, If, Loop, TableLoops

WEIGHTS = {
    "any": CValue("w", Form.I64, None, (-(1 << 31), (1 << 31) - 1)),
    "units": CValue("w", Form.I64, None, (-1, 1)),
    "ones": CValue("INT64_C(1)", Form.I64, None, (1, 1)),
}
"""The weight of a row in C. One that comes or goes more often at once is refused at the boundary."""

MOST_PREFETCHES = 4

Lookup: TypeAlias = tuple[str, tuple[tuple[int, Argument], ...]]
"""A record, and key positions of it with their arguments."""


def write_rows(
    out: Writer,
    table: TableLoops,
    block: Block,
    records: Mapping[str, CRecord],
    registry: Registry,
    weight: CValue,
) -> None:
    """The body of a function that runs a block for the rows ``[from, to)`` of some columns.

    With another ``weight`` than any, no value is NULL.
    """
    if weight != WEIGHTS["any"]:
        bare = tuple(replace(var, nullable=False) for var in table.parameters)
        table = replace(table, parameters=bare)
    used = used_columns(table, block)
    for i in used:
        open_column(out, i, table.parameters[i])
    conditions, body = _leading_conditions(block)
    loop = _RowLoop(out, table, records, registry, used, weight, bool(conditions))
    with out.block("for (int64_t base = from; base < to; base += VL_ROWS)"):
        out.line("const int64_t end = to - base < VL_ROWS ? to : base + VL_ROWS;")
        loop.choose(conditions)
        texts = loop.intern(body)
        loop.prefetch(body)
        loop.run(body, texts)
    out.line("return to;")


def _leading_conditions(block: Block) -> tuple[list[Scalar], Block]:
    """The conditions that a row must meet to count at all, and what runs then."""
    conditions: list[Scalar] = []
    while len(block) == 1 and isinstance(block[0], If) and is_plain(block[0].condition, text=not conditions):
        conditions.append(block[0].condition)
        block = block[0].body
    return conditions, block


@dataclass(frozen=True, slots=True)
class _RowLoop:
    """Writes the passes over the rows of one table; ``picky`` says that not all rows count."""

    out: Writer
    table: TableLoops
    records: Mapping[str, CRecord]
    registry: Registry
    used: list[int]
    weight: CValue
    picky: bool

    def choose(self, conditions: list[Scalar]) -> None:
        """``chosen[0 .. n)`` are the rows that meet the conditions, counted from ``base``."""
        if not conditions:
            self.out.line("const int64_t n = end - base;")
            return
        self.out.line("uint8_t chosen[VL_ROWS];")
        self.out.line("int64_t n = 0;")
        with self.out.block("for (int64_t i = base; i < end; i++)"):
            row = self._row()
            tests = [row.test(condition) for condition in conditions]
            self.out.line("chosen[n] = (uint8_t)(i - base);")
            self.out.line(f"n += ({' & '.join(tests)}) != 0;")

    def intern(self, body: Block) -> dict[str, CValue]:
        """The ids of texts that the trigger needs for every row, as an array per column."""
        parameters = {var.name: i for i, var in enumerate(self.table.parameters) if i in self.used}
        texts: dict[str, CValue] = {}
        for name in needed_here(body, parameters):
            i = parameters[name]
            if form_of(self.table.parameters[i].type) is not Form.TEXT:
                continue
            self.out.line(f"uint32_t ids{i}[VL_ROWS];")
            null = f"(ids{i}[j] == 0)" if self.table.parameters[i].nullable else None
            texts[name] = CValue(f"ids{i}[j]", Form.TEXT, null)
        if texts:
            with self._rows():
                for i in (parameters[name] for name in texts):
                    self.out.line(f"ids{i}[j] = {load(self.out, i, self.table.parameters[i]).text};")
        return texts

    def prefetch(self, body: Block) -> None:
        """Ask for the places where lookups will begin; only where a table is too large for the cache."""
        names = {self.table.parameters[i].name for i in self.used}
        wanted = list(dict.fromkeys(_lookups(body, names, self.records)))[:MOST_PREFETCHES]
        for record, keys in wanted:
            at = self.records[record]
            index, map_ = at.name, at.map
            if len(keys) < len(at.record.keys) and tuple(i for i, _ in keys) != at.record.home:
                index = at.slice(tuple(i for i, _ in keys))
                map_ = f"&s->{at.name}.{index}"
            with self.out.block(f"if (VL_UNLIKELY({index}_is_large({map_})))"), self._rows():
                row = self._row()
                row.load_columns(keys)
                key, _ = row.key(at, f"{index}_key", keys)
                self.out.line(f"{index}_prefetch(a, {map_}, &{key});")

    def run(self, body: Block, texts: Mapping[str, CValue]) -> None:
        """The trigger itself."""
        with self._rows():
            if self.weight.text == "w":
                self.out.line("const int64_t w = weights ? weights[i] : 1;")
                self.out.line("(void)w;")
            row = self._row()
            for name, value in texts.items():
                row.names[name] = value
                del row.waiting[name]
            row.block(body)
            self.out.line("if (VL_UNLIKELY(a->errors)) return i;")

    @contextmanager
    def _rows(self) -> Iterator[None]:
        """A loop over the rows that count."""
        with self.out.block("for (int64_t j = 0; j < n; j++)"):
            self.out.line(f"const int64_t i = base + {'chosen[j]' if self.picky else 'j'};")
            yield

    def _row(self) -> Operations:
        names = {self.table.weight.name: self.weight}
        row = Operations(self.out, self.records, self.registry, names, weight=self.weight.text)
        row.waiting = {self.table.parameters[i].name: (i, self.table.parameters[i]) for i in self.used}
        return row


def _lookups(body: Block, columns: set[str], records: Mapping[str, CRecord]) -> Iterator[Lookup]:
    """Lookups that happen for every row under keys that are columns as they came."""
    for op in body:
        match op:
            case Get(record, keys) if keys:
                wanted = [_placing(records[record], keys)]
            case Add(record, keys, later=False) if keys:
                at = records[record]
                wanted = [_placing(at, keys), *(tuple((i, keys[i]) for i in p) for p in at.record.slices)]
            case Loop(record, bound) if bound:
                wanted = [bound]
            case _:
                continue
        for keyed in wanted:
            numbers = (k for _, k in keyed if isinstance(k, Var) and k.type.kind is not Kind.VARCHAR)
            if sum(key.name in columns for key in numbers) == len(keyed):
                yield record, keyed


def _placing(at: CRecord, keys: tuple[Argument, ...]) -> tuple[tuple[int, Argument], ...]:
    """The keys that decide the place of an entry."""
    return tuple((i, keys[i]) for i in at.record.home or range(len(keys)))
