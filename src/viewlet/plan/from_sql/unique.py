"""Columns of which no two rows agree, as far as the text of a query tells.

    keys(t)                               =  the primary key of a table that keeps its rows
    keys(SELECT .. FROM q WHERE c)        =  keys(q), under the names that the SELECT gives them
    keys(SELECT .. FROM q GROUP BY g)     =  g, under those names; but g may be NULL

Joins, set operations and whatever else is not here have none that are known.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

from sqlglot import exp

from viewlet.sql.catalog import Catalog, TableKind


@dataclass(frozen=True, slots=True)
class Unique:
    """Columns that no two rows share, and whether none of them is ever NULL."""

    columns: frozenset[str]
    never_null: bool


def unique_rows(select: exp.Select, catalog: Catalog, shadowed: Container[str]) -> Unique | None:
    """The columns that tell the rows apart of which a SELECT makes its list; groups are rows too.

    >>> from sqlglot import parse_one
    >>> grouped = "SELECT b FROM (SELECT a AS b, SUM(c) AS s FROM t GROUP BY a) q"
    >>> unique_rows(parse_one(grouped), Catalog(), ())
    Unique(columns=frozenset({'b'}), never_null=False)
    """
    if select.args.get("joins") or select.args.get("laterals"):
        return None
    group = select.args.get("group")
    if group is not None:
        plain = all(isinstance(key, exp.Column) for key in group.expressions)
        others = any(group.args.get(part) for part in ("rollup", "cube", "grouping_sets", "totals"))
        names = frozenset(key.name.lower() for key in group.expressions)
        return Unique(names, never_null=False) if plain and names and not others else None
    return _of_source(select.args["from_"].this, catalog, shadowed) if select.args.get("from_") else None


def _of_source(source: exp.Expr, catalog: Catalog, shadowed: Container[str]) -> Unique | None:
    """The same of a table or a derived table."""
    if isinstance(source, exp.Subquery) and isinstance(source.this, exp.Select):
        inner = unique_rows(source.this, catalog, shadowed)
        return None if inner is None or source.alias_column_names else _renamed(inner, source.this)
    name = source.name.lower()
    if not isinstance(source, exp.Table) or name in shadowed or name not in catalog:
        return None
    table = catalog[name]
    if table.kind not in (TableKind.TABLE, TableKind.STATIC) or not table.key:
        return None
    return Unique(frozenset(table.key), never_null=True)


def _renamed(inner: Unique, select: exp.Select) -> Unique | None:
    """The same columns under the names that a SELECT gives them, if it has all of them."""
    names = {
        item.unalias().name.lower(): item.alias_or_name.lower()
        for item in select.expressions
        if isinstance(item.unalias(), exp.Column)
    }
    for star in (item.find(exp.Star) for item in select.expressions if item.is_star):
        if star.args.get("replace") or star.args.get("rename"):
            return None
        left_out = {column.name.lower() for column in star.args.get("except_") or ()}
        names = {column: column for column in inner.columns - left_out} | names
    if not inner.columns <= names.keys():
        return None
    return Unique(frozenset(names[column] for column in inner.columns), inner.never_null)
