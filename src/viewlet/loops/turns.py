"""Conditions on a sum whose extent a key decides by any monotone comparison: two walks, one after the other.

::

    {c(sum<p>(M[q] * {f(q, p)}))}

Let f hold for the first q of the order, more of them as p grows, and let c change its mind once as the sum
grows. With M nowhere negative there is one entry at which the running sum of M makes c turn::

    c has turned at p  <=>  f(q*, p),     q* the first q with c(sum(M[q'] * {q' <= q})) turned

One walk along M finds q*, one walk along the map that is summed finds the first p with f(q*, p): O(log n),
where asking c at every p that a walk meets would search along M each time. If c has turned for the empty sum,
it has for every p; without such an entry, for none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from viewlet.calculus.nodes import Let, Lift
from viewlet.calculus.running import as_opening, needed
from viewlet.core.scalar import Scalar, Var, call, substitute, variables
from viewlet.core.types import BOOLEAN
from viewlet.loops.nodes import Along, Limit, Running, Seek

if TYPE_CHECKING:
    from viewlet.loops.lower import Env
    from viewlet.loops.searches import Searching

TURN, ALWAYS = "*turn", "*always"
"""What a test calls the key at which conditions turn, and that they have turned before any entry."""


def seek_through(searching: Searching, conditions: Sequence[Scalar], holds: bool) -> Limit | None:
    """The edge of conditions by the entry at which they turn; ``None``, and nothing done, where none is."""
    sums: list[Running] = []
    moving: Env = {}
    kinds: set[tuple[Along, Scalar]] = set()
    for factor in needed(searching.search.dependents, conditions):
        match factor:
            case Lift():
                found = _opening(searching, factor)
                if found is None:
                    return None
                along, test, running = found
                kinds.add((along, test))
                sums.append(running)
                moving[factor.var.name] = running.var
            case Let(var, scalar):
                moving[var.name] = substitute(scalar, searching.env | moving)
            case _:
                return None
    asked = [substitute(condition, searching.env | moving) for condition in conditions]
    if len(kinds) != 1 or any(v.name == searching.search.key.name for c in asked for v in variables(c)):
        return None
    ((along, test),) = kinds
    before, fixed = searching.fixed(asked, frozenset(running.var.name for running in sums))
    distinct = tuple(dict.fromkeys(sums))

    def make(edge: Var) -> Seek:
        return Seek(edge, along, None, distinct, True, True, before, (), fixed, holds)

    edge = searching.block.seek(make, (along, distinct, True, False, before, fixed, holds))
    column = searching.lowering.storage.records[along.record].keys[along.axis.position]
    turn, always = searching.block.turn(edge, along, column)
    known = replace(searching, env=searching.env | {TURN: turn, ALWAYS: always})
    return known.seek_at_keys([call("or", Var(ALWAYS, BOOLEAN, False), test)], holds=False)


def _opening(searching: Searching, lift: Lift) -> tuple[Along, Scalar, Running] | None:
    """The index along which a nested sum extends, how far it does, and the sum on the way."""
    opening = as_opening(lift, searching.search.key, frozenset(searching.env))
    running = None if opening is None else searching.running(lift, opening.atom, opening.key, behind=False)
    if opening is None or running is None:
        return None
    turn = Var(TURN, opening.key.type, True)
    return running[0], substitute(call("and", *opening.falling), {opening.key.name: turn}), running[1]
