"""The statements there are."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from sqlglot import exp

from viewlet.sql.catalog import Table, TableKind


class Refresh(Enum):
    """How a view is to be kept fresh."""

    AUTO = "AUTO"
    INCREMENTAL = "INCREMENTAL"
    INCREMENTAL_STRICT = "INCREMENTAL STRICT"
    FULL = "FULL"


class OnConflict(Enum):
    """What an insert does with a row whose key exists already."""

    ERROR = "ERROR"
    REPLACE = "REPLACE"
    IGNORE = "IGNORE"


@dataclass(frozen=True, slots=True)
class CreateTable:
    """CREATE [STATIC] TABLE | STREAM [IF NOT EXISTS] name (columns) [ON CONFLICT ERROR | REPLACE | IGNORE]"""

    table: Table
    if_not_exists: bool = False
    on_conflict: OnConflict = OnConflict.ERROR


@dataclass(frozen=True, slots=True)
class CreateView:
    """CREATE [OR REPLACE] MATERIALIZED VIEW [IF NOT EXISTS] name [REFRESH ...] AS query."""

    name: str
    query: exp.Query
    text: str
    refresh: Refresh = Refresh.AUTO
    or_replace: bool = False
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class Drop:
    """DROP [STATIC] TABLE | STREAM | [MATERIALIZED] VIEW [IF EXISTS] name [RESTRICT | CASCADE]."""

    name: str
    kind: TableKind
    if_exists: bool = False
    cascade: bool = False


@dataclass(frozen=True, slots=True)
class RefreshView:
    """REFRESH MATERIALIZED VIEW name."""

    name: str


@dataclass(frozen=True, slots=True)
class Explain:
    """EXPLAIN query, or EXPLAIN name of a view."""

    target: exp.Query | str
    text: str


@dataclass(frozen=True, slots=True)
class Select:
    """A query."""

    query: exp.Query
    text: str


@dataclass(frozen=True, slots=True)
class Insert:
    """INSERT INTO table [(columns)] VALUES (literals), ...: the rows as written."""

    table: str
    columns: tuple[str, ...]
    rows: tuple[tuple[exp.Expr, ...], ...]


@dataclass(frozen=True, slots=True)
class InsertQuery:
    """INSERT INTO table [(columns)] query; ``by_name`` if the query's names say which columns it fills."""

    table: str
    columns: tuple[str, ...]
    query: exp.Query
    by_name: bool


@dataclass(frozen=True, slots=True)
class Assignment:
    """``column = value`` behind SET; ``target`` is the column as written."""

    column: str
    value: exp.Expr
    target: exp.Column


@dataclass(frozen=True, slots=True)
class Update:
    """UPDATE table [AS alias] SET column = value, ... [WHERE condition]."""

    table: str
    alias: str
    assignments: tuple[Assignment, ...]
    where: exp.Expr | None


@dataclass(frozen=True, slots=True)
class Delete:
    """DELETE FROM table [AS alias] [WHERE condition]."""

    table: str
    alias: str
    where: exp.Expr | None


@dataclass(frozen=True, slots=True)
class UpdateRow:
    """UPDATE SET column = value, ...; without assignments ``SET *``: every column takes its namesake's."""

    assignments: tuple[Assignment, ...]


@dataclass(frozen=True, slots=True)
class DeleteRow:
    """DELETE."""


@dataclass(frozen=True, slots=True)
class InsertRow:
    """INSERT [(columns)] VALUES (values); without values ``INSERT *``: those of the columns' namesakes."""

    columns: tuple[str, ...]
    values: tuple[exp.Expr, ...]


class Match(Enum):
    """Which rows a clause of MERGE is about: pairs, source rows alone, target rows alone."""

    MATCHED = "MATCHED"
    NOT_MATCHED = "NOT MATCHED"
    NOT_MATCHED_BY_SOURCE = "NOT MATCHED BY SOURCE"


@dataclass(frozen=True, slots=True)
class When:
    """WHEN match [AND condition] THEN action; ``node`` is where it stands."""

    match: Match
    condition: exp.Expr | None
    action: UpdateRow | DeleteRow | InsertRow
    node: exp.When


@dataclass(frozen=True, slots=True)
class Merge:
    """MERGE INTO table [AS alias] USING source ON condition WHEN ... THEN ..., of which the first counts."""

    table: str
    alias: str
    source: exp.Table | exp.Subquery | exp.Values
    on: exp.Expr
    clauses: tuple[When, ...]


@dataclass(frozen=True, slots=True)
class Show:
    """SHOW TABLES | VIEWS [LIKE pattern]: ``*`` stands for anything, ``|`` between alternatives."""

    views: bool
    pattern: str


@dataclass(frozen=True, slots=True)
class Describe:
    """DESCRIBE [TABLE] name."""

    name: str


DataChange: TypeAlias = Insert | InsertQuery | Update | Delete | Merge
Listing: TypeAlias = Show | Describe
Statement: TypeAlias = CreateTable | CreateView | Drop | RefreshView | Explain | Select | Listing | DataChange
