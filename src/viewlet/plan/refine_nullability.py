"""Which variables cannot be NULL, after all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import assert_never

from viewlet.core.scalar import Scalar, Var, nullable, substitute, variables
from viewlet.plan.conditions import not_null_after
from viewlet.plan.facts import aggregate_may_be_null, has_one_row, set_may_be_null
from viewlet.plan.nodes import (
    Aggregate,
    Apply,
    Distinct,
    ExistsQuery,
    Filter,
    Join,
    Nested,
    Plan,
    Project,
    QuantifiedQuery,
    Query,
    ScalarQuery,
    Scan,
    SetOperation,
    Top,
    Unit,
)
from viewlet.plan.scope import outputs
from viewlet.plan.traverse import over_aggregate, over_scalars

Known = Mapping[str, Var]


def refine_nullability(query: Query) -> Query:
    """``x`` is not NULL above ``σ[x = y]``, above an inner join that was an outer one, and in what they feed.

    A variable is the same whether or not it may be NULL, so the query stays equal; but ``is_null(x)`` folds
    to FALSE, ``count(x)`` becomes ``count(*)``, and later stages keep no counters of NULLs.
    """
    plan, known = _refine(query.plan, {})
    return Query(plan, tuple((name, known.get(var.name, var)) for name, var in query.columns))


def _reading(scalar: Scalar, known: Known) -> Scalar:
    """The scalar over variables as they are known here."""
    return substitute(scalar, {var.name: known[var.name] for var in variables(scalar) if var.name in known})


def _named(*variables: Var) -> dict[str, Var]:
    return {var.name: var for var in variables}


def _set(var: Var, may_be_null: bool) -> Var:
    return Var(var.name, var.type, may_be_null)


def _filtered(known: Known, condition: Scalar) -> dict[str, Var]:
    """What is known of the rows that pass a condition."""
    sure = not_null_after(condition)
    return {name: _set(var, var.nullable and name not in sure) for name, var in known.items()}


def _padded(known: Known) -> dict[str, Var]:
    return {name: _set(var, True) for name, var in known.items()}


def _refine(plan: Plan, outer: Known) -> tuple[Plan, dict[str, Var]]:
    """The plan, and what is known of the variables of its rows; ``outer`` is known of those around it."""
    match plan:
        case Unit() | Scan():
            return plan, _named(*outputs(plan))
        case Filter(below, condition):
            inner, known = _refine(below, outer)
            condition = _reading(condition, {**outer, **known})
            return Filter(inner, condition), _filtered(known, condition)
        case Distinct(below):
            inner, known = _refine(below, outer)
            return Distinct(inner), known
        case Top(below):
            inner, known = _refine(below, outer)
            return over_scalars(replace(plan, input=inner), lambda s: _reading(s, known)), known
        case Project(below, columns):
            inner, known = _refine(below, outer)
            visible = {**outer, **known}
            read = [(var, _reading(scalar, visible)) for var, scalar in columns]
            defined = tuple((_set(var, nullable(scalar)), scalar) for var, scalar in read)
            return Project(inner, defined), _named(*(var for var, _ in defined))
        case Aggregate():
            return _refine_aggregate(plan, outer)
        case Join():
            return _refine_join(plan, outer)
        case SetOperation():
            return _refine_set_operation(plan, outer)
        case Apply(below, nested):
            inner, known = _refine(below, outer)
            refined = tuple(_refine_nested(item, {**outer, **known}) for item in nested)
            return Apply(inner, refined), {**known, **_named(*(item.output for item in refined))}
        case _:
            assert_never(plan)


def _refine_aggregate(plan: Aggregate, outer: Known) -> tuple[Plan, dict[str, Var]]:
    inner, known = _refine(plan.input, outer)
    visible = {**outer, **known}
    read = [(var, _reading(scalar, visible)) for var, scalar in plan.groups]
    groups = tuple((_set(var, nullable(scalar)), scalar) for var, scalar in read)
    calls = [(var, over_aggregate(call, lambda s: _reading(s, visible))) for var, call in plan.aggregates]
    aggregates = tuple((_set(var, aggregate_may_be_null(call, bool(groups))), call) for var, call in calls)
    refined = Aggregate(inner, groups, aggregates)
    return refined, _named(*outputs(refined))


def _refine_join(plan: Join, outer: Known) -> tuple[Plan, dict[str, Var]]:
    left, ours = _refine(plan.left, outer)
    right, theirs = _refine(plan.right, {**outer, **ours})
    condition = _reading(plan.condition, {**outer, **ours, **theirs})
    refined = Join(plan.kind, left, right, condition)
    match plan.kind:
        case "inner":
            return refined, _filtered({**ours, **theirs}, condition)
        case "left":
            return refined, {**ours, **_padded(theirs)}
        case "full":
            return refined, _padded({**ours, **theirs})


def _refine_set_operation(plan: SetOperation, outer: Known) -> tuple[Plan, dict[str, Var]]:
    left, ours = _refine(plan.left, outer)
    right, theirs = _refine(plan.right, outer)
    pairs = [(ours[a.name], theirs[b.name]) for a, b in zip(outputs(left), outputs(right), strict=True)]
    columns = tuple(
        _set(column, set_may_be_null(plan.kind, a, b))
        for column, (a, b) in zip(plan.columns, pairs, strict=True)
    )
    return replace(plan, left=left, right=right, columns=columns), _named(*columns)


def _refine_nested(nested: Nested, visible: Known) -> Nested:
    query, known = _refine(nested.query, visible)
    values = [known[var.name] for var in outputs(query)]
    match nested:
        case ScalarQuery(output):
            return ScalarQuery(_set(output, values[0].nullable or not has_one_row(query)), query)
        case ExistsQuery(output):
            return ExistsQuery(output, query)
        case QuantifiedQuery(output, op, operands):
            read = tuple(_reading(operand, visible) for operand in operands)
            may_be_null = any(nullable(scalar) for scalar in (*read, *values))
            return QuantifiedQuery(_set(output, may_be_null), op, read, query)
        case _:
            assert_never(nested)
