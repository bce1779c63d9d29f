"""The driver's part: blocks in order, its own statements, and the exchange of relations between sites.

Every exchange passes through the driver: what partitions hand over with one step, it sums up, splits by the
partitioning, and hands out with the next. A batch that fails anywhere is taken back everywhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol
from zlib import crc32

from viewlet.backends.base import Row
from viewlet.backends.spark.nodes import Compute, Dist, DistProgram, Random, Replicated, Transfer
from viewlet.backends.spark.site import Entries, Relations, Site, Step
from viewlet.calculus.events import WEIGHT, TupleEvent
from viewlet.core.types import Value


class Cluster(Protocol):
    """Partitions somewhere; each holds a :class:`~viewlet.backends.spark.site.PartitionEngine`."""

    partitions: int

    def run(self, steps: Sequence[Step]) -> list[Relations]:
        """Run one step in every partition; raises what a partition raises."""

    def abort(self, batch: int) -> None:
        """Take back, in every partition, what a batch has written there."""

    def load(self, contents: Sequence[Mapping[str, Entries]]) -> None:
        """Give every partition its entries."""

    def contents(self, maps: Sequence[str]) -> list[dict[str, Entries]]:
        """The entries of some maps, partition by partition."""

    def close(self) -> None:
        """Give up the state."""


class SimulatedCluster:
    """Partitions in this process: what a cluster does, without one."""

    def __init__(self, program: DistProgram, partitions: int) -> None:
        self.partitions = partitions
        self._sites = [Site(program, "distributed") for _ in range(partitions)]

    def run(self, steps: Sequence[Step]) -> list[Relations]:
        """Run one step in every partition."""
        return [site.run(step) for site, step in zip(self._sites, steps, strict=True)]

    def abort(self, batch: int) -> None:
        """Take back what a batch has written."""
        for site in self._sites:
            site.abort(batch)

    def load(self, contents: Sequence[Mapping[str, Entries]]) -> None:
        """Give every partition its entries."""
        for site, own in zip(self._sites, contents, strict=True):
            site.load(own)

    def contents(self, maps: Sequence[str]) -> list[dict[str, Entries]]:
        """The entries of some maps, partition by partition."""
        return [{name: dict(site.maps[name].entries) for name in maps} for site in self._sites]

    def close(self) -> None:
        """Give up the state."""
        self._sites = []


class Coordinator:
    """Runs a distributed program on a cluster, with the driver's own site."""

    def __init__(self, program: DistProgram, cluster: Cluster) -> None:
        self._program, self._cluster = program, cluster
        self._driver = Site(program, "local")
        self._batch = 0

    def load(self, contents: Mapping[str, Entries]) -> None:
        """Hold exactly these entries, each where its map belongs."""
        parts: list[dict[str, Entries]] = [{} for _ in range(self._cluster.partitions)]
        for name, entries in contents.items():
            match self._program.placement[name]:
                case Dist(position):
                    for part, own in zip(parts, self._split(entries, position), strict=True):
                        part[name] = own
                case Replicated():
                    for part in parts:
                        part[name] = dict(entries)
                case _:
                    pass
        self._driver.load(contents)
        self._cluster.load(parts)

    def apply(self, table: str, changes: Mapping[Row, int]) -> None:
        """Run a batch through the table's trigger, all of it or nothing.

        A table without a trigger for batches takes its rows one by one.
        """
        if table in self._program.batch:
            self._atomic(table, False, changes, {})
        elif table in self._program.tuple:
            names = [var.name for var in TupleEvent(self._program.tables[table]).parameters]
            done: list[tuple[Row, int]] = []
            for row, weight in changes.items():
                try:
                    self._atomic(table, True, {}, _given(names, row, weight))
                except BaseException:
                    for old, undone in reversed(done):
                        self._atomic(table, True, {}, _given(names, old, -undone))
                    raise
                done.append((row, weight))

    def _atomic(
        self, table: str, by_row: bool, changes: Mapping[Row, int], given: Mapping[str, Value]
    ) -> None:
        self._batch += 1
        try:
            self._blocks(table, by_row, changes, given)
        except BaseException:
            self._driver.abort(self._batch)
            self._cluster.abort(self._batch)
            raise

    def _blocks(
        self, table: str, by_row: bool, changes: Mapping[Row, int], given: Mapping[str, Value]
    ) -> None:
        trigger = (self._program.tuple if by_row else self._program.batch)[table]
        size = self._cluster.partitions
        inbox: list[Relations] = [{} for _ in range(size)]
        handed: dict[str, list[Entries]] = {}
        begin = Step(self._batch, table, by_row, -1, {}, changes, given)
        self._driver.begin(begin)
        first = True
        shares = self._shares(changes)
        for index, block in enumerate(trigger.blocks):
            if block.mode == "distributed":
                steps = [
                    Step(self._batch, table, by_row, index, inbox[p], shares[p] if first else {}, given)
                    for p in range(size)
                ]
                for p, sent in enumerate(self._cluster.run(steps)):
                    for name, entries in sent.items():
                        handed.setdefault(name, [{} for _ in range(size)])[p] = entries
                inbox, first = [{} for _ in range(size)], False
                continue
            for statement in block.statements:
                if isinstance(statement, Compute):
                    self._driver.compute(begin, statement)
                else:
                    self._transfer(begin, statement, handed, inbox)

    def _transfer(
        self, step: Step, transfer: Transfer, handed: Mapping[str, list[Entries]], inbox: list[Relations]
    ) -> None:
        if transfer.origin == "distributed":
            whole = _sum(handed[transfer.source])
        else:
            whole = dict(self._driver.relation(step.table, step.by_row, transfer.source))
        match transfer.movement:
            case "Gather":
                self._driver.receive(step.table, step.by_row, transfer.target, whole)
            case "Broadcast":
                for box in inbox:
                    box[transfer.target] = whole
            case "Repart" | "Scatter":
                assert transfer.position is not None
                for box, own in zip(inbox, self._split(whole, transfer.position), strict=True):
                    box[transfer.target] = own

    def _shares(self, changes: Mapping[Row, int]) -> list[dict[Row, int]]:
        """A batch dealt out row by row, for programs whose changes arrive in the partitions."""
        shares: list[dict[Row, int]] = [{} for _ in range(self._cluster.partitions)]
        if isinstance(self._program.changes_at, Random):
            for i, (row, weight) in enumerate(changes.items()):
                shares[i % len(shares)][row] = weight
        return shares

    def _split(self, entries: Entries, position: int) -> list[Entries]:
        parts: list[Entries] = [{} for _ in range(self._cluster.partitions)]
        for key, number in entries.items():
            parts[partition_of(key[position], len(parts))][key] = number
        return parts

    def contents(self, names: Sequence[str]) -> dict[str, Entries]:
        """The whole contents of some maps, wherever they are."""
        away = [name for name in names if isinstance(self._program.placement[name], Dist)]
        found: dict[str, Entries] = {n: dict(self._driver.maps[n].entries) for n in names if n not in away}
        if away:
            for part in self._cluster.contents(away):
                for name, entries in part.items():
                    found.setdefault(name, {}).update(entries)
        return found

    def close(self) -> None:
        """Give up the state, here and in the partitions."""
        self._cluster.close()


def _sum(parts: Iterable[Entries]) -> Entries:
    whole: Entries = {}
    for part in parts:
        for key, number in part.items():
            whole[key] = whole.get(key, 0) + number
    return {key: number for key, number in whole.items() if number}


def _given(names: Sequence[str], row: Row, weight: int) -> dict[str, Value]:
    return dict(zip(names, row, strict=True)) | {WEIGHT.name: weight}


def partition_of(value: Value, partitions: int) -> int:
    """The partition of a value: equal values of any type go together, in every process alike.

    >>> partition_of(7, 4) == partition_of(7.0, 4), partition_of("x", 4), partition_of(None, 4)
    (True, 3, 0)
    """
    if value is None:
        return 0
    if isinstance(value, str):
        return crc32(value.encode("utf-8", "surrogatepass")) % partitions
    mixed = (hash(value) * 0x9E3779B97F4A7C15) >> 17
    return mixed % partitions
