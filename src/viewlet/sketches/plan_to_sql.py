"""Plans as SQL text, for the database that holds the data.

One SELECT per node, columns named after variables; every database flattens that. Only functions that mean
the same in all databases are written; others are refused, so that a sketch never rests on a guess.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias, assert_never

from sqlglot import exp

from viewlet.core.calendar import show_date, show_timestamp
from viewlet.core.casts import as_decimal
from viewlet.core.scalar import TRUE, Call, Const, Scalar, Var
from viewlet.core.types import Kind, Type, Value
from viewlet.plan.nodes import (
    Aggregate,
    AggregateCall,
    Apply,
    Distinct,
    ExistsQuery,
    Filter,
    Join,
    Nested,
    Plan,
    Project,
    QuantifiedQuery,
    ScalarQuery,
    Scan,
    SetOperation,
    SortKey,
    Top,
    Unit,
)
from viewlet.plan.scope import outputs
from viewlet.sketches.errors import SketchError

Source: TypeAlias = Callable[[Scan], exp.Select]
"""The rows of a scan: a SELECT whose columns are the scan's variables."""

_BINARY: dict[str, type[exp.Binary]] = {
    "=": exp.EQ,
    "<>": exp.NEQ,
    "<": exp.LT,
    "<=": exp.LTE,
    ">": exp.GT,
    ">=": exp.GTE,
    "==": exp.NullSafeEQ,
    "+": exp.Add,
    "-": exp.Sub,
    "*": exp.Mul,
    "like": exp.Like,
}
_CALLS = {
    "abs": exp.Abs,
    "lower": exp.Lower,
    "upper": exp.Upper,
    "year": exp.Year,
    "quarter": exp.Quarter,
    "month": exp.Month,
    "day": exp.Day,
}
_SETS: dict[str, tuple[type[exp.SetOperation], bool]] = {
    "union_all": (exp.Union, False),
    "union": (exp.Union, True),
    "intersect": (exp.Intersect, True),
    "intersect_all": (exp.Intersect, False),
    "except": (exp.Except, True),
    "except_all": (exp.Except, False),
}


def plan_to_sql(plan: Plan, source: Source) -> exp.Query:
    """The query whose rows are the plan's, columns in the order of its outputs."""
    match plan:
        case Unit():
            return exp.select("1 AS unit")
        case Scan():
            return source(plan)
        case Filter(inner, condition):
            return _over(inner, source, outputs(plan)).where(scalar_to_sql(condition))
        case Project(inner, columns):
            listed = [_named(scalar_to_sql(scalar), var) for var, scalar in columns]
            return exp.select(*(listed or [exp.alias_(exp.Literal.number(1), "unit")])).from_(
                _derived(inner, source)
            )
        case Join(kind, left, right, condition):
            joined = exp.select(*(_column(var) for var in outputs(plan))).from_(_derived(left, source))
            if kind == "inner" and condition == TRUE:
                return joined.join(_derived(right, source), join_type="cross")
            return joined.join(_derived(right, source), on=scalar_to_sql(condition), join_type=kind)
        case Aggregate():
            return _aggregate(plan, source)
        case Distinct(inner):
            return _over(inner, source, outputs(plan)).distinct()
        case SetOperation():
            return _set_operation(plan, source)
        case Apply(inner, nested):
            values = [_named(_nested(item, source), item.output) for item in nested]
            return _over(inner, source, outputs(inner)).select(*values)
        case Top(inner, keys, limit, offset):
            return _top(_over(inner, source, outputs(plan)), keys, limit, offset)
        case _:
            assert_never(plan)


def _over(inner: Plan, source: Source, columns: Sequence[Var]) -> exp.Select:
    return exp.select(*[_column(var) for var in columns]).from_(_derived(inner, source))


def _derived(plan: Plan, source: Source) -> exp.Subquery:
    # The alias says nothing, but must be unique: variables are unique, so the columns need no qualifier.
    variables = outputs(plan)
    return plan_to_sql(plan, source).subquery(
        f"of_{variables[0].name}" if variables else "of_unit", copy=False
    )


