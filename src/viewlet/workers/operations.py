"""What the driver says to a partition, and what it hears.

Operations are numbered. A partition that has carried out number ``n`` answers to ``n`` again with the same
answer, carries out ``n + 1``, and says to any other number that it is not where the driver thinks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

from viewlet.errors import ViewletError

NOTHING = -1
"""The number of the last operation of a partition that holds nothing."""


@dataclass(frozen=True, slots=True)
class Run:
    """Run an operation of the state; ``begins`` says that contents are all that a state holds before it."""

    operation: Any
    begins: bool


@dataclass(frozen=True, slots=True)
class Load:
    """Hold exactly these contents; a log may begin with it."""

    contents: Any


@dataclass(frozen=True, slots=True)
class Restore:
    """Begin anew: a :class:`Load`, at its number, and the operations since, pickled.

    ``then`` is carried out in the same breath, since the next task may run where this state is not.
    """

    sequence: int
    base: bytes
    since: tuple[bytes, ...]
    then: Operation | None = None


@dataclass(frozen=True, slots=True)
class Read:
    """Look only; ``whole`` asks for a pickled :class:`Load` of all contents instead. Not logged."""

    what: Any
    whole: bool = False


Operation: TypeAlias = Run | Load | Restore | Read


@dataclass(frozen=True, slots=True)
class Done:
    """The result of an operation."""

    result: Any


@dataclass(frozen=True, slots=True)
class Refused:
    """An operation was refused, and has changed nothing that counts."""

    reason: ViewletError


@dataclass(frozen=True, slots=True)
class Behind:
    """The partition here is not where the driver thinks."""

    sequence: int


NOTHING_DONE = Done(None)

Answer: TypeAlias = Done | Refused | Behind
