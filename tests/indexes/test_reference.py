"""The reference structures against brute force over plain lists, and their stated costs."""

from __future__ import annotations

import bisect
import math
import random
from collections import Counter
from itertools import accumulate
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from viewlet.indexes import (
    BestMap,
    Boundary,
    BoundaryCursor,
    FenwickMap,
    MaximumMap,
    OrderedMap,
    OrderedMultiset,
    PaiMap,
    RangeTree,
    RpaiTree,
    treap,
)
from viewlet.indexes.record import IndexStructureError, Record, is_empty, plus, zero

keys = st.integers(-8, 8)
deltas = st.tuples(st.integers(-2, 2), st.integers(-3, 3), st.integers(-3, 3))
rows = st.tuples(st.just(1), st.integers(0, 4), st.integers(-3, 3))


def contents(changes: list[tuple[int, Record]]) -> dict[int, Record]:
    """What a map holds after these changes: sums per key, empty ones gone at once."""
    held: dict[int, Record] = {}
    for key, delta in changes:
        held[key] = plus(held.get(key, (0, 0, 0)), delta)
        if is_empty(held[key]):
            del held[key]
    return held


def total(records: list[Record]) -> Record:
    return tuple(sum(column) for column in zip(*records, strict=True)) if records else (0, 0, 0)


@given(st.lists(st.tuples(keys, deltas)), keys, keys)
def test_ordered_map_sums_and_neighbours(changes: list[tuple[int, Record]], a: int, b: int) -> None:
    tree = OrderedMap(3)
    for i, (key, delta) in enumerate(changes):
        assert tree.add(key, delta) == contents(changes[:i]).get(key, (0, 0, 0))
    held = contents(changes)
    inside = sorted(held)
    assert list(tree) == sorted(held.items())
    assert len(tree) == len(held)
    assert tree.total() == total(list(held.values()))
    assert tree.before(a) == total([r for k, r in held.items() if k < a])
    assert tree.through(a) == total([r for k, r in held.items() if k <= a])
    assert tree.range(a, b) == total([r for k, r in held.items() if a <= k <= b])
    assert tree.items(a, b) == sorted((k, r) for k, r in held.items() if a <= k <= b)
    assert tree.rank(a) == sum(r[0] for k, r in held.items() if k < a)
    assert tree.predecessor(a) == max((k for k in inside if k < a), default=None)
    assert tree.successor(a) == min((k for k in inside if k > a), default=None)
    assert (tree.least(), tree.greatest()) == (min(inside, default=None), max(inside, default=None))


def boundary(held: list[tuple[int, Record]], field: int, bound: int, strict: bool) -> Boundary | None:
    """The definition: walk and add until the running sum passes."""
    before = zero(3)
    for key, record in held:
        through = plus(before, record)
        if through[field] > bound or (not strict and through[field] == bound):
            return Boundary(key, before)
        before = through
    return None


@given(st.lists(st.tuples(keys, rows)), st.integers(0, 2**30), st.integers(-1, 40), keys)
def test_ordered_map_threshold_descent(
    inserted: list[tuple[int, Record]], which: int, bound: int, low: int
) -> None:
    tree = OrderedMap(3)
    removed = [row for i, row in enumerate(inserted) if which >> i & 1]
    changes = inserted + [(key, tuple(-x for x in record)) for key, record in removed]
    for key, delta in changes:
        tree.add(key, delta)
    up = sorted(contents(changes).items())
    down = up[::-1]
    assert tree.first_over(1, bound) == boundary(up, 1, bound, strict=True)
    assert tree.first_reaching(1, bound) == boundary(up, 1, bound, strict=False)
    assert tree.last_over(1, bound) == boundary(down, 1, bound, strict=True)
    assert tree.last_reaching(1, bound) == boundary(down, 1, bound, strict=False)
    later = [row for row in up if row[0] >= low]
    assert tree.first_over_from(low, 1, bound) == boundary(later, 1, bound, strict=True)
    expanded = [key for key, record in up for _ in range(int(record[0]))]
    assert tree.kth(bound) == (expanded[bound] if 0 <= bound < len(expanded) else None)


