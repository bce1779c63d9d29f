"""μ: the sketch of a query from its annotated result, by counting the rows that need each fragment.

``S'[f] = S[f] + the weight of changed rows with f``; a fragment is in the sketch while its counter is not 0.
"""

from __future__ import annotations

from collections.abc import Iterable

from viewlet.sketches.operators.base import AnnotatedRow, count_fragments


class Merge:
    """Fragment counters, one set of them per partition."""

    def __init__(self, partitions: int) -> None:
        self.counts: list[dict[int, int]] = [{} for _ in range(partitions)]

    def add(self, delta: Iterable[AnnotatedRow]) -> None:
        """Count a change of the result."""
        for change in delta:
            for counts, bits in zip(self.counts, change.bits, strict=True):
                count_fragments(counts, bits, change.weight)

    def fragments(self, partition: int) -> frozenset[int]:
        """The fragments of the sketch on one partition."""
        return frozenset(self.counts[partition])
