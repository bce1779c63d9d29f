"""Maps that are arrays while their keys are dense, against a Python dict."""

from __future__ import annotations

import random
from collections import Counter

import pytest

pytestmark = pytest.mark.native

LEAST, MOST = -(1 << 63), (1 << 63) - 1


def int32(x: int) -> int:
    return ((x + (1 << 31)) & ((1 << 32) - 1)) - (1 << 31)


def replay(run, steps: list[tuple[int, ...]]) -> list[int]:
    """Every answer is that of dicts; answers what the driver says at the end."""
    one: Counter[int] = Counter()
    two: Counter[tuple[int, int]] = Counter()
    expected: list[list[int]] = []
    for what, *given in steps:
        if what == 0:
            x, s, weight = given
            one[x] += weight
            two[int32(x), s] += weight
        elif what == 1:
            x, s = given
            along = [key[1] for key, n in two.items() if n and key[0] == int32(x)]
            expected.append([one[x], two[int32(x), s], len(along), sum(along)])
        elif what == 3:
            one.clear()
            two.clear()
    answers = iter(run([0, *(word for step in steps for word in step), 2, 4]))
    for wanted in expected:
        assert [next(answers) for _ in wanted] == wanted
    assert {next(answers): next(answers) for _ in range(next(answers))} == {x: n for x, n in one.items() if n}
    found = {(next(answers), next(answers)): next(answers) for _ in range(next(answers))}
    assert found == {key: n for key, n in two.items() if n}
    said = list(answers)
    assert said[4:] == [0, 0], "unaccounted bytes, errors"
    return said


def filled(keys: list[int], per_home: int = 1) -> list[tuple[int, ...]]:
    return [(0, x, s, 1) for x in keys for s in range(per_home)]


@pytest.mark.parametrize("start", [-20_000, -500, 0, 1, 10**12, LEAST, MOST - 999])
@pytest.mark.parametrize("order", ["up", "down", "random"])
def test_dense_keys_are_an_array(build_driver, start, order):
    rng = random.Random(f"{start}{order}")
    keys = [start + i for i in range(1000)]
    if order != "up":
        keys.reverse()
    if order == "random":
        rng.shuffle(keys)
    around = [x for x in (start - 1, start + 1000, LEAST, MOST, 0, -1) if LEAST <= x <= MOST]
    steps = [*filled(keys), *((1, x, rng.randrange(2)) for x in [*keys[::7], *around])]
    one, two, *bytes_, _, _ = replay(build_driver("arrays"), steps)
    assert one
    assert two or start in (LEAST, MOST - 999)
    assert max(bytes_) < 3 * 16 * 1000


def test_sparse_keys_are_a_hash_table(build_driver):
    keys = [i * 1000 for i in range(1000)]
    assert replay(build_driver("arrays"), [*filled(keys), *((1, x, 0) for x in keys)])[:2] == [0, 0]


def test_a_second_record_at_a_home_makes_a_hash_table(build_driver):
    """With one record each x would be an array; the column does not decide s, after all."""
    keys = list(range(100))
    steps = [*filled(keys), (0, 50, 1, 1), *((1, x, 1) for x in keys)]
    assert replay(build_driver("arrays"), steps)[:2] == [1, 0]


def test_a_key_far_off_makes_a_hash_table(build_driver):
    steps = [*filled(list(range(100))), (0, 1 << 20, 0, 1), *((1, x, 0) for x in [5, 1 << 20, 101])]
    assert replay(build_driver("arrays"), steps)[:2] == [0, 0]


@pytest.mark.parametrize("seed", range(12))
def test_arrays_equal_a_dict(build_driver, seed):
    """Keys come and go as no constant map's do: whatever happens, the answers are right."""
    rng = random.Random(seed)
    width, per_home = rng.choice([10, 300, 3000]), rng.choice([1, 1, 3])
    start = rng.choice([0, -width // 2, LEAST, MOST - width, 1 << 40])
    far = rng.choice([0.0, 0.0, 0.001])
    steps: list[tuple[int, ...]] = []
    for _ in range(4000):
        x, s = start + rng.randrange(width), rng.randrange(per_home)
        if rng.random() < far:
            x = rng.randrange(LEAST, MOST)
        draw = rng.random()
        if draw < 0.6:
            steps.append((0, x, s, rng.choice([1, 1, 1, -1, 2])))
        elif draw < 0.9995:
            steps.append((1, x, s))
        else:
            steps.append((3,))
    replay(build_driver("arrays"), steps)


def test_memory_that_ends_is_told(build_driver):
    """An array that cannot become wider is no failure as long as a table can be had instead of it."""
    words = [1 << 20, *(word for x in range(200_000) for word in (0, x, 0, 1)), 4]
    *_, errors = build_driver("arrays")(words)
    assert errors & 1 << 8
