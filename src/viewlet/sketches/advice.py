"""What the store can say about an attribute before a sketch on it is captured."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Advice:
    """One column: may a sketch be on it, why, how many of its ranges the query needs, what that gains."""

    table: str
    attribute: str
    safe: bool
    reason: str
    estimated_fragments: int | None = None
    ranges: int | None = None

    @property
    def estimated_gain(self) -> float | None:
        """How many times fewer rows are read, with ranges of equally many rows."""
        if self.estimated_fragments is None or self.ranges is None:
            return None
        return self.ranges / max(self.estimated_fragments, 1)
