"""Types and literals of a plan as SQL text of that very type."""

from __future__ import annotations

from viewlet.backends.spark.catalyst.tree import Json, Tree
from viewlet.errors import SqlError

TYPES = {"long": "BIGINT", "integer": "INT", "string": "STRING", "short": "SMALLINT", "byte": "TINYINT"}
MONTHS = {"interval month": 1, "interval year": 1, "interval year to month": 1}
DAY = 86_400_000_000


def type_text(kind: object) -> str:
    """The name of a type in SQL."""
    if not isinstance(kind, str):
        name = kind.get("type", "?") if isinstance(kind, dict) else kind
        raise SqlError(f"a view cannot be made of a DataFrame with a column of type {name}")
    return TYPES.get(kind, kind.upper())


def without_widening(tree: Tree) -> Tree:
    """``CAST(CAST(x AS t) AS u) -> CAST(x AS u)``, where t holds every value of x exactly."""
    while tree.kind == "Cast":
        inner = tree.children[0]
        held, holding = _digits(inner), _digits(tree)
        if held is None or holding is None or any(a > b for a, b in zip(held, holding, strict=True)):
            break
        tree = inner
    return tree


def _digits(tree: Tree) -> tuple[int, int] | None:
    """The digits before and after the point that a value of an exact type has at most."""
    kind = tree.node.get("dataType")
    if tree.kind == "Literal" and kind == "integer":
        return len(str(abs(int(tree.node["value"])))), 0
    if isinstance(kind, str) and kind.startswith("decimal("):
        precision, scale = map(int, kind[8:-1].split(","))
        return precision - scale, scale
    return {"byte": (3, 0), "short": (5, 0), "integer": (10, 0), "long": (20, 0)}.get(str(kind))


def _is_own_type(text: str, kind: str) -> bool:
    """Is this the type that the text of a decimal literal has by itself?"""
    whole, _, fraction = text.lstrip("-").partition(".")
    digits = len(whole.lstrip("0")) + len(fraction)
    return bool(fraction) and kind == f"decimal({max(digits, len(fraction))},{len(fraction)})"


def text_literal(value: str) -> str:
    """A text in quotes."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def literal(node: Json) -> str:
    """A literal of its very type.

    >>> literal({"value": "2", "dataType": "long"}), literal({"value": None, "dataType": "date"})
    ('CAST(2 AS BIGINT)', 'CAST(NULL AS DATE)')
    """
    value, kind = node.get("value"), node["dataType"]
    if value is None:
        return f"CAST(NULL AS {type_text(kind)})" if kind not in ("void", "null") else "NULL"
    match kind:
        case "string":
            return text_literal(str(value))
        case "boolean":
            return str(value).upper()
        case "integer":
            return str(value)
        case "date":
            return f"DATE '{value}'"
        case "timestamp" | "timestamp_ntz":
            return f"TIMESTAMP '{value}'"
        case "double" | "float":
            return f"CAST({float(value)!r} AS {kind.upper()})"
        case _ if isinstance(kind, str) and kind.startswith("decimal"):
            return str(value) if _is_own_type(str(value), kind) else f"CAST({value} AS {type_text(kind)})"
        case "long" | "short" | "byte":
            return f"CAST({value} AS {type_text(kind)})"
        case _:
            raise SqlError(f"a view cannot be made of a DataFrame with a literal of type {kind}")


def interval(tree: Tree) -> str:
    """A literal interval, possibly with a sign: in months, or in seconds or microseconds.

    >>> node = {"class": "x.Literal", "value": "5400000000", "dataType": "interval hour to minute"}
    >>> interval(Tree(node))
    'INTERVAL 5400 SECOND'
    """
    count, kind = _signed(tree)
    if kind in MONTHS:
        return f"INTERVAL {count} MONTH"
    return f"INTERVAL {count} MICROSECOND" if count % 1_000_000 else f"INTERVAL {count // 1_000_000} SECOND"


def interval_days(tree: Tree) -> int:
    """The days of an interval that has nothing else."""
    count, _ = _signed(tree)
    if count % DAY:
        raise SqlError("a view cannot be made of a DataFrame that adds parts of a day to a date")
    return count // DAY


def _signed(tree: Tree) -> tuple[int, str]:
    if tree.kind == "UnaryMinus":
        count, kind = _signed(tree.children[0])
        return -count, kind
    kind = str(tree.node.get("dataType"))
    if tree.kind != "Literal" or not kind.startswith("interval "):
        raise SqlError("a view cannot be made of a DataFrame that adds an interval of varying length")
    return int(tree.node["value"]), kind