@given(st.lists(st.tuples(st.booleans(), keys, st.integers(-5, 5))), keys, keys, st.integers(-6, 6))
def test_maximum_map(changes: list[tuple[bool, int, int]], a: int, b: int, bound: int) -> None:
    tree, held = MaximumMap(), {}
    for keep, key, value in changes:
        if keep:
            tree.set(key, value)
            held[key] = value
        else:
            tree.remove(key)
            held.pop(key, None)
    assert list(tree) == sorted(held.items())
    assert tree.get(a) == held.get(a)
    assert tree.range(a, b) == max((v for k, v in held.items() if a <= k <= b), default=None)
    assert tree.first_over(bound) == min((k for k, v in held.items() if v > bound), default=None)
    assert tree.first_over_from(a, bound) == min(
        (k for k, v in held.items() if v > bound and k >= a), default=None
    )


shifts = st.one_of(
    st.tuples(st.just("add"), keys, st.tuples(st.integers(-2, 2), st.integers(-3, 3))),
    st.tuples(st.just("put"), keys, st.tuples(st.integers(0, 2), st.integers(-3, 3))),
    st.tuples(st.just("shift"), st.integers(-30, 30), st.integers(-12, 12)),
    st.tuples(st.just("shift from"), st.integers(-30, 30), st.integers(-12, 12)),
)


@settings(max_examples=300)
@given(st.lists(shifts, max_size=40), st.integers(-30, 30))
def test_rpai_is_a_pai_map(changes: list[tuple[str, int, object]], probe: int) -> None:
    """Positive, negative, meeting and order-breaking shifts against the scanning definition."""
    tree, scan = RpaiTree(2), PaiMap(2)
    for what, key, argument in changes:
        match what, argument:
            case "add", tuple() as record:
                tree.add(key, record)
                scan.add(key, record)
            case "put", tuple() as record:
                tree.put(key, record)
                scan.put(key, record)
            case "shift", int() as offset:
                tree.shift_keys(key, offset)
                scan.shift_keys(key, offset)
            case "shift from", int() as offset:
                tree.shift_keys_inclusive(key, offset)
                scan.shift_keys(key - 1, offset)
        assert tree.items() == scan.items()
        assert tree.get(probe) == scan.get(probe)
        assert tree.get_sum(probe) == scan.get_sum(probe)
    assert tree.total() == scan.get_sum(math.inf)


@given(st.lists(st.tuples(st.integers(-6, 6), st.sampled_from((1, 1, 2, -1)))), st.integers(-1, 12))
def test_multiset(changes: list[tuple[int, int]], k: int) -> None:
    bag, held = OrderedMultiset(), Counter()
    for value, weight in changes:
        if held[value] + weight < 0:
            continue
        bag.add(value, weight)
        held[value] += weight
    values = sorted(held.elements())
    assert (bag.least(), bag.greatest()) == (min(values, default=None), max(values, default=None))
    assert (len(bag), bag.distinct()) == (len(values), len(set(values)))
    assert bag.kth(k) == (values[k] if 0 <= k < len(values) else None)
    assert bag.bottom(k) == values[: max(k, 0)]
    assert bag.top(k) == values[::-1][: max(k, 0)]


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 9)), min_size=1), st.floats(0, 1.2))
def test_cursor_follows_the_descent(changes: list[tuple[int, int]], share: float) -> None:
    """Each change replaces a level's volume; 0 removes it."""
    book, held = OrderedMap(2), {}
    cursor = BoundaryCursor(book, 1)
    for price, volume in changes:
        delta = ((volume > 0) - (price in held), volume - held.pop(price, 0))
        if volume:
            held[price] = volume
        book.add(price, delta)
        cursor.note(price, delta)
        bound = int(book.total()[1] * share)
        assert cursor.settle(bound) == book.first_over(1, bound)


def test_cursor_walks_when_the_boundary_is_near() -> None:
    book = OrderedMap(2)
    cursor = BoundaryCursor(book, 1)
    for price in range(1000):
        book.add(price, (1, 10))
    cursor.settle(5000)
    for bound in range(5000, 9000, 20):
        found = cursor.settle(bound)
        assert found is not None
        assert found.key == bound // 10
    assert cursor.descents == 1
    cursor.settle(3)
    assert cursor.descents == 2


