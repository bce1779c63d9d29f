"""How loops read; see ``nodes.py`` for the notation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import assert_never

from viewlet.calculus.nodes import Argument
from viewlet.core.scalar import Var
from viewlet.core.text import show
from viewlet.loops.nodes import (
    Add,
    Along,
    Amount,
    Assign,
    Best,
    Bind,
    Block,
    Emit,
    Flush,
    Gather,
    Get,
    If,
    Limit,
    Loop,
    LoopProgram,
    Offer,
    Op,
    Order,
    Peak,
    Pending,
    Product,
    Read,
    Record,
    Seek,
    Span,
    TableLoops,
    Total,
    Turn,
    Visit,
    Yield,
)

_END = {"min": "least", "max": "greatest"}


def show_loops(program: LoopProgram) -> str:
    """The text of a whole program: records, then what each table's changes do, then the views."""
    parts = [[show_record(record) for record in program.records.values()]]
    parts += [list(_table(table)) for table in program.tables.values()]
    parts += [[f"view {view.name}:", *show_block(view.body, "  ")] for view in program.views.values()]
    return "\n\n".join("\n".join(part) for part in parts)


def show_record(record: Record) -> str:
    """``record R[key TYPE]{field TYPE} by (key)``"""
    keys = ", ".join(f"{k.name} {k.type}{'' if k.nullable else ' NOT NULL'}" for k in record.keys)
    fields = ", ".join(f"{field.name} {field.type}" for field in record.fields)
    names = [key.name for key in record.keys]
    slices = "".join(f" by ({', '.join(names[i] for i in positions)})" for positions in record.slices)
    orders = "".join(f" {_order(order, names)}" for order in record.orders)
    role = "record" if record.role == "map" else record.role
    home = f" at ({', '.join(names[i] for i in record.home)})" if record.home else ""
    array = "" if record.array is None else f" as array by {names[record.array]}"
    return f"{role} {record.name}[{keys}]{{{fields}}}{home}{array}{slices}{orders}"


def _order(order: Order, names: list[str]) -> str:
    """``ordered by key {sums}``, or what else it holds; ``key of (others)`` where it is apart for them."""
    axis = order.axis
    held = order.fields if axis.of is None else (f"{_END[axis.holds]} {names[axis.of]}",)
    key = names[axis.position]
    if axis.holds != "sums" and axis.by:
        key += f" of ({', '.join(names[i] for i in axis.by)})"
    return f"ordered by {key}" if axis.holds == "levels" else f"ordered by {key} {{{', '.join(held)}}}"


def _table(table: TableLoops) -> Iterator[str]:
    yield f"on {table.table.name}:"
    yield from show_block(table.on_tuple, "  ")
    if not table.batched:
        return
    yield f"on {table.table.name} batch, each row:"
    yield from show_block(table.on_change, "  ")
    yield f"on {table.table.name} batch, then:"
    yield from show_block(table.on_batch, "  ")


def show_block(block: Block, indent: str = "") -> Iterator[str]:
    """The lines of a block."""
    for op in block:
        yield from (f"{indent}{line}" for line in show_op(op))


