"""How maintenance programs read: maps with their definitions, then one block per table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, TypeAlias

from viewlet.calculus.nodes import Query
from viewlet.calculus.text import show_query, show_term
from viewlet.core.text import show
from viewlet.triggers.program import MapDefinition, Program, Statement, Trigger, View

Granularity: TypeAlias = Literal["tuple", "batch"]


def show_program(program: Program, granularity: Granularity = "tuple") -> str:
    """The text of a program with its triggers for single rows, or for batches."""
    triggers = program.triggers if granularity == "tuple" else program.batch_triggers
    blocks = [
        [show_map(definition) for definition in program.maps.values()],
        *(show_trigger(trigger) for trigger in triggers.values()),
        *(show_view(view) for view in program.views.values()),
    ]
    return "\n\n".join("\n".join(block) for block in blocks)


def show_map(definition: MapDefinition) -> str:
    """``map M[keys]: type := definition``"""
    keys = ", ".join(key.name for key in definition.keys)
    return f"map {definition.name}[{keys}]: {definition.type} := {show_query(definition.definition)}"


def show_trigger(trigger: Trigger) -> Iterator[str]:
    """``on table:`` and its statements."""
    yield f"on {trigger.table}:"
    for statement in trigger.statements:
        yield f"  {show_statement(statement)}"


def show_statement(statement: Statement) -> str:
    """``M[keys] += query``"""
    keys = ", ".join(show(key) for key in statement.keys)
    return f"{statement.target}[{keys}] {statement.op} {_sum(statement.query)}"


def show_view(view: View) -> Iterator[str]:
    """``view V:`` and where its rows come from."""
    yield f"view {view.name}({', '.join(f'{name} {kind}' for name, kind in view.columns)}):"
    for part in view.output:
        yield f"  ({', '.join(show(scalar) for scalar in part.row)}) from {show_term(part.term)}"


def _sum(query: Query) -> str:
    return "\n      + ".join(map(show_term, query))
