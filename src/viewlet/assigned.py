"""What statements that change rows have in common: what they find, and what becomes of a row."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from viewlet.backends.base import Bag, Change, Row
from viewlet.core.functions import compile_scalar
from viewlet.core.scalar import Const, Var
from viewlet.core.types import NULL, Column, Schema, Type
from viewlet.errors import CatalogError, DataError, SqlError, ValueRangeError
from viewlet.plan.asked_keys import asked_keys
from viewlet.plan.bags import consolidate
from viewlet.plan.evaluate import evaluate_query
from viewlet.plan.from_sql import resolve_by_place
from viewlet.plan.nodes import Plan, Query
from viewlet.plan.pipeline import optimize
from viewlet.plan.scope import tables_of
from viewlet.sql import scalars
from viewlet.sql.catalog import Catalog, Table
from viewlet.sql.position import invalid, unsupported
from viewlet.sql.statements import Assignment
from viewlet.sql.typing import TypeMismatchError


@dataclass(frozen=True, slots=True)
class Present:
    """What a statement finds: the tables and views there are, and ``rows`` of them by name.

    ``having`` gives those rows of a table that have one of some primary keys, where they can be looked up.
    """

    catalog: Catalog
    rows: Callable[[str], Bag]
    having: Callable[[str, Sequence[Row]], Bag] | None = None

    def answer(self, query: exp.Query) -> tuple[Query, Bag]:
        """The result of a query over what is there."""
        resolved = optimize(resolve_by_place(query, self.catalog))
        contents = {name: self._needed(name, resolved.plan) for name in tables_of(resolved.plan)}
        return resolved, evaluate_query(resolved, contents, self.catalog)

    def _needed(self, name: str, plan: Plan) -> Bag:
        keys = None if self.having is None else asked_keys(plan, self.catalog[name])
        return self.rows(name) if self.having is None or keys is None else self.having(name, keys)


@dataclass(frozen=True, slots=True)
class Changed:
    """The net changes of a table, and how many of its rows a statement chose."""

    changes: list[Change]
    rows: int


def changed(chosen: Iterable[tuple[Row | None, Row | None, int]]) -> Changed:
    """Rows, each with what becomes of it and with its number of copies; one of the two may be missing."""
    pairs: list[tuple[Row, int]] = []
    rows = 0
    for old, new, copies in chosen:
        rows += copies
        if old is not None:
            pairs.append((old, -copies))
        if new is not None:
            pairs.append((new, copies))
    return Changed([Change(row, weight) for row, weight in consolidate(pairs).items()], rows)


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
