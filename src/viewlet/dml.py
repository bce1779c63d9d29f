"""The changes that INSERT, UPDATE, DELETE and MERGE come down to.

A statement becomes a query over the rows as they are, which ``plan/evaluate.py`` answers: whatever the query
of a view may say, a statement may say too, with the same meaning. All rows are read before any changes, so no
row is changed twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import assert_never

from sqlglot import exp

from viewlet.assigned import (
    Changed,
    Present,
    changed,
    check_assignments,
    checked,
    filled_columns,
    filler,
    kinds_of,
    refuse_over_rows,
    renewer,
    table_as,
)
from viewlet.backends.base import Change, Row
from viewlet.errors import DataError
from viewlet.merge import merged
from viewlet.plan.bags import ordered_rows
from viewlet.sql.catalog import Table
from viewlet.sql.parse import DataChange, Delete, Insert, InsertQuery, Merge, Update
from viewlet.sql.position import invalid


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


def changes_of(statement: DataChange, present: Present) -> Changed:
    """The changes of the statement's table.

    >>> from viewlet.sql.parse import parse
    >>> from viewlet.core.types import BIGINT, DOUBLE, Column
    >>> from viewlet.sql.catalog import Catalog
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
            return changed(_updates(statement, table, present))
        case Delete():
            return changed((row, None, n) for row, n in _chosen(statement, table, present))
        case Merge():
            return changed(merged(statement, table, present))
        case _:
            assert_never(statement)


def _inserted(rows: Sequence[Row]) -> Changed:
    """Rows in the order in which they come."""
    return Changed([Change(row, 1) for row in rows], len(rows))


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
