"""Sketches as views: the fragment counters of a query, kept by the trigger programs of a database."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol, runtime_checkable

from sqlglot import exp

from viewlet.core.types import Value
from viewlet.errors import ViewletError
from viewlet.plan.nodes import Plan, Query, Scan, Top
from viewlet.plan.scope import walk
from viewlet.sketches.errors import SketchError
from viewlet.sketches.facts import Assumption
from viewlet.sketches.lineage import annotate, names_of
from viewlet.sketches.operators.build import NotIncrementalError, essential
from viewlet.sketches.operators.reader import Reader
from viewlet.sketches.partition import Partition
from viewlet.sketches.plan_to_sql import plan_to_sql
from viewlet.sketches.scans import Reading, scan_to_sql


@runtime_checkable
class KeepsViews(Reader, Protocol):
    """A database that keeps results of queries fresh by itself."""

    def create_view(self, query: exp.Query) -> str:
        """Keep the result of a query fresh, and give the view's name."""

    def drop_view(self, name: str) -> None:
        """Forget a view."""

    def view_marks(self, name: str) -> list[Value]:
        """The first column of a view, as physical values."""

    def exceptions_view(self, assumption: Assumption) -> str:
        """A view with one row per value that breaks an assumption."""


def has_top(plan: Plan) -> bool:
    """Does it take the first rows of something?"""
    return any(isinstance(node, Top) and (node.limit is not None or node.offset) for node in walk(plan))


class Counters:
    """Views that count the rows of a query's annotated result, per value of an attribute or per fragment."""

    def __init__(
        self,
        query: Query,
        partitions: Sequence[Partition],
        assumes: Iterable[Assumption],
        database: KeepsViews,
        existing: Iterable[tuple[int, str]] | None = None,
    ) -> None:
        """The views are created, unless there are ``existing`` ones: partitions by number, with a view."""
        self._partitions, self._database = partitions, database
        self.views: list[tuple[int, str]] = list(existing or ())
        self._exceptions: list[tuple[Assumption, str]] = []
        if existing is None:
            self._create(essential(query).plan, assumes)

    def _create(self, plan: Plan, assumes: Iterable[Assumption]) -> None:
        partitions, database = self._partitions, self._database
        if has_top(plan):
            raise NotIncrementalError("a view below LIMIT has no order; top-k is captured again")
        try:
            for part in annotate(plan, partitions, names_of(plan), database.mark):
                for partition, var in part.fragments:
                    counted = self._counted(plan_to_sql(part.plan, self._source), var.name)
                    self.views.append((partitions.index(partition), database.create_view(counted)))
            for assumption in assumes:
                self._exceptions.append((assumption, database.exceptions_view(assumption)))
        except SketchError:
            self.drop()
            raise
        except ViewletError as reason:
            self.drop()
            raise NotIncrementalError(f"no view follows it: {reason}") from None

    def _source(self, scan: Scan) -> exp.Select:
        return scan_to_sql(scan, Reading.NEW, self._partitions, self._database)

    @staticmethod
    def _counted(annotated: exp.Query, name: str) -> exp.Select:
        value = exp.column(name, quoted=True)
        counted = exp.select(value, exp.alias_(exp.Count(this=exp.Star()), "n"))
        return counted.from_(annotated.subquery("annotated")).group_by(value.copy())

    def fragments(self) -> list[frozenset[int]]:
        """The fragments with a counter, for each partition."""
        found: list[set[int]] = [set() for _ in self._partitions]
        for place, view in self.views:
            partition = self._partitions[place]
            marks: Iterable[Any] = self._database.view_marks(view)
            by_value = self._database.mark(partition)[0] == partition.column
            found[place].update(map(partition.fragment_of, marks) if by_value else marks)
        return [frozenset(fragments) for fragments in found]

    def broken(self) -> Assumption | None:
        """An assumption that some row breaks."""
        return next((a for a, view in self._exceptions if self._database.view_marks(view)), None)

    def entries(self) -> int:
        """The rows of the views."""
        return sum(len(self._database.view_marks(view)) for _, view in self.views)

    def drop(self) -> None:
        """Forget the views."""
        for _, view in self.views:
            self._database.drop_view(view)
        for _, view in self._exceptions:
            self._database.drop_view(view)
        self.views, self._exceptions = [], []
