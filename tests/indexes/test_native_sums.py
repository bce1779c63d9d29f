"""Fuzzed operations: sums that change their form with their keys and amounts, against OrderedMap."""

from __future__ import annotations

import random

import pytest

from indexes.conftest import Build, for_long
from indexes.words import INT64_MAX, INT64_MIN, compare, wide
from viewlet.indexes import OrderedMap, Record

pytestmark = pytest.mark.native

ADD, TOTAL, BELOW, THROUGH, SIZE, DENSE, BYTES, GET, FOLLOWING = range(9)

Phase = tuple[int, int, float, int]
"""The keys from one to another, how often a row goes, and the greatest amount."""


def rec_words(rec: Record) -> list[int]:
    n, v, w = (int(x) for x in rec)
    return [n, v, *wide(w)]


def fuzz(build: Build, seed: int, steps: int, phases: list[Phase]) -> list[bool]:
    """Each phase in turn; the answers of the C version, and whether it was dense at the end of each."""
    rng, tree = random.Random(seed), OrderedMap(3)
    operations: list[tuple[object, ...]] = []
    words: list[int] = []
    expected: list[list[int]] = []
    rows: list[tuple[int, Record]] = []

    def ask(op: int, key: int, rec: Record, answer: list[int]) -> None:
        operations.append((op, key, rec))
        words.extend([op, key, *rec_words(rec)])
        expected.append(answer)

    ends, asked = [], phases[0][0]
    for low, high, going, most in phases:
        for _ in range(steps):
            if rows and rng.random() < going:
                key, rec = rows.pop(rng.randrange(len(rows)))
                rec = tuple(-x for x in rec)
            else:
                key, rec = rng.randint(low, high), (1, rng.randrange(20), rng.randint(-most, most))
                rows.append((key, rec))
            ask(ADD, key, rec, rec_words(tree.get(key)))
            tree.add(key, rec)
            if (chance := rng.random()) < 0.6:
                asked = rng.randint(low - 5, high + 5) if chance < 0.2 else asked + rng.randint(-9, 9)
                asked = max(min(asked, INT64_MAX), INT64_MIN)
            key = asked
            ask(TOTAL, key, rec, rec_words(tree.total()))
            ask(BELOW, key, rec, rec_words(tree.before(key)))
            ask(THROUGH, key, rec, rec_words(tree.through(key)))
            ask(GET, key, rec, [any(tree.get(key)), *rec_words(tree.get(key))])
            after = tree.successor(key)
            found = (0, 0, 0) if after is None else tree.get(after)
            ask(FOLLOWING, key, rec, [key if after is None else after, *rec_words(found)])
            ask(SIZE, key, rec, [len(tree)])
            ask(BYTES, key, rec, [1])
        ends.append(sum(map(len, expected)))
        ask(DENSE, 0, (0, 0, 0), [-1])
    answers = build("sums", *["MARKS"] * (seed % 2))(words)
    forms = [answers[at] for at in ends]
    for at in ends:
        answers[at] = -1
    compare(operations, answers, expected)
    return [bool(form) for form in forms]


NEAR, FAR, WIDE = 2**40, 10**12, 2**70
PHASES: dict[str, tuple[list[Phase], list[bool]]] = {
    "dense, then scattered": ([(0, 90, 0.3, NEAR), (-FAR, FAR, 0.3, NEAR)], [True, False]),
    "growing": ([(-90, 90, 0.3, NEAR), (-180, 90, 0.3, NEAR), (-180, 150, 0.3, NEAR)], [True, True, True]),
    "emptied and filled": ([(0, 60, 0.2, 9), (0, 60, 0.9, 9), (0, 60, 0.2, 9)], [True, False, True]),
    "amounts beyond 64 bits": ([(0, 60, 0.4, NEAR), (0, 60, 0.4, WIDE)], [True, False]),
    "the least keys": ([(INT64_MIN, INT64_MIN + 70, 0.3, NEAR)], [True]),
    "the greatest keys": ([(INT64_MAX - 70, INT64_MAX, 0.3, NEAR)], [True]),
}


@pytest.mark.parametrize("name", PHASES)
def test_both_forms_agree_with_the_reference(build: Build, name: str) -> None:
    phases, forms = PHASES[name]
    assert fuzz(build, 1, 300, phases) == forms


@pytest.mark.slow
@for_long
@pytest.mark.parametrize("name", PHASES)
def test_both_forms_agree_with_the_reference_for_long(build: Build, name: str, seed: int) -> None:
    fuzz(build, seed, 5000, PHASES[name][0])
