"""Fuzzed operations: the native ordered tree in every shape against OrderedMap and MaximumMap."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from indexes.conftest import Build, for_long
from indexes.words import INT64_MAX, INT64_MIN, bits, compare, wide
from viewlet.indexes import Boundary, MaximumMap, OrderedMap, Record
from viewlet.indexes.record import is_empty, plus

pytestmark = pytest.mark.native

ADD, GET, TOTAL, BELOW_SUM, THROUGH_SUM, FROM_SUM, RANGE_SUM = range(7)
FIRST_OVER, FIRST_REACHING, LAST_OVER, LAST_REACHING, FIRST_OVER_FROM, KTH = range(7, 13)
AT_LEAST, ABOVE, AT_MOST, BELOW, FIRST, LAST, ALL, CHECK, TAKE, CLEAR, FIRST_MAX, FIRST_MAX_FROM = range(
    13, 25
)
SETTLE, DESCENTS, ERRORS = 25, 26, 27

Key = Any
Draw = Callable[[random.Random], Key]

SHAPES = {
    "default": (),
    "cumulative": ("ORD_CUMULATIVE=1",),
    "wide": ("ORD_INNER=64", "ORD_LEAF=64"),
    "tiny": ("ORD_INNER=4", "ORD_LEAF=4"),
    "tiny cumulative": ("ORD_INNER=4", "ORD_LEAF=4", "ORD_CUMULATIVE=1"),
    "tiny maximum": ("ORD_INNER=4", "ORD_LEAF=5", "M"),
    "tiny double sums": ("ORD_INNER=5", "ORD_LEAF=4", "V=double", "W=double"),
    "pair": ("ORD_INNER=4", "ORD_LEAF=8", "PAIR"),
    "pair cumulative": ("ORD_CUMULATIVE=1", "PAIR", "W=int64_t"),
    "triple": ("ORD_INNER=5", "ORD_LEAF=6", "TRIPLE", "M"),
    "real": ("ORD_INNER=4", "ORD_LEAF=4", "REAL"),
}

# The long run has them all: compiling a shape takes longer than the rest of its test.
QUICK = ("default", "tiny cumulative", "tiny maximum", "pair", "real")


def scalar_key(rng: random.Random) -> int:
    """Mostly a few hundred keys around zero, some anywhere, the extremes often."""
    kind = rng.random()
    if kind < 0.85:
        return rng.randrange(-150, 150)
    if kind < 0.95:
        return rng.randrange(INT64_MIN, INT64_MAX + 1)
    return rng.choice((INT64_MIN, INT64_MIN + 1, INT64_MAX - 1, INT64_MAX))


def pair_key(rng: random.Random) -> tuple[int, int]:
    return rng.choice((INT64_MIN, -1, 0, 3, INT64_MAX)), scalar_key(rng)


def triple_key(rng: random.Random) -> tuple[int, int, int]:
    return rng.randrange(3), rng.choice((INT64_MIN, 0, INT64_MAX)), scalar_key(rng)


def real_key(rng: random.Random) -> float:
    return rng.choice(
        (0.0, -0.0, float("inf"), float("-inf"), 5e-324, rng.randrange(-99, 99) / 8, rng.gauss(0, 1e9))
    )


def key_words(key: Key) -> list[int]:
    if isinstance(key, float):
        return [bits(key + 0.0), 0, 0]  # -0.0 + 0.0 is 0.0: one zero, as in the tree
    words = list(key) if isinstance(key, tuple) else [key]
    return words + [0] * (3 - len(words))


class Script:
    """Operations for the driver and what the reference answers, built side by side."""

    def __init__(self, defines: tuple[str, ...]) -> None:
        self.sums, self.maxima = OrderedMap(3), MaximumMap()
        self.with_maximum, self.in_doubles = "M" in defines, "V=double" in defines
        self.operations: list[tuple[object, ...]] = []
        self.words: list[int] = []
        self.expected: list[list[int]] = []

    def ask(self, op: int, key: Key, high: Key, rec: Record, maximum: int, answer: list[int]) -> None:
        n, v, w = (int(x) for x in rec)
        self.operations.append((op, key, high, rec, maximum))
        self.words += [op, *key_words(key), *key_words(high), n, *wide(v), *wide(w), maximum]
        self.expected.append(answer)

    def rec_words(self, rec: Record, maximum: float | None) -> list[int]:
        n, v, w = (int(x) for x in rec)
        known = maximum is not None and self.with_maximum
        return [n, *wide(v), *wide(w), int(maximum) if known else INT64_MIN]  # type: ignore[arg-type]

    def change(self, key: Key, delta: Record, maximum: int) -> None:
        if self.in_doubles:
            delta = (delta[0], *map(float, delta[1:]))
        was = self.maxima.get(key)
        old = self.sums.add(key, delta)
        if is_empty(plus(old, delta)):
            self.maxima.remove(key)
        else:
            self.maxima.set(key, maximum)
        self.ask(ADD, key, key, delta, maximum, self.rec_words(old, was))

    def neighbour(self, found: Key | None) -> list[int]:
        if found is None:
            return [0]
        return [1, *key_words(found), *self.rec_words(self.sums.get(found), self.maxima.get(found))]

    def boundary(self, found: Boundary | None, passed: Callable[[Key], float | None]) -> list[int]:
        if found is None:
            return [0]
        return [1, *key_words(found.key), *self.rec_words(found.before, passed(found.key))]

    def max_below(self, key: Key) -> float | None:
        last = self.sums.predecessor(key)
        least = self.sums.least()
        return None if last is None else self.maxima.range(least, last)

    def max_above(self, key: Key) -> float | None:
        following = self.sums.successor(key)
        return None if following is None else self.maxima.range(following, self.sums.greatest())

    def max_between(self, low: Key, key: Key) -> float | None:
        last = self.sums.predecessor(key)
        return None if last is None or last < low else self.maxima.range(low, last)

    def read(self, rng: random.Random, draw: Draw) -> None:
        """One random reading that is defined for records of any sign."""
        key, high, s, none = draw(rng), draw(rng), self.sums, (0, 0, 0)
        least, greatest = s.least(), s.greatest()
        match rng.randrange(10):
            case 0:
                there = key in (s.predecessor(key), key) and not is_empty(s.get(key))
                self.ask(
                    GET, key, key, none, 0, [int(there), *self.rec_words(s.get(key), self.maxima.get(key))]
                )
            case 1:
                top = None if least is None else self.maxima.range(least, greatest)
                self.ask(TOTAL, key, key, none, 0, self.rec_words(s.total(), top))
            case 2:
                self.ask(BELOW_SUM, key, key, none, 0, self.rec_words(s.before(key), self.max_below(key)))
            case 3:
                top = None if least is None else self.maxima.range(least, key)
                self.ask(THROUGH_SUM, key, key, none, 0, self.rec_words(s.through(key), top))
            case 4:
                rest = plus(s.total(), tuple(-x for x in s.before(key)))
                top = None if greatest is None else self.maxima.range(key, greatest)
                self.ask(FROM_SUM, key, key, none, 0, self.rec_words(rest, top))
            case 5:
                words = self.rec_words(s.range(key, high), self.maxima.range(key, high))
                self.ask(RANGE_SUM, key, high, none, 0, words)
            case 6:
                at = key if not is_empty(s.get(key)) else None
                self.ask(AT_LEAST, key, key, none, 0, self.neighbour(s.successor(key) if at is None else at))
                self.ask(AT_MOST, key, key, none, 0, self.neighbour(s.predecessor(key) if at is None else at))
            case 7:
                self.ask(ABOVE, key, key, none, 0, self.neighbour(s.successor(key)))
                self.ask(BELOW, key, key, none, 0, self.neighbour(s.predecessor(key)))
            case 8:
                self.ask(FIRST, key, key, none, 0, self.neighbour(least))
                self.ask(LAST, key, key, none, 0, self.neighbour(greatest))
            case 9 if self.with_maximum:
                bound = rng.randrange(-60, 60)
                for op, found in (
                    (FIRST_MAX, self.maxima.first_over(bound)),
                    (FIRST_MAX_FROM, self.maxima.first_over_from(key, bound)),
                ):
                    low = least if op == FIRST_MAX else key
                    hit = None if found is None else Boundary(found, s.range(low, found))
                    if hit is not None:
                        hit = Boundary(found, plus(hit.before, tuple(-x for x in s.get(found))))
                    self.ask(
                        op,
                        key,
                        key,
                        none,
                        bound,
                        self.boundary(hit, lambda k, low=low: self.max_between(low, k)),
                    )
            case _:
                self.ask(CHECK, key, key, none, 0, [0])

    def seek(self, rng: random.Random, draw: Draw) -> None:
        """One random threshold search; needs non-negative v and n."""
        s, key = self.sums, draw(rng)
        n, v, _ = (int(x) for x in s.total())
        bound = rng.choice((-1, 0, rng.randrange(-1, v + 2), v - 1, v, v + 1))
        rank = rng.randrange(-1, n + 2)
        searches = (
            (FIRST_OVER, s.first_over(1, bound), self.max_below),
            (FIRST_REACHING, s.first_reaching(1, bound), self.max_below),
            (LAST_OVER, s.last_over(1, bound), self.max_above),
            (LAST_REACHING, s.last_reaching(1, bound), self.max_above),
            (FIRST_OVER_FROM, s.first_over_from(key, 1, bound), lambda k: self.max_between(key, k)),
            (KTH, s.first_over(0, rank), self.max_below),
        )
        op, found, passed = rng.choice(searches)
        self.ask(op, key, key, (rank, bound, 0), 0, self.boundary(found, passed))

    def whole(self) -> None:
        """The whole contents, forwards and backwards, and the invariants."""
        words = [len(self.sums)]
        for key, _ in self.sums:
            words += self.neighbour(key)
        for key in reversed(self.sums.keys()):
            words += key_words(key)
        zero: Key = next(iter(self.sums.keys()), 0)
        self.ask(ALL, zero, zero, (0, 0, 0), 0, words)
        self.ask(CHECK, zero, zero, (0, 0, 0), 0, [0])


def draw_of(defines: tuple[str, ...]) -> Draw:
    kinds = {"PAIR": pair_key, "TRIPLE": triple_key, "REAL": real_key}
    return next((kinds[d] for d in defines if d in kinds), scalar_key)


def monotone(script: Script, rng: random.Random, draw: Draw, steps: int) -> None:
    """Rows come and go in waves, down to empty; volumes are >= 0, so that searches are defined."""
    rows: list[tuple[Key, Record]] = []
    growing = True
    for _ in range(steps):
        if not rows or len(rows) > 500:
            growing = not rows
        if rng.random() < (0.75 if growing else 0.2) or not rows:
            row = (draw(rng), (1, rng.choice((0, 1, rng.randrange(100))), rng.randrange(-(2**40), 2**40)))
            rows.append(row)
            script.change(*row, rng.randrange(-50, 50))
        else:
            i = rng.randrange(len(rows))
            rows[i], rows[-1] = rows[-1], rows[i]
            key, record = rows.pop()
            script.change(key, tuple(-x for x in record), rng.randrange(-50, 50))
        script.read(rng, draw) if rng.random() < 0.5 else script.seek(rng, draw)


def signed(script: Script, rng: random.Random, draw: Draw, steps: int) -> None:
    """Any deltas: negative counts and sums, records with count zero, changes that cancel."""
    done: list[tuple[Key, Record]] = []
    for _ in range(steps):
        if done and rng.random() < 0.45:
            key, record = done.pop(rng.randrange(len(done)))
            script.change(key, tuple(-x for x in record), rng.randrange(-50, 50))
        else:
            change = (
                draw(rng),
                tuple(rng.choice((0, -1, 1, rng.randrange(-(2**40), 2**40))) for _ in range(3)),
            )
            done.append(change)
            script.change(*change, rng.randrange(-50, 50))
        script.read(rng, draw)


def fuzz(build: Build, defines: tuple[str, ...], seed: int, steps: int) -> None:
    for story in (monotone, signed):
        script = Script(defines)
        story(script, random.Random(f"{seed} {defines}"), draw_of(defines), steps)
        script.whole()
        compare(script.operations, build("tree", *defines)(script.words), script.expected)


@pytest.mark.parametrize("shape", QUICK)
def test_tree_agrees_with_the_reference(build: Build, shape: str) -> None:
    fuzz(build, SHAPES[shape], seed=1, steps=1000)


@pytest.mark.slow
@for_long
@pytest.mark.parametrize("shape", SHAPES)
def test_tree_agrees_with_the_reference_for_long(build: Build, shape: str, seed: int) -> None:
    fuzz(build, SHAPES[shape], seed, steps=20000)


@pytest.mark.parametrize("shape", ["default", "tiny cumulative", "tiny maximum"])
@pytest.mark.parametrize("order", ["ascending", "descending", "shuffled", "comb"])
def test_building_and_emptying(build: Build, shape: str, order: str) -> None:
    """Grow to hundreds of records and shrink to none, in the orders that stress splits and joins."""
    rng, keys = random.Random(order), list(range(0, 1200, 3))
    if order == "descending":
        keys.reverse()
    if order == "shuffled":
        rng.shuffle(keys)
    script = Script(SHAPES[shape])
    for key in keys:
        script.change(key, (1, key, -key), key % 7)
    script.whole()
    if order == "comb":
        keys = [k for k in keys if k % 8] + [k for k in keys if not k % 8]
    for i, key in enumerate(keys):
        script.change(key, (-1, -key, key), 0)
        if i % 100 == 0:
            script.whole()
    script.whole()
    assert len(script.sums) == 0
    compare(script.operations, build("tree", *SHAPES[shape])(script.words), script.expected)


def test_cursor_agrees_with_descent(build: Build) -> None:
    """A boundary under a drifting bound: the cursor's answer is the descent's, and it seldom descends."""
    rng, script, book = random.Random(5), Script(()), {}
    for step in range(4000):
        price = int(rng.gauss(step / 10, 40))
        volume = rng.randrange(50)
        if price in book and rng.random() < 0.6:
            script.change(price, (0, volume - book[price], 0), 0)
        elif price in book:
            script.change(price, (-1, -book.pop(price), 0), 0)
            continue
        else:
            script.change(price, (1, volume, 0), 0)
        book[price] = volume
        bound = int(script.sums.total()[1]) * 3 // 4
        script.ask(
            SETTLE,
            0,
            0,
            (0, bound, 0),
            0,
            script.boundary(script.sums.first_over(1, bound), script.max_below),
        )
    compare(script.operations, build("tree", "CURSOR")(script.words), script.expected)


def test_cursor_does_not_descend_while_the_shape_stays(build: Build) -> None:
    script = Script(())
    for price in range(20):
        script.change(price, (1, 10, 0), 0)
    for step in range(100):
        script.change(step % 20, (0, 1, 0), 0)
        bound = int(script.sums.total()[1]) // 2
        script.ask(
            SETTLE,
            0,
            0,
            (0, bound, 0),
            0,
            script.boundary(script.sums.first_over(1, bound), script.max_below),
        )
    script.ask(DESCENTS, 0, 0, (0, 0, 0), 0, [1])
    compare(script.operations, build("tree", "CURSOR")(script.words), script.expected)


def test_double_sums_leave_no_residue(build: Build) -> None:
    """A huge value comes and goes; the small ones beside it are whole again, to the last bit."""
    script = Script(SHAPES["tiny double sums"])
    for key in range(200):
        script.change(key, (1, 1, 1), 0)
    for key in range(0, 200, 7):
        script.change(1000 + key, (1, 2**90, 0), 0)
        script.change(1000 + key, (-1, -(2**90), 0), 0)
        script.ask(TOTAL, 0, 0, (0, 0, 0), 0, script.rec_words(script.sums.total(), None))
    compare(script.operations, build("tree", *SHAPES["tiny double sums"])(script.words), script.expected)


def test_a_negative_slice_does_not_disturb_another(build: Build) -> None:
    script = Script(())
    for k in range(40):
        script.change((0, k), (1, -100, 0), 0)
        script.change((1, k), (1, 3, 0), 0)
    for bound in range(-1, 121):
        found = script.sums.first_over_from((1, INT64_MIN), 1, bound)
        expected = (1, max(bound, 0) // 3) if bound < 120 else None
        assert (found.key if found else None) == expected
        script.ask(
            FIRST_OVER_FROM, (1, INT64_MIN), (0, 0), (0, bound, 0), 0, script.boundary(found, lambda _: None)
        )
    compare(script.operations, build("tree", *SHAPES["pair"])(script.words), script.expected)


def test_running_out_of_memory_is_told_and_survived(build: Build) -> None:
    """Past the limit and its slack an insert is lost, and says so; every call stays safe."""
    memory, lost, count = 1 << 8, 1 << 9, 200_000
    run = build("tree", "LIMIT=65536", "ORD_INNER=4", "ORD_LEAF=4")
    words: list[int] = []
    for step in range(count):
        words += [ADD, step * 7919 % count, *[0] * 5, 1, 0, 1, 0, 1, 0]
    for op in (ERRORS, TOTAL, ALL):
        words += [op, *[0] * 12]
    answers = run(words)[6 * count :]
    assert answers[0] & (memory | lost) == memory | lost
    assert 0 < answers[7] < count
