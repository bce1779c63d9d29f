"""An ordered multiset: MIN, MAX, FIRST, k-th and top-k that stay exact under deletions.

One per group of a GROUP BY. A value is present while its count is not zero; in the middle of a batch
a count may be negative (the delete came before the insert).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from viewlet.indexes.ordered import OrderedMap


class OrderedMultiset:
    """Values with counts, in order.

    >>> group = OrderedMultiset()
    >>> for value in (7, 3, 9, 3):
    ...     group.add(value)
    >>> group.least(), group.greatest(), len(group), group.kth(2), group.top(2), group.bottom(3)
    (3, 9, 4, 7, [9, 7], [3, 3, 7])
    >>> group.add(9, -1); group.greatest()
    7
    """

    def __init__(self) -> None:
        self._counts = OrderedMap(width=1)

    def __len__(self) -> int:
        return int(self._counts.total()[0])

    def __iter__(self) -> Iterator[tuple[Any, int]]:
        return ((value, int(record[0])) for value, record in self._counts)

    def distinct(self) -> int:
        """How many different values are present."""
        return len(self._counts)

    def count(self, value: Any) -> int:
        """How often ``value`` is present."""
        return int(self._counts.get(value)[0])

    def add(self, value: Any, weight: int = 1) -> None:
        """Insert ``value`` weight times; a negative weight deletes."""
        self._counts.add(value, (weight,))

    def least(self) -> Any | None:
        """The least value, None when empty."""
        return self._counts.least()

    def greatest(self) -> Any | None:
        """The greatest value, None when empty."""
        return self._counts.greatest()

    def kth(self, k: int) -> Any | None:
        """The k-th least value with duplicates, counted from 0; needs counts >= 0."""
        return self._counts.kth(k)

    def bottom(self, k: int) -> list[Any]:
        """The k least values with duplicates, ascending, in O(k log n); needs counts >= 0."""
        return self._take(k, self.least(), self._counts.successor)

    def top(self, k: int) -> list[Any]:
        """The k greatest values with duplicates, descending, in O(k log n); needs counts >= 0."""
        return self._take(k, self.greatest(), self._counts.predecessor)

    def _take(self, k: int, value: Any | None, step: Any) -> list[Any]:
        taken: list[Any] = []
        while value is not None and len(taken) < k:
            taken += [value] * min(self.count(value), k - len(taken))
            value = step(value)
        return taken
