"""Answering a query from its sketch: each access of a partitioned table reads the sketch's fragments only."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from sqlglot import exp

from viewlet.core.scalar import Scalar, Var
from viewlet.sketches.partition import Partition
from viewlet.sketches.plan_to_sql import scalar_to_sql


def restriction(partition: Partition, fragments: Iterable[int]) -> Scalar:
    """The condition that a row lies in one of the fragments."""
    return partition.condition(frozenset(fragments), Var(partition.column, partition.type))


def restrict(
    query: exp.Query, conditions: Mapping[str, exp.Expr], parts: Mapping[str, exp.Table]
) -> exp.Query:
    """The query with every access of these tables replaced by a selection from it, or from a part of it.

    >>> import sqlglot
    >>> query, condition = sqlglot.parse_one("SELECT a FROM r AS q"), sqlglot.condition("a < 3")
    >>> print(restrict(query, {"r": condition}, {}).sql())
    SELECT a FROM (SELECT * FROM r WHERE a < 3) AS q
    """
    own = {cte.alias.lower() for cte in query.find_all(exp.CTE)}

    def change(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Table) or not isinstance(node.this, exp.Identifier):
            return node
        name = node.name.lower()
        if name not in conditions or name in own or isinstance(node.parent, exp.Column):
            return node
        alias = node.alias or node.name
        bare = node.copy()
        joins = bare.args.pop("joins", None)
        bare.set("alias", None)
        bare = parts.get(name, bare).copy()
        selected = exp.select("*").from_(bare).where(conditions[name].copy()).subquery(alias)
        if joins:
            selected.set("joins", joins)
        return selected

    changed = _replace_tables(query.copy(), change)
    assert isinstance(changed, exp.Query)
    return changed


def _replace_tables(node: exp.Expr, change: Callable[[exp.Expr], exp.Expr]) -> exp.Expr:
    # All accesses are found first: a replacement contains the table again.
    for table in list(node.find_all(exp.Table)):
        replacement = change(table)
        if replacement is not table:
            table.replace(replacement)
    return node


def in_ranges(partition: Partition, fragments: Iterable[int], attribute: exp.Expr) -> exp.Expr:
    """The condition as an OR of ranges of the attribute, in the form that a database compares it."""
    condition = scalar_to_sql(restriction(partition, fragments))
    return condition.transform(lambda node: attribute.copy() if isinstance(node, exp.Column) else node)


def conditions_of(
    sketch: Iterable[tuple[Partition, frozenset[int]]],
    condition_of: Callable[[Partition, frozenset[int]], exp.Expr],
) -> dict[str, exp.Expr]:
    """Per table the conditions of all its sketches, each in the form that suits the database."""
    conditions: dict[str, exp.Expr] = {}
    for partition, fragments in sketch:
        condition = condition_of(partition, fragments)
        table = partition.table
        conditions[table] = exp.and_(conditions[table], condition) if table in conditions else condition
    return conditions
