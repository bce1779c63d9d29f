"""How distributed programs read: maps with their locations, then one list of blocks per table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from viewlet.backends.spark.nodes import (
    Compute,
    Dist,
    DistProgram,
    DistStatement,
    DistTrigger,
    Local,
    Location,
    Random,
    Replicated,
    Transfer,
)
from viewlet.calculus.text import show_term
from viewlet.core.text import show
from viewlet.plan.nodes import Top
from viewlet.triggers.program import Program


def show_placement(program: Program, distributed: DistProgram) -> str:
    """``map M[keys] at location``, line by line."""
    return "\n".join(
        f"map {name}[{', '.join(key.name for key in program.maps[name].keys)}] "
        f"at {show_location(where, [key.name for key in program.maps[name].keys])}"
        for name, where in distributed.placement.items()
    )


def show_spread(distributed: DistProgram) -> Iterator[str]:
    """``view V: rows of each partition``, or how many of them at first, line by line."""
    for name in sorted(distributed.spread):
        plan = distributed.tops[name].plan if name in distributed.tops else None
        most = f"first {plan.limit} rows" if isinstance(plan, Top) else "rows"
        yield f"view {name}: {most} of each partition"


def show_location(location: Location, keys: list[str]) -> str:
    """``Local``, ``Dist(key)``, ``Random`` or ``Replicated``."""
    match location:
        case Local() | Random() | Replicated():
            return type(location).__name__
        case Dist(position):
            return f"Dist({keys[position]})"
        case _:
            assert_never(location)


def show_distributed(program: Program, distributed: DistProgram) -> str:
    """The whole distributed program as text."""
    triggers = [*distributed.batch.values(), *distributed.tuple.values()]
    heads = [show_placement(program, distributed), *show_spread(distributed)]
    blocks = ["\n".join(heads), *("\n".join(show_trigger(t)) for t in triggers)]
    return "\n\n".join(blocks)


def show_trigger(trigger: DistTrigger) -> Iterator[str]:
    """``on table: n jobs, m stages`` and the statements of its blocks."""
    yield f"on {trigger.table}: {_count(trigger.jobs, 'job')}, {_count(trigger.stages, 'stage')}"
    if trigger.dealt is not None:
        yield f"  rows by {trigger.dealt.column}: {', '.join(trigger.dealt.columns)}"
    for block in trigger.blocks:
        yield f"  {'driver' if block.mode == 'local' else 'partitions'}:"
        for statement in block.statements:
            yield f"    {show_dist_statement(statement)}"


def show_dist_statement(statement: DistStatement) -> str:
    """``M[keys] op query`` or ``t := Repart<1>(s)``."""
    match statement:
        case Transfer(movement, target, source, position):
            by = "" if position is None else f"<{position}>"
            return f"{target} := {movement}{by}({source})"
        case Compute(_, target, keys, op, query):
            terms = " + ".join(map(show_term, query)) or "0"
            return f"{target}[{', '.join(map(show, keys))}] {op} {terms}"
        case _:
            assert_never(statement)


def _count(n: int, what: str) -> str:
    return f"{n} {what}{'' if n == 1 else 's'}"
