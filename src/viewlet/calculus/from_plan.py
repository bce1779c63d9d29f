"""Relational algebra to calculus.

Each plan becomes a list of *alternatives*, a sum in which every alternative has one product of factors and
says what each computed column stands for in it. Only outer joins, set operations and NOT IN make more than
one: in each of them nullability is exact, because padded columns are the literal NULL.

The laws (``nz``, ``nn``: the number or 0 where NULL, and whether it is not NULL)::

    A JOIN B ON c            = A * B * {c}
    A LEFT JOIN B ON c       = A * B * {c}  +  A * N<A's in c>(B * {c})  with B's columns NULL
    GROUP BY g of body       = E<g>(body) * one lift per sum
    SUM(e)                   = k = 0 ? NULL : s   where s := sum<g>(body * <nz e>), k := sum<g>(body * <nn e>)
    COUNT(DISTINCT e)        = sum<g>(E<g,v>(body * v := e * {v not NULL}))
    A UNION ALL B            = A + B                       DISTINCT A = E<columns>(A)
    A INTERSECT B            = E(A) * E(B)                 A EXCEPT B = E(A) * N(B)
    A EXCEPT ALL B           = E(A) * n := sum(A) * m := sum(B) * <max(0, n - m)>
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import assert_never

from viewlet.calculus.aggregates import Branch, Lifts
from viewlet.calculus.conditions import condition_factors
from viewlet.calculus.nodes import Cond, Exists, Extremum, Factor, Let, Lift, Query, Rel, Value, product
from viewlet.calculus.simplify import drop_unused
from viewlet.calculus.substitute import freshen, local_variables, substitute_query
from viewlet.core.names import Names
from viewlet.core.scalar import (
    FALSE,
    TRUE,
    Call,
    Const,
    Scalar,
    Var,
    call,
    conjuncts,
    nullable,
    substitute,
    variables,
)
from viewlet.core.types import BIGINT, BOOLEAN
from viewlet.errors import UnsupportedError
from viewlet.plan import nodes as plan_nodes
from viewlet.plan.inline_projections import size
from viewlet.plan.nodes import Plan, QuantifiedQuery, ScalarQuery
from viewlet.plan.scope import free_variables, outputs, scalars, walk

MOST_NAMES = 20_000
"""Half of it is seconds of compiling; what takes more doubles with every table that is joined."""


@dataclass(frozen=True, slots=True)
class Alternative:
    """One product, and what the plan's computed columns stand for in it."""

    factors: tuple[Factor, ...]
    columns: Mapping[str, Scalar]

    def read(self, scalar: Scalar) -> Scalar:
        """A scalar over the plan's columns, in terms of the product's variables."""
        return substitute(scalar, self.columns)

    def bind(self, keys: Iterable[Var]) -> tuple[Factor, ...]:
        """The factors, with lets for those keys that are computed."""
        lets = tuple(Let(key, self.columns[key.name]) for key in keys if key.name in self.columns)
        return self.factors + lets

    def times(self, *factors: Factor) -> Alternative:
        """The same with more factors."""
        return Alternative(self.factors + factors, self.columns)

    def where(self, conditions: Iterable[Scalar]) -> list[Alternative]:
        """The same under conditions over its columns; nothing where they are plainly false."""
        factors = [c for condition in conditions for c in condition_factors(self.read(condition))]
        return [] if product(*factors) == () else [self.times(*(f for f in factors if f.scalar != TRUE))]