def test_float_sums_leave_no_residue() -> None:
    tree = OrderedMap(2)
    for key in range(100):
        tree.add(key, (1, 0.1))
    before = tree.total()
    for key in range(100, 130):
        tree.add(key, (1, 1e18))
        tree.add(key, (-1, -1e18))
    assert tree.total()[0] == 100
    assert math.isclose(tree.total()[1], before[1], rel_tol=1e-14)


def depth(node: treap.Node | None) -> int:
    return 0 if node is None else 1 + max(depth(node.left), depth(node.right))


@pytest.mark.parametrize("order", ["ascending", "shuffled"])
def test_trees_stay_shallow(order: str) -> None:
    """Expected depth is about 2.1 log2(n) + O(1); three times that would be a broken priority."""
    ordered, shifting = OrderedMap(1), RpaiTree(1)
    numbers = list(range(4000))
    if order == "shuffled":
        random.Random(1).shuffle(numbers)
    for number in numbers:
        ordered.add(number, (1,))
        shifting.add(number, (1,))
        if number % 10 == 0:
            shifting.shift_keys(number, 3)
            shifting.shift_keys(number, -3)
    for root in (ordered._root, shifting._root):
        assert depth(root) < 4 * math.log2(len(numbers))


def test_wrong_use_is_refused() -> None:
    with pytest.raises(IndexStructureError, match="3 fields"):
        OrderedMap(3).add(1, (1, 2))
    with pytest.raises(IndexStructureError, match="2 fields"):
        RpaiTree(2).add(1, (1,))
    with pytest.raises(IndexStructureError, match="power of two"):
        FenwickMap(2, 0, 12)
    tree = RangeTree()
    tree.insert(4, 0, 0)
    with pytest.raises(IndexStructureError, match="already holds key 4"):
        tree.insert(4, 1, 1)
    assert tree.items() == [(4, 0, 0)]


def test_prefix_sums_as_keys_give_vwap() -> None:
    """The published use: the final sum under the running volume, shifted by each event."""
    rng, volumes, index = random.Random(3), {}, RpaiTree(2)
    for _ in range(400):
        price = rng.randrange(60)
        old, new = volumes.get(price, 0), rng.choice((0, rng.randrange(1, 20)))
        below = sum(v for p, v in volumes.items() if p < price)
        if old:
            index.add(below + old, (-1, -price * old))
        index.shift_keys(below + (old if old else 0), new - old)
        if new:
            index.add(below + new, (1, price * new))
        volumes[price] = new
        levels = sorted((p, v) for p, v in volumes.items() if v)
        running = list(accumulate(v for _, v in levels))
        threshold = 3 * sum(v for _, v in levels) / 4
        start = bisect.bisect_right(running, threshold)
        expected = sum(p * v for p, v in levels[start:])
        assert index.total()[1] - index.get_sum(threshold)[1] == expected


@given(st.lists(st.tuples(keys, deltas), max_size=30), keys, keys)
def test_ordered_intervals_by_questions(changes: list[tuple[int, Record]], low: int, high: int) -> None:
    index = OrderedMap(3)
    for key, delta in changes:
        index.add(key, delta)
    held = sorted(contents(changes))

    def before(key: int) -> bool:
        return key < low

    def inside(key: int) -> bool:
        return key <= high

    assert index.between(before, inside) == [key for key in held if low <= key <= high]
    assert index.last(inside) == max((key for key in held if key <= high), default=None)
    assert index.first_beyond(before) == min((key for key in held if key >= low), default=None)


@pytest.mark.parametrize("op", ["min", "max"])
@given(st.lists(st.tuples(keys, st.none() | st.integers(-5, 5)), max_size=30), keys, keys)
def test_best_of_an_interval(
    op: Literal["min", "max"], changes: list[tuple[int, int | None]], low: int, high: int
) -> None:
    """A value is put under a key, or with None the key is forgotten."""
    index, held = BestMap(op), dict[int, int]()
    for key, value in changes:
        if value is None:
            index.remove(key)
            held.pop(key, None)
        else:
            index.set(key, value)
            held[key] = value
    choose = min if op == "min" else max
    expected = choose((value for key, value in held.items() if low <= key <= high), default=None)
    assert index.between(lambda key: key < low, lambda key: key <= high) == expected
    assert bool(index) == bool(held)
