"""The values of a pivot. JSON leaves them out, so they are read from the plan itself.

Catalyst aggregates by the group and the pivot's column first, and then makes an array of each group's
results, an item for each value: ``item i = max(CASE WHEN p <=> v[i] THEN x END)``, with one x at most.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from viewlet.backends.spark.catalyst.tree import Tree, column_name
from viewlet.backends.spark.catalyst.values import literal
from viewlet.errors import SqlError

PLAIN = ("string", "boolean", "byte", "short", "integer", "long", "double", "float")

OPEN = "a view cannot be made of a DataFrame with a pivot that names no values: give pivot() a list of them"


def refuse_open_pivot(plan: Any) -> None:
    """Refuse a pivot at the top of a plan, not yet analyzed, that names no values.

    Spark asks the rows for them when the DataFrame is made, and here these are none: no column would be left.
    """
    for node in _nodes(plan):
        if node.getClass().getSimpleName() == "Pivot" and node.pivotValues().isEmpty():
            raise SqlError(OPEN)


def pivot_values(plan: Any) -> dict[int, list[str | None]]:
    """The values of every pivot in a plan of Java, as texts, by the id of the array that they make."""
    found = {}
    for node in _nodes(plan):
        if node.getClass().getSimpleName() != "Aggregate":
            continue
        for item in _items(node.aggregateExpressions()):
            for part in _nodes(item):
                if part.getClass().getSimpleName() == "PivotFirst":
                    values = [_text(value) for value in _items(part.pivotColumnValues())]
                    if not values:
                        raise SqlError(OPEN)
                    found[int(item.exprId().id())] = values
    return found


def _text(value: object) -> str | None:
    if value is None:
        return None
    return str(value).lower() if isinstance(value, bool) else str(value)


def _nodes(node: Any) -> Iterator[Any]:
    yield node
    for child in _items(node.children()):
        yield from _nodes(child)


def _items(sequence: Any) -> Iterator[Any]:
    return (sequence.apply(i) for i in range(sequence.size()))


def pivot_columns(item: Tree, key: str, result: str, values: list[str | None]) -> str:
    """The columns that a pivot makes, one for each value; ``item`` is the alias of its array."""
    kind = item.children[0].children[0].children[0].node["dataType"]
    if kind not in PLAIN and not str(kind).startswith("decimal"):
        raise SqlError(f"a view cannot be made of a DataFrame with a pivot over a column of type {kind}")
    name = column_name(item.node)
    texts = (literal({"value": value, "dataType": kind}) for value in values)
    return ", ".join(
        f"max(CASE WHEN ({key} <=> {text}) THEN {result} END) AS {name}_{i}" for i, text in enumerate(texts)
    )
