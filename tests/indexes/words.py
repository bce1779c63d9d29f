"""Numbers as the int64 words that drivers read and write."""

from __future__ import annotations

import struct
from collections.abc import Sequence

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1


def wide(x: int) -> list[int]:
    """A 128-bit integer as two words, high first."""
    low = x & (2**64 - 1)
    return [x >> 64, low - 2**64 if low >> 63 else low]


def bits(x: float) -> int:
    """The bits of a double as one word."""
    return int(struct.unpack("<q", struct.pack("<d", x))[0])


def compare(operations: Sequence[object], answers: list[int], expected: list[list[int]]) -> None:
    """Each operation's answer must be the expected words; says which operation was the first to differ."""
    at = 0
    for step, (operation, want) in enumerate(zip(operations, expected, strict=True)):
        got = answers[at : at + len(want)]
        assert got == want, f"step {step}, {operation}: native {got}, reference {want}"
        at += len(want)
    assert at == len(answers)
