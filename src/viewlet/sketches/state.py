"""What a sketch remembers so that it can follow changes: kept by operators, or by compiled triggers.

*operators* (``operators/``) let the database join and sum up changes, and keep groups in this process.
*native* (``compiled.py``) is the sketch as a view: the annotated query compiled to native triggers, which
keep everything in this process and ask the database for nothing but the changed rows; of a top-k what is
below it, with operators above (``streamed.py``). *reference* is the same without a C compiler.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal, Protocol, TypeAlias

from viewlet.plan.nodes import Plan, Query
from viewlet.sketches.capture import Fragments
from viewlet.sketches.operators.branch import Branch
from viewlet.sketches.operators.build import Builder
from viewlet.sketches.operators.leaf import Groups, Source
from viewlet.sketches.operators.merge import Merge
from viewlet.sketches.operators.reader import Reader
from viewlet.sketches.partition import Partition

Keep: TypeAlias = Literal["auto", "operators", "native", "reference"]
"""How the state of a sketch is kept; ``auto`` decides by the size of the tables."""


class State(Protocol):
    """The law: after ``load`` and every ``change`` since, ``fragments`` are those of the data as it is."""

    keep: Keep
    """What keeps it; never ``auto``."""

    needs_changes_alone: bool
    """Does it read nothing of the database but the staged changes?"""

    def load(self) -> None:
        """Start over from the data as it is."""

    def change(self, changed: frozenset[str]) -> None:
        """Follow the staged changes of these tables."""

    def fragments(self) -> Fragments:
        """The fragments of each partition."""

    def entries(self) -> int:
        """How much is remembered, in groups, rows and counters."""

    def explain(self) -> Iterator[str]:
        """How the state is kept, in sentences."""

    def saved(self) -> object:
        """The state as literals."""

    def restore(self, literal: Any) -> None:
        """Take over what was saved."""


class OperatorState:
    """Incremental operators below fragment counters."""

    keep: Keep = "operators"
    needs_changes_alone = False

    def __init__(
        self,
        query: Query,
        partitions: Sequence[Partition],
        reader: Reader,
        bound: int | None,
        optimize: bool,
    ) -> None:
        def source(plan: Plan, groups: Groups) -> Source:
            return Branch(plan, groups, partitions, reader, optimize)

        self._partitions, self._bound = partitions, bound
        self.root = Builder(len(partitions), reader, bound, source).root(query)
        self._merge = Merge(len(partitions))

    def load(self) -> None:
        """Fill the operators, then count."""
        self._merge = Merge(len(self._partitions))
        self._merge.add(self.root.load())

    def change(self, changed: frozenset[str]) -> None:
        """Through the operators into the counters."""
        self._merge.add(self.root.change(changed))

    def fragments(self) -> Fragments:
        """Those whose counter is not zero."""
        return [self._merge.fragments(place) for place in range(len(self._partitions))]

    def entries(self) -> int:
        """Those of all operators."""
        return self.root.entries()

    def explain(self) -> Iterator[str]:
        """The size, and what bounds it."""
        yield f"kept incrementally by operators: {self.entries()} entries of state"
        if self._bound is not None:
            yield f"buffers of MIN, MAX and top-k hold {self._bound} in reserve; used up, captured again"
        yield from self.root.explain()

    def saved(self) -> object:
        """Counters and the parts of every operator."""
        return [self._merge.counts, list(self.root.save())]

    def restore(self, literal: Any) -> None:
        """Counters and the parts of every operator."""
        counts, parts = literal
        self.root.restore(iter(parts))
        self._merge.counts = counts
