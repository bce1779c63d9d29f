"""Expressions of one clause: their columns, aggregates and nested queries."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from viewlet.core.scalar import Const, Scalar, Var, call, nullable, variables
from viewlet.core.types import BIGINT, BOOLEAN, DATE, DOUBLE, INT, NULL, TIMESTAMP, VARCHAR, Type
from viewlet.plan.facts import aggregate_may_be_null, has_one_row
from viewlet.plan.from_sql.context import Body, Context
from viewlet.plan.from_sql.order_statistics import ORDER_STATISTICS, order_statistic
from viewlet.plan.nodes import (
    AggregateCall,
    AggregateOp,
    Apply,
    ExistsQuery,
    Filter,
    Nested,
    Plan,
    Project,
    QuantifiedQuery,
    ScalarQuery,
)
from viewlet.sql import scalars
from viewlet.sql.expressions import scalar_of
from viewlet.sql.position import invalid, unsupported
from viewlet.sql.scope import Scope
from viewlet.sql.typing import TypeMismatchError, avg_type, sum_type, widest


class Clause:
    """The place of an expression: resolves its columns, and gathers the nested queries met in it."""

    def __init__(
        self, name: str, context: Context, scope: Scope, aggregates: Aggregates | None = None
    ) -> None:
        self.name = name
        self.context = context
        self.scope = scope
        self.aggregates = aggregates
        self.nested: list[Nested] = []

    def scalar(self, node: exp.Expr, alias: str = "") -> Scalar:
        """The scalar of an expression; its ``alias`` also names the variable of an aggregate."""
        if alias and self.aggregates is not None and isinstance(node, AGGREGATE_NODES):
            return self.aggregates.variable(node, alias)
        return scalar_of(node, self)

    def condition(self, node: exp.Expr) -> Scalar:
        """The condition that an expression states."""
        try:
            return scalars.condition(self.scalar(node), self.name)
        except TypeMismatchError as error:
            raise invalid(node, str(error)) from None

    def column(self, node: exp.Column) -> Scalar:
        """The value of a column name."""
        return self.scope.resolve(node)

    def aggregate(self, node: exp.Expr) -> Scalar:
        """The value of an aggregate, where one may stand."""
        if self.aggregates is None:
            raise invalid(node, f"the aggregate {_called(node)} may not stand in {self.name}")
        return self.aggregates.variable(node, "")

    def scalar_query(self, query: exp.Query) -> Scalar:
        """A variable for the one value of a nested query."""
        body = self._body(query)
        if len(body.columns) != 1:
            raise invalid(query, f"a scalar subquery must have one column, this one has {len(body.columns)}")
        name, value = body.columns[0]
        plan = self.context.positional(body)
        may_be_null = nullable(value) or not has_one_row(plan)
        output = self.context.fresh(value.name or name, value.type, may_be_null)
        self.nested.append(ScalarQuery(output, plan))
        return output

    def exists_query(self, query: exp.Query) -> Scalar:
        """A variable for whether a nested query has rows; its columns do not matter."""
        body = self.context.read(query, self.scope, self.context)
        if body.offset or body.limit == 0:
            raise unsupported(query, "OFFSET or LIMIT 0 in EXISTS", "leave it out")
        plan = body.plan
        while isinstance(plan, Project):
            plan = plan.input
        output = self.context.fresh("exists", BOOLEAN, False)
        self.nested.append(ExistsQuery(output, plan))
        return output

    def any_query(self, op: str, operands: Sequence[Scalar], query: exp.Query) -> Scalar:
        """A variable for ``operands op ANY (query)``."""
        body = self._body(query)
        if len(operands) != len(body.columns):
            raise invalid(
                query, f"{len(operands)} values are compared with a subquery of {len(body.columns)} columns"
            )
        if len(operands) > 1 and op != "=":
            raise unsupported(query, f"{op} ANY on rows", "compare single values")
        values = [var for _, var in body.columns]
        pairs = list(zip(operands, values, strict=True))
        left = tuple(scalars.comparable(operand, value.type, op) for operand, value in pairs)
        right = [scalars.comparable(value, operand.type, op) for operand, value in pairs]
        plan = self.context.positional(body)
        if right != values:
            plan = Project(
                plan, tuple((self.context.define(v.name, s), s) for v, s in zip(values, right, strict=True))
            )
        may_be_null = any(nullable(scalar) for scalar in (*operands, *right))
        output = self.context.fresh("in" if op == "=" else "any", BOOLEAN, may_be_null)
        self.nested.append(QuantifiedQuery(output, op, left, plan))
        return output

    def _body(self, query: exp.Query) -> Body:
        body = self.context.read(query, self.scope, self.context)
        if body.limit is not None or body.offset:
            raise unsupported(
                query,
                "LIMIT or OFFSET in a subquery",
                "create a view of the inner query and select from that",
            )
        return body


def filtered(plan: Plan, clause: Clause, condition: Scalar) -> Plan:
    """The rows of ``plan`` for which a clause's condition is TRUE."""
    return Filter(applied(plan, clause.nested), condition)


