"""Fuzzed operations: amounts of DOUBLE in units of grids, against Grid; and Grid against fractions."""

from __future__ import annotations

import random
from fractions import Fraction

import pytest

from indexes.conftest import Build, for_long
from indexes.words import bits, compare, wide
from viewlet.indexes import Grid

TAKE, OVER, UNITS, MOVE = range(4)

Pair = tuple[float, float]

SPECIAL = [0.0, -0.0, 5e-324, -2.2250738585072014e-308, 1.7976931348623157e308, float("inf"), float("nan")]


def amounts(draw: random.Random, most: int) -> Pair:
    """A double of few bits or of many and, now and then, what is left of a sum that had more."""
    if draw.random() < 0.03:
        return draw.choice(SPECIAL), 0.0
    size = draw.choice([1, 3, 20, 53])
    high = draw.choice([-1, 1]) * draw.getrandbits(size) * 2.0 ** draw.randint(-most, most)
    if draw.random() < 0.7:
        return high, 0.0
    return high, high * 2.0**-54 * draw.choice([-1.0, 0.5, 0.75])


def test_units_are_exact():
    draw = random.Random(1)
    for most in (5, 20, 40, 300):
        for _ in range(300):
            pairs = [amounts(draw, most) for _ in range(draw.choice((1, 2, 5)))]
            grid = Grid.over(pairs)
            if grid is None:
                continue
            for pair in pairs:
                units = grid.units(pair)
                assert units is not None
                assert units * Fraction(2) ** grid.exponent == Fraction(pair[0]) + Fraction(pair[1])
                assert grid.value(units) == float(Fraction(pair[0]) + Fraction(pair[1]))


@for_long
@pytest.mark.native
def test_native(build: Build, seed: int) -> None:
    check(build, seed, 3000)


@pytest.mark.native
def test_native_quickly(build: Build) -> None:
    check(build, 1, 400)


def check(build: Build, seed: int, steps: int) -> None:
    """Grids over a few amounts, and these and others in units of them, one after the other and in sums."""
    draw = random.Random(seed)
    operations: list[tuple[object, ...]] = []
    words: list[int] = []
    expected: list[list[int]] = []
    grid: Grid | None = None

    def ask(op: int, pair: Pair, answer: list[int]) -> None:
        operations.append((op, pair, grid))
        words.extend([op, bits(pair[0]), bits(pair[1])])
        expected.append(answer)

    for _ in range(steps):
        most = draw.choice((3, 20, 40, 1000))
        pairs = [amounts(draw, most) for _ in range(draw.choice((1, 2, 5)))]
        for pair in pairs:
            ask(TAKE, pair, [])
        found = Grid.over(pairs)
        grid = found or grid
        ask(OVER, (0.0, 0.0), [found is not None, 0 if grid is None else grid.exponent])
        if grid is None:
            continue
        before, total = 0, 0
        for pair in [*pairs, *(amounts(draw, most) for _ in range(3)), (0.0, 0.0)]:
            units = grid.units(pair)
            ask(UNITS, pair, [units is not None, *wide(units or 0)])
            moved, before = (units or 0) - before, units or 0
            total += moved
            low = Fraction(total) - Fraction(float(total))
            pair_of_sum = [bits(grid.value(total)), bits(grid.value(int(low)) + 0.0)]
            ask(MOVE, pair, [*wide(moved), units is None, bits(grid.value(total)), *pair_of_sum])
    compare(operations, build("grid")(words), expected)
