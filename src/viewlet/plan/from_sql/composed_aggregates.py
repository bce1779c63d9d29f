"""Aggregates that are made of others: what is maintained are those.

Over the rows in which both x and y are known, n of them:

    ANY_VALUE(x)          =  MIN(x)                                           any will do
    COVAR_POP(y, x)       =  (VAR_POP(y + x) - VAR_POP(y - x)) / 4            so for COVAR_SAMP
    CORR(y, x)            =  COVAR_POP(y, x) / (STDDEV_POP(y) * STDDEV_POP(x))
    REGR_SLOPE(y, x)      =  COVAR_POP(y, x) / VAR_POP(x)
    REGR_INTERCEPT(y, x)  =  AVG(y) - REGR_SLOPE(y, x) * AVG(x)
    REGR_R2(y, x)         =  CORR(y, x)^2, but 1 where y does not vary
    REGR_COUNT(y, x)      =  COUNT(*)

The variance of exact numbers is exact up to the end, so the difference of two of them loses little.

With D the rows of the SELECT, d one of its groups by k:

    MAX_BY(x, y)          =  (SELECT MAX(e.x) FROM D e WHERE e.k <=> d.k AND e.y =
                                 (SELECT MAX(f.y) FROM D f WHERE f.k <=> d.k))

so of rows that tie the greatest value counts; likewise for MIN_BY. FILTER is part of D.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy

from sqlglot import exp, parse_one

from viewlet.plan.from_sql.blocks import result_name
from viewlet.sql.position import unsupported

PEER, NEXT = "__peer", "__next"
VALUE, PLACE = "__value", "__place"
ROWS = ("from_", "joins", "laterals", "where")
"""The clauses that make the rows of a SELECT."""

COVARIANCE = "(var_pop(y + x) - var_pop(y - x)) / 4"
FORMULAS: Mapping[type[exp.Expr], str] = {
    exp.CovarPop: COVARIANCE,
    exp.CovarSamp: COVARIANCE.replace("var_pop", "var_samp"),
    exp.Corr: f"{COVARIANCE} / (stddev_pop(y) * stddev_pop(x))",
    exp.RegrSlope: f"{COVARIANCE} / var_pop(x)",
    exp.RegrIntercept: f"avg(y) - {COVARIANCE} / var_pop(x) * avg(x)",
    exp.RegrR2: f"CASE WHEN var_pop(x) = 0 THEN NULL WHEN var_pop(y) = 0 THEN 1e0 "
    f"ELSE power({COVARIANCE}, 2) / (var_pop(x) * var_pop(y)) END",
    exp.RegrCount: "count(*)",
}
COMPOSED = (*FORMULAS, exp.AnyValue, exp.ArgMax, exp.ArgMin)


def without_composed(query: exp.Query) -> exp.Query:
    """The same query without such aggregates; itself if it has none.

    >>> def rewritten(text):
    ...     return without_composed(parse_one(text, read="spark")).sql("spark")
    >>> print(rewritten("SELECT regr_slope(b, a) AS c FROM t"))
    SELECT ((VAR_POP(b + a) FILTER(WHERE NOT b IS NULL AND NOT a IS NULL) \
- VAR_POP(b - a) FILTER(WHERE NOT b IS NULL AND NOT a IS NULL)) / 4 \
/ VAR_POP(a) FILTER(WHERE NOT b IS NULL AND NOT a IS NULL)) AS c FROM t
    >>> print(rewritten("SELECT max_by(a, b) AS m FROM t"))
    SELECT (SELECT MAX(__peer.__value) FROM (SELECT a AS __value, b AS __place FROM t) AS __peer \
WHERE __peer.__place = (SELECT MAX(__next.__place) FROM (SELECT a AS __value, b AS __place FROM t) \
AS __next)) AS m
    """
    if query.find(*COMPOSED) is None:
        return query
    around = exp.Paren(this=query.copy())  # so that the outermost SELECT has a parent too
    for select in reversed(list(around.find_all(exp.Select))):  # inner ones first: they are copied
        found: list[exp.Expr] = list(select.find_all(*COMPOSED))
        own = [node for node in found if node.parent_select is select]
        if own:
            _name_results(select)
        for node in own:
            filtered = node.parent if isinstance(node.parent, exp.Filter) else None
            place = filtered or node
            place.replace(_best(node, filtered, select) if _is_best(node) else _composed(node, filtered))
        if any(map(_is_best, own)):
            _keep_one_row(select)
    plain: exp.Query = around.this
    return plain


def _name_results(select: exp.Select) -> None:
    """Let columns keep the names that they have by how they are written."""
    named = [
        item if item.is_star or item.alias else exp.alias_(item, result_name(item), quoted=True, copy=False)
        for item in select.expressions
    ]
    select.set("expressions", named)


def _keep_one_row(select: exp.Select) -> None:
    """A SELECT without groups that has lost all its aggregates is about no rows any more: it has one."""
    found: list[exp.Expr] = list(select.find_all(exp.AggFunc))
    if select.args.get("group") or any(node.parent_select is select for node in found):
        return
    for clause in ROWS:
        select.set(clause, None)
    having = select.args.get("having")
    if having:
        select.set("having", None)
        select.set("where", exp.Where(this=having.this))


def _is_best(node: exp.Expr) -> bool:
    return isinstance(node, exp.ArgMax | exp.ArgMin)


def _composed(node: exp.Expr, filtered: exp.Filter | None) -> exp.Expr:
    """An aggregate by its formula, each part over the rows that count."""
    if isinstance(node, exp.AnyValue):
        return _over(exp.Min(this=node.this.copy()), filtered)
    given = {"y": node.this, "x": node.expression}
    known = exp.and_(*(exp.Is(this=part.copy(), expression=exp.Null()).not_() for part in given.values()))

    def counted(aggregate: exp.Expr) -> exp.Expr:
        filled = aggregate.transform(
            lambda part: given[part.name].copy() if isinstance(part, exp.Column) else part
        )
        return _over(filled, filtered, known)

    return exp.Paren(this=_each_aggregate(parse_one(FORMULAS[type(node)], read="spark"), counted))


def _each_aggregate(node: exp.Expr, change: Callable[[exp.Expr], exp.Expr]) -> exp.Expr:
    """A formula with every aggregate in it changed."""
    if isinstance(node, exp.AggFunc):
        return change(node)
    for child in list(node.iter_expressions()):
        child.replace(_each_aggregate(child, change))
    return node


def _over(aggregate: exp.Expr, filtered: exp.Filter | None, known: exp.Expr | None = None) -> exp.Expr:
    """An aggregate over the rows that FILTER lets through and in which all is known."""
    conditions = [known.copy()] if known is not None else []
    if filtered is not None:
        conditions.append(filtered.expression.this.copy())
    if not conditions:
        return aggregate
    return exp.Filter(this=aggregate, expression=exp.Where(this=exp.and_(*conditions)))


def _best(node: exp.Expr, filtered: exp.Filter | None, select: exp.Select) -> exp.Subquery:
    """The nested query for a value at the greatest or least place."""
    keys = _keys(node, select)
    columns = {f"__{number}": key for number, key in enumerate(keys, 1)}
    rows = exp.Select(
        expressions=[
            exp.alias_(part.copy(), name)
            for name, part in {**columns, VALUE: node.this, PLACE: node.expression}.items()
        ]
    )
    for clause in ROWS:
        rows.set(clause, deepcopy(select.args.get(clause)))
    if filtered is not None:
        rows = rows.where(filtered.expression.this.copy())

    def asked(what: exp.Expr, alias: str) -> exp.Select:
        alike = [
            exp.NullSafeEQ(this=exp.column(name, table=alias), expression=key.copy())
            for name, key in columns.items()
        ]
        return exp.select(what).from_(rows.subquery(alias)).where(*alike)

    extreme = exp.Max if isinstance(node, exp.ArgMax) else exp.Min
    place = asked(extreme(this=exp.column(PLACE, table=NEXT)), NEXT).subquery()
    there = exp.EQ(this=exp.column(PLACE, table=PEER), expression=place)
    return asked(exp.Max(this=exp.column(VALUE, table=PEER)), PEER).where(there).subquery()


def _keys(node: exp.Expr, select: exp.Select) -> list[exp.Expr]:
    """What the SELECT groups by, written out."""
    group = select.args.get("group")
    if group is None:
        return []
    name = node.sql_name().lower() if isinstance(node, exp.Func) else "it"
    if group.args.get("all") or group.find(exp.Rollup, exp.Cube, exp.GroupingSets):
        raise unsupported(node, f"{name} in such a GROUP BY", "group by plain columns")
    aliases = {item.alias.lower(): item.this for item in select.expressions if item.alias}
    keys: list[exp.Expr] = []
    for key in group.expressions:
        meant = aliases.get(key.name.lower()) if isinstance(key, exp.Column) and not key.table else None
        if key.is_int and 1 <= int(key.name) <= len(select.expressions):
            keys.append(select.expressions[int(key.name) - 1].unalias())
        elif meant is not None and meant != key:
            raise unsupported(node, f"{name} beside GROUP BY {key.sql()}", "write out what it stands for")
        else:
            keys.append(key)
    return keys
