"""Events: what a delta is taken with respect to, one tuple or a whole batch of one table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from viewlet.calculus.nodes import Cond, Delta, Factor, Rel, Value
from viewlet.core.scalar import Var, call
from viewlet.core.types import BIGINT
from viewlet.sql.catalog import ForeignKey, Table

Children: TypeAlias = tuple[tuple[str, ForeignKey], ...]
"""Foreign keys that refer to a table, each with the table that has it."""

WEIGHT = Var("@W", BIGINT, False)
"""How often the changed row comes or goes. A capital, because the names of columns are in lower case."""


@dataclass(frozen=True, slots=True)
class TupleEvent:
    """One row of a table appears (weight above 0) or disappears (below): the columns are parameters.

    No row of another table refers to it by one of the ``unreferred`` foreign keys, before or after.
    """

    table: Table
    unreferred: Children = ()

    @property
    def parameters(self) -> tuple[Var, ...]:
        """The row's columns as variables that are bound before anything else."""
        return tuple(Var(f"@{c.name}", c.type, c.nullable) for c in self.table.columns)

    @property
    def bound(self) -> frozenset[str]:
        """Every variable that the event binds."""
        return frozenset({WEIGHT.name, *(var.name for var in self.parameters)})

    def change(self, atom: Rel) -> tuple[Factor, ...]:
        """``dR(x..) = {x1 == @1} * .. * <@w>``"""
        matched = tuple(
            Cond(call("==", argument, self._parameter(column))) for column, argument in atom.binds
        )
        return (*matched, Value(WEIGHT))

    def support(self, atom: Rel) -> tuple[Factor, ...]:
        """Where the change may be other than zero: its conditions without the weight."""
        return self.change(atom)[:-1]

    def _parameter(self, column: str) -> Var:
        return next(Var(f"@{c.name}", c.type, c.nullable) for c in self.table.columns if c.name == column)


@dataclass(frozen=True, slots=True)
class BatchEvent:
    """Many rows of a table change at once; the change is a relation with signed multiplicities.

    No row of another table refers to any of them by one of the ``unreferred`` foreign keys.
    """

    table: Table
    unreferred: Children = ()

    @property
    def parameters(self) -> tuple[Var, ...]:
        """A batch has none."""
        return ()

    @property
    def bound(self) -> frozenset[str]:
        """A batch binds nothing beforehand: its rows are looped over."""
        return frozenset()

    def change(self, atom: Rel) -> tuple[Factor, ...]:
        """``dR(x..)``"""
        return (Delta(atom.table, atom.binds),)

    def support(self, atom: Rel) -> tuple[Factor, ...]:
        """``|dR|(x..)``: rows that cancel in a projection still count."""
        return (Delta(atom.table, atom.binds, absolute=True),)


Event = TupleEvent | BatchEvent
