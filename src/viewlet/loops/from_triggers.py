"""Maintenance programs to loops."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, TypeAlias

from viewlet.calculus.events import WEIGHT, TupleEvent
from viewlet.calculus.nodes import Argument
from viewlet.core.scalar import Call, Const, Scalar, Var, call, substitute
from viewlet.core.types import BIGINT
from viewlet.loops.access import choose_access
from viewlet.loops.builder import BlockBuilder, Variables
from viewlet.loops.fuse import fuse_guards
from viewlet.loops.guards import guard_sums
from viewlet.loops.lower import Env, Lowering, named
from viewlet.loops.nodes import (
    Add,
    Assign,
    Block,
    Emit,
    Gather,
    KeyColumn,
    LoopProgram,
    Op,
    Product,
    TableLoops,
    ViewLoops,
    blocks,
    operations,
)
from viewlet.loops.order import reads_before_writes
from viewlet.loops.reuse import reuse_lookups
from viewlet.loops.searches import keep_sums
from viewlet.loops.storage import Storage, open_storage, widened
from viewlet.loops.totals import fuse_totals
from viewlet.sql.catalog import Table
from viewlet.triggers.order import reads
from viewlet.triggers.program import Program, Statement, Trigger, View

Batches: TypeAlias = Literal["useful", "all"]


def triggers_to_loops(program: Program, *, batches: Batches = "useful", ordered: bool = True) -> LoopProgram:
    """The loops of a program; a table has loops for batches where something is recomputed, or always.

    Without ``ordered`` indexes everything that they would answer is scanned.

    Key columns start with the types of the maps' definitions; where a statement adds a wider key, the column
    is widened and everything lowered again, until all fits.
    """
    keys: dict[tuple[str, int], KeyColumn] = {}
    while True:
        storage = open_storage(program, keys, ordered=ordered)
        lowered = _lower(program, storage, batches)
        wider = {
            (op.record, i): column
            for block in blocks(lowered)
            for op in operations(block)
            if isinstance(op, Add)
            for i, (old, argument) in enumerate(zip(lowered.records[op.record].keys, op.keys, strict=True))
            if (column := widened(keys.get((op.record, i), old), argument)) != old
        }
        if not wider:
            return lowered
        keys |= wider


def _lower(program: Program, storage: Storage, batches: Batches) -> LoopProgram:
    tables = {
        name: _table(program, storage, table, batches)
        for name, table in program.tables.items()
        if name in program.triggers or name in program.batch_triggers
    }
    views = {name: _view(view, storage) for name, view in program.views.items()}
    draft = LoopProgram(storage.records, storage.layout.places, tables, views)
    records = choose_access(storage.records, blocks(draft), storage.decide, storage.is_constant)
    scanned = tuple(sorted(storage.scanned))
    return guard_sums(LoopProgram(records, storage.layout.places, tables, views, scanned))


def _table(program: Program, storage: Storage, table: Table, batches: Batches) -> TableLoops:
    variables = Variables()
    parameters = tuple(
        variables.of(("column", i), var.name, var.type, var.nullable)
        for i, var in enumerate(TupleEvent(table).parameters)
    )
    weight = variables.of("weight", "w", BIGINT, False)
    row: Env = {f"@{column.name}": var for column, var in zip(table.columns, parameters, strict=True)}
    given = row | {WEIGHT.name: weight}
    on_tuple = keep_sums(_trigger(program.triggers.get(table.name), storage, variables, given))
    many = program.batch_triggers.get(table.name)
    batched = many is not None and (batches == "all" or bool(many.recomputations))
    many = many if batched else None
    on_batch = keep_sums(_trigger(many, storage, Variables(), {}))
    changes = storage.changes.get(table.name, []) if batched else []
    on_change = BlockBuilder(Variables())
    for change in changes:
        block = on_change
        for i, constant in change.constants:
            block = block.when(call("==", parameters[i], constant))
        keys = tuple(parameters[i] for i in change.columns)
        block.add(change.record, keys, "n", Product(1, (weight,)))
        block.add(change.record, keys, "a", Product(1, (Call("abs", (weight,), BIGINT),)))
    return TableLoops(
        table,
        parameters,
        weight,
        on_tuple,
        on_change.freeze(),
        on_batch,
        tuple(change.record for change in changes),
        batched,
    )


def _trigger(trigger: Trigger | None, storage: Storage, variables: Variables, env: Env) -> Block:
    """Increments on the old state, then recomputations on the new one, in their order."""
    if trigger is None:
        return ()
    lowering = Lowering(storage)
    root = BlockBuilder(variables)
    for statement in trigger.increments:
        _add(lowering, statement, root, env)
    increments = fuse_totals(fuse_guards(root.freeze()))
    ops: list[Op] = [*reuse_lookups(reads_before_writes(increments), storage.records)]
    for group in _groups(trigger.recomputations, storage, env):
        variables.phase += 1
        ops += fuse_totals(_recompute(lowering, group, BlockBuilder(variables), env))
    return tuple(ops)


def _add(lowering: Lowering, statement: Statement, block: BlockBuilder, env: Env) -> None:
    place = lowering.storage.layout.places[statement.target]

    def put(at: BlockBuilder, found: Env, product: Product) -> None:
        at.add(place.record, _target(statement, place.order, found), place.field, product)

    lowering.query(statement.query, block, env, put)


def _target(statement: Statement, order: Sequence[int], env: Env) -> tuple[Argument, ...]:
    keys: list[Argument] = []
    for i in order:
        key = substitute(statement.keys[i], env)
        assert isinstance(key, Var | Const)
        keys.append(key)
    return tuple(keys)


def _groups(statements: Iterable[Statement], storage: Storage, env: Env) -> Iterable[list[Statement]]:
    """Statements in a row that recompute fields of one record, of one entry or all, and do not read it."""
    group: list[Statement] = []
    last = None
    for statement in statements:
        place = storage.layout.places[statement.target]
        entry = _target(statement, place.order, env) if statement.is_of_one_entry else None
        read = {storage.layout.places[name].record for name in reads(statement.query)}
        if group and (place.record in read or last != (place.record, entry)):
            yield group
            group = []
        group.append(statement)
        last = place.record, entry
    if group:
        yield group


def _recompute(lowering: Lowering, group: list[Statement], block: BlockBuilder, env: Env) -> Block:
    """``R{n, s} := ..``: by totals if one entry is replaced, else through a temporary.

    ``R{n, s} := 0`` with all fields of R empties it.
    """
    storage = lowering.storage
    record = storage.records[storage.layout.places[group[0].target].record]
    fields = [storage.layout.places[statement.target].field for statement in group]
    one = group[0].is_of_one_entry
    if not one and len(fields) == len(record.fields) and not any(s.query for s in group):
        return (Gather(record.name, ()),)
    if one:
        entry = _target(group[0], storage.layout.places[group[0].target].order, env)
        old = block.get(record, entry)
        for statement, name in zip(group, fields, strict=True):
            kind = next(f.type for f in record.fields if f.name == name)
            new = lowering.total(statement.query, block, env, kind, f"new_{name}")
            block.add(record.name, entry, name, Product(1, (new,)))
            block.add(record.name, entry, name, Product(-1, (old.read(name),)))
        return block.freeze()
    inner = BlockBuilder(block.variables, block)
    for statement, name in zip(group, fields, strict=True):
        order = storage.layout.places[statement.target].order

        def put(
            at: BlockBuilder,
            found: Env,
            product: Product,
            statement: Statement = statement,
            order: Sequence[int] = order,
            name: str = name,
        ) -> None:
            at.add("", _target(statement, order, found), name, product)

        lowering.query(statement.query, inner, env, put)
    body = fuse_guards(inner.freeze())
    typed = tuple((f.name, f.type) for f in record.fields if f.name in fields)
    keys = tuple(Var(key.name, key.type, key.nullable) for key in record.keys)
    name = storage.temporary((record.name, body), keys, typed)
    assign = Assign(record.name, tuple(n for n, _ in typed), name)
    return (*block.freeze(), Gather(name, named(body, name), again=True), assign)


def _view(view: View, storage: Storage) -> ViewLoops:
    lowering = Lowering(storage)
    root = BlockBuilder(Variables())
    for part in view.output:
        row = part.row

        def emit(at: BlockBuilder, found: Env, product: Product, row: tuple[Scalar, ...] = row) -> None:
            at.last(Emit(tuple(substitute(scalar, found) for scalar in row), (product,)))

        lowering.term(part.term, root, {}, emit)
    return ViewLoops(view.name, view.columns, keep_sums(fuse_totals(root.freeze())))
