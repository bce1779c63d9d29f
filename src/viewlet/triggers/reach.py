"""Which maps a view needs, and which statements keep them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from viewlet.triggers.order import reads
from viewlet.triggers.program import Program, Statement, View


def needed_maps(views: Iterable[View], statements: Mapping[str, Iterable[Statement]]) -> set[str]:
    """The maps that views read, that their statements read, and so on; ``statements`` are by target."""
    needed: set[str] = set()
    queue = [name for view in views for part in view.output for name in reads((part.term,))]
    while queue:
        current = queue.pop()
        if current not in needed:
            needed.add(current)
            queue.extend(name for s in statements.get(current, ()) for name in reads(s.query))
    return needed


def statements_by_target(program: Program) -> dict[str, list[Statement]]:
    """Every statement of a program, tuple and batch triggers alike, by the map it keeps."""
    found: dict[str, list[Statement]] = {}
    for trigger in (*program.triggers.values(), *program.batch_triggers.values()):
        for statement in trigger.statements:
            found.setdefault(statement.target, []).append(statement)
    return found


def part_of(program: Program, view: str) -> Program:
    """The part of a program that keeps one view."""
    needed = needed_maps([program.views[view]], statements_by_target(program))
    return Program(
        tables=program.tables,
        maps={name: m for name, m in program.maps.items() if name in needed},
        triggers={table: t.only(needed) for table, t in program.triggers.items() if t.touches(needed)},
        batch_triggers={
            table: t.only(needed) for table, t in program.batch_triggers.items() if t.touches(needed)
        },
        views={view: program.views[view]},
    )
