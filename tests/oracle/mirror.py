"""The oracle: a DuckDB database that holds the same rows and runs the same queries from scratch."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from math import isclose
from typing import Any, TypeAlias

import duckdb
import pyarrow as pa
import sqlglot
from sqlglot import exp

from viewlet.workloads.ddl import arrow_schemas, creates
from viewlet.workloads.stream import Batch, weighted_rows

Row: TypeAlias = tuple[Any, ...]


@dataclass(frozen=True)
class Question:
    """A view's query as DuckDB runs it, without its LIMIT: with ties at the limit several answers are right.

    The last ``added`` columns of the result are not the query's own; ``keys`` are the columns that the rows
    are ordered by, counted from 0, or from -1 for added ones.
    """

    sql: str
    keys: tuple[int, ...] = ()
    added: int = 0
    limit: int | None = None
    offset: int = 0


@dataclass(frozen=True)
class Answer:
    """The rows that a view must hold, and those from which it may choose the remaining ones."""

    width: int
    must: list[Row]
    may: list[Row]
    count: int


def question(sql: str) -> Question:
    """Rewrite a query in Spark's dialect for DuckDB.

    >>> question("SELECT a FROM r ORDER BY b LIMIT 3")
    Question(sql='SELECT a, b FROM r ORDER BY b NULLS FIRST', keys=(-1,), added=1, limit=3, offset=0)
    """
    query = sqlglot.parse_one(sql, read="spark")
    order, limit, offset = (query.args.get(part) for part in ("order", "limit", "offset"))
    if limit is None and offset is None:
        query.set("order", None)
        return Question(query.sql("duckdb"))
    query.set("limit", None)
    query.set("offset", None)
    keys, added = [], []
    for item in order.expressions if order else ():
        position = _position(item.this, query)
        if position is None:
            added.append(item.this.copy())
        keys.append(position if position is not None else -len(added))
    # Added columns stand in reverse, so that the first of them is -1 whatever comes later.
    for expression in reversed(added):
        query.select(expression, copy=False)
    return Question(
        query.sql("duckdb"),
        tuple(keys),
        len(added),
        int(limit.expression.name) if limit else None,
        int(offset.expression.name) if offset else 0,
    )


def _position(key: exp.Expression, query: exp.Query) -> int | None:
    """Which output column an ORDER BY item is: by number, by alias, or because the expressions are equal."""
    if isinstance(key, exp.Literal):
        return int(key.name) - 1
    if isinstance(key, exp.Column) and not key.table and key.name in query.named_selects:
        return query.named_selects.index(key.name)
    return next((i for i, column in enumerate(query.selects) if column.unalias() == key), None)


class Mirror:
    """Keeps the rows of every table in DuckDB, by number, so that one copy of a row can be deleted."""

    def __init__(self, ddl: str) -> None:
        self.connection = duckdb.connect(config={"threads": 1})
        self.schemas: dict[str, pa.Schema] = {}
        self._numbers: dict[str, dict[Row, list[int]]] = {}
        self._next = 0
        self.create(ddl)

    def create(self, ddl: str) -> None:
        """Create the tables of some CREATE TABLE statements."""
        self.schemas |= arrow_schemas(ddl)
        for statement in creates(ddl):
            self._create(statement)

    def _create(self, statement: exp.Create) -> None:
        """A table ``t_rows`` with a number per row, and a view ``t`` that hides the number."""
        name = statement.this.this.name.lower()
        columns = [
            f"{column.name} {_without_zone(column.args['kind']).sql('duckdb')}"
            for column in statement.find_all(exp.ColumnDef)
        ]
        names = ", ".join(self.schemas[name].names)
        self._numbers[name] = defaultdict(list)
        self.connection.execute(f"CREATE TABLE {name}_rows (_number BIGINT, {', '.join(columns)})")
        self.connection.execute(f"CREATE VIEW {name} AS SELECT {names} FROM {name}_rows")

    def apply(self, batch: Batch) -> None:
        """Insert rows with a positive weight that many times, delete as many copies for a negative one."""
        for table, changes in batch.items():
            schema = self.schemas[table]
            ordered = changes.select([*schema.names, "_weight"])
            inserted: dict[int, Row] = {}
            deleted: list[int] = []
            for row, weight in weighted_rows(ordered):
                numbers = self._numbers[table][row]
                for _ in range(weight):
                    inserted[self._next] = row
                    numbers.append(self._next)
                    self._next += 1
                for _ in range(-weight):
                    assert numbers, f"the stream deletes from {table} a row that is not there: {row}"
                    number = numbers.pop()
                    if inserted.pop(number, None) is None:
                        deleted.append(number)
            self._insert(table, inserted)
            if deleted:
                self.connection.execute(
                    f"DELETE FROM {table}_rows WHERE _number IN (SELECT unnest(?))", [deleted]
                )

    def _insert(self, table: str, inserted: Mapping[int, Row]) -> None:
        if not inserted:
            return
        schema = self.schemas[table]
        if len(inserted) == 1:
            ((number, row),) = inserted.items()
            marks = ", ".join("?" * (len(schema) + 1))
            self.connection.execute(f"INSERT INTO {table}_rows VALUES ({marks})", [number, *row])
            return
        columns = zip(*inserted.values(), strict=True)
        arrays = [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)]
        rows = pa.table([pa.array(list(inserted), pa.int64()), *arrays], names=["_number", *schema.names])
        self.connection.register("_inserted", rows)
        self.connection.execute(f"INSERT INTO {table}_rows SELECT * FROM _inserted")
        self.connection.unregister("_inserted")

    def rows(self, table: str) -> list[Row]:
        """The present rows of a table."""
        return [row for row, numbers in self._numbers[table].items() for _ in numbers]

    def answer(self, question: Question) -> Answer:
        """Run a query from scratch."""
        cursor = self.connection.execute(question.sql)
        rows = cursor.fetchall()
        width = len(cursor.description) - question.added
        own = [row[:width] for row in rows]
        first = min(question.offset, len(rows))
        last = len(rows) if question.limit is None else min(first + question.limit, len(rows))
        if last - first in (0, len(rows)):
            return Answer(width, own[first:last], [], last - first)
        keys = [tuple(row[i] for i in question.keys) for row in rows]
        edges = [
            keys[edge] for edge, beyond in ((first, first - 1), (last - 1, last)) if 0 <= beyond < len(rows)
        ]
        tied = [any(_same_place(key, edge) for edge in edges) for key in keys]
        return Answer(
            width,
            [own[i] for i in range(first, last) if not tied[i]],
            [row for row, tie in zip(own, tied, strict=True) if tie],
            last - first,
        )


def _without_zone(kind: exp.DataType) -> exp.DataType:
    """Spark's TIMESTAMP is one with a time zone to sqlglot; ours has none."""
    return exp.DataType.build("TIMESTAMP", dialect="duckdb") if kind.this.value == "TIMESTAMPTZ" else kind


def _same_place(left: Row, right: Row) -> bool:
    """Equal, or so near that rounding decides which comes first."""
    return all(
        a == b or (isinstance(a, float) and isinstance(b, float) and isclose(a, b, rel_tol=1e-6))
        for a, b in zip(left, right, strict=True)
    )
