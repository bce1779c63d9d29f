"""What a table asks for ahead of a batch is what the functions of maps and slices would ask for."""

from __future__ import annotations

import random

import pytest

pytestmark = pytest.mark.native

STEPS = 9


def rows_of(rng: random.Random, n: int, values: int) -> list[int]:
    """Rows of two columns; some have values that no record has, or that need all bits."""
    found: list[int] = []
    for _ in range(n):
        found += [rng.choice([rng.randrange(values), rng.randrange(-(1 << 63), 1 << 63)])]
        found += [rng.choice([rng.randrange(values), -rng.randrange(1 << 31)])]
    return found


@pytest.mark.parametrize("every", [1, 3])
def test_a_table_asks_for_what_the_functions_do(build_driver, every):
    rng = random.Random(every)
    records, rows = rows_of(rng, 9_000, 2_000), rows_of(rng, 100, 2_000)
    asks, noted, equal = build_driver("ahead")([9_000, *records, 100, *rows, every])
    assert (asks, equal) == (STEPS, 1)
    assert noted > 4 * (100 // every)  # three steps ask for something in any case


def test_nothing_is_asked_for_while_maps_are_small(build_driver):
    rng = random.Random(7)
    answers = build_driver("ahead")([50, *rows_of(rng, 50, 20), 100, *rows_of(rng, 100, 20), 1])
    assert answers == [0, 0, 1]
