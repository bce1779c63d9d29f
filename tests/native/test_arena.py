"""Blocks never overlap, bytes are accounted exactly, images survive, limits are kept."""

from __future__ import annotations

import random

import pytest

pytestmark = pytest.mark.native

E_MEMORY = 1 << 8
HEADER = 2880
MIB = 1 << 20


def block_size(n: int) -> int:
    """The documented size classes: multiples of 16 to 128, then eight steps per doubling."""
    units = max(1, -(-n // 16))
    step = 1
    while units > 16 * step:
        step *= 2
    return -(-units // step) * step * 16


def alignment(size: int) -> int:
    return min(64, size & -size)


def random_operations(rng: random.Random, count: int, reopen: bool) -> list[tuple[int, ...]]:
    held: set[int] = set()
    out: list[tuple[int, ...]] = []
    for _ in range(count):
        slot = rng.randrange(256)
        if slot in held:
            out.append((1, slot))
            held.remove(slot)
        else:
            small = rng.random() < 0.9
            size = rng.randrange(1, 400) if small else rng.randrange(1, 1 << rng.randrange(9, 21))
            out.append((0, slot, size))
            held.add(slot)
        if rng.random() < 0.02:
            out.append((2,))
        if reopen and rng.random() < 0.01:
            out.append((3,))
    return [*out, (2,)]


@pytest.mark.parametrize("file_backed", [0, 1])
@pytest.mark.parametrize("seed", range(3))
def test_blocks_are_disjoint_aligned_and_accounted(build_driver, seed, file_backed):
    rng = random.Random(seed)
    operations = random_operations(rng, 1500, reopen=True)
    words = [0, file_backed, *(w for op in operations for w in op)]
    answers = iter(build_driver("arena")(words))
    held: dict[int, tuple[int, int]] = {}
    for op in operations:
        if op[0] == 0:
            block, errors = next(answers), next(answers)
            size = block_size(op[2])
            assert errors == 0
            assert block >= HEADER
            assert block % alignment(size) == 0
            assert all(block + size <= at or at + n <= block for at, n in held.values())
            held[op[1]] = (block, size)
        elif op[0] == 1:
            del held[op[1]]
        elif op[0] == 2:
            accounted, blocks, live, top, idle = (next(answers) for _ in range(5))
            assert accounted == sum(n for _, n in held.values())
            assert blocks == len(held)
            assert live + idle == top
    assert next(answers, None) is None


def test_freed_memory_is_used_again(build_driver):
    """Many rounds of the same allocations do not make the arena grow."""
    round_ = [w for slot in range(64) for w in (0, slot, 1000 * (slot + 1))] + [
        w for s in range(64) for w in (1, s)
    ]
    answers = build_driver("arena")([0, 0, *round_, 2, *round_ * 20, 2])
    tops = [answers[2 * 64 + 3], answers[-2]]
    assert tops[0] == tops[1]


@pytest.mark.parametrize("file_backed", [0, 1])
def test_limit_is_soft_for_what_must_be_stored_and_hard_for_growth(build_driver, file_backed):
    limit = 8 * MIB
    operations = [(5, 0, 4 * MIB), (5, 1, 8 * MIB), (0, 2, 6 * MIB), (0, 3, 64 * MIB), (0, 4, 100), (1, 2)]
    answers = build_driver("arena")([limit, file_backed, *(w for op in operations for w in op), 2])
    (growth, fine), (refused, over), (slack, warned), (none, out), (small, _) = zip(
        answers[0:10:2], answers[1:10:2], strict=True
    )
    assert growth
    assert slack
    assert (refused, none) == (0, 0)
    assert (fine, over, warned, out) == (0, E_MEMORY, E_MEMORY, E_MEMORY)
    assert small
    assert answers[10] == block_size(4 * MIB) + block_size(100)


def test_reserve_says_no_before_anything_changes(build_driver):
    assert build_driver("arena")([4 * MIB, 0, 4, 2 * MIB, 4, 8 * MIB, 4, -1, 4, MIB])[:4] == [1, 0, 0, 1]


@pytest.mark.parametrize("file_backed", [0, 1])
def test_memory_that_is_present_changes_nothing(build_driver, file_backed):
    """Blocks keep what they hold and lie where they would; too much is refused."""
    blocks = [w for slot in range(64) for w in (0, slot, 5000 * (slot + 1))] + [1, 3, 1, 40, 2]
    limit = 64 * MIB
    plain = build_driver("arena")([limit, file_backed, *blocks])
    present = build_driver("arena")([limit, file_backed, 7, 32 * MIB, *blocks, 7, MIB, 7, limit])
    assert present == [1, *plain, 1, 0]


def test_another_mapping_of_the_file_may_grow_it(build_driver):
    """What a Spark worker does when the previous batch ran in another process."""
    operations = [(6 if slot % 2 else 0, slot, 300_000 + slot) for slot in range(40)]
    operations += [(1, slot) for slot in range(0, 40, 3)]
    answers = build_driver("arena")([0, 1, *(w for op in operations for w in op), 2])
    blocks = answers[0:80:2]
    assert len(set(blocks)) == 40
    assert 0 not in blocks
    assert set(answers[1:80:2]) == {0}
    accounted, count, live, top, idle = answers[80:]
    held = [block_size(300_000 + slot) for slot in range(40) if slot % 3]
    assert (accounted, count) == (sum(held), len(held))
    assert live + idle == top
