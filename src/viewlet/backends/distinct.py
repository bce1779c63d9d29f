"""Which rows of an Arrow batch are the same."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from viewlet.backends.native.library import distinct

Places = NDArray[np.int64]

MOST_CODES = 1 << 62


def distinct_rows(batch: pa.RecordBatch, weights: Places | None = None) -> tuple[Places, Places]:
    """Where the rows that differ first are, and the sum of the weights of each.

    NULL is NULL, and zero has no sign.

    >>> first, sums = distinct_rows(pa.record_batch({"a": [5, None, 5, None]}), np.array([1, 1, 2, -1]))
    >>> first.tolist(), sums.tolist()
    ([0, 1], [3, 0])
    """
    found = distinct(batch.__arrow_c_array__(), batch.num_columns, weights)
    if found is not None:
        return found
    _, first, codes = np.unique(_codes(batch), return_index=True, return_inverse=True)
    sums = np.zeros(len(first), np.int64)
    np.add.at(sums, codes, 1 if weights is None else weights)
    order = np.argsort(first)
    return first[order], sums[order]


def are_distinct(batch: pa.RecordBatch) -> bool:
    """Is every row there once? NULL is NULL, and zero has no sign.

    >>> are_distinct(pa.record_batch({"a": [1, 1, None], "b": ["x", "y", "x"]}))
    True
    >>> are_distinct(pa.record_batch({"a": [0.0, -0.0]}))
    False
    """
    first, _ = distinct_rows(batch)
    return bool(len(first) == batch.num_rows)


def first_and_last(batch: pa.RecordBatch) -> tuple[Places, Places]:
    """For each row, where the first and the last of the rows are that are the same.

    >>> first, last = first_and_last(pa.record_batch({"a": [5, 6, 5]}))
    >>> first.tolist(), last.tolist()
    ([0, 1, 0], [2, 1, 2])
    """
    _, first, codes = np.unique(_codes(batch), return_index=True, return_inverse=True)
    last = np.zeros_like(first)
    last[codes] = np.arange(batch.num_rows)  # of several writes to a place the last one stays
    return first[codes], last[codes]


def _codes(batch: pa.RecordBatch) -> Places:
    """A number for each row, the same for rows that are the same."""
    codes, bound = np.zeros(batch.num_rows, np.int64), 1
    for column in batch.columns:
        if batch.num_columns == 1 and pa.types.is_integer(column.type) and not column.null_count:
            return np.asarray(column.to_numpy(), np.int64)
        if pa.types.is_floating(column.type):
            column = pc.add(column, 0.0)
        found = column.dictionary_encode(null_encoding="encode")
        size = len(found.dictionary)
        if bound * size >= MOST_CODES:
            codes = np.unique(codes, return_inverse=True)[1]
            bound = batch.num_rows
        codes, bound = codes * size + found.indices.to_numpy(), bound * size
    return codes
