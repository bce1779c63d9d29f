"""Rows that travel themselves, instead of what the driver would make of them.

With ``D_c`` the cut of a change by its column c, and x the variable that c is bound to::

    Scatter_x(sum_k f(dR))  =  sum_k f(D_c(dR))      if x is one of the keys k

since a row counts for entries with its own x alone, and these belong to one partition. On the left the driver
sums up and sends sums; on the right partitions do that, each for its share, and what is sent is the columns
that f reads, once for all relations made of them. That is less where several relations are made of rows that
hardly coincide, and more where conditions let few rows through; so widths decide.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from math import prod

from viewlet.backends.spark.fuse import reads
from viewlet.backends.spark.nodes import Compute, Dealt, DistStatement, Location, Replicated, Transfer
from viewlet.calculus.nodes import Cond, Delta, Factor, Let, MapRef, Query, Term, Value
from viewlet.core.scalar import Call, Const, Var
from viewlet.core.types import Kind, Type
from viewlet.sql.catalog import Table

SUM_BYTES, COUNT_BYTES = 16, 8
WIDTHS = {Kind.BIGINT: 8, Kind.TIMESTAMP: 8, Kind.DOUBLE: 8, Kind.DECIMAL: 16, Kind.VARCHAR: 24}
OTHER_BYTES = 4
EQUAL, COMPARED = 0.1, 0.33  # the share of rows that conditions let through


def deal_rows(
    statements: Sequence[DistStatement], table: Table, placement: Mapping[str, Location]
) -> tuple[list[DistStatement], Dealt | None]:
    """``t := f(dR); u := Scatter(t)`` -> ``u := f(dR)`` in the partitions, where that sends less.

    Gives the statements and how rows are dealt; all relations of one column, or none.
    """
    made = {s.target: s for s in statements if isinstance(s, Compute) and s.op == ":=" and s.mode == "local"}
    by_column: dict[str, list[Transfer]] = defaultdict(list)
    for statement in statements:
        if isinstance(statement, Transfer) and statement.movement == "Scatter" and statement.source in made:
            column = _column(made[statement.source], statement.position or 0, table, placement)
            if column is not None:
                by_column[column].append(statement)
    saved = {
        column: _sent([made[t.source] for t in moved]) - _dealt([made[t.source] for t in moved], table)
        for column, moved in by_column.items()
    }
    best = max(saved, key=lambda column: saved[column], default=None)
    if best is None or saved[best] <= 0:
        return list(statements), None
    moved = {transfer.target: made[transfer.source] for transfer in by_column[best]}
    return _in_partitions(statements, moved), Dealt(best, _columns(moved.values(), table))


def _in_partitions(statements: Sequence[DistStatement], moved: Mapping[str, Compute]) -> list[DistStatement]:
    """Relations are made where they were sent to, and on the driver only if something else reads them."""
    found: list[DistStatement] = [
        Compute("distributed", s.target, moved[s.target].keys, ":=", moved[s.target].query)
        if s.target in moved and isinstance(s, Transfer)
        else s
        for s in statements
    ]
    still = {name for statement in found for name in reads(statement)}
    gone = {made.target for made in moved.values()} - still
    return [statement for statement in found if statement.target not in gone]


def _column(made: Compute, position: int, table: Table, placement: Mapping[str, Location]) -> str | None:
    """The column of the change that tells the partition of every entry of a relation."""
    key = made.keys[position]
    found = {_bound(term, key, table, placement) for term in made.query} if isinstance(key, Var) else set()
    return found.pop() if len(found) == 1 else None


def _bound(term: Term, key: Var, table: Table, placement: Mapping[str, Location]) -> str | None:
    """The column that a variable is, in a product of one change and what partitions know."""
    changes = [factor for factor in term.factors if isinstance(factor, Delta)]
    others = [factor for factor in term.factors if not isinstance(factor, Delta)]
    if len(changes) != 1 or not all(_is_everywhere(factor, placement) for factor in others):
        return None
    types = {column.name: column.type for column in table.columns}
    columns = [c for c, argument in changes[0].binds if argument == key and types[c] == key.type]
    return columns[0] if columns else None


def _is_everywhere(factor: Factor, placement: Mapping[str, Location]) -> bool:
    if isinstance(factor, MapRef):
        return isinstance(placement.get(factor.name), Replicated)
    return isinstance(factor, Cond | Value | Let)


# What is sent, in bytes for a row of the change.


def _sent(relations: Iterable[Compute]) -> float:
    """As sums: entries with their keys, as many as conditions let rows through."""
    return sum(
        (sum(_width(key.type) for key in made.keys) + _sum_width(made.query)) * _share(made.query)
        for made in {made.target: made for made in relations}.values()
    )


def _dealt(relations: Iterable[Compute], table: Table) -> float:
    columns = _columns(relations, table)
    return sum(_width(column.type) for column in table.columns if column.name in columns)


def _columns(relations: Iterable[Compute], table: Table) -> tuple[str, ...]:
    """The columns of the change that relations are made of, in the order of the table."""
    read = {
        column
        for made in relations
        for term in made.query
        for factor in term.factors
        if isinstance(factor, Delta)
        for column, _ in factor.binds
    }
    return tuple(name for name in table.column_names if name in read)


def _width(kind: Type) -> int:
    return WIDTHS.get(kind.kind, OTHER_BYTES)


def _sum_width(query: Query) -> int:
    return SUM_BYTES if any(isinstance(f, Value) for term in query for f in term.factors) else COUNT_BYTES


def _share(query: Query) -> float:
    """The share of rows that some term of a query lets through."""
    return min(1.0, sum(prod(_passing(factor) for factor in term.factors) for term in query))


def _passing(factor: Factor) -> float:
    match factor:
        case Delta(_, binds):
            return prod(EQUAL for _, argument in binds if isinstance(argument, Const))
        case Cond(Call("==")):
            return EQUAL
        case Cond() | MapRef():
            return COMPARED
        case _:
            return 1.0
