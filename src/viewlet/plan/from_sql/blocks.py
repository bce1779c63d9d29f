"""One SELECT block: WHERE, GROUP BY, HAVING, the SELECT list, DISTINCT, ORDER BY.

Expressions behind the grouping are read like all others, over the columns of FROM; then every part of them
that is a grouping expression is replaced by that group's variable, also inside nested queries (or by NULL, in
a part of grouping sets without it). What is left of FROM's columns after that is an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from viewlet.core.node import rebuild
from viewlet.core.scalar import Call, Const, Scalar, Var, variables
from viewlet.plan.from_sql.clauses import Aggregates, Clause, applied, filtered
from viewlet.plan.from_sql.context import Body, Context
from viewlet.plan.from_sql.grouping_sets import Part
from viewlet.plan.from_sql.relations import from_clause, told_apart
from viewlet.plan.nodes import Aggregate, Apply, Distinct, Nested, Plan, Project, SortKey, Unit
from viewlet.plan.scope import free_variables
from viewlet.sql.position import invalid, unsupported
from viewlet.sql.scope import Scope

REFUSED_CLAUSES = {
    "laterals": "LATERAL VIEW",
    "pivots": "PIVOT",
    "sample": "TABLESAMPLE",
    "distribute": "DISTRIBUTE BY",
    "sort": "SORT BY",
    "cluster": "CLUSTER BY",
    "connect": "CONNECT BY",
    "match": "MATCH_RECOGNIZE",
    "prewhere": "PREWHERE",
    "into": "SELECT INTO",
    "kind": "SELECT AS STRUCT",
    "locks": "FOR UPDATE",
}


@dataclass(frozen=True, slots=True)
class Item:
    """One column of a SELECT list: its name, its value over FROM, where it stands."""

    name: str
    scalar: Scalar
    node: exp.Expr


def select_block(part: Part, outer: Scope | None, context: Context) -> Body:
    """The plan of a SELECT with one plain GROUP BY, or none, without LIMIT."""
    select = part.select
    for clause_, name in REFUSED_CLAUSES.items():
        if select.args.get(clause_):
            raise unsupported(select, name, "use joins, GROUP BY and derived tables")
    relation = from_clause(select, outer, context)
    relation = told_apart(relation, context) if part.absent else relation
    scope = relation.scope(outer)
    plan = relation.plan
    where = select.args.get("where")
    if where:
        clause = Clause("WHERE", context, scope)
        condition = clause.condition(where.this)
        plan = filtered(plan, clause, condition)
    group = select.args.get("group")
    aggregates = Aggregates(context, scope, grouped=_has_groups(select))
    selecting = Clause("SELECT", context, scope, aggregates)
    items = _select_list(select, selecting)
    aliases = {item.name: item.scalar for item in items if isinstance(item.node, exp.Alias)}
    groups = _group_by(group, items, aliases, selecting) if group else {}
    absent = {s: Const(None, s.type) for s in _grouped(part.absent, items, aliases, selecting)}
    having = Clause("HAVING", context, scope.with_aliases(aliases), aggregates)
    having_node = select.args.get("having")
    having_condition = having.condition(having_node.this) if having_node else None
    selecting.scope = scope.with_aliases(aliases, first=True)
    keys = order_by(select, items, selecting)
    if group or aggregates.calls or having_node:
        grouping = _Grouping({**absent, **groups}, scope, {var.name for var in aggregates.calls.values()})
        plan = applied(plan, aggregates.arguments.nested)
        calls = tuple((var, aggregate) for aggregate, var in aggregates.calls.items())
        plan = Aggregate(plan, tuple((var, scalar) for scalar, var in groups.items()), calls)
        items = [Item(item.name, grouping.over(item.scalar, item.node), item.node) for item in items]
        keys = [(grouping.over(scalar, node), node) for scalar, node in keys]
        having.nested = grouping.over_nested(having.nested, select)
        selecting.nested = grouping.over_nested(selecting.nested, select)
        if having_node and having_condition is not None:
            plan = filtered(plan, having, grouping.over(having_condition, having_node))
    plan = applied(plan, selecting.nested)
    return _projected(plan, items, keys, select, context)


def _select_list(select: exp.Select, clause: Clause) -> list[Item]:
    """The columns of the SELECT list; an alias may be used by the columns after it."""
    items: list[Item] = []
    aliases: dict[str, Scalar] = {}
    scope = clause.scope
    for node in select.expressions:
        if _is_star(node):
            items += _star(node, scope)
            continue
        if isinstance(node, exp.Aliases):
            raise unsupported(node, "an expression with several aliases", "select each column by itself")
        clause.scope = scope.with_aliases(aliases)
        scalar = clause.scalar(node.unalias(), node.alias.lower())
        item = Item(result_name(node), scalar, node)
        items.append(item)
        if isinstance(node, exp.Alias):
            aliases[item.name] = scalar
    clause.scope = scope
    return items


def _is_star(node: exp.Expr) -> bool:
    return isinstance(node, exp.Star) or (isinstance(node, exp.Column) and isinstance(node.this, exp.Star))


def _star(node: exp.Expr, scope: Scope) -> list[Item]:
    """``*``, ``alias.*``, ``* EXCEPT (columns)``."""
    star = node.this if isinstance(node, exp.Column) else node
    qualifier = node.table.lower() if isinstance(node, exp.Column) else ""
    if star.args.get("replace") or star.args.get("rename"):
        raise unsupported(node, "* REPLACE or RENAME", "list the columns")
    dropped = {column.name.lower() for column in star.args.get("except_") or ()}
    columns = scope.star(qualifier)
    if not columns and not any(source.others for source in scope.sources):
        known = ", ".join(source.alias for source in scope.sources) or "none"
        raise invalid(node, f"{node.sql()} has no columns; the tables in FROM are {known}")
    return [Item(name, scalar, node) for name, scalar in columns if name not in dropped]


def result_name(node: exp.Expr) -> str:
    """The name of a column of the result: its alias, its own name, or its text."""
    if isinstance(node, exp.Alias | exp.Column):
        return node.alias_or_name.lower()
    return node.sql(dialect="spark").lower()


def _has_groups(select: exp.Select) -> bool:
    """Is there something to group by, so that no rows make no groups?"""
    group = select.args.get("group")
    if group is None or group.expressions or not group.args.get("all"):
        return bool(group and group.expressions)
    return any(item.find(exp.AggFunc) is None for item in select.expressions)


def _group_by(
    group: exp.Group, items: Sequence[Item], aliases: Mapping[str, Scalar], selecting: Clause
) -> dict[Scalar, Var]:
    """The grouping expressions, each with its variable; ALL are the items without aggregates."""
    if group.args.get("all") and group.expressions:
        raise unsupported(group, "GROUP BY ALL with columns", "write GROUP BY ALL, or list the columns")
    every = _items_without_aggregates(items, selecting) if group.args.get("all") else None
    groups: dict[Scalar, Var] = {}
    for scalar in every or _grouped(group.expressions, items, aliases, selecting):
        if scalar not in groups:
            stem = next((item.name for item in items if item.scalar == scalar), "group")
            groups[scalar] = scalar if isinstance(scalar, Var) else selecting.context.define(stem, scalar)
    return groups


def _grouped(
    nodes: Iterable[exp.Expr], items: Sequence[Item], aliases: Mapping[str, Scalar], selecting: Clause
) -> Iterator[Scalar]:
    """What grouping expressions mean; names, aliases and positions may be used."""
    clause = Clause("GROUP BY", selecting.context, selecting.scope.with_aliases(aliases))
    unusable = {nested.output.name for nested in selecting.nested}
    computed = {var.name for var in (selecting.aggregates.calls.values() if selecting.aggregates else ())}
    for node in nodes:
        position = _position(node, items)
        scalar = clause.scalar(node) if position is None else position.scalar
        read = {var.name for var in variables(scalar)}
        if read & computed:
            raise invalid(node, "GROUP BY may not name an aggregate")
        if clause.nested or read & unusable:
            raise unsupported(node, "a subquery in GROUP BY", "compute it in a derived table")
        yield scalar


def _items_without_aggregates(items: Sequence[Item], selecting: Clause) -> Iterator[Scalar]:
    unusable = {nested.output.name for nested in selecting.nested}
    computed = {var.name for var in (selecting.aggregates.calls.values() if selecting.aggregates else ())}
    for item in items:
        read = {var.name for var in variables(item.scalar)}
        if read & unusable:
            raise unsupported(item.node, "a subquery in GROUP BY ALL", "compute it in a derived table")
        if not read & computed:
            yield item.scalar


def _position(node: exp.Expr, items: Sequence[Item]) -> Item | None:
    """The SELECT item that an integer literal in GROUP BY or ORDER BY stands for."""
    if not isinstance(node, exp.Literal) or node.is_string or not node.this.isdigit():
        return None
    place = int(node.this)
    if not 1 <= place <= len(items):
        raise invalid(node, f"there is no column {place} in the SELECT list; it has {len(items)}")
    return items[place - 1]


@dataclass(frozen=True, slots=True)
class _Grouping:
    """What may be read behind a GROUP BY: group variables, aggregates, and columns of outer queries."""

    groups: Mapping[Scalar, Var | Const]
    scope: Scope
    aggregates: set[str]

    def over(self, scalar: Scalar, node: exp.Expr) -> Scalar:
        """``scalar`` with grouping expressions replaced by their variables."""
        replaced = self._replace(scalar)
        self._check([var.name for var in variables(replaced)], node)
        return replaced  # type: ignore[no-any-return]

    def over_nested(self, nested: Sequence[Nested], node: exp.Expr) -> list[Nested]:
        """Nested queries that read group variables where they read grouping expressions."""
        changed = [self._replace(query) for query in nested]
        for query in changed:
            self._check(free_variables(Apply(Unit(), (query,))), node)
        return changed

    def _replace(self, node: Any) -> Any:
        if isinstance(node, Var | Call) and node in self.groups:
            return self.groups[node]
        return node if isinstance(node, Const) else rebuild(node, self._replace)

    def _check(self, read: Sequence[str] | Mapping[str, Var], node: exp.Expr) -> None:
        allowed = {var.name for var in self.groups.values() if isinstance(var, Var)} | self.aggregates
        for name in read:
            if name in self.scope.variables() and name not in allowed:
                raise invalid(node, f"column {name!r} is neither in GROUP BY nor inside an aggregate")


def order_by(query: exp.Expr, items: Sequence[Item], clause: Clause) -> list[tuple[Scalar, exp.Ordered]]:
    """The ORDER BY expressions; a name is first of all that of a result column."""
    order = query.args.get("order")
    keys: list[tuple[Scalar, exp.Ordered]] = []
    for node in order.expressions if order else ():
        if isinstance(node.this, exp.Var):
            raise unsupported(node, "ORDER BY ALL", "list the columns")
        position = _position(node.this, items)
        named = [item.scalar for item in items if _names(node.this, item)]
        if position is not None:
            keys.append((position.scalar, node))
        else:
            keys.append((named[0] if named else clause.scalar(node.this), node))
    return keys


def _names(node: exp.Expr, item: Item) -> bool:
    return isinstance(node, exp.Column) and not node.table and node.name.lower() == item.name


def sort_key(scalar: Scalar, node: exp.Ordered) -> SortKey:
    """The sort key of an ORDER BY item over the variable that holds its value."""
    return SortKey(scalar, bool(node.args.get("desc")), bool(node.args.get("nulls_first")))


def _projected(
    plan: Plan,
    items: Sequence[Item],
    keys: Sequence[tuple[Scalar, exp.Ordered]],
    select: exp.Select,
    context: Context,
) -> Body:
    """SELECT, DISTINCT and the sort keys; keys that are no column of the result are carried along."""
    defined: dict[Scalar, Var] = {}
    for item in items:
        if item.scalar not in defined:
            scalar = item.scalar
            defined[scalar] = scalar if isinstance(scalar, Var) else context.define(item.name, scalar)
    columns = tuple((item.name, defined[item.scalar]) for item in items)
    distinct = select.args.get("distinct")
    if distinct is not None and distinct.args.get("on"):
        raise unsupported(select, "DISTINCT ON", "use GROUP BY with min or max")
    shown = {var.name for var in defined.values()}
    sort_keys = []
    for scalar, node in keys:
        over = _over_result(scalar, defined)
        if isinstance(over, Const):
            continue
        if not {var.name for var in variables(over)} <= shown:
            if distinct is not None:
                raise invalid(node, "with DISTINCT, ORDER BY may only name columns of the result")
            if scalar not in defined:
                defined[scalar] = scalar if isinstance(scalar, Var) else context.define("sort", scalar)
            over = defined[scalar]
        sort_keys.append(sort_key(over, node))
    plan = Project(plan, tuple((var, scalar) for scalar, var in defined.items()))
    return Body(Distinct(plan) if distinct is not None else plan, columns, tuple(sort_keys))


def _over_result(scalar: Scalar, defined: Mapping[Scalar, Var]) -> Scalar:
    """A scalar that reads columns of the result in place of what they are defined by."""
    if scalar in defined:
        return defined[scalar]
    if not isinstance(scalar, Call):
        return scalar
    return rebuild(scalar, lambda part: _over_result(part, defined))
