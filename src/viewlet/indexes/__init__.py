"""Ordered aggregate structures: the definition that the native ones must match.

| structure | file | what it answers in O(log n) |
|---|---|---|
| :class:`OrderedMap` | ``ordered.py`` | sums over key ranges, rank, k-th, threshold descent, neighbours |
| :class:`FenwickMap` | ``fenwick.py`` | the same over a dense integer domain, in two flat arrays |
| :class:`BestMap` | ``best.py`` | the least or greatest value of an interval of keys |
| :class:`MaximumMap` | ``maximum.py`` | range maximum, first key whose value exceeds a bound |
| :class:`PaiMap` | ``pai.py`` | O(1) get and add under an aggregate value (partial aggregate index) |
| :class:`RpaiTree` | ``rpai.py`` | prefix sums while whole ranges of *keys* shift |
| :class:`RangeTree` | ``rbst.py`` | range sum and maximum while whole ranges of *values* change |
| :class:`OrderedMultiset` | ``multiset.py`` | least, greatest, k-th, top-k under deletions |
| :class:`Grid` | ``grid.py`` | amounts of DOUBLE as integers, for sums that no order rounds (no tree: O(1)) |
| :class:`BoundaryCursor` | ``cursor.py`` | a moving threshold: a few steps, or one descent |

All trees are the one treap of ``treap.py`` with different annotations.
"""

from viewlet.indexes.best import BestMap
from viewlet.indexes.cursor import BoundaryCursor
from viewlet.indexes.fenwick import FenwickMap
from viewlet.indexes.grid import Grid
from viewlet.indexes.maximum import MaximumMap
from viewlet.indexes.multiset import OrderedMultiset
from viewlet.indexes.ordered import Boundary, OrderedMap
from viewlet.indexes.pai import PaiMap
from viewlet.indexes.rbst import RangeTree
from viewlet.indexes.record import Number, Record
from viewlet.indexes.rpai import RpaiTree

__all__ = [
    "BestMap",
    "Boundary",
    "BoundaryCursor",
    "FenwickMap",
    "Grid",
    "MaximumMap",
    "Number",
    "OrderedMap",
    "OrderedMultiset",
    "PaiMap",
    "RangeTree",
    "Record",
    "RpaiTree",
]
