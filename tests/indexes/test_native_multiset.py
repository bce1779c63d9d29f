"""Fuzzed groups: the native multiset through all three of its forms against OrderedMultiset."""

from __future__ import annotations

import random
from typing import Any

import pytest

from indexes.conftest import Build, for_long
from indexes.words import INT64_MAX, INT64_MIN, compare, wide
from viewlet.indexes import OrderedMultiset

pytestmark = pytest.mark.native

ADD, LEAST, GREATEST, ABOVE, BELOW, COUNT, KTH, SIZE, CLEAR, BYTES, CAPACITY = range(11)
IS_TREE = 2**16 - 1


class Script:
    def __init__(self, wide_keys: bool) -> None:
        self.groups, self.wide_keys = [OrderedMultiset() for _ in range(4)], wide_keys
        self.operations: list[tuple[object, ...]] = []
        self.words: list[int] = []
        self.expected: list[list[int]] = []

    def key(self, k: int) -> list[int]:
        return wide(k) if self.wide_keys else [k]

    def ask(self, op: int, group: int, key: int, weight: int, answer: list[int]) -> None:
        self.operations.append((op, group, key, weight))
        self.words += [op, group, *self.key(key), weight]
        self.expected.append(answer)

    def add(self, group: int, key: int, weight: int) -> None:
        self.groups[group].add(key, weight)
        self.ask(ADD, group, key, weight, [0, *self.key(0), 0])

    def value(self, op: int, group: int, key: int, found: Any | None) -> None:
        count = 0 if found is None else self.groups[group].count(found)
        self.ask(op, group, key, 0, [int(found is not None), *self.key(found or 0), count])

    def read(self, group: int, key: int, rank: int) -> None:
        bag = self.groups[group]
        values = [value for value, _ in bag]
        self.value(LEAST, group, key, bag.least())
        self.value(GREATEST, group, key, bag.greatest())
        self.value(ABOVE, group, key, next((v for v in values if v > key), None))
        self.value(BELOW, group, key, next((v for v in reversed(values) if v < key), None))
        self.ask(COUNT, group, key, 0, [0, *self.key(0), bag.count(key)])
        kth = bag.kth(rank)
        self.ask(KTH, group, 0, rank, [int(kth is not None), *self.key(kth or 0), 0])
        self.ask(SIZE, group, 0, 0, [int(bag.distinct() != 0), *self.key(0), len(bag)])


def fuzz(build: Build, seed: int, waves: int, wide_keys: bool) -> None:
    rng, script = random.Random(seed), Script(wide_keys)
    rows: list[tuple[int, int]] = []
    span = 2**100 if wide_keys else INT64_MAX
    for wave in range(waves):
        peak = rng.choice((6, 40, 700))
        for growing in (True, False):
            while (len(rows) < peak) if growing else rows:
                group = rng.choice((0, 0, 0, 1, 2, 3))
                if rng.random() < (0.8 if growing else 0.2):
                    key = rng.choice((rng.randrange(400), rng.randrange(-span, span), INT64_MIN, INT64_MAX))
                    rows.append((group, key))
                    script.add(group, key, 1)
                elif rows:
                    group, key = rows.pop(rng.randrange(len(rows)))
                    script.add(group, key, -1)
                if rng.random() < 0.1:
                    n = len(script.groups[group])
                    script.read(group, rng.randrange(-10, 410), rng.randrange(-1, n + 1))
        if wave == 0:
            script.ask(BYTES, 0, 0, 0, [0])  # empty again: every form gave its memory back
    compare(
        script.operations, build("multiset", *(["PAIR"] if wide_keys else []))(script.words), script.expected
    )


@pytest.mark.parametrize("wide_keys", [False, True])
def test_multiset_agrees_with_the_reference(build: Build, wide_keys: bool) -> None:
    fuzz(build, 1, 3, wide_keys)


@pytest.mark.slow
@for_long
@pytest.mark.parametrize("wide_keys", [False, True])
def test_multiset_agrees_with_the_reference_for_long(build: Build, wide_keys: bool, seed: int) -> None:
    fuzz(build, seed, 25, wide_keys)


def test_forms_change_with_the_number_of_values(build: Build) -> None:
    script = Script(wide_keys=False)
    for key, form in ((4, 0), (5, 8), (9, 16), (256, 256), (257, IS_TREE)):
        for value in range(script.groups[0].distinct(), key):
            script.add(0, value, 1)
        script.ask(CAPACITY, 0, 0, 0, [form])
    for value in range(257):
        script.add(0, value, -1)
        script.read(0, value, 0)
    script.ask(CAPACITY, 0, 0, 0, [0])
    script.ask(BYTES, 0, 0, 0, [0])
    compare(script.operations, build("multiset")(script.words), script.expected)


def test_a_delete_may_come_before_its_insert(build: Build) -> None:
    script = Script(wide_keys=False)
    for value in range(600):
        script.add(0, value, -1)
    for value in range(600):
        script.value(LEAST, 0, 0, script.groups[0].least())
        script.add(0, value, 1)
    script.ask(BYTES, 0, 0, 0, [0])
    compare(script.operations, build("multiset")(script.words), script.expected)
