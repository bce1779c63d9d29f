"""Conditions on an aggregate whose extent a key decides by any monotone comparison: two walks, one after the
other.

::

    {c(sum<p>(M[q] * {f(q, p)}))}           {c(max v<p>(M[q, v] * {f(q, p)}))}

Let f hold for the first q of the order, more of them as p grows, and let c change its mind once as the sum
grows. With M nowhere negative there is one entry at which the running sum of M makes c turn::

    c has turned at p  <=>  f(q*, p),     q* the first q with c(sum(M[q'] * {q' <= q})) turned

One walk along M finds q*, one walk along the map that is summed finds the first p with f(q*, p): O(log n),
where asking c at every p that a walk meets would search along M each time. If c has turned for the empty sum,
it has for every p; without such an entry, for none.

A running maximum never falls, a running minimum never rises: they turn c at an entry too, whatever the values
are, and are NULL before the first one. Entries of one q come one after the other; c has turned at q if it has
after any of them.

If f holds for the last q of the order, more of them as p falls, all is the same from the other end::

    c has turned at p  <=>  f(q*, p),     q* the last q with c(sum(M[q'] * {q' >= q})) turned
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from viewlet.calculus.nodes import Extremum, Let, Lift
from viewlet.calculus.running import as_opening, needed
from viewlet.core.scalar import Scalar, Var, call, substitute, variables
from viewlet.core.types import BOOLEAN
from viewlet.loops.nodes import Along, Limit, Running, Seek

if TYPE_CHECKING:
    from viewlet.loops.lower import Env
    from viewlet.loops.searches import Searching

TURN, ALWAYS = "*turn", "*always"
"""What a test calls the key at which conditions turn, and that they have turned before any entry."""


@dataclass(frozen=True, slots=True)
class _Opening:
    """The index along which nested aggregates extend, from its end on if ``behind``, and how far they do."""

    along: Along
    test: Scalar
    behind: bool


def seek_through(searching: Searching, conditions: Sequence[Scalar], holds: bool) -> Limit | None:
    """The edge of conditions by the entry at which they turn; ``None``, and nothing done, where none is."""
    running: list[Running] = []
    moving: Env = {}
    kinds: set[_Opening] = set()
    for factor in needed(searching.search.dependents, conditions):
        match factor:
            case Lift() | Extremum():
                found = _opening(searching, factor)
                if found is None:
                    return None
                kinds.add(found[0])
                running.append(found[1])
                moving[factor.var.name] = found[1].var
            case Let(var, scalar):
                moving[var.name] = substitute(scalar, searching.env | moving)
            case _:
                return None
    asked = [substitute(condition, searching.env | moving) for condition in conditions]
    if len(kinds) != 1 or any(v.name == searching.search.key.name for c in asked for v in variables(c)):
        return None
    (opening,) = kinds
    before, fixed = searching.fixed(asked, frozenset(each.var.name for each in running))
    along, closed, distinct = opening.along, not opening.behind, tuple(dict.fromkeys(running))

    def make(edge: Var) -> Seek:
        return Seek(edge, along, None, distinct, closed, True, before, (), fixed, holds)

    edge = searching.block.seek(make, (along, distinct, closed, False, before, fixed, holds))
    column = searching.lowering.storage.records[along.record].keys[along.axis.position]
    turn, always = searching.block.turn(edge, along, column, closed=closed)
    known = replace(searching, env=searching.env | {TURN: turn, ALWAYS: always})
    turned = call("or", Var(ALWAYS, BOOLEAN, False), opening.test)
    return known.seek_at_keys([turned], holds=opening.behind)


def _opening(searching: Searching, factor: Lift | Extremum) -> tuple[_Opening, Running] | None:
    """The index along which a nested aggregate extends, how far it does, and what it is on the way."""
    opening = as_opening(factor, searching.search.key, frozenset(searching.env))
    if opening is None:
        return None
    behind = bool(opening.rising)
    match factor:
        case Lift():
            found = searching.running(factor, opening.atom, opening.key, behind=behind)
        case Extremum():
            found = searching.running_best(factor, opening)
    if found is None:
        return None
    turn = {opening.key.name: Var(TURN, opening.key.type, True)}
    test = substitute(call("and", *opening.rising, *opening.falling), turn)
    return _Opening(found[0], test, behind), found[1]