class PlanToCalculus:
    """Translates one query; fresh variables stay clear of every variable of the plan."""

    def __init__(self, plan: Plan) -> None:
        taken = frozenset(var.name for node in walk(plan) for var in outputs(node))
        self.names = Names(taken, MOST_NAMES)
        self.uses = Counter(
            var.name for node in walk(plan) for scalar in scalars(node) for var in variables(scalar)
        )

    def alternatives(self, plan: Plan) -> list[Alternative]:
        """The alternatives of a plan; their sum is its meaning."""
        match plan:
            case plan_nodes.Unit():
                return [Alternative((), {})]
            case plan_nodes.Scan(table, binds):
                return [Alternative((Rel(table, binds),), {})]
            case plan_nodes.Filter() | plan_nodes.Apply():
                return self._filtered(plan)
            case plan_nodes.Project(below, columns):
                return [self._computed(alt, columns) for alt in self.alternatives(below)]
            case plan_nodes.Join():
                return self._join(plan)
            case plan_nodes.Aggregate():
                return [self._aggregate(plan)]
            case plan_nodes.Distinct(below):
                return [self._distinct(outputs(below), below)]
            case plan_nodes.SetOperation():
                return self._set_operation(plan)
            case plan_nodes.Top():
                raise UnsupportedError(
                    "ORDER BY with LIMIT inside a query: make the inner query a view of its own and read that"
                )
            case _:
                assert_never(plan)

    def bag(self, plan: Plan, keys: tuple[Var, ...]) -> Query:
        """A plan as a query over ``keys``: computed keys are bound by lets."""
        return tuple(term for alt in self.alternatives(plan) for term in product(*alt.bind(keys)))

    def _computed(self, alt: Alternative, columns: Iterable[tuple[Var, Scalar]]) -> Alternative:
        """What is computed is written out: where it is read twice on each of n levels, 2^n times."""
        values = {var.name: alt.read(scalar) for var, scalar in columns}
        for value in values.values():
            self.names.check(size(value))
        return Alternative(alt.factors, values)

    # Joins and set operations

    def _join(self, join: plan_nodes.Join) -> list[Alternative]:
        lefts = self.alternatives(join.left)
        matched = [
            joined
            for left in lefts
            for right in self._lateral(left, join.right)
            for joined in Alternative(left.factors + right.factors, {**left.columns, **right.columns}).where(
                conjuncts(join.condition)
            )
        ]
        padded: list[Alternative] = []
        if join.kind in ("left", "full"):
            padded += [self._padded(left, join.right, join.condition) for left in lefts]
        if join.kind == "full":
            padded += [
                self._padded(right, join.left, join.condition) for right in self.alternatives(join.right)
            ]
        return matched + padded

    def _lateral(self, left: Alternative, plan: Plan) -> list[Alternative]:
        """The alternatives of a join's right side, which may read computed columns of the left."""
        meanings = {name: left.columns[name] for name in free_variables(plan) if name in left.columns}
        if meanings:
            raise UnsupportedError("a lateral join that reads a computed column of its left side")
        return self.alternatives(plan)

    def _padded(self, kept: Alternative, other: Plan, condition: Scalar) -> Alternative:
        """``A * N<A's in c>(B * {c})``, with every column of B the literal NULL."""
        matches = tuple(
            term
            for alt in self.alternatives(other)
            for match in alt.where(conjuncts(condition))
            for term in product(*match.factors)
        )
        produced = {var.name for var in outputs(other)}
        free = {**free_variables(other)}
        free |= {var.name: var for var in variables(condition) if var.name not in produced}
        kept, keys, matches = self._correlate(kept, free, freshen(matches, free.values(), self.names))
        nulls = {var.name: Const(None, var.type) for var in outputs(other)}
        return Alternative((*kept.factors, Exists(keys, matches, negated=True)), {**kept.columns, **nulls})

    def _set_operation(self, node: plan_nodes.SetOperation) -> list[Alternative]:
        left, right = (self._renamed(side, node.columns) for side in (node.left, node.right))
        if node.kind == "union_all":
            return left + right
        free = tuple(free_variables(node).values())
        keys = node.columns + free
        a, b = (tuple(t for alt in side for t in product(*alt.bind(node.columns))) for side in (left, right))
        b = freshen(b, keys, self.names)
        match node.kind:
            case "union":
                return [Alternative((Exists(keys, a + b),), {})]
            case "intersect":
                return [Alternative((Exists(keys, a), Exists(keys, b)), {})]
            case "except":
                return [Alternative((Exists(keys, a), Exists(keys, b, negated=True)), {})]
        n, m = (Var(self.names.fresh(stem), BIGINT, False) for stem in ("n", "m"))
        if node.kind == "except_all":
            copies = call("greatest", Const(0), call("-", n, m, type=BIGINT), type=BIGINT)
        else:
            copies = call("least", n, m, type=BIGINT)
        counts = (Lift(n, keys, freshen(a, keys, self.names)), Lift(m, keys, b))
        return [Alternative((Exists(keys, a), *counts, Value(copies)), {})]

    def _renamed(self, plan: Plan, columns: tuple[Var, ...]) -> list[Alternative]:
        names = zip(columns, outputs(plan), strict=True)
        meanings = {new.name: old for new, old in names}
        return [
            Alternative(alt.factors, {name: alt.read(old) for name, old in meanings.items()})
            for alt in self.alternatives(plan)
        ]

    # Grouping

    def _aggregate(self, node: plan_nodes.Aggregate) -> Alternative:
        """``E<g>(body)`` says which groups exist, lifts say what they sum to; without g only the lifts."""
        group_vars = tuple(var for var, _ in node.groups)
        keys = group_vars + tuple(free_variables(node).values())
        body = [
            Branch(
                (*alt.factors, *(Let(var, alt.read(scalar)) for var, scalar in node.groups)),
                alt.columns,
            )
            for alt in self.alternatives(node.input)
        ]
        lifts = Lifts(body, keys, self.names, grouped=bool(node.groups))
        finished = {var.name: lifts.finish(agg, var.type) for var, agg in node.aggregates}
        factors = [self._apart(factor) for factor in lifts.factors]
        if node.groups:
            query = tuple(term for branch in body for term in product(*branch.factors))
            factors.insert(0, Exists(keys, freshen(query, keys, self.names)))
        return Alternative(tuple(factors), finished)

    def _distinct(self, columns: tuple[Var, ...], below: Plan) -> Alternative:
        keys = columns + tuple(free_variables(below).values())
        return Alternative((Exists(keys, self.bag(below, columns)),), {})

    def _apart(self, factor: Factor) -> Factor:
        """Local variables of sibling nested queries get names of their own."""
        match factor:
            case Lift(var, keys, query):
                return Lift(var, keys, self._copied(query, keys))
            case Extremum(var, op, of, keys, query):
                new = Var(self.names.fresh(of.name), of.type, of.nullable)
                renamed = substitute_query(query, {of.name: new})
                return Extremum(var, op, new, keys, self._copied(renamed, (*keys, new)))
            case _:
                return factor

    def _copied(self, query: Query, keys: tuple[Var, ...]) -> Query:
        """A nested query with names of its own.

        Of a hundred sums over as many columns each needs one. What only its siblings read goes as soon as the
        query is simplified, so it says nothing of the size of a program.
        """
        copy, known = freshen(query, keys, self.names), frozenset(key.name for key in keys)
        needed = tuple(drop_unused(term, known) for term in copy)
        self.names.discount(len(local_variables(copy, keys)) - len(local_variables(needed, keys)))
        return copy

    # Filters, with the nested queries below them

    def _filtered(self, plan: Plan) -> list[Alternative]:
        conditions: list[Scalar] = []
        nested: list[plan_nodes.Nested] = []
        while isinstance(plan, plan_nodes.Filter | plan_nodes.Apply):
            if isinstance(plan, plan_nodes.Filter):
                conditions = [*conjuncts(plan.condition), *conditions]
            else:
                nested = [*plan.nested, *nested]
            plan = plan.input
        alts = self.alternatives(plan)
        for item in nested:
            negative = call("not", item.output)
            once = self.uses[item.output.name] == 1 and not isinstance(item, ScalarQuery)
            if once and item.output in conditions:
                conditions.remove(item.output)
                alts = [self._semi_join(alt, item) for alt in alts]
            elif once and negative in conditions:
                conditions.remove(negative)
                alts = [new for alt in alts for new in self._anti_join(alt, item)]
            else:
                alts = [self._nested_value(alt, item) for alt in alts]
        return [kept for alt in alts for kept in alt.where(conditions)]

    def _correlate(
        self, alt: Alternative, free: Mapping[str, Var], query: Query
    ) -> tuple[Alternative, tuple[Var, ...], Query]:
        """Let a nested query read the row's columns: simple ones by name, computed ones through a let."""
        simple: dict[str, Scalar] = {}
        keys: dict[str, Var] = {}
        for name, var in free.items():
            meaning = alt.columns.get(name, var)
            if not isinstance(meaning, Var | Const):
                if not any(isinstance(f, Let) and f.var == var for f in alt.factors):
                    alt = alt.times(Let(var, meaning))
                meaning = var
            simple[name] = meaning
            if isinstance(meaning, Var):
                keys[meaning.name] = meaning
        return alt, tuple(keys.values()), substitute_query(query, simple)

    def _matches(
        self, alt: Alternative, item: plan_nodes.Nested, test: Scalar | None
    ) -> tuple[Alternative, tuple[Var, ...], Query]:
        """The rows of a nested query that satisfy a test over its columns, in the scope of ``alt``."""
        query = tuple(
            term
            for inner in self.alternatives(item.query)
            for match in inner.where(conjuncts(test) if test is not None else ())
            for term in product(*match.factors)
        )
        produced = {var.name for var in outputs(item.query)}
        free = free_variables(item.query)
        if test is not None:
            free |= {var.name: var for var in variables(test) if var.name not in produced}
        return self._correlate(alt, free, freshen(query, free.values(), self.names))

    def _semi_join(self, alt: Alternative, item: plan_nodes.Nested) -> Alternative:
        """``x op ANY (Q)`` is TRUE where ``E<..>(Q * {x op y})``; EXISTS likewise without the test."""
        alt, keys, query = self._matches(alt, item, quantified_test(item))
        return alt.times(Exists(keys, query))

    def _anti_join(self, alt: Alternative, item: plan_nodes.Nested) -> list[Alternative]:
        """NOT EXISTS is N. ``NOT (x op ANY (Q))`` is TRUE where no y makes ``x op y`` TRUE or NULL.

        For ``=`` over columns that may be NULL that is ``n = 0``, or no NULL on either side and no match: the
        two cases exclude each other, so each is an alternative of its own.
        """
        test = quantified_test(item)
        if test is None or not nullable(test):
            alt, keys, query = self._matches(alt, item, test)
            return [alt.times(Exists(keys, query, negated=True))]
        assert isinstance(item, QuantifiedQuery)
        if item.op != "=" or len(item.operands) != 1:
            not_false = call("not", call("is_true", call("not", test)))
            alt, keys, query = self._matches(alt, item, not_false)
            return [alt.times(Exists(keys, query, negated=True))]
        (operand,), (column,) = item.operands, outputs(item.query)
        n = Var(self.names.fresh("n"), BIGINT, False)
        alt, keys, rows = self._matches(alt, item, None)
        counted = alt.times(Lift(n, keys, rows))
        empty = counted.where([call("=", n, Const(0))])
        full = counted.where([call("<>", n, Const(0)), call("not", call("is_null", operand))])
        result = empty
        for some in full:
            if nullable(column):
                z = Var(self.names.fresh("z"), BIGINT, False)
                some, keys, nulls = self._matches(some, item, call("is_null", column))
                some = some.times(Lift(z, keys, nulls), Cond(call("=", z, Const(0))))
            some, keys, matches = self._matches(some, item, test)
            result = [*result, some.times(Exists(keys, matches, negated=True))]
        return result

    def _nested_value(self, alt: Alternative, item: plan_nodes.Nested) -> Alternative:
        """A nested query as a value: lifts, and a scalar over them that stands for its variable."""
        if isinstance(item, ScalarQuery):
            return self._scalar_query(alt, item)
        test = quantified_test(item)
        true, unknown = (Var(self.names.fresh(stem), BIGINT, False) for stem in ("n", "u"))
        alt, keys, query = self._matches(alt, item, test)
        alt = alt.times(Lift(true, keys, query))
        value = call("<>", true, Const(0))
        if test is not None and nullable(test):
            alt, keys, query = self._matches(alt, item, call("is_null", test))
            alt = alt.times(Lift(unknown, keys, query))
            null = Call("case", (call("<>", unknown, Const(0)), Const(None, BOOLEAN), FALSE), BOOLEAN)
            value = Call("case", (value, TRUE, null), BOOLEAN)
        return Alternative(alt.factors, {**alt.columns, item.output.name: value})

    def _scalar_query(self, alt: Alternative, item: ScalarQuery) -> Alternative:
        """An aggregate without groups is its lifts; any other query is a count and an extremum."""
        (column,) = outputs(item.query)
        inners = self.alternatives(item.query)
        if len(inners) == 1 and all(isinstance(f, Lift | Extremum | Cond | Let) for f in inners[0].factors):
            return self._inlined(alt, item, inners[0], column)
        n, value = Var(self.names.fresh("n"), BIGINT, False), Var(self.names.fresh("v"), column.type)
        best = Var(self.names.fresh("m"), column.type)
        free = free_variables(item.query)
        values = tuple(t for i in inners for t in product(*i.factors, Let(value, i.read(column))))
        rows = tuple(t for i in inners for t in product(*i.factors))
        alt, keys, rows = self._correlate(alt, free, freshen(rows, free.values(), self.names))
        alt, keys, values = self._correlate(alt, free, freshen(values, (*free.values(), value), self.names))
        alt = alt.times(Lift(n, keys, rows), Extremum(best, "max", value, keys, values))
        meaning = Call("only", (n, best), column.type)
        return Alternative(alt.factors, {**alt.columns, item.output.name: meaning})

    def _inlined(self, alt: Alternative, item: ScalarQuery, inner: Alternative, column: Var) -> Alternative:
        """One row always, or none where a HAVING condition is not TRUE: then the value is NULL."""
        conditions = [f.scalar for f in inner.factors if isinstance(f, Cond)]
        rest = product(*(f for f in inner.factors if not isinstance(f, Cond)))
        value = inner.read(column)
        if conditions:
            value = Call("case", (call("and", *conditions), value, Const(None, value.type)), value.type)
        free = free_variables(item.query)
        alt, _, factors = self._correlate(alt, free, rest)
        simple = {name: alt.columns[name] for name in free if isinstance(alt.columns.get(name), Var | Const)}
        value = substitute(value, simple)
        return Alternative(alt.factors + factors[0].factors, {**alt.columns, item.output.name: value})


def quantified_test(item: plan_nodes.Nested) -> Scalar | None:
    """``x op y`` for ``x op ANY (SELECT y)``, over all pairs of a row-valued comparison; none for EXISTS."""
    if not isinstance(item, QuantifiedQuery):
        return None
    pairs: Sequence[tuple[Scalar, Var]] = list(zip(item.operands, outputs(item.query), strict=True))
    return call("and", *(call(item.op, operand, column) for operand, column in pairs))
