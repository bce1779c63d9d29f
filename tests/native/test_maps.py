"""Both map layouts and the slice indexes against a Python dict, under fuzzed operation sequences."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator

import numpy as np
import pytest

from native.conftest import signed, word

pytestmark = pytest.mark.native

E_MEMORY, E_LOST = 1 << 8, 1 << 9
Key = tuple[int, int, float, int]  # x, x is NULL, y, s
Model = dict[Key, tuple[int, int]]


def normal(key: Key) -> Key:
    """0.0 and -0.0 are one key; NaN is one key (written as None would be, by its repr)."""
    x, null, y, s = key
    return (0 if null else x, null, 0.0 if y == 0 else (1e999 if math.isnan(y) else y), s)


def spelled(key: Key) -> list[int]:
    x, null, y, s = key
    return [0 if null else x, null, word(y), s]


def random_key(rng: random.Random, width: int) -> Key:
    null = int(rng.random() < 0.1)
    y = rng.choice([0.0, -0.0, 1.5, -2.25, math.nan, float(rng.randrange(width))])
    x = signed(rng.randrange(-width, width) << rng.choice([0, 0, 32, 48]), 64)
    return (x, null, y, rng.randrange(-3, 12))


def add(model: Model, key: Key, weight: int, value: int) -> None:
    count, total = model.get(normal(key), (0, 0))
    count, total = count + weight, total + weight * value
    model[normal(key)] = (count, total)
    if count == 0:
        del model[normal(key)]


def read_records(answers: Iterator[int], n: int) -> Model:
    out: Model = {}
    for _ in range(n):
        x, null, y, s, count, total = (next(answers) for _ in range(6))
        key = normal((x, null, float(np.int64(y).view(np.float64)), s))
        assert key not in out
        out[key] = (count, total)
    return out


class Session:
    """Collects operations for the driver next to what the model says they answer."""

    def __init__(self, rng: random.Random, width: int) -> None:
        self.rng, self.width, self.model = rng, width, dict[Key, tuple[int, int]]()
        self.words: list[int] = []
        self.checks: list[tuple[str, object]] = []

    def some_key(self) -> Key:
        if self.model and self.rng.random() < 0.6:
            return self.rng.choice(list(self.model)) if len(self.model) < 200 else next(iter(self.model))
        return random_key(self.rng, self.width)

    def update(self) -> None:
        key = random_key(self.rng, self.width)
        weight, value = self.rng.choice([1, 1, 2, -1, -1, -2, 3]), self.rng.randrange(-100, 100)
        if normal(key) in self.model and self.rng.random() < 0.4:
            weight = -self.model[normal(key)][0]
        self.words += [0, *encoded(key), weight, value]
        add(self.model, key, weight, value)

    def get(self) -> None:
        key = self.some_key()
        self.words += [1, *encoded(key)]
        self.checks.append(("get", self.model.get(normal(key), (0, 0))))

    def every(self) -> None:
        self.words.append(2)
        self.checks.append(("every", dict(self.model)))

    def slice_by_s(self) -> None:
        s = self.rng.randrange(-3, 12)
        self.words += [3, s]
        self.checks.append(("slice", {k: v for k, v in self.model.items() if k[3] == s}))

    def slice_by_x(self) -> None:
        x, null, _, _ = normal(self.some_key())
        self.words += [4, x, null]
        self.checks.append(("slice", {k: v for k, v in self.model.items() if k[:2] == (x, null)}))

    def remove_slice(self) -> None:
        s = self.rng.randrange(-3, 12)
        self.words += [7, s]
        self.model = {k: v for k, v in self.model.items() if k[3] != s}

    def remove_in_loop(self) -> None:
        self.words.append(8)
        self.model = {k: v for k, v in self.model.items() if k[3] % 2 == 0}

    def clear(self) -> None:
        self.words.append(5)
        self.model = {}

    def batch(self) -> None:
        keys = [self.some_key() for _ in range(self.rng.randrange(0, 40))]
        self.words += [9, len(keys), *(w for k in keys for w in encoded(k))]
        counts = [self.model.get(normal(k), (0, 0))[0] for k in keys]
        self.checks.append(("batch", [c for count in counts for c in (count, count)]))

    def finish(self, run) -> None:
        self.every()
        self.words += [10, 11]
        answers = iter(run([0, *self.words]))
        for kind, expected in self.checks:
            match kind:
                case "get":
                    assert [next(answers) for _ in range(4)] == [*expected, *expected]
                case "batch":
                    assert [next(answers) for _ in expected] == expected
                case "slice":
                    assert read_records(answers, next(answers)) == expected
                case "every":
                    assert read_records(answers, next(answers)) == expected
                    assert read_records(answers, next(answers)) == expected
        flat_bytes, full_bytes, slice_bytes, unaccounted, errors = answers
        assert min(flat_bytes, full_bytes, slice_bytes) > 0
        assert unaccounted == 0
        assert errors == 0


def encoded(key: Key) -> list[int]:
    """A key from the model's normal form (where NaN is written as infinity) or a fresh one."""
    x, null, y, s = key
    return spelled((x, null, math.nan if y == 1e999 else y, s))


