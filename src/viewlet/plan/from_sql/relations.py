"""FROM: tables, derived tables and joins to plans, and the names they bring into scope."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from viewlet.core.scalar import TRUE, Scalar, Var, call
from viewlet.core.types import BOOLEAN
from viewlet.errors import choices
from viewlet.plan.from_sql.clauses import Clause, applied, common_type, filtered
from viewlet.plan.from_sql.context import Body, Context
from viewlet.plan.from_sql.pivots import grouped_of
from viewlet.plan.nodes import (
    Apply,
    ExistsQuery,
    Filter,
    Join,
    JoinKind,
    Nested,
    Plan,
    Project,
    Scan,
    SetOperation,
    Unit,
)
from viewlet.plan.scope import free_variables, outputs
from viewlet.sql import scalars
from viewlet.sql.position import invalid, unsupported
from viewlet.sql.scope import Scope, Source, padded


@dataclass(frozen=True, slots=True)
class Relation:
    """A FROM item: its plan, and its names."""

    plan: Plan
    sources: tuple[Source, ...] = ()
    merged: tuple[tuple[str, Scalar], ...] = ()

    def scope(self, outer: Scope | None) -> Scope:
        """The names of the relation, inside those of the query around it."""
        return Scope(self.sources, self.merged, outer)


def from_clause(select: exp.Select, outer: Scope | None, context: Context) -> Relation:
    """The relation of a FROM clause with all its joins; one row without columns if there is none."""
    clause = select.args.get("from_")
    if clause is None:
        return Relation(Unit())
    return _joined(clause.this, select.args.get("joins") or [], outer, context)


def told_apart(relation: Relation, context: Context) -> Relation:
    """The same relation with a variable for each column, also where several are one in a derived table.

    Of ``(SELECT a AS b, a AS c FROM r)`` one column may be in a grouping set where the other is NULL.
    """
    seen: set[Scalar] = set()
    copies: list[tuple[Var, Scalar]] = []

    def own(name: str, scalar: Scalar) -> tuple[str, Scalar]:
        if scalar in seen:
            copies.append((context.define(name, scalar), scalar))
            return name, copies[-1][0]
        seen.add(scalar)
        return name, scalar

    sources = tuple(
        replace(source, columns=tuple(own(*column) for column in source.columns))
        for source in relation.sources
    )
    if not copies:
        return relation
    kept = tuple((var, var) for var in outputs(relation.plan))
    return Relation(Project(relation.plan, (*kept, *copies)), sources, relation.merged)


def _joined(first: exp.Expr, joins: list[exp.Join], outer: Scope | None, context: Context) -> Relation:
    """The items of FROM, joined from left to right.

    In Spark a comma is a cross join like any other, and is parsed as one; in other dialects it binds less
    tightly than JOIN, which matters for outer joins: each comma begins a chain of joins of its own.
    """
    chain = _item(first, Relation(Unit()), outer, context)
    crossed: Relation | None = None
    for join in joins:
        if join.args.get("pivots"):  # the whole of FROM, which the tree does not show
            raise unsupported(join, "PIVOT behind a join", "put the join into a subquery in FROM")
        if _is_comma(join):
            crossed = chain if crossed is None else _cross(crossed, chain)
            chain = _item(join.this, crossed, outer, context)
        else:
            chain = _join(chain, join, outer, context)
    relation = chain if crossed is None else _cross(crossed, chain)
    _refuse_repeated_alias(relation, first)
    return relation


def _is_comma(join: exp.Join) -> bool:
    return not any(join.args.get(part) for part in ("kind", "side", "method", "on", "using"))


def _cross(left: Relation, right: Relation) -> Relation:
    plan = Join("inner", left.plan, right.plan, TRUE)
    return Relation(plan, left.sources + right.sources, left.merged + right.merged)


def _refuse_repeated_alias(relation: Relation, node: exp.Expr) -> None:
    aliases = [source.alias for source in relation.sources if source.alias]
    repeated = sorted({alias for alias in aliases if aliases.count(alias) > 1})
    if repeated:
        raise invalid(
            node, f"the table or alias {repeated[0]!r} stands twice in FROM; give each an alias of its own"
        )


def _item(node: exp.Expr, left: Relation, outer: Scope | None, context: Context) -> Relation:
    """One item of FROM; ``left`` is what a LATERAL item may see."""
    for part, name in REFUSED_PARTS.items():
        if node.args.get(part):
            raise unsupported(node, name, "select from the table itself")
    if node.args.get("pivots"):
        return _pivoted(node, left, outer, context)
    match node:
        case exp.Table(this=exp.Identifier()):
            relation = _table(node, outer, context)
            return _with_own_joins(node, relation, outer, context)
        case exp.Subquery(this=exp.Table() as table):
            return _renamed(_item(table, left, outer, context), node)
        case exp.Values():
            return _renamed(_values(node, outer, context), node)
        case exp.Subquery() | exp.Select():
            relation = _derived(node, outer, context)
            return _with_own_joins(node, relation, outer, context)
        case exp.Lateral(this=exp.Subquery() as query):
            return _renamed(_derived(query, left.scope(outer), context), node)
        case exp.Paren():
            return _item(node.this, left, outer, context)
        case _:
            inner = node.this if isinstance(node, exp.Table | exp.Lateral) else node
            raise unsupported(node, f"{inner.sql()} in FROM", "there are tables, views and subqueries")


REFUSED_PARTS = {
    "sample": "TABLESAMPLE",
    "version": "time travel",
    "when": "time travel",
    "laterals": "LATERAL VIEW",
    "ordinality": "WITH ORDINALITY",
}


def _pivoted(node: exp.Expr, left: Relation, outer: Scope | None, context: Context) -> Relation:
    """``FROM source PIVOT (...)``, read as the grouped query that it is."""
    if not isinstance(node.parent, exp.From):
        raise unsupported(node, "PIVOT behind a join", "put the join into a subquery in FROM")
    plain = node.copy()
    plain.set("pivots", None)
    columns = [name for name, _ in _item(plain, left, outer, context).scope(None).star()]
    body = context.read(grouped_of(node.args["pivots"], columns, plain), outer, context)
    return _renamed(Relation(body.plan, (Source("", body.columns),)), node.args["pivots"][0])


def _with_own_joins(node: exp.Expr, relation: Relation, outer: Scope | None, context: Context) -> Relation:
    """A table in parentheses carries the joins that stand inside them."""
    for join in node.args.get("joins") or ():
        relation = _join(relation, join, outer, context)
    return relation


def _table(node: exp.Table, outer: Scope | None, context: Context) -> Relation:
    """A table, a view, or a WITH item."""
    name = node.name.lower()
    if node.args.get("db"):
        raise unsupported(node, f"the qualified table name {node.sql()!r}", "tables have simple names")
    if name in context.common:
        item = context.common[name]
        body = context.read_common(node, item)
        columns = _rename(body.columns, item.columns, node)
        return _renamed(Relation(_unlimited(body, node).plan, (Source(name, columns),)), node)
    if name not in context.catalog:
        known = choices(name, sorted({*context.catalog, *context.common}), "existing:")
        raise invalid(node, f"there is no table or view {name!r}", known)
    table = context.catalog[name]
    wanted = context.mentioned if not _column_aliases(node) else None
    kept = [column for column in table.columns if wanted is None or column.name in wanted]
    binds = tuple((c.name, context.fresh(c.name, c.type, c.nullable)) for c in kept)
    others = tuple(column.name for column in table.columns if column not in kept)
    return _renamed(Relation(Scan(table.name, binds), (Source(name, binds, others),)), node)


def _derived(node: exp.Expr, outer: Scope | None, context: Context) -> Relation:
    """A query in FROM."""
    query = node.this if isinstance(node, exp.Subquery) else node
    if not isinstance(query, exp.Query):
        raise unsupported(node, f"{node.sql()} in FROM", "there are tables, views and subqueries")
    body = _unlimited(context.read(query, outer, context), node)
    return _renamed(Relation(body.plan, (Source("", body.columns),)), node)


def _unlimited(body: Body, node: exp.Expr) -> Body:
    if body.limit is not None or body.offset:
        raise unsupported(
            node,
            "LIMIT or OFFSET in a derived table",
            "create a view of the inner query and select from that",
        )
    return body


def _values(node: exp.Values, outer: Scope | None, context: Context) -> Relation:
    """VALUES (a, b), (c, d): a UNION ALL of one-row queries."""
    clause = Clause("VALUES", context, Scope(outer=outer))
    rows = [
        [clause.scalar(cell) for cell in (row.expressions if isinstance(row, exp.Tuple) else [row])]
        for row in node.expressions
    ]
    if len({len(row) for row in rows}) != 1:
        raise invalid(node, "the rows of VALUES differ in length")
    if clause.nested:
        raise unsupported(node, "a subquery in VALUES", "write a UNION ALL of queries")
    kinds = [
        common_type([cell.type for cell in column], node, "VALUES") for column in zip(*rows, strict=True)
    ]
    names = [f"col{i + 1}" for i in range(len(kinds))]
    plan: Plan | None = None
    for row in rows:
        cells = [scalars.cast(cell, kind) for cell, kind in zip(row, kinds, strict=True)]
        one = Project(Unit(), tuple((context.define(n, c), c) for n, c in zip(names, cells, strict=True)))
        if plan is None:
            plan = one
            continue
        pairs = zip(names, outputs(plan), outputs(one), strict=True)
        columns = tuple(context.fresh(name, a.type, a.nullable or b.nullable) for name, a, b in pairs)
        plan = SetOperation("union_all", plan, one, columns)
    assert plan is not None
    return Relation(plan, (Source("", tuple(zip(names, outputs(plan), strict=True))),))


def _column_aliases(node: exp.Expr) -> tuple[str, ...]:
    alias = node.args.get("alias")
    return tuple(column.name.lower() for column in alias.args.get("columns") or ()) if alias else ()


def _renamed(relation: Relation, node: exp.Expr) -> Relation:
    """The relation under the alias that it has in FROM, if any."""
    alias = node.args.get("alias")
    if not alias:
        return relation
    columns = _rename(relation.scope(None).star(), _column_aliases(node), node)
    others = tuple(name for source in relation.sources for name in source.others)
    return Relation(relation.plan, (Source(alias.name.lower(), columns, others),))


def _rename(
    columns: tuple[tuple[str, Scalar], ...], names: tuple[str, ...], node: exp.Expr
) -> tuple[tuple[str, Scalar], ...]:
    if not names:
        return columns
    if len(names) != len(columns):
        raise invalid(node, f"{len(names)} column names are given for {len(columns)} columns")
    return tuple((name, scalar) for name, (_, scalar) in zip(names, columns, strict=True))


def _join(left: Relation, join: exp.Join, outer: Scope | None, context: Context) -> Relation:
    """One JOIN added to what stands before it."""
    if join.kind not in ("", "INNER", "CROSS", "OUTER", "SEMI", "ANTI") or join.method not in ("", "NATURAL"):
        raise unsupported(
            join, f"{join.method or join.kind} JOIN", "there are inner, outer, semi and anti joins"
        )
    right = _item(join.this, left, outer, context)
    both = Relation(Unit(), left.sources + right.sources, left.merged + right.merged)
    clause = Clause("ON", context, both.scope(outer))
    on = join.args.get("on")
    condition = clause.condition(on) if on else TRUE
    shared = _shared_columns(left, right, join)
    equalities = [
        scalars.compare("=", _column(left, name, join), _column(right, name, join)) for name in shared
    ]
    condition = call("and", condition, *equalities)
    if join.kind in ("SEMI", "ANTI"):
        return _semi_join(left, right, clause, condition, join)
    plan = _join_plan(left.plan, right.plan, clause, condition, join)
    return _scoped(left, right, shared, plan, join)


def _semi_join(
    left: Relation, right: Relation, clause: Clause, condition: Scalar, join: exp.Join
) -> Relation:
    """``A SEMI JOIN B ON c`` is ``A WHERE EXISTS (B WHERE c)``; ANTI is NOT EXISTS."""
    matches = filtered(right.plan, clause, condition)
    found = clause.context.fresh("exists", BOOLEAN, False)
    test: Scalar = found if join.kind == "SEMI" else call("not", found)
    return replace(left, plan=Filter(Apply(left.plan, (ExistsQuery(found, matches),)), test))


def _join_plan(left: Plan, right: Plan, clause: Clause, condition: Scalar, join: exp.Join) -> Plan:
    """The join itself; nested queries of ON are evaluated on the side whose rows they read."""
    if join.side == "RIGHT":
        left, right = right, left
    if not join.side:
        if not clause.nested:
            return Join("inner", left, right, condition)
        return filtered(Join("inner", left, right, TRUE), clause, condition)
    ours, theirs = ({var.name for var in outputs(side)} for side in (left, right))
    for nested in clause.nested:
        reads = free_variables(Apply(Unit(), (nested,))).keys()
        if reads & ours and reads & theirs:
            raise unsupported(
                join, "a subquery in ON that reads both sides of an outer join", "use a derived table"
            )
    on_left = [nested for nested in clause.nested if _reads(nested) & ours]
    on_right = [nested for nested in clause.nested if nested not in on_left]
    kind: JoinKind = "full" if join.side == "FULL" else "left"
    return Join(kind, applied(left, on_left), applied(right, on_right), condition)


def _reads(nested: Nested) -> set[str]:
    return set(free_variables(Apply(Unit(), (nested,))))


def _scoped(left: Relation, right: Relation, shared: tuple[str, ...], plan: Plan, join: exp.Join) -> Relation:
    """The names of a join: the side that is filled up may be NULL, shared columns become one."""
    left_names, right_names = (left.sources, left.merged), (right.sources, right.merged)
    if join.side in ("LEFT", "FULL"):
        right_names = padded(*right_names)
    if join.side in ("RIGHT", "FULL"):
        left_names = padded(*left_names)
    ours, theirs = Relation(plan, *left_names), Relation(plan, *right_names)
    merged = tuple((name, _merge(ours, theirs, name, join)) for name in shared)
    kept = tuple(column for column in (*ours.merged, *theirs.merged) if column[0] not in shared)
    return Relation(plan, ours.sources + theirs.sources, merged + kept)


def _merge(left: Relation, right: Relation, name: str, join: exp.Join) -> Scalar:
    """The one column that USING makes of two: that of the kept side, or of whichever is there if both are."""
    ours, theirs = _column(left, name, join), _column(right, name, join)
    if join.side == "FULL":
        return call("coalesce", *scalars.alike([ours, theirs], "USING"))
    return theirs if join.side == "RIGHT" else ours


def _shared_columns(left: Relation, right: Relation, join: exp.Join) -> tuple[str, ...]:
    """The columns of USING, or those that a NATURAL join finds on both sides."""
    if join.method == "NATURAL":
        theirs = {name for name, _ in right.scope(None).star()}
        return tuple(dict.fromkeys(name for name, _ in left.scope(None).star() if name in theirs))
    return tuple(column.name.lower() for column in join.args.get("using") or ())


def _column(relation: Relation, name: str, join: exp.Join) -> Scalar:
    """A column that USING or NATURAL names, on one side."""
    return relation.scope(None).resolve(_at(exp.column(name), join))


def _at(column: exp.Column, join: exp.Join) -> exp.Column:
    """A column made for USING, with the place of the join for error messages."""
    column.parent = join
    return column
