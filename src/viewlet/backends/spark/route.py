"""Where the product of a term is evaluated: a route through locations, with the least communication.

A route starts where a change or a map is and takes in, at each stop, the factors that are complete there. On
the way to the next stop the product so far is moved. With ``P`` the partitioning by a variable x::

    Repart_P(a * b)  <=>  Repart_P(a) * Repart_P(b)      so a part of the product may travel without the rest
    Repart_P(b) = b  if b is partitioned by x already    so only the small part, the change, does travel

At a stop partitioned by x each partition computes exactly the assignments whose x belongs to it. That is
right if one factor *anchors* x (its entries are only where they belong) and all other factors are complete
for that x. The search is by cost, so a move that helps nothing is never made; the cost counts rounds of
communication, and a map that has to be moved as a whole counts as many rounds.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import count
from typing import TypeAlias

from viewlet.backends.spark.nodes import Dist, Local, Location, Movement, Random, Replicated
from viewlet.calculus.nodes import (
    Argument,
    Cond,
    Delta,
    Exists,
    Extremum,
    Factor,
    Let,
    Lift,
    MapRef,
    Nested,
    Term,
    Value,
    arguments,
    factor_variables,
    is_parameter,
)
from viewlet.calculus.schedule import schedule
from viewlet.core.scalar import Const, Var
from viewlet.errors import CalculusError, CompileError

ROUND = 1.0
MOVED_MAP = 20.0
MOVED_LOCAL_MAP = 2.0
MOVED_CHANGE = 0.1
CROSSED = 20.0  # a change met by a map with which it has no variable in common: every pair of both
GATHERED = 0.05  # of two routes with equal rounds, the one that leaves the work to the partitions


@dataclass(frozen=True, slots=True)
class By:
    """In the partition that the value of this variable (or constant) is assigned to."""

    argument: Argument


Stop: TypeAlias = Local | Random | By


@dataclass(frozen=True, slots=True)
class Fetch:
    """An atom that a stop needs a copy of, and how that gets there."""

    atom: MapRef | Delta
    movement: Movement
    position: int | None
    cost: float


@dataclass(frozen=True, slots=True)
class Leg:
    """One stop: how the product so far arrives, and what is multiplied to it there."""

    arrival: Movement | None
    stop: Stop
    factors: tuple[Factor, ...]
    fetches: tuple[Fetch, ...]


@dataclass(frozen=True, slots=True)
class _State:
    pending: frozenset[int]
    stop: Stop | None
    bound: frozenset[str]
    changed: bool  # a change is among the factors so far, so that the product is small


@dataclass(frozen=True, slots=True)
class Router:
    """Finds routes, given where maps live, where changes arrive, and what is as ``small`` as these."""

    placement: Mapping[str, Location]
    changes_at: Local | Random
    small: frozenset[str] = frozenset()

    def knowing(self, relation: str, where: Dist) -> Router:
        """Also that a relation which a change has made is in the partitions."""
        return replace(self, placement={**self.placement, relation: where}, small=self.small | {relation})

    def route(self, term: Term, keys: tuple[Argument, ...], target: Location) -> tuple[Leg, ...]:
        """The cheapest route of a term whose sums by ``keys`` are for a map at ``target``."""
        return self._search(term, keys, target)[1]

    def price(self, term: Term, keys: tuple[Argument, ...], target: Location) -> float:
        """The cost of the cheapest route."""
        return self._search(term, keys, target)[0]

    def _search(
        self, term: Term, keys: tuple[Argument, ...], target: Location
    ) -> tuple[float, tuple[Leg, ...]]:
        start = _State(frozenset(range(len(term.factors))), None, frozenset(), changed=False)
        order = count()
        queue: list[tuple[float, int, _State | None, tuple[Leg, ...]]] = [(0.0, next(order), start, ())]
        done: set[_State] = set()
        while queue:
            cost, _, state, legs = heapq.heappop(queue)
            if state is None:  # at home
                return cost, legs
            if state in done:
                continue
            done.add(state)
            if state.stop is not None and not state.pending:
                heapq.heappush(queue, (cost + self._home(state.stop, keys, target), next(order), None, legs))
                continue
            for price, leg, reached in self._moves(term, state):
                heapq.heappush(queue, (cost + price, next(order), reached, (*legs, leg)))
        raise CompileError(f"no way to distribute a product of {len(term.factors)} factors")

    def _home(self, stop: Stop, keys: tuple[Argument, ...], target: Location) -> float:
        return 0.0 if is_home(stop, keys, target) else ROUND + GATHERED * isinstance(target, Local)

    def _moves(self, term: Term, state: _State) -> Iterator[tuple[float, Leg, _State]]:
        """Every useful next stop, with its price."""
        pending = [term.factors[i] for i in sorted(state.pending)]
        if state.stop is None:
            yield from self._start_at_change(term)
        stops: list[Stop] = [Local(), *(By(a) for a in _candidates(pending, state.bound))]
        for stop in stops:
            if stop == state.stop:
                arrival: Movement | None = None
            else:
                arrival = self._arrival(state, stop)
            anchored = isinstance(stop, Local) or arrival in ("Repart", "Scatter") or stop == state.stop
            for heavy in (False, True):
                found = self._absorb(term, state.pending, state.bound, stop, anchored, heavy)
                if found is None:
                    continue
                taken, bound, fetches = found
                trivial = state.stop is None and isinstance(stop, Local) and taken == state.pending
                if not trivial and not any(_counts(term.factors[i]) for i in taken):
                    continue
                price = sum(fetch.cost for fetch in fetches)
                price += ROUND if arrival is not None or (fetches and state.stop is None) else 0.0
                if arrival is not None:
                    price += GATHERED * isinstance(stop, Local) + self._weight(state)
                own = tuple(term.factors[i] for i in sorted(taken))
                if arrival == "Broadcast" and not _meets(own, state.bound):
                    price += CROSSED
                leg = Leg(arrival, stop, own, tuple(dict.fromkeys(fetches)))
                changed = state.changed or any(map(self._reads_change, own))
                yield price, leg, _State(state.pending - taken, stop, bound, changed)

    def _start_at_change(self, term: Term) -> Iterator[tuple[float, Leg, _State]]:
        """Start where the change arrives, with what only it and replicated maps decide: pre-aggregation."""
        for i, factor in enumerate(term.factors):
            if isinstance(factor, Delta) and not factor.absolute:
                bound = frozenset(v.name for v in factor_variables(factor))
                rest = frozenset(range(len(term.factors))) - {i}
                found = self._absorb(term, rest, bound, self.changes_at, True, False)
                taken, bound, fetches = found if found else (frozenset[int](), bound, ())
                own = (factor, *(term.factors[j] for j in sorted(taken)))
                cost = sum(fetch.cost for fetch in fetches) + (ROUND if fetches else 0.0)
                leg = Leg(None, self.changes_at, own, tuple(dict.fromkeys(fetches)))
                yield cost, leg, _State(rest - taken, self.changes_at, bound, changed=True)
                return

    def _weight(self, state: _State) -> float:
        """What it costs to move the product so far, beyond the round itself."""
        if state.changed:
            return 0.0
        return MOVED_LOCAL_MAP if isinstance(state.stop, Local) else MOVED_MAP

    def _arrival(self, state: _State, stop: Stop) -> Movement | None:
        if state.stop is None:
            return None
        if isinstance(stop, Local):
            return "Gather"
        assert isinstance(stop, By)
        x = stop.argument
        if isinstance(x, Var) and x.name in state.bound and not is_parameter(x):  # that is no column
            return "Scatter" if isinstance(state.stop, Local) else "Repart"
        return "Broadcast"

    def _absorb(
        self,
        term: Term,
        pending: frozenset[int],
        bound: frozenset[str],
        stop: Stop,
        anchored: bool,
        heavy: bool,
    ) -> tuple[frozenset[int], frozenset[str], tuple[Fetch, ...]] | None:
        """The factors that can be taken in at a stop; ``heavy`` moves whole maps for it.

        ``None`` if nothing anchors the stop's variable.
        """
        needs = {i: self.needed(term.factors[i], stop) for i in pending}
        usable = {
            i for i, fetches in needs.items() if fetches is not None and (heavy or self._light(fetches))
        }
        taken: list[int] = []
        known = set(bound)
        if not anchored:
            assert isinstance(stop, By)
            anchor = next(
                (i for i in sorted(usable) if self._anchors(term.factors[i], stop.argument, heavy)
                 and _is_ready(term.factors[i], known)), None)  # fmt: skip
            if anchor is None:
                return None
            taken.append(anchor)
            known |= {v.name for v in factor_variables(term.factors[anchor])}
        while True:
            left = sorted(usable - set(taken))
            ready = [i for i in left if _is_ready(term.factors[i], known)]
            chosen = next((i for i in ready if _is_connected(term.factors[i], known)), None)
            if chosen is None and ready and set(left) == pending - set(taken):
                chosen = ready[0]  # nothing is left for a later stop, so cross products are due here
            if chosen is None:
                break
            taken.append(chosen)
            known |= {v.name for v in factor_variables(term.factors[chosen])}
        fetched = tuple(fetch for i in taken for fetch in needs[i] or ())
        return frozenset(taken), frozenset(known), fetched

    def needed(
        self, factor: Factor, stop: Stop, inner: frozenset[str] | None = None
    ) -> tuple[Fetch, ...] | None:
        """The copies that evaluating a factor at a stop takes; ``None`` if it cannot be evaluated there.

        ``inner`` are the variables of the stop that a nested query may refer to, ``None`` for all.
        """
        match factor:
            case Cond() | Value() | Let():
                return ()
            case MapRef():
                return self._needed_map(factor, stop, inner)
            case Delta():
                return self._needed_change(factor, stop, inner)
            case Lift() | Extremum() | Exists():
                shared = shared_keys(factor, inner)
                parts = [self.needed(f, stop, shared) for term in factor.query for f in term.factors]
                if any(part is None for part in parts):
                    return None
                return tuple(fetch for part in parts for fetch in part or ())
            case _:
                raise CompileError(f"a trigger reads {factor}, which no partition has")

    def _needed_map(self, atom: MapRef, stop: Stop, inner: frozenset[str] | None) -> tuple[Fetch, ...] | None:
        where = self.placement[atom.name]
        match where, stop:
            case (Replicated(), _) | (Local(), Local()):
                return ()
            case _, Random():
                return None
            case Dist(), Local():
                return (Fetch(atom, "Gather", None, self._moved(atom, where)),)
            case Dist(position), By(x) if atom.keys[position] == x and _is_visible(x, inner):
                return ()
            case _, By(x):
                cost = self._moved(atom, where)
                if x in atom.keys and _is_visible(x, inner):
                    movement: Movement = "Scatter" if isinstance(where, Local) else "Repart"
                    return (Fetch(atom, movement, atom.keys.index(x), cost),)
                return (Fetch(atom, "Broadcast", None, cost),)
            case _:
                raise CompileError(f"map {atom.name!r} is at {where}: maps are not left to chance")

    def _moved(self, atom: MapRef, where: Location) -> float:
        if atom.name in self.small:
            return MOVED_CHANGE
        return MOVED_LOCAL_MAP if isinstance(where, Local) else MOVED_MAP

    def _needed_change(self, atom: Delta, stop: Stop, inner: frozenset[str] | None) -> tuple[Fetch, ...]:
        source = self.changes_at
        if isinstance(stop, Local):
            return () if isinstance(source, Local) else (Fetch(atom, "Gather", None, MOVED_CHANGE),)
        if isinstance(stop, By) and _is_column(stop.argument, atom) and _is_visible(stop.argument, inner):
            movement: Movement = "Scatter" if isinstance(source, Local) else "Repart"
            return (Fetch(atom, movement, arguments(atom).index(stop.argument), MOVED_CHANGE),)
        return (Fetch(atom, "Broadcast", None, MOVED_CHANGE),)

    def _light(self, fetches: tuple[Fetch, ...]) -> bool:
        return all(isinstance(fetch.atom, Delta) or fetch.atom.name in self.small for fetch in fetches)

    def _reads_change(self, factor: Factor) -> bool:
        match factor:
            case Delta():
                return True
            case MapRef():
                return factor.name in self.small
            case Lift(query=query) | Extremum(query=query) | Exists(query=query):
                return any(self._reads_change(f) for term in query for f in term.factors)
            case _:
                return False

    def _anchors(self, factor: Factor, x: Argument, heavy: bool) -> bool:
        """Does a factor have entries only in the partitions that their x belongs to?"""
        match factor:
            case MapRef(name, keys):
                where = self.placement[name]
                if isinstance(where, Replicated):
                    return False
                return (isinstance(where, Dist) and keys[where.position] == x) or (heavy and x in keys)
            case Delta():
                return _is_column(x, factor)
            case Exists(keys, query, False):
                return x in keys and all(
                    any(self._anchors(f, x, heavy) for f in term.factors) for term in query
                )
            case _:
                return False


def shared_keys(nested: Nested, inner: frozenset[str] | None) -> frozenset[str]:
    """The variables that a nested query within others means as the product around all of them does."""
    keys = frozenset(key.name for key in nested.keys)
    return keys if inner is None else keys & inner


def is_home(stop: Stop, keys: tuple[Argument, ...], target: Location) -> bool:
    """Is the result of a route already where the target map has it?"""
    match stop, target:
        case Local(), Local():
            return True
        case By(x), Dist(position):
            return keys[position] == x
        case _:
            return False


def _candidates(pending: Iterable[Factor], bound: frozenset[str]) -> list[Argument]:
    """Variables worth partitioning by: arguments of atoms at any depth that the term itself knows."""
    found: dict[Argument, None] = {}
    outer = {v.name for f in pending for v in factor_variables(f)} | bound

    def visit(factors: Iterable[Factor]) -> None:
        for factor in factors:
            if isinstance(factor, MapRef | Delta):
                found.update(
                    (a, None)
                    for a in arguments(factor)
                    if isinstance(a, Const) or is_parameter(a) or a.name in outer
                )
            elif isinstance(factor, Lift | Extremum | Exists):
                for term in factor.query:
                    visit(term.factors)

    visit(pending)
    return list(found)


def _is_visible(x: Argument, inner: frozenset[str] | None) -> bool:
    """May a nested query mean the same by x? Constants and parameters are the same everywhere."""
    return isinstance(x, Const) or is_parameter(x) or inner is None or x.name in inner


def _is_column(x: Argument, change: Delta) -> bool:
    """Does a copy of a change have a column to cut it by? What is matched to a constant has none."""
    return isinstance(x, Var) and x in arguments(change)


def _counts(factor: Factor) -> bool:
    """Is it work worth a stop, not only a condition that could be tested anywhere?"""
    return isinstance(factor, MapRef | Delta | Lift | Extremum | Exists)


def _is_ready(factor: Factor, known: set[str]) -> bool:
    try:
        schedule((factor,), known)
    except CalculusError:
        return False
    return True


def _meets(factors: Iterable[Factor], bound: frozenset[str]) -> bool:
    """Does one of the atoms share a variable with the product so far, if that has any?"""
    return not bound or any(_is_connected(f, set(bound)) for f in factors if _counts(f))


def _is_connected(factor: Factor, known: set[str]) -> bool:
    """Does it share a variable with what is known, or have none at all?"""
    names = [v.name for v in factor_variables(factor)]
    return not names or any(name in known or name.startswith("@") for name in names)
