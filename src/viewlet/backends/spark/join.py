"""Which triggers of a batch share jobs: the last block of one in the partitions and the first of the next.

Then the driver begins with the next before it has ended the one before. So the order changes of what it does
*after* the last block of the one and *before* the first of the other, and these must commute.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from viewlet.backends.spark.fuse import reads
from viewlet.backends.spark.nodes import Block, DistTrigger


def may_join(trigger: DistTrigger, last: Sequence[DistTrigger], maps: Collection[str]) -> bool:
    """May a trigger begin while others wait for the partitions, with their last block there?

    If what the driver does after that has nothing to do with what it does for the trigger before its first.
    """
    head = _Footprint.of(_before(trigger), frozenset(maps))
    return all(
        other.table != trigger.table and head.is_apart(_Footprint.of(_after(other), frozenset(maps)))
        for other in last
    )


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
