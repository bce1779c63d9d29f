"""The baseline strategy: recompute every affected view from scratch, through ``plan/evaluate.py``.

It keeps the rows of the tables that views read and the present results, nothing else. Slow, obvious, and
independent of the calculus: what the incremental engines are compared with.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from viewlet.backends.base import Bag, Change, Granularity, MapStats, Strategy
from viewlet.plan.bags import consolidate
from viewlet.plan.evaluate import evaluate_query
from viewlet.plan.nodes import Query
from viewlet.plan.scope import tables_of
from viewlet.sql.catalog import Catalog, TableKind


@dataclass(slots=True)
class _View:
    """A query with the rows it reads and its present result.

    The rows belong to the view alone: of a stream, each view has seen what came since it was created.
    """

    query: Query
    catalog: Catalog
    contents: dict[str, Bag]
    result: Bag


class Reevaluate:
    """An engine that recomputes; see :class:`viewlet.backends.base.Engine`."""

    def __init__(self) -> None:
        self._views: dict[str, _View] = {}

    def __repr__(self) -> str:
        return f"<Reevaluate: {', '.join(self._views) or 'no views'}>"

    def create(
        self, name: str, query: Query, catalog: Catalog, contents: Mapping[str, Bag], strategy: Strategy
    ) -> None:
        """Evaluate a query and start to keep it fresh; there is only one strategy here."""
        own = {table: dict(contents[table]) for table in tables_of(query.plan)}
        self._views[name] = _View(query, catalog, own, evaluate_query(query, own, catalog))

    def drop(self, name: str) -> None:
        """Forget a view."""
        del self._views[name]

    def apply(
        self, table: str, changes: Sequence[Change], granularity: Granularity, watched: frozenset[str]
    ) -> dict[str, Bag]:
        """Recompute the views that read a table, after every change if asked to, else once."""
        fresh: dict[str, tuple[Bag, Bag]] = {}
        for name, view in self._views.items():
            if table not in view.contents:
                continue
            rows, result = view.contents[table], view.result
            for step in [[change] for change in changes] if granularity == "tuple" else [changes]:
                rows = _changed(rows, step)
                result = evaluate_query(view.query, {**view.contents, table: rows}, view.catalog)
            fresh[name] = rows, result
        feeds = {}
        for name, (rows, result) in fresh.items():
            view = self._views[name]
            if name in watched:
                feeds[name] = difference(result, view.result)
            view.contents[table], view.result = rows, result
        return feeds

    def check(self, names: Collection[str]) -> None:
        """Nothing is left to refuse: results were computed when the changes came."""

    def output(self, name: str) -> Bag:
        """The present rows of a view."""
        return dict(self._views[name].result)

    def explain(self, name: str) -> str:
        """How the view is kept: not incrementally."""
        view = self._views[name]
        lines = [f"view {name}: recomputed from scratch"]
        lines += [
            f"  on {table}: evaluate the whole query, O(all rows read)" for table in sorted(view.contents)
        ]
        return "\n".join([*lines, *(f"  reason: {reason}" for reason in self.obstacles(name))])

    def obstacles(self, name: str) -> tuple[str, ...]:
        """Why the view is not incremental."""
        assert name in self._views
        return ("the strategy is reevaluate",)

    def stats(self) -> list[MapStats]:
        """The kept rows of each view's tables, and its result."""
        return [MapStats(label, len(bag), _bytes(bag)) for label, bag in self._bags()]

    def stream_rows(self, name: str) -> Mapping[str, Bag]:
        """The rows of streams that a view has seen: nobody else keeps them."""
        view = self._views[name]
        kinds = {table: view.catalog[table].kind for table in view.contents}
        return {table: view.contents[table] for table, kind in kinds.items() if kind is TableKind.STREAM}

    def load_stream_rows(self, name: str, rows: Mapping[str, Bag]) -> None:
        """Give a view the rows of streams that it had seen."""
        view = self._views[name]
        contents = {**view.contents, **{table: dict(bag) for table, bag in rows.items()}}
        view.contents, view.result = contents, evaluate_query(view.query, contents, view.catalog)

    def _bags(self) -> Iterator[tuple[str, Bag]]:
        for name, view in self._views.items():
            yield from ((f"{name}.{table}", bag) for table, bag in view.contents.items())
            yield name, view.result


def _changed(bag: Bag, changes: Sequence[Change]) -> Bag:
    changed = dict(bag)
    for change in changes:
        weight = changed.get(change.row, 0) + change.weight
        if weight:
            changed[change.row] = weight
        else:
            changed.pop(change.row, None)
    return changed


def difference(new: Bag, old: Bag) -> Bag:
    """``new - old``, row by row.

    >>> difference({("a",): 2, ("b",): 1}, {("a",): 1, ("c",): 1})
    {('a',): 1, ('b',): 1, ('c',): -1}
    """
    return consolidate([*new.items(), *((row, -weight) for row, weight in old.items())])


def _bytes(bag: Bag) -> int:
    """The memory of the dict and its row tuples; the values themselves are shared and not counted."""
    return sys.getsizeof(bag) + sum(map(sys.getsizeof, bag))
