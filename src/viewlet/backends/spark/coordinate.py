"""The driver's part: blocks in order, its own statements, and the exchange of relations between sites.

Every exchange passes through the driver, as pieces that it does not look into: a sender cuts a relation by
the partitioning, the driver hands each piece on with the next step, and the receiver adds them up.

A batch may change several tables, whose triggers run one after the other. The last block that one of them
runs in the partitions and the first of the next go there in one job, unless the driver has work in between:

    customer 1 | customer 2, orders 1 | orders 2, lineitem 1, read

The last job also reads what views are made of that were read after the batch before. A batch that fails
anywhere is taken back everywhere.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import methodcaller
from typing import Protocol, TypeAlias

from viewlet.backends.base import Bag, Row
from viewlet.backends.spark.exchange import Entries, partition_of
from viewlet.backends.spark.fuse import reads
from viewlet.backends.spark.native import SiteCode
from viewlet.backends.spark.nodes import (
    Block,
    Dist,
    DistTrigger,
    Random,
    Replicated,
    Transfer,
    segments,
    view_maps,
)
from viewlet.backends.spark.replay import Replayed
from viewlet.backends.spark.shares import deal_out
from viewlet.backends.spark.site import (
    NO_CHANGES,
    Changes,
    Given,
    Held,
    Piece,
    Pieces,
    Sent,
    Step,
    Wanted,
    read_site,
    run_steps,
)
from viewlet.triggers.program import View

SMALL_MAP = 20_000
"""A map with more entries is not read before somebody asks for it."""


class Cluster(Protocol):
    """Partitions somewhere, each a :class:`~viewlet.backends.spark.site.Site`."""

    partitions: int

    def run(self, steps: Sequence[Sequence[Step]], wanted: Wanted) -> list[Given]:
        """Run steps in every partition, then read what is wanted; raises what a partition raises."""

    def abort(self) -> None:
        """Take back, in every partition, what the last batch has written there."""

    def load(self, contents: Sequence[Pieces]) -> None:
        """Give every partition its entries."""

    def read(self, wanted: Wanted) -> list[Held]:
        """Read in every partition."""

    def close(self) -> None:
        """Give up the state."""


class SimulatedCluster:
    """Partitions in this process: what a cluster does, without one."""

    def __init__(self, code: SiteCode, partitions: int) -> None:
        self.partitions = partitions
        self._code = code
        self._sites: list[Replayed] = [Replayed(code.open) for _ in range(partitions)]
        self._batch = -1

    def run(self, steps: Sequence[Sequence[Step]], wanted: Wanted) -> list[Given]:
        """Run steps in every partition, then read what is wanted."""
        if steps[0][0].batch != self._batch:
            self._batch = steps[0][0].batch
            for site in self._sites:
                site.keep()
        todo = partial(run_steps, program=self._code.program, partitions=self.partitions, wanted=wanted)
        return [site.do(partial(todo, steps=own)) for site, own in zip(self._sites, steps, strict=True)]

    def abort(self) -> None:
        """Take back what the last batch has written."""
        for site in self._sites:
            site.undo()

    def load(self, contents: Sequence[Pieces]) -> None:
        """Give every partition its entries."""
        for site, own in zip(self._sites, contents, strict=True):
            site.load(own)

    def read(self, wanted: Wanted) -> list[Held]:
        """Read in every partition."""
        return [read_site(site.site, self._code.program, wanted) for site in self._sites]

    def close(self) -> None:
        """Give up the state."""
        self._sites = []


Handed: TypeAlias = dict[tuple[str, int | None], list[list[Piece]]]
# A trigger on its way: yields the steps of a block of the partitions, gets what they hand over.
Running: TypeAlias = Generator[list[Step], list[Sent], None]


class Coordinator:
    """Runs a distributed program on a cluster, with the driver's own site."""

    def __init__(self, driver: SiteCode, partition: SiteCode, cluster: Cluster) -> None:
        self._program = driver.program
        self._code, self._partition, self.cluster = driver, partition, cluster
        self._driver = Replayed(driver.open)
        self._batch = 0
        self._copies: dict[str, list[Piece]] = {}
        self._tops: dict[str, list[Bag]] = {}
        self._read: tuple[set[str], set[str]] = set(), set()  # maps, and views of which the first rows
        self._suspect = False

    def load(self, contents: Mapping[str, Entries]) -> None:
        """Hold exactly these entries, each where its map belongs."""
        size = self.cluster.partitions
        parts: list[dict[str, list[Piece]]] = [{} for _ in range(size)]
        here: dict[str, list[Piece]] = {}
        for name, entries in contents.items():
            match self._program.placement[name]:
                case Dist(position):
                    cut: list[Entries] = [{} for _ in range(size)]
                    for key, number in entries.items():
                        cut[partition_of(key[position], size)][key] = number
                    for part, own in zip(parts, cut, strict=True):
                        part[name] = [self._partition.piece(name, own)]
                case Replicated():
                    here[name] = [self._code.piece(name, entries)]
                    for part in parts:
                        part[name] = [self._partition.piece(name, entries)]
                case _:
                    here[name] = [self._code.piece(name, entries)]
        self._driver.load(here)
        self.cluster.load(parts)

    def apply(self, batch: Sequence[tuple[str, Changes]], published: Sequence[str] = ()) -> None:
        """Run changes of tables through their triggers in order, all of it or nothing.

        A table without a trigger for batches takes its rows one by one. Refuses a batch after which one of
        the ``published`` views could not be read.
        """
        todo = [part for table, changes in batch for part in self._parts(table, changes)]
        if not todo:
            return
        reached = self._batch
        self._suspect = False
        try:
            self._jobs(todo)
            self._check(published)
        except BaseException:
            self._copies, self._tops = {}, {}  # they may be of the batch that never was
            self._driver.undo()
            if self._batch > reached:
                self.cluster.abort()
            raise
        self._driver.keep()

    def _check(self, published: Sequence[str]) -> None:
        suspect = self._driver.site.suspect() or self._suspect
        for view in published:
            when = (self._partition if view in self._program.tops else self._code).check_of(view)
            if when == "always" or (when == "guarded" and suspect):
                self.rows(view)

    def in_batches(self, table: str) -> bool:
        """Is there a trigger for batches of a table, so that its rows need not come one by one?"""
        return table not in self._program.tuple

    def _parts(self, table: str, changes: Changes) -> list[tuple[str, Changes]]:
        if table in self._program.batch:
            return [(table, changes)]
        if table not in self._program.tuple:
            return []
        assert isinstance(changes.rows, Sequence)
        assert isinstance(changes.weights, Sequence)
        return [
            (table, Changes([row], [weight]))
            for row, weight in zip(changes.rows, changes.weights, strict=True)
        ]

    # Jobs

    def _jobs(self, todo: Sequence[tuple[str, Changes]]) -> None:
        """Run triggers in order, steps of several in one job where they may be."""
        waiting = list(todo)
        open_: list[tuple[DistTrigger, Running, list[Step], int]] = []
        batch = self._batch + 1
        while waiting or open_:
            while waiting and self._may_join(waiting[0][0], open_):
                table, changes = waiting.pop(0)
                running = self._trigger(batch, table, changes)
                steps = next(running, None)
                if steps is not None:
                    open_.append((self._program.trigger(table), running, steps, 1))
            if open_:
                open_ = self._job(batch, open_, last=not waiting)

    def _may_join(self, table: str, open_: Sequence[tuple[DistTrigger, Running, list[Step], int]]) -> bool:
        """May a trigger begin while others wait for the partitions?

        If these are at their last block there, and what the driver does after that has nothing to do with
        what it does for the trigger before its first.
        """
        maps = frozenset(self._program.maps)
        head = _Footprint.of(_before(self._program.trigger(table)), maps)
        return all(
            trigger.table != table
            and stage == trigger.stages
            and head.is_apart(_Footprint.of(_after(trigger), maps))
            for trigger, _, _, stage in open_
        )

    def _job(
        self, batch: int, open_: Sequence[tuple[DistTrigger, Running, list[Step], int]], last: bool
    ) -> list[tuple[DistTrigger, Running, list[Step], int]]:
        """Run the waiting steps, and every trigger on to its next."""
        final = last and all(stage == trigger.stages for trigger, _, _, stage in open_)
        wanted = self._wanted() if final else Wanted()
        self._batch, self._copies, self._tops = batch, {}, {}
        size = self.cluster.partitions
        answers = self.cluster.run([[steps[p] for _, _, steps, _ in open_] for p in range(size)], wanted)
        self._suspect |= any(answer.suspect for answer in answers)
        left: list[tuple[DistTrigger, Running, list[Step], int]] = []
        for i, (trigger, running, _, stage) in enumerate(open_):
            try:
                steps = running.send([answer.sent[i] for answer in answers])
            except StopIteration:
                continue
            left.append((trigger, running, steps, stage + 1))
        if final:
            self._copies = {name: [answer.held.maps[name] for answer in answers] for name in wanted.maps}
            self._tops = {
                view: [answer.held.tops[view] for answer in answers]
                for view in wanted.tops
                if all(view in answer.held.tops for answer in answers)
            }
            self._read = set(), set()
        return left

    def _wanted(self) -> Wanted:
        """What was read after the batch before."""
        maps, tops = self._read
        return Wanted(tuple(sorted(maps)), tuple(sorted(tops)))

    def _trigger(self, batch: int, table: str, changes: Changes) -> Running:
        """The blocks of a trigger: the driver's are run, those of the partitions are asked for."""
        trigger = self._program.trigger(table)
        size = self.cluster.partitions
        inbox: list[dict[str, list[Piece]]] = [{} for _ in range(size)]
        handed: Handed = {}
        self._driver.do(methodcaller("begin", table, changes), len(changes))
        shares: list[Changes | None] = [*self._shares(table, changes)]
        for index, block in enumerate(trigger.blocks):
            if block.mode == "distributed":
                sent = yield [Step(batch, table, index, inbox[p], shares[p]) for p in range(size)]
                shares = [None] * size
                handed |= {what: [own[what] for own in sent] for what in trigger.sent(index)}
                inbox = [{} for _ in range(size)]
                continue
            for number, segment in enumerate(segments(block, self._program.maps)):
                if isinstance(segment, Transfer):
                    self._transfer(table, segment, handed, inbox)
                else:
                    self._driver.do(methodcaller("compute", table, index, number))

    def _transfer(
        self, table: str, transfer: Transfer, handed: Handed, inbox: list[dict[str, list[Piece]]]
    ) -> None:
        position, target = transfer.position, transfer.target
        if transfer.origin == "distributed":
            senders = handed[transfer.source, position]
        else:
            senders = [self._driver.site.send(table, transfer.source, position, len(inbox))]
        if transfer.movement == "Gather":
            pieces = [sent[0] for sent in senders if len(sent[0])]
            self._driver.do(methodcaller("receive", table, target, pieces), sum(map(len, pieces)))
            return
        for number, box in enumerate(inbox):
            at = 0 if transfer.movement == "Broadcast" else number
            box[target] = [sent[at] for sent in senders if len(sent[at])]

    def _shares(self, table: str, changes: Changes) -> list[Changes]:
        """What partitions get: a single row, or the rows of a batch that are dealt to them, or none."""
        size = self.cluster.partitions
        if table in self._program.tuple:
            return [changes] * size
        dealt = self._program.trigger(table).dealt
        if dealt is not None:
            return deal_out(changes, self._program.tables[table], dealt, size)
        if not isinstance(self._program.changes_at, Random):
            return [NO_CHANGES] * size
        assert isinstance(changes.rows, Sequence)
        assert isinstance(changes.weights, Sequence)
        return [Changes(changes.rows[p::size], changes.weights[p::size]) for p in range(size)]

    # Reading

    def view(self, name: str) -> View:
        """How a view is read."""
        return self._program.views[name]

    def rows(self, view: str) -> list[tuple[Row, int]]:
        """The rows of a view, of one that partitions read the first.

        What is elsewhere is gathered, unless it came with the last batch.
        """
        if view in self._program.tops:
            return self._first_rows(view)
        away = sorted(filter(self._is_away, view_maps(self._program.views[view])))
        missing = [name for name in away if name not in self._copies]
        if missing:
            parts = self.cluster.read(Wanted(maps=tuple(missing)))
            self._copies |= {name: [part.maps[name] for part in parts] for name in missing}
        copies = {name: self._copies[name] for name in away}
        self._read[0].update(name for name, pieces in copies.items() if sum(map(len, pieces)) <= SMALL_MAP)
        return self._driver.site.rows(view, copies)

    def _first_rows(self, view: str) -> list[tuple[Row, int]]:
        if view not in self._tops:
            self._tops[view] = [part.tops[view] for part in self.cluster.read(Wanted(tops=(view,)))]
        self._read[1].add(view)
        return [pair for bag in self._tops[view] for pair in bag.items()]

    def contents(self, names: Sequence[str]) -> dict[str, Entries]:
        """The whole contents of some maps, wherever they are."""
        away = [name for name in names if self._is_away(name)]
        here = self._driver.site.contents([name for name in names if name not in away])
        found = {name: self._code.entries(name, piece) for name, piece in here.items()}
        for part in self.cluster.read(Wanted(maps=tuple(away))) if away else ():
            for name, piece in part.maps.items():
                found.setdefault(name, {}).update(self._partition.entries(name, piece))
        return found

    def _is_away(self, name: str) -> bool:
        return isinstance(self._program.placement[name], Dist)

    def close(self) -> None:
        """Give up the state, here and in the partitions."""
        self.cluster.close()


