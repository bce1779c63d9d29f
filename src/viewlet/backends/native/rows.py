"""The loop over the rows of a batch: a few rows at a time, in passes that each do one kind of work.

First the conditions that every row must meet choose the rows that count, without a jump per row; then text is
interned; then the trigger runs, row by row and in order, and asks for the memory that rows further on want.
What is done ahead changes nothing that a trigger reads, so all effects of a row still precede the next row.

Memory is asked for a few rows ahead, and not for many rows at once: a processor drops what it is asked for
while some two dozen answers are outstanding.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from viewlet.backends.native.columns import needed_here, open_column, used_columns
from viewlet.backends.native.forms import CValue, Form, Writer, cell_kind, form_of, stored_form
from viewlet.backends.native.operations import Operations, is_plain
from viewlet.backends.native.orders import orders_of
from viewlet.backends.native.scalars import Registry
from viewlet.backends.native.storage import CRecord
from viewlet.backends.native.whole import whole_order
from viewlet.calculus.nodes import Argument
from viewlet.core.scalar import Call, Scalar, Var, conjuncts
from viewlet.core.types import Kind
from viewlet.loops.nodes import Add, Block, Get, If, KeyColumn, Loop, Op, TableLoops

WEIGHTS = {
    "any": CValue("w", Form.I64, None, (-(1 << 31), (1 << 31) - 1)),
    "units": CValue("w", Form.I64, None, (-1, 1)),
    "ones": CValue("INT64_C(1)", Form.I64, None, (1, 1)),
}
"""The weight of a row in C. One that comes or goes more often at once is refused at the boundary."""

MOST_PREFETCHES = 12

Lookup: TypeAlias = tuple[str, tuple[tuple[int, Argument], ...]]
"""A record, and key positions of it with their arguments."""


AHEAD = 8
"""A step of a lookup comes so many rows before the next one, and the last twice as many before the lookup."""


@dataclass(frozen=True, slots=True)
class _Step:
    """Memory that can be asked for once the step before it has come: ``call`` with a key of the ``index``."""

    at: CRecord
    index: str
    keys: tuple[tuple[int, Argument], ...]
    call: str
    ahead: int
    what: str | None = None
    """What ``runtime/ahead.h`` calls it."""

    @property
    def column(self) -> Var:
        """The column that a single key is."""
        ((_, column),) = self.keys
        assert isinstance(column, Var)
        return column

    def entry(self, start: int) -> str:
        """The initializer of a ``vl_step_ahead`` whose column is at that place."""
        name = self.at.name
        key = self.at.record.keys[self.keys[0][0]]
        wide, narrow = (str(int(kind)) for kind in _widths(self.column, key))
        index = "0" if self.index == self.at.code else f"offsetof(program_state, {name}.{self.index})"
        at = f"offsetof(program_state, {name}.map), {index}"
        return f"{self.what}, {self.ahead}, {start}, {wide}, {narrow}, sizeof({self.at.code}_record), {at}"


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
    seen = loop.remember(body)
    with out.block("for (int64_t base = from; base < to; base += VL_ROWS)"):
        out.line("const int64_t end = to - base < VL_ROWS ? to : base + VL_ROWS;")
        loop.choose(conditions)
        texts = loop.intern(body)
        loop.run(body, texts, seen)
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

    def remember(self, body: Block) -> dict[str, str]:
        """By record, the C variable with its entries that rows met; NULL unless there are few, and many rows.

        Only triggers that are written again for common weights do: others are many, or not in a hurry.
        """
        if self.weight == WEIGHTS["any"]:
            return {}
        met = [self.records[name] for name in dict.fromkeys(_added_to(body)) if self.records[name].met]
        for at in met:
            places = f"{at.name}_places"
            self.out.line(f"{at.code}_met {places}[VL_MET];")
            pays = f"to - from > VL_MET && {at.code}_is_few({at.map})"
            self.out.line(f"{at.code}_met *const {at.name}_seen = {pays} ? {places} : NULL;")
            self.out.line(f"if ({at.name}_seen) memset({places}, 0, sizeof {places});")
        return {at.record.name: f"{at.name}_seen" for at in met}

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
            self.out.line(f"vl_intern_rows(x, &c{i}, base, end, {self._chosen}, n, ids{i});")
            null = f"(ids{i}[j] == 0)" if self.table.parameters[i].nullable else None
            texts[name] = CValue(f"ids{i}[j]", Form.TEXT, null)
        return texts

    def run(self, body: Block, texts: Mapping[str, CValue], seen: Mapping[str, str]) -> None:
        """The trigger itself, with what it asks for ahead where a table is too large for the cache."""
        names = {self.table.parameters[i].name for i in self.used}
        wanted = list(dict.fromkeys(_lookups(body, names, self.records)))[:MOST_PREFETCHES]
        looped = {(op.record, op.bound) for op in body if isinstance(op, Loop)}
        steps = [step for keyed in wanted for step in _steps(keyed, self.records, looped=keyed in looped)]
        steps += _tree_steps(body, names, self.records)
        listed = self._table(steps)
        spelled = [step for step in steps if step not in listed]
        for at in _records_of(spelled):
            self.out.line(f"const bool {at.name}_large = {_is_large(at)};")
        large = " || ".join(["asks"] * bool(listed) + [f"{at.name}_large" for at in _records_of(spelled)])
        lead = max((step.ahead for step in steps), default=0)
        if steps:
            self.out.line(f"const int64_t lead = VL_UNLIKELY({large}) ? {lead} : 0;")
        with self.out.block(f"for (int64_t j = {'-lead' if steps else '0'}; j < n; j++)"):
            if listed:
                self.out.line(f"if (asks) vl_ask_ahead(a, asked, asks, base, j, n, {self._chosen});")
            if spelled:
                self._ask(spelled)
            if steps:
                self.out.line("if (j < 0) continue;")
            self._place("j")
            if self.weight.text == "w":
                self.out.line("const int64_t w = weights ? weights[i] : 1;")
                self.out.line("(void)w;")
            row = self._row()
            row.met = seen
            for name, value in texts.items():
                row.names[name] = value
                del row.waiting[name]
            row.block(body)
            self.out.line("if (VL_UNLIKELY(a->errors)) return i;")

    def _table(self, steps: list[_Step]) -> list[_Step]:
        """The steps that a table tells in a program of many; see ``runtime/ahead.h``."""
        listed = [step for step in steps if self._is_listed(step)]
        if not listed:
            return []
        places = {var.name: i for i, var in enumerate(self.table.parameters)}
        columns = sorted({places[step.column.name] for step in listed})
        starts = ", ".join(f"c{i}.data" for i in columns)
        self.out.line(f"const void *const starts[] = {{{starts}}};")
        with self.out.block("static const vl_step_ahead steps[] ="):
            for step in listed:
                self.out.line(f"{{{step.entry(columns.index(places[step.column.name]))}}},")
        self.out.lines[-1] += ";"
        self.out.line(f"vl_asked asked[{len(listed)}];")
        self.out.line(f"const uint32_t asks = vl_plan_ahead(s, starts, steps, {len(listed)}, asked);")
        return listed

    def _is_listed(self, step: _Step) -> bool:
        """Has it a key of one column of whole numbers, of a map with nothing to it?"""
        if step.what is None or not step.at.once or len(step.keys) != 1 or whole_order(step.at) is not None:
            return False
        if not step.at.pooled and step.index == step.at.code:
            return False
        key = step.at.record.keys[step.keys[0][0]]
        nullable = key.nullable or self._column(step).nullable
        return not nullable and {cell_kind(key.type), cell_kind(step.column.type)} <= {"VL_INT32", "VL_INT64"}

    def _column(self, step: _Step) -> Var:
        """The column of the table that a step with one key reads."""
        return next(var for var in self.table.parameters if var.name == step.column.name)

    def _ask(self, steps: list[_Step]) -> None:
        """Steps of lookups for the rows further on, those of one row together."""
        with self.out.block("if (lead)"):
            for ahead in sorted({step.ahead for step in steps}, reverse=True):
                with self.out.block(f"if ((uint64_t)(j + {ahead}) < (uint64_t)n)"):
                    self._place(f"j + {ahead}")
                    row = self._row()
                    for step in (step for step in steps if step.ahead == ahead):
                        row.load_columns(step.keys)
                        key, _ = row.key(step.at, f"{step.index}_key", step.keys)
                        self.out.line(f"if ({step.at.name}_large) {step.call.format(key=f'&{key}')};")

    def _place(self, j: str) -> None:
        """``i`` is the place in the columns of the row that counts as number ``j``."""
        self.out.line(f"const int64_t i = base + {f'chosen[{j}]' if self.picky else j};")

    @property
    def _chosen(self) -> str:
        """The rows that count, for a function of the runtime: NULL if all do."""
        return "chosen" if self.picky else "NULL"

    def _row(self) -> Operations:
        names = {self.table.weight.name: self.weight}
        row = Operations(self.out, self.records, self.registry, names, weight=self.weight.text)
        row.waiting = {self.table.parameters[i].name: (i, self.table.parameters[i]) for i in self.used}
        return row


def _widths(column: Var, key: KeyColumn) -> tuple[bool, bool]:
    """Are the values of a column of 64 bits, and are those of a key of 32?"""
    return cell_kind(column.type) == "VL_INT64", stored_form(key.type)[1] == 4


def _records_of(steps: list[_Step]) -> list[CRecord]:
    return list(dict.fromkeys(step.at for step in steps))


def _is_large(at: CRecord) -> str:
    """The condition that the entries of a record have left the cache."""
    if whole_order(at) is None:
        return f"{at.code}_is_large({at.map})"
    return f"s->{at.name}.ordered_bytes > VL_LARGE_MAP * sizeof({at.code}_record)"


def _lookups(body: Block, columns: set[str], records: Mapping[str, CRecord]) -> Iterator[Lookup]:
    """Lookups that happen for every row, or as often as a loop has entries, under keys that are columns."""
    for op in _everywhere(body):
        match op:
            case Get(record, keys) if keys:
                wanted = [_placing(records[record], keys)]
            case Add(record, keys, later=False) if keys and whole_order(records[record]) is None:
                at = records[record]
                wanted = [_placing(at, keys), *(tuple((i, keys[i]) for i in p) for p in at.record.slices)]
            case Loop(record, bound) if bound:
                yield from _lookups(op.body, columns, records)
                wanted = [bound]
            case _:
                continue
        for keyed in wanted:
            if _are_columns(keyed, columns):
                yield record, keyed


def _added_to(body: Block) -> Iterator[str]:
    """The records with an entry that a row adds to without having seen it before."""
    for op in body:
        match op:
            case If(_, inner):
                yield from _added_to(inner)
            case Add(record, keys, later=False, found=None) if keys:
                yield record


def _everywhere(body: Block) -> Iterator[Op]:
    """The operations for every row, those too from which a condition only keeps NULL away."""
    for op in body:
        if isinstance(op, If) and all(map(_is_no_null, conjuncts(op.condition))):
            yield from _everywhere(op.body)
        else:
            yield op


def _is_no_null(condition: Scalar) -> bool:
    match condition:
        case Call("not", (Call("is_null"),)):
            return True
    return False


def _placing(at: CRecord, keys: tuple[Argument, ...]) -> tuple[tuple[int, Argument], ...]:
    """The keys that decide the place of an entry."""
    return tuple((i, keys[i]) for i in at.record.home or range(len(keys)))


def _steps(lookup: Lookup, records: Mapping[str, CRecord], *, looped: bool) -> Iterator[_Step]:
    """Slots of a hash table, then what they lead to; the entries of a slice, if there is a loop over them."""
    record, keys = lookup
    at, index = records[record], records[record].code
    if len(keys) == len(at.record.keys) or tuple(i for i, _ in keys) == at.record.home:
        calls, kinds = [f"{index}_prefetch(a, {at.map}, {{key}})"], ["SLOT", "RECORD"]
        if at.pooled:
            calls.append(f"{index}_prefetch_record(a, {at.map}, {{key}})")
    else:
        index = at.slice(tuple(i for i, _ in keys))
        slots, kinds = f"&s->{at.name}.{index}", ["SLICE", "IDS", "SLICED"]
        calls = [
            f"{index}_prefetch(a, {slots}, {{key}})",
            f"{index}_prefetch_ids(a, {slots}, {{key}})",
            f"{index}_prefetch_records(a, {at.map}, {slots}, {{key}})",
        ][: 3 if looped else 2]
    for later, (call, kind) in enumerate(reversed(list(zip(calls, kinds, strict=False)))):
        yield _Step(at, index, keys, call, AHEAD * (later + 2), f"VL_ASK_{kind}")


def _tree_steps(body: Block, columns: set[str], records: Mapping[str, CRecord]) -> Iterator[_Step]:
    """The trees of ordered indexes that are kept for each value of some columns: slots, trees, roots.

    Of a dense index, the cell and the sum of its eight. (What it has instead of a root, an array, begins in
    the same place.)
    """
    for op in _everywhere(body):
        if not isinstance(op, Add) or op.later:
            continue
        at = records[op.record]
        for order in orders_of(at):
            if order.order.dense and not order.sliced:
                keys = tuple(enumerate(op.keys))
                place = f"({{key}})->k{order.axis.position}"
                if _are_columns(keys, columns):
                    call = f"{order.name}_prefetch(a, &s->{at.name}.{order.name}, {place})"
                    yield _Step(at, at.name, keys, call, AHEAD)
            keys = tuple((i, op.keys[i]) for i in order.axis.by)
            if not keys or not _are_columns(keys, columns):
                continue
            trees, own = f"{order.name}s", f"&s->{at.name}.{order.name}"
            find = f"const {trees}_record *e = {trees}_find(a, {own}, {{key}})"
            root = "e->tree.tree.root" if order.order.dense else "e->tree.root"
            calls = [
                f"{trees}_prefetch(a, {own}, {{key}})",
                f"{trees}_prefetch_record(a, {own}, {{key}})",
                f"{{{{ {find}; if (e) vl_prefetch_node(a, {root}, sizeof({order.tree}_leaf)); }}}}",
            ]
            for later, call in enumerate(reversed(calls)):
                yield _Step(at, trees, keys, call, AHEAD * (later + 2))


def _are_columns(keys: tuple[tuple[int, Argument], ...], columns: set[str]) -> bool:
    """Are all keys numbers that came with the row?"""
    return all(isinstance(k, Var) and k.type.kind is not Kind.VARCHAR and k.name in columns for _, k in keys)
