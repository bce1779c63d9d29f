"""Where something stands in the SQL text, for error messages."""

from __future__ import annotations

from sqlglot import exp

from viewlet.errors import SqlError, UnsupportedError


def position(node: exp.Expr) -> str:
    """`` at line 2, column 5``: where the node starts, or the nearest thing to it whose place is known.

    The parser keeps the places of names, literals and function calls only, so an operator is found
    through its operands.

    >>> import sqlglot
    >>> position(sqlglot.parse_one("SELECT a,\\n  b + 1").expressions[1])
    ' at line 2, column 3'
    """
    for candidate in (node, *_ancestors(node)):
        places = [_place(part) for part in candidate.walk() if "line" in part.meta]
        if places:
            line, column = min(places)
            return f" at line {line}, column {column}"
    return ""


def _place(node: exp.Expr) -> tuple[int, int]:
    """Line and column of the first character; the parser's own column is that of the last."""
    meta = node.meta
    return meta["line"], max(1, meta["col"] - (meta["end"] - meta["start"]))


def _ancestors(node: exp.Expr) -> list[exp.Expr]:
    return [] if node.parent is None else [node.parent, *_ancestors(node.parent)]


def invalid(node: exp.Expr, message: str, instead: str = "") -> SqlError:
    """An error about a node: the message, the place, and what would work."""
    return SqlError(f"{message}{position(node)}{f'; {instead}' if instead else ''}")


def unsupported(node: exp.Expr, construct: str, instead: str) -> UnsupportedError:
    """A refusal: the construct's name, its place, and what would work."""
    return UnsupportedError(f"{construct} is not supported{position(node)}; {instead}")