def fuzz(run, seed: int, steps: int, width: int) -> None:
    rng = random.Random(seed)
    session = Session(rng, width)
    rare = [
        session.every,
        session.slice_by_s,
        session.slice_by_x,
        session.remove_slice,
        session.remove_in_loop,
        session.batch,
    ]
    for _ in range(steps):
        draw = rng.random()
        if draw < 0.75:
            session.update()
        elif draw < 0.93:
            session.get()
        elif draw < 0.999:
            rng.choices(rare, weights=[1, 6, 6, 1, 0.5, 4])[0]()
        else:
            session.clear()
    session.finish(run)


@pytest.mark.parametrize("driver", ["maps", "large_maps"])
@pytest.mark.parametrize(("seed", "width"), [(0, 3), (1, 20), (2, 300), (3, 5000), (4, 2)])
def test_maps_equal_a_dict(build_driver, driver, seed, width):
    fuzz(build_driver(driver), seed, 3000, width)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 140))
def test_maps_equal_a_dict_for_long(build_driver, seed):
    fuzz(build_driver("maps"), seed, 20000, random.Random(seed).choice([2, 10, 100, 1000, 100000]))


def test_growth_and_shrinking_keep_everything(build_driver):
    """Tens of thousands in, most out again: memory comes back, the rest stays."""
    model: Model = {}
    words = [0]
    for i in range(20000):
        key = (i, 0, 0.0, i % 7)
        words += [0, *spelled(key), 1, i]
        add(model, key, 1, i)
    words += [10]
    for i in range(19900):
        key = (i, 0, 0.0, i % 7)
        words += [0, *spelled(key), -1, i]
        add(model, key, -1, i)
    answers = iter(build_driver("maps")([*words, 10, 2]))
    before, after = ([next(answers) for _ in range(4)] for _ in range(2))
    assert after[0] < before[0] / 20
    assert after[2] < before[2] / 8
    assert before[3] == after[3] == 0
    assert read_records(answers, next(answers)) == model
    assert read_records(answers, next(answers)) == model


def test_released_records_are_used_again(build_driver):
    """Churn at a constant number of records needs no more memory than the records themselves."""
    words = [0]
    for i in range(20000):
        words += [0, *spelled((i, 0, 0.0, 0)), 1, i]
        if i >= 100:
            words += [0, *spelled((i - 100, 0, 0.0, 0)), -1, i - 100]
        if i == 300:
            words += [10]
    answers = build_driver("maps")([*words, 10])
    assert answers[:3] == answers[4:7]


def test_reserve_then_no_growth(build_driver):
    n = 3000
    inserts = [w for i in range(n) for w in (0, *spelled((i, 0, 0.5, 0)), 1, 1)]
    answers = build_driver("maps")([0, 6, n, 10, *inserts, 10])
    assert answers[0] == 1
    assert answers[1:3] == answers[5:7]


def test_a_reached_limit_is_told_and_loses_nothing(build_driver):
    """The first VL_E_MEMORY comes while every update is still stored; afterwards updates may be lost, and
    that is told too."""
    run, limit, chunk = build_driver("maps"), 2 << 20, 500
    words, model, states = [limit], Model(), []
    for start in range(0, 60000, chunk):
        for i in range(start, start + chunk):
            words += [0, *spelled((i, 0, 0.0, 0)), 1, i]
            add(model, (i, 0, 0.0, 0), 1, i)
        words += [11, 1, *spelled((start, 0, 0.0, 0))]
        states.append(start)
    answers = iter(run(words))
    errors = []
    for start in states:
        errors.append(next(answers))
        found = [next(answers) for _ in range(4)]
        if not any(e & E_LOST for e in errors):
            assert found == [1, start, 1, start]
    told = next(i for i, e in enumerate(errors) if e)
    assert errors[told] == E_MEMORY
    assert not any(e & E_LOST for e in errors[: told + 3])
    assert any(e & E_LOST for e in errors)
