"""Strategies: how much maps may hold, and what is done about values that change for every row at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from viewlet.errors import CompileError
from viewlet.triggers.components import Depth


@dataclass(frozen=True, slots=True)
class Strategy:
    """``depth`` is how much a map may hold. With ``crossing``, rows that pass a moving total are found by it.

    With ``caches``, sums that no ordered index tells are kept for the values that are asked for.
    """

    name: str
    depth: Depth
    crossing: bool = False
    caches: bool = False

    @property
    def reevaluates(self) -> bool:
        """Is every map but the rows themselves computed again?"""
        return self.depth == "rows"


STRATEGIES: Mapping[str, Strategy] = {
    strategy.name: strategy
    for strategy in (
        Strategy("higher_order", "component", crossing=True),
        Strategy("view_caches", "component", crossing=True, caches=True),
        Strategy("first_order", "table"),
        Strategy("reevaluate", "rows"),
    )
}


def strategy_of(name: str) -> Strategy:
    """The strategy of a name; a name that is none is refused together with those there are."""
    if name not in STRATEGIES:
        raise CompileError(f"unknown strategy {name!r}; choose one of auto, {', '.join(STRATEGIES)}")
    return STRATEGIES[name]
