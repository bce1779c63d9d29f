"""The driver's part: blocks in order, its own statements, and the exchange of relations between sites.

Every exchange passes through the driver, as pieces that it does not look into: a sender cuts a relation by
the partitioning, the driver hands each piece on with the next step, and the receiver adds them up.

A batch may change several tables, whose triggers run one after the other. The last block that one of them
runs in the partitions and the first of the next go there in one job, unless the driver has work in between:

    customer 1 | customer 2, orders 1 | orders 2, lineitem 1, read

The last job also reads the views that were read after the batch before, or what they are made of, and what
has changed in views that are followed. A batch that fails anywhere is taken back everywhere.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import methodcaller
from typing import Literal, TypeAlias, cast

from viewlet.backends.base import Row
from viewlet.backends.spark.cluster import Cluster
from viewlet.backends.spark.exchange import Entries, partition_of
from viewlet.backends.spark.join import may_join
from viewlet.backends.spark.native import SiteCode
from viewlet.backends.spark.nodes import (
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
    ColumnSite,
    Held,
    Piece,
    Runs,
    Sent,
    Step,
    Wanted,
)
from viewlet.triggers.program import View

SMALL_MAP = 20_000
"""A map with more entries is not read before somebody asks for it."""


Handed: TypeAlias = dict[tuple[str, int | None], list[list[Piece]]]
# A trigger on its way: yields the steps of a block of the partitions, gets what they hand over.
Running: TypeAlias = Generator[list[Step], list[Sent], None]
# A trigger that waits for the partitions: with these steps, its so-and-so-many-th stage there.
_Open: TypeAlias = tuple[DistTrigger, Running, list[Step], int]
What: TypeAlias = Literal["maps", "rows", "columns", "changes"]


class Coordinator:
    """Runs a distributed program on a cluster, with the driver's own site."""

    def __init__(self, driver: SiteCode, partition: SiteCode, cluster: Cluster) -> None:
        self._program = driver.program
        self._code, self._partition, self.cluster = driver, partition, cluster
        self._driver = Replayed(driver.open)
        self._batch = 0
        self._held: list[Held] = []  # what partitions gave since the last batch
        self._asked = _Asked()
        self._followed: frozenset[str] = frozenset()
        self._noting = self._ever_noted = False
        self._unsaid: tuple[str, ...] | None = None
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
            self._forget()  # it may be of the batch that never was
            self._driver.undo()
            if self._batch > reached:
                self.cluster.abort()
            raise
        self._driver.keep()

    def _check(self, published: Sequence[str]) -> None:
        suspect = self._driver.site.suspect() or self._suspect
        for view in published:
            when = self._code_of(view).check_of(view)
            if when == "always" or (when == "guarded" and suspect):
                self._require_readable(view)

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
        open_: list[_Open] = []
        batch = self._batch + 1
        goes_on = self._noting and self._unsaid is None and bool(self._followed)
        self._forget()
        self._begin_noting()
        while waiting or open_:
            while waiting and self._may_join(waiting[0][0], open_):
                table, changes = waiting.pop(0)
                running = self._trigger(batch, table, changes)
                steps = next(running, None)
                if steps is not None:
                    open_.append((self._program.trigger(table), running, steps, 1))
            if open_:
                open_ = self._job(batch, open_, not waiting, goes_on)

    def _may_join(self, table: str, open_: Sequence[_Open]) -> bool:
        """May a trigger begin while others wait for the partitions? See ``join.py``."""
        at_last = all(stage == trigger.stages for trigger, _, _, stage in open_)
        own = self._program.trigger(table)
        return at_last and may_join(own, [trigger for trigger, *_ in open_], self._program.maps)

    def _job(
        self,
        batch: int,
        open_: Sequence[_Open],
        last: bool,
        goes_on: bool,
    ) -> list[_Open]:
        """Run the waiting steps, and every trigger on to its next."""
        final = last and all(stage == trigger.stages for trigger, _, _, stage in open_)
        wanted = self._wanted() if final else Wanted()
        self._batch, size = batch, self.cluster.partitions
        rounds = [[steps[p] for _, _, steps, _ in open_] for p in range(size)]
        answers = self.cluster.run(rounds, wanted, self._unsaid, goes_on)
        self._unsaid = None
        self._suspect |= any(answer.suspect for answer in answers)
        left: list[_Open] = []
        for i, (trigger, running, _, stage) in enumerate(open_):
            try:
                steps = running.send([answer.sent[i] for answer in answers])
            except StopIteration:
                continue
            left.append((trigger, running, steps, stage + 1))
        if final:
            self._held = [answer.held for answer in answers]
            self._asked = _Asked()
        return left

    def _wanted(self) -> Wanted:
        """What was read after the batch before, and what has changed in the views that are followed."""
        maps, rows, columns = map(tuple, map(sorted, self._asked.all()))
        return Wanted(maps, rows, columns, tuple(sorted(self._followed & self._program.spread)))

    # Following

    def tells(self, view: str) -> bool:
        """Can the changes of a view be told without comparing all its rows? If it is read in one place."""
        program = self._program
        in_place = view in program.spread or not any(map(self._is_away, view_maps(program.views[view])))
        return in_place and self._code_of(view).tells(view)

    def follow(self, views: Collection[str]) -> None:
        """Note from the next batch on what changes in these views, and forget what was noted."""
        self._followed, self._noting = frozenset(views), False

    def _begin_noting(self) -> None:
        """Say once what is followed: to the site of the driver now, to the partitions when they run."""
        if self._noting or not (self._followed or self._ever_noted):
            return
        self._noting = self._ever_noted = True
        spread = self._program.spread
        cast(ColumnSite, self._driver.site).follow(self._followed - spread)
        self._unsaid = tuple(sorted(self._followed & spread))

    def changes(self, view: str) -> list[Runs]:
        """What has changed in a view since it is followed, in columns; some rows may cancel out."""
        if not self._noting:
            return []
        if view in self._program.spread:
            if self._unsaid is not None:
                return []  # partitions have not run since
            return [held.changes[view] for held in self._given("changes", view)]
        return [cast(ColumnSite, self._driver.site).changes(view)]

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
        """The rows of a view, of one with LIMIT the first that each partition has.

        What is elsewhere is gathered, unless it came with the last batch.
        """
        if view not in self._program.spread:
            return self._driver.site.rows(view, self._copies(view))
        bags = [held.rows[view] for held in self._given("rows", view)]
        if sum(map(len, bags)) <= SMALL_MAP:
            self._asked.rows.add(view)
        return [pair for bag in bags for pair in bag.items()]

    def columns(self, view: str) -> list[Runs]:
        """The rows of a view in columns, from native code."""
        if view not in self._program.spread:
            return [cast(ColumnSite, self._driver.site).columns(view, self._copies(view))]
        runs = [held.columns[view] for held in self._given("columns", view)]
        if sum(len(own[-1]) for own in runs) <= 8 * SMALL_MAP:  # a weight for each row
            self._asked.columns.add(view)
        return runs

    def _require_readable(self, view: str) -> None:
        """Raise what reading a view would raise; no row has to travel for it."""
        if view not in self._program.spread:
            self._driver.site.check(view, self._copies(view))
        elif not (self._is_held("rows", view) or self._is_held("columns", view)):
            self.cluster.read(Wanted(checks=(view,)))

    def _copies(self, view: str) -> dict[str, list[Piece]]:
        """The maps of a view that the driver does not have."""
        found = {}
        for name in filter(self._is_away, sorted(view_maps(self._program.views[view]))):
            found[name] = [held.maps[name] for held in self._given("maps", name)]
            if sum(map(len, found[name])) <= SMALL_MAP:
                self._asked.maps.add(name)
        return found

    def _is_held(self, what: What, name: str) -> bool:
        return bool(self._held) and all(name in getattr(held, what) for held in self._held)

    def _given(self, what: What, name: str) -> list[Held]:
        """What partitions hold of something: as the last batch brought it, or asked for now."""
        if not self._is_held(what, name):
            found = self.cluster.read(Wanted(**{what: (name,)}))
            self._held = self._held or [Held() for _ in found]
            for held, own in zip(self._held, found, strict=True):
                getattr(held, what).update(getattr(own, what))
        return self._held

    def _forget(self) -> None:
        """What partitions gave counts no more."""
        self._held = []

    def _code_of(self, view: str) -> SiteCode:
        """The code of the sites that read a view."""
        return self._partition if view in self._program.spread else self._code

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
class _Asked:
    """What was read since the last batch: it comes with the next."""

    maps: set[str] = field(default_factory=set)
    rows: set[str] = field(default_factory=set)
    columns: set[str] = field(default_factory=set)

    def all(self) -> tuple[set[str], set[str], set[str]]:
        """All of it."""
        return self.maps, self.rows, self.columns
