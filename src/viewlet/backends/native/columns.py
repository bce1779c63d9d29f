"""Columns of a batch as C variables, loaded in the block that first needs them.

A row that a condition leaves out costs no more than the columns of the condition: text in particular is
interned only for rows that count.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from viewlet.backends.native.forms import CValue, Form, Writer, cell_kind, form_of
from viewlet.core.node import walk
from viewlet.core.scalar import Var
from viewlet.loops.nodes import Block, If, Op, TableLoops
from viewlet.loops.ranges import type_interval


def used_columns(table: TableLoops, block: Block) -> list[int]:
    """The columns that a block reads."""
    read = {name for op in block for name in _names(op)}
    return [i for i, var in enumerate(table.parameters) if var.name in read]


def needed_here(block: Block, waiting: Iterable[str]) -> list[str]:
    """Those of the waiting columns that a block must load itself: all but what only one condition guards."""
    users: dict[str, list[Op]] = {name: [] for name in waiting}
    if not users:
        return []
    for op in block:
        for name in _names(op) & users.keys():
            users[name].append(op)
    return [name for name, ops in users.items() if ops and not _is_guarded(name, ops)]


def _is_guarded(name: str, users: list[Op]) -> bool:
    match users:
        case [If(condition)]:
            return name not in {node.name for node in walk(condition) if isinstance(node, Var)}
        case _:
            return False


@lru_cache(maxsize=10_000)
def _names(op: Op) -> frozenset[str]:
    """The variables in an operation, which the blocks around it are asked for, too."""
    return frozenset({node.name for node in walk(op) if isinstance(node, Var)})


def open_column(out: Writer, i: int, var: Var) -> None:
    """A function's own copy ``ci`` of a column: the compiler knows that no write to a record changes it."""
    width = {"VL_BOOLEAN": 0, "VL_INT32": 4, "VL_DECIMAL": 16}.get(cell_kind(var.type), 8)
    out.line(f"const vl_column c{i} = vl_column_start(columns[{i}], {width});")


def load(out: Writer, i: int, var: Var) -> CValue:
    """Column ``i`` of the present row; NULL has the value 0."""
    form = form_of(var.type)
    match cell_kind(var.type):
        case "VL_BOOLEAN":
            text = f"vl_bit(c{i}.data, c{i}.from + i)"
        case "VL_INT32":
            text = f"((const int32_t *)c{i}.data)[i]"
        case "VL_INT64":
            text = f"((const int64_t *)c{i}.data)[i]"
        case "VL_DOUBLE":
            text = f"((const double *)c{i}.data)[i] + 0.0"
        case "VL_DECIMAL" if form is Form.I64:
            text = f"vl_column_narrow(&c{i}, i)"
        case "VL_DECIMAL":
            text = f"vl_column_decimal(&c{i}, i)"
        case _:
            text = f"vl_intern_quickly(x, vl_column_text(&c{i}, i))"
    null = None
    if var.nullable:
        null = f"p{i}_null"
        out.line(f"const bool {null} = vl_column_null(&c{i}, i);")
        text = f"{null} ? 0 : {text}"
        out.line(f"(void){null};")
    out.line(f"const {form.value} p{i} = ({form.value})({text});")
    out.line(f"(void)p{i};")
    return CValue(f"p{i}", form, null, type_interval(var.type))
