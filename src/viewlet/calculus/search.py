"""Evaluate a search: a sum over an interval of one key, found by asking monotone conditions.

The interval is never computed from bounds. An ordered index walks down its tree and asks, at each key it
meets, whether the conditions hold there; so rounding, scales and nested sums need no inversion. Where a
nested sum could have lost its monotony (a negative value in a map it sums), every key is asked instead.

NULL has no place in the order, but it may satisfy the conditions: nothing lies below NULL, and the COUNT of
nothing is 0. So an entry with a NULL key is asked by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from viewlet.calculus.monotone import as_search
from viewlet.calculus.nodes import Lift, MapRef, Term
from viewlet.core.scalar import Scalar

if TYPE_CHECKING:
    from viewlet.calculus.evaluate import Compiler, Env, Key, Number


class PrefixSums(Protocol):
    """An ordered index: the sum of the records of the keys for which ``inside`` holds, a prefix of them."""

    def where(self, inside: Callable[[Any], bool]) -> tuple[Any, ...]:
        """The record sums; field 1 is the value."""


@runtime_checkable
class SearchStore(Protocol):
    """A store that keeps ordered indexes."""

    def ordered(self, atom: MapRef, bound: tuple[int, ...]) -> Callable[[Key], PrefixSums | None]:
        """A function from the values of the bound keys to the index along the one that is left."""

    def has_negative(self, name: str) -> bool:
        """Does a map hold a negative value now?"""


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
    slot = compiler.slot(search.key)
    bound = [i for i, key in enumerate(search.atom.keys) if key != search.key]
    readers = [compiler.scalar(search.atom.keys[i]) for i in bound]
    find = store.ordered(search.atom, tuple(bound))
    place = search.atom.keys.index(search.key)
    look_up = compiler.store.lookup(search.atom, tuple(range(len(search.atom.keys))))
    applies = _flag(compiler, Term(search.flat), given)
    settle = _flag(compiler, Term(search.dependents), given | {search.key.name})
    falling = _all(compiler, search.falling)
    rising = _all(compiler, search.rising)
    scan = compiler.totals(lift.query, (), given)
    coefficient, needs = term.coefficient, search.needs

    def total(env: Env) -> Number:
        if any(store.has_negative(name) for name in needs):
            return scan(env).get((), 0)
        if not applies(env):
            return 0
        given_keys = [reader(env) for reader in readers]

        def before_end(key: Any) -> bool:
            env[slot] = key
            settle(env)
            return falling(env)

        def before_start(key: Any) -> bool:
            return before_end(key) and not rising(env)

        value: Number = 0
        for _, entry in look_up((*given_keys[:place], None, *given_keys[place:])):
            value += entry if before_end(None) and rising(env) else 0
        index = find(tuple(given_keys))
        if index is not None:
            value += index.where(before_end)[1] - index.where(before_start)[1]
        return value * coefficient

    return total


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
