"""The shares of a batch: which of its rows each partition gets, and how much of them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from viewlet.backends.base import Row
from viewlet.backends.spark.exchange import cell_type, partition_numbers, partition_of
from viewlet.backends.spark.nodes import Dealt
from viewlet.backends.spark.site import Changes
from viewlet.sql.catalog import Table


def deal_out(changes: Changes, table: Table, dealt: Dealt, partitions: int) -> list[Changes]:
    """The rows that a column assigns to each partition, with the columns that are needed there.

    >>> from viewlet.core.types import BIGINT, Column
    >>> table = Table("r", (Column("a", BIGINT), Column("b", BIGINT), Column("c", BIGINT)))
    >>> one, other = deal_out(Changes([(1, 2, 3), (4, 5, 6)], [1, -1]), table, Dealt("a", ("a", "c")), 2)
    >>> one.rows, other.rows, other.weights
    ([(4, 6)], [(1, 3)], [1])
    """
    at = table.column_names.index(dealt.column)
    kept = [table.column_names.index(name) for name in dealt.columns]
    if isinstance(changes.rows, pa.RecordBatch):
        column = changes.rows.column(at).cast(cell_type(table.columns[at].type))
        return _cut(changes, kept, partition_numbers(column, partitions), partitions)
    assert changes.weights is not None
    rows: list[list[Row]] = [[] for _ in range(partitions)]
    weights: list[list[int]] = [[] for _ in range(partitions)]
    for row, weight in zip(changes.rows, changes.weights, strict=True):
        number = partition_of(row[at], partitions)
        rows[number].append(tuple([row[i] for i in kept]))
        weights[number].append(int(weight))
    return [Changes(*share, is_share=True) for share in zip(rows, weights, strict=True)]


def _cut(
    changes: Changes, kept: list[int], numbers: np.ndarray[tuple[int], np.dtype[np.int64]], partitions: int
) -> list[Changes]:
    assert isinstance(changes.rows, pa.RecordBatch)
    columns = changes.rows.select(kept)
    weights = None if changes.weights is None else np.asarray(changes.weights)
    places = [np.flatnonzero(numbers == number) for number in range(partitions)]
    return [
        Changes(columns.take(pa.array(own)), None if weights is None else weights[own], is_share=True)
        for own in places
    ]
