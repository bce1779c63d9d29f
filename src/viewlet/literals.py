"""The rows that INSERT and DELETE statements speak of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlglot import exp

from viewlet.backends.base import Bag, Row
from viewlet.core.functions import evaluate
from viewlet.core.scalar import Const, call
from viewlet.core.types import Schema
from viewlet.errors import CatalogError, DataError
from viewlet.plan.evaluate import evaluate_query
from viewlet.sql import compile_query
from viewlet.sql.catalog import Catalog
from viewlet.sql.parse import Delete, Insert
from viewlet.values import to_python


def rows_of_insert(statement: Insert, catalog: Catalog, dialect: str) -> list[dict[str, Any]]:
    """The rows that an INSERT gives, by column; columns that it does not name are NULL.

    >>> from viewlet.sql.parse import parse
    >>> from viewlet.sql.catalog import Table
    >>> from viewlet.core.types import BIGINT, DOUBLE, Column
    >>> r = Catalog([Table("r", (Column("a", BIGINT), Column("b", DOUBLE)))])
    >>> (insert,) = parse("INSERT INTO r (b) VALUES (1 + 0.5)")
    >>> rows_of_insert(insert, r, "spark")
    [{'a': None, 'b': 1.5}]
    """
    table = catalog[statement.table]
    given = statement.columns or table.column_names
    for name in given:
        if name not in table.column_names:
            known = ", ".join(map(str, table.columns))
            raise CatalogError(f"table {table.name!r} has no column {name!r}; its columns: {known}")
    columns = tuple(next(c for c in table.columns if c.name == name) for name in given)
    rows = []
    for number, literals in enumerate(statement.rows):
        if len(literals) != len(columns):
            width = f"{len(literals)} values for {len(columns)} columns"
            raise DataError(f"INSERT INTO {table.name}, row {number}: {width}")
        (row,) = to_python([_values(literals, columns, catalog, dialect)], columns)
        rows.append(dict.fromkeys(table.column_names) | dict(zip(given, row, strict=True)))
    return rows


def _values(literals: Sequence[exp.Expr], columns: Schema, catalog: Catalog, dialect: str) -> Row:
    """Expressions without columns, cast to the types of the columns that they are for."""
    named = [exp.alias_(literal, column.name) for literal, column in zip(literals, columns, strict=True)]
    query = compile_query(exp.select(*named), catalog, dialect)
    (row,) = evaluate_query(query, {}, catalog)
    kinds = [var.type for _, var in query.columns]
    return tuple(
        evaluate(call("cast", Const(value, kind), type=column.type), {})
        for value, kind, column in zip(row, kinds, columns, strict=True)
    )


def rows_of_delete(statement: Delete, present: Bag, catalog: Catalog, dialect: str) -> Bag:
    """Those of the present rows that a DELETE chooses."""
    table = catalog[statement.table]
    select = exp.select("*").from_(table.name)
    if statement.where is not None:
        select = select.where(statement.where)
    return evaluate_query(compile_query(select, catalog, dialect), {table.name: present}, catalog)
