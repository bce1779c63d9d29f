"""The changes that INSERT, UPDATE and DELETE come down to.

A statement becomes a query over the rows as they are, which ``plan/evaluate.py`` answers: whatever the query
of a view may say, a statement may say too, with the same meaning. All rows are read before any changes, so no
row is changed twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, assert_never

from sqlglot import exp

from viewlet.backends.base import Bag, Change, Row
from viewlet.core.functions import compile_scalar
from viewlet.core.scalar import Const, Var
from viewlet.core.types import NULL, Column, Schema, Type
from viewlet.errors import CatalogError, DataError, SqlError, ValueRangeError
from viewlet.plan.evaluate import consolidate, evaluate_query, ordered_rows
from viewlet.plan.from_sql import resolve_by_place
from viewlet.plan.nodes import Query
from viewlet.plan.pipeline import optimize
from viewlet.plan.scope import tables_of
from viewlet.sql import scalars
from viewlet.sql.catalog import Catalog, Table
from viewlet.sql.parse import DataChange, Delete, Insert, InsertQuery, Update
from viewlet.sql.position import invalid, unsupported
from viewlet.sql.statements import Assignment
from viewlet.sql.typing import TypeMismatchError


@dataclass(frozen=True, slots=True)
class Present:
    """What a statement finds: the tables and views there are, and ``rows`` of them by name."""

    catalog: Catalog
    rows: Callable[[str], Bag]

    def answer(self, query: exp.Query) -> tuple[Query, Bag]:
        """The result of a query over what is there."""
        resolved = optimize(resolve_by_place(query, self.catalog))
        contents = {name: self.rows(name) for name in tables_of(resolved.plan)}
        return resolved, evaluate_query(resolved, contents, self.catalog)


class Version(int):
    """The version of a commit that a statement made; ``rows`` is how many it inserted, or chose to change.

    >>> Version(7, rows=2), Version(7, rows=2).rows
    (7, 2)
    """

    rows: int

    def __new__(cls, version: int, rows: int) -> Version:
        """A version like any other, which knows that number."""
        made = super().__new__(cls, version)
        made.rows = rows
        return made


@dataclass(frozen=True, slots=True)
class Changed:
    """The net changes of a table, and how many of its rows a statement chose."""

    changes: list[Change]
    rows: int


def changes_of(statement: DataChange, present: Present) -> Changed:
    """The changes of the statement's table.

    >>> from viewlet.sql.parse import parse
    >>> from viewlet.core.types import BIGINT, DOUBLE
    >>> r = Catalog([Table("r", (Column("a", BIGINT), Column("b", DOUBLE)))])
    >>> present = Present(r, {"r": {(1, None): 2}}.__getitem__)
    >>> texts = "INSERT INTO r (b) VALUES (1 + 0.5); UPDATE r SET b = a + 1; DELETE FROM r WHERE a > 1"
    >>> for statement in parse(texts):
    ...     print(changes_of(statement, present).changes)
    [Change(row=(None, 1.5), weight=1)]
    [Change(row=(1, None), weight=-2), Change(row=(1, 2.0), weight=2)]
    []
    """
    table = present.catalog[statement.table]
    match statement:
        case Insert():
            return _inserted(_literal_rows(statement, table, present))
        case InsertQuery():
            return _inserted(_query_rows(statement, table, present))
        case Update():
            return _changed(_updates(statement, table, present))
        case Delete():
            return _changed((row, None, n) for row, n in _chosen(statement, table, present))
        case _:
            assert_never(statement)


def _inserted(rows: Sequence[Row]) -> Changed:
    """Rows in the order in which they come."""
    return Changed([Change(row, 1) for row in rows], len(rows))


def _changed(chosen: Iterable[tuple[Row, Row | None, int]]) -> Changed:
    """Chosen rows, each with what becomes of it, and with its number of copies."""
    pairs: list[tuple[Row, int]] = []
    rows = 0
    for old, new, copies in chosen:
        rows += copies
        pairs.append((old, -copies))
        if new is not None:
            pairs.append((new, copies))
    return Changed([Change(row, weight) for row, weight in consolidate(pairs).items()], rows)


# INSERT.


def _literal_rows(statement: Insert, table: Table, present: Present) -> list[Row]:
    given = filled_columns(table, statement.columns)
    rows = []
    for number, literals in enumerate(statement.rows):
        if len(literals) != len(given):
            width = f"{len(literals)} values for {len(given)} columns"
            raise DataError(f"INSERT INTO {table.name}, row {number}: {width}")
        query, bag = present.answer(exp.select(*literals))
        (row,) = bag
        fill = filler(table, given, kinds_of(query))
        rows.append(checked(fill(row), table, f", row {number}"))
    return rows


def _query_rows(statement: InsertQuery, table: Table, present: Present) -> list[Row]:
    """In the query's own order: of rows with one key, that decides which the table's rule keeps."""
    query, bag = present.answer(statement.query)
    names = tuple(name for name, _ in query.columns) if statement.by_name else statement.columns
    given = filled_columns(table, names)
    if len(query.columns) != len(given):
        width = f"{len(query.columns)} columns for {len(given)}"
        raise invalid(statement.query, f"INSERT INTO {table.name}: the query gives {width}")
    fill = filler(table, given, kinds_of(query))
    return [checked(fill(row), table) for row in ordered_rows(query, bag)]


def filled_columns(table: Table, names: Sequence[str]) -> Schema:
    """The columns of a table that an INSERT names: each once, or all of them."""
    known = {column.name: column for column in table.columns}
    for place, name in enumerate(names):
        column_named(table, name)
        if name in names[:place]:
            raise CatalogError(f"INSERT INTO {table.name}: the column {name!r} is named twice")
    return tuple(known[name] for name in names) or table.columns


def filler(table: Table, given: Schema, kinds: Sequence[Type]) -> Callable[[Row], Row]:
    """Rows of the table from rows of values for some of its columns; the others are NULL."""
    convert = [_assignable(slot, *pair, table) for slot, pair in enumerate(zip(kinds, given, strict=True))]
    by_name = dict(zip((column.name for column in given), convert, strict=True))
    functions = [by_name.get(column.name) for column in table.columns]
    return lambda row: tuple([None if of is None else of(row) for of in functions])


def _assignable(slot: int, kind: Type, column: Column, table: Table) -> Callable[[Row], Any]:
    """The value at a place of a row, cast to the type of the column that it is for."""
    where = f"table {table.name!r}, column {column.name!r}"
    try:
        value = scalars.cast(Const(None, NULL) if kind == NULL else Var("value", kind), column.type)
    except TypeMismatchError as error:
        raise SqlError(f"{where}: {error}") from None
    cast = compile_scalar(value, {"value": slot})

    def assigned(row: Row) -> Any:
        try:
            return cast(row)
        except ValueRangeError as reason:
            raise ValueRangeError(f"{where}: {reason}") from None

    return assigned


# UPDATE and DELETE.


def _updates(statement: Update, table: Table, present: Present) -> Iterable[tuple[Row, Row, int]]:
    """Each chosen row, its new values, its number of copies."""
    refuse_over_rows(statement.where, "WHERE of UPDATE")
    check_assignments(table, statement.alias, statement.assignments)
    values = [item.value for item in statement.assignments]
    query, bag = present.answer(_selection(statement, table, values))
    width = len(table.columns)
    renew = renewer(table, statement.assignments, kinds_of(query)[width:])
    for row, n in bag.items():
        yield row[:width], renew(row[:width], row[width:]), n


def _chosen(statement: Delete, table: Table, present: Present) -> Iterable[tuple[Row, int]]:
    refuse_over_rows(statement.where, "WHERE of DELETE")
    _, bag = present.answer(_selection(statement, table, []))
    return bag.items()


def _selection(statement: Update | Delete, table: Table, values: Sequence[exp.Expr]) -> exp.Select:
    """The rows that WHERE chooses, each with further values computed from it."""
    columns = [exp.column(name, table=statement.alias, quoted=True) for name in table.column_names]
    source = table_as(table.name, statement.alias)
    select = exp.select(*columns, *values).from_(source)
    return select if statement.where is None else select.where(statement.where)


def check_assignments(table: Table, alias: str, assignments: Sequence[Assignment]) -> None:
    """Refuse SET of other columns than the table's, or to what a single row does not tell."""
    for item in assignments:
        if item.target.table.lower() not in ("", alias):
            raise invalid(item.target, f"SET changes {alias!r}, not {item.target.table!r}")
        column_named(table, item.column)
        refuse_over_rows(item.value, "SET")


