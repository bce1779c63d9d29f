"""A partial aggregate index: records under the *value of an aggregate*, in a hash map.

For ``outer WHERE c = (SELECT SUM(..) .. correlated by =)`` the record of a group lives under the
group's current inner aggregate; a change of one group moves one record from the old aggregate to the
new one, and the answer is a single lookup: O(1). ``get_sum`` and ``shift_keys`` exist too, in O(n);
:class:`~viewlet.indexes.rpai.RpaiTree` has them in O(log n).
"""

from __future__ import annotations

from viewlet.indexes.record import Number, Record, is_empty, minus, plus, require_width, zero


class PaiMap:
    """Records under aggregate values.

    Several groups may have the same aggregate: their records add up under one key, so a move takes
    the group's own share along, not everything that is there.

    >>> index = PaiMap(width=2)
    >>> index.add(30, (1, 500)); index.add(30, (1, 7))      # two groups whose inner sum is 30
    >>> index.move(30, 45, (1, 500))                        # one of them grows to 45
    >>> index.get(30), index.get(45), index.get_sum(45)
    ((1, 7), (1, 500), (2, 507))
    """

    def __init__(self, width: int) -> None:
        self.width = width
        self._records: dict[Number, Record] = {}

    def __len__(self) -> int:
        return len(self._records)

    def items(self) -> list[tuple[Number, Record]]:
        """Every key with its record, ascending by key."""
        return sorted(self._records.items())

    def get(self, key: Number) -> Record:
        """The record under ``key``; zeros when there is none."""
        return self._records.get(key, zero(self.width))

    def put(self, key: Number, record: Record) -> None:
        """Replace the record under ``key``."""
        require_width(record, self.width, "PaiMap")
        if is_empty(record):
            self._records.pop(key, None)
        else:
            self._records[key] = record

    def add(self, key: Number, delta: Record) -> None:
        """Add ``delta`` to the record under ``key``."""
        require_width(delta, self.width, "PaiMap")
        self.put(key, plus(self.get(key), delta))

    def move(self, old: Number, new: Number, share: Record) -> None:
        """Take ``share`` from the record under ``old`` and add it under ``new``."""
        self.add(old, minus(zero(self.width), share))
        self.add(new, share)

    def get_sum(self, key: Number) -> Record:
        """The sum of the records with keys <= ``key``, by a scan."""
        total = zero(self.width)
        for other, record in self._records.items():
            if other <= key:
                total = plus(total, record)
        return total

    def shift_keys(self, key: Number, offset: Number) -> None:
        """Move every record with a key > ``key`` by ``offset``, by a scan; equal keys add up."""
        shifted = [(k, r) for k, r in self._records.items() if k > key]
        for k, _ in shifted:
            del self._records[k]
        for k, record in shifted:
            self.add(k + offset, record)
