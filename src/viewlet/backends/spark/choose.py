"""Which of several placements: the rule of ``place.py``, unless something else saves moving whole maps.

The rule partitions by the largest table. A query whose nested parts correlate on a smaller one then has to
move maps at every batch; partitioning by the smaller table's key keeps them where they are. Candidates are
the rule, and the rule with one table put first; the cheapest by the cost of its routes is taken, the rule
itself where it moves no map.

A map of the driver that the partitions would be sent at every batch is then kept by them too, if that makes
no table's batches dearer: what travels is its change, and nobody waits for the driver.
"""

from __future__ import annotations

from collections.abc import Mapping

from viewlet.backends.spark.nodes import Local, Location, Random, Replicated
from viewlet.backends.spark.place import entities, place
from viewlet.backends.spark.route import MOVED_MAP, Router
from viewlet.calculus.nodes import MapRef
from viewlet.triggers.program import Program, Statement, Trigger


def choose_placement(
    program: Program,
    rows: Mapping[str, int],
    partition_by: Mapping[str, str],
    changes_at: Local | Random,
) -> dict[str, Location]:
    """A location for every map of a program."""
    best = place(program, rows, partition_by)
    least = placement_cost(program, best, changes_at)
    for first in entities(program) if least >= MOVED_MAP else ():
        candidate = place(program, rows, partition_by, first=first)
        cost = placement_cost(program, candidate, changes_at)
        if cost < least:
            best, least = candidate, cost
    return replicate(program, best, changes_at)


def replicate(
    program: Program, placement: Mapping[str, Location], changes_at: Local | Random
) -> dict[str, Location]:
    """``M at Local`` -> ``M at Replicated``, where partitions would be sent all of M at every batch."""
    found = dict(placement)
    costs: dict[str, float] | None = None
    for name in _sent_whole(program, placement, changes_at):
        costs = costs or _trigger_costs(program, found, changes_at)
        candidate = found | {name: Replicated()}
        after = _trigger_costs(program, candidate, changes_at)
        if after != costs and all(after[table] <= cost for table, cost in costs.items()):
            found, costs = candidate, after
    return found


def placement_cost(program: Program, placement: Mapping[str, Location], changes_at: Local | Random) -> float:
    """The dearest trigger, since tables change in turn: the price of its routes."""
    return max(_trigger_costs(program, placement, changes_at).values(), default=0.0)


def _trigger_costs(
    program: Program, placement: Mapping[str, Location], changes_at: Local | Random
) -> dict[str, float]:
    router = Router(placement, changes_at)
    return {
        table: sum(_statement_cost(router, placement, statement) for statement in trigger.statements)
        for table, trigger in _triggers(program).items()
    }


def _statement_cost(router: Router, placement: Mapping[str, Location], statement: Statement) -> float:
    target = placement[statement.target]
    return sum(router.price(term, statement.keys, target) for term in statement.query)


def _sent_whole(program: Program, placement: Mapping[str, Location], changes_at: Local | Random) -> list[str]:
    """The driver's maps that some route has to bring to the partitions."""
    router = Router(placement, changes_at)
    statements = [s for trigger in _triggers(program).values() for s in trigger.statements]
    fetched = {
        fetch.atom.name
        for statement in statements
        for term in statement.query
        for leg in router.route(term, statement.keys, placement[statement.target])
        for fetch in leg.fetches
        if isinstance(fetch.atom, MapRef)
    }
    return [name for name, where in placement.items() if isinstance(where, Local) and name in fetched]


def _triggers(program: Program) -> dict[str, Trigger]:
    return {**program.triggers, **program.batch_triggers}
