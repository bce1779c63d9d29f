"""Relational algebra: what a query computes, before anyone decides how.

Every column of a plan is a variable that is unique within the whole query: each scan brings its own.
So a correlated subquery is a plan that reads variables it does not produce, and no node needs names,
qualifiers or positions. A nested query in a scalar becomes a variable that :class:`Apply` binds: the scalar
reads the variable, the plan below says which query gives its value.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from viewlet.core.scalar import Const, Scalar, Var

JoinKind: TypeAlias = Literal["inner", "left", "full"]
SetKind: TypeAlias = Literal["union_all", "union", "intersect", "intersect_all", "except", "except_all"]
AggregateOp: TypeAlias = Literal[
    "count",
    "sum",
    "avg",
    "min",
    "max",
    "var_pop",
    "var_samp",
    "stddev_pop",
    "stddev_samp",
    "percentile_cont",
    "percentile_disc",
    "mode",
]
ORDER_STATISTICS = frozenset({"percentile_cont", "percentile_disc", "mode"})
"""Aggregates that ask for a place in the order of values, or for the most frequent of them."""


@dataclass(frozen=True, slots=True)
class Unit:
    """The relation with one row and no columns: a SELECT without FROM."""


@dataclass(frozen=True, slots=True)
class Scan:
    """All rows of a table (or of a view used as a table); ``binds`` names the columns that are read."""

    table: str
    binds: tuple[tuple[str, Var], ...]


@dataclass(frozen=True, slots=True)
class Filter:
    """The rows for which ``condition`` is TRUE."""

    input: Plan
    condition: Scalar


@dataclass(frozen=True, slots=True)
class Project:
    """One output row per input row: ``columns`` pairs each output variable with its scalar."""

    input: Plan
    columns: tuple[tuple[Var, Scalar], ...]


@dataclass(frozen=True, slots=True)
class Join:
    """Pairs of rows for which ``condition`` is TRUE; ``left`` and ``full`` pad the unmatched with NULL.

    A right join is a left join with its sides exchanged. ``right`` may read variables of ``left``
    (a lateral join).
    """

    kind: JoinKind
    left: Plan
    right: Plan
    condition: Scalar


@dataclass(frozen=True, slots=True)
class AggregateCall:
    """One aggregate; ``argument`` is ``None`` for COUNT(*).

    A percentile has a ``share``, a literal number from 0 to 1. ``descending`` is the order in which a
    discrete one goes through the values, and by which the mode chooses among those that are equally frequent.
    """

    op: AggregateOp
    argument: Scalar | None
    distinct: bool = False
    filter: Scalar | None = None
    share: Const | None = None
    descending: bool = False


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One row per group; without ``groups`` exactly one row, even over nothing."""

    input: Plan
    groups: tuple[tuple[Var, Scalar], ...]
    aggregates: tuple[tuple[Var, AggregateCall], ...]


@dataclass(frozen=True, slots=True)
class Distinct:
    """Each row once."""

    input: Plan


@dataclass(frozen=True, slots=True)
class SetOperation:
    """UNION [ALL], INTERSECT [ALL], EXCEPT [ALL]; columns meet by position and get new variables."""

    kind: SetKind
    left: Plan
    right: Plan
    columns: tuple[Var, ...]


@dataclass(frozen=True, slots=True)
class ScalarQuery:
    """Binds ``output`` to the one value of ``query``; NULL without a row; an error with several."""

    output: Var
    query: Plan


@dataclass(frozen=True, slots=True)
class ExistsQuery:
    """Binds ``output`` to whether ``query`` has a row: TRUE or FALSE, never NULL."""

    output: Var
    query: Plan


@dataclass(frozen=True, slots=True)
class QuantifiedQuery:
    """Binds ``output`` to ``operand op ANY (query)``, in three-valued logic; IN is ``= ANY``.

    ``x op ALL (q)`` is written ``NOT (x negated-op ANY (q))``, so NOT IN is NOT of IN.
    """

    output: Var
    op: str
    operands: tuple[Scalar, ...]
    query: Plan


Nested: TypeAlias = ScalarQuery | ExistsQuery | QuantifiedQuery


@dataclass(frozen=True, slots=True)
class Apply:
    """Each input row extended by the value of nested queries, which may read the row's variables."""

    input: Plan
    nested: tuple[Nested, ...]


@dataclass(frozen=True, slots=True)
class SortKey:
    """One ORDER BY item."""

    scalar: Scalar
    descending: bool
    nulls_first: bool


@dataclass(frozen=True, slots=True)
class Top:
    """ORDER BY, LIMIT, OFFSET: only at the root of a query, where order has a meaning."""

    input: Plan
    keys: tuple[SortKey, ...]
    limit: int | None
    offset: int = 0


Plan: TypeAlias = Unit | Scan | Filter | Project | Join | Aggregate | Distinct | SetOperation | Apply | Top


@dataclass(frozen=True, slots=True)
class Query:
    """A resolved query: its plan, and the result columns by name, in order."""

    plan: Plan
    columns: tuple[tuple[str, Var], ...]
