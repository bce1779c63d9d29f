"""Three ways to find the fragments of a query's lineage.

*free*: the attribute is a column of the result, and equal to that of every row of the lineage; the sketch is
the fragments of the result. *two_pass*: run the query, then ask which fragments the rows behind its result
lie in (``lineage.py``). *instrumented*: carry fragments through all groups (``operators/``), which also gives
the state that later keeps the sketch fresh.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

from sqlglot import exp

from viewlet.core.types import Value
from viewlet.plan.nodes import Plan, Query, Scan, Top
from viewlet.plan.scope import outputs, walk
from viewlet.sketches.lineage import Annotated, by_value, lineage
from viewlet.sketches.operators.build import essential
from viewlet.sketches.operators.reader import Reader
from viewlet.sketches.partition import Partition
from viewlet.sketches.plan_to_sql import plan_to_sql
from viewlet.sketches.safety import Judgement
from viewlet.sketches.scans import Reading, scan_to_sql

Way: TypeAlias = Literal["auto", "free", "two_pass", "instrumented"]
Fragments: TypeAlias = list[frozenset[int]]
"""The fragments of each partition."""


def capture_two_pass(query: Query, partitions: Sequence[Partition], reader: Reader) -> Fragments:
    """The lineage of the result, computed by the database."""
    found: list[set[int]] = [set() for _ in partitions]
    for part in lineage(essential(query), partitions, by_value):
        for place, values in _distinct_values(part, partitions, reader):
            found[place].update(partitions[place].fragment_of(value) for value in values)
    return [frozenset(fragments) for fragments in found]


def _distinct_values(
    part: Annotated, partitions: Sequence[Partition], reader: Reader
) -> list[tuple[int, set[Value]]]:
    variables = outputs(part.plan)
    rows = reader.rows(_text(part.plan, partitions, reader), [var.type for var in variables])
    columns: list[tuple[Value, ...]] = list(zip(*rows, strict=True)) or [() for _ in variables]
    return [
        (partitions.index(partition), set(column))
        for (partition, _), column in zip(part.fragments, columns, strict=True)
    ]


def _text(plan: Plan, partitions: Sequence[Partition], reader: Reader) -> str:
    def source(scan: Scan) -> exp.Select:
        return scan_to_sql(scan, Reading.NEW, partitions, reader)

    return reader.sql(plan_to_sql(plan, source))


def free_columns(query: Query, partitions: Sequence[Partition], judgement: Judgement) -> list[int] | None:
    """For each partition the place of a result column that carries its attribute; else ``None``.

    ``None`` also below OFFSET: the rows that it skips are not in the result, but decide what is.
    """
    if any(isinstance(node, Top) and node.offset for node in walk(query.plan)):
        return None
    places: list[int] = []
    for partition in partitions:
        carriers = judgement.carriers.get((partition.table, partition.column), frozenset())
        found = [place for place, (_, var) in enumerate(query.columns) if var.name in carriers]
        if not judgement.exact or not found:
            return None
        places.append(found[0])
    return places


def capture_free(
    query: Query, partitions: Sequence[Partition], places: Sequence[int], text: str, reader: Reader
) -> Fragments:
    """The fragments of the result's own columns."""
    columns = ", ".join(f"{_quoted(query.columns[place][0], reader)}" for place in places)
    rows = reader.rows(f"SELECT DISTINCT {columns} FROM ({text}) AS result", [p.type for p in partitions])
    return [
        frozenset(partition.fragment_of(row[place]) for row in rows)
        for place, partition in enumerate(partitions)
    ]


def _quoted(name: str, reader: Reader) -> str:
    return reader.sql(exp.select(exp.column(name, quoted=True))).removeprefix("SELECT ")
