"""What MERGE changes: each row of the target, of the source, or pair of both by the first clause that fits.

The rows of the target are numbered, and every clause is a query over source and numbered target::

    WHEN MATCHED                 source JOIN target ON c
    WHEN NOT MATCHED             source ANTI JOIN target ON c
    WHEN NOT MATCHED BY SOURCE   target ANTI JOIN source ON c

each WHERE the conditions of the clauses before it are not TRUE and its own is. A target row that two source
rows match is refused, as the standard has it: which of them should win is not said.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, assert_never

from sqlglot import exp

from viewlet.assigned import (
    Present,
    check_assignments,
    checked,
    filled_columns,
    filler,
    kinds_of,
    refuse_over_rows,
    renewer,
    table_as,
)
from viewlet.backends.base import Bag, Row
from viewlet.core.casts import show
from viewlet.core.types import BIGINT, Column, Type
from viewlet.errors import DataError
from viewlet.sql.catalog import Table
from viewlet.sql.position import invalid
from viewlet.sql.statements import Assignment, DeleteRow, InsertRow, Match, Merge, UpdateRow, When

NUMBERED = "numbered target"
NUMBER = "row number"

Chosen: TypeAlias = tuple[Row | None, Row | None, int]


def merged(statement: Merge, table: Table, present: Present) -> Iterator[Chosen]:
    """Each row that changes, what becomes of it, and its number of copies."""
    merge = _Merge.of(statement, table, present)
    refuse_over_rows(statement.on, "ON of MERGE")
    merge.refuse_ambiguous()
    for place, clause in enumerate(statement.clauses):
        earlier = [other for other in statement.clauses[:place] if other.match is clause.match]
        conditions = [_not_true(other.condition) for other in earlier if other.condition is not None]
        if clause.condition is not None:
            refuse_over_rows(clause.condition, "WHEN of MERGE")
            conditions.append(clause.condition)
        yield from merge.chosen(clause, conditions)


@dataclass(frozen=True, slots=True)
class _Merge:
    """A statement, the rows of its target in the order of their numbers, and the copies of each."""

    statement: Merge
    table: Table
    present: Present
    rows: tuple[tuple[Row, int], ...]

    @classmethod
    def of(cls, statement: Merge, table: Table, present: Present) -> _Merge:
        rows = tuple(present.rows(table.name).items())
        numbered: Bag = {(*row, number): 1 for number, (row, _) in enumerate(rows)}
        target = Table(NUMBERED, (*table.columns, Column(NUMBER, BIGINT, nullable=False)))

        def rows_of(name: str) -> Bag:
            return numbered if name == NUMBERED else present.rows(name)

        return cls(statement, table, Present(present.catalog.with_table(target), rows_of), rows)

    def refuse_ambiguous(self) -> None:
        """Two source rows may match one target row only if all that can happen to it is to be deleted."""
        clauses = [clause for clause in self.statement.clauses if clause.match is Match.MATCHED]
        deletes = [isinstance(clause.action, DeleteRow) and clause.condition is None for clause in clauses]
        if not clauses or deletes == [True]:
            return
        _, matches = self._answer(Match.MATCHED, [self._number()], [])
        for (number,), count in matches.items():
            if count > 1:
                row, _ = self._numbered(number)
                pairs = zip(row, self.table.columns, strict=True)
                shown = ", ".join(show(value, column.type) for value, column in pairs)
                raise DataError(
                    f"MERGE INTO {self.table.name}: {count} rows of the source match the row ({shown}), and "
                    "which of them counts is not said; let ON match one, by grouping the source for example"
                )

    def chosen(self, clause: When, conditions: Sequence[exp.Expr]) -> Iterable[Chosen]:
        """What a clause does to the rows that come to it."""
        match clause.action:
            case DeleteRow():
                _, bag = self._answer(clause.match, [self._number()], conditions)
                for (number,) in bag:
                    row, copies = self._numbered(number)
                    yield row, None, copies
            case UpdateRow(assignments):
                yield from self._updated(clause, assignments or self._namesakes(clause), conditions)
            case InsertRow(columns, values):
                yield from self._inserted(clause, columns, values, conditions)
            case _:
                assert_never(clause.action)

    def _updated(
        self, clause: When, assignments: Sequence[Assignment], conditions: Sequence[exp.Expr]
    ) -> Iterable[Chosen]:
        check_assignments(self.table, self.statement.alias, assignments)
        values = [item.value for item in assignments]
        kinds, bag = self._answer(clause.match, [self._number(), *values], conditions)
        renew = renewer(self.table, assignments, kinds[1:])
        for number, *new in bag:
            row, copies = self._numbered(number)
            yield row, renew(row, tuple(new)), copies

    def _inserted(
        self,
        clause: When,
        names: Sequence[str],
        values: Sequence[exp.Expr],
        conditions: Sequence[exp.Expr],
    ) -> Iterable[Chosen]:
        given = filled_columns(self.table, names)
        values = values or [item.value for item in self._namesakes(clause)]
        if len(values) != len(given):
            raise invalid(clause.node, f"INSERT of {len(values)} values for {len(given)} columns")
        for value in values:
            refuse_over_rows(value, "VALUES of MERGE")
        kinds, bag = self._answer(clause.match, values, conditions)
        fill = filler(self.table, given, kinds)
        for row, copies in bag.items():
            yield None, checked(fill(row), self.table), copies

    def _namesakes(self, clause: When) -> list[Assignment]:
        """``SET *`` and ``INSERT *``: each column has the value of the source's column of that name."""
        source = self.statement.source.alias_or_name
        assignments = []
        for name in self.table.column_names:
            value = exp.column(name, table=source, quoted=True)
            value.parent = clause.node  # its place, for error messages
            assignments.append(Assignment(name, value, exp.column(name)))
        return assignments

    def _answer(
        self, match: Match, values: Sequence[exp.Expr], conditions: Sequence[exp.Expr]
    ) -> tuple[list[Type], Bag]:
        """Values over the rows that a kind of clause is about, and their types."""
        source, target = self.statement.source, table_as(NUMBERED, self.statement.alias)
        first, second = (target, source) if match is Match.NOT_MATCHED_BY_SOURCE else (source, target)
        join = exp.Join(
            this=second.copy(),
            kind="INNER" if match is Match.MATCHED else "ANTI",
            on=self.statement.on.copy(),
        )
        select = exp.select(*values).from_(first).where(*conditions)
        select.append("joins", join)
        query, bag = self.present.answer(select)
        return kinds_of(query), bag

    def _number(self) -> exp.Column:
        return exp.column(NUMBER, table=self.statement.alias, quoted=True)

    def _numbered(self, number: Any) -> tuple[Row, int]:
        return self.rows[number]


def _not_true(condition: exp.Expr) -> exp.Expr:
    return exp.Not(this=exp.paren(exp.Is(this=exp.paren(condition), expression=exp.true())))
