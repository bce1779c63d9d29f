"""The four delta classes: how an operator changes when its operands change.

Most operators need no rule of their own; it is enough to say which kind they are::

    constant     d(c)      = 0
    linear       d(f(a))   = f(da)
    bilinear     d(a * b)  = da * b + a * db + da * db
    recomputed   d(f(a))   = f(a + da) - f(a)

Deltas here are finite differences, not derivatives: the third bilinear term is not optional.
``recomputed`` is always right and always expensive; making it cheap is the work of later passes.

>>> table = DeltaTable("numbers")
>>> table.constant(int)
>>> table.of(7).name
'CONSTANT'
"""

from __future__ import annotations

from enum import Enum, auto

from viewlet.errors import CalculusError


class DeltaClass(Enum):
    """How an operator's change depends on the change of its operands."""

    CONSTANT = auto()
    LINEAR = auto()
    BILINEAR = auto()
    RECOMPUTED = auto()


class DeltaTable:
    """The delta class of every node type of one domain; undeclared types are refused."""

    def __init__(self, domain: str) -> None:
        self.domain = domain
        self._classes: dict[type, DeltaClass] = {}

    def constant(self, *kinds: type) -> None:
        """Declare node types whose value no update changes."""
        self._declare(DeltaClass.CONSTANT, kinds)

    def linear(self, *kinds: type) -> None:
        """Declare node types with d(f(a)) = f(da)."""
        self._declare(DeltaClass.LINEAR, kinds)

    def bilinear(self, *kinds: type) -> None:
        """Declare node types that are linear in each of their operands."""
        self._declare(DeltaClass.BILINEAR, kinds)

    def recomputed(self, *kinds: type) -> None:
        """Declare node types of which only new minus old is known."""
        self._declare(DeltaClass.RECOMPUTED, kinds)

    def of(self, node: object) -> DeltaClass:
        """The delta class of a node."""
        try:
            return self._classes[type(node)]
        except KeyError:
            raise CalculusError(
                f"{type(node).__name__} has no delta class in {self.domain}; "
                f"declared: {', '.join(sorted(kind.__name__ for kind in self._classes))}"
            ) from None

    def _declare(self, delta_class: DeltaClass, kinds: tuple[type, ...]) -> None:
        for kind in kinds:
            if kind in self._classes:
                raise CalculusError(f"{kind.__name__} is declared twice in {self.domain}")
            self._classes[kind] = delta_class