def renewer(
    table: Table, assignments: Sequence[Assignment], kinds: Sequence[Type]
) -> Callable[[Row, Row], Row]:
    """A row of the table with the values of SET in place of its own."""
    columns = [column_named(table, item.column) for item in assignments]
    slots = [table.columns.index(column) for column in columns]
    functions = [_assignable(i, *pair, table) for i, pair in enumerate(zip(kinds, columns, strict=True))]

    def renewed(old: Row, values: Row) -> Row:
        row = list(old)
        for slot, of in zip(slots, functions, strict=True):
            row[slot] = of(values)
        return checked(tuple(row), table)

    return renewed


# What they share.


def column_named(table: Table, name: str) -> Column:
    """A column of a table; refused together with the columns there are."""
    for column in table.columns:
        if column.name == name:
            return column
    known = ", ".join(map(str, table.columns))
    raise CatalogError(f"table {table.name!r} has no column {name!r}; its columns: {known}")


def checked(row: Row, table: Table, where: str = "") -> Row:
    """The row, without NULL where a column may not have it."""
    for value, column in zip(row, table.columns, strict=True):
        if value is None and not column.nullable:
            raise DataError(f"table {table.name!r}, column {column.name!r}{where}: NULL in a NOT NULL column")
    return row


def table_as(name: str, alias: str) -> exp.Table:
    """A table in FROM under an alias."""
    return exp.Table(
        this=exp.to_identifier(name, quoted=True),
        alias=exp.TableAlias(this=exp.to_identifier(alias, quoted=True)),
    )


def kinds_of(query: Query) -> list[Type]:
    """The types of a result's columns."""
    return [var.type for _, var in query.columns]


def refuse_over_rows(node: exp.Expr | None, where: str) -> None:
    """Refuse what a single row does not tell: aggregates and window functions, outside of subqueries."""
    for part in () if node is None else node.find_all(exp.AggFunc, exp.Window):
        if part.find_ancestor(exp.Query) is None:
            raise unsupported(part, f"{part.sql()[:60]} in {where}", "write a subquery: (SELECT ...)")
