"""What every running operator is: three verbs, and a list of what it carries."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, Generic, TypeVar

from viewlet.signals.chunks import Chunk, PerKey, Values
from viewlet.signals.keys import KeySpaces

In = TypeVar("In", bound=Chunk)


class Operator(Generic[In]):
    """One step of a running query.

    ``feed`` takes a chunk of one input. ``advance(time)`` learns that no event before ``time`` will come on
    any input; ``flush`` that none will come at all. Each returns what has become final. The law that all
    operators obey: the rows returned over a whole run do not depend on how the input was cut into chunks,
    nor on the calls of ``advance``. ``carried`` names the attributes that a checkpoint must hold.
    """

    carried: ClassVar[tuple[str, ...]] = ()
    zero: Any = 0  # the missing sample, where samples are Python objects
    spaces = KeySpaces()  # the keys that there are

    def feed(self, chunk: In, side: int) -> Iterable[Chunk]:
        """Take a chunk of input ``side``."""
        raise NotImplementedError

    def advance(self, time: int) -> Iterable[Chunk]:
        """Learn that every event before ``time`` has been fed."""
        return ()

    def flush(self) -> Iterable[Chunk]:
        """Learn that every event has been fed."""
        return ()

    def horizon(self, time: int) -> int:
        """Up to where the output is complete once the input is complete up to ``time``."""
        return time

    def snapshot(self) -> dict[str, Any]:
        """What later chunks need."""
        return {name: getattr(self, name) for name in self.carried}

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Go on from a snapshot."""
        for name in self.carried:
            setattr(self, name, snapshot[name])


def reserved(state: PerKey, keys: Values) -> PerKey:
    """The state, with room for all of ``keys``."""
    if len(keys):
        state.reserve(int(keys.max()) + 1)
    return state
