"""How late a row may be: behind the latest time that the table has taken, by no more than a delay.

The latest time is that of the batches before, so that a batch is judged as a whole; it is kept in a table of
the database and changes in the same commit as the rows, so a restart judges as the run before would have.
"""

from __future__ import annotations

import datetime
import re
from dataclasses import dataclass
from typing import TypeAlias

from viewlet.pipelines.definitions import PipelineError
from viewlet.sql.catalog import Table

LATEST = "latest_times"
LATEST_SCHEMA = "target VARCHAR NOT NULL, latest TIMESTAMP NOT NULL, PRIMARY KEY (target)"
UNITS = ("second", "minute", "hour", "day", "week")

Time: TypeAlias = datetime.datetime | datetime.date


@dataclass(frozen=True, slots=True)
class Bound:
    """Rows whose value in a column is before a time are late."""

    column: str
    time: datetime.datetime


def read_delay(text: str) -> datetime.timedelta:
    """A delay from words.

    >>> read_delay("90 minutes")
    datetime.timedelta(seconds=5400)
    """
    found = re.fullmatch(rf"(\d+) ({'|'.join(UNITS)})s?", text.strip().lower())
    if found is None:
        raise PipelineError(f"late: {text!r} is no delay; write a number and {', '.join(UNITS)}")
    return datetime.timedelta(**{f"{found[2]}s": int(found[1])})


def check_time_column(table: Table, column: str) -> None:
    """Refuse lateness by something that is no time."""
    kinds = {c.name: str(c.type) for c in table.columns}
    if kinds.get(column) not in ("TIMESTAMP", "DATE"):
        known = ", ".join(name for name, kind in kinds.items() if kind in ("TIMESTAMP", "DATE")) or "none"
        raise PipelineError(
            f"table {table.name!r}: late needs a TIMESTAMP or DATE column, not {column!r}; {known}"
        )


def as_datetime(time: Time) -> datetime.datetime:
    """A time of day for a date: its beginning.

    >>> as_datetime(datetime.date(2024, 2, 29))
    datetime.datetime(2024, 2, 29, 0, 0)
    """
    if isinstance(time, datetime.datetime):
        return time
    return datetime.datetime.combine(time, datetime.time())
