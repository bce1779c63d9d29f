"""What skipping data does to a value: how it moves, and which values it can take.

Let ``D'`` be the data that a sketch keeps of ``D``. A row of a query over ``D'`` has a counterpart over
``D``; for a value ``v`` of the row and ``v'`` of the counterpart one of these holds::

    EQUAL    v = v'                  LOWER    v is NULL or v <= v'
    HIGHER   v is NULL or v >= v'    UNKNOWN  nothing

A value that is not NULL has a counterpart that is not NULL (LOWER, HIGHER): skipping rows adds no values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from fractions import Fraction
from typing import TypeAlias

from viewlet.core.scalar import Call, Const, Scalar, Var
from viewlet.core.types import Kind, Type, Value
from viewlet.plan.nodes import AggregateCall


class Relation(Enum):
    """How a value over the kept data relates to its counterpart over all data."""

    EQUAL = "equal"
    LOWER = "lower"
    HIGHER = "higher"
    UNKNOWN = "unknown"

    @property
    def flipped(self) -> Relation:
        """The relation of ``-v``."""
        return _FLIPPED.get(self, self)


_FLIPPED = {Relation.LOWER: Relation.HIGHER, Relation.HIGHER: Relation.LOWER}


@dataclass(frozen=True, slots=True)
class Assumption:
    """Every value of a column lies between ``low`` and ``high`` (``None``: no limit) or is NULL.

    It is read off the data, not declared: an update that breaks it retires the sketches that rely on it.
    """

    table: str
    column: str
    low: int | None
    high: int | None

    def __str__(self) -> str:
        name = f"{self.table}.{self.column}"
        if self.low is not None and self.high is not None:
            return f"{self.low} <= {name} <= {self.high}"
        return f"{name} >= {self.low}" if self.low is not None else f"{name} <= {self.high}"

    def holds(self, value: Value, kind: Type) -> bool:
        """Does a physical value of the column keep to it?"""
        if value is None:
            return True
        number = quantity(value, kind)
        return number is not None and not (
            (self.low is not None and number < self.low) or (self.high is not None and number > self.high)
        )


@dataclass(frozen=True, slots=True)
class Fact:
    """What is known of one value: its relation, an interval around it, what both of these assume."""

    relation: Relation = Relation.EQUAL
    low: Fraction | None = None
    high: Fraction | None = None
    assumes: frozenset[Assumption] = frozenset()
    label: str = ""

    @property
    def non_negative(self) -> bool:
        """Is it never below zero?"""
        return self.low is not None and self.low >= 0

    @property
    def non_positive(self) -> bool:
        """Is it never above zero?"""
        return self.high is not None and self.high <= 0


Facts: TypeAlias = Mapping[str, Fact]
Limits: TypeAlias = Callable[[str, str], tuple[Fraction | None, Fraction | None]]


def quantity(value: Value, kind: Type) -> Fraction | None:
    """A physical value as a number; ``None`` for what is none."""
    if isinstance(value, (bool, str)) or value is None or not kind.is_numeric:
        return None
    return Fraction(value) / (10**kind.scale if kind.kind is Kind.DECIMAL else 1)


def landmark(table: str, column: str, low: Fraction | None, high: Fraction | None) -> Fact:
    """What observed limits of a column suggest: a sign, and whether it is a share between 0 and 1.

    The observed limits themselves would be broken by the next insert; zero and one are rarely crossed.

    >>> str(*landmark("r", "b", Fraction(3), Fraction(17)).assumes)
    'r.b >= 0'
    """
    assumed: tuple[int | None, int | None]
    if low is not None and low >= 0:
        assumed = (0, 1 if high is not None and high <= 1 else None)
    elif high is not None and high <= 0:
        assumed = (None, 0)
    else:
        return Fact(label=f"{table}.{column}")
    limits = [None if limit is None else Fraction(limit) for limit in assumed]
    return Fact(
        low=limits[0],
        high=limits[1],
        assumes=frozenset({Assumption(table, column, *assumed)}),
        label=f"{table}.{column}",
    )


def weaker(limits: Limits) -> tuple[Limits, Limits, Limits]:
    """Nothing, then at most a sign, then all that limits suggest: what rests on less is retired less often.

    >>> [str(*landmark("r", "b", *known("r", "b")).assumes) for known in weaker(lambda t, c: (0, 1))[1:]]
    ['r.b >= 0', '0 <= r.b <= 1']
    """

    def nothing(table: str, column: str) -> tuple[None, None]:
        return None, None

    def sign(table: str, column: str) -> tuple[Fraction | None, Fraction | None]:
        low, high = limits(table, column)
        return (low, None) if low is not None and low >= 0 else (low, high)

    return nothing, sign, limits


def fact_of(scalar: Scalar, facts: Facts) -> Fact:
    """What is known of a scalar over values of which ``facts`` are known."""
    match scalar:
        case Const(value, kind):
            number = quantity(value, kind)
            return Fact(low=number, high=number)
        case Var(name):
            return facts[name]
        case Call("cast", (arg,)) if arg.type.is_numeric and scalar.type.is_numeric:
            return fact_of(arg, facts)
        case Call("neg", (arg,)):
            return _negated(fact_of(arg, facts))
        case Call("+", (left, right)):
            return _sum(fact_of(left, facts), fact_of(right, facts))
        case Call("-", (left, right)):
            return _sum(fact_of(left, facts), _negated(fact_of(right, facts)))
        case Call("*", (left, right)):
            return _product(fact_of(left, facts), fact_of(right, facts))
        case Call("case", args):
            return _choice([fact_of(arg, facts) for arg in args])
        case Call(_, args):
            return _opaque([fact_of(arg, facts) for arg in args])


def _negated(fact: Fact) -> Fact:
    return replace(
        fact,
        relation=fact.relation.flipped,
        low=None if fact.high is None else -fact.high,
        high=None if fact.low is None else -fact.low,
    )


def _sum(left: Fact, right: Fact) -> Fact:
    relations = {left.relation, right.relation} - {Relation.EQUAL}
    return Fact(
        relations.pop() if len(relations) == 1 else Relation.UNKNOWN if relations else Relation.EQUAL,
        None if left.low is None or right.low is None else left.low + right.low,
        None if left.high is None or right.high is None else left.high + right.high,
        left.assumes | right.assumes,
        left.label or right.label,
    )


def _product(left: Fact, right: Fact) -> Fact:
    """Signs multiply; what moves keeps its direction under a factor that is >= 0 and does not move."""
    relation = Relation.UNKNOWN
    if left.relation is right.relation is Relation.EQUAL:
        relation = Relation.EQUAL
    for moving, factor in ((left, right), (right, left)):
        if factor.relation is Relation.EQUAL and moving.relation is not Relation.EQUAL:
            if factor.non_negative:
                relation = moving.relation
            elif factor.non_positive:
                relation = moving.relation.flipped
    same = (left.non_negative and right.non_negative) or (left.non_positive and right.non_positive)
    opposite = (left.non_negative and right.non_positive) or (left.non_positive and right.non_negative)
    zero = Fraction(0)
    return Fact(
        relation,
        zero if same else None,
        zero if opposite else None,
        left.assumes | right.assumes,
        left.label or right.label,
    )


def _choice(arguments: list[Fact]) -> Fact:
    """CASE: one of the results, if the conditions do not move."""
    fact = _opaque(arguments)
    results = [*arguments[1::2], *(arguments[-1:] if len(arguments) % 2 else ())]
    return replace(
        fact,
        low=Fraction(0) if all(result.non_negative for result in results) else None,
        high=Fraction(0) if all(result.non_positive for result in results) else None,
    )


def _opaque(arguments: list[Fact]) -> Fact:
    """A function of which nothing is known but that equal arguments give equal results."""
    still = all(argument.relation is Relation.EQUAL for argument in arguments)
    return Fact(
        Relation.EQUAL if still else Relation.UNKNOWN,
        assumes=frozenset().union(*(argument.assumes for argument in arguments)),
        label=next((argument.label for argument in arguments if argument.label), ""),
    )


def aggregate_fact(call: AggregateCall, facts: Facts, whole: bool, label: str) -> Fact:
    """How an aggregate moves when rows of its group are skipped; ``whole`` if none ever is."""
    argument = Fact(low=Fraction(1)) if call.argument is None else fact_of(call.argument, facts)
    condition = Fact() if call.filter is None else fact_of(call.filter, facts)
    low, high = _aggregate_limits(call, argument)
    if whole:
        relation = Relation.EQUAL
    elif condition.relation is not Relation.EQUAL:
        relation = Relation.UNKNOWN
    else:
        relation = _aggregate_relation(call, argument)
    return Fact(relation, low, high, argument.assumes, label)


def _aggregate_limits(call: AggregateCall, argument: Fact) -> tuple[Fraction | None, Fraction | None]:
    match call.op:
        case "count" | "var_pop" | "var_samp" | "stddev_pop" | "stddev_samp":
            return Fraction(0), None
        case "sum":
            zero = Fraction(0)
            return zero if argument.non_negative else None, zero if argument.non_positive else None
        case "min" | "max" | "avg" | "percentile_cont" | "percentile_disc" | "mode":
            return argument.low, argument.high


def _aggregate_relation(call: AggregateCall, argument: Fact) -> Relation:
    """Fewer rows: a smaller COUNT, MAX, and SUM of what is >= 0; a greater MIN, and SUM of what is <= 0."""
    still = argument.relation is Relation.EQUAL
    if call.distinct and not still and call.op in ("count", "sum"):
        return Relation.UNKNOWN
    match call.op:
        case "count" if argument.relation is not Relation.UNKNOWN:
            return Relation.LOWER
        case "max" if still or argument.relation is Relation.LOWER:
            return Relation.LOWER
        case "min" if still or argument.relation is Relation.HIGHER:
            return Relation.HIGHER
        case "sum" if argument.non_negative and (still or argument.relation is Relation.LOWER):
            return Relation.LOWER
        case "sum" if argument.non_positive and (still or argument.relation is Relation.HIGHER):
            return Relation.HIGHER
        case _:
            return Relation.UNKNOWN
