"""The order of statements: increments read old values, recomputations new ones."""

from __future__ import annotations

from collections.abc import Sequence
from graphlib import CycleError, TopologicalSorter

from viewlet.calculus.nodes import Exists, Extremum, Lift, MapRef, Query
from viewlet.triggers.program import Statement


def reads(query: Query) -> frozenset[str]:
    """The maps a query reads, at any depth."""
    found: set[str] = set()
    for term in query:
        for factor in term.factors:
            match factor:
                case MapRef(name):
                    found.add(name)
                case Lift() | Extremum() | Exists():
                    found |= reads(factor.query)
    return frozenset(found)


def order_increments(statements: Sequence[Statement]) -> tuple[Statement, ...]:
    """Statements of M come before those of any map that M reads, so that each reads old values."""
    return _sorted(statements, before=True)


def order_recomputations(statements: Sequence[Statement]) -> tuple[Statement, ...]:
    """A map is recomputed after the recomputed maps that it reads."""
    return _sorted(statements, before=False)


def _sorted(statements: Sequence[Statement], *, before: bool) -> tuple[Statement, ...]:
    by_target: dict[str, list[Statement]] = {}
    for statement in statements:
        by_target.setdefault(statement.target, []).append(statement)
    graph: TopologicalSorter[str] = TopologicalSorter()
    for target, own in by_target.items():
        graph.add(target)
        read = frozenset().union(*(reads(statement.query) for statement in own))
        for name in sorted(read & by_target.keys() - {target}):
            if before:
                graph.add(name, target)
            else:
                graph.add(target, name)
    try:
        order = list(graph.static_order())
    except CycleError:
        order = list(by_target)
    return tuple(statement for target in order for statement in by_target[target])
