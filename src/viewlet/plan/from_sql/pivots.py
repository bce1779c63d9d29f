"""PIVOT with a list of values: values become columns.

    A PIVOT (agg(x) FOR c IN (v1 AS n1, .., vn AS nn))
      =  SELECT g, agg(x) FILTER (WHERE c = v1) AS n1, .., agg(x) FILTER (WHERE c = vn) AS nn
         FROM A GROUP BY g

where g are the columns of A that neither c nor x reads. As in Spark a value that does not occur in a group
has NULL there, also for COUNT. With several aggregates a column is called value_aggregate.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from viewlet.sql.position import invalid, unsupported

AGGREGATES = (exp.Sum, exp.Min, exp.Max, exp.Avg, exp.Count)


def grouped_of(pivots: Sequence[exp.Pivot], columns: Sequence[str], source: exp.Expr) -> exp.Select:
    """The query that a PIVOT of a source with some columns stands for.

    >>> from sqlglot import parse_one
    >>> tree = parse_one("SELECT * FROM t PIVOT (sum(x) FOR c IN (1, 'b' AS other))", read="spark")
    >>> pivots = tree.find(exp.Table).args["pivots"]
    >>> print(grouped_of(pivots, ["a", "c", "x"], exp.to_table("t")).sql("spark"))
    SELECT `a`, SUM(x) FILTER(WHERE c = 1) AS `1`, SUM(x) FILTER(WHERE c = 'b') AS `other` \
FROM t GROUP BY `a`
    """
    pivot = pivots[0]
    if len(pivots) > 1 or pivot.args.get("unpivot") or len(pivot.args.get("fields") or ()) != 1:
        raise unsupported(pivot, "UNPIVOT, or several PIVOTs", "write a UNION ALL, or one view on another")
    (values,) = pivot.args["fields"]
    if not isinstance(values, exp.In) or not values.expressions:
        raise unsupported(pivot, "PIVOT without a list of values", "write FOR column IN (values)")
    for aggregate in pivot.expressions:
        if not isinstance(aggregate.unalias(), AGGREGATES):
            raise unsupported(
                aggregate, f"{aggregate.sql()[:60]} in PIVOT", "there are sum, count, avg, min, max"
            )
    read = {
        column.name.lower()
        for part in (values.this, *pivot.expressions)
        for column in part.find_all(exp.Column)
    }
    groups = [exp.column(name, quoted=True) for name in columns if name not in read]
    cells = [
        exp.alias_(_cell(aggregate.unalias(), values.this, value), name, quoted=True)
        for value, label in map(_labelled, values.expressions)
        for aggregate in pivot.expressions
        for name in [_name(label, aggregate, alone=len(pivot.expressions) == 1)]
    ]
    return exp.select(*groups, *cells).from_(source).group_by(*groups)


def _labelled(node: exp.Expr) -> tuple[exp.Expr, str]:
    """A value and what it is called."""
    match node:
        case exp.PivotAlias(this=value):
            return value, node.args["alias"].name
        case exp.Literal() | exp.Boolean() | exp.Null() | exp.Neg(this=exp.Literal()):
            return node, node.this if isinstance(node, exp.Literal) else node.sql("spark").lower()
    if node.find(exp.Column) is not None:
        raise invalid(node, f"PIVOT needs literal values, found {node.sql()[:60]}")
    raise unsupported(node, f"{node.sql()[:60]} in PIVOT without a name", "write value AS name")


def _name(label: str, aggregate: exp.Expr, *, alone: bool) -> str:
    written = aggregate.sql("spark").replace("(*)", "(1)")  # as Spark names COUNT(*)
    return label.lower() if alone else f"{label}_{aggregate.alias or written}".lower()


def _cell(aggregate: exp.Expr, column: exp.Expr, value: exp.Expr) -> exp.Expr:
    """An aggregate over the rows of one value; NULL if there is none, which COUNT does not say itself."""
    columns, wanted = _parts(column), _parts(value)
    if len(columns) != len(wanted):
        raise invalid(value, f"PIVOT compares {len(columns)} columns with {len(wanted)} values")
    chosen = exp.and_(*map(_equal, columns, wanted))
    cell = _filtered(aggregate, chosen)
    if not isinstance(aggregate, exp.Count):
        return cell
    rows = _filtered(exp.Count(this=exp.Star()), chosen)
    return exp.Case(ifs=[exp.If(this=exp.GT(this=rows, expression=exp.Literal.number(0)), true=cell)])


def _parts(node: exp.Expr) -> list[exp.Expr]:
    return node.expressions if isinstance(node, exp.Tuple) else [node]


def _equal(column: exp.Expr, value: exp.Expr) -> exp.Expr:
    if isinstance(value, exp.Null):
        return exp.Is(this=column.copy(), expression=exp.null())
    return exp.EQ(this=column.copy(), expression=value.copy())


def _filtered(aggregate: exp.Expr, condition: exp.Expr) -> exp.Filter:
    return exp.Filter(this=aggregate.copy(), expression=exp.Where(this=condition.copy()))