def _named(expression: exp.Expr, var: Var) -> exp.Expr:
    return exp.alias_(expression, var.name, quoted=True)


def _column(var: Var) -> exp.Column:
    return exp.column(var.name, quoted=True)


def _aggregate(plan: Aggregate, source: Source) -> exp.Select:
    groups = [(var, scalar_to_sql(scalar)) for var, scalar in plan.groups]
    listed = [_named(expression, var) for var, expression in groups]
    listed += [_named(_typed(_aggregate_call(call), call, var.type), var) for var, call in plan.aggregates]
    select = exp.select(*(listed or [exp.alias_(exp.Literal.number(1), "unit")])).from_(
        _derived(plan.input, source)
    )
    return select.group_by(*(expression.copy() for _, expression in groups)) if groups else select


def _typed(expression: exp.Expr, call: AggregateCall, kind: Type) -> exp.Expr:
    """A sum in the width that the plan says, whatever the database makes of it."""
    return exp.cast(expression, type_to_sql(kind)) if call.op == "sum" else expression


def _aggregate_call(call: AggregateCall) -> exp.Expr:
    argument: exp.Expr = exp.Star() if call.argument is None else scalar_to_sql(call.argument)
    if call.distinct:
        argument = exp.Distinct(expressions=[argument])
    kinds: dict[str, type[exp.AggFunc]] = {
        "count": exp.Count,
        "sum": exp.Sum,
        "avg": exp.Avg,
        "min": exp.Min,
        "max": exp.Max,
        "var_pop": exp.VariancePop,
        "var_samp": exp.Variance,
        "stddev_pop": exp.StddevPop,
        "stddev_samp": exp.StddevSamp,
    }
    function = kinds[call.op](this=argument)
    if call.filter is None:
        return function
    return exp.Filter(this=function, expression=exp.Where(this=scalar_to_sql(call.filter)))


def _set_operation(plan: SetOperation, source: Source) -> exp.Select:
    """Columns meet by position: the sides are renamed to the new variables."""
    kind, distinct = _SETS[plan.kind]
    sides = [
        exp.select(
            *(_named(_column(old), new) for old, new in zip(outputs(side), plan.columns, strict=True))
        ).from_(_derived(side, source))
        for side in (plan.left, plan.right)
    ]
    both = kind(this=sides[0], expression=sides[1], distinct=distinct)
    alias = f"of_{plan.columns[0].name}" if plan.columns else "of_unit"
    return exp.select(*(_column(var) for var in plan.columns)).from_(both.subquery(alias))


def _nested(nested: Nested, source: Source) -> exp.Expr:
    query = plan_to_sql(nested.query, source)
    match nested:
        case ScalarQuery():
            return exp.Subquery(this=query)
        case ExistsQuery():
            return exp.Exists(this=query)
        case QuantifiedQuery(_, "=", operands):
            listed = [scalar_to_sql(operand) for operand in operands]
            left = listed[0] if len(listed) == 1 else exp.Tuple(expressions=listed)
            return exp.In(this=left, query=exp.Subquery(this=query))
        case QuantifiedQuery(_, op, _):
            raise SketchError(f"the comparison {op} ANY (query) is not written as SQL; use EXISTS")
        case _:
            assert_never(nested)


def _top(select: exp.Select, keys: Sequence[SortKey], limit: int | None, offset: int) -> exp.Select:
    for key in keys:
        ordered = exp.Ordered(
            this=scalar_to_sql(key.scalar), desc=key.descending, nulls_first=key.nulls_first
        )
        select = select.order_by(ordered)
    if limit is not None:
        select = select.limit(limit)
    return select.offset(offset) if offset else select


def scalar_to_sql(scalar: Scalar) -> exp.Expr:
    """A scalar over variables as columns."""
    match scalar:
        case Const(value, kind):
            return literal(value, kind)
        case Var():
            return _column(scalar)
        case Call(op, args):
            return _call(scalar, op, [scalar_to_sql(arg) for arg in args])
        case _:
            assert_never(scalar)