def show_op(op: Op) -> Iterator[str]:
    """The lines of one operation."""
    match op:
        case Bind(var, scalar):
            yield f"{var.name} = {show(scalar)}"
        case Get(record, keys, reads, found):
            yield f"get {record}[{_keys(keys)}] -> {_reads((*reads, ('found', found)))}"
        case Loop(record, bound, binds, reads, body):
            yield f"for {record}[{_pattern(dict(bound), dict(binds))}] -> {_reads(reads)}:"
            yield from show_block(body, "  ")
        case If(condition, body):
            yield f"if {show(condition)}:"
            yield from show_block(body, "  ")
        case Total(variables, body):
            yield f"{', '.join(var.name for var in variables)} = total:"
            yield from show_block(body, "  ")
        case Yield(amounts):
            yield f"yield {', '.join(map(show_amount, amounts))}"
        case Best(var, kind, body):
            yield f"{var.name} = {_END[kind]}:"
            yield from show_block(body, "  ")
        case Offer(scalar):
            yield f"offer {show(scalar)}"
        case Add(record, keys, amounts, later, found, _):
            shown = ", ".join(f"{name}: {show_amount(amount)}" for name, amount in amounts)
            seen = f" at {found.name}" if found is not None else ""
            yield f"{'later ' if later else ''}{record}[{_keys(keys)}]{seen} += {shown}"
        case Flush():
            yield "flush"
        case Gather(record, body):
            yield f"gather {record}:"
            yield from show_block(body, "  ")
        case Assign(record, fields, temporary):
            yield f"{record}{{{', '.join(fields)}}} := {temporary}"
        case Emit(row, amount):
            yield f"emit ({', '.join(map(show, row))}) * {show_amount(amount)}"
        case Turn(edge, _, key, always, closed):
            yield f"turn {edge.name} -> key: {key.name}, {'first' if closed else 'last'}: {always.name}"
        case Pending(edge):
            yield f"pending {edge.name}"
        case Seek():
            yield from _seek(op)
        case Span(along, start, stop, reads, needs, scans):
            yield f"span {_along(along, f'*{_ends(start, stop)}')} -> {_reads(reads)}"
            rounded = [f"{along.record}.{name}" for name, var in reads if var.type.is_floating]
            yield from _otherwise(needs, scans, rounded)
        case Peak(var, along, start, stop, needs, scan):
            yield f"{var.name} = {_END[along.axis.holds]} {_along(along, f'*{_ends(start, stop)}')}"
            yield from _otherwise(needs, scan)
        case Visit(along, start, stop, key, down, once, body, present, needs, scan):
            way = " down" * down + " once" * once
            summed = "" if present is None else f" {{{present}}}"
            yield f"visit{way} {_along(along, f'*{key.name}: {_ends(start, stop)}')}{summed}:"
            yield from show_block(body, "  ")
            yield from _otherwise(needs, scan)
        case _:
            assert_never(op)


def _otherwise(
    needs: tuple[tuple[str, str], ...], scans: Block, rounded: Sequence[str] = ()
) -> Iterator[str]:
    whens = [f"{', '.join(f'{record}.{name}' for record, name in needs)} < 0 somewhere"] if needs else []
    whens += [f"sums of {', '.join(rounded)} are not exact"] if rounded and scans else []
    if whens:
        yield f"  or, if {' or '.join(whens)}:"
        yield from show_block(scans, "    ")


def _seek(op: Seek) -> Iterator[str]:
    """By key, or by sums: ``{n: x}`` up to a point of the order, ``{.. n: x}`` behind it; or by the best."""
    best = _END.get(op.along.axis.holds)
    sums = ", ".join(f"{'.. ' * r.behind}{r.field or best}: {r.var.name}" for r in op.sums)
    key = op.key.name if op.key is not None else "<=" if op.closed else "<"
    yield f"seek {op.edge.name} along {_along(op.along, f'*{key}')}{f' {{{sums}}}' * bool(sums)}:"
    yield from show_block((*op.first, *op.body), "  ")
    yield f"  {'while' if op.holds else 'until'} {' and '.join(map(show, op.conditions))}"


def _along(along: Along, point: str) -> str:
    keys = {i: show(argument) for i, argument in along.bound} | {along.axis.position: point}
    return f"{along.record}[{', '.join(keys[i] for i in sorted(keys))}]"


def _ends(start: Limit | None, stop: Limit | None) -> str:
    return f"{_end(start)} to {_end(stop)}".strip()


def _end(limit: Limit | None) -> str:
    return "" if limit is None else limit.edge.name


def show_amount(amount: Amount) -> str:
    """A sum of products."""
    return " + ".join(map(_product, amount)) or "0"


def _product(product: Product) -> str:
    factors = [f"({show(f)})" if not isinstance(f, Var) else f.name for f in product.factors]
    if product.coefficient != 1 or not factors:
        factors.insert(0, str(product.coefficient))
    return "*".join(factors)


def _keys(keys: tuple[Argument, ...]) -> str:
    return ", ".join(map(show, keys))


def _reads(reads: tuple[Read, ...]) -> str:
    return ", ".join(f"{field}: {var.name}" for field, var in reads)


def _pattern(bound: Mapping[int, Argument], binds: Mapping[int, Var]) -> str:
    width = len(bound) + len(binds)
    return ", ".join(show(bound[i]) if i in bound else f"*{binds[i].name}" for i in range(width))
