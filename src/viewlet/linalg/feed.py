"""Feed models from change streams: a matrix, a regression or a graph kept by SQL drives linear algebra.

A change batch is Arrow data whose rows count ``_weight`` times, or carry ``_change_type``: ``insert`` and
``update_postimage`` count +1, ``delete`` and ``update_preimage`` -1; with neither column all rows are
inserts. Each function returns a callable that takes such batches, ready for ``view.subscribe``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from viewlet.errors import DataError
from viewlet.linalg.factored import Change
from viewlet.linalg.grouped import GroupedOLS
from viewlet.linalg.ols import OLS
from viewlet.linalg.pagerank import PageRank
from viewlet.linalg.view import MatrixView

SIGNS = {"insert": 1, "update_postimage": 1, "delete": -1, "update_preimage": -1}


def weights_of(batch: Any) -> np.ndarray[Any, Any]:
    """The multiplicity of every row of a change batch.

    >>> import pyarrow as pa
    >>> weights_of(pa.table({"x": [1, 2], "_change_type": ["insert", "delete"]})).tolist()
    [1, -1]
    """
    names = batch.schema.names
    if "_weight" in names:
        column = batch.column("_weight")
        if column.null_count:
            raise DataError("_weight holds NULL; every change needs a whole number")
        return np.asarray(column.to_numpy(zero_copy_only=False) if hasattr(column, "buffers") else column)
    if "_change_type" in names:
        words = batch.column("_change_type").to_pylist()
        unknown = sorted({str(word) for word in words if word not in SIGNS})
        if unknown:
            raise DataError(f"unknown _change_type {', '.join(unknown)}; known are {', '.join(SIGNS)}")
        return np.array([SIGNS[word] for word in words], dtype=np.int64)
    return np.ones(batch.num_rows, dtype=np.int64)


def feed_matrix(view: MatrixView, name: str, *, row: str, col: str, value: str) -> Callable[[Any], None]:
    """Rows (row, col, value) sum up to the entries of input ``name``: a deleted row takes its value back.

    Indexes are 0-based. A cofactor matrix kept as GROUP BY i, j feeds a model this way.
    """

    def take(batch: Any) -> None:
        weights = weights_of(batch)
        rows, columns = _column(batch, row), _column(batch, col)
        amounts: dict[tuple[int, int], float] = {}
        for i, j, amount in zip(rows, columns, weights * _column(batch, value), strict=True):
            key = int(i), int(j)
            amounts[key] = amounts.get(key, 0) + amount
        view.apply({name: Change(adds=amounts)})

    return take


def feed_regression(
    model: OLS | GroupedOLS, *, features: Sequence[str], target: str, key: str | None = None
) -> Callable[[Any], None]:
    """Rows enter a regression when inserted and leave it when deleted; ``key`` names the group column."""
    if isinstance(model, OLS) and model.window is not None:
        raise DataError(
            "a windowed regression forgets rows by itself; add rows to it instead of feeding changes"
        )
    if (key is None) != isinstance(model, OLS):
        raise DataError("a GroupedOLS needs key=, the column that names the group; an OLS takes none")

    def take(batch: Any) -> None:
        weights = weights_of(batch)
        X = np.column_stack([_column(batch, name) for name in features]).astype(np.float64)
        y = _column(batch, target).astype(np.float64)
        groups = None if key is None else np.array(batch.column(key).to_pylist(), dtype=object)

        def act(verb: Callable[..., Any], chosen: np.ndarray[Any, Any]) -> None:
            if len(chosen):
                verb(*(() if groups is None else (groups[chosen],)), X[chosen], y[chosen])

        _in_and_out(weights, lambda rows: act(model.add, rows), lambda rows: act(model.remove, rows))

    return take


def feed_graph(graph: PageRank, *, source: str, target: str) -> Callable[[Any], None]:
    """Rows are edges."""

    def take(batch: Any) -> None:
        weights = weights_of(batch)
        edges = list(zip(batch.column(source).to_pylist(), batch.column(target).to_pylist(), strict=True))
        _in_and_out(
            weights,
            lambda chosen: graph.add([edges[i] for i in chosen]),
            lambda chosen: graph.remove([edges[i] for i in chosen]),
        )

    return take


def _in_and_out(
    weights: np.ndarray[Any, Any],
    add: Callable[[np.ndarray[Any, Any]], object],
    remove: Callable[[np.ndarray[Any, Any]], object],
) -> None:
    """Take rows in, then out; where unknown rows are to go out, what came in goes again."""
    rows = np.arange(len(weights))
    entering, leaving = np.repeat(rows, np.maximum(weights, 0)), np.repeat(rows, np.maximum(-weights, 0))
    add(entering)
    try:
        remove(leaving)
    except DataError:
        remove(entering)
        raise


def _column(batch: Any, name: str) -> np.ndarray[Any, Any]:
    if name not in batch.schema.names:
        raise DataError(f"the change batch has no column {name}; it has {', '.join(batch.schema.names)}")
    column = batch.column(name)
    if column.null_count:
        raise DataError(f"column {name} holds NULL, which a matrix has no place for")
    return np.asarray(column.to_pylist())
