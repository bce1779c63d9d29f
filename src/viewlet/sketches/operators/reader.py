"""What operators ask of a database: rows of tables and of staged changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import pyarrow as pa
from sqlglot import exp

from viewlet.core.types import Type
from viewlet.sketches.operators.base import Row
from viewlet.sketches.partition import Partition
from viewlet.sketches.scans import Relations


class Reader(Relations, Protocol):
    """A database that runs queries over its tables and over staged changes."""

    text_is_bytes: bool
    """Is text ordered by its bytes, as Python does, and not by a language?"""

    small: int
    """A table of fewer rows is joined sooner than a filter is asked whether there are partners."""

    def mark(self, partition: Partition) -> tuple[str, Type]:
        """How a scan tells the fragment: see :data:`~viewlet.sketches.lineage.Mark`."""

    def sql(self, query: exp.Query) -> str:
        """The query as text."""

    def run(self, text: str) -> pa.Table:
        """The result of a query."""

    def rows(self, text: str, kinds: Sequence[Type]) -> list[Row]:
        """The rows of a query as physical values of the given types."""

    def count(self, table: str) -> int:
        """The number of rows of a table; an estimate where counting is expensive."""
