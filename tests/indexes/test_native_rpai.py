"""Fuzzed shifts: the native RPAI tree against RpaiTree, and RpaiTree against the scanning PaiMap."""

from __future__ import annotations

import random

import pytest

from indexes.conftest import Build, for_long
from indexes.words import INT64_MAX, INT64_MIN, compare, wide
from viewlet.indexes import Record, RpaiTree

pytestmark = pytest.mark.native

ADD, PUT, SHIFT, SHIFT_FROM, GET, GET_SUM, TOTAL, ALL, ERRORS = range(9)
SHAPES = {
    "default": (),
    "tiny": ("ORD_INNER=4", "ORD_LEAF=4"),
    "tiny cumulative": ("ORD_INNER=4", "ORD_LEAF=4", "ORD_CUMULATIVE=1"),
    "wide keys": ("ORD_INNER=5", "ORD_LEAF=6", "WIDE"),
}


class Script:
    def __init__(self, wide_keys: bool) -> None:
        self.tree, self.wide_keys = RpaiTree(2), wide_keys
        self.operations: list[tuple[object, ...]] = []
        self.words: list[int] = []
        self.expected: list[list[int]] = []

    def key(self, k: int) -> list[int]:
        return wide(k) if self.wide_keys else [k]

    def ask(self, op: int, key: int, offset: int, rec: Record, answer: list[int]) -> None:
        self.operations.append((op, key, offset, rec))
        self.words += [op, *self.key(key), *self.key(offset), *(int(x) for x in rec)]
        self.expected.append(answer)

    def change(self, op: int, key: int, offset: int, rec: Record) -> None:
        match op:
            case 0:
                self.tree.add(key, rec)
            case 1:
                self.tree.put(key, rec)
            case 2:
                self.tree.shift_keys(key, offset)
            case 3:
                self.tree.shift_keys_inclusive(key, offset)
        self.ask(op, key, offset, rec, [0])

    def whole(self) -> None:
        words = [0, len(self.tree.items())]
        for key, rec in self.tree:
            words += [*self.key(int(key)), *(int(x) for x in rec)]
        self.ask(ALL, 0, 0, (0, 0), words)


def fuzz(build: Build, defines: tuple[str, ...], seed: int, steps: int, scale: int) -> None:
    """Keys within ``scale``; shifts small (they meet), middling, and as large as everything (they break)."""
    rng, script = random.Random(f"{seed} {defines} {scale}"), Script("WIDE" in defines)
    for step in range(steps):
        key = rng.randrange(-scale, scale)
        rec = (rng.choice((-1, 1, 1, 2)), rng.randrange(-9, 9))
        reach = rng.choice((1, 2, 5, max(scale // 20, 1), scale // 4 + 1))
        match rng.randrange(8):
            case 0 | 1 | 2:
                script.change(ADD, key, 0, rec)
            case 3:
                existing = script.tree.items()
                if existing:
                    at, old = rng.choice(existing)
                    script.change(ADD, int(at), 0, tuple(-x for x in old))
            case 4:
                script.change(PUT, key, 0, rng.choice((rec, (0, 0))))
            case op:
                drift = script.tree.items()[:1]
                back = drift and abs(int(drift[0][0])) > 8 * scale  # keep keys near: nothing may overflow
                offset = -int(drift[0][0]) if back else rng.choice((-1, 1)) * rng.randrange(1, reach + 1)
                script.change(SHIFT if op != 6 else SHIFT_FROM, -(2**62) if back else key, offset, (0, 0))
        script.ask(GET_SUM, key, 0, (0, 0), [int(x) for x in script.tree.get_sum(key)])
        script.ask(GET, key, 0, (0, 0), [int(x) for x in script.tree.get(key)])
        script.ask(TOTAL, 0, 0, (0, 0), [int(x) for x in script.tree.total()])
        if step % 100 == 0:
            script.whole()
    script.whole()
    compare(script.operations, build("rpai", *defines)(script.words), script.expected)


@pytest.mark.parametrize("scale", [30, 400, 2**40])
@pytest.mark.parametrize("shape", SHAPES)
def test_rpai_agrees_with_the_reference(build: Build, shape: str, scale: int) -> None:
    fuzz(build, SHAPES[shape], 1, 700, scale)


@pytest.mark.slow
@for_long
@pytest.mark.parametrize("scale", [30, 400, 5000, 2**40])
@pytest.mark.parametrize("shape", SHAPES)
def test_rpai_agrees_with_the_reference_for_long(build: Build, shape: str, scale: int, seed: int) -> None:
    fuzz(build, SHAPES[shape], seed, 10000, scale)


def test_keys_span_the_whole_type(build: Build) -> None:
    """True keys at both ends of int64 while relative keys wrap."""
    script = Script(wide_keys=False)
    for key in (INT64_MIN, INT64_MIN + 1, -5, 0, 7, INT64_MAX - 9, INT64_MAX - 8):
        script.change(ADD, key, 0, (1, 1))
    script.change(SHIFT, 5, 8, (0, 0))
    script.change(SHIFT, 7, -(2**62), (0, 0))
    script.change(SHIFT_FROM, INT64_MIN + 1, -1, (0, 0))
    for key in range(INT64_MAX - 60, INT64_MAX + 1):
        script.change(ADD, key, 0, (1, 1))
    script.change(SHIFT, 0, -(2**63) + 100, (0, 0))
    script.whole()
    compare(script.operations, build("rpai", *SHAPES["tiny"])(script.words), script.expected)


def test_a_shift_out_of_the_type_is_refused(build: Build) -> None:
    script = Script(wide_keys=False)
    script.change(ADD, 0, 0, (1, 1))
    script.change(ADD, INT64_MAX - 5, 0, (1, 1))
    script.ask(SHIFT, 3, 6, (0, 0), [0])
    integer_and_lost = 1 << 0 | 1 << 9
    script.ask(ERRORS, 0, 0, (0, 0), [integer_and_lost])
    script.whole()
    compare(script.operations, build("rpai", *SHAPES["tiny"])(script.words), script.expected)
