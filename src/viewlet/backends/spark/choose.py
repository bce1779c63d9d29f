"""Which of several placements: the rule of ``place.py``, unless another table's key saves moving whole maps.

The rule partitions by the largest table. A query whose nested parts correlate on a smaller one then has to
move maps at every batch; partitioning by the smaller table's key keeps them where they are. Candidates are
the rule, and the rule with one table put first; the cheapest by the cost of its routes is taken, the rule
itself where it moves no map.
"""

from __future__ import annotations

from collections.abc import Mapping

from viewlet.backends.spark.nodes import Local, Location, Random
from viewlet.backends.spark.place import entities, place
from viewlet.backends.spark.route import MOVED_MAP, Router
from viewlet.triggers.program import Program, Statement


def choose_placement(
    program: Program,
    rows: Mapping[str, int],
    partition_by: Mapping[str, str],
    changes_at: Local | Random,
) -> dict[str, Location]:
    """A location for every map of a program."""
    best = place(program, rows, partition_by)
    least = placement_cost(program, best, changes_at)
    if least < MOVED_MAP:
        return best
    for first in entities(program):
        candidate = place(program, rows, partition_by, first=first)
        cost = placement_cost(program, candidate, changes_at)
        if cost < least:
            best, least = candidate, cost
    return best


def placement_cost(program: Program, placement: Mapping[str, Location], changes_at: Local | Random) -> float:
    """The dearest trigger, since tables change in turn: the price of its routes."""
    router = Router(placement, changes_at)
    triggers = {**program.triggers, **program.batch_triggers}
    return max(
        (
            sum(_statement_cost(router, placement, s) for s in trigger.statements)
            for trigger in triggers.values()
        ),
        default=0.0,
    )


def _statement_cost(router: Router, placement: Mapping[str, Location], statement: Statement) -> float:
    target = placement[statement.target]
    return sum(router.price(term, statement.keys, target) for term in statement.query)