def applied(plan: Plan, nested: Sequence[Nested]) -> Plan:
    """``plan`` extended by the values of nested queries, if there are any."""
    return Apply(plan, tuple(nested)) if nested else plan


AGGREGATE_NODES = (exp.AggFunc, exp.Filter, exp.WithinGroup)
AGGREGATE_OPS: dict[type[exp.Expr], AggregateOp] = {
    exp.Count: "count",
    exp.CountIf: "count",
    exp.Sum: "sum",
    exp.Avg: "avg",
    exp.Min: "min",
    exp.Max: "max",
    exp.LogicalAnd: "min",
    exp.LogicalOr: "max",
    exp.Stddev: "stddev_samp",
    exp.StddevSamp: "stddev_samp",
    exp.StddevPop: "stddev_pop",
    exp.Variance: "var_samp",
    exp.VariancePop: "var_pop",
}
KNOWN = (
    "there are count, sum, avg, min, max, stddev, variance, covariance, regression, max_by, min_by,"
    " percentiles, median and mode"
)
HINTS: dict[type[exp.Expr], str] = {
    exp.GroupConcat: "a text of a group's values changes as a whole with each of them; select the rows, and "
    "put them together where they are read",
}
"""Why not, for aggregates that ask for more than a value."""


class Aggregates:
    """The aggregates of one SELECT block; equal calls share a variable."""

    def __init__(self, context: Context, scope: Scope, grouped: bool) -> None:
        self.context = context
        self.scope = scope
        self.grouped = grouped
        self.arguments = Clause("the argument of an aggregate", context, scope)
        self.calls: dict[AggregateCall, Var] = {}

    def variable(self, node: exp.Expr, alias: str) -> Var:
        """The variable that holds an aggregate's value."""
        try:
            aggregate = self._call(node)
        except TypeMismatchError as error:
            raise invalid(node, str(error)) from None
        if aggregate not in self.calls:
            self.calls[aggregate] = self.context.fresh(
                alias or _stem(aggregate),
                _result_type(aggregate),
                aggregate_may_be_null(aggregate, self.grouped),
            )
        return self.calls[aggregate]

    def _call(self, node: exp.Expr) -> AggregateCall:
        """What an aggregate's text means."""
        condition: Scalar | None = None
        if isinstance(node, exp.Filter):
            condition = scalars.condition(self.arguments.scalar(node.expression.this), "FILTER")
            node = node.this
        if isinstance(node, ORDER_STATISTICS):
            return self._ordered(node, condition)
        op = AGGREGATE_OPS.get(type(node))
        if op is None:
            raise unsupported(node, f"the aggregate {_called(node)}", HINTS.get(type(node), KNOWN))
        inner, distinct = node.this, isinstance(node.this, exp.Distinct)
        if distinct and len(inner.expressions) > 1:
            if op != "count":
                raise unsupported(node, f"{op} of several columns", "aggregate one expression")
            several = [self.arguments.scalar(part) for part in inner.expressions]
            return AggregateCall(op, self._argument(node, op, _as_one(several)), True, condition)
        inner = inner.expressions[0] if distinct else inner
        if node.expressions:
            raise unsupported(node, f"{op} of several arguments", "aggregate one expression")
        if isinstance(inner, exp.Star):
            return AggregateCall(op, None, False, condition)
        argument = self._argument(node, op, self.arguments.scalar(inner))
        if isinstance(node, exp.CountIf):
            both = argument if condition is None else call("and", condition, argument)
            return AggregateCall("count", None, False, both)
        return AggregateCall(op, argument, distinct, condition)

    def _ordered(self, node: exp.Expr, condition: Scalar | None) -> AggregateCall:
        """A percentile or the mode."""
        found = order_statistic(node)
        if isinstance(found.argument, exp.Distinct):
            raise unsupported(node, f"{found.op} of DISTINCT values", "use a SELECT DISTINCT in FROM")
        argument = self._argument(node, found.op, self.arguments.scalar(found.argument))
        return AggregateCall(found.op, argument, False, condition, found.share, found.descending)

    def _argument(self, node: exp.Expr, op: AggregateOp, argument: Scalar) -> Scalar:
        """The argument with the type that the aggregate works on."""
        read = {var.name for var in variables(argument)}
        produced = self.scope.variables() | {nested.output.name for nested in self.arguments.nested}
        if read and not read & produced:
            raise unsupported(
                node,
                f"{op} over columns of an outer query only",
                "compute it in a derived table of the outer query",
            )
        if isinstance(node, exp.CountIf | exp.LogicalAnd | exp.LogicalOr):
            return scalars.condition(argument, op)
        if op in ("count", "min", "max", "mode"):
            return argument
        if op == "percentile_disc" and argument.type in (DATE, TIMESTAMP):
            return argument
        if argument.type in (VARCHAR, NULL):
            return scalars.cast(argument, DOUBLE)
        if not argument.type.is_numeric:
            raise TypeMismatchError(f"{op} needs numbers, got {argument.type}")
        return argument


