"""CREATE TABLE: sqlglot's tree to a table."""

from __future__ import annotations

from sqlglot import exp

from viewlet.core.types import Column
from viewlet.sql.catalog import ForeignKey, Table, TableKind
from viewlet.sql.position import invalid, unsupported
from viewlet.sql.typing import TypeMismatchError, type_of


def table_of(schema: exp.Schema, kind: TableKind) -> Table:
    """The table that a CREATE statement describes."""
    name = table_name(schema.this)
    columns: list[Column] = []
    key: list[tuple[str, ...]] = []
    references: list[ForeignKey] = []
    for item in schema.expressions:
        match item:
            case exp.ColumnDef():
                columns.append(_column(item, key, references))
            case exp.PrimaryKey():
                key.append(tuple(part.name.lower() for part in item.expressions))
            case exp.ForeignKey():
                own = tuple(part.name.lower() for part in item.expressions)
                references.append(_foreign_key(own, item.args["reference"]))
            case exp.Identifier():
                raise invalid(item, f"column {item.name!r} has no type")
            case _:
                what = type(item).__name__
                raise unsupported(item, f"{what} in CREATE TABLE", "there are PRIMARY KEY and FOREIGN KEY")
    return _checked(schema, name, columns, kind, key, references)


def _checked(
    schema: exp.Schema,
    name: str,
    columns: list[Column],
    kind: TableKind,
    keys: list[tuple[str, ...]],
    references: list[ForeignKey],
) -> Table:
    """The table, after checking that its columns are distinct and its keys name them."""
    names = [column.name for column in columns]
    if repeated := sorted({column for column in names if names.count(column) > 1}):
        raise invalid(schema, f"table {name!r} has column {repeated[0]!r} twice")
    if len(keys) > 1:
        raise invalid(schema, f"table {name!r} has two primary keys")
    key = keys[0] if keys else ()
    for column in (*key, *(column for reference in references for column in reference.columns)):
        if column not in names:
            raise invalid(
                schema, f"table {name!r} has no column {column!r} for a key; it has {', '.join(names)}"
            )
    not_null = tuple(Column(c.name, c.type, c.nullable and c.name not in key) for c in columns)
    return Table(name, not_null, kind, key, tuple(references))


def _column(item: exp.ColumnDef, key: list[tuple[str, ...]], references: list[ForeignKey]) -> Column:
    """A column; keys written beside it are added to the lists."""
    name, nullable = item.name.lower(), True
    if item.kind is None:
        raise invalid(item, f"column {name!r} has no type")
    for constraint in item.args.get("constraints") or ():
        match constraint.kind:
            case exp.NotNullColumnConstraint():
                nullable = bool(constraint.kind.args.get("allow_null"))
            case exp.PrimaryKeyColumnConstraint():
                key.append((name,))
            case exp.Reference():
                references.append(_foreign_key((name,), constraint.kind))
            case exp.CommentColumnConstraint():
                continue
            case other:
                raise unsupported(
                    item, f"the constraint {other.sql()}", "there are NOT NULL, PRIMARY KEY, REFERENCES"
                )
    try:
        return Column(name, type_of(item.kind), nullable)
    except TypeMismatchError as error:
        raise invalid(item, f"column {name!r}: {error}") from None


def _foreign_key(columns: tuple[str, ...], reference: exp.Reference) -> ForeignKey:
    """REFERENCES target [(columns)] [ON DELETE RESTRICT]; without columns the target's are named alike."""
    target, theirs = reference.this, columns
    if isinstance(target, exp.Schema):
        target, theirs = target.this, tuple(part.name.lower() for part in target.expressions)
    return ForeignKey(columns, table_name(target), theirs, _is_enforced(reference))


def _is_enforced(reference: exp.Reference) -> bool:
    """ON DELETE RESTRICT or ON UPDATE RESTRICT: no row that is referred to goes or changes."""
    options = [str(option).upper() for option in reference.args.get("options") or ()]
    for option in options:
        if option not in ("ON DELETE RESTRICT", "ON UPDATE RESTRICT", "NOT ENFORCED"):
            raise unsupported(
                reference, f"{option} of a foreign key", "there are ON DELETE RESTRICT and NOT ENFORCED"
            )
    return any(option.endswith("RESTRICT") for option in options)


def table_name(node: exp.Expr) -> str:
    """The name of a table, which has no qualifier."""
    if node.args.get("db"):
        raise unsupported(node, f"the qualified table name {node.sql()!r}", "tables have simple names")
    return node.name.lower()
