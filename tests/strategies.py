"""Random tables, contents, changes and queries for property tests.

Domains are small on purpose: values meet, groups collide, sums return to zero, rows repeat. Numbers are
multiples of a quarter, so that every sum is exact in DOUBLE too and no test depends on the order of addition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from oracle.random_sql import Pick, Writer
from viewlet.workloads.ddl import arrow_schemas
from viewlet.workloads.stream import Batch

Row = tuple[Any, ...]

VALUES: dict[str, list[Any]] = {
    "int": [0, 1, 2, -1, 3, -2],
    "dec": [Decimal(n) / 4 for n in (0, 4, 5, -2, 10, -7)],
    "dbl": [0.0, 1.0, 0.5, -1.5, 2.25],
    "str": ["a", "b", "ab", "", "B", "a%b"],
    "date": [date(1995, 3, 15), date(1995, 12, 31), date(1996, 2, 29), date(1996, 3, 1)],
}
SQL_TYPES = {
    "int": ["BIGINT", "INT"],
    "dec": ["DECIMAL(6,2)"],
    "dbl": ["DOUBLE"],
    "str": ["VARCHAR(10)"],
    "date": ["DATE"],
}


OTHERS = [("d", "dec"), ("t", "str"), ("x", "dbl"), ("e", "date")]


@dataclass(frozen=True)
class Column:
    """A column of a random table; ``type`` is a key of ``VALUES``."""

    name: str
    type: str
    sql_type: str
    nullable: bool


@dataclass(frozen=True)
class Table:
    """A random table; the first ``keys`` of its columns are its primary key."""

    name: str
    columns: tuple[Column, ...]
    keys: int = 0

    @property
    def ddl(self) -> str:
        columns = [f"{c.name} {c.sql_type}{'' if c.nullable else ' NOT NULL'}" for c in self.columns]
        key = [f"PRIMARY KEY ({', '.join(c.name for c in self.columns[: self.keys])})"] if self.keys else []
        return f"CREATE TABLE {self.name} ({', '.join(columns + key)});"


@dataclass(frozen=True)
class Change:
    """A row that comes (positive weight) or goes."""

    table: str
    row: Row
    weight: int


@dataclass(frozen=True)
class Case:
    """Tables, a query over them, and what happens to the tables.

    ``lower`` is a view of the name ``lower_view`` that the query reads; without text there is none.
    """

    tables: tuple[Table, ...]
    sql: str
    changes: tuple[Change, ...]
    lower: str = ""

    @property
    def ddl(self) -> str:
        return "\n".join(table.ddl for table in self.tables)

    def batches(self, size: int) -> Iterator[Batch]:
        """The changes, every ``size`` of them as one batch."""
        schemas = arrow_schemas(self.ddl)
        for start in range(0, len(self.changes), size):
            yield batch(schemas, self.changes[start : start + size])


def batch(schemas: dict[str, pa.Schema], changes: tuple[Change, ...]) -> Batch:
    """Changes as Arrow tables with weights."""
    tables = dict.fromkeys(change.table for change in changes)
    made: Batch = {}
    for table in tables:
        own = [change for change in changes if change.table == table]
        columns = zip(*(change.row for change in own), strict=True)
        arrays = [pa.array(values, field.type) for values, field in zip(columns, schemas[table], strict=True)]
        weights = pa.array([change.weight for change in own], pa.int64())
        made[table] = pa.table([*arrays, weights], names=[*schemas[table].names, "_weight"])
    return made


def random_tables(pick: Pick, most: int = 3) -> tuple[Table, ...]:
    """One to ``most`` tables: two integer columns, ``a`` and ``b``, and some of other types."""
    return tuple(Table(name, _random_columns(pick)) for name in "rsuv"[: pick(range(1, most + 1))])


def _random_columns(pick: Pick) -> tuple[Column, ...]:
    others = dict.fromkeys(pick(OTHERS) for _ in range(pick(range(1, 4))))
    return tuple(
        Column(name, kind, pick(SQL_TYPES[kind]), nullable=pick([True, True, True, False]))
        for name, kind in [("a", "int"), ("b", "int"), *others]
    )


def random_row(pick: Pick, table: Table, values: Mapping[str, list[Any]] = VALUES) -> Row:
    """A row of a table, from small domains; NULL about one time in seven where it is allowed."""
    return tuple(pick([*values[c.type], None] if c.nullable else values[c.type]) for c in table.columns)


def random_changes(pick: Pick, tables: tuple[Table, ...], most: int = 40) -> tuple[Change, ...]:
    """Insertions, duplicates, deletions of rows that are there, and pairs that cancel."""
    pools = {table.name: [random_row(pick, table) for _ in range(pick(range(2, 9)))] for table in tables}
    present: list[tuple[str, Row]] = []
    made: list[Change] = []
    for _ in range(pick(range(8, most + 1))):
        action = pick(
            ["insert", "insert", "insert", "insert", "insert", "delete", "delete", "twice", "cancel"]
        )
        if action == "delete" and present:
            made.append(Change(*present.pop(pick(range(len(present)))), -1))
            continue
        table = pick(tables).name
        row = pick(pools[table])
        if action == "cancel":
            made += [Change(table, row, 1), Change(table, row, -1)]
            continue
        copies = 2 if action == "twice" else 1
        made.append(Change(table, row, copies))
        present += [(table, row)] * copies
    return tuple(made)


def random_keyed_tables(pick: Pick) -> tuple[Table, ...]:
    """Tables that have a primary key, most of them."""
    made = []
    for table in random_tables(pick):
        keys = pick([1, 1, 2, 0])
        columns = tuple(replace(c, nullable=c.nullable and i >= keys) for i, c in enumerate(table.columns))
        made.append(Table(table.name, columns, keys))
    return tuple(made)


def random_keyed_changes(pick: Pick, tables: tuple[Table, ...]) -> tuple[Change, ...]:
    """Rows come, go, and are replaced by others with the same key."""
    present: dict[tuple[str, Row], Row] = {}
    made: list[Change] = []
    for _ in range(pick(range(8, 41))):
        table = pick(tables)
        row = random_row(pick, table)
        place = (table.name, row[: table.keys] or row)
        if (old := present.pop(place, None)) is not None:
            made.append(Change(table.name, old, -1))
        if old is None or pick([True, False]):
            made.append(Change(table.name, row, 1))
            present[place] = row
    return tuple(made)


def seeded_keyed_case(seed: int) -> Case:
    """The random case over tables with keys with a number."""
    pick = Random(seed).choice
    tables = random_keyed_tables(pick)
    columns = {table.name: [(c.name, c.type) for c in table.columns] for table in tables}
    return Case(tables, Writer(pick, columns).statement(), random_keyed_changes(pick, tables))


def random_case(pick: Pick) -> Case:
    """Random tables, a random query over them, random changes: the fuzz test of the whole system."""
    tables = random_tables(pick)
    columns = {table.name: [(c.name, c.type) for c in table.columns] for table in tables}
    return Case(tables, Writer(pick, columns).statement(), random_changes(pick, tables))


def seeded_cascade(seed: int) -> Case:
    """The random case of a view on a view with a number."""
    pick = Random(seed).choice
    tables = random_tables(pick)
    columns = {table.name: [(c.name, c.type) for c in table.columns] for table in tables}
    lower, sql = Writer(pick, columns).cascade()
    return Case(tables, sql, random_changes(pick, tables, most=24), lower)


def seeded_windows(seed: int) -> Case:
    """The random case of window functions, or of every third seed grouping sets, with a number."""
    pick = Random(seed).choice
    tables = random_tables(pick)
    columns = {table.name: [(c.name, c.type) for c in table.columns] for table in tables}
    writer = Writer(pick, columns)
    sql = writer.cube() if seed % 3 == 0 else writer.windowed()
    return Case(tables, sql, random_changes(pick, tables, most=24))


def seeded_case(seed: int) -> Case:
    """The random case with a number: the same on every run."""
    return random_case(Random(seed).choice)


@st.composite
def cases(draw: Callable[[st.SearchStrategy[Any]], Any]) -> Case:
    """Random cases that hypothesis can shrink."""
    return random_case(lambda options: draw(st.sampled_from(options)))
