"""Random tables, queries and changes: native and reference agree on every map and view, or both refuse."""

from __future__ import annotations

import pytest

from agree.agreement import agree
from strategies import seeded_case

pytestmark = pytest.mark.native

QUICK_SEEDS = [
    pytest.param(seed, marks=[pytest.mark.slow] if seed == 1005 else [])  # 1005: half a minute of C compiler
    for seed in range(1000, 1010)
]
SLOW_SEEDS = range(2000, 2400)


def check(seed: int) -> None:
    case = seeded_case(seed)
    granularity = "tuple" if seed % 2 else "batch"
    agree(case.ddl, {"v": case.sql}, case.batches(1 + seed % 7), granularity, every=3)


@pytest.mark.parametrize("seed", QUICK_SEEDS)
def test_random_queries(seed):
    check(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", SLOW_SEEDS)
def test_many_random_queries(seed):
    check(seed)
