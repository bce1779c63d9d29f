"""Window specifications of a plan as the text after OVER."""

from __future__ import annotations

from collections.abc import Callable

from viewlet.backends.spark.catalyst.functions import NEIGHBOURS, PARTS, RANKS, SHARES
from viewlet.backends.spark.catalyst.tree import Tree, last_name
from viewlet.errors import SqlError

Scalar = Callable[[Tree], str]


def over(function: str, spec: Tree, scalar: Scalar) -> str:
    """``PARTITION BY .. ORDER BY .. frame``, without frames that go without saying."""
    node = spec.node
    partition = [scalar(spec.children[i]) for i in node["partitionSpec"]]
    order = [sort_key(spec.children[i], scalar) for i in node["orderSpec"]]
    parts = [f"PARTITION BY {', '.join(partition)}"] if partition else []
    parts += [f"ORDER BY {', '.join(order)}"] if order else []
    if order and not any(function in unframed for unframed in (RANKS, PARTS, SHARES, NEIGHBOURS)):
        parts.append(_frame(spec.children[-1]))
    return " ".join(parts)


def sort_key(key: Tree, scalar: Scalar) -> str:
    """A key of ORDER BY, with its direction and its place for NULL."""
    direction = "DESC" if last_name(key.node["direction"]) == "Descending" else "ASC"
    nulls = "LAST" if last_name(key.node["nullOrdering"]) == "NullsLast" else "FIRST"
    return f"{scalar(key.children[0])} {direction} NULLS {nulls}"


def _frame(frame: Tree) -> str:
    kind = "ROWS" if last_name(frame.node["frameType"]) == "RowFrame" else "RANGE"
    start, end = map(_bound, frame.children)
    return f"{kind} BETWEEN {start} AND {end}"


def _bound(bound: Tree) -> str:
    """An end of a frame: distances are numbers, before the row if they are negative."""
    match bound.kind:
        case "UnboundedPreceding":
            return "UNBOUNDED PRECEDING"
        case "UnboundedFollowing":
            return "UNBOUNDED FOLLOWING"
        case "CurrentRow":
            return "CURRENT ROW"
    distance = _distance(bound)
    return f"{distance.lstrip('-')} {'PRECEDING' if distance.startswith('-') else 'FOLLOWING'}"


def _distance(bound: Tree) -> str:
    match bound.kind:
        case "Cast":
            return _distance(bound.children[0])
        case "UnaryMinus":
            distance = _distance(bound.children[0])
            return distance[1:] if distance.startswith("-") else f"-{distance}"
        case "Literal" if not str(bound.node["dataType"]).startswith("interval"):
            return str(bound.node["value"])
    raise SqlError(
        "a view cannot be made of a DataFrame with a window whose frame is no number of rows or values"
    )
