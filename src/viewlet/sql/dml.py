"""INSERT, UPDATE, DELETE, TRUNCATE and MERGE: sqlglot's trees to statements.

What a tree says beside what is read here (RETURNING, USING, a conflict clause) is refused, never passed over.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from viewlet.sql.ddl import table_name
from viewlet.sql.position import invalid, unsupported
from viewlet.sql.statements import (
    Assignment,
    Delete,
    DeleteRow,
    Insert,
    InsertQuery,
    InsertRow,
    Match,
    Merge,
    Update,
    UpdateRow,
    When,
)


def insert_of(node: exp.Insert) -> Insert | InsertQuery:
    """INSERT INTO table [(columns)] VALUES ... | query, or INSERT INTO table BY NAME query."""
    _refuse_rest(node, ("this", "expression", "source", "with_", "by_name", "is_function"), INSERTS)
    target, given = node.this, node.expression
    schema = target if isinstance(target, exp.Schema) else None
    columns = tuple(part.name.lower() for part in schema.expressions) if schema else ()
    name = table_name(schema.this if schema else target)
    match given:
        case exp.Values() if not node.args.get("with_"):
            rows = tuple(
                tuple(row.expressions if isinstance(row, exp.Tuple) else [row]) for row in given.expressions
            )
            return Insert(name, columns, rows)
        case exp.Query():
            query = given
        case _ if isinstance(node.args.get("source"), exp.Table):
            query = exp.select("*").from_(node.args["source"])
        case _:
            raise unsupported(node, "INSERT of anything but VALUES and a query", INSERTS)
    if node.args.get("with_"):
        if query.args.get("with_"):
            raise unsupported(node, "a second WITH", "write one WITH, before SELECT")
        query = query.copy()
        query.set("with_", node.args["with_"].copy())
    return InsertQuery(name, columns, query, bool(node.args.get("by_name")))


def update_of(node: exp.Update) -> Update:
    """UPDATE table [AS alias] SET column = expression, ... [WHERE condition]."""
    if node.args.get("from_"):
        raise unsupported(node, "UPDATE ... FROM", "use MERGE INTO, or a subquery behind SET")
    _refuse_rest(node, ("this", "expressions", "where"), "there are SET and WHERE")
    name, alias = _target(node.this)
    return Update(name, alias, assignments_of(node.expressions), _where(node))


def delete_of(node: exp.Delete) -> Delete:
    """DELETE FROM table [AS alias] [WHERE condition]."""
    _refuse_rest(node, ("this", "where"), "there is WHERE, which may have subqueries")
    name, alias = _target(node.this)
    return Delete(name, alias, _where(node))


def truncate_of(node: exp.TruncateTable) -> Delete:
    """TRUNCATE TABLE t is DELETE FROM t."""
    _refuse_rest(node, ("expressions",), "there is TRUNCATE TABLE name")
    if len(node.expressions) != 1:
        raise unsupported(node, "TRUNCATE of several tables", "truncate one after the other")
    name, _ = _target(node.expressions[0])
    return Delete(name, name, None)


def merge_of(node: exp.Merge) -> Merge:
    """MERGE INTO table [AS alias] USING source ON condition WHEN ... THEN ..."""
    _refuse_rest(node, ("this", "using", "on", "whens", "using_cond"), "there are USING, ON and WHEN")
    name, alias = _target(node.this)
    source, on = node.args["using"], node.args.get("on") or None
    if not isinstance(source, exp.Table | exp.Subquery | exp.Values) or not source.alias_or_name:
        raise unsupported(node, "this source of MERGE", "name a table or view, or a subquery with an alias")
    if on is None:
        raise invalid(node, "MERGE needs ON with a condition")
    clauses = tuple(_when(clause) for clause in node.args["whens"].expressions)
    for place, clause in enumerate(clauses):
        if any(other.match is clause.match and other.condition is None for other in clauses[:place]):
            kind = clause.match.value
            raise invalid(node, f"only the last WHEN {kind} may go without a condition: none comes after it")
    return Merge(name, alias, source, on, clauses)


def _when(node: exp.When) -> When:
    """One clause; what may be done depends on which of the two rows there is."""
    if node.args.get("matched"):
        match = Match.MATCHED
    else:
        match = Match.NOT_MATCHED_BY_SOURCE if node.args.get("source") else Match.NOT_MATCHED
    then = node.args["then"]
    action: UpdateRow | DeleteRow | InsertRow
    match then:
        case exp.Update(expressions=[exp.Star()]) if match is Match.MATCHED:
            action = UpdateRow(())
        case exp.Update(expressions=items) if match is not Match.NOT_MATCHED:
            _refuse_rest(then, ("expressions",), "put the condition behind WHEN ... AND")
            action = UpdateRow(assignments_of(items))
        case exp.Var(this="DELETE") if match is not Match.NOT_MATCHED:
            action = DeleteRow()
        case exp.Insert(this=exp.Star()) if match is Match.NOT_MATCHED:
            action = InsertRow((), ())
        case exp.Insert(this=columns, expression=exp.Tuple(expressions=values)) if match is Match.NOT_MATCHED:
            _refuse_rest(then, ("this", "expression"), "put the condition behind WHEN ... AND")
            names = tuple(part.name.lower() for part in columns.expressions) if columns else ()
            action = InsertRow(names, tuple(values))
        case _:
            what = f"{then.sql()[:40]!r} behind WHEN {match.value}"
            choices = "INSERT" if match is Match.NOT_MATCHED else "UPDATE SET and DELETE"
            raise unsupported(node, what, f"there is {choices}")
    return When(match, node.args.get("condition"), action, node)


INSERTS = "there are INSERT INTO table [(columns)] VALUES ..., and the same with a query"


def assignments_of(nodes: Sequence[exp.Expr]) -> tuple[Assignment, ...]:
    """The items of SET, each with the column that it assigns to."""
    items: list[Assignment] = []
    for node in nodes:
        if not isinstance(node, exp.EQ) or not isinstance(node.this, exp.Column):
            raise unsupported(node, f"{node.sql()[:60]!r} behind SET", "write column = expression, ...")
        name = node.this.name.lower()
        if any(item.column == name for item in items):
            raise invalid(node, f"column {name!r} is assigned to twice")
        items.append(Assignment(name, node.expression, node.this))
    return tuple(items)


def _target(node: exp.Expr) -> tuple[str, str]:
    """The table that changes, and the name that its rows have in the statement."""
    if not isinstance(node, exp.Table) or node.args.get("joins"):
        raise unsupported(node, f"{node.sql()[:60]!r} as the table to change", "name one table")
    name = table_name(node)
    return name, node.alias.lower() or name


def _where(node: exp.Expr) -> exp.Expr | None:
    where = node.args.get("where")
    return where.this if where else None


def _refuse_rest(node: exp.Expr, known: Sequence[str], instead: str) -> None:
    for part, value in node.args.items():
        if value and part not in known:
            word = part.strip("_").replace("_", " ").upper()
            raise unsupported(node, f"{word} in {node.key.upper()}", instead)
