"""How a scan of a table reads in SQL: the table as it is, as it was before a batch, or the batch alone.

While a batch is staged, ``old = new - batch``, written as a union with negated weights. So the change of
a join is a sum of joins of the batch with tables as they are or were::

    Δ(A ⋈ B) = ΔA ⋈ B_old + A_new ⋈ ΔB
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Protocol

from sqlglot import exp

from viewlet.plan.nodes import Scan
from viewlet.sketches.lineage import FRAGMENT_PREFIX, fragment_column
from viewlet.sketches.partition import Partition

WEIGHT = "_weight"


class Reading(Enum):
    """Which rows of a table a scan means."""

    NEW = "new"
    OLD = "old"
    CHANGE = "change"


class Relations(Protocol):
    """How a database names what a scan reads."""

    def table(self, name: str) -> exp.Table:
        """A table."""

    def staged(self, name: str) -> exp.Table | exp.Subquery:
        """The changes of a table that are being applied: its columns and ``_weight``, which is 1 or -1."""

    def staged_fragment(self, partition: Partition) -> exp.Expr:
        """The fragment of a staged row."""

    def fragment(self, partition: Partition) -> exp.Expr:
        """The fragment of a row of the table."""


def scan_to_sql(
    scan: Scan, reading: Reading, partitions: Sequence[Partition], relations: Relations
) -> exp.Select:
    """The rows of a scan under its variables, with ``_weight`` and fragments where it binds them."""
    match reading:
        case Reading.NEW:
            return _select(scan, partitions, relations, staged=False, sign=1)
        case Reading.CHANGE:
            return _select(scan, partitions, relations, staged=True, sign=1)
        case Reading.OLD:
            now = _select(scan, partitions, relations, staged=False, sign=1)
            back = _select(scan, partitions, relations, staged=True, sign=-1)
            columns = [exp.column(var.name, quoted=True) for _, var in scan.binds]
            union = exp.Union(this=now, expression=back, distinct=False)
            return exp.select(*columns).from_(union.subquery(f"of_{scan.table}"))


def _select(
    scan: Scan, partitions: Sequence[Partition], relations: Relations, staged: bool, sign: int
) -> exp.Select:
    by_column: Mapping[str, Partition] = {fragment_column(p): p for p in partitions if p.table == scan.table}
    listed: list[exp.Expr] = []
    for column, var in scan.binds:
        value: exp.Expr
        if column == WEIGHT:
            value = exp.column(WEIGHT) if staged else exp.Literal.number(1)
            value = exp.Neg(this=value) if sign < 0 else value
        elif column.startswith(FRAGMENT_PREFIX):
            partition = by_column[column]
            value = relations.staged_fragment(partition) if staged else relations.fragment(partition)
        else:
            value = exp.column(column, quoted=True)
        listed.append(exp.alias_(value, var.name, quoted=True))
    listed = listed or [exp.alias_(exp.Literal.number(1), "unit")]
    return exp.select(*listed).from_(relations.staged(scan.table) if staged else relations.table(scan.table))
