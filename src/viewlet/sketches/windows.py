"""Rule S7: an aggregate over a window is a join with the aggregates of its partitions.

A window without ORDER BY gives every row of a partition the same value, so with ``p`` for PARTITION BY::

    π[.., f(e) OVER (PARTITION BY p)](R)  =  π[.., v](R ⋈[p = k] γ[k: p; v: f(e)](R))

where NULL equals NULL. The right side is judged, followed and captured as any query is, and for an attribute
among ``p`` the rules S1 and S2 find both accesses of a table cut alike: partitions are kept or skipped whole.
For other attributes ``v`` moves, and conditions on it must be closed in that direction, as with HAVING (S3).
The database itself runs the query as it was written.
"""

from __future__ import annotations

from sqlglot import exp

from viewlet.sketches.errors import UnsafeError

ALIAS = "_window"


def join_windows(query: exp.Query) -> exp.Query:
    """The query with every window as a join.

    >>> import sqlglot
    >>> print(join_windows(sqlglot.parse_one("SELECT b, max(c) OVER (PARTITION BY a) AS m FROM r")).sql())
    SELECT b, _window0_value AS m FROM r JOIN (SELECT a AS _window0_key0, MAX(c) AS _window0_value \
FROM r GROUP BY a) AS _window0 ON a IS NOT DISTINCT FROM _window0_key0
    """
    if query.find(exp.Window) is None:
        return query
    joined = query.copy()
    number = 0
    # The innermost first: what is joined is a copy of FROM, derived tables included.
    for select in reversed(list(joined.find_all(exp.Select))):
        windows = [found for found in select.find_all(exp.Window) if found.parent_select is select]
        joins = [_joined(select, window, f"{ALIAS}{number + n}") for n, window in enumerate(windows)]
        number += len(windows)
        for table, condition in joins:
            select.join(table, on=condition, copy=False)
    return joined


def _joined(select: exp.Select, window: exp.Window, name: str) -> tuple[exp.Subquery, exp.Expr]:
    """Replace a window by a column of a table of all partitions; that table, and how it is joined."""
    _refuse(window, select)
    # Names of our own: a column of the query could have any other.
    keys = {f"{name}_key{place}": key for place, key in enumerate(window.args["partition_by"])}
    listed = [exp.alias_(key.copy(), alias) for alias, key in keys.items()]
    partitions = exp.select(*listed, exp.alias_(window.this.copy(), f"{name}_value"))
    for part in ("from_", "joins", "where"):
        found = select.args.get(part)
        if found:
            partitions.set(part, [one.copy() for one in found] if part == "joins" else found.copy())
    partitions = partitions.group_by(*(key.copy() for key in keys.values()))
    same = [exp.NullSafeEQ(this=key.copy(), expression=exp.column(alias)) for alias, key in keys.items()]
    window.replace(exp.column(f"{name}_value"))
    return partitions.subquery(name), exp.and_(*same)


def _refuse(window: exp.Window, select: exp.Select) -> None:
    """Only windows of whole partitions are joins, in a query that does nothing else with its rows."""
    shown = window.sql()
    if window.args.get("order") or window.args.get("spec") or not isinstance(window.this, exp.AggFunc):
        raise UnsafeError(f"S7: {shown}: only aggregates of whole partitions are analysed, without ORDER BY")
    if window.args.get("alias") or not window.args.get("partition_by"):
        raise UnsafeError(f"S7: {shown}: name the columns of PARTITION BY in the window itself")
    if any(select.args.get(part) for part in ("group", "having", "qualify", "windows", "distinct")):
        raise UnsafeError(f"S7: {shown} beside GROUP BY, DISTINCT or QUALIFY: put it into a derived table")
    if any(column.is_star for column in select.expressions):
        raise UnsafeError(f"S7: {shown} beside *: list the columns")
