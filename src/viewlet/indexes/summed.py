"""A treap node with a record, and with the sum of the records in its subtree."""

from __future__ import annotations

from typing import Any

from viewlet.indexes import treap
from viewlet.indexes.record import Record, plus


class Summed(treap.Node):
    """``total`` is the sum of the records in this subtree."""

    __slots__ = ("record", "total")

    def __init__(self, key: Any, record: Record) -> None:
        super().__init__(key)
        self.record = record
        self.total = record

    def pull(self) -> None:
        """Add up the left subtree, the own record and the right subtree, in this order."""
        total = self.record
        if self.left is not None:
            total = plus(self.left.total, total)
        if self.right is not None:
            total = plus(total, self.right.total)
        self.total = total
