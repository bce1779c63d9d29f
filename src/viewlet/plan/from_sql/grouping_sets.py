"""GROUPING SETS, ROLLUP and CUBE: one SELECT that groups in several ways is a UNION ALL of plain ones.

    GROUP BY GROUPING SETS (G1, .., Gn)  =  GROUP BY G1 UNION ALL .. UNION ALL GROUP BY Gn
    ROLLUP (a, b)  =  GROUPING SETS ((a, b), (a), ())
    CUBE (a, b)    =  GROUPING SETS ((a, b), (a), (b), ())
    S, T           =  every set of S united with every set of T

In the part of a set, the grouping expressions that are not in it are NULL, and GROUPING says which these are.
The set ``()`` is a grand total, as in the SQL standard: it has a row even if there is nothing to sum up.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations, product

from sqlglot import exp

from viewlet.sql.position import invalid, unsupported

MOST_SETS = 64
SEVERAL = (exp.Rollup, exp.Cube, exp.GroupingSets)

Set = tuple[exp.Expr, ...]


@dataclass(frozen=True, slots=True)
class Part:
    """A SELECT with one plain GROUP BY; ``absent`` are the grouping expressions that are NULL in it."""

    select: exp.Select
    absent: Set = ()


def parts_of(select: exp.Select) -> list[Part]:
    """The plain SELECTs of which a SELECT is the UNION ALL.

    >>> from sqlglot import parse_one
    >>> rollup = "SELECT a, GROUPING(b) AS g, SUM(c) AS s FROM r GROUP BY ROLLUP (a, b)"
    >>> for part in parts_of(parse_one(rollup)):
    ...     print(part.select.sql(), [node.sql() for node in part.absent])
    SELECT a, 0 AS g, SUM(c) AS s FROM r GROUP BY a, b []
    SELECT a, 1 AS g, SUM(c) AS s FROM r GROUP BY a ['b']
    SELECT a, 1 AS g, SUM(c) AS s FROM r GROUP BY ['a', 'b']
    """
    group = select.args.get("group")
    if group is None or not _is_several(group):
        return [Part(select)]
    if group.args.get("totals"):
        raise unsupported(group, "WITH TOTALS", "use ROLLUP")
    sets = _sets_of(group)
    if group.args.get("all") is False:  # GROUP BY DISTINCT
        sets = list({frozenset(chosen): chosen for chosen in sets}.values())
    if len(sets) > MOST_SETS:
        raise unsupported(group, f"{len(sets)} grouping sets", f"there may be {MOST_SETS}: use several views")
    every = _united(sets)
    return [_part(select, chosen, every) for chosen in sets]


def _is_several(group: exp.Group) -> bool:
    parts = ("rollup", "cube", "grouping_sets", "totals")
    return any(group.args.get(part) for part in parts) or any(
        isinstance(e, SEVERAL) for e in group.expressions
    )


def _sets_of(group: exp.Group) -> list[Set]:
    """The grouping sets of a GROUP BY; ``a WITH ROLLUP`` and ``a GROUPING SETS (..)`` list columns."""
    named = [node for part in ("rollup", "cube", "grouping_sets") for node in group.args.get(part) or ()]
    if named and group.expressions:
        if len(named) > 1 or any(isinstance(node, SEVERAL) for node in group.expressions):
            raise unsupported(group, "this mixture of groupings", "use GROUPING SETS (..) alone")
        return _expanded(named[0], [(node,) for node in group.expressions])
    return [_united(sets) for sets in product(*(_expanded(n, []) for n in (*group.expressions, *named)))]


def _expanded(node: exp.Expr, listed: Sequence[Set]) -> list[Set]:
    """The sets that an item of a GROUP BY stands for; a ROLLUP or CUBE of nothing takes those ``listed``."""
    match node:
        case exp.GroupingSets(expressions=parts):
            return [chosen for part in parts for chosen in _expanded(part, listed)]
        case exp.Rollup(expressions=parts):
            items = [_together(part) for part in parts] or listed
            return [_united(items[:size]) for size in range(len(items), -1, -1)]
        case exp.Cube(expressions=parts):
            items = [_together(part) for part in parts] or listed
            sizes = range(len(items), -1, -1)
            return [_united(chosen) for size in sizes for chosen in combinations(items, size)]
    return [_united([_together(node)])]


def _together(node: exp.Expr) -> Set:
    """An expression, or the several ones in brackets."""
    return tuple(node.expressions) if isinstance(node, exp.Tuple) else (node,)


def _united(sets: Iterable[Set]) -> Set:
    """All expressions of some sets, each once."""
    return tuple(dict.fromkeys(node.unnest() for chosen in sets for node in chosen))


def _part(select: exp.Select, chosen: Set, every: Set) -> Part:
    plain = select.copy()
    plain.set("group", exp.Group(expressions=[node.copy() for node in chosen]))
    for node in list(plain.find_all(exp.Grouping, exp.GroupingId)):
        if node.parent_select is plain:
            node.replace(exp.Literal.number(_grouping(node, chosen, every)))
    return Part(plain, tuple(node for node in every if node not in chosen))


def _grouping(node: exp.Expr, chosen: Set, every: Set) -> int:
    """GROUPING (a, b): a binary number with a digit for each expression, 1 where it is not in the set."""
    asked = [part.unnest() for part in node.expressions] or list(every)
    for part in asked:
        if part not in every:
            raise invalid(part, f"{part.sql()} in GROUPING is not in GROUP BY")
    return int("".join("0" if part in chosen else "1" for part in asked), 2)
