"""An ordered map from keys to records, with the sum of records in every subtree.

Keys are anything totally ordered: integers, floats, or tuples of them (slice columns first, the
ordered column last). Equal keys share one record; a record whose count and exact sums are zero is
not stored. Sums are recomputed from the children on the way up, never adjusted by differences, so a
vanished float leaves nothing behind in its ancestors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from viewlet.indexes import treap
from viewlet.indexes.record import Number, Record, is_empty, minus, plus, require_width, zero
from viewlet.indexes.summed import Summed


@dataclass(frozen=True, slots=True)
class Boundary:
    """Where a running sum passes a bound: the key that does it, and the sum of all records before it.

    "Before" follows the direction of the search: smaller keys for ``first_*``, greater for ``last_*``.
    """

    key: Any
    before: Record


class OrderedMap:
    """Range aggregates, rank, k-th and threshold descent over ``(count, sum1, ..)`` records.

    >>> book = OrderedMap(width=2)
    >>> for price, volume in [(10, 5), (11, 4), (13, 8), (13, 1)]:
    ...     _ = book.add(price, (1, volume))
    >>> book.range(11, 13), book.before(13), book.total()
    ((3, 13), (2, 9), (4, 18))
    >>> book.first_over(1, 9)           # the first price whose running volume exceeds 9
    Boundary(key=13, before=(2, 9))
    >>> _ = book.add(13, (-2, -9)); book.keys()
    [10, 11]
    """

    def __init__(self, width: int) -> None:
        self.width = width
        self._root: Summed | None = None
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[tuple[Any, Record]]:
        return ((node.key, node.record) for node in treap.walk(self._root))

    def keys(self) -> list[Any]:
        """Every stored key, ascending."""
        return [key for key, _ in self]

    def items(self, low: Any, high: Any) -> list[tuple[Any, Record]]:
        """The records with low <= key <= high, ascending, in O(log n + answer)."""
        found: list[tuple[Any, Record]] = []

        def visit(node: Summed | None) -> None:
            if node is None:
                return
            if low <= node.key:
                visit(node.left)
                if node.key <= high:
                    found.append((node.key, node.record))
            if node.key <= high:
                visit(node.right)

        visit(self._root)
        return found

    # ---- one key ----

    def get(self, key: Any) -> Record:
        """The record of ``key``; zeros when there is none."""
        node = treap.find(self._root, key)
        return zero(self.width) if node is None else node.record

    def add(self, key: Any, delta: Record) -> Record:
        """Add ``delta`` to the record of ``key`` and return the record as it was before."""
        require_width(delta, self.width, "OrderedMap")
        path: list[Summed] = []
        node = self._root
        while node is not None:
            path.append(node)
            if node.key == key:
                break
            node = node.left if key < node.key else node.right
        old = zero(self.width) if node is None else node.record
        new = plus(old, delta)
        if node is None:
            if not is_empty(new):
                self._insert(key, new)
        elif is_empty(new):
            self._remove(key)
        else:
            node.record = new
            for ancestor in reversed(path):
                ancestor.pull()
        return old

    def _insert(self, key: Any, record: Record) -> None:
        below, above = treap.split(self._root, key)
        self._root = treap.merge(treap.merge(below, Summed(key, record)), above)
        self._size += 1

    def _remove(self, key: Any) -> None:
        below, rest = treap.split(self._root, key)
        _, above = treap.split_after(rest, key)
        self._root = treap.merge(below, above)
        self._size -= 1

    # ---- sums ----

    def total(self) -> Record:
        """The sum of all records."""
        return zero(self.width) if self._root is None else self._root.total

    def before(self, key: Any) -> Record:
        """The sum of the records with a key less than ``key``."""
        return self._prefix(lambda other: other < key)

    def through(self, key: Any) -> Record:
        """The sum of the records with a key less than or equal to ``key``."""
        return self._prefix(lambda other: other <= key)

    def range(self, low: Any, high: Any) -> Record:
        """The sum of the records with low <= key <= high; zeros when low > high."""
        return minus(self.through(high), self.before(low)) if low <= high else zero(self.width)

    def where(self, inside: Callable[[Any], bool]) -> Record:
        """The sum over the keys with ``inside``, which must hold for small keys and fail for large ones."""
        return self._prefix(inside)

    def rank(self, key: Any) -> Number:
        """How many rows (counts, not distinct keys) lie below ``key``."""
        return self.before(key)[0]

    def _prefix(self, inside: Callable[[Any], bool]) -> Record:
        """The sum over a downward closed set of keys."""
        total = zero(self.width)
        node = self._root
        while node is not None:
            if inside(node.key):
                if node.left is not None:
                    total = plus(total, node.left.total)
                total = plus(total, node.record)
                node = node.right
            else:
                node = node.left
        return total

    # ---- neighbours ----

    def least(self) -> Any | None:
        """The least key, None when empty."""
        return _key_of(treap.first(self._root))

    def greatest(self) -> Any | None:
        """The greatest key, None when empty."""
        return _key_of(treap.last(self._root))

    def predecessor(self, key: Any) -> Any | None:
        """The greatest key less than ``key``."""
        return _key_of(treap.nearest_below(self._root, key))

    def successor(self, key: Any) -> Any | None:
        """The least key greater than ``key``."""
        return _key_of(treap.nearest_above(self._root, key))

    def last(self, inside: Callable[[Any], bool]) -> Any | None:
        """The greatest key with ``inside``, which must hold for small keys and fail for large ones."""
        return self._boundary(inside)[0]

    def first_beyond(self, inside: Callable[[Any], bool]) -> Any | None:
        """The least key without ``inside``, which must hold for small keys and fail for large ones."""
        return self._boundary(inside)[1]

    def between(self, before: Callable[[Any], bool], inside: Callable[[Any], bool]) -> list[Any]:
        """The keys with ``inside`` and without ``before``, ascending, in O(log n + answer).

        Both must hold for small keys and fail for large ones.
        """
        found: list[Any] = []

        def visit(node: Summed | None) -> None:
            if node is None:
                return
            if before(node.key):
                visit(node.right)
            elif not inside(node.key):
                visit(node.left)
            else:
                visit(node.left)
                found.append(node.key)
                visit(node.right)

        visit(self._root)
        return found

    def _boundary(self, inside: Callable[[Any], bool]) -> tuple[Any | None, Any | None]:
        last, beyond, node = None, None, self._root
        while node is not None:
            if inside(node.key):
                last, node = node.key, node.right
            else:
                beyond, node = node.key, node.left
        return last, beyond

    # ---- threshold descent ----

    def kth(self, k: int) -> Any | None:
        """The key of the k-th row, counted from 0 in key order; needs counts >= 0."""
        found = self.first_over(0, k) if k >= 0 else None
        return None if found is None else found.key

    def first_over(self, field: int, bound: Number) -> Boundary | None:
        """The first key whose running sum of ``field`` is > ``bound``.

        The running sum at a key includes the key's own record. The answer is defined while no record
        has a negative ``field``: then running sums grow and one descent finds the place.
        """
        return self._ascend(field, lambda running: running > bound, self._root, zero(self.width))

    def first_reaching(self, field: int, bound: Number) -> Boundary | None:
        """The first key whose running sum of ``field`` is >= ``bound``."""
        return self._ascend(field, lambda running: running >= bound, self._root, zero(self.width))

    def last_over(self, field: int, bound: Number) -> Boundary | None:
        """Running sums from the greatest key downwards: the first key that gets one > ``bound``."""
        return self._descend(field, lambda running: running > bound)

    def last_reaching(self, field: int, bound: Number) -> Boundary | None:
        """Running sums from the greatest key downwards: the first key that gets one >= ``bound``."""
        return self._descend(field, lambda running: running >= bound)

    def first_over_from(self, low: Any, field: int, bound: Number) -> Boundary | None:
        """Like :meth:`first_over`, but the running sum starts at the first key >= ``low``.

        Only records from ``low`` up to the answer need a non-negative ``field``: with slice columns
        first in the key, a negative sum in one slice does not disturb another.
        """

        def visit(node: Summed | None, before: Record) -> tuple[Boundary | None, Record]:
            if node is None:
                return None, before
            if node.key < low:
                return visit(node.right, before)
            found, before = visit(node.left, before)
            if found is not None:
                return found, before
            through = plus(before, node.record)
            if through[field] > bound:
                return Boundary(node.key, before), through
            found = self._ascend(field, lambda running: running > bound, node.right, through)
            return found, through if node.right is None else plus(through, node.right.total)

        return visit(self._root, zero(self.width))[0]

    def _ascend(
        self, field: int, passed: Callable[[Number], bool], node: Summed | None, before: Record
    ) -> Boundary | None:
        while node is not None:
            through_left = before if node.left is None else plus(before, node.left.total)
            through = plus(through_left, node.record)
            if node.left is not None and passed(through_left[field]):
                node = node.left
            elif passed(through[field]):
                return Boundary(node.key, through_left)
            else:
                before, node = through, node.right
        return None

    def _descend(self, field: int, passed: Callable[[Number], bool]) -> Boundary | None:
        node, before = self._root, zero(self.width)
        while node is not None:
            through_right = before if node.right is None else plus(before, node.right.total)
            through = plus(through_right, node.record)
            if node.right is not None and passed(through_right[field]):
                node = node.right
            elif passed(through[field]):
                return Boundary(node.key, through_right)
            else:
                before, node = through, node.left
        return None


def _key_of(node: Summed | None) -> Any | None:
    return None if node is None else node.key
