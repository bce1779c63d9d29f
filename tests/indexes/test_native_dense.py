"""Fuzzed operations: the native Fenwick arrays against OrderedMap, and FenwickMap against it too."""

from __future__ import annotations

import random

import pytest

from indexes.conftest import Build, for_long
from indexes.words import INT64_MAX, INT64_MIN, compare, wide
from viewlet.indexes import Boundary, FenwickMap, OrderedMap, Record
from viewlet.indexes.record import is_empty, minus

pytestmark = pytest.mark.native

ADD, GET, TOTAL, BELOW, THROUGH, FROM, RANGE, OVER, REACHING, KTH, SIZE, CLEAR = range(12)


def rec_words(rec: Record) -> list[int]:
    n, v, w = (int(x) for x in rec)
    return [n, v, *wide(w)]


def hit_words(found: Boundary | None) -> list[int]:
    return [0] if found is None else [1, found.key, *rec_words(found.before)]


def fuzz(build: Build, seed: int, steps: int, low: int, high: int) -> None:
    rng, tree, flat = random.Random(seed), OrderedMap(3), FenwickMap(3, low, 1)
    operations: list[tuple[object, ...]] = []
    words: list[int] = []
    expected: list[list[int]] = []
    rows: list[tuple[int, Record]] = []

    def ask(op: int, key: int, top: int, rec: Record, answer: list[int]) -> None:
        operations.append((op, key, top, rec))
        words.extend([op, key, top, *rec_words(rec)])
        expected.append(answer)

    def change(key: int, rec: Record) -> None:
        old = tree.add(key, rec)
        assert flat.add(key, rec) == old
        ask(ADD, key, key, rec, rec_words(old))

    for _ in range(steps):
        if rows and rng.random() < 0.4:
            key, rec = rows.pop(rng.randrange(len(rows)))
            change(key, tuple(-x for x in rec))
        else:
            rows.append((rng.randint(low, high), (1, rng.randrange(20), rng.randrange(-(2**70), 2**70))))
            change(*rows[-1])
        key = max(min(rng.randint(low - 5, high + 5), INT64_MAX), INT64_MIN)
        top = max(min(rng.randint(low - 5, high + 5), INT64_MAX), INT64_MIN)
        rec, total = tree.get(key), tree.total()
        n, v = int(total[0]), int(total[1])
        bound, rank = rng.randint(-1, v + 1), rng.randint(-1, n)
        ask(GET, key, top, total, [int(not is_empty(rec)), *rec_words(rec)])
        ask(TOTAL, key, top, total, rec_words(total))
        ask(BELOW, key, top, total, rec_words(tree.before(key)))
        ask(THROUGH, key, top, total, rec_words(tree.through(key)))
        ask(FROM, key, top, total, rec_words(minus(total, tree.before(key))))
        ask(RANGE, key, top, total, rec_words(tree.range(key, top)))
        ask(OVER, key, top, (rank, bound, 0), hit_words(tree.first_over(1, bound)))
        ask(REACHING, key, top, (rank, bound, 0), hit_words(tree.first_reaching(1, bound)))
        ask(KTH, key, top, (rank, bound, 0), hit_words(tree.first_over(0, rank)))
        ask(SIZE, key, top, total, [len(tree)])
        assert flat.range(key, top) == tree.range(key, top)
        assert flat.first_over(1, bound) == tree.first_over(1, bound)
        assert flat.kth(rank) == tree.kth(rank)
        assert (len(flat), flat.total()) == (len(tree), total)
    assert list(flat) == list(tree)
    ask(CLEAR, 0, 0, (0, 0, 0), [0])
    compare(operations, build("fenwick")(words), expected)


DOMAINS = [(0, 40), (-300, 900), (INT64_MIN, INT64_MIN + 70), (INT64_MAX - 200, INT64_MAX)]


@pytest.mark.parametrize(("low", "high"), DOMAINS)
def test_dense_form_agrees_with_the_tree(build: Build, low: int, high: int) -> None:
    fuzz(build, 1, 300, low, high)


@pytest.mark.slow
@for_long
@pytest.mark.parametrize(("low", "high"), DOMAINS)
def test_dense_form_agrees_with_the_tree_for_long(build: Build, low: int, high: int, seed: int) -> None:
    fuzz(build, seed, 6000, low, high)
