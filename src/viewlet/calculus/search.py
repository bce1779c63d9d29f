"""Evaluate searches: sums over an interval of one key, and its ends, found by asking monotone conditions.

The interval is never computed from bounds. An ordered index walks down its tree and asks, at each key it
meets, whether the conditions hold there; so rounding, scales and nested sums need no inversion. Where a
nested sum could have lost its monotony (a negative value in a map it sums), every key is asked instead.

NULL has no place in the order, but it may satisfy the conditions: nothing lies below NULL, and the COUNT of
nothing is 0. So an entry with a NULL key is asked by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

from viewlet.calculus.extreme import End, as_end
from viewlet.calculus.monotone import Search, as_search
from viewlet.calculus.nodes import Extremum, Factor, Lift, MapRef, Term
from viewlet.calculus.ranges import as_range
from viewlet.core.scalar import Scalar

if TYPE_CHECKING:
    from viewlet.calculus.evaluate import Compiler, Env, Key, Number

Ask = Callable[[Any], bool]


class PrefixSums(Protocol):
    """An ordered index from keys to records; field 1 is the value.

    ``inside`` holds for a prefix of the keys.
    """

    def where(self, inside: Ask) -> tuple[Any, ...]:
        """The sum of the records inside."""

    def get(self, key: Any) -> tuple[Any, ...]:
        """The record of a key, zeros if there is none."""

    def last(self, inside: Ask) -> Any | None:
        """The greatest key inside."""

    def first_beyond(self, inside: Ask) -> Any | None:
        """The least key that is not inside."""

    def predecessor(self, key: Any) -> Any | None:
        """The greatest key below."""

    def successor(self, key: Any) -> Any | None:
        """The least key above."""


class SubtreeBest(Protocol):
    """An ordered index from keys to values that knows the best value of every interval of keys."""

    def between(self, before: Ask, inside: Ask) -> Any | None:
        """The best value of the keys that are inside and not before; both hold for a prefix of the keys."""


@runtime_checkable
class SearchStore(Protocol):
    """A store that keeps ordered indexes."""

    def ordered(self, atom: MapRef, bound: tuple[int, ...]) -> Callable[[Key], PrefixSums | None]:
        """A function from the values of the bound keys to the index along the one that is left."""

    def best(
        self, atom: MapRef, along: int, of: int, op: Literal["min", "max"]
    ) -> Callable[[Key], SubtreeBest | None]:
        """A function from the values of all other keys to the best of one key along another."""

    def between(
        self, atom: MapRef, bound: tuple[int, ...], position: int
    ) -> Callable[[Key, Ask, Ask], Iterable[tuple[Key, Number]]]:
        """A function from the values of the bound keys, ``before`` and ``inside`` to the entries in between.

        Entries with NULL at the position come along.
        """

    def has_negative(self, name: str) -> bool:
        """Does a map hold a negative value now?"""


@dataclass(frozen=True, slots=True)
class _Interval:
    """A search whose conditions have become functions; ``given`` reads the bound keys of the map."""

    applies: Callable[[Env], bool]
    given: Callable[[Env], tuple[Any, ...]]
    inside: Callable[[Env], Ask]
    before: Callable[[Env], Ask]
    holds: Callable[[Env], Ask]


def _compile_interval(
    compiler: Compiler, search: Search, known: frozenset[str], free: Iterable[int]
) -> _Interval:
    slot = compiler.slot(search.key)
    unread = set(free)
    readers = [compiler.scalar(key) for i, key in enumerate(search.atom.keys) if i not in unread]
    applies = _flag(compiler, Term(search.flat), known)
    settle = _flag(compiler, Term(search.dependents), known | {search.key.name})
    falling = _all(compiler, search.falling)
    rising = _all(compiler, search.rising)

    def inside(env: Env) -> Ask:
        def ask(key: Any) -> bool:
            env[slot] = key
            settle(env)
            return falling(env)

        return ask

    def before(env: Env) -> Ask:
        within = inside(env)
        return lambda key: within(key) and not rising(env)

    def holds(env: Env) -> Ask:
        within = inside(env)
        return lambda key: within(key) and rising(env)

    return _Interval(applies, lambda env: tuple([read(env) for read in readers]), inside, before, holds)


def compile_range(
    compiler: Compiler, atom: MapRef, bound: tuple[int, ...], others: Iterable[Factor], known: frozenset[str]
) -> Callable[[Env, Key], Iterable[tuple[Key, Number]]] | None:
    """The entries of an atom that others confine to a range; ``None`` without one, or without any order."""
    store = compiler.store
    if not isinstance(store, SearchStore) or (found := as_range(atom, others, known)) is None:
        return None
    slot = compiler.slot(found.key)
    falling, rising = _all(compiler, found.falling), _all(compiler, found.rising)
    entries = store.between(atom, bound, atom.keys.index(found.key))

    def visit(env: Env, values: Key) -> Iterable[tuple[Key, Number]]:
        def inside(key: Any) -> bool:
            env[slot] = key
            return falling(env)

        def before(key: Any) -> bool:
            env[slot] = key
            return not rising(env)

        return entries(values, before, inside)

    return visit


def compile_search(compiler: Compiler, lift: Lift, known: frozenset[str]) -> Callable[[Env], Number] | None:
    """The sum of a lift by searching, or ``None`` where it is no search or the store has no ordered index."""
    store = compiler.store
    if len(lift.query) != 1 or not isinstance(store, SearchStore):
        return None
    (term,) = lift.query
    given = frozenset(key.name for key in lift.keys if key.name in known)
    search = as_search(term, given)
    if search is None:
        return None
    place = search.atom.keys.index(search.key)
    cut = _compile_interval(compiler, search, given, (place,))
    find = store.ordered(search.atom, _without(search.atom, place))
    look_up = compiler.store.lookup(search.atom, tuple(range(len(search.atom.keys))))
    scan = compiler.totals(lift.query, (), given)
    coefficient, needs = term.coefficient, search.needs

    def total(env: Env) -> Number:
        if any(store.has_negative(name) for name in needs):
            return scan(env).get((), 0)
        if not cut.applies(env):
            return 0
        keys = cut.given(env)
        value: Number = 0
        for _, entry in look_up((*keys[:place], None, *keys[place:])):
            value += entry if cut.holds(env)(None) else 0
        index = find(keys)
        if index is not None:
            value += index.where(cut.inside(env))[1] - index.where(cut.before(env))[1]
        return value * coefficient

    return total


def compile_end(
    compiler: Compiler, extremum: Extremum, known: frozenset[str]
) -> Callable[[Env], Any | None] | None:
    """An extremum from the end of an interval, or ``None`` where it is none or the store has no order."""
    store = compiler.store
    given = frozenset(key.name for key in extremum.keys if key.name in known)
    if not isinstance(store, SearchStore) or (end := as_end(extremum, given)) is None:
        return None
    points = compiler.totals(end.points, (extremum.of,), given)
    scan = compiler.totals(extremum.query, (extremum.of,), given)
    choose: Callable[..., Any] = min if extremum.op == "min" else max
    find = (_nested_end if end.is_nested else _own_end)(compiler, extremum, end, given)

    def best(env: Env) -> Any | None:
        extra = points(env)
        usable = not any(store.has_negative(name) for name in end.interval.needs)
        if not usable or (end.is_nested and any(weight < 0 for weight in extra.values())):
            return choose((key[0] for key in scan(env)), default=None)
        found = find(env, extra)
        candidates = [key[0] for key in extra if key[0] is not None]
        return choose(candidates if found is None else [*candidates, found], default=None)

    return best


Find = Callable[["Env", "dict[Key, Number]"], Any | None]


def _own_end(compiler: Compiler, extremum: Extremum, end: End, given: frozenset[str]) -> Find:
    """The end of the interval of ``of`` itself; what it passes over it takes out of ``extra``.

    What is left there afterwards lies behind the end, or the map has no entry inside the interval for it.
    """
    atom, store = end.interval.atom, compiler.store
    assert isinstance(store, SearchStore)
    place = atom.keys.index(extremum.of)
    cut = _compile_interval(compiler, end.interval, given, (place,))
    ordered = store.ordered(atom, _without(atom, place))

    def find(env: Env, extra: dict[Key, Number]) -> Any | None:
        index = ordered(cut.given(env)) if cut.applies(env) else None
        if index is None:
            return None
        greatest = extremum.op == "max"
        key = index.last(cut.inside(env)) if greatest else index.first_beyond(cut.before(env))
        holds = cut.holds(env)
        while key is not None and holds(key):
            if index.get(key)[1] * end.coefficient + extra.pop((key,), 0):
                return key
            key = index.predecessor(key) if greatest else index.successor(key)
        return None

    return find


def _nested_end(compiler: Compiler, extremum: Extremum, end: End, given: frozenset[str]) -> Find:
    """The best ``of`` over an interval of another key; entries with NULL for that key are asked apart."""
    atom, store = end.interval.atom, compiler.store
    assert isinstance(store, SearchStore)
    along, of = atom.keys.index(end.interval.key), atom.keys.index(extremum.of)
    cut = _compile_interval(compiler, end.interval, given, (along, of))
    best = store.best(atom, along, of, extremum.op)
    ordered = store.ordered(atom, _without(atom, of))
    gap = along if along < of else along - 1

    def find(env: Env, _: dict[Key, Number]) -> Any | None:
        if not cut.applies(env):
            return None
        keys = cut.given(env)
        found: list[Any] = []
        loose = ordered((*keys[:gap], None, *keys[gap:]))
        if loose is not None and cut.holds(env)(None):
            found.append(loose.last(_always) if extremum.op == "max" else loose.first_beyond(_never))
        tree = best(keys)
        if tree is not None:
            found.append(tree.between(cut.before(env), cut.inside(env)))
        choose: Callable[..., Any] = min if extremum.op == "min" else max
        return choose((value for value in found if value is not None), default=None)

    return find


def _always(_: Any) -> bool:
    return True


def _never(_: Any) -> bool:
    return False


def _without(atom: MapRef, place: int) -> tuple[int, ...]:
    return tuple(i for i in range(len(atom.keys)) if i != place)


def _flag(compiler: Compiler, term: Term, known: frozenset[str]) -> Callable[[Env], bool]:
    """Run a term of lets, lifts and conditions: sets its variables, tells whether its conditions hold."""
    reached = False

    def emit(env: Env, weight: Number) -> None:
        nonlocal reached
        reached = True

    runner = compiler.term(term, known, emit)

    def run(env: Env) -> bool:
        nonlocal reached
        reached = False
        runner(env, 1)
        return reached

    return run


def _all(compiler: Compiler, conditions: tuple[Scalar, ...]) -> Callable[[Env], bool]:
    tests = [compiler.scalar(condition) for condition in conditions]
    return lambda env: all(test(env) is True for test in tests)
