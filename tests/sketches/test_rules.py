"""Every rule of safety and of reuse has a test on both sides: what it allows, and what it refuses."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from sketches import test_reuse, test_safety

ALLOWED = (test_safety.SAFE, test_safety.NEGATIVE_SAFE, test_safety.SAFE_TEXTS)
REFUSED = (
    test_safety.UNSAFE,
    test_safety.SIGNED,
    test_safety.NEGATIVE_UNSAFE,
    test_safety.REFUSED,
    test_safety.NOT_UNDERSTOOD,
)


def rules(cases: Iterable[Iterable[str]]) -> set[str]:
    """The rules that the names of cases begin with."""
    return {name.split()[0] for names in cases for name in names}


@pytest.mark.parametrize("rule", [f"S{number}" for number in range(1, 10)])
def test_safety(rule: str) -> None:
    assert rule in rules(REFUSED), "no test of what it refuses"
    assert rule in rules(ALLOWED), "no test of what it allows"


@pytest.mark.parametrize("rule", [f"R{number}" for number in range(1, 6)])
def test_reuse_rules(rule: str) -> None:
    assert rule in rules((test_reuse.SERVED, test_reuse.TOGETHER)), "no test of what it allows"
    assert rule in rules((test_reuse.REFUSED, test_reuse.APART)), "no test of what it refuses"
