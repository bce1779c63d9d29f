"""Distributed programs: where relations are, how they move, and the blocks in which statements run.

=================  =====================================================================================
location           where the entries of a relation are
=================  =====================================================================================
``Local``          on the driver
``Dist(i)``        in the partition that the value of key ``i`` is assigned to
``Random``         in some partition: the rows of a batch as they arrive, and partial sums over them
``Replicated``     on the driver and in every partition
=================  =====================================================================================

A distributed trigger is in single transformer form: a statement either computes a relation from relations
that are already where it runs (:class:`Compute`), or moves one relation (:class:`Transfer`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from viewlet.calculus.nodes import Argument, Exists, Extremum, Lift, MapRef, Query
from viewlet.plan import nodes as plan
from viewlet.sql.catalog import Table
from viewlet.triggers.program import MapDefinition, View


@dataclass(frozen=True, slots=True)
class Local:
    """On the driver."""


@dataclass(frozen=True, slots=True)
class Dist:
    """Partitioned by the value of the key at this position."""

    position: int


@dataclass(frozen=True, slots=True)
class Random:
    """In some partition, nobody knows which."""


@dataclass(frozen=True, slots=True)
class Replicated:
    """Everywhere."""


Location: TypeAlias = Local | Dist | Random | Replicated
Mode: TypeAlias = Literal["local", "distributed"]
Movement: TypeAlias = Literal["Repart", "Scatter", "Gather", "Broadcast"]


@dataclass(frozen=True, slots=True)
class Compute:
    """``target[keys] op query``, on the driver or at once in every partition.

    ``+=`` adds to a map, ``:=`` replaces the contents of a map or of a relation of this batch.
    """

    mode: Mode
    target: str
    keys: tuple[Argument, ...]
    op: Literal["+=", ":="]
    query: Query


@dataclass(frozen=True, slots=True)
class Transfer:
    """``target := movement(source)``; ``position`` is the key to partition by, for Repart and Scatter.

    ``Broadcast`` copies to every partition, from the driver or from all partitions.
    """

    movement: Movement
    target: str
    source: str
    position: int | None
    origin: Mode

    @property
    def mode(self) -> Mode:
        """Transfers are led by the driver."""
        return "local"


DistStatement: TypeAlias = Compute | Transfer


@dataclass(frozen=True, slots=True)
class Block:
    """Statements that run without a pause in one place: on the driver, or in every partition."""

    mode: Mode
    statements: tuple[DistStatement, ...]


Segment: TypeAlias = tuple[Compute, ...]


@dataclass(frozen=True, slots=True)
class Dealt:
    """Rows of a batch go from the driver to the partitions that a column tells, with these columns only."""

    column: str
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DistTrigger:
    """What a batch (or one row) of a table does, block after block.

    ``dealt`` says which rows partitions have; without it, what ``changes_at`` of the program says.
    """

    table: str
    blocks: tuple[Block, ...]
    dealt: Dealt | None = None

    def sent(self, index: int) -> tuple[tuple[str, int | None], ...]:
        """What a block of the partitions hands over: relations, whole or cut by the key at a position."""
        made = {statement.target for statement in self.blocks[index].statements}
        later = (statement for block in self.blocks[index + 1 :] for statement in block.statements)
        taken = {
            (s.source, s.position)
            for s in later
            if isinstance(s, Transfer) and s.origin == "distributed" and s.source in made
        }
        return tuple(sorted(taken, key=lambda pair: (pair[0], pair[1] is not None, pair[1])))

    def relations(self) -> dict[str, Compute | Transfer]:
        """The relations of a batch, each with the statement that makes it."""
        return {
            statement.target: statement
            for block in self.blocks
            for statement in block.statements
            if isinstance(statement, Transfer) or statement.op == ":="
        }

    @property
    def stages(self) -> int:
        """How often all partitions have to work."""
        return sum(block.mode == "distributed" for block in self.blocks)

    @property
    def jobs(self) -> int:
        """Runs of stages between which the driver itself has to compute.

        Partitions that exchange data with each other go on within a job; one that waits for what the driver
        makes of gathered data needs a new job.
        """
        jobs, running = 0, False
        gathered: set[str] = set()
        for block in self.blocks:
            if block.mode == "distributed":
                jobs += not running
                running = True
                continue
            for statement in block.statements:
                match statement:
                    case Transfer("Gather", target):
                        gathered.add(target)
                    case Transfer("Scatter" | "Broadcast", _, source, _, "local") if source in gathered:
                        running = False
                    case Compute(_, target, _, _, query) if relations(query) & gathered:
                        gathered.add(target)
        return jobs


@dataclass(frozen=True, slots=True)
class DistProgram:
    """Everything that the driver and the partitions need to keep some views fresh.

    ``changes_at`` is where batches arrive: whole on the driver, or dealt out at random. ``spread`` are the
    views that partitions read (``spread.py``), of some of them the first rows only (``tops``, ``top.py``);
    all others are read on the driver.
    """

    changes_at: Local | Random
    tables: Mapping[str, Table]
    maps: Mapping[str, MapDefinition]
    placement: Mapping[str, Location]
    batch: Mapping[str, DistTrigger]
    tuple: Mapping[str, DistTrigger]
    views: Mapping[str, View]
    spread: frozenset[str] = frozenset()
    tops: Mapping[str, plan.Query] = field(default_factory=dict)

    def trigger(self, table: str) -> DistTrigger:
        """The trigger of a table: for batches, or where there is none, for single rows."""
        return self.batch[table] if table in self.batch else self.tuple[table]


def segments(block: Block, maps: Collection[str]) -> tuple[Segment | Transfer, ...]:
    """A block as computations in a row, and transfers where they have to be in between.

    What arrives comes first, since nothing before it in the block can read it; a relation that leaves goes
    last, since it is made once. A map that leaves does so where it stands: it may change in the block.
    """
    arriving: list[Transfer] = []
    between: list[Segment | Transfer] = []
    leaving: list[Transfer] = []
    run: list[Compute] = []
    for statement in block.statements:
        match statement:
            case Compute():
                run.append(statement)
            case Transfer(origin="distributed"):
                arriving.append(statement)
            case Transfer(source=source) if source in maps:
                between += [tuple(run), statement] if run else [statement]
                run = []
            case _:
                leaving.append(statement)
    between += [tuple(run)] if run else []
    return (*arriving, *between, *leaving)


def relations(query: Query) -> frozenset[str]:
    """The maps and relations that a query reads, nested ones included."""
    found: set[str] = set()
    for term in query:
        for factor in term.factors:
            match factor:
                case MapRef(name):
                    found.add(name)
                case Lift() | Extremum() | Exists():
                    found |= relations(factor.query)
    return frozenset(found)


def view_maps(view: View) -> frozenset[str]:
    """The maps that a view is read from."""
    return relations(tuple(part.term for part in view.output))
