"""Guarding the two sides of a difference keeps its meaning: evaluate(only_flips(q), db) == evaluate(q, db).

Differences are of random nested factors over the same random rest, before and after a random event, over maps
with negative entries and under every weight.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from random import Random
from typing import Literal

import pytest

from viewlet.calculus.evaluate import Key, Number, evaluate_query
from viewlet.calculus.nodes import (
    Cond,
    Delta,
    Exists,
    Extremum,
    Factor,
    Let,
    Lift,
    MapRef,
    Nested,
    Query,
    Rel,
    Term,
    Value,
    add,
    product,
)
from viewlet.core.names import Names
from viewlet.core.scalar import Const, Scalar, Var, call
from viewlet.triggers.flips import only_flips

SEEDS = range(120)
X, Y, W = Var("@x"), Var("@y"), Var("@W")
K, V, Z = Var("k", nullable=False), Var("v"), Var("z", nullable=False)
WIDTHS = {"held": 1, "more": 1, "big": 1, "pairs": 2}
DOMAIN = (1, 2, 3)
COMPARED = ("<", "==", ">")
ENDS: tuple[Literal["min", "max"], ...] = ("min", "max")


class Maps:
    """A store of maps alone."""

    def __init__(self, entries: dict[str, dict[Key, int]]) -> None:
        self.entries = entries

    def lookup(
        self, atom: Rel | Delta | MapRef, bound: tuple[int, ...]
    ) -> Callable[[Key], Iterable[tuple[Key, Number]]]:
        """Entries that agree with the values at the bound positions."""
        assert isinstance(atom, MapRef)
        own = self.entries[atom.name]
        return lambda values: [
            (key, n) for key, n in own.items() if tuple(key[i] for i in bound) == tuple(values)
        ]


def random_maps(random: Random) -> Maps:
    """Maps that miss some keys, with entries of both signs."""
    entries: dict[str, dict[Key, int]] = {name: {} for name in WIDTHS}
    for name, width in WIDTHS.items():
        for _ in range(random.randrange(6)):
            key = tuple(random.choice(DOMAIN) for _ in range(width))
            entries[name][key] = random.choice((-2, -1, 1, 2))
    return Maps(entries)


def change(random: Random, *binding: Factor) -> Query:
    """What an event adds to a nested query: its weight, under conditions on it and lookups by it."""
    guards: list[Factor] = [
        Cond(call(random.choice(COMPARED), X, Y)),
        MapRef("more", (random.choice((X, Y)),)),
    ]
    chosen = random.sample(guards, random.randrange(3))
    amount: Scalar = random.choice((W, call("*", W, Y)))
    return product(*binding, *chosen, Value(amount))


def nested_pair(random: Random) -> tuple[Nested, Nested]:
    """A nested factor after an event, and before it."""
    match random.randrange(4):
        case 0:
            held = product(MapRef("held", (X,)))
            return Exists((X,), add(held, change(random))), Exists((X,), held)
        case 1:
            held = product(MapRef("held", (K,)))
            now = add(held, change(random, Cond(call("==", K, X))))
            return Exists((K,), now), Exists((K,), held)
        case 2:
            held = product(MapRef("pairs", (X, V)))
            now = add(held, change(random, Let(V, Y)))
            best, op = Var("best"), random.choice(ENDS)
            return Extremum(best, op, V, (X,), now), Extremum(best, op, V, (X,), held)
        case _:
            total, held = Var("total"), product(MapRef("held", (X,)))
            return Lift(total, (X,), add(held, change(random))), Lift(total, (X,), held)


def difference(random: Random) -> Query:
    """``c * now * rest - c * then * rest``, perhaps beside something else."""
    now, then = nested_pair(random)
    rest: list[Factor] = [MapRef("big", (K,))]
    if isinstance(now, Lift | Extremum):
        rest.append(Cond(call(random.choice(COMPARED), K, now.var)))
    if random.random() < 0.5:
        rest.append(MapRef("pairs", (K, Z)))
    if random.random() < 0.5:
        rest.append(Value(call("+", K, Const(1))))
    random.shuffle(rest)
    factor = random.choice((1, -1, 3))
    terms: list[Term] = [
        *product(now, *rest, coefficient=factor),
        *product(then, *rest, coefficient=-factor),
        *random.choice([(), product(MapRef("big", (K,)), Value(W))]),
    ]
    random.shuffle(terms)
    return tuple(terms)


def test_random_differences_keep_their_meaning() -> None:
    guarded = 0
    for seed in SEEDS:
        random = Random(seed)
        query = difference(random)
        searches = random.choice((True, False))
        flips = only_flips(query, Names(frozenset({"k", "v", "z", "best", "total"})), searches)
        guarded += flips != query
        for _ in range(4):
            store = random_maps(random)
            event = {
                "@x": random.choice(DOMAIN),
                "@y": random.choice(DOMAIN),
                "@W": random.choice((-2, -1, 1, 2)),
            }
            expected = evaluate_query(query, (K,), store, event)
            assert evaluate_query(flips, (K,), store, event) == expected, f"seed {seed}"
    assert guarded > len(SEEDS) / 2, "hardly any difference was guarded"


@pytest.mark.parametrize("side", [0, 1])
def test_a_guard_on_one_side_only_would_be_noticed(side: int) -> None:
    """The law is sharp: guards that are left out of one product change what some difference means."""
    for seed in SEEDS:
        random = Random(seed)
        query = difference(random)
        flips = only_flips(query, Names(frozenset({"k", "v", "z", "best", "total"})), True)
        changed = [i for i, (a, b) in enumerate(zip(query, flips, strict=True)) if a != b]
        if len(changed) != 2:
            continue
        half = tuple(query[i] if i == changed[side] else term for i, term in enumerate(flips))
        for _ in range(4):
            store = random_maps(random)
            event = {"@x": random.choice(DOMAIN), "@y": random.choice(DOMAIN), "@W": 1}
            if evaluate_query(half, (K,), store, event) != evaluate_query(query, (K,), store, event):
                return
    pytest.fail("no difference noticed")
