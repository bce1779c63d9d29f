"""A dense form of the ordered map for bounded integer domains: two flat arrays.

``sums[i]`` holds the sum of the lowest-set-bit(i) records that end at slot i (P. Fenwick, 1994); an
update and a prefix sum each touch at most log2(domain) slots. Several times faster than a tree while
the domain is about as large as the number of live keys, wasteful when it is far larger. The domain
may grow at either end; growing rebuilds in linear time, at least doubling, so O(1) amortized.
Sums are adjusted by differences, so only exact (integer) sums belong here; floats want the tree.
"""

from __future__ import annotations

from collections.abc import Iterator

from viewlet.indexes.ordered import Boundary
from viewlet.indexes.record import (
    IndexStructureError,
    Number,
    Record,
    is_empty,
    minus,
    plus,
    require_width,
    zero,
)


class FenwickMap:
    """Records under the integers low .. low + capacity - 1; the capacity is a power of two.

    >>> ticks = FenwickMap(width=2, low=100, capacity=4)
    >>> for tick in (100, 103, 103, 120):       # 120 lies outside: the domain grows
    ...     _ = ticks.add(tick, (1, tick))
    >>> ticks.range(101, 110), ticks.first_over(0, 1), len(ticks)
    ((2, 206), Boundary(key=103, before=(1, 100)), 3)
    """

    def __init__(self, width: int, low: int, capacity: int) -> None:
        if capacity < 1 or capacity & (capacity - 1):
            raise IndexStructureError(f"FenwickMap needs a power of two as its capacity, got {capacity}")
        self.width, self.low, self.capacity = width, low, capacity
        self._records: list[Record] = [zero(width)] * capacity
        self._sums: list[Record] = [zero(width)] * (capacity + 1)
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[tuple[int, Record]]:
        return ((self.low + i, record) for i, record in enumerate(self._records) if not is_empty(record))

    def get(self, key: int) -> Record:
        """The record of ``key``; zeros when there is none."""
        inside = self.low <= key < self.low + self.capacity
        return self._records[key - self.low] if inside else zero(self.width)

    def add(self, key: int, delta: Record) -> Record:
        """Add ``delta`` to the record of ``key`` and return the record as it was before."""
        require_width(delta, self.width, "FenwickMap")
        if not self.low <= key < self.low + self.capacity:
            self._grow(key)
        slot = key - self.low
        old = self._records[slot]
        new = self._records[slot] = plus(old, delta)
        self._size += is_empty(old) - is_empty(new)
        i = slot + 1
        while i <= self.capacity:
            self._sums[i] = plus(self._sums[i], delta)
            i += i & -i
        return old

    def _grow(self, key: int) -> None:
        """Double towards ``key`` until it fits, then rebuild: sums[i + lowbit(i)] += sums[i]."""
        low, capacity = self.low, self.capacity
        while not low <= key < low + capacity:
            low -= capacity if key < low else 0
            capacity *= 2
        shift = self.low - low
        records = [zero(self.width)] * capacity
        records[shift : shift + self.capacity] = self._records
        self.low, self.capacity, self._records = low, capacity, records
        self._sums = [zero(self.width), *records]
        for i in range(1, capacity + 1):
            j = i + (i & -i)
            if j <= capacity:
                self._sums[j] = plus(self._sums[j], self._sums[i])

    def total(self) -> Record:
        """The sum of all records: the top slot covers the whole domain."""
        return self._sums[self.capacity]

    def before(self, key: int) -> Record:
        """The sum of the records with a key less than ``key``."""
        i = min(max(key - self.low, 0), self.capacity)
        total = zero(self.width)
        while i > 0:
            total = plus(total, self._sums[i])
            i &= i - 1
        return total

    def through(self, key: int) -> Record:
        """The sum of the records with a key less than or equal to ``key``."""
        return self.before(key + 1)

    def range(self, low: int, high: int) -> Record:
        """The sum of the records with low <= key <= high; zeros when low > high."""
        return minus(self.through(high), self.before(low)) if low <= high else zero(self.width)

    def rank(self, key: int) -> Number:
        """How many rows lie below ``key``."""
        return self.before(key)[0]

    def kth(self, k: int) -> int | None:
        """The key of the k-th row, counted from 0 in key order; needs counts >= 0."""
        found = self.first_over(0, k) if k >= 0 else None
        return None if found is None else int(found.key)

    def first_over(self, field: int, bound: Number) -> Boundary | None:
        """The first key whose running sum of ``field`` is > ``bound``; needs records >= 0 there.

        Takes the longest run of slots whose sum stays at or below the bound, halving the step. Below
        zero every key passes, so the answer is the first key with a record.
        """
        if bound < 0:
            field, bound = 0, 0
        slot, before, step = 0, zero(self.width), self.capacity
        while step:
            if slot + step <= self.capacity:
                candidate = plus(before, self._sums[slot + step])
                if candidate[field] <= bound:
                    slot, before = slot + step, candidate
            step //= 2
        return Boundary(self.low + slot, before) if slot < self.capacity else None
