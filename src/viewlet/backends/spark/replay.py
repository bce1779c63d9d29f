"""Sites that can be led back: what they held at some time, and every operation since.

Native code writes in place and keeps no journal, so a batch that fails somewhere is taken back by making the
site again from its last checkpoint. That is slow, but failures are rare, and it is right by construction:
a site is deterministic.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from viewlet.backends.spark.site import Pieces, Site

Operation: TypeAlias = Callable[[Site], Any]

LEAST_ENTRIES = 200_000


class Replayed:
    """A site with the operations of the present batch, and of those since the last checkpoint."""

    def __init__(self, make: Callable[[], Site]) -> None:
        self._make = make
        self.site = make()
        self._base: Pieces = {}
        self._since: list[Operation] = []
        self._present: list[Operation] = []
        self._entries = 0
        self._limit = LEAST_ENTRIES

    def load(self, contents: Pieces) -> None:
        """Hold exactly these entries; there is no way back from here."""
        self._base, self._since, self._present, self._entries = contents, [], [], 0
        self.site.load(contents)

    def do(self, operation: Operation, entries: int = 0) -> Any:
        """Carry out an operation of the present batch; it brings so many entries with it."""
        self._present.append(operation)
        self._entries += entries
        return operation(self.site)

    def keep(self) -> None:
        """The present batch went through."""
        self._since += self._present
        self._present = []
        if self._entries > self._limit:
            held = self.site.contents(None)
            self._limit = max(LEAST_ENTRIES, 2 * sum(map(len, held.values())))
            self._base, self._since, self._entries = {n: [piece] for n, piece in held.items()}, [], 0

    def undo(self) -> None:
        """Take back the present batch."""
        self._present = []
        self.site = self._make()
        self.site.load(self._base)
        for operation in self._since:
            operation(self.site)
