"""The Spark engine: the protocol of every engine, on partitions.

Views that are created in a row are distributed together when one of them is first used. A view that comes
later makes a new program, and the maps that stay move to it through the driver.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from viewlet.backends.base import ArrowChanges, Bag, Change, Granularity, MapStats, Strategy
from viewlet.backends.native.shown import view_columns
from viewlet.backends.reference.engine import difference
from viewlet.backends.spark.advice import advice
from viewlet.backends.spark.choose import choose_placement
from viewlet.backends.spark.cluster import Cluster, SparkCluster
from viewlet.backends.spark.coordinate import Coordinator
from viewlet.backends.spark.distribute import ALL, distribute
from viewlet.backends.spark.exchange import Entries, physical_rows
from viewlet.backends.spark.native import SiteCode, site_codes
from viewlet.backends.spark.nodes import DistProgram, Local
from viewlet.backends.spark.partition import PartitionCode
from viewlet.backends.spark.site import Changes, Runs
from viewlet.backends.spark.spread import find_spread
from viewlet.backends.spark.text import show_distributed
from viewlet.backends.spark.top import find_tops
from viewlet.calculus.evaluate import Key, Number, Tables, evaluate_query
from viewlet.plan.bags import consolidate, cut
from viewlet.plan.nodes import Query, Top
from viewlet.sql.catalog import Catalog
from viewlet.triggers.compile import Compiler
from viewlet.triggers.cost import Statistics
from viewlet.triggers.program import Program, View
from viewlet.triggers.reach import part_of
from viewlet.triggers.work import Ordered
from viewlet.workers import Traffic, Workers

PASSES = ALL
"""The optimizations of distributed programs, which benchmarks turn off."""


class SparkEngine:
    """An engine on partitions; see :class:`viewlet.backends.base.Engine`.

    ``cluster`` makes the partitions for the code of a program; ``partition_by`` declares columns to partition
    by, see :func:`viewlet.backends.spark.place.place`. Sites run native code, or without it on dicts.
    """

    def __init__(
        self,
        cluster: Callable[[SiteCode], Cluster],
        partition_by: Mapping[str, str] | None = None,
        *,
        native: bool = True,
    ) -> None:
        self._native = native
        self._compiler = Compiler(Catalog(), searches=True)
        self._make = cluster
        self._partition_by = dict(partition_by or {})
        self._queries: dict[str, Query] = {}
        self._rows: dict[str, int] = {}
        self._waiting: dict[str, Entries] = {}
        self._running: tuple[Program, Coordinator] | None = None
        self._stale = True
        self._version = 0
        self._read: dict[str, tuple[int, Bag]] = {}
        self._pending: list[tuple[str, Changes]] = []
        self._refused: list[Changes] = []

    @property
    def native(self) -> bool:
        """Do sites run native code?"""
        return self._native

    @property
    def program(self) -> Program:
        """The trigger program of all views."""
        return self._compiler.program()

    @property
    def searches(self) -> Ordered:
        """The ordered access paths that the program has."""
        return self._compiler.searches

    def create(
        self, name: str, query: Query, catalog: Catalog, contents: Mapping[str, Bag], strategy: Strategy
    ) -> None:
        """Compile a view; its maps are filled on the driver and spread when it is first used."""
        self._compiler.extend(catalog)
        rows = {table: len(bag) for table, bag in contents.items() if bag}
        self._compiler.statistics = Statistics(rows)
        added = self._compiler.add(name, query, strategy)
        store = Tables({table: catalog[table].column_names for table in contents}, contents)
        try:
            filled = {m.name: evaluate_query(m.definition, m.keys, store) for m in added}
        except BaseException:
            self._compiler.drop(name)
            raise
        self._rows |= rows
        self._waiting |= filled
        self._queries[name] = query
        self._stale = True

    def drop(self, name: str) -> None:
        """Forget a view, and the maps that only it needed."""
        del self._queries[name]
        self._read.pop(name, None)
        for gone in self._compiler.drop(name):
            self._waiting.pop(gone, None)
        self._stale = True
        if not self._queries:
            self.close()

    def apply(
        self, table: str, changes: Sequence[Change], granularity: Granularity, watched: frozenset[str]
    ) -> dict[str, Bag]:
        """Run the table's trigger over all partitions: once for the whole batch, or row by row.

        Nothing runs before somebody looks or the commit ends, see :meth:`check`: changes of several tables
        share jobs. So it is then that a batch is refused, all of it, and undoing it is left to nobody.
        """
        self._compiler.advance(table)
        if not changes:
            return {name: {} for name in watched}
        running = self._run()
        in_columns = self._native and granularity != "tuple" and running.in_batches(table)
        before = {name: self.output(name) for name in watched}
        own = [(table, batch) for batch in _batches(changes, granularity, in_columns) if len(batch)]
        if self._refused and own and self._refused[-1].is_opposite(own[0][1]):
            self._refused.pop()  # what never went through needs no way back
            return {name: {} for name in watched}
        self._refused.clear()
        self._pending += own
        if not watched and granularity != "tuple":
            return {}
        try:
            self._flush()
        except BaseException:
            del self._refused[len(self._refused) - len(own) :]
            raise
        try:
            after = {name: self.output(name) for name in watched}
        except BaseException:
            self._pending = [(table, batch.negated()) for _, batch in reversed(own)]
            self._flush()
            raise
        return {name: difference(before[name], after[name]) for name in watched}

    def check(self, names: Collection[str]) -> None:
        """Run what was put off: the tables of a commit go through the partitions together.

        Refuses a batch after which one of these views could not be read.
        """
        self._flush(sorted(names))

    def _flush(self, published: Sequence[str] = ()) -> None:
        pending, self._pending = self._pending, []
        if pending and self._running is not None:
            try:
                self._running[1].apply(pending, published)
            except BaseException:
                self._refused = [batch for _, batch in pending]
                raise
            finally:
                self._version += 1

    def output(self, name: str) -> Bag:
        """Read a view's rows: its maps are gathered and read on the driver, or its first rows are."""
        coordinator = self._run()
        self._flush()
        version, bag = self._read.get(name, (-1, {}))
        if version != self._version:
            names = tuple(column for column, _ in coordinator.view(name).columns)
            bag = cut(self._queries[name], names, consolidate(coordinator.rows(name)))
            self._read[name] = self._version, bag
        return dict(bag)

    def output_arrow(self, name: str) -> tuple[list[pa.Array], NDArray[np.int64]] | None:
        """The columns of a view's rows with their weights, as partitions or the driver have them.

        Nothing for a view that is cut, nor from code on dicts.
        """
        if not self._native or isinstance(self._queries[name].plan, Top):
            return None
        coordinator = self._run()
        self._flush()
        return self._columns(name, coordinator.columns(name))

    def count(self, name: str) -> int:
        """The number of rows of a view."""
        shown = self.output_arrow(name)
        return sum(self.output(name).values()) if shown is None else int(shown[1].sum())

    def tells(self, name: str) -> bool:
        """Can the partitions, or the driver, tell what changes in a view? Not of one that is cut."""
        plan = self._queries[name].plan
        whole = not isinstance(plan, Top) or (plan.limit is None and not plan.offset)
        return whole and self._run().tells(name)

    def follow(self, names: Iterable[str]) -> None:
        """Note from now on what changes in some views that can tell, and in no others."""
        self._run().follow(frozenset(names))

    def touched(self, name: str) -> int:
        """How many rows came or went in a view since it is followed; some may cancel out."""
        return len(self.changes_arrow(name)[1])

    def changes(self, name: str) -> Bag:
        """What has changed in a view since it is followed."""
        arrays, weights = self.changes_arrow(name)
        kinds = [var.type for _, var in self._queries[name].columns]
        return consolidate(zip(physical_rows(arrays, kinds), weights.tolist(), strict=True))

    def changes_arrow(self, name: str) -> tuple[list[pa.Array], NDArray[np.int64]]:
        """What has changed in a followed view, as columns with weights; some rows may cancel out."""
        coordinator = self._run()
        self._flush()
        return self._columns(name, coordinator.changes(name))

    def _columns(self, name: str, runs: Sequence[Runs]) -> tuple[list[pa.Array], NDArray[np.int64]]:
        """The columns of a view from what several sites have of it, in the order of its query."""
        view, query = self._run().view(name), self._queries[name]
        parts = [view_columns(view, query, own) for own in runs or [_no_runs(view)]]
        columns = zip(*(arrays for arrays, _ in parts), strict=True)
        return [pa.concat_arrays(own) for own in columns], np.concatenate([weights for _, weights in parts])

    def explain(self, name: str) -> str:
        """What keeping the view takes, and how it is spread; nothing runs for it."""
        own = part_of(self.program, name)
        spread = self._spread(own)
        return (
            f"{self._compiler.explain(name)}\n\n  on Spark, for a batch that the driver holds:\n\n"
            + "\n".join(f"  {line}" for line in show_distributed(own, spread).splitlines())
            + "\n\n"
            + "\n".join(f"  {line}" for line in advice(spread))
        )

    def obstacles(self, name: str) -> tuple[str, ...]:
        """Why the view is not incremental; nothing if it is."""
        return self._compiler.obstacles(name)

    def stats(self) -> list[MapStats]:
        """Records per map over all partitions; an entry is counted as 100 bytes plus 30 per key column."""
        if not self._queries:
            return []
        coordinator = self._run()
        self._flush()
        held = coordinator.contents(list(self.program.maps))
        widths = {name: len(definition.keys) for name, definition in self.program.maps.items()}
        return [
            MapStats(name, len(entries), len(entries) * (100 + 30 * widths[name]))
            for name, entries in held.items()
        ]

    def contents(self, name: str) -> Mapping[Key, Number]:
        """The entries of one map, wherever they are."""
        if name in self._waiting:
            return dict(self._waiting[name])
        coordinator = self._run()
        self._flush()
        return coordinator.contents([name])[name]

    def load(self, name: str, entries: Mapping[Key, Number]) -> None:
        """Add entries to one map: how a view gets back what it held of streams. Spread when next used."""
        held = dict(self.contents(name))
        for key, number in entries.items():
            held[key] = held.get(key, 0) + number
        self._waiting[name] = {key: number for key, number in held.items() if number}
        self._stale = True

    def traffic(self) -> Traffic | None:
        """What has passed between the driver and each partition; nothing before a batch has."""
        cluster = self._running[1].cluster if self._running is not None else None
        return cluster.workers.traffic if isinstance(cluster, SparkCluster) else None

    def close(self) -> None:
        """Give up the partitions."""
        if self._running is not None:
            self._running[1].close()
            self._running = None

    def _spread(self, program: Program) -> DistProgram:
        placement = choose_placement(program, self._rows, self._partition_by, Local())
        own = {name: query for name, query in self._queries.items() if name in program.views}
        spread = find_spread(program.views, placement)
        tops = find_tops(own, program.views, spread)
        return replace(distribute(program, placement, Local(), PASSES), spread=spread, tops=tops)

    def _run(self) -> Coordinator:
        """The present program on its partitions, spread anew if views came or went."""
        if self._running is not None and not self._stale:
            return self._running[1]
        self._flush()
        program = self.program
        held: dict[str, Entries] = {}
        if self._running is not None:
            old = self._running[0].maps
            held = self._running[1].contents([n for n in program.maps if n in old and n not in self._waiting])
        spread = self._spread(program)
        driver, partition = site_codes(spread, self._native)
        coordinator = Coordinator(driver, partition, self._make(partition))
        coordinator.load(held | self._waiting)
        self.close()
        self._running, self._waiting, self._stale = (program, coordinator), {}, False
        self._version += 1
        return coordinator


