"""Aggregates as lifts: one sum per base quantity, and the scalar that finishes each aggregate.

Base quantities over one body are shared: AVG(x) and SUM(x) read the same sum, and the non-NULL count of an
argument that cannot be NULL is COUNT(*).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from viewlet.calculus.nodes import Cond, Exists, Extremum, Factor, Let, Lift, Query, Value, product, times
from viewlet.core.names import Names
from viewlet.core.scalar import Call, Const, Scalar, Var, call, nullable, substitute
from viewlet.core.types import BIGINT, DOUBLE, Type, wide
from viewlet.errors import UnsupportedError
from viewlet.plan.nodes import AggregateCall
from viewlet.sql.scalars import arithmetic, compare

Values: TypeAlias = Callable[[Callable[[Scalar], Scalar]], tuple[Factor, ...]]
"""What is summed for each row, by what scalars over the columns of a SELECT are in a branch."""


@dataclass(frozen=True, slots=True)
class Branch:
    """One product of an aggregate's input, and what its columns stand for there."""

    factors: tuple[Factor, ...]
    columns: Mapping[str, Scalar]


@dataclass(slots=True)
class Lifts:
    """Collects the lifts of one aggregate block."""

    body: Sequence[Branch]
    keys: tuple[Var, ...]
    names: Names
    grouped: bool
    factors: list[Factor] = field(default_factory=list)
    _known: dict[tuple[object, ...], Var] = field(default_factory=dict)

    def finish(self, aggregate: AggregateCall, type_: Type) -> Scalar:
        """The scalar that an aggregate stands for, over variables bound by the lifts."""
        if aggregate.filter is not None:
            aggregate = _filter_into_argument(aggregate)
        argument = aggregate.argument
        if argument is None:
            return self.count()
        if aggregate.op in ("min", "max"):
            return self.extremum(aggregate.op, argument)
        if aggregate.op in ("percentile_cont", "percentile_disc"):
            return self.percentile(aggregate, argument)
        if aggregate.op == "mode":
            return self.mode(argument, aggregate.descending)
        count = self.distinct_count(argument) if aggregate.distinct else self.non_null_count(argument)
        if aggregate.op == "count":
            return count
        total = self.sum(argument, 1, aggregate.distinct)
        match aggregate.op:
            case "sum":
                always = self.grouped and not nullable(argument)
                value = call("cast", total, type=type_)
                if always:
                    return value
                return Call("case", (call("=", count, Const(0)), Const(None, type_), value), type_)
            case "avg":
                return Call("avg", (total, count), type_)
            case "var_pop" | "var_samp" | "stddev_pop" | "stddev_samp":
                squares = self.sum(argument, 2, aggregate.distinct)
                return Call(aggregate.op, (count, total, squares), type_)
        raise UnsupportedError(f"aggregate {aggregate.op.upper()} is not supported")

    def count(self) -> Var:
        """COUNT(*)"""
        return self._lift(("count",), "n", BIGINT, lambda branch: ())

    def non_null_count(self, argument: Scalar) -> Var:
        """COUNT(e) = sum(body * <nn e>); COUNT(*) where e is never NULL."""
        if not nullable(argument):
            return self.count()
        return self._lift(("nn", argument), "k", BIGINT, _known(argument))

    def sum(self, argument: Scalar, power: int, distinct: bool) -> Var:
        """sum(body * <nz e> ** power), over the distinct values of e if asked."""
        kind = argument.type
        type_ = DOUBLE if kind.is_floating else wide(min(38, kind.scale * power))
        if distinct:
            return self._distinct(("sum", argument, power), type_, argument, power)
        return self._lift(
            ("sum", argument, power), "s", type_, lambda b: (Value(call("nz", b(argument))),) * power
        )

    def distinct_count(self, argument: Scalar) -> Var:
        """COUNT(DISTINCT e) = sum(E<keys, v>(body * v := e * {v not NULL}))"""
        return self._distinct(("count",), BIGINT, argument, 0)

    def extremum(self, op: str, argument: Scalar) -> Var:
        """MIN(e), MAX(e): the extreme v that the body supports."""
        assert op in ("min", "max")
        known = self._known.get((op, argument))
        if known is None:
            known = Var(self.names.fresh(op), argument.type, True)
            value = Var(self.names.fresh("v"), argument.type, nullable(argument))
            query = self._values(argument, value)
            self.factors.append(Extremum(known, op, value, self.keys, query))  # type: ignore[arg-type]
            self._known[op, argument] = known
        return known

    def percentile(self, aggregate: AggregateCall, argument: Scalar) -> Scalar:
        """The discrete one is one value of the order, the continuous one is between two of them."""
        share = aggregate.share
        assert share is not None, "a percentile has a share"
        if aggregate.op == "percentile_disc":
            return self._reached(argument, ">=", lambda n: arithmetic("*", share, n), aggregate.descending)

        def place(n: Scalar) -> Scalar:
            return arithmetic("*", share, arithmetic("-", n, Const(1)))

        low = self._reached(argument, ">", place)
        high = self._reached(argument, ">=", lambda n: arithmetic("+", place(n), Const(1)))
        ends = (call("cast", found, type=DOUBLE) for found in (low, high))
        return call("interpolate", *ends, place(self.non_null_count(argument)), type=DOUBLE)

    def mode(self, argument: Scalar, descending: bool) -> Var:
        """The least or greatest of the most frequent values::

        c := max t<k>(E<k, v>(..) * (t := sum<k, v>(values(v))))
        x := min v<k, c>(E<k, v>(..) * (c := sum<k, v>(values(v))))
        """
        known = self._known.get(("mode", argument, descending))
        if known is None:
            known = Var(self.names.fresh("mode"), argument.type, True)
            most = self._known.get(("most", argument))
            if most is None:
                most = self._known["most", argument] = Var(self.names.fresh("c"), BIGINT, True)
                total = Var(self.names.fresh("t"), BIGINT, False)
                _, counts = self._frequencies(argument, total)
                self.factors.append(Extremum(most, "max", total, self.keys, counts))
            value, counts = self._frequencies(argument, most)
            op = "max" if descending else "min"
            self.factors.append(Extremum(known, op, value, (*self.keys, most), counts))  # type: ignore[arg-type]
            self._known["mode", argument, descending] = known
        return known

    def _frequencies(self, argument: Scalar, count: Var) -> tuple[Var, Query]:
        """A variable for each value, and the query that tells how often it comes."""
        value = Var(self.names.fresh("v"), argument.type, nullable(argument))
        values, keys = self._values(argument, value), (*self.keys, value)
        return value, product(Exists(keys, values), Lift(count, keys, values))

    def _reached(
        self, argument: Scalar, op: str, share: Callable[[Scalar], Scalar], descending: bool = False
    ) -> Var:
        """The first value up to which there are enough::

        x := min v<k>(values(v) * (c := sum<k, v>(values(w) * {w <= v})) * (n := sum<k>(..)) * {c >= n})
        """
        what = ("reached", argument, op, share(Var("n", BIGINT, False)), descending)
        known = self._known.get(what)
        if known is None:
            known = Var(self.names.fresh("nth"), argument.type, True)
            value, other = (
                Var(self.names.fresh(stem), argument.type, nullable(argument)) for stem in ("v", "w")
            )
            count, upto = (Var(self.names.fresh(stem), BIGINT, False) for stem in ("n", "c"))
            before = Cond(call(">=" if descending else "<=", other, value))
            tests = (
                Lift(count, self.keys, self._non_null(argument)),
                Lift(upto, (*self.keys, value), times(self._values(argument, other), product(before))),
                Cond(compare(op, upto, share(count))),
            )
            query = times(self._values(argument, value), product(*tests))
            self.factors.append(Extremum(known, "max" if descending else "min", value, self.keys, query))
            self._known[what] = known
        return known

    def _values(self, argument: Scalar, value: Var) -> Query:
        terms: list[Query] = []
        for branch in self.body:
            scalar = substitute(argument, branch.columns)
            guard = (Cond(call("not", call("is_null", scalar))),) if nullable(scalar) else ()
            terms.append(product(*branch.factors, *guard, Let(value, scalar)))
        return tuple(term for query in terms for term in query)

    def _distinct(self, quantity: tuple[object, ...], type_: Type, argument: Scalar, power: int) -> Var:
        name = ("distinct", argument, *quantity)
        known = self._known.get(name)
        if known is None:
            known = Var(self.names.fresh("d"), type_, False)
            value = Var(self.names.fresh("v"), argument.type, nullable(argument))
            each = Exists((*self.keys, value), self._values(argument, value))
            self.factors.append(Lift(known, self.keys, product(each, *(Value(value),) * power)))
            self._known[name] = known
        return known

    def _non_null(self, argument: Scalar) -> Query:
        """What :meth:`non_null_count` is the sum of."""
        return self._summed(_known(argument) if nullable(argument) else lambda branch: ())

    def _lift(
        self,
        quantity: tuple[object, ...],
        stem: str,
        type_: Type,
        values: Values,
    ) -> Var:
        known = self._known.get(quantity)
        if known is None:
            known = Var(self.names.fresh(stem), type_, False)
            self.factors.append(Lift(known, self.keys, self._summed(values)))
            self._known[quantity] = known
        return known

    def _summed(self, values: Values) -> Query:
        return tuple(
            term for branch in self.body for term in product(*branch.factors, *values(_reader(branch)))
        )


def _known(argument: Scalar) -> Values:
    """1 where the argument is not NULL."""
    return lambda read: (Value(call("nn", read(argument), type=BIGINT)),)


def _reader(branch: Branch) -> Callable[[Scalar], Scalar]:
    return lambda scalar: substitute(scalar, branch.columns)


def _filter_into_argument(aggregate: AggregateCall) -> AggregateCall:
    """``agg(e) FILTER (WHERE c)`` = ``agg(CASE WHEN c THEN e END)``, with COUNT(*) = COUNT(1)"""
    argument = aggregate.argument if aggregate.argument is not None else Const(1)
    assert aggregate.filter is not None
    chosen = Call("case", (aggregate.filter, argument, Const(None, argument.type)), argument.type)
    return replace(aggregate, argument=chosen, filter=None)
