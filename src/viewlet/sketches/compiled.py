"""The sketch as a view: fragment counters compiled by Viewlet's own compiler, fragment as a key.

Every table of the query becomes a stream with the columns that the query reads, and one column per partition
with the number of the fragment. The annotated query (``lineage.py``) over these streams, counted per
fragment, is created as a view, so the trigger program that keeps any view fresh keeps the sketch. Streams
keep no rows: the state is what the triggers read. All of SQL that views support is
followed, also joins above aggregations, outer joins and EXCEPT, for which there are no operators; but not
top-k, which takes operators above views (``streamed.py``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from viewlet.plan.nodes import Query
from viewlet.sketches.backends.base import Backend
from viewlet.sketches.backends.database import Streams
from viewlet.sketches.capture import Fragments
from viewlet.sketches.feeds import Feeds
from viewlet.sketches.operators.build import essential, refuse_inexact
from viewlet.sketches.partition import Partition
from viewlet.sketches.state import Keep
from viewlet.sketches.views import Counters
from viewlet.sql.catalog import Table


class Compiled:
    """Views of streams, fed with the changes of the tables."""

    needs_changes_alone = True

    def __init__(
        self,
        query: Query,
        partitions: Sequence[Partition],
        schema: Sequence[Table],
        backend: Backend,
        keep: Keep,
        optimize: bool,
    ) -> None:
        plan = essential(query).plan
        refuse_inexact(plan, backend)
        self._query, self._partitions, self.keep = query, partitions, keep
        self._feeds = Feeds(plan, partitions, schema, backend, keep, optimize)
        self._streams: Streams | None = None
        self._counters: Counters | None = None

    def load(self) -> None:
        """New streams, and all rows as their first batch."""
        if self._streams is None or self._streams.filled:
            self.close()
            self._streams = self._feeds.streams()
            # What the sketch assumes of values is checked on the changes themselves, as for operators.
            self._counters = Counters(self._query, self._partitions, (), self._streams)
        self._feeds.fill(self._streams)

    def close(self) -> None:
        """Free the memory."""
        if self._streams is not None:
            self._streams.close()

    def change(self, changed: frozenset[str]) -> None:
        """The staged rows as one batch."""
        assert self._streams is not None, "loaded or restored"
        self._feeds.follow(self._streams, changed)

    def fragments(self) -> Fragments:
        """Those that the views list."""
        assert self._counters is not None, "loaded or restored"
        return self._counters.fragments()

    def entries(self) -> int:
        """The records of all maps."""
        return 0 if self._streams is None else self._streams.entries()

    def explain(self) -> Iterator[str]:
        """What the triggers keep."""
        assert self._streams is not None, "loaded or restored"
        return self._feeds.explain(self._streams)

    def saved(self) -> object:
        """The streams as the bytes of a file, and which views count which partition."""
        assert self._streams is not None, "loaded or restored"
        assert self._counters is not None, "loaded or restored"
        return self._counters.views, self._streams.image()

    def restore(self, literal: Any) -> None:
        """The views go on where they were."""
        views, image = literal
        self._streams = self._feeds.resumed(image)
        self._counters = Counters(self._query, self._partitions, (), self._streams, views)
