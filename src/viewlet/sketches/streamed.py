"""Operators above views: what needs no memory is summed up by triggers, the rest by operators.

A view has no order, so what follows a top-k are operators; but the joins below them need not be left to the
database, where each batch is a query of its own. Here they are views of streams, as in ``compiled.py``, which
tell what a batch changed in them. So no query is run to follow a change::

    changes -> streams -> σ, π, ⋈ summed up per group and fragments, by triggers -> γ, τ, μ by operators
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeAlias

from sqlglot import exp

from viewlet.core.scalar import Scalar, Var
from viewlet.core.types import BIGINT, Type
from viewlet.errors import ViewletError
from viewlet.plan.nodes import AggregateCall, Plan, Query, Scan
from viewlet.plan.scope import outputs, walk
from viewlet.sketches.backends.base import Backend, arrow_rows
from viewlet.sketches.backends.database import Streams
from viewlet.sketches.capture import Fragments
from viewlet.sketches.errors import SketchError
from viewlet.sketches.feeds import Feeds
from viewlet.sketches.lineage import annotate, names_of
from viewlet.sketches.operators.base import Operator, Row
from viewlet.sketches.operators.build import Builder, NotIncrementalError, essential, refuse_inexact
from viewlet.sketches.operators.leaf import Groups, Marks, Source, summed
from viewlet.sketches.operators.merge import Merge
from viewlet.sketches.partition import Partition
from viewlet.sketches.plan_to_sql import plan_to_sql
from viewlet.sketches.scans import Reading, scan_to_sql
from viewlet.sketches.state import Keep
from viewlet.sql.catalog import Table

Asked: TypeAlias = tuple[tuple[tuple[Var, Scalar], ...], tuple[AggregateCall, ...]]
"""Groups and sums by which a source is asked for its rows."""


class StreamedOperators:
    """Operators whose sources are views of streams."""

    needs_changes_alone = True

    def __init__(
        self,
        query: Query,
        partitions: Sequence[Partition],
        schema: Sequence[Table],
        backend: Backend,
        keep: Keep,
        bound: int | None,
        optimize: bool,
    ) -> None:
        self._plan = essential(query).plan
        refuse_inexact(self._plan, backend)
        self._query, self._partitions, self._backend = query, partitions, backend
        self.keep, self._bound = keep, bound
        self._feeds = Feeds(self._plan, partitions, schema, backend, keep, optimize)
        self._streams: Streams | None = None
        self._views: list[str] = []
        self._root: Operator | None = None
        self._merge = Merge(len(partitions))

    def load(self) -> None:
        """New streams and views, and all rows as their first batch."""
        self.close()
        self._streams = self._feeds.streams()
        self._root = self._operators(self._streams, None)
        self._feeds.fill(self._streams)
        self._merge = Merge(len(self._partitions))
        self._merge.add(self._root.load())

    def _operators(self, streams: Streams, existing: Iterable[str] | None) -> Operator:
        """The operators over new views, or over the ones that they had in the same order."""
        self._views = []
        known = None if existing is None else iter(existing)

        def source(plan: Plan, groups: Groups) -> Source:
            return StreamedBranch(plan, self._partitions, streams, self._views, known)

        try:
            return Builder(len(self._partitions), self._backend, self._bound, source).root(self._query)
        except SketchError:
            raise
        except ViewletError as reason:
            raise NotIncrementalError(f"no view follows it: {reason}") from None

    def close(self) -> None:
        """Free the memory."""
        if self._streams is not None:
            self._streams.close()

    def change(self, changed: frozenset[str]) -> None:
        """The staged rows as one batch, and what it changed through the operators into the counters."""
        assert self._streams is not None, "loaded or restored"
        assert self._root is not None, "loaded or restored"
        self._feeds.follow(self._streams, changed)
        self._merge.add(self._root.change(changed))

    def fragments(self) -> Fragments:
        """Those whose counter is not zero."""
        return [self._merge.fragments(place) for place in range(len(self._partitions))]

    def entries(self) -> int:
        """The records of all maps, and the entries of the operators."""
        own = 0 if self._root is None else self._root.entries()
        return own + (0 if self._streams is None else self._streams.entries())

    def explain(self) -> Iterator[str]:
        """What the triggers keep, and what is kept above them."""
        assert self._streams is not None, "loaded or restored"
        assert self._root is not None, "loaded or restored"
        yield from self._feeds.explain(self._streams)
        yield f"operators above keep {self._root.entries()} entries"
        yield from self._root.explain()

    def saved(self) -> object:
        """Counters, the parts of every operator, and the views by name with the bytes of their file."""
        assert self._streams is not None, "loaded or restored"
        assert self._root is not None, "loaded or restored"
        return self._merge.counts, list(self._root.save()), self._views, self._streams.image()

    def restore(self, literal: Any) -> None:
        """Views and operators go on where they were."""
        counts, parts, views, image = literal
        self._streams = self._feeds.resumed(image)
        self._root = self._operators(self._streams, views)
        self._root.restore(iter(parts))
        self._merge.counts = counts


class StreamedBranch:
    """A stateless plan without ∪, summed up by one view per way that it is asked for."""

    def __init__(
        self,
        plan: Plan,
        partitions: Sequence[Partition],
        streams: Streams,
        views: list[str],
        existing: Iterator[str] | None,
    ) -> None:
        self._names = names_of(plan)
        (self._annotated,) = annotate(plan, partitions, self._names, streams.mark)
        self._partitions, self._streams = partitions, streams
        self._views, self._existing = views, existing
        self._asked: dict[Asked, tuple[str, list[Type]]] = {}
        self._changes: dict[Asked, list[Row]] = {}
        self.split = Marks(self._annotated, partitions, streams.mark).split
        self.tables = frozenset(node.table for node in walk(plan) if isinstance(node, Scan))

    def expect(self, groups: Groups, calls: Sequence[AggregateCall]) -> None:
        """A view, created before the first rows come: streams keep none for views that come later."""
        asked = tuple(groups), tuple(calls)
        if asked in self._asked:  # MIN and MAX of one column, say
            return
        plan = summed(self._annotated, groups, calls, self._names)
        if self._existing is None:
            view = self._streams.create_view(plan_to_sql(plan, self._source))
        else:
            view = next(self._existing)
            self._streams.watch(view)
        self._views.append(view)
        self._asked[asked] = view, [var.type for var in outputs(plan)]

    def _source(self, scan: Scan) -> exp.Select:
        return scan_to_sql(scan, Reading.NEW, self._partitions, self._streams)

    def load(self) -> None:
        """Views are filled: from now on what changes in them is told."""
        for view, _ in self._asked.values():
            self._streams.watch(view)

    def all_rows(self, groups: Groups, calls: Sequence[AggregateCall]) -> list[Row]:
        """The view as it is."""
        view, kinds = self._asked[tuple(groups), tuple(calls)]
        return arrow_rows(self._streams.view_rows(view), kinds)

    def begin(self, changed: frozenset[str]) -> None:
        """Ask every view once: several aggregates may need the same one."""
        self._changes = {
            asked: list(self._differences(view, kinds, len(asked[0])))
            for asked, (view, kinds) in self._asked.items()
        }

    def changed_rows(
        self, groups: Groups, calls: Sequence[AggregateCall], changed: frozenset[str]
    ) -> list[Row]:
        """What the view's rows became less what they were."""
        return self._changes[tuple(groups), tuple(calls)]

    def _differences(self, view: str, kinds: list[Type], groups: int) -> Iterator[Row]:
        keys = groups + len(self._annotated.fragments)
        found: dict[Row, list[Any]] = {}
        for table in self._streams.news(view):
            rows: list[tuple[Any, ...]] = arrow_rows(table, [*kinds, BIGINT])
            for row in rows:
                numbers, weight = row[keys:-1], row[-1]
                sums = found.setdefault(row[:keys], [0] * len(numbers))
                for place, number in enumerate(numbers):
                    sums[place] += (number or 0) * weight
        for key, sums in found.items():
            if any(sums):
                yield (*key, *sums)

    def explain(self) -> Iterator[str]:
        """The tables whose changes the views follow."""
        yield f"changes of {', '.join(sorted(self.tables))} are summed up by triggers"