def _call(scalar: Call, op: str, args: list[exp.Expr]) -> exp.Expr:
    if op in ("and", "or"):
        # In parentheses of its own: what stands around it, NOT or IS NULL, may bind more tightly.
        return exp.paren((exp.and_ if op == "and" else exp.or_)(*args, copy=False), copy=False)
    if op in _BINARY:
        return exp.paren(_BINARY[op](this=args[0], expression=args[1]), copy=False)
    if op in _CALLS:
        return exp.cast(_CALLS[op](this=args[0]), type_to_sql(scalar.type))
    match op, args:
        case "not", [arg]:
            return exp.paren(exp.Not(this=arg), copy=False)
        case "neg", [arg]:
            return exp.paren(exp.Neg(this=exp.paren(arg, copy=False)), copy=False)
        case "is_null", [arg]:
            return exp.paren(exp.Is(this=arg, expression=exp.Null()), copy=False)
        case "is_true", [arg]:
            return exp.Coalesce(this=arg, expressions=[exp.false()])
        case "in", [arg, *items]:
            return exp.paren(exp.In(this=arg, expressions=items), copy=False)
        case "coalesce", [arg, *rest]:
            return exp.Coalesce(this=arg, expressions=rest)
        case "cast", [arg] if _safe_cast(scalar.args[0].type, scalar.type):
            return exp.cast(arg, type_to_sql(scalar.type))
        case "/", [left, right] if scalar.type.kind is Kind.DOUBLE:
            double = type_to_sql(scalar.type)
            return exp.paren(
                exp.Div(this=exp.cast(left, double), expression=exp.cast(right, double), typed=False),
                copy=False,
            )
        case "case", _:
            branches = [
                exp.If(this=when, true=then) for when, then in zip(args[0::2], args[1::2], strict=False)
            ]
            return exp.Case(ifs=branches, default=args[-1] if len(args) % 2 else None)
        case "substring", [text, start, *rest]:
            return exp.Substring(this=text, start=start, length=rest[0] if rest else None)
        case "concat", _:
            joined = args[0]
            for arg in args[1:]:
                joined = exp.DPipe(this=joined, expression=arg)
            return exp.paren(joined, copy=False)
    raise SketchError(
        f"the function {op} over {', '.join(str(a.type) for a in scalar.args)} does not mean the same "
        "in every database, so no sketch is built on it; compute it in a column"
    )


def _safe_cast(source: Type, target: Type) -> bool:
    """Casts that no database rounds: to a wider number, between text-free types of one family."""
    if source.is_integer and (target.is_numeric):
        return True
    if source.kind is Kind.DECIMAL:
        return target.is_floating or (target.kind is Kind.DECIMAL and target.scale >= source.scale)
    return (source.kind, target.kind) in {
        (Kind.FLOAT, Kind.DOUBLE),
        (Kind.DATE, Kind.TIMESTAMP),
        (Kind.NULL, target.kind),
    }


def literal(value: Value, kind: Type) -> exp.Expr:
    """A physical value as a literal of its type."""
    if value is None:
        return exp.cast(exp.Null(), type_to_sql(kind))
    match kind.kind:
        case Kind.BOOLEAN:
            return exp.true() if value else exp.false()
        case Kind.DECIMAL:
            return exp.cast(exp.Literal.string(f"{as_decimal(int(value), kind.scale):f}"), type_to_sql(kind))
        case Kind.DATE:
            return exp.cast(exp.Literal.string(show_date(int(value))), type_to_sql(kind))
        case Kind.TIMESTAMP:
            return exp.cast(exp.Literal.string(show_timestamp(int(value))), type_to_sql(kind))
        case Kind.VARCHAR:
            return exp.Literal.string(value)
        case Kind.FLOAT | Kind.DOUBLE:
            return exp.cast(exp.Literal.string(repr(float(value))), type_to_sql(kind))
        case _:
            number = exp.Literal.number(abs(int(value)))
            return exp.paren(exp.Neg(this=number)) if int(value) < 0 else number


def type_to_sql(kind: Type) -> exp.DataType:
    """A column type."""
    if kind.kind is Kind.DECIMAL:
        return exp.DataType.build(f"DECIMAL({kind.precision}, {kind.scale})")
    return exp.DataType.build(kind.kind.value if kind.kind is not Kind.NULL else "INT")