@dataclass(frozen=True, slots=True)
class _Footprint:
    """What the driver reads and writes in some blocks."""

    read: frozenset[str]
    written: frozenset[str]

    @classmethod
    def of(cls, blocks: Sequence[Block], maps: frozenset[str]) -> _Footprint:
        """The maps among it: relations belong to one trigger."""
        statements = [statement for block in blocks for statement in block.statements]
        read = frozenset(name for statement in statements for name in reads(statement))
        return cls(read & maps, maps.intersection(statement.target for statement in statements))

    def is_apart(self, other: _Footprint) -> bool:
        """Does neither write what the other reads or writes?"""
        mine, theirs = self.read | self.written, other.read | other.written
        return not (self.written & theirs or other.written & mine)


def _before(trigger: DistTrigger) -> tuple[Block, ...]:
    """The driver's blocks before the partitions are first needed; all, if they never are."""
    modes = [block.mode for block in trigger.blocks]
    return trigger.blocks[: modes.index("distributed")] if "distributed" in modes else trigger.blocks


def _after(trigger: DistTrigger) -> tuple[Block, ...]:
    """The driver's blocks after the partitions were last needed."""
    modes = [block.mode for block in trigger.blocks]
    return trigger.blocks[len(modes) - modes[::-1].index("distributed") :]
