"""What a database asks of an engine, whichever backend it is.

Rows here are tuples of physical values (``core/types.py``), all columns of the table in order. A *bag* maps
each row to its multiplicity. Engines trust their input: validation happens before, so that a batch either
applies whole or was refused whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from viewlet.core.types import Value
from viewlet.plan.nodes import Query
from viewlet.sql.catalog import Catalog

Row: TypeAlias = tuple[Value, ...]
Bag: TypeAlias = dict[Row, int]
Granularity: TypeAlias = Literal["auto", "tuple", "batch"]
Strategy: TypeAlias = Literal["auto", "higher_order", "first_order", "reevaluate"]


@dataclass(frozen=True, slots=True)
class Change:
    """A row that appears (positive weight) or disappears (negative weight), that many times."""

    row: Row
    weight: int


@dataclass(frozen=True, slots=True)
class MapStats:
    """Size and use of one materialized map."""

    name: str
    records: int
    bytes: int


class Engine(Protocol):
    """Keeps the results of queries fresh.

    The law: after any sequence of ``apply``, ``output(view)`` equals the view's query evaluated from scratch
    over the tables as they are now.
    """

    def create(
        self, name: str, query: Query, catalog: Catalog, contents: Mapping[str, Bag], strategy: Strategy
    ) -> None:
        """Start maintaining a query; ``contents`` holds the present rows of every table it reads."""

    def drop(self, name: str) -> None:
        """Stop maintaining a query."""

    def apply(
        self, table: str, changes: Sequence[Change], granularity: Granularity, watched: frozenset[str]
    ) -> dict[str, Bag]:
        """Apply changes of one table; for each *watched* view return its own change as a bag of weights.

        Raises and leaves no trace if a value leaves its range (:class:`~viewlet.errors.ValueRangeError`).
        """

    def output(self, name: str) -> Bag:
        """The present rows of a view, unordered."""

    def explain(self, name: str) -> str:
        """The maintenance program of a view, in words."""

    def stats(self) -> list[MapStats]:
        """Every map with its size."""
