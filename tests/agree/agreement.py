"""The native engine against the reference engine: after the same changes, every map and view is the same."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence

from viewlet.backends.base import Bag, Change, Granularity
from viewlet.backends.native.build import BASELINE_FLAGS
from viewlet.backends.native.engine import NativeEngine
from viewlet.backends.reference.engine import ReferenceEngine
from viewlet.changes import read_changes
from viewlet.errors import ValueRangeError
from viewlet.loops.from_triggers import Batches
from viewlet.sql import compile_query
from viewlet.sql.catalog import Catalog
from viewlet.sql.parse import parse
from viewlet.workloads.stream import Batch

# Nothing is timed here: compile quickly; in a long run, let every undefined behaviour that traps trap.
TRAPS = ("-fsanitize=undefined", "-fsanitize-undefined-trap-on-error")
QUICK = (
    *(flag for flag in BASELINE_FLAGS if flag != "-O2"),
    "-Og",
    *(() if os.environ.get("VIEWLET_CFLAGS") else TRAPS),
)

Step = tuple[str, Sequence[Change]]


def catalog_of(ddl: str) -> Catalog:
    """The tables of some CREATE TABLE statements."""
    return Catalog(statement.table for statement in parse(ddl))


def steps_of(catalog: Catalog, batches: Iterable[Batch]) -> list[Step]:
    """Batches of Arrow tables as changes of one table each."""
    return [
        (table, read_changes(catalog[table], rows).changes)
        for batch in batches
        for table, rows in batch.items()
    ]


class Pair:
    """Both engines with the same views; a step that one refuses the other must refuse too."""

    def __init__(
        self,
        catalog: Catalog,
        views: Mapping[str, str],
        contents: Mapping[str, Bag] | None = None,
        *,
        batches: Batches = "all",
    ) -> None:
        self.catalog = catalog
        self.native, self.reference = NativeEngine(batches=batches, flags=QUICK), ReferenceEngine()
        for name, sql in views.items():
            self.create(name, sql, contents or {})

    def create(self, name: str, sql: str, contents: Mapping[str, Bag]) -> None:
        """The same view in both."""
        query = compile_query(sql, self.catalog)
        rows = {table: contents.get(table, {}) for table in self.catalog}
        for engine in (self.native, self.reference):
            engine.create(name, query, self.catalog, rows, "auto")

    def apply(self, table: str, changes: Sequence[Change], granularity: Granularity) -> bool:
        """Apply a step to both; was it accepted?"""
        refused: list[bool] = []
        for engine in (self.native, self.reference):
            try:
                engine.apply(table, changes, granularity, frozenset())
                refused.append(False)
            except ValueRangeError:
                refused.append(True)
        assert refused[0] == refused[1], f"refused by native, reference: {refused}, {table}: {changes[:3]}"
        return not refused[0]

    def check(self, *, maps: bool = True) -> None:
        """Every view, and every map, has the same contents.

        Engines with other access paths may choose another strategy: then there is no map to compare.
        """
        program = self.reference.program
        for name in program.maps if maps and program.maps == self.native.program.maps else ():
            native_map, reference_map = dict(self.native.contents(name)), dict(self.reference.contents(name))
            assert native_map == reference_map, f"map {name}: native {native_map}, reference {reference_map}"
        for name in program.views:
            native, reference = self._output(self.native, name), self._output(self.reference, name)
            assert native == reference, f"view {name}: native {native}, reference {reference}"

    @staticmethod
    def _output(engine: NativeEngine | ReferenceEngine, name: str) -> Bag | str:
        try:
            return engine.output(name)
        except ValueRangeError:
            return "out of range"


def agree(
    ddl: str,
    views: Mapping[str, str],
    stream: Iterable[Batch],
    granularity: Granularity,
    *,
    every: int = 1,
    batches: Batches = "all",
) -> Pair:
    """Replay a stream through both engines, comparing after every ``every`` steps and at the end."""
    catalog = catalog_of(ddl)
    pair = Pair(catalog, views, batches=batches)
    pair.check()
    for i, (table, changes) in enumerate(steps_of(catalog, stream)):
        pair.apply(table, changes, granularity)
        if i % every == 0:
            pair.check()
    pair.check()
    return pair
