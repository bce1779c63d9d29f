"""Fuzzed range updates: the native range tree against RangeTree, and that against plain dictionaries."""

from __future__ import annotations

import random

import pytest

from indexes.conftest import Build, for_long
from indexes.words import INT64_MAX, INT64_MIN, compare, wide
from viewlet.indexes import RangeTree

pytestmark = pytest.mark.native

INSERT, REMOVE, ADD, RAISE, GET, READ, FIRST_PEAK, SUM_BY_PEAK, SIZE = range(9)


def fuzz(build: Build, value: str, seed: int, steps: int) -> None:
    rng, tree = random.Random(seed), RangeTree()
    plain: dict[int, tuple[int, int]] = {}
    operations: list[tuple[int, ...]] = []
    expected: list[list[int]] = []

    def ask(*operation: int, answer: list[int]) -> None:
        operations.append(operation)
        expected.append(answer)

    def change(op: int, low: int, high: int, x: int, y: int) -> None:
        match op:
            case 0:
                ask(INSERT, low, 0, x, y, answer=[int(low not in plain)])
                if low not in plain:
                    tree.insert(low, x, y)
                    plain[low] = (x, y)
            case 1:
                ask(REMOVE, low, 0, 0, 0, answer=[int(low in plain)])
                tree.remove(low)
                plain.pop(low, None)
            case 2:
                ask(ADD, low, high, x, 0, answer=[])
                tree.add_range(low, high, x)
                plain.update({k: (s + x, p) for k, (s, p) in plain.items() if low <= k <= high})
            case 3:
                ask(RAISE, low, high, x, 0, answer=[])
                tree.raise_range(low, high, x)
                plain.update({k: (s, max(p, x)) for k, (s, p) in plain.items() if low <= k <= high})

    for _ in range(steps):
        low, high = rng.randrange(-60, 60), rng.randrange(-60, 60)
        if rng.random() < 0.2:
            low, high = rng.choice(((INT64_MIN, high), (low, INT64_MAX), (INT64_MIN, INT64_MAX)))
        x, y = rng.randrange(-99, 99), rng.randrange(-99, 99)
        change(rng.choice((0, 0, 0, 1, 2, 3)), low, high, x, y)
        inside = [(k, v) for k, v in plain.items() if low <= k <= high]
        total = sum(s for _, (s, _) in inside)
        greatest = max((p for _, (_, p) in inside), default=None)
        first = min((k for k, (_, p) in plain.items() if p > x), default=None)
        rest = 0 if first is None else sum(s for k, (s, _) in plain.items() if k >= first)
        assert (tree.sum_range(low, high), tree.max_range(low, high)) == (total, greatest)
        assert (tree.first_peak_over(x), tree.sum_by_peak(x)) == (first, rest)
        assert tree.get(low) == plain.get(low)
        s, p = plain.get(low, (0, 0))
        ask(GET, low, 0, 0, 0, answer=[int(low in plain), *wide(s), *wide(p)])
        ask(READ, low, high, 0, 0, answer=[int(bool(inside)), *wide(total), *wide(greatest or 0)])
        ask(FIRST_PEAK, 0, 0, x, 0, answer=[int(first is not None), first or 0])
        ask(SUM_BY_PEAK, 0, 0, x, 0, answer=wide(rest))
        ask(SIZE, 0, 0, 0, 0, answer=[len(plain), len(plain)])
    assert tree.items() == sorted((k, s, p) for k, (s, p) in plain.items())
    answers = build("rbst", f"VALUE={value}")([word for operation in operations for word in operation])
    compare(operations, answers, expected)


@pytest.mark.parametrize("value", ["int64_t", "ord_i128", "double"])
def test_range_tree_agrees_with_the_reference(build: Build, value: str) -> None:
    fuzz(build, value, 1, 1000)


@pytest.mark.slow
@for_long
def test_range_tree_agrees_with_the_reference_for_long(build: Build, seed: int) -> None:
    fuzz(build, "int64_t", seed, 20000)
