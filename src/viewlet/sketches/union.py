"""Sketches that serve a query together (R5): its condition implies that of the one or of the other.

Let queries differ in one condition, above which rows are kept or dropped one by one::

    σ_θ1(Q) ∪ σ_θ2(Q) = σ_(θ1 ∨ θ2)(Q)

Then the union of their sketches is a sketch of the query with ``θ1 ∨ θ2``, and serves what that one serves.
Below an aggregation this fails: a group of the rows of both has a value that neither query has seen.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from viewlet.core.scalar import call
from viewlet.plan.nodes import Filter, Join, Plan, Project, Query
from viewlet.sketches.cost import Costs
from viewlet.sketches.operators.build import essential
from viewlet.sketches.partition import Partition
from viewlet.sketches.sketch import Sketch

if TYPE_CHECKING:
    from viewlet.sketches.backends.base import Version


@dataclass(slots=True)
class Union:
    """Several sketches on the same ranges, used as one."""

    sketches: tuple[Sketch, ...]
    costs: Costs = field(default_factory=Costs)

    @property
    def restrictions(self) -> list[tuple[Partition, frozenset[int]]]:
        """Each partition with the fragments that one of the sketches has."""
        parts = zip(*(sketch.restrictions for sketch in self.sketches), strict=True)
        return [(same[0][0], frozenset().union(*(fragments for _, fragments in same))) for same in parts]

    @property
    def version(self) -> Version:
        """That of the sketches, if it is the same."""
        first = self.sketches[0].version
        return first if all(sketch.version == first for sketch in self.sketches) else None

    def pending(self) -> int:
        """How many changes have to be followed."""
        return sum(sketch.pending() for sketch in self.sketches)

    def refresh(self) -> None:
        """Bring all of them to the present version."""
        waiting, began = self.pending(), time.perf_counter()
        for sketch in self.sketches:
            sketch.refresh()
        if waiting:
            self.costs.followed(waiting, time.perf_counter() - began)

    def predicted_gain(self) -> float:
        """How many times faster a query should be with all their fragments than without."""
        return self.sketches[0].gain_with(self.restrictions)

    def require_usable(self) -> None:
        """Refuse if one is retired or of another version."""
        for sketch in self.sketches:
            sketch.require_usable()


def alike(sketch: Sketch, others: Iterable[Sketch]) -> list[Sketch]:
    """A sketch and those with the same ranges whose queries differ from its own in one condition."""
    group = [sketch]
    for other in others:
        same = other is not sketch and other.partitions == sketch.partitions
        if same and combined([member.query for member in (*group, other)]) is not None:
            group.append(other)
    return group


def combined(queries: Sequence[Query]) -> Query | None:
    """The query whose result rows are those of all of these; ``None`` where they differ in more.

    >>> from viewlet.core.scalar import Const, Var
    >>> from viewlet.plan.nodes import Scan
    >>> from viewlet.plan.text import show
    >>> a = Var("a")
    >>> low, high = (Query(Filter(Scan("r", (("a", a),)), call(op, a, Const(5))), ()) for op in "<>")
    >>> print(show(combined([low, high]).plan))
    filter a < 5 or a > 5
      scan r(a:BIGINT?)
    """
    plans = [essential(query).plan for query in queries]
    found: Plan | None = plans[0]
    for plan in plans[1:]:
        found = None if found is None else _either(found, plan)
    return None if found is None else Query(found, ())


def _either(one: Plan, other: Plan) -> Plan | None:
    """The plan with the rows of both, if they differ in one condition above which all is row by row."""
    if one == other:
        return one
    match one, other:
        case Filter(inner, condition), Filter(below, another):
            if inner == below:
                return Filter(inner, call("or", condition, another))
            either = _either(inner, below) if condition == another else None
            return None if either is None else Filter(either, condition)
        case Project(inner, columns), Project(below, others) if columns == others:
            either = _either(inner, below)
            return None if either is None else Project(either, columns)
        case Join("inner", left, right, condition), Join("inner", other_left, other_right, another):
            if condition == another and right == other_right:
                either = _either(left, other_left)
                return None if either is None else replace(one, left=either)
            if condition == another and left == other_left:
                either = _either(right, other_right)
                return None if either is None else replace(one, right=either)
    return None