def _as_one(parts: Sequence[Scalar]) -> Scalar:
    """A text that is the same for the same values alone: ``3:abcd`` for abc and d; NULL if one of them is."""
    texts = [scalars.cast(part, VARCHAR) for part in parts]
    sized = [
        piece
        for text in texts[:-1]
        for piece in (scalars.cast(call("length", text, type=INT), VARCHAR), Const(":", VARCHAR), text)
    ]
    return call("concat", *sized, texts[-1], type=VARCHAR)


def _called(node: exp.Expr) -> str:
    """The name of an aggregate function."""
    function = node.this if isinstance(node, exp.Filter) else node
    return function.sql_name().lower() if isinstance(function, exp.Func) else type(function).__name__


def _result_type(aggregate: AggregateCall) -> Type:
    argument = aggregate.argument.type if aggregate.argument is not None else BIGINT
    match aggregate.op:
        case "count":
            return BIGINT
        case "sum":
            return sum_type(argument)
        case "avg":
            return avg_type(argument)
        case "min" | "max" | "percentile_disc" | "mode":
            return argument
        case _:
            return DOUBLE


def _stem(aggregate: AggregateCall) -> str:
    argument = aggregate.argument
    return f"{aggregate.op}_{argument.name}" if isinstance(argument, Var) else aggregate.op


def common_type(types: Sequence[Type], node: exp.Expr, what: str) -> Type:
    """The type in which several meet, with the place in the error."""
    try:
        return widest(types, what)
    except TypeMismatchError as error:
        raise invalid(node, str(error)) from None
