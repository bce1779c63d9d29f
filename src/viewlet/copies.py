"""The rows of a relation as they were at one commit, in the forms in which they are read."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from viewlet.backends.base import Row
from viewlet.core.types import Schema
from viewlet.kept import Image
from viewlet.plan.bags import ordered_rows, sorted_rows
from viewlet.plan.nodes import Query
from viewlet.values import to_arrow


@dataclass(frozen=True, slots=True)
class Copy:
    """The rows of a table or of a view with its query, which commits no longer reach."""

    image: Image
    columns: Schema
    query: Query | None

    def ordered(self) -> tuple[list[Row], Schema]:
        """The rows in order, with their columns."""
        bag = self.image.rows()
        return (sorted_rows(bag) if self.query is None else ordered_rows(self.query, bag)), self.columns

    def to_arrow(self) -> pa.Table:
        """The rows in order, as Arrow."""
        return self.image.to_arrow(self.columns) if self.query is None else to_arrow(*self.ordered())
