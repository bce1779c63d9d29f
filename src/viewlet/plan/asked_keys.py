"""The rows of a table that a query can need, where its conditions name them by their primary key."""

from __future__ import annotations

from itertools import product
from math import prod

from viewlet.core.node import walk
from viewlet.core.scalar import Call, Const, Scalar, Var, conjuncts
from viewlet.core.types import Value
from viewlet.plan.nodes import Filter, Plan, Scan
from viewlet.sql.catalog import Table

MOST = 1_000
"""So many keys are looked up at most, rather than all rows read."""


def asked_keys(plan: Plan, table: Table) -> list[tuple[Value, ...]] | None:
    """The primary keys that rows which count can have; ``None`` if all rows have to be looked at.

    ``filter a = 5 and b in (1, 2) (scan r)``, with the key (a, b): (5, 1) and (5, 2). Of a table that is
    scanned twice, every row counts.

    >>> from viewlet.core.types import BIGINT, Column
    >>> a = Var("a", BIGINT, False)
    >>> rows = Filter(Scan("r", (("a", a),)), Call("=", (a, Const(5, BIGINT)), BIGINT))
    >>> asked_keys(rows, Table("r", (Column("a", BIGINT, False),), key=("a",)))
    [(5,)]
    """
    scans = [node for node in walk(plan) if isinstance(node, Scan) and node.table == table.name]
    for node in walk(plan) if table.key and len(scans) == 1 else ():
        match node:
            case Filter(Scan(name, binds), condition) if name == table.name:
                bound = dict(binds)
                asked = [_asked(bound.get(column), condition) for column in table.key]
                known = [values for values in asked if values is not None]
                if len(known) == len(asked) and prod(map(len, known)) <= MOST:
                    return list(product(*known))
    return None


def _asked(var: Var | None, condition: Scalar) -> list[Value] | None:
    """The values that a condition leaves a column, if it lists them."""
    for part in conjuncts(condition):
        match part:
            case Call("=" | "in", (Var() as column, *values)) | Call("=", (*values, Var() as column)) if (
                column == var and all(_means_the_same(value, column) for value in values)
            ):
                return list(dict.fromkeys(value.value for value in values if isinstance(value, Const)))
    return None


def _means_the_same(scalar: Scalar, column: Var) -> bool:
    """Is it a literal whose physical value is that of the column where they are equal?"""
    if not isinstance(scalar, Const) or scalar.value is None:
        return False
    return scalar.type == column.type or (scalar.type.is_integer and column.type.is_integer)
