"""The Spark engine: the protocol of every engine, on partitions.

Views that are created in a row are distributed together when one of them is first used. A view that comes
later makes a new program, and the maps that stay move to it through the driver.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from viewlet.backends.base import Bag, Change, Granularity, MapStats, Row, Strategy
from viewlet.backends.reference.engine import difference
from viewlet.backends.reference.maps import ReferenceMap
from viewlet.backends.spark.choose import choose_placement
from viewlet.backends.spark.cluster import SparkCluster
from viewlet.backends.spark.coordinate import Cluster, Coordinator
from viewlet.backends.spark.distribute import distribute
from viewlet.backends.spark.nodes import DistProgram, Local, relations
from viewlet.backends.spark.site import Entries
from viewlet.backends.spark.text import show_distributed
from viewlet.calculus.evaluate import Compiler as QueryCompiler
from viewlet.calculus.evaluate import Env, Key, Number, Tables, evaluate_query
from viewlet.calculus.nodes import Delta, MapRef, Rel
from viewlet.core.types import Value
from viewlet.plan.evaluate import consolidate, cut
from viewlet.plan.nodes import Query
from viewlet.sql.catalog import Catalog
from viewlet.triggers.compile import Compiler
from viewlet.triggers.cost import Statistics
from viewlet.triggers.program import Program, View
from viewlet.triggers.reach import part_of


class SparkEngine:
    """An engine on partitions; see :class:`viewlet.backends.base.Engine`.

    ``cluster`` makes the partitions for a program; ``partition_by`` declares columns to partition by, see
    :func:`viewlet.backends.spark.place.place`.
    """

    def __init__(
        self, cluster: Callable[[DistProgram], Cluster], partition_by: Mapping[str, str] | None = None
    ) -> None:
        self._compiler = Compiler(Catalog())
        self._make = cluster
        self._partition_by = dict(partition_by or {})
        self._queries: dict[str, Query] = {}
        self._rows: dict[str, int] = {}
        self._waiting: dict[str, Entries] = {}
        self._running: tuple[Program, Coordinator] | None = None
        self._stale = True
        self._version = 0
        self._read: dict[str, tuple[int, Bag]] = {}

    @property
    def program(self) -> Program:
        """The trigger program of all views."""
        return self._compiler.program()

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

    def apply(
        self, table: str, changes: Sequence[Change], granularity: Granularity, watched: frozenset[str]
    ) -> dict[str, Bag]:
        """Run the table's trigger over all partitions: once for the whole batch, or row by row."""
        self._compiler.advance(table)
        coordinator = self._run()
        before = {name: self.output(name) for name in watched}
        pairs = [(change.row, change.weight) for change in changes if change.weight]
        batches = [dict([pair]) for pair in pairs] if granularity == "tuple" else [consolidate(pairs)]
        done: list[dict[Row, int]] = []
        try:
            for batch in batches:
                coordinator.apply(table, batch)
                done.append(batch)
                self._version += 1
            after = {name: self.output(name) for name in watched}
        except BaseException:
            for batch in reversed(done):
                coordinator.apply(table, {row: -weight for row, weight in batch.items()})
            self._version += 1
            raise
        return {name: difference(before[name], after[name]) for name in watched}

    def output(self, name: str) -> Bag:
        """Read a view's rows: its maps are gathered, and read on the driver."""
        version, bag = self._read.get(name, (-1, {}))
        if version != self._version:
            view = self.program.views[name]
            maps = relations(tuple(part.term for part in view.output))
            if maps <= self._waiting.keys():  # just created: no need to spread it yet
                held = {m: self._waiting[m] for m in maps}
            else:
                held = self._run().contents(sorted(maps))
            bag = read_view(view, self._queries[name], held)
            self._read[name] = self._version, bag
        return dict(bag)

    def explain(self, name: str) -> str:
        """What keeping the view takes, and how it is spread; nothing runs for it."""
        own = part_of(self.program, name)
        spread = self._spread(own)
        return (
            f"{self._compiler.explain(name)}\n\n  on Spark, for a batch that the driver holds:\n\n"
            + "\n".join(f"  {line}" for line in show_distributed(own, spread).splitlines())
        )

    def obstacles(self, name: str) -> tuple[str, ...]:
        """Why the view is not incremental; nothing if it is."""
        return self._compiler.obstacles(name)

    def stats(self) -> list[MapStats]:
        """Records per map over all partitions; an entry is counted as 100 bytes plus 30 per key column."""
        coordinator = self._run()
        held = coordinator.contents(list(self.program.maps))
        widths = {name: len(definition.keys) for name, definition in self.program.maps.items()}
        return [
            MapStats(name, len(entries), len(entries) * (100 + 30 * widths[name]))
            for name, entries in held.items()
        ]

    def contents(self, name: str) -> Mapping[Key, Number]:
        """The entries of one map, for tests and the curious."""
        return self._run().contents([name])[name]

    def close(self) -> None:
        """Give up the partitions."""
        if self._running is not None:
            self._running[1].close()
            self._running = None

    def _spread(self, program: Program) -> DistProgram:
        placement = choose_placement(program, self._rows, self._partition_by, Local())
        return distribute(program, placement, Local())

    def _run(self) -> Coordinator:
        """The present program on its partitions, spread anew if views came or went."""
        if self._running is not None and not self._stale:
            return self._running[1]
        program = self.program
        held: dict[str, Entries] = {}
        if self._running is not None:
            old = self._running[0].maps
            held = self._running[1].contents([n for n in program.maps if n in old and n not in self._waiting])
        spread = self._spread(program)
        coordinator = Coordinator(spread, self._make(spread))
        coordinator.load(held | self._waiting)
        self.close()
        self._running, self._waiting, self._stale = (program, coordinator), {}, False
        self._version += 1
        return coordinator


def on_spark(spark: Any, partitions: int | None = None) -> Callable[[DistProgram], Cluster]:
    """Makes partitions on a Spark session, by default as many as it runs tasks at once."""
    count = partitions or spark.sparkContext.defaultParallelism
    return lambda program: SparkCluster(spark, program, count)


def read_view(view: View, query: Query, contents: Mapping[str, Entries]) -> Bag:
    """The rows of a view, from the contents of its maps."""
    store = _Maps(contents)
    pairs: list[tuple[Row, int]] = []
    for part in view.output:
        compiler = QueryCompiler(store)
        readers = [compiler.scalar(scalar) for scalar in part.row]

        def emit(env: Env, weight: Number, readers: list[Callable[[Env], Value]] = readers) -> None:
            pairs.append((tuple([reader(env) for reader in readers]), int(weight)))

        run = compiler.term(part.term, frozenset(), emit)
        run(compiler.environment({}), 1)
    return cut(query, tuple(column for column, _ in view.columns), consolidate(pairs))


class _Maps:
    """A store of maps that are read once."""

    def __init__(self, contents: Mapping[str, Entries]) -> None:
        self._maps: dict[str, ReferenceMap] = {}
        for name, entries in contents.items():
            self._maps[name] = ReferenceMap()
            self._maps[name].replace(entries)

    def lookup(
        self, atom: Rel | Delta | MapRef, bound: tuple[int, ...]
    ) -> Callable[[Key], Iterable[tuple[Key, Number]]]:
        """See :class:`viewlet.calculus.evaluate.Store`."""
        assert isinstance(atom, MapRef), "views read maps"
        return self._maps[atom.name].lookup(bound, len(atom.keys))
