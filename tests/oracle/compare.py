"""Is a view's content the right one? Multisets of rows, exact but for DOUBLE."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime
from decimal import ROUND_HALF_UP, Context, Decimal
from math import isclose
from typing import Any

import pyarrow as pa

from oracle.mirror import Answer, Row

RELATIVE = 1e-9
# Sums of doubles that cancel have no relative precision left.
ABSOLUTE = 1e-11
_WIDE = Context(prec=100, rounding=ROUND_HALF_UP)


@dataclass(frozen=True)
class Difference:
    """What a view lacks, and what it holds too much of."""

    missing: list[Row]
    unexpected: list[Row]

    def __bool__(self) -> bool:
        return bool(self.missing or self.unexpected)


def difference(view: pa.Table, answer: Answer) -> Difference:
    """The multiset difference, both ways, between a view and DuckDB's answer; empty if the view is right.

    >>> view = pa.table({"a": [1, 2, 2], "s": [0.1 + 0.2, 1.0, 1.0]})
    >>> difference(view, Answer(2, [(2, 1.0), (1, 0.3)], [], 2))
    Difference(missing=[], unexpected=[(2, 1.0)])
    """
    assert view.num_columns == answer.width, f"{view.column_names} are not {answer.width} columns"
    columns = [Column(field.type) for field in view.schema]
    ours = list(zip(*(column.to_pylist() for column in view.columns), strict=True))
    must, may = ([_converted(row, columns) for row in rows] for rows in (answer.must, answer.may))
    inexact = [
        i
        for i, column in enumerate(columns)
        if pa.types.is_floating(column.type) or any(isinstance(row[i], float) for row in (*must, *may))
    ]
    missing, rest = _unmatched(must, ours, columns, inexact)
    unexpected, spare = _unmatched(rest, may, columns, inexact)
    lacking = answer.count - len(ours)
    return Difference([*missing, *spare[: max(lacking - len(missing), 0)]], unexpected)


@dataclass(frozen=True)
class Column:
    """A column of ours, which decides how closely DuckDB's value must agree."""

    type: pa.DataType

    def convert(self, value: Any) -> Any:
        """DuckDB's value in our type: a decimal at our scale; a midnight is a date."""
        if (
            isinstance(value, Decimal)
            and pa.types.is_decimal(self.type)
            and -value.as_tuple().exponent > self.type.scale
        ):
            return value.quantize(Decimal(1).scaleb(-self.type.scale), context=_WIDE)
        if isinstance(value, datetime) and pa.types.is_date(self.type):
            return value.date()
        return value

    def close(self, ours: Any, theirs: Any) -> bool:
        """Equal up to the rounding of doubles; where we round to a DECIMAL, up to its last digit."""
        if ours is None or theirs is None or isinstance(ours, str):
            return ours == theirs
        unit = 10.0**-self.type.scale if pa.types.is_decimal(self.type) else 0.0
        return isclose(float(ours), float(theirs), rel_tol=RELATIVE, abs_tol=unit + ABSOLUTE)


def _converted(row: Row, columns: list[Column]) -> Row:
    return tuple(column.convert(value) for column, value in zip(columns, row, strict=True))


def _unmatched(
    left: list[Row], right: list[Row], columns: list[Column], inexact: list[int]
) -> tuple[list[Row], list[Row]]:
    """Pair equal rows of both lists, and return what remains of each."""
    exact = [i for i in range(len(columns)) if i not in inexact]
    waiting: dict[Row, list[Row]] = defaultdict(list)
    for row in right:
        waiting[tuple(row[i] for i in exact)].append(row)
    alone = []
    for row in left:
        candidates = waiting[tuple(row[i] for i in exact)]
        partner = next(
            (
                n
                for n, other in enumerate(candidates)
                if all(columns[i].close(row[i], other[i]) for i in inexact)
            ),
            None,
        )
        if partner is None:
            alone.append(row)
        else:
            candidates.pop(partner)
    return alone, [row for rows in waiting.values() for row in rows]
