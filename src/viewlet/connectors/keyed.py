"""The changes of a view that has a key: which keys are new, which have another row, which are gone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa

from viewlet.changes import CHANGE_TYPE
from viewlet.connectors.base import ConnectorError


@dataclass(frozen=True, slots=True)
class KeyedChanges:
    """Rows under keys that were not there, rows under keys that were, and keys that are gone."""

    fresh: pa.Table
    updated: pa.Table
    gone: pa.Table


def by_key(changes: pa.Table, key: tuple[str, ...]) -> KeyedChanges:
    """What the changes of several commits, in order, come to for each key.

    >>> words = ["insert", "delete", "delete", "insert", "insert"]
    >>> changes = pa.table({"k": [1, 1, 2, 2, 3], "v": ["a", "a", "b", "c", "d"], "_change_type": words})
    >>> net = by_key(changes, ("k",))
    >>> net.fresh.to_pylist(), net.updated.to_pylist(), net.gone.to_pylist()
    ([{'k': 3, 'v': 'd'}], [{'k': 2, 'v': 'c'}], [])
    """
    for name in key:
        if name not in changes.column_names:
            raise ConnectorError(f"the view has no column {name!r} for the key")
    keys = list(zip(*(changes[name].to_pylist() for name in key), strict=True))
    weights = [1 if word == "insert" else -1 for word in changes[CHANGE_TYPE].to_pylist()]
    net: dict[tuple[object, ...], int] = {}
    last: dict[tuple[object, ...], int] = {}
    for number, (at, weight) in enumerate(zip(keys, weights, strict=True)):
        net[at] = net.get(at, 0) + weight
        last[at] = number
    for at, weight in net.items():
        if abs(weight) > 1:
            raise ConnectorError(f"({', '.join(key)}) is no key of the view: it has several rows with {at}")
    rows = changes.drop_columns([CHANGE_TYPE])
    return KeyedChanges(
        _take(rows, (last[at] for at, weight in net.items() if weight == 1)),
        _take(rows, (last[at] for at, weight in net.items() if weight == 0 and weights[last[at]] == 1)),
        _take(rows.select(list(key)), (last[at] for at, weight in net.items() if weight == -1)),
    )


def _take(rows: pa.Table, numbers: Iterable[int]) -> pa.Table:
    return rows.take(pa.array(sorted(numbers), pa.int64()))
