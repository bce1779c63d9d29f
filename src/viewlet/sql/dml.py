"""INSERT, UPDATE and DELETE: sqlglot's trees to statements.

What a tree says beside what is read here (RETURNING, USING, a conflict clause) is refused, never passed over.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from viewlet.sql.ddl import table_name
from viewlet.sql.position import invalid, unsupported
from viewlet.sql.statements import Assignment, Delete, Insert, InsertQuery, Update


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
