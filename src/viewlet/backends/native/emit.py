"""A loop program as one C source: records, state, triggers, views, and the description of it all.

No name and no text of a user enters the source: things are numbered, and string constants are bytes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from viewlet.backends.native.additions import (
    added,
    change_entry,
    declare,
    every_field,
    remember,
    watch,
    write_additions,
    write_watch,
)
from viewlet.backends.native.build import Effort
from viewlet.backends.native.columns import used_columns
from viewlet.backends.native.feeds import Feed, fed_records, feeds_of, write_feeds
from viewlet.backends.native.flags import BITS, flag_words
from viewlet.backends.native.forms import Form, Writer, cell_kind, field_form, stored_form
from viewlet.backends.native.noting import note_seen, see
from viewlet.backends.native.operations import Operations
from viewlet.backends.native.orders import init_orders, keeps, write_keep
from viewlet.backends.native.rows import WEIGHTS, write_rows
from viewlet.backends.native.scalars import MEMO_BIAS, HostFunction, Registry
from viewlet.backends.native.storage import CRecord, name_records, write_record
from viewlet.backends.native.strings import native_answer
from viewlet.backends.native.whole import whole_order, write_shown
from viewlet.core.types import Kind, Type
from viewlet.loops.nodes import (
    Add,
    Gather,
    Get,
    LoopProgram,
    Op,
    Peak,
    Seek,
    Span,
    TableLoops,
    ViewLoops,
    Visit,
    blocks,
    operations,
)

INLINE_LOOKUPS = 8
"""Up to so many lookups in the triggers of a program are compiled in line, and for common weights apart."""

INLINE_SEARCHES = 40
"""The same for a program that mostly searches ordered indexes: a search and the sums that it keeps are worth
a third more time to compile."""

SEARCHED = 4
"""That is one with a search for every so many lookups."""

FEW_LOOKUPS = 4
"""Up to so many, also for insertions apart."""

MANY_LOOKUPS = 20
"""Beyond so many the compiler is asked for fewer passes, and for one copy of the longer arithmetic."""

MANY_SEARCHES = 44
"""The same for a program that searches ordered indexes."""

HUGE_LOOKUPS = 160
"""Beyond so many it is asked for small code."""

MOST_KEYS = 64
"""With more columns in a key too: hashing and comparing it is long, and to optimize that takes minutes."""


@dataclass(frozen=True, slots=True)
class Source:
    """C text, the order of what it numbers, and the functions that its host must know.

    The more there is of it, the less ``effort`` should go into each line: time to compile counts too. ``fed``
    names the views that tell what changes in them.
    """

    text: str
    records: tuple[str, ...]
    tables: tuple[str, ...]
    views: tuple[str, ...]
    functions: tuple[HostFunction, ...]
    effort: Effort
    fed: frozenset[str]


def emit(program: LoopProgram) -> Source:
    """The C source of a program."""
    lookups = _lookups(program)
    searched = SEARCHED * _searches(program) >= lookups
    apart = lookups > (INLINE_SEARCHES if searched else INLINE_LOOKUPS)
    effort = _effort(lookups, apart=apart, searched=searched)
    variants = () if apart else ("ones", "units") if lookups <= FEW_LOOKUPS else ("units",)
    feeds = feeds_of(program)
    crossing = any(
        isinstance(op, Visit) and not op.once for block in blocks(program) for op in operations(block)
    )
    fed = fed_records(feeds.values())
    again = {
        op.record
        for block in blocks(program)
        for op in operations(block)
        if isinstance(op, Gather) and op.again
    }
    once = effort in ("quick", "small")
    records = name_records(program.records, apart=apart, once=once, fed=fed, crossing=crossing, again=again)
    registry = Registry()
    code = Writer()
    write_feeds(code, feeds.values(), records, registry)
    for at in records.values():
        write_watch(code, at)
        if at.apart:
            write_additions(code, at)
    _write_flush(code, records.values(), {op.record for op in _put_off(program)})
    for i, table in enumerate(program.tables.values()):
        _write_table(code, i, table, records, registry, variants)
    for i, view in enumerate(program.views.values()):
        _write_view(code, i, view, feeds.get(view.name), records, registry)
    for at in records.values():
        _write_access(code, at)
    head = Writer()
    head.line("#define VL_HOSTED")
    if once:
        head.line("#define VL_LARGE")
    if effort == "small":
        head.line("#define VL_COMPACT")
    head.line('#include "program.h"')
    for at in records.values():
        if at.code == at.name:
            write_record(head, at, inline=not apart)
    functions = Writer()
    _write_functions(functions, registry)  # may add constants, which the state holds
    _write_state(head, records.values(), registry)
    head.lines += functions.lines
    for at in records.values():
        declare(head, at)
    head.lines += [text.replace("PROCEDURE", name, 1) for text, name in registry.procedures.items()]
    tail = Writer()
    _write_init(tail, records.values(), registry)
    _write_description(tail, program, feeds, records)
    text = "\n".join([*head.lines, *code.lines, *tail.lines, ""])
    return Source(
        text,
        tuple(records),
        tuple(program.tables),
        tuple(program.views),
        tuple(registry.functions),
        effort,
        frozenset(feeds),
    )


def _lookups(program: LoopProgram) -> int:
    """How many places of the triggers find or make an entry; many, where each is long."""
    if any(len(record.keys) > MOST_KEYS for record in program.records.values()):
        return HUGE_LOOKUPS + 1
    return sum(isinstance(op, Get | Add) for op in _in_triggers(program))


def _searches(program: LoopProgram) -> int:
    """How many places of the triggers go along an ordered index."""
    return sum(isinstance(op, Seek | Span | Peak | Visit) for op in _in_triggers(program))


def _in_triggers(program: LoopProgram) -> Iterator[Op]:
    triggers = (b for t in program.tables.values() for b in (t.on_tuple, t.on_change, t.on_batch))
    return (op for block in triggers for op in operations(block))


def _effort(lookups: int, *, apart: bool, searched: bool) -> Effort:
    if not apart:
        return "speed" if lookups <= INLINE_LOOKUPS else "searches"
    if lookups > HUGE_LOOKUPS:
        return "small"
    return "lookups" if lookups <= (MANY_SEARCHES if searched else MANY_LOOKUPS) else "quick"


def _put_off(program: LoopProgram) -> Iterable[Add]:
    return (op for block in blocks(program) for op in operations(block) if isinstance(op, Add) and op.later)


def _write_state(out: Writer, records: Iterable[CRecord], registry: Registry) -> None:
    with out.block("typedef struct"):
        out.line("vl_strings strings;")
        for at in records:
            out.line(f"{at.code}_{'store' if at.record.keys else 'record'} {at.name};")
        out.line(f"uint32_t constants[{max(len(registry.constants), 1)}];")
        out.line(f"vl_memo memos[{max(registry.memos, 1)}];")
    out.lines[-1] += " program_state;"


def _prologue(out: Writer) -> None:
    out.line("vl_arena *const a = &x->arena;")
    out.line("program_state *const s = x->state;")
    out.line("(void)a, (void)s;")


def _write_functions(out: Writer, registry: Registry) -> None:
    """Functions of one string that are remembered per id; id 0 stands for NULL."""
    for i, function in enumerate(registry.functions):
        if function.memo is None:
            continue
        kind = function.scalar.type
        with out.block(f"static uint32_t f{i}(vl_instance *x, uint32_t id)"):
            _prologue(out)
            memo = f"&s->memos[{function.memo}]"
            out.line(f"uint32_t y = vl_memo_get(a, {memo}, &s->strings, id);")
            out.line("if (VL_LIKELY(y != VL_UNKNOWN)) return y;")
            native = native_answer(function.scalar, registry.constants)
            if native is not None:
                out.line("const vl_text t = vl_string_at(a, &s->strings, id);")
                with out.block("if (id != 0 && vl_utf8_valid(t))"):
                    out.line(f"y = {native};")
                    out.line(f"vl_memo_put(a, {memo}, &s->strings, id, y);")
                    out.line("return y;")
            out.line("vl_cell in = {.as = {.text = id}, .null = id == 0}, answer = {0};")
            out.line(f"const bool done = x->call(x, {i}, &in, &answer);")
            member = "text" if kind.kind is Kind.VARCHAR else "i"
            bias = 0 if kind.kind in (Kind.VARCHAR, Kind.BOOLEAN) else MEMO_BIAS
            out.line(f"y = answer.null ? VL_NULL_ANSWER : (uint32_t)(answer.as.{member} + {bias});")
            out.line(f"if (done) vl_memo_put(a, {memo}, &s->strings, id, y);")
            out.line("return y;")


def _write_flush(out: Writer, records: Iterable[CRecord], late: set[str]) -> None:
    """Notes of additions that were put off, one type per record, and the function that does them."""
    noted = [at for at in records if at.record.name in late]
    for at in noted:
        with out.block("typedef struct __attribute__((aligned(16)))"):
            out.line("uint64_t record;")
            out.line(f"{at.code}_key key;")
            for i, field in enumerate(at.record.fields):
                out.line(f"{field_form(field.type).value} f{i};")
        out.lines[-1] += f" {at.name}_note;"
    if not noted:
        return
    with out.block("VL_COLD void flush_later(vl_instance *x)"):
        _prologue(out)
        with out.block("for (uint64_t at = 0; at < x->later.used;)"):
            out.line("const void *note = x->later.bytes + at;")
            with out.block("switch (*(const uint64_t *)note)"):
                for at in noted:
                    with out.block(f"case {at.name[1:]}:"):
                        out.line(f"const {at.name}_note *n = note;")
                        out.line(f"at += sizeof({at.name}_note);")
                        _write_into(out, at)
                        out.line("break;")
        out.line("x->later.used = 0;")


def _write_into(out: Writer, at: CRecord) -> None:
    """Add what a note says to every field of its entry."""
    amounts = every_field(at, "n->f{}")
    if at.record.keys:
        out.line(f"{at.code}_record *e = {at.code}_touch(a, {at.map}, &n->key);")
        change_entry(out, at, "e", amounts, whole=False)
        return
    remember(out, at, f"(&s->{at.name})")
    for member, amount in amounts:
        out.line(added(f"s->{at.name}.{member}", amount))
    watch(out, at, f"&s->{at.name}", [member for member, _ in amounts])


# Tables


def _write_table(
    out: Writer,
    number: int,
    table: TableLoops,
    records: dict[str, CRecord],
    registry: Registry,
    variants: Sequence[str],
) -> None:
    _write_tuple(out, f"t{number}_on_tuple", table, records, registry, variants)
    with _rows_function(out, f"t{number}_on_change"):
        write_rows(out, table, table.on_change, records, registry, WEIGHTS["any"])
    with out.block(f"static void t{number}_on_batch(vl_instance *x)"):
        _prologue(out)
        Operations(out, records, registry, {}).block(table.on_batch)
    with out.block(f"static void t{number}_clear(vl_instance *x)"):
        _prologue(out)
        for change in table.changes:
            at = records[change]
            if at.record.keys:
                out.line(f"{at.code}_clear(a, {at.map});")
            else:
                out.line(f"memset(&s->{at.name}, 0, sizeof s->{at.name});")


def _write_tuple(
    out: Writer,
    name: str,
    table: TableLoops,
    records: dict[str, CRecord],
    registry: Registry,
    variants: Sequence[str],
) -> None:
    """The trigger for rows; small programs have it again for rows without NULL that come once or go once."""
    block = table.on_tuple
    variants = variants if block else ()
    for variant in variants:
        with _rows_function(out, f"{name}_{variant}", kind="VL_HOT"):
            write_rows(out, table, block, records, registry, WEIGHTS[variant])
    with _rows_function(out, name, kind="VL_COLD" if variants else "static VL_APART"):
        nullable = (i for i in used_columns(table, block) if table.parameters[i].nullable)
        tests = "".join(f"!columns[{i}].valid && " for i in nullable)
        for variant in variants:
            call = f"{name}_{variant}(x, columns, weights, from, to)"
            out.line(f"if ({tests}vl_are_{variant}(weights, from, to)) return {call};")
        write_rows(out, table, block, records, registry, WEIGHTS["any"])


@contextmanager
def _rows_function(out: Writer, name: str, *, kind: str = "static VL_APART") -> Iterator[None]:
    """A ``vl_rows_function``; a cold one is made small."""
    parameters = "vl_instance *x, const vl_column *columns, const int64_t *weights, int64_t from, int64_t to"
    with out.block(f"{kind} int64_t {name}({parameters})"):
        _prologue(out)
        out.line("(void)columns, (void)weights;")
        yield


# Views and records


def _write_view(
    out: Writer,
    number: int,
    view: ViewLoops,
    feed: Feed | None,
    records: dict[str, CRecord],
    registry: Registry,
) -> None:
    with out.block(f"VL_COLD void v{number}_rows(vl_instance *x, void *sink, vl_emit emit)"):
        _prologue(out)
        out.line("(void)sink, (void)emit;")
        if feed is None:
            Operations(out, records, registry, {}).block(view.body)
            return
        at = records[feed.loop.record]
        following = f"{at.code}_next(a, {at.map}, e)"
        entries = f"{at.code}_record *e = {at.code}_next(a, {at.map}, NULL); e; e = {following}"
        out.line(f"for ({entries}) v{number}_at(x, e, sink, emit);")


def _write_access(out: Writer, at: CRecord) -> None:
    """Insertion and removal for callers that know the record by its description only."""
    if not at.record.keys:
        return
    name, whole = at.name, whole_order(at)
    if whole is not None:
        write_shown(out, at, whole)
    with out.block(f"VL_COLD void *{name}_touch_any(vl_instance *x, const void *key)"):
        _prologue(out)
        out.line(f"{at.code}_record *r = {at.code}_touch(a, {at.map}, key);")
        if whole is not None:
            out.line(f"if (r == &s->{name}.touched) {name}_load(a, &s->{name}, r);")
        see(out, at, "r")
        out.line("return r;")
    with out.block(f"VL_COLD void {name}_leave_any(vl_instance *x, void *entry)"):
        _prologue(out)
        out.line(f"{at.code}_record *r = entry;")
        note_seen(out, at, "r")
        out.line(f"{at.code}_leave(a, {at.map}, r);")
    if keeps(at):
        write_keep(out, at)


# The rest


def _write_init(out: Writer, records: Iterable[CRecord], registry: Registry) -> None:
    for i, value in enumerate(registry.constants):
        data = value.encode("utf-8", "surrogatepass")
        out.line(f"static const uint8_t constant_{i}[] = {{{', '.join(map(str, [*data, 0]))}}};")
    if registry.constants:
        texts = (f"{{constant_{i}, sizeof constant_{i} - 1}}" for i in range(len(registry.constants)))
        out.line(f"static const vl_text constants[] = {{{', '.join(texts)}}};")
    with out.block("VL_COLD bool init(vl_instance *x)"):
        _prologue(out)
        out.line("if (!vl_strings_init(a, &s->strings)) return false;")
        out.line("x->strings = &s->strings;")
        for at in records:
            if at.record.keys:
                out.line(f"if (!{at.code}_init(a, {at.map})) return false;")
            for positions in at.record.slices:
                index = at.slice(positions)
                out.line(f"if (!{index}_init(a, &s->{at.name}.{index})) return false;")
            init_orders(out, at)
        if registry.constants:
            with out.block(f"for (uint32_t i = 0; i < {len(registry.constants)}; i++)"):
                out.line("s->constants[i] = vl_intern(a, &s->strings, constants[i]);")
                out.line("vl_string_pin(a, &s->strings, s->constants[i]);")
        out.line("return a->errors == 0;")


def _kinds(out: Writer, name: str, kinds: Iterable[str]) -> None:
    out.line(f"static const uint8_t {name}[] = {{{', '.join([*kinds, '0'])}}};")


def _write_description(
    out: Writer, program: LoopProgram, feeds: Collection[str], records: dict[str, CRecord]
) -> None:
    for i, table in enumerate(program.tables.values()):
        used = {*used_columns(table, table.on_tuple), *used_columns(table, table.on_change)}
        _kinds(out, f"t{i}_kinds", (cell_kind(column.type) for column in table.table.columns))
        _kinds(out, f"t{i}_used", (str(int(c in used)) for c in range(len(table.parameters))))
    for at in records.values():
        _write_layout(out, at)
    for i, view in enumerate(program.views.values()):
        _kinds(out, f"v{i}_kinds", (cell_kind(kind) for _, kind in view.columns))
    tables = [
        f"{{{len(t.parameters)}, t{i}_kinds, t{i}_used, t{i}_on_tuple, t{i}_on_change, "
        f"t{i}_on_batch, t{i}_clear}}"
        for i, t in enumerate(program.tables.values())
    ]
    entries = [_description(at) for at in records.values()]
    views = [
        f"{{{len(v.columns)}, v{i}_kinds, v{i}_rows, {f'v{i}_after' if v.name in feeds else 'NULL'}}}"
        for i, v in enumerate(program.views.values())
    ]
    for kind, name, rows in (
        ("table", "tables", tables),
        ("record", "records", entries),
        ("view", "views", views),
    ):
        out.line(f"static const vl_{kind} {name}[] = {{{', '.join([*rows, '{0}'])}}};")
    sizes = f"{len(tables)}, {len(entries)}, {len(views)}"
    out.line("VL_EXPORT extern const vl_program_description vl_program;")
    out.line(
        f"const vl_program_description vl_program = {{VL_PROGRAM_ABI, {sizes}, tables, records, views, "
        f"sizeof(program_state), init, {'true' if any(at.noted for at in records.values()) else 'false'}}};"
    )


def _write_layout(out: Writer, at: CRecord) -> None:
    """Kinds, forms and offsets of the keys and fields of a record."""
    record = at.record
    columns = [(key.type, f"key.k{i}", _stored(key.type)) for i, key in enumerate(record.keys)]
    columns += [(field.type, f"f{i}", _summed(field.type)) for i, field in enumerate(record.fields)]
    _kinds(out, f"{at.name}_kinds", (cell_kind(kind) for kind, _, _ in columns))
    _kinds(out, f"{at.name}_forms", (form for _, _, form in columns))
    offsets = [f"offsetof({at.code}_record, {member})" for _, member, _ in columns]
    out.line(f"static const uint16_t {at.name}_offsets[] = {{{', '.join([*offsets, '0'])}}};")


def _stored(kind: Type) -> str:
    """The ``vl_form`` of a key column."""
    wide = "_WIDE" if kind.kind is Kind.DECIMAL else ""
    stored = stored_form(kind)[0]
    forms = {"int32_t": f"VL_AS_I32{wide}", "int64_t": f"VL_AS_I64{wide}", "vl_i128": "VL_AS_I128"}
    return forms.get(stored) or ("VL_AS_F64" if stored == "double" else "VL_AS_TEXT")


def _summed(kind: Type) -> str:
    """The ``vl_form`` of a field."""
    match field_form(kind):
        case Form.PAIR:
            return "VL_AS_PAIR"
        case Form.I128:
            return "VL_AS_I128"
        case _:
            return f"VL_AS_I64{'_WIDE' if kind.kind is Kind.DECIMAL else ''}"


def _description(at: CRecord) -> str:
    """The initializer of a ``vl_record``."""
    name, record = at.name, at.record
    flags = flag_words(record)
    nulls = f"{f'offsetof({at.code}_record, key.nulls)' if flags else 0}, {BITS * flags}"
    layout = ("VL_POOLED" if at.pooled else "VL_INPLACE") if record.keys else "VL_PLAIN"
    identity = f"offsetof({at.code}_record, id)" if record.keys and at.pooled else "0"
    access = f"{name}_touch_any, {name}_leave_any" if record.keys else "NULL, NULL"
    sizes = f"{layout}, {len(record.slices)}, sizeof({at.code}_record), {identity}"
    sizes += f", offsetof(program_state, {name})"
    sizes += f", offsetof(program_state, {name}.ordered_bytes)" if record.orders else ", 0"
    if record.keys and whole_order(at) is not None:
        shown = f"offsetof(program_state, {name}.shown)"
        access += f", {shown}, {name}_following, {name}_ordered_count"
    access += f", .keep = {name}_keep" if keeps(at) else ""
    arrays = f"{name}_kinds, {name}_forms, {name}_offsets"
    return f"{{{len(record.keys)}, {len(record.fields)}, {arrays}, {nulls}, {sizes}, {access}}}"