def on_spark(spark: Any, partitions: int | None = None) -> Callable[[SiteCode], Cluster]:
    """Makes partitions on a Spark session.

    As many as ``spark.viewlet.partitions`` says, by default as the session runs tasks at once.
    """
    context = spark.sparkContext
    count = partitions or int(spark.conf.get("spark.viewlet.partitions", str(context.defaultParallelism)))
    return lambda code: SparkCluster(Workers(spark, PartitionCode(code), count))


def _no_runs(view: View) -> Runs:
    """What a site without rows gives."""
    return [b""] * (3 * len(view.columns) + 1)


def _batches(changes: Sequence[Change], granularity: Granularity, in_columns: bool) -> list[Changes]:
    """The changes as one batch, in Arrow if they are and may stay there, or each row as one.

    Arrow data is copied: it is kept for the case that a batch fails, and may belong to somebody else.
    """
    if isinstance(changes, ArrowChanges) and in_columns:
        owned = changes.owned()
        return [Changes(in_cells(owned.batch), owned.weights)]
    pairs = [(change.row, change.weight) for change in changes if change.weight]
    if granularity == "tuple":
        return [Changes([row], [weight]) for row, weight in pairs]
    bag = consolidate(pairs)
    return [Changes(list(bag), list(bag.values()))]


def in_cells(batch: pa.RecordBatch) -> pa.RecordBatch:
    """A batch with the narrow numbers as wide as cells have them."""
    wider = [_WIDER.get(kind, kind) for kind in batch.schema.types]
    if wider == batch.schema.types:
        return batch
    return batch.cast(pa.schema(list(zip(batch.schema.names, wider, strict=True))))


_WIDER = {pa.int8(): pa.int32(), pa.int16(): pa.int32(), pa.float32(): pa.float64()}
