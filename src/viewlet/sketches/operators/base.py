"""Annotated rows, and what every operator can do with them.

The fragments of a row are one bit set per partition: bit 0 for NULL, bit ``i + 1`` for range ``i``. A change
is a list of annotated rows with weights; equal entries may occur several times, and weights add up.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple, Protocol, TypeAlias

from viewlet.core.types import Value

Row: TypeAlias = tuple[Value, ...]
Bits: TypeAlias = tuple[int, ...]


class AnnotatedRow(NamedTuple):
    """A row, the fragments of its lineage, and how often it appears (+) or disappears (-)."""

    row: Row
    bits: Bits
    weight: int


Delta: TypeAlias = list[AnnotatedRow]


class Operator(Protocol):
    """One operator of a query with the state it needs.

    The law: the sum of ``load`` and of every ``change`` since is the operator's annotated result.
    """

    def load(self) -> Delta:
        """Fill the state from the data as it is, and give all rows."""

    def change(self, changed: frozenset[str]) -> Delta:
        """Update the state by the staged changes of these tables, and give the change of the rows."""

    def entries(self) -> int:
        """How many entries the state holds, those of the operators below included."""

    def explain(self) -> Iterator[str]:
        """What it does to stay small and quick, and so do the operators below."""

    def save(self) -> Iterator[object]:
        """The state as parts made of literals, this operator's first."""

    def restore(self, parts: Iterator[object]) -> None:
        """Take over a saved state."""


def bit_of(fragment: int) -> int:
    """The bit of a fragment.

    >>> [bit_of(fragment) for fragment in (-1, 0, 3)]
    [1, 2, 16]
    """
    return 1 << (fragment + 1)


def fragments_of(bits: int) -> Iterator[int]:
    """The fragments of a bit set, in order.

    >>> list(fragments_of(bit_of(-1) | bit_of(4)))
    [-1, 4]
    """
    while bits:
        lowest = bits & -bits
        yield lowest.bit_length() - 2
        bits ^= lowest


def counted_bits(counts: Mapping[int, int]) -> int:
    """The bit set of the fragments that are counted."""
    bits = 0
    for fragment in counts:
        bits |= 1 << (fragment + 1)
    return bits


def count_fragments(counts: dict[int, int], bits: int, weight: int) -> None:
    """Add a weight to the counter of each fragment of a bit set; counters at zero disappear."""
    if not bits & (bits - 1):  # one fragment at most: the usual case below the first aggregation
        if bits:
            add_count(counts, bits.bit_length() - 2, weight)
        return
    for fragment in fragments_of(bits):
        add_count(counts, fragment, weight)


def add_count(counts: dict[int, int], fragment: int, weight: int) -> None:
    """Add a weight to one counter."""
    total = counts.get(fragment, 0) + weight
    if total:
        counts[fragment] = total
    else:
        counts.pop(fragment, None)
