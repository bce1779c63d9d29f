"""Whole queries: WITH, set operations, ORDER BY and LIMIT, and the entry point."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from viewlet.core.names import Names
from viewlet.core.scalar import Scalar, Var
from viewlet.core.types import Type
from viewlet.errors import UnsupportedError
from viewlet.plan.facts import set_may_be_null
from viewlet.plan.from_sql.blocks import Item, order_by, select_block, sort_key
from viewlet.plan.from_sql.clauses import Clause, common_type
from viewlet.plan.from_sql.composed_aggregates import without_composed
from viewlet.plan.from_sql.context import Body, CommonTable, Context
from viewlet.plan.from_sql.grouping_sets import parts_of
from viewlet.plan.from_sql.windows import without_windows
from viewlet.plan.nodes import Plan, Project, Query, SetKind, SetOperation, SortKey, Top
from viewlet.plan.scope import outputs
from viewlet.sql import scalars
from viewlet.sql.catalog import Catalog
from viewlet.sql.position import invalid, unsupported
from viewlet.sql.scope import Scope, Source


def resolve(query: exp.Query, catalog: Catalog) -> Query:
    """The relational algebra of a parsed query.

    >>> from viewlet.core.types import BIGINT, Column
    >>> from viewlet.sql.catalog import Table
    >>> from viewlet.sql.parse import parse_query
    >>> r = Catalog([Table("r", (Column("a", BIGINT), Column("b", BIGINT)))])
    >>> from viewlet.plan.text import show
    >>> print(show(resolve(parse_query("SELECT a FROM r WHERE b > 1"), r)))
    query a
      project a
        filter b > 1i
          scan r(a:BIGINT?, b:BIGINT?)
    """
    resolved = resolve_by_place(query, catalog)
    names = [name for name, _ in resolved.columns]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise invalid(query, f"the result has two columns named {repeated[0]!r}; give one of them an alias")
    return resolved


def resolve_by_place(query: exp.Query, catalog: Catalog) -> Query:
    """The same for a query whose columns are told by their places: several may have one name."""
    try:
        plain = without_composed(without_windows(query, catalog))
        body = _query(plain, None, Context(catalog, Names(), _mentioned(plain), _query, {}))
    except RecursionError:
        raise UnsupportedError("the query is nested too deeply; split it into several views") from None
    plan = body.plan
    if body.keys or body.limit is not None or body.offset:
        plan = Top(plan, body.keys, body.limit, body.offset)
    return Query(plan, body.columns)


def _mentioned(query: exp.Query) -> frozenset[str] | None:
    """All names in a query, ``None`` if there is a star, NATURAL or PIVOT: then every column may be meant."""
    if query.find(exp.Pivot) or any(join.method == "NATURAL" for join in query.find_all(exp.Join)):
        return None
    if any(
        not isinstance(star.parent, exp.Count) and not _in_exists(star) for star in query.find_all(exp.Star)
    ):
        return None
    return frozenset(identifier.name.lower() for identifier in query.find_all(exp.Identifier))


def _in_exists(star: exp.Star) -> bool:
    """Is it the star of EXISTS (SELECT * ...), which means nothing?"""
    select = star.parent
    return isinstance(select, exp.Select) and isinstance(select.parent, exp.Exists)


def _query(query: exp.Query, outer: Scope | None, context: Context) -> Body:
    """A query of any form, inside the scope around it."""
    with_ = query.args.get("with_")
    if with_:
        context = _with(with_, outer, context)
    match query:
        case exp.Subquery():
            return _parenthesized(query, outer, context)
        case exp.Select():
            body = _select(query, outer, context)
        case exp.SetOperation():
            body = _set_operation(query, outer, context)
        case _:
            raise unsupported(
                query, f"{query.sql()[:60]!r} as a query", "there are SELECT and set operations"
            )
    return replace(body, limit=_count(query, "limit"), offset=_count(query, "offset") or 0)


def _select(query: exp.Select, outer: Scope | None, context: Context) -> Body:
    """A SELECT; one with several grouping sets is a union."""
    first, *others = (select_block(part, outer, context) for part in parts_of(query))
    if not others:
        return first
    kind: SetKind = "union" if query.args.get("distinct") else "union_all"
    for body in others:
        first = _united(kind, first, body, query, context)
    return replace(first, keys=_ordered(query, first.columns, context))


def _parenthesized(query: exp.Subquery, outer: Scope | None, context: Context) -> Body:
    """``(query)``, which may be followed by an order and a limit of its own."""
    body = _query(query.this, outer, context)
    if not any(query.args.get(part) for part in ("order", "limit", "offset")):
        return body
    if body.limit is not None or body.offset:
        raise unsupported(query, "a second LIMIT", "create a view of the inner query and select from that")
    keys = _ordered(query, body.columns, context) or body.keys
    return replace(body, keys=keys, limit=_count(query, "limit"), offset=_count(query, "offset") or 0)


def _with(with_: exp.With, outer: Scope | None, context: Context) -> Context:
    """The context in which the WITH items are in sight, each seeing those before it."""
    if with_.recursive:
        raise unsupported(with_, "WITH RECURSIVE", "views have no recursion")
    for item in with_.expressions:
        columns = tuple(column.name.lower() for column in item.args["alias"].args.get("columns") or ())
        table = CommonTable(item.this, columns, context.common, outer)
        context = context.with_common({**context.common, item.alias.lower(): table})
    return context


def _count(query: exp.Query, part: str) -> int | None:
    """The number of LIMIT, OFFSET or FETCH."""
    node = query.args.get(part)
    if node is None:
        return None
    if isinstance(node, exp.Fetch):
        options = node.args.get("limit_options")
        if options and (options.args.get("with_ties") or options.args.get("percent")):
            raise unsupported(query, "FETCH WITH TIES or PERCENT", "use a plain LIMIT")
        amount = node.args.get("count") or exp.Literal.number(1)
    else:
        amount = node.expression
    if isinstance(amount, exp.Var) and amount.name.upper() == "ALL":
        return None
    if not isinstance(amount, exp.Literal) or amount.is_string or not amount.this.isdigit():
        raise invalid(query, f"{part.upper()} needs a number, found {amount.sql()}")
    return int(amount.this)


SET_KINDS: dict[tuple[type[exp.Expr], bool], SetKind] = {
    (exp.Union, True): "union",
    (exp.Union, False): "union_all",
    (exp.Intersect, True): "intersect",
    (exp.Intersect, False): "intersect_all",
    (exp.Except, True): "except",
    (exp.Except, False): "except_all",
}


def _set_operation(query: exp.SetOperation, outer: Scope | None, context: Context) -> Body:
    """UNION, INTERSECT, EXCEPT: columns meet by position in a common type, and take the names of the left."""
    if query.args.get("by_name") or query.args.get("on") or query.args.get("side"):
        raise unsupported(query, "a set operation BY NAME", "list the columns in the same order")
    kind = SET_KINDS[type(query), bool(query.args.get("distinct"))]
    left, right = (_operand(side, outer, context) for side in (query.this, query.expression))
    body = _united(kind, left, right, query, context)
    return replace(body, keys=_ordered(query, body.columns, context))


def _united(kind: SetKind, left: Body, right: Body, query: exp.Query, context: Context) -> Body:
    """A set operation of two bodies, without an order."""
    if len(left.columns) != len(right.columns):
        raise invalid(
            query,
            f"{kind.upper()} of {len(left.columns)} and {len(right.columns)} columns: they must be as many",
        )
    sides = (left.columns, right.columns)
    types = [
        common_type([a.type, b.type], query, f"column {name!r} of {kind.upper().replace('_', ' ')}")
        for (name, a), (_, b) in zip(*sides, strict=True)
    ]
    plans = [_cast_columns(body, types, context) for body in (left, right)]
    columns = tuple(
        context.fresh(name, type_, set_may_be_null(kind, a, b))
        for (name, _), a, b, type_ in zip(
            left.columns, outputs(plans[0]), outputs(plans[1]), types, strict=True
        )
    )
    named = tuple((name, var) for (name, _), var in zip(left.columns, columns, strict=True))
    return Body(SetOperation(kind, plans[0], plans[1], columns), named)


def _operand(query: exp.Expr, outer: Scope | None, context: Context) -> Body:
    if not isinstance(query, exp.Query):
        raise unsupported(query, f"{query.sql()} in a set operation", "there are queries")
    body = _query(query, outer, context)
    if body.limit is not None or body.offset:
        raise unsupported(query, "LIMIT in a set operation", "create a view of that query and select from it")
    return body


def _cast_columns(body: Body, types: list[Type], context: Context) -> Plan:
    """A plan whose variables are the columns in order, each in the common type."""
    plan = context.positional(body)
    values: list[Scalar] = [scalars.cast(var, kind) for var, kind in zip(outputs(plan), types, strict=True)]
    if tuple(values) == outputs(plan):
        return plan
    names = [name for name, _ in body.columns]
    return Project(
        plan,
        tuple(
            (value if isinstance(value, Var) else context.define(name, value), value)
            for name, value in zip(names, values, strict=True)
        ),
    )


def _ordered(query: exp.Query, columns: tuple[tuple[str, Var], ...], context: Context) -> tuple[SortKey, ...]:
    """ORDER BY over the columns of a result alone."""
    scope = Scope((Source("", columns),))
    clause = Clause("ORDER BY of a set operation", context, scope)
    items = [Item(name, var, query) for name, var in columns]
    keys = order_by(query, items, clause)
    if clause.nested:
        raise unsupported(query, "a subquery in ORDER BY of a set operation", "use a derived table")
    return tuple(sort_key(scalar, node) for scalar, node in keys)
