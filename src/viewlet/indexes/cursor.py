"""A boundary that moves: the place where a running sum passes a bound, kept between changes.

Most changes move the boundary by a level or none. The cursor remembers the key at the boundary and
the sum before it, corrects that sum by the changes it is told of, and walks; after ``MAX_STEPS`` it
gives up and descends from the root. So a benign stream pays O(1) per change beyond the map's own
update, and an adversarial one at most the steps plus one descent: O(log n) always. The sum is adjusted
by differences, so the fields must be exact (integers).
"""

from __future__ import annotations

from typing import Any, ClassVar

from viewlet.indexes.ordered import Boundary, OrderedMap
from viewlet.indexes.record import Number, Record, minus, plus


class BoundaryCursor:
    """Follows ``ordered.first_over(field, bound)`` while records and the bound change.

    Tell it of every change of the map with :meth:`note`, after the map has it. The records of
    ``field`` must be non-negative whenever :meth:`settle` is called.

    >>> book = OrderedMap(width=2)
    >>> cursor = BoundaryCursor(book, field=1)
    >>> for price, volume in [(10, 5), (11, 4), (13, 8)]:
    ...     _ = book.add(price, (1, volume)); cursor.note(price, (1, volume))
    >>> cursor.settle(8)
    Boundary(key=11, before=(1, 5))
    >>> _ = book.add(9, (1, 6)); cursor.note(9, (1, 6)); cursor.settle(8)
    Boundary(key=10, before=(1, 6))
    >>> cursor.descents
    1
    """

    MAX_STEPS: ClassVar[int] = 8

    def __init__(self, ordered: OrderedMap, field: int) -> None:
        self._ordered, self._field = ordered, field
        self._at: Boundary | None = None
        self.descents = 0

    def note(self, key: Any, delta: Record) -> None:
        """Learn that ``delta`` was added under ``key``."""
        if self._at is not None and key < self._at.key:
            self._at = Boundary(self._at.key, plus(self._at.before, delta))

    def settle(self, bound: Number) -> Boundary | None:
        """The first key whose running sum of the field is > ``bound``; None when there is none."""
        if self._at is None or not self._walk(bound):
            self._at = self._ordered.first_over(self._field, bound)
            self.descents += 1
        return self._at

    def _walk(self, bound: Number) -> bool:
        """Step towards the boundary; False when it is further than ``MAX_STEPS`` or off the end."""
        for _ in range(self.MAX_STEPS):
            assert self._at is not None
            key, before = self._at.key, self._at.before
            if before[self._field] > bound:
                previous = self._ordered.predecessor(key)
                if previous is None:
                    return False
                self._at = Boundary(previous, minus(before, self._ordered.get(previous)))
                continue
            through = plus(before, self._ordered.get(key))
            if through[self._field] > bound:
                return True
            following = self._ordered.successor(key)
            if following is None:
                return False
            self._at = Boundary(following, through)
        return False
